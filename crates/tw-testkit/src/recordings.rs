//! The place of other people's recordings, if they are there.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The folder `streams` of `TURNWRIGHT_SHARED`, by default `../shared` beside the workspace.
///
/// `None` when it is not there, which is said in one line. With `TURNWRIGHT_REQUIRE=1` it must be.
///
/// # Panics
/// When it is required and missing.
pub fn folder(workspace: &Path) -> Option<PathBuf> {
    let shared = std::env::var_os("TURNWRIGHT_SHARED")
        .map_or_else(|| workspace.join("../shared"), PathBuf::from);
    let streams = shared.join("streams");
    if streams.join("manifest.json").is_file() {
        return Some(streams);
    }
    let required = std::env::var("TURNWRIGHT_REQUIRE").is_ok_and(|value| value == "1");
    assert!(!required, "no recordings at {}", streams.display());
    // Not by a print macro, whose output the test runner hides.
    let _ = writeln!(
        std::io::stderr(),
        "left out: no recordings at {}",
        streams.display()
    );
    None
}
