//! A log that cannot be written, and a reader of standard output that ends.

use std::fs::File;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::process::{ServerProcess, create_key, key_of, serve, turnwright};

/// More lines than a pipe holds; each failing request is one at least.
const REQUESTS: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Log {
    /// What read it has ended.
    Closed,
    /// A pipe that nobody reads.
    Unread,
    DiskFull,
}

fn answer() -> ListenerReply {
    let message = json!({ "role": "assistant", "content": "Hi" });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    ListenerReply::json(json!({ "choices": [choice] }).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_holds_no_turn_up() {
    for log in [Log::Closed, Log::Unread, Log::DiskFull] {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let upstream = Listener::start(|_| answer()).await.unwrap();
        let mut command = serve(&data, &upstream);
        command.env("RUST_LOG", "trace");
        match log {
            Log::Closed | Log::Unread => command.stderr(Stdio::piped()),
            Log::DiskFull => {
                let full = File::options().write(true).open("/dev/full").unwrap();
                command.stderr(full)
            }
        };
        let mut server = ServerProcess::start_with_log(command, &data);
        if log == Log::Closed {
            server.close_log();
        }
        let client = TestClient {
            key: Some(key_of(&create_key(&data, &["--scope", "admin"]))),
            ..server.client.clone()
        };
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
        let body = body.to_string();
        for at in 0..REQUESTS {
            let path = "/v1/chat/completions";
            let got = client.send("POST", path, &[], body.clone()).await.unwrap();
            assert_eq!(got.status, 200, "{log:?}, request {at}: {}", got.text());
        }
        let health = client.send("GET", "/healthz", &[], "").await.unwrap();
        assert_eq!(health.status, 200, "{log:?}");
        let metrics = client
            .send("GET", "/metrics", &[], "")
            .await
            .unwrap()
            .text();
        let completed = format!(
            "turnwright_turns_ended_total{{status=\"completed\",reason=\"none\"}} {REQUESTS}"
        );
        assert!(metrics.contains(&completed), "{log:?}: {metrics}");
        // How much waits behind the unread pipe depends on how much is told.
        let nothing_is_lost = metrics.contains("turnwright_log_lines_dropped_total 0\n");
        assert!(!nothing_is_lost || log == Log::Unread, "{log:?}: {metrics}");
        server.terminate();
        assert_eq!(server.end().0, Some(0), "{log:?}");
    }
}

#[test]
fn a_command_whose_reader_has_ended_ends_in_silence() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    key_of(&create_key(&data, &[]));
    let listed: [&[&str]; 3] = [
        &["keys", "list", "--data"],
        &["tools", "list", "--data"],
        &["doctor", "--data"],
    ];
    for arguments in listed {
        let mut command = turnwright();
        command.args(arguments).arg(&data);
        command.env("OPENAI_API_KEY", "sk-test");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}");
        assert!(!told.contains("panicked"), "{arguments:?}: {told}");
    }
}
