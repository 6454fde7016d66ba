//! `turnwright webhooks`, and what becomes of deliveries when the server is killed.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tw_egress::env::Env;
use tw_egress::webhook_signature::{SignedHeaders, SigningSecret, verify};
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_at_most;

use crate::process::{ServerProcess, create_key, key_of, serve, stderr, turnwright};

const PLAIN: &str = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\
                     \"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}";
/// Polls that start a process each.
const POLLS_MAX: u32 = 2_000;

/// A data folder with a key, and a config that lets webhooks reach a receiver.
struct Site {
    _folder: TempDir,
    data: PathBuf,
    config: PathBuf,
    key: String,
    upstream: Listener,
}

impl Site {
    async fn reaching(receiver: &Listener) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let config = folder.path().join("turnwright.toml");
        let place = receiver.url("").replace("http://", "");
        std::fs::write(&config, format!("[[egress.allow]]\nplace = {place:?}\n")).unwrap();
        let key = key_of(&create_key(&data, &[]));
        let upstream = Listener::in_turn(vec![ListenerReply::json(PLAIN)])
            .await
            .unwrap();
        Self {
            _folder: folder,
            data,
            config,
            key,
            upstream,
        }
    }

    fn serve(&self) -> Command {
        let mut command = serve(&self.data, &self.upstream);
        command.arg("--config").arg(&self.config);
        command
    }

    fn start(&self, command: Command) -> (ServerProcess, TestClient) {
        let server = ServerProcess::start(command, &self.data);
        let client = TestClient {
            key: Some(self.key.clone()),
            ..server.client.clone()
        };
        (server, client)
    }

    fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = turnwright();
        command.arg("webhooks").args(words);
        command.arg("--data").arg(&self.data);
        command.arg("--config").arg(&self.config);
        let output = command.output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(stderr(&output))
        }
    }

    /// The id and the secret of a webhook that is made.
    fn make(&self, words: &[&str]) -> (String, String) {
        let made = self.run(&[&["create"], words].concat()).unwrap();
        let (id, secret) = made.trim_end().split_once(' ').unwrap();
        (id.to_owned(), secret.to_owned())
    }

    async fn delivered(&self, id: &str) -> Vec<String> {
        poll_at_most(POLLS_MAX, "a delivery that was delivered", async || {
            let listed = self.run(&["deliveries", id]).unwrap();
            let rows: Vec<String> = listed.lines().skip(1).map(str::to_owned).collect();
            let all_are = rows.iter().all(|row| row.contains(" delivered "));
            (!rows.is_empty() && all_are).then_some(rows)
        })
        .await
    }
}

async fn ask(client: &TestClient) -> bool {
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    client.chat(&body).await.is_ok_and(|got| got.status == 200)
}

fn taken() -> ListenerReply {
    ListenerReply::status(204, "")
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_managed_by_commands_beside_a_server_that_runs() {
    let receiver = Listener::in_turn(vec![ListenerReply::status(410, ""), taken()]);
    let receiver = receiver.await.unwrap();
    let site = Site::reaching(&receiver).await;
    let (_server, client) = site.start(site.serve());
    let url = receiver.url("/told");
    let words = [
        url.as_str(),
        "--events",
        "turn.completed",
        "--description",
        "billing",
    ];
    let (id, secret) = site.make(&words);
    let listed = site.run(&["list"]).unwrap();
    for part in [&id, "enabled", "turn.completed", "none", &url, "billing"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!listed.contains("whsec_"), "{listed}");
    assert!(ask(&client).await);
    receiver.asked_times(1).await;
    poll_at_most(POLLS_MAX, "a webhook that is gone", async || {
        site.run(&["list"])
            .unwrap()
            .contains("disabled (gone)")
            .then_some(())
    })
    .await;
    let dead = site.run(&["deliveries", &id, "--state", "dead"]).unwrap();
    assert_eq!(dead.lines().count(), 2, "{dead}");
    let refused = site.run(&["replay", &id, "--dead"]).unwrap_err();
    assert!(refused.contains("disabled"), "{refused}");
    assert_eq!(
        site.run(&["enable", &id]).unwrap(),
        format!("enabled {id}\n")
    );
    assert_eq!(
        site.run(&["replay", &id, "--dead"]).unwrap(),
        "1 sent again\n"
    );
    assert_eq!(site.delivered(&id).await.len(), 1);
    let sent = receiver.asked().pop().unwrap();
    let headers = SignedHeaders {
        id: Some(sent.header("webhook-id")),
        timestamp: Some(sent.header("webhook-timestamp")),
        signature: Some(sent.header("webhook-signature")),
    };
    let secrets = [SigningSecret::parse(&secret).unwrap()];
    let now_s = Env::system().now().seconds();
    assert_eq!(verify(&secrets, headers, now_s, &sent.body), Ok(()));
    let event = sent.header("webhook-id").to_owned();
    assert_eq!(
        site.run(&["replay", &id, &event]).unwrap(),
        "1 sent again\n"
    );
    receiver.asked_times(3).await;
    let rotated = site.run(&["rotate", &id, "--overlap-s", "0"]).unwrap();
    assert!(rotated.starts_with("whsec_") && rotated.trim_end() != secret);
    let test = site.run(&["test", &id]).unwrap();
    receiver.asked_times(4).await;
    assert_eq!(receiver.asked()[3].header("webhook-id"), test.trim_end());
    assert_eq!(
        site.run(&["disable", &id]).unwrap(),
        format!("disabled (by_hand) {id}\n")
    );
    assert_eq!(
        site.run(&["delete", &id]).unwrap(),
        format!("deleted {id}\n")
    );
    assert!(
        site.run(&["test", &id])
            .unwrap_err()
            .contains("no such webhook")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said() {
    let receiver = Listener::in_turn(vec![taken()]).await.unwrap();
    let site = Site::reaching(&receiver).await;
    let url = receiver.url("/");
    let rows: [(&[&str], &str); 8] = [
        (
            &["create", "http://example.com/"],
            "url: must begin with https",
        ),
        (
            &["create", "https://10.0.0.1/"],
            "url: may not be reached from here",
        ),
        (
            &["create", &url, "--events", "turn.begun"],
            "is none of turn.completed",
        ),
        (
            &["create", &url, "--organization", "nobody"],
            "no organization",
        ),
        (&["test", "hook"], "is no id of a webhook"),
        (
            &["test", "01890000-0000-7000-8000-000000000000"],
            "no such webhook",
        ),
        (
            &["replay", "01890000-0000-7000-8000-000000000000"],
            "<DELIVERY>",
        ),
        (
            &[
                "deliveries",
                "01890000-0000-7000-8000-000000000000",
                "--state",
                "lost",
            ],
            "is none of",
        ),
    ];
    for (words, said) in rows {
        let error = site.run(words).unwrap_err();
        assert!(error.contains(said), "{words:?}: {error}");
    }
}

fn rows_of(data: &Path) -> i64 {
    let database = rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let count = "SELECT count(*) FROM webhook_delivery";
    database.query_row(count, [], |row| row.get(0)).unwrap()
}

/// The server dies before the turn's end is written, just after it, and while the receiver has not answered yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_is_told_wherever_the_server_is_killed() {
    for point in ["before_turn_end", "after_turn_end"] {
        let receiver = Listener::in_turn(vec![taken()]).await.unwrap();
        let site = Site::reaching(&receiver).await;
        let (id, _) = site.make(&[&receiver.url("/")]);
        let mut command = site.serve();
        command.env("TURNWRIGHT_FAIL_POINT", point);
        let (mut server, client) = site.start(command);
        let answered = ask(&client).await;
        assert_eq!(server.end(), (None, String::new()), "{point}");
        let told = rows_of(&site.data);
        assert_eq!(told, i64::from(point == "after_turn_end"), "{point}");
        assert!(!answered || told == 1, "{point}");
        let (_server, _client) = site.start(site.serve());
        assert_eq!(site.delivered(&id).await.len(), 1, "{point}");
        let ids = receiver.asked();
        let first = ids[0].header("webhook-id");
        assert!(
            ids.iter().all(|one| one.header("webhook-id") == first),
            "{point}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_and_not_noted_is_sent_again_under_its_id() {
    let hangs = ListenerReply::pieces("text/plain", vec![ReplyPiece::HeadGate("never")]);
    let receiver = Listener::in_turn(vec![hangs, taken()]).await.unwrap();
    let site = Site::reaching(&receiver).await;
    let (id, _) = site.make(&[&receiver.url("/")]);
    let (mut server, client) = site.start(site.serve());
    assert!(ask(&client).await);
    receiver.asked_times(1).await;
    server.kill();
    let (_server, _client) = site.start(site.serve());
    let rows = site.delivered(&id).await;
    assert!(rows.len() == 1 && rows[0].contains(" 2 "), "{rows:?}");
    let sent = receiver.asked();
    assert_eq!(sent[0].header("webhook-id"), sent[1].header("webhook-id"));
    assert_eq!(sent[0].body, sent[1].body);
}
