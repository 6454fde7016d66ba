//! Several servers on one database.

mod load;
mod nats;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_postgres::Client;
use tw_testkit::client::{OpenAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;
use tw_testkit::postgres::PostgresSchema;

use crate::process::{ServerProcess, create_key, key_of, serve, stderr, turnwright};

const CALL: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":
    [{"id":"call_1","type":"function","function":{"name":"calculate","arguments":"{\"expression\":\"6*7\"}"}}]},
    "finish_reason":"tool_calls"}]}"#;
const PLAIN: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"42"},"finish_reason":"stop"}]}"#;

/// Long enough for a busy machine to renew it in.
const LEASE_S: u64 = 5;
/// Within which others see what was changed on one.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// A database, and what its servers have in common.
struct Cluster {
    schema: PostgresSchema,
    folder: TempDir,
    upstream: Listener,
    key: String,
    database: Client,
}

impl Cluster {
    /// `None` where there is no PostgreSQL.
    async fn on(upstream: Listener, settings: &str) -> Option<Self> {
        let schema = PostgresSchema::create().await?;
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("turnwright.toml");
        std::fs::write(config, settings).unwrap();
        let flags = ["--tools", "all", "--scope", "admin", "--store", &schema.url];
        let key = key_of(&create_key(&folder.path().join("keys"), &flags));
        let database = schema.client().await;
        Some(Self {
            schema,
            folder,
            upstream,
            key,
            database,
        })
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server with a folder of this name.
    fn start(&self, name: &str) -> ServerProcess {
        let data = self.data(name);
        let mut command = serve(&data, &self.upstream);
        command.args(["--store", &self.schema.url, "--config"]);
        command.arg(self.folder.path().join("turnwright.toml"));
        ServerProcess::start(command, &data)
    }

    fn client(&self, server: &ServerProcess) -> TestClient {
        TestClient {
            key: Some(self.key.clone()),
            ..server.client.clone()
        }
    }

    /// Asks without waiting for the answer.
    fn ask(&self, server: &ServerProcess) -> tokio::task::JoinHandle<Option<Value>> {
        let client = self.client(server);
        tokio::spawn(async move {
            let answer = client.chat(&question()).await.ok()?;
            (!answer.broken).then(|| answer.json())
        })
    }

    async fn number(&self, sql: &str) -> i64 {
        let row = self.database.query_one(sql, &[]).await.unwrap();
        row.get(0)
    }

    /// The id of the only turn that there is.
    async fn turn(&self) -> String {
        poll_until("the turn's row", async || {
            let rows = self.database.query("SELECT id FROM turn", &[]).await;
            rows.unwrap().first().map(|row| row.get(0))
        })
        .await
    }

    /// Waits until each lease was renewed so often, counted by the time of its end.
    async fn renewed(&self, times: usize) {
        for _ in 0..times {
            let sum = "SELECT sum(lease_until_us)::bigint FROM instance";
            let before = self.number(sum).await;
            poll_until("a renewal", async || {
                (self.number(sum).await != before).then_some(())
            })
            .await;
        }
    }
}

fn settings(more: &str) -> String {
    format!("[server]\nlease_s = {LEASE_S}\n{more}\n[record]\nflush_interval_ms = 1\n")
}

fn question() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "6 times 7?" }] })
}

fn never() -> ListenerReply {
    ListenerReply::pieces("application/json", vec![ReplyPiece::Gate("never")])
}

async fn ended(client: &TestClient, turn: &str) -> Value {
    let path = format!("/v1/turns/{turn}");
    poll_until("a turn that has ended", async || {
        let record = client.send("GET", &path, &[], "").await.unwrap().json();
        (record["status"] != "running").then_some(record)
    })
    .await
}

/// The longest time in which a dead server's turn has a driver again: its lease, the next look, and a busy machine.
const TAKEN_WITHIN: Duration = Duration::from_secs(LEASE_S + 20);

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_servers_turn_goes_on_with_another_one_after_its_lease() {
    let replies = vec![
        ListenerReply::json(CALL),
        never(),
        ListenerReply::json(PLAIN),
    ];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let Some(cluster) = Cluster::on(upstream, &settings("")).await else {
        return;
    };
    let mut first = cluster.start("first");
    let second = cluster.start("second");
    let asking = cluster.ask(&first);
    cluster.upstream.asked_times(2).await;
    let turn = cluster.turn().await;
    // It is the first one's for as long as that one renews its lease, which both do.
    cluster.renewed(14).await;
    assert_eq!(cluster.number("SELECT fence FROM turn").await, 1);
    first.kill();
    let died = Instant::now();
    assert_eq!(asking.await.unwrap(), None);
    let record = ended(&cluster.client(&second), &turn).await;
    let took = died.elapsed();
    eprintln!("taken over and ended {took:?} after the kill, with a lease of {LEASE_S} s");
    assert_eq!(record["status"], "completed", "{record}");
    let call = &record["rounds"][0]["calls"][0];
    assert_eq!(call["status"], "completed", "{record}");
    // A machine that is too busy to renew the second one's lease has it claimed once more.
    assert!(cluster.number("SELECT fence FROM turn").await >= 2);
    assert!(took < TAKEN_WITHIN, "{took:?}");
}

/// Nobody can write the row of a lease while somebody else has locked the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_renew_its_lease_drops_its_turns_before_the_end_and_goes_on_later() {
    let replies = vec![never(), ListenerReply::json(PLAIN)];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let settings = "[server]\nlease_s = 5\n";
    let Some(cluster) = Cluster::on(upstream, settings).await else {
        return;
    };
    let server = cluster.start("only");
    let asking = cluster.ask(&server);
    cluster.upstream.asked_times(1).await;
    let turn = cluster.turn().await;
    let lock = "BEGIN; LOCK TABLE instance IN ACCESS EXCLUSIVE MODE";
    cluster.database.batch_execute(lock).await.unwrap();
    cluster.upstream.abandoned_times(1).await;
    let left = "SELECT lease_until_us - clock_us() FROM instance";
    let left = cluster.number(left).await;
    assert!(
        left > 0,
        "the lease was over {left} µs before the turn was dropped"
    );
    let told = asking.await.unwrap().unwrap();
    assert_eq!(told["error"]["code"], "unavailable", "{told}");
    let client = cluster.client(&server);
    let ready = client.send("GET", "/readyz", &[], "").await.unwrap();
    assert_eq!(ready.status, 503);
    assert_eq!(client.chat(&question()).await.unwrap().status, 503);
    cluster.database.batch_execute("COMMIT").await.unwrap();
    let record = ended(&client, &turn).await;
    assert_eq!(record["status"], "completed", "{record}");
    let ready = client.send("GET", "/readyz", &[], "").await.unwrap();
    assert_eq!(ready.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_stopped_by_whichever_server_is_asked() {
    let upstream = Listener::in_turn(vec![never()]).await.unwrap();
    let Some(cluster) = Cluster::on(upstream, &settings("")).await else {
        return;
    };
    let first = cluster.start("first");
    let second = cluster.start("second");
    let asking = cluster.ask(&first);
    cluster.upstream.asked_times(1).await;
    let turn = cluster.turn().await;
    let began = Instant::now();
    let path = format!("/v1/turns/{turn}/cancel");
    let stopped = cluster.client(&second).send("POST", &path, &[], "").await;
    assert_eq!(stopped.unwrap().status, 200);
    let record = ended(&cluster.client(&second), &turn).await;
    eprintln!("stopped by another server in {:?}", began.elapsed());
    let how = (&record["status"], &record["reason"]);
    assert_eq!(how, (&json!("cancelled"), &json!("requested")), "{record}");
    asking.await.unwrap();

    // Without the hint it is found by looking.
    let asking = cluster.ask(&first);
    cluster.upstream.asked_times(2).await;
    let ask = "UPDATE turn_state SET stop_reason = 'requested' WHERE status = 'running'";
    poll_until("the turn's row", async || {
        let asked = cluster.database.execute(ask, &[]).await.unwrap();
        (asked == 1).then_some(())
    })
    .await;
    asking.await.unwrap();
    let open = "SELECT count(*) FROM turn WHERE status <> 'cancelled'";
    assert_eq!(cluster.number(open).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_and_keys_that_are_changed_on_one_are_seen_by_the_other() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(PLAIN)])
        .await
        .unwrap();
    let Some(cluster) = Cluster::on(upstream, &settings("")).await else {
        return;
    };
    let first = cluster.start("first");
    let second = cluster.start("second");
    let other = cluster.client(&second);
    // So that both are known there.
    assert_eq!(other.chat(&question()).await.unwrap().status, 200);
    let tool = json!({
        "name": "look_up_order", "description": "Looks an order up.", "type": "api_request",
        "method": "GET", "url": "https://shop.example.com/orders",
    });
    let made = cluster
        .client(&first)
        .send("POST", "/api/default/tools", &[], tool.to_string())
        .await
        .unwrap();
    assert!(made.status < 300, "{}", made.text());
    let began = Instant::now();
    poll_until("the tool on the other server", async || {
        assert_eq!(other.chat(&question()).await.unwrap().status, 200);
        let asked = cluster.upstream.asked().pop().unwrap();
        asked.json()["tools"]
            .to_string()
            .contains("look_up_order")
            .then_some(())
    })
    .await;
    assert!(began.elapsed() < SEEN_WITHIN, "{:?}", began.elapsed());

    let mut revoke = turnwright();
    revoke.args(["keys", "revoke", &cluster.key, "--data"]);
    revoke
        .arg(cluster.data("keys"))
        .args(["--store", &cluster.schema.url]);
    let revoked = revoke.output().unwrap();
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    let began = Instant::now();
    poll_until("the key's end on the other server", async || {
        (other.chat(&question()).await.unwrap().status == 401).then_some(())
    })
    .await;
    assert!(began.elapsed() < SEEN_WITHIN, "{:?}", began.elapsed());
}

/// What a turn that waits for a job is told of is in the record alone: the callback comes to another server.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_waits_hears_of_a_callback_that_came_to_another_server() {
    const BASE: &str = "http://hooks.example";
    // After that a turn that has heard nothing looks for itself.
    const WAIT: Duration = Duration::from_secs(30);
    let service = Listener::start(|_| ListenerReply::json("{\"job\":\"job_7\"}"));
    let service = service.await.unwrap();
    let call = CALL
        .replace("calculate", "draw")
        .replace("{\\\"expression\\\":\\\"6*7\\\"}", "{}");
    let replies = vec![ListenerReply::json(call), ListenerReply::json(PLAIN)];
    let upstream = Listener::in_turn(replies).await.unwrap();
    let place = service.url("").replace("http://", "");
    let more = format!(
        "[hooks]\npublic_url = \"{BASE}\"\nwait_s = {}\n[[egress.allow]]\nplace = \"{place}\"",
        WAIT.as_secs()
    );
    let Some(cluster) = Cluster::on(upstream, &settings(&more)).await else {
        return;
    };
    let first = cluster.start("first");
    let second = cluster.start("second");
    let other = cluster.client(&second);
    let tool = json!({
        "name": "draw", "description": "Draws.", "type": "api_request", "method": "POST", "url": service.url("/jobs"),
        "body": { "callback": "{{callback_url}}" },
        "completion": {
            "completes": "webhook", "waits": true, "deadline_s": 900, "external_id": "$.job",
            "callback": { "status": "$.state", "completed": ["done"], "failed": ["failed"], "result": "$.picture" },
        },
    });
    let made = other.send("POST", "/api/default/tools", &[], tool.to_string());
    let made = made.await.unwrap();
    assert!(made.status < 300, "{}", made.text());
    let asking = cluster.ask(&first);
    let turn = cluster.turn().await;
    let path = format!("/v1/turns/{turn}");
    poll_until("a call that awaits its callback", async || {
        let record = other.send("GET", &path, &[], "").await.unwrap().json();
        let reason = &record["rounds"][0]["calls"][0]["reason"];
        (reason == "awaiting_callback").then_some(())
    })
    .await;
    let asked = service.asked().pop().unwrap().json();
    let callback = asked["callback"].as_str().unwrap().strip_prefix(BASE);
    let body = json!({ "state": "done", "picture": "a cat" }).to_string();
    let began = Instant::now();
    let taken = other.send("POST", callback.unwrap(), &[], body).await;
    assert_eq!(taken.unwrap().status, 200);
    let answer = asking.await.unwrap().unwrap();
    let took = began.elapsed();
    assert!(took < WAIT / 2, "{took:?}");
    assert_eq!(answer["choices"][0]["message"]["content"], "42", "{answer}");
    let record = ended(&other, &turn).await;
    let call = &record["rounds"][0]["calls"][0];
    let seen = [&call["status"], &call["told"], &call["shown"]];
    assert_eq!(
        seen,
        [&json!("completed"), &json!(null), &json!("\"a cat\"")],
        "{record}"
    );
}

const HALF: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Forty\"}}]}\n\n";
const REST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"-two\"},\
                    \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

async fn events(client: &TestClient, turn: &str, after: &str) -> OpenAnswer {
    let path = format!("/v1/turns/{turn}/events{after}");
    client.open("GET", &path, &[], "").await.unwrap()
}

/// A stream whose server is killed in its middle, or is not, is followed on another one to its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_where_a_client_reconnects() {
    for is_killed in [false, true] {
        let pieces = vec![
            ReplyPiece::Bytes(HALF.into()),
            ReplyPiece::Gate("rest"),
            ReplyPiece::Bytes(REST.into()),
        ];
        let upstream = ListenerReply::pieces("text/event-stream", pieces);
        let upstream = Listener::in_turn(vec![upstream]).await.unwrap();
        let Some(cluster) = Cluster::on(upstream, &settings("")).await else {
            return;
        };
        let mut first = cluster.start("first");
        let second = cluster.start("second");
        let client = cluster.client(&first);
        let ask = json!({ "stream": true, "model": "m", "messages": question()["messages"] });
        let path = "/v1/chat/completions";
        let mut asked = client
            .open("POST", path, &[], ask.to_string())
            .await
            .unwrap();
        asked.until("Forty").await;
        let turn = cluster.turn().await;
        let other = cluster.client(&second);
        let mut followed = events(&other, &turn, "").await;
        let seen = followed.until("Forty").await;
        let last = seen
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("id: "));
        let after = format!("?after={}", last.unwrap());
        let resumed = events(&other, &turn, &after).await;
        if is_killed {
            first.kill();
        } else {
            cluster.upstream.open("rest");
        }
        let whole = seen.clone() + &followed.read().await.text();
        let resumed = resumed.read().await.text();
        let record = ended(&other, &turn).await;
        let status = if is_killed { "incomplete" } else { "completed" };
        assert_eq!(record["status"], status, "{record}");
        assert_eq!(whole, events(&other, &turn, "").await.read().await.text());
        let from = whole.find(last.unwrap()).unwrap();
        let behind = from + whole[from..].find("\n\n").unwrap() + 2;
        assert_eq!(resumed, whole[behind..]);
        assert_eq!(whole.contains("-two"), !is_killed, "{whole}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_idempotency_key_is_one_turn_on_whichever_server_it_comes_to() {
    let held = vec![ReplyPiece::HeadGate("go"), ReplyPiece::Bytes(PLAIN.into())];
    let held = ListenerReply::pieces("application/json", held);
    let upstream = Listener::in_turn(vec![held]).await.unwrap();
    let Some(cluster) = Cluster::on(upstream, &settings("")).await else {
        return;
    };
    let servers = ["first", "second", "third"].map(|name| cluster.start(name));
    let asking: Vec<_> = servers
        .iter()
        .map(|server| {
            let client = cluster.client(server);
            tokio::spawn(async move {
                let headers = [("idempotency-key", "one")];
                let path = "/v1/chat/completions";
                let body = question().to_string();
                client.send("POST", path, &headers, body).await.unwrap()
            })
        })
        .collect();
    cluster.turn().await;
    cluster.upstream.open("go");
    for asking in asking {
        let answer = asking.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "42");
    }
    assert_eq!(cluster.number("SELECT count(*) FROM turn").await, 1);
}

/// What a server has not ended when it must is another one's at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_hands_its_turns_over_at_once() {
    let replies = vec![never(), ListenerReply::json(PLAIN)];
    let upstream = Listener::in_turn(replies).await.unwrap();
    // With this lease nobody would take it over in time.
    let settings = "[server]\nlease_s = 3600\ndrain_s = 1\n";
    let Some(cluster) = Cluster::on(upstream, settings).await else {
        return;
    };
    let mut first = cluster.start("first");
    let second = cluster.start("second");
    let asking = cluster.ask(&first);
    cluster.upstream.asked_times(1).await;
    let turn = cluster.turn().await;
    first.terminate();
    assert_eq!(first.end().0, Some(0));
    let record = ended(&cluster.client(&second), &turn).await;
    assert_eq!(record["status"], "completed", "{record}");
    assert_eq!(cluster.number("SELECT count(*) FROM instance").await, 1);
    asking.await.unwrap();
}

/// While it says that it is not ready, it serves: whoever sends requests to it has time to hear of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_to_end_is_not_ready_before_it_refuses() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(PLAIN)])
        .await
        .unwrap();
    let Some(cluster) = Cluster::on(upstream, &settings("unready_s = 4")).await else {
        return;
    };
    let mut first = cluster.start("first");
    let client = cluster.client(&first);
    first.terminate();
    poll_until("a server that is not ready", async || {
        let ready = client.send("GET", "/readyz", &[], "").await.unwrap();
        (ready.status == 503).then_some(())
    })
    .await;
    assert_eq!(client.chat(&question()).await.unwrap().status, 200);
    assert_eq!(first.end().0, Some(0));
}

/// Each holds to its part of a limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_divided_by_the_servers() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(PLAIN)])
        .await
        .unwrap();
    let more = "[rate.key]\nrequests_per_minute = 8\n";
    let settings = format!("[server]\nlease_s = {LEASE_S}\n{more}");
    let Some(cluster) = Cluster::on(upstream, &settings).await else {
        return;
    };
    let servers = ["first", "second"].map(|name| cluster.start(name));
    // The first one has heard of the second.
    cluster.renewed(4).await;
    for server in &servers {
        let client = cluster.client(server);
        let mut answered = 0;
        // One whose lease has lapsed on a busy machine refuses everything until it has one again.
        poll_until("a request that is one too many", async || {
            match client.chat(&question()).await.unwrap().status {
                200 => answered += 1,
                429 => return Some(()),
                status => assert_eq!(status, 503),
            }
            None
        })
        .await;
        assert_eq!(answered, 4);
    }
}
