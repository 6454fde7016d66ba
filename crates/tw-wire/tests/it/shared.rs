//! Recorded answers of upstreams, which are kept beside the repository.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::Value;

/// One recorded answer and what is known of it.
pub struct Recording {
    pub file: String,
    pub bytes: Vec<u8>,
    pub is_stream: bool,
    pub http_status: u16,
    /// `expect` of the manifest.
    pub expect: Value,
}

/// The recordings of a kind; empty, with a line that says so, where there are none.
///
/// `TURNWRIGHT_SHARED` names the folder; with `TURNWRIGHT_REQUIRE=1` a missing one is a failure.
pub fn recordings(kind: &str) -> Vec<Recording> {
    let folder = env::var_os("TURNWRIGHT_SHARED")
        .map_or_else(default_folder, PathBuf::from)
        .join("streams");
    let Ok(manifest) = fs::read(folder.join("manifest.json")) else {
        assert!(
            env::var("TURNWRIGHT_REQUIRE").as_deref() != Ok("1"),
            "no recordings at {}",
            folder.display()
        );
        // Not by a print macro, whose output the test runner hides.
        let _ = writeln!(
            std::io::stderr(),
            "left out: no recordings at {}",
            folder.display()
        );
        return Vec::new();
    };
    let manifest: Value = serde_json::from_slice(&manifest).expect("the manifest is JSON");
    let streams = manifest["streams"]
        .as_array()
        .expect("the manifest lists streams");
    streams
        .iter()
        .filter(|entry| entry["kind"] == kind)
        .map(|entry| read(&folder, entry))
        .collect()
}

fn default_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")
}

fn read(folder: &Path, entry: &Value) -> Recording {
    let file = entry["file"]
        .as_str()
        .expect("an entry names its file")
        .to_owned();
    Recording {
        bytes: fs::read(folder.join(&file)).expect("the file of an entry is there"),
        is_stream: entry["stream"] == true,
        http_status: entry["http_status"]
            .as_u64()
            .and_then(|status| status.try_into().ok())
            .unwrap_or(200),
        expect: entry["expect"].clone(),
        file,
    }
}

pub fn chat_streams() -> Vec<Recording> {
    let mut chat = recordings("openai.chat.completions");
    chat.retain(|recording| recording.is_stream);
    chat
}
