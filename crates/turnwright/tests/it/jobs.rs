//! Jobs of a real server that is killed at each step, and `turnwright stuck`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::job_api::{JobApi, JobApiOptions, JobFault, JobState, RECORD};
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest, ReplyPiece};
use tw_testkit::polling::{poll_at_most, poll_until};

use crate::process::{ServerProcess, create_key, key_of, serve_at, stderr, turnwright};

const KEY: &str = "kie_key";
const HMAC_KEY: &str = "kie_test_key";
/// Polls that start a process each.
const POLLS_MAX: u32 = 2_000;

/// A data folder with a tool whose jobs the stand-in takes, and a place where the server always listens.
struct Site {
    _folder: TempDir,
    data: PathBuf,
    config: PathBuf,
    listen: String,
    key: String,
    upstream: Listener,
    api: JobApi,
}

/// A model that calls the tool, and then has said all.
fn answer(asked: &ReceivedRequest) -> ListenerReply {
    let request = asked.json();
    let last = request["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    let message = if last["role"] == "user" {
        let function = json!({ "name": "draw", "arguments": "{\"prompt\":\"a cat\"}" });
        let call = json!({ "id": "c0", "type": "function", "function": function });
        json!({ "role": "assistant", "content": null, "tool_calls": [call] })
    } else {
        json!({ "role": "assistant", "content": "So be it." })
    };
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    ListenerReply::json(json!({ "choices": [choice] }).to_string())
}

impl Site {
    async fn start() -> Self {
        Self::calling_back(true).await
    }

    async fn calling_back(calls_back: bool) -> Self {
        let options = JobApiOptions {
            key: KEY.to_owned(),
            hmac_key: Some(HMAC_KEY.to_owned()),
            takes: None,
            images: 1,
        };
        let api = JobApi::start(options).await.unwrap();
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let config = folder.path().join("turnwright.toml");
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = free.local_addr().unwrap().to_string();
        drop(free);
        let place = api.listener.url("").replace("http://", "");
        let secret = |name: &str, value: &str| {
            format!(
                "[secrets.{name}]\nvalue = {value:?}\norganizations = [\"default\"]\nhosts = [{place:?}]\n"
            )
        };
        let written = format!(
            "[hooks]\npublic_url = \"http://{listen}\"\n[[egress.allow]]\nplace = {place:?}\n{}{}",
            secret("KEY", KEY),
            secret("HMAC_KEY", HMAC_KEY)
        );
        std::fs::write(&config, written).unwrap();
        let mut tool = json!({
            "name": "draw", "type": "image", "api_url": api.listener.url(""),
            "key": { "secret": "KEY" }, "callbacks": calls_back, "waits": false, "every_s": [1],
        });
        if calls_back {
            tool["callback_secrets"] = json!(["HMAC_KEY"]);
        }
        let file = folder.path().join("tools.json");
        std::fs::write(&file, json!([tool]).to_string()).unwrap();
        let key = key_of(&create_key(&data, &["--tools", "all"]));
        let mut apply = turnwright();
        apply.args(["tools", "apply"]).arg(&file);
        apply.arg("--data").arg(&data).arg("--config").arg(&config);
        let applied = apply.output().unwrap();
        assert!(applied.status.success(), "{}", stderr(&applied));
        Self {
            _folder: folder,
            data,
            config,
            listen,
            key,
            upstream: Listener::start(answer).await.unwrap(),
            api,
        }
    }

    fn serve(&self) -> (ServerProcess, TestClient) {
        let mut command: Command = serve_at(&self.listen, &self.data, &self.upstream);
        command.arg("--config").arg(&self.config);
        let server = ServerProcess::start(command, &self.data);
        let client = TestClient {
            key: Some(self.key.clone()),
            ..server.client.clone()
        };
        (server, client)
    }

    fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = turnwright();
        command.arg("stuck").args(words);
        command.arg("--data").arg(&self.data);
        command.arg("--config").arg(&self.config);
        let output = command.output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(stderr(&output))
        }
    }

    /// Waits until a request to this path of the API has come.
    async fn asked(&self, path: &str) {
        let service = &self.api.listener;
        loop {
            let asked = service.asked();
            if asked.iter().any(|asked| asked.target.starts_with(path)) {
                return;
            }
            service.asked_times(asked.len() + 1).await;
        }
    }
}

/// The id of a turn that is asked for and ends by itself.
async fn ask(client: &TestClient) -> String {
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Draw" }] });
    let got = client.chat(&body).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    got.header("turnwright-turn").to_owned()
}

/// The newest turn, whose answer nobody got.
async fn newest(client: &TestClient) -> String {
    let got = client.send("GET", "/v1/calls?status=failed", &[], "").await;
    let calls = got.unwrap().json();
    calls["data"][0]["turn"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

async fn call(client: &TestClient, turn: &str) -> Value {
    let path = format!("/v1/turns/{turn}");
    let got = client.send("GET", &path, &[], "").await.unwrap();
    got.json()["rounds"][0]["calls"][0].clone()
}

async fn ended(client: &TestClient, turn: &str) -> Value {
    poll_until("the end of a call", async || {
        let call = call(client, turn).await;
        (call["status"] != "processing").then_some(call)
    })
    .await
}

fn held() -> ListenerReply {
    ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate("never")])
}

/// Each row is what is under way as the server is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_once_wherever_the_server_is_killed() {
    for step in [
        "waits",
        "is asked about",
        "is called back",
        "is copied",
        "has ended",
    ] {
        let site = Site::start().await;
        let (mut server, client) = site.serve();
        match step {
            "is asked about" => site.api.fault_record(JobFault::Reply(held())),
            "is copied" => site.api.fault_file(held()),
            _ => {}
        }
        let turn = ask(&client).await;
        let job = site.api.created().remove(0);
        match step {
            "is asked about" => site.asked(RECORD).await,
            "is called back" => {
                site.api.set(&job, JobState::Success);
                let got = site.api.callback(&job).unwrap().send().await.unwrap();
                assert_eq!(got.status, 200, "{}", got.text());
            }
            "is copied" => {
                site.api.set(&job, JobState::Success);
                site.asked("/files/").await;
            }
            "has ended" => {
                site.api.set(&job, JobState::Success);
                ended(&client, &turn).await;
            }
            _ => {}
        }
        server.kill();
        site.api.set(&job, JobState::Success);
        let (_server, client) = site.serve();
        let call = ended(&client, &turn).await;
        assert_eq!(call["status"], "completed", "{step}: {call}");
        assert_eq!(call["files"][0]["fault"], Value::Null, "{step}: {call}");
        assert_eq!(site.api.created().len(), 1, "{step}: once is once");
        let late = site.api.callback(&job).unwrap().send().await.unwrap();
        assert_eq!(late.status, 200, "{}", late.text());
    }
}

/// Nobody knows whether a job has started whose answer never came: a callback tells, and without callbacks nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_request_was_under_way_is_not_asked_for_twice() {
    for calls_back in [true, false] {
        let site = Site::calling_back(calls_back).await;
        site.api.fault_create(JobFault::CreatedAnd(held()));
        let (mut server, client) = site.serve();
        let asking = tokio::spawn(async move {
            let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Draw" }] });
            client.chat(&body).await.is_ok()
        });
        site.asked("/api/v1/jobs/createTask").await;
        server.kill();
        let _ = asking.await;
        let job = site.api.created().remove(0);
        site.api.set(&job, JobState::Success);
        let (_server, client) = site.serve();
        if calls_back {
            // Its token is in the database, whatever the answer would have said.
            let callback = site.api.callback(&job).unwrap();
            let got = poll_until("a callback that is taken", async || {
                let got = callback.send().await.ok()?;
                (got.status == 200).then_some(got)
            })
            .await;
            assert_ne!(got.json()["outcome"], "refused");
        } else {
            let turn = poll_until("a call that failed", async || {
                let turn = newest(&client).await;
                (!turn.is_empty()).then_some(turn)
            })
            .await;
            let call = ended(&client, &turn).await;
            assert_eq!(call["reason"], "outcome_unknown", "{call}");
        }
        assert_eq!(site.api.created().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_calls_are_listed_and_ended_beside_a_server_that_runs() {
    let site = Site::start().await;
    for _ in 0..1000 {
        site.api
            .fault_record(JobFault::Code(404, "The task does not exist"));
    }
    let (_server, client) = site.serve();
    let turns = [ask(&client).await, ask(&client).await];
    let all = site.run(&["--all"]).unwrap();
    assert_eq!(all.lines().count(), 3, "{all}");
    let stuck = poll_at_most(POLLS_MAX, "two calls that are stuck", async || {
        let listed = site.run(&[]).unwrap();
        (listed.lines().count() == 3).then_some(listed)
    })
    .await;
    assert!(
        stuck.contains("malformed") && stuck.contains("task_"),
        "{stuck}"
    );
    let ids: Vec<&str> = stuck
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let polled = site.run(&["poll", ids[0]]).unwrap();
    assert!(polled.contains("is asked about"), "{polled}");
    site.run(&["fail", ids[0], "no credits"]).unwrap();
    site.run(&["complete", ids[1], "a cat"]).unwrap();
    let mut shown: Vec<String> = Vec::new();
    for turn in &turns {
        let call = call(&client, turn).await;
        shown.push(call["shown"].as_str().unwrap().to_owned());
    }
    shown.sort();
    assert_eq!(shown, ["The job was ended by hand: no credits", "a cat"]);
    for (words, said) in [
        (["fail", ids[0], "again"], "no such call is open"),
        (["fail", "call", "why"], "is no call's id"),
        (["complete", ids[1], ""], "no such call is open"),
    ] {
        let error = site.run(&words).unwrap_err();
        assert!(error.contains(said), "{words:?}: {error}");
    }
}
