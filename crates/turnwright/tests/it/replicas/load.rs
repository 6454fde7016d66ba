//! Servers under load while some of them are killed, or all their connections to the database are.
//!
//! Clients ask questions under idempotency keys, and ask again wherever a server is, until they are answered; observers
//! follow each turn on one server after another. Each question has the model call a `once` tool.
//! `TURNWRIGHT_REPLICA_QUESTIONS=2000` makes it longer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest, ReplyPiece};

use super::{Cluster, ended};
use crate::process::ServerProcess;

const QUESTIONS_DEFAULT: usize = 60;
const CLIENTS: usize = 8;
/// Answers between two faults.
const FAULT_EVERY: usize = 12;
const PIECE_MS: u64 = 20;
const PIECES: usize = 6;

fn questions() -> usize {
    let asked = std::env::var("TURNWRIGHT_REPLICA_QUESTIONS").ok();
    asked.map_or(QUESTIONS_DEFAULT, |asked| asked.parse().unwrap())
}

/// Calls the tool with the number of the question, and then answers with it.
fn model(asked: &ReceivedRequest) -> ListenerReply {
    let body = asked.json();
    let messages = body["messages"].as_array().unwrap();
    let of = |role: &str| {
        messages
            .iter()
            .rev()
            .find(|message| message["role"] == role)
    };
    let question = of("user").unwrap()["content"].as_str().unwrap();
    let number = question.rsplit(' ').next().unwrap();
    if of("tool").is_none() {
        let arguments = json!({ "n": number.parse::<usize>().unwrap() }).to_string();
        let call = json!({ "index": 0, "id": format!("call_{number}"), "type": "function",
            "function": { "name": "once_probe", "arguments": arguments } });
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] },
            "finish_reason": "tool_calls" }] });
        return ListenerReply::sse(format!("data: {chunk}\n\ndata: [DONE]\n\n"));
    }
    let mut pieces = Vec::new();
    for piece in 0..PIECES {
        let text = format!("{number}.{piece} ");
        let end = (piece + 1 == PIECES).then_some("stop");
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": end }] });
        pieces.push(ReplyPiece::Wait(std::time::Duration::from_millis(PIECE_MS)));
        pieces.push(ReplyPiece::Bytes(format!("data: {chunk}\n\n").into()));
    }
    pieces.push(ReplyPiece::Bytes("data: [DONE]\n\n".into()));
    ListenerReply::pieces("text/event-stream", pieces)
}

fn answer_to(number: usize) -> String {
    (0..PIECES)
        .map(|piece| format!("{number}.{piece} "))
        .collect()
}

/// Where the servers are now; one that was started again has another place.
struct Servers {
    running: Mutex<Vec<TestClient>>,
    next: AtomicUsize,
}

impl Servers {
    fn any(&self) -> TestClient {
        let running = self.running.lock().unwrap();
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        running[next % running.len()].clone()
    }
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    /// Turns of questions that were answered to the end.
    acknowledged: BTreeMap<String, usize>,
    /// Questions that were not answered since their call may have run.
    refused: BTreeSet<usize>,
    /// Tries that came to nothing.
    failed: usize,
}

/// Asks until there is an answer.
async fn ask(
    servers: &Servers,
    number: usize,
    seen: &Mutex<Seen>,
    turns: &watch::Sender<Vec<String>>,
) {
    let body = json!({ "model": "m", "stream": true,
        "messages": [{ "role": "user", "content": format!("Question {number}") }] });
    let key = format!("question-{number}");
    let headers = [("idempotency-key", key.as_str())];
    loop {
        let client = servers.any();
        let opened = client
            .open("POST", "/v1/chat/completions", &headers, body.to_string())
            .await;
        let Ok(answer) = opened else {
            seen.lock().unwrap().failed += 1;
            tokio::task::yield_now().await;
            continue;
        };
        let turn = answer.header("turnwright-turn").to_owned();
        if !turn.is_empty() {
            turns.send_if_modified(|turns| {
                let is_new = !turns.contains(&turn);
                if is_new {
                    turns.push(turn.clone());
                }
                is_new
            });
        }
        let answer = answer.read().await;
        let text = answer.text();
        if answer.status == 424 {
            seen.lock().unwrap().refused.insert(number);
            return;
        }
        if answer.status == 200 && text.ends_with("data: [DONE]\n\n") {
            assert_eq!(answer.streamed_text(), answer_to(number), "{text}");
            seen.lock().unwrap().acknowledged.insert(turn, number);
            return;
        }
        seen.lock().unwrap().failed += 1;
    }
}

/// Follows a turn to its end, and goes on elsewhere where the stream breaks; all that was read.
async fn observe(servers: &Servers, turn: &str) -> String {
    let mut read = String::new();
    loop {
        let last = read
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("id: "));
        let after = last.map_or(String::new(), |id| format!("?after={id}"));
        let path = format!("/v1/turns/{turn}/events{after}");
        let Ok(answer) = servers.any().open("GET", &path, &[], "").await else {
            tokio::task::yield_now().await;
            continue;
        };
        let answer = answer.read().await;
        let text = answer.text();
        if answer.status == 503 {
            continue;
        }
        assert_eq!(answer.status, 200, "{turn} {after}: {text}");
        // A broken stream may end within an event, which is read again.
        let whole = text.rfind("\n\n").map_or(0, |end| end + 2);
        read.extend(
            text[..whole]
                .split_inclusive("\n\n")
                .filter(|event| !event.starts_with(':')),
        );
        if !answer.broken && read.contains("event: end\n") {
            return read;
        }
    }
}

/// Breaks something each time so many questions are answered, and is told which time it is.
async fn faults(answered: &watch::Sender<usize>, all: usize, mut fault: impl AsyncFnMut(usize)) {
    let mut count = answered.subscribe();
    for (nth, at) in (FAULT_EVERY..all).step_by(FAULT_EVERY).enumerate() {
        let _ = count.wait_for(|count| *count >= at).await;
        fault(nth).await;
    }
}

struct Ground {
    cluster: Cluster,
    ledger: Listener,
}

impl Ground {
    async fn new(more: &str) -> Option<Self> {
        let ledger = Listener::in_turn(vec![ListenerReply::json("{\"done\":true}")])
            .await
            .unwrap();
        let url = ledger.url("/once");
        let settings = format!(
            "[server]\nlease_s = 2\n{more}\n[limits]\nmodel_attempts_max = 9\n[record]\nflush_interval_ms = 1\n\
             [[probe]]\nname = \"once_probe\"\neffect = \"once\"\nurl = \"{url}\"\n"
        );
        let upstream = Listener::start(model).await.unwrap();
        let cluster = Cluster::on(upstream, &settings).await?;
        Some(Self { cluster, ledger })
    }

    fn servers(&self, running: &[ServerProcess]) -> Arc<Servers> {
        let running = running.iter().map(|server| self.cluster.client(server));
        Arc::new(Servers {
            running: Mutex::new(running.collect()),
            next: AtomicUsize::new(0),
        })
    }

    /// Asks all questions while `fault` breaks something, and checks what is left; how many tries came to nothing.
    async fn go_through(&self, servers: &Arc<Servers>, fault: impl AsyncFnMut(usize)) -> usize {
        let all = questions();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let turns = watch::Sender::new(Vec::<String>::new());
        let answered = watch::Sender::new(0);
        let next = Arc::new(AtomicUsize::new(1));
        let clients = (0..CLIENTS).map(|_| {
            let (servers, seen, next) = (Arc::clone(servers), Arc::clone(&seen), Arc::clone(&next));
            let (turns, answered) = (turns.clone(), answered.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number > all {
                        return;
                    }
                    ask(&servers, number, &seen, &turns).await;
                    answered.send_modify(|count| *count += 1);
                }
            })
        });
        let clients: Vec<_> = clients.collect();
        let observing = {
            let (servers, mut known) = (Arc::clone(servers), turns.subscribe());
            tokio::spawn(async move {
                let mut observers = BTreeMap::new();
                loop {
                    let found = known.borrow_and_update().clone();
                    for turn in found {
                        let servers = Arc::clone(&servers);
                        observers.entry(turn.clone()).or_insert_with(|| {
                            tokio::spawn(async move { observe(&servers, &turn).await })
                        });
                    }
                    if known.changed().await.is_err() {
                        return observers;
                    }
                }
            })
        };
        let asked = async {
            for ended in join_all(clients).await {
                ended.unwrap();
            }
        };
        tokio::join!(asked, faults(&answered, all, fault));
        drop(turns);
        let observers = observing.await.unwrap();
        self.check_turns(servers, &seen, all).await;
        let client = servers.any();
        for (turn, observer) in observers {
            let observed = observer.await.unwrap();
            let path = format!("/v1/turns/{turn}/events");
            let whole = client.send("GET", &path, &[], "").await.unwrap().text();
            assert_eq!(observed, whole, "{turn}");
        }
        let failed = seen.lock().unwrap().failed;
        eprintln!("{failed} tries came to nothing");
        failed
    }

    /// Every turn has ended, what was acknowledged is in the record, and no call has run twice.
    async fn check_turns(&self, servers: &Servers, seen: &Mutex<Seen>, all: usize) {
        let database = &self.cluster.database;
        let client = servers.any();
        let rows = database.query("SELECT id FROM turn", &[]).await.unwrap();
        let mut statuses = BTreeMap::<String, usize>::new();
        for row in &rows {
            let record = ended(&client, row.get(0)).await;
            let reason = record["reason"].as_str().unwrap_or_default();
            let status = format!("{} {reason}", record["status"].as_str().unwrap());
            *statuses.entry(status).or_default() += 1;
        }
        let keys = "SELECT count(DISTINCT key) FROM request_key";
        assert_eq!(self.cluster.number(keys).await, i64::try_from(all).unwrap());
        let (acknowledged, refused) = {
            let seen = seen.lock().unwrap();
            (seen.acknowledged.clone(), seen.refused.len())
        };
        assert_eq!(acknowledged.len() + refused, all);
        for turn in acknowledged.keys() {
            let record: Value = ended(&client, turn).await;
            assert_eq!(record["status"], "completed", "{record}");
        }
        let mut effects = BTreeMap::<String, Vec<String>>::new();
        for asked in self.ledger.asked() {
            let key = asked.header("idempotency-key").to_owned();
            effects
                .entry(asked.json()["n"].to_string())
                .or_default()
                .push(key);
        }
        let twice: Vec<_> = effects.iter().filter(|(_, keys)| keys.len() > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        eprintln!(
            "{} turns: {statuses:?}; {} answered, {refused} refused",
            rows.len(),
            acknowledged.len()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_done_twice_while_servers_are_killed() {
    for count in [2, 3] {
        let Some(ground) = Ground::new("").await else {
            return;
        };
        let start = |n: usize| ground.cluster.start(&format!("server-{n}"));
        let mut running: Vec<_> = (0..count).map(start).collect();
        let servers = ground.servers(&running);
        ground
            .go_through(&servers, async |nth| {
                let at = nth % count;
                running[at].kill();
                running[at] = start(at);
                servers.running.lock().unwrap()[at] = ground.cluster.client(&running[at]);
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_done_twice_while_connections_to_the_database_are_killed() {
    let Some(ground) = Ground::new("").await else {
        return;
    };
    let running: Vec<_> = (0..2)
        .map(|n| ground.cluster.start(&format!("server-{n}")))
        .collect();
    let servers = ground.servers(&running);
    let killer = ground.cluster.schema.outside().await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = $1 AND pid <> $2";
    let own = "SELECT pg_backend_pid()";
    let own: i32 = ground
        .cluster
        .database
        .query_one(own, &[])
        .await
        .unwrap()
        .get(0);
    let mut killed = 0;
    ground
        .go_through(&servers, async |_| {
            let name = &ground.cluster.schema.name;
            killed += killer.query(kill, &[name, &own]).await.unwrap().len();
        })
        .await;
    assert!(killed > 0);
}

/// One server after another is ended and started again: nobody is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_refuses_nothing() {
    let Some(ground) = Ground::new("unready_s = 1").await else {
        return;
    };
    let start = |n: usize| ground.cluster.start(&format!("server-{n}"));
    let mut running: Vec<_> = (0..2).map(start).collect();
    let servers = ground.servers(&running);
    let failed = ground
        .go_through(&servers, async |nth| {
            let at = nth % 2;
            running[at].terminate();
            // Whoever sends requests hears only now that it is not ready.
            let other = servers.running.lock().unwrap()[1 - at].clone();
            servers.running.lock().unwrap()[at] = other;
            assert_eq!(running[at].end().0, Some(0));
            running[at] = start(at);
            servers.running.lock().unwrap()[at] = ground.cluster.client(&running[at]);
        })
        .await;
    assert_eq!(failed, 0);
    let cut = "SELECT count(*) FROM turn WHERE status <> 'completed'";
    assert_eq!(ground.cluster.number(cut).await, 0);
}
