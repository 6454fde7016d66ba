//! The networks that people have, for tools: what is said of them, and to whom.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::tls_listener::{Authority, TlsListener, Validity};

use crate::process::{ServerProcess, create_key, key_of, turnwright};

/// A folder with a config whose scripted model calls the tool `act`, once.
struct ToolSite {
    folder: TempDir,
}

/// What became of the tool.
struct Acted {
    /// Of `POST …/test`: the status, and the message.
    tested: (String, String),
    /// Of a turn: the reason, and what the model was shown.
    called: (Value, String),
    log: String,
}

const SCRIPT: &str = r#"
[[rule]]
when = { last_role = "user" }
calls = [{ name = "act", arguments = {} }]

[[rule]]
text = "Done."
"#;

impl ToolSite {
    /// `settings` are tables, and may use files of the folder by their names.
    fn new(settings: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let script = folder.path().join("model.toml");
        std::fs::write(&script, SCRIPT).unwrap();
        let upstream = format!(
            "[[upstream]]\nname = \"u\"\nkind = \"scripted\"\nscript = {:?}\n",
            script.to_str().unwrap()
        );
        let text = format!("{upstream}\n{settings}");
        std::fs::write(folder.path().join("turnwright.toml"), text).unwrap();
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = turnwright();
        command.args(words).arg("--data").arg(self.data());
        let config = self.folder.path().join("turnwright.toml");
        command.arg("--config").arg(config);
        command
    }

    /// Tests and calls a tool that gets this URL.
    async fn act(&self, url: &str, environment: &[(&str, &str)]) -> Acted {
        let scopes = "chat,turns:read_all,tools:read,tools:write";
        let flags = ["--tools", "all", "--scope", scopes];
        let key = key_of(&create_key(&self.data(), &flags));
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env("RUST_LOG", "info");
        command.envs(environment.iter().copied());
        let server = ServerProcess::start(command, &self.data());
        let client = TestClient {
            key: Some(key),
            ..server.client.clone()
        };
        let tool = json!({
            "name": "act", "description": "A test's tool.", "type": "api_request", "url": url,
            "policy": { "attempts_max": 1 },
        });
        let path = "/api/default/tools";
        let made = client.send("POST", path, &[], tool.to_string()).await;
        let made = made.unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("{path}/{}/test", made.json()["id"].as_str().unwrap());
        let tested = client.send("POST", &path, &[], r#"{"dry":false}"#);
        let tested = tested.await.unwrap().json();
        let outcome = &tested["outcome"];
        let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
        let got = client.chat(&ask).await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        let path = format!("/v1/turns/{}?full=1", got.header("turnwright-turn"));
        let turn = client.send("GET", &path, &[], "").await.unwrap().json();
        let call = &turn["rounds"][0]["calls"][0];
        let text = |value: &Value| {
            value
                .as_str()
                .unwrap_or_else(|| panic!("{tested} {turn}"))
                .to_owned()
        };
        Acted {
            tested: (text(&outcome["status"]), text(&outcome["result"])),
            called: (call["reason"].clone(), text(&call["shown"])),
            log: server.log(),
        }
    }
}

impl Acted {
    /// That it was not sent for this reason, which everybody may read, and for this cause, which
    /// the operator reads.
    #[track_caller]
    fn assert_not_sent(&self, told: &str, cause: &str) {
        assert_eq!(self.tested, ("not_sent".to_owned(), told.to_owned()));
        assert_eq!(self.called.0, "not_sent");
        assert!(self.called.1.contains(told), "{}", self.called.1);
        self.assert_cause(cause);
    }

    #[track_caller]
    fn assert_cause(&self, cause: &str) {
        for event in ["a tool gave no answer", "tool tested"] {
            let line = self.log.lines().find(|line| line.contains(event));
            let line = line.unwrap_or_else(|| panic!("{}", self.log));
            assert!(line.contains(cause), "{event}: {line}");
        }
        for message in [&self.tested.1, &self.called.1] {
            assert!(!message.contains("127.0.0.1"), "{message}");
        }
    }
}

/// An authority whose certificate stands in a file of this folder.
fn authority(folder: &TempDir) -> (Authority, String) {
    let authority = Authority::new("ours").unwrap();
    let file = authority.write(folder.path(), "ca.pem").unwrap();
    let trusted = format!("[tls]\nca_file = {:?}\n", file.to_str().unwrap());
    (authority, trusted)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_of_the_network_failed_is_told_by_class_and_logged_whole() {
    let files = TempDir::new().unwrap();
    let (ours, trusted) = authority(&files);
    let expired = ours.sign(&["127.0.0.1"], Validity::Past).unwrap();
    let expired = TlsListener::start(&expired, None).await.unwrap().address;
    let closed = "127.0.0.1:1".parse().unwrap();
    for (address, told, cause) in [
        (
            expired,
            "no secure connection to the tool could be made: its certificate has expired",
            "its certificate has expired: invalid peer certificate",
        ),
        (
            closed,
            "the tool cannot be reached: it takes no connection",
            "takes no connection: Connection refused",
        ),
    ] {
        let settings = format!("{trusted}[[egress.allow]]\nplace = \"{address}\"\n");
        let site = ToolSite::new(&settings);
        let acted = site.act(&format!("https://{address}/"), &[]).await;
        acted.assert_not_sent(told, cause);
        acted.assert_cause(&address.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_does_not_exist_is_known_by_the_log_only() {
    let site = ToolSite::new("");
    let acted = site.act("https://no-such-host.invalid/", &[]).await;
    let (status, told) = &acted.tested;
    assert_eq!(status, "not_allowed");
    assert_eq!(
        told,
        "the tool's address does not exist or may not be reached from here"
    );
    acted.assert_cause("the name no-such-host.invalid has no address here");
}
