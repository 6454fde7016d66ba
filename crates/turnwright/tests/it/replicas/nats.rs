//! Servers that tell each other over NATS.

use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tw_testkit::client::OpenAnswer;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::nats::NatsServer;
use tw_testkit::polling::poll_until;
use tw_testkit::tls_listener::{Authority, Validity};

use super::{Cluster, ended, events, never, question, settings};
use crate::process::ServerProcess;

/// Pieces of an answer, each behind a gate of the same name.
const PIECES: [&str; 16] = [
    "a.", "b.", "c.", "d.", "e.", "f.", "g.", "h.", "i.", "j.", "k.", "l.", "m.", "n.", "o.", "p.",
];
/// Pieces between two faults.
const STEPS: usize = 4;
/// A follower that only looks hears of a piece 200 ms after it has seen the one before.
const LOOK: Duration = Duration::from_millis(200);

fn answer_in_steps() -> ListenerReply {
    let mut pieces = Vec::new();
    for (at, piece) in PIECES.into_iter().enumerate() {
        let end = (at + 1 == PIECES.len()).then_some("stop");
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "content": piece }, "finish_reason": end }] });
        pieces.push(ReplyPiece::Gate(piece));
        pieces.push(ReplyPiece::Bytes(format!("data: {chunk}\n\n").into()));
    }
    pieces.push(ReplyPiece::Bytes("data: [DONE]\n\n".into()));
    ListenerReply::pieces("text/event-stream", pieces)
}

/// A turn that one server drives, followed on another.
struct Followed {
    cluster: Cluster,
    driver: ServerProcess,
    other: ServerProcess,
    turn: String,
    asking: tokio::task::JoinHandle<String>,
    following: OpenAnswer,
    read: String,
}

impl Followed {
    /// `None` where there is no PostgreSQL.
    async fn start(nats_url: Option<&str>) -> Option<Self> {
        let upstream = Listener::in_turn(vec![answer_in_steps()]).await.unwrap();
        let more = nats_url.map_or(String::new(), |url| format!("nats_url = \"{url}\""));
        let cluster = Cluster::on(upstream, &settings(&more)).await?;
        let driver = cluster.start("driver");
        let other = cluster.start("other");
        let client = cluster.client(&driver);
        let asking = tokio::spawn(async move {
            let ask = json!({ "stream": true, "model": "m", "messages": question()["messages"] })
                .to_string();
            let sent = client.send("POST", "/v1/chat/completions", &[], ask).await;
            sent.unwrap().streamed_text()
        });
        let turn = cluster.turn().await;
        let following = events(&cluster.client(&other), &turn, "").await;
        Some(Self {
            cluster,
            driver,
            other,
            turn,
            asking,
            following,
            read: String::new(),
        })
    }

    async fn connected(&self) {
        connected(&self.cluster, [&self.driver, &self.other]).await;
    }

    /// Lets some pieces come, one when the one before was seen; the mean time from a piece to its being seen.
    async fn steps(&mut self, from: usize) -> Duration {
        let began = Instant::now();
        for piece in &PIECES[from..from + STEPS] {
            self.cluster.upstream.open(piece);
            self.read += &self.following.until(piece).await;
        }
        began.elapsed() / u32::try_from(STEPS).unwrap()
    }

    /// What was followed is what the record holds, and the client was given.
    async fn end(mut self) {
        self.read += &self.following.read().await.text();
        let client = self.cluster.client(&self.other);
        let record = ended(&client, &self.turn).await;
        assert_eq!(record["status"], "completed", "{record}");
        assert_eq!(self.asking.await.unwrap(), PIECES.concat());
        let whole = events(&client, &self.turn, "").await.read().await.text();
        assert_eq!(self.read, whole);
    }
}

/// Whether a server says that it has a connection to NATS.
async fn is_connected(cluster: &Cluster, server: &ServerProcess) -> bool {
    let client = cluster.client(server);
    let metrics = client.send("GET", "/metrics", &[], "").await.unwrap();
    let metrics = metrics.text();
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("turnwright_nats_connected "));
    line.unwrap_or_else(|| panic!("{metrics}")) == "1"
}

async fn connected(cluster: &Cluster, servers: [&ServerProcess; 2]) {
    for server in servers {
        poll_until("a connection to NATS", async || {
            is_connected(cluster, server).await.then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_elsewhere_sees_each_event_at_once() {
    let Some(nats) = NatsServer::start(&[]).await else {
        return;
    };
    let mut took = Vec::new();
    for url in [None, Some(nats.url())] {
        let Some(mut followed) = Followed::start(url.as_deref()).await else {
            return;
        };
        if url.is_some() {
            followed.connected().await;
        }
        // With these it has come to listen.
        followed.steps(0).await;
        let mean = followed.steps(STEPS).await;
        followed.steps(STEPS * 2).await;
        followed.steps(STEPS * 3).await;
        followed.end().await;
        took.push(mean);
    }
    eprintln!("a piece was seen elsewhere after {took:?}: by looking, and with NATS");
    assert!(took[0] > LOOK / 2, "{took:?}");
    assert!(took[1] < LOOK / 2, "{took:?}");
}

/// It is not there when the servers start, comes, is killed, and comes again.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_for_nats_and_nothing_is_lost_with_it() {
    let Some(mut nats) = NatsServer::start(&[]).await else {
        return;
    };
    nats.kill();
    let Some(mut followed) = Followed::start(Some(&nats.url())).await else {
        return;
    };
    let mut took = vec![followed.steps(0).await];
    nats.start_again().await;
    followed.connected().await;
    took.push(followed.steps(STEPS).await);
    nats.kill();
    took.push(followed.steps(STEPS * 2).await);
    nats.start_again().await;
    followed.connected().await;
    took.push(followed.steps(STEPS * 3).await);
    eprintln!("a piece was seen elsewhere after {took:?}: without NATS, with it, without, with it");
    let log = followed.other.log();
    // Once, unless the connection in between stood for so long that it counts.
    let told = log.matches("NATS cannot be reached").count();
    assert!(matches!(told, 1 | 2), "{log}");
    followed.end().await;
}

/// Whoever may publish has servers look, and changes nothing; whoever may subscribe learns numbers.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_up_does_no_harm_and_what_is_told_are_numbers() {
    let Some(nats) = NatsServer::start(&[]).await else {
        return;
    };
    let stranger = nats.client().await;
    let mut heard = stranger.hear_all().await;
    let Some(mut followed) = Followed::start(Some(&nats.url())).await else {
        return;
    };
    followed.connected().await;
    followed.steps(0).await;
    let mut told = heard.so_far();
    let of_turn = format!(".turn.{}", followed.turn);
    let (subject, _) = told
        .iter()
        .find(|(subject, _)| subject.ends_with(&of_turn))
        .unwrap();
    let (subject, hints) = (subject.clone(), subject.replace(&of_turn, ".hint"));
    let long = "9".repeat(100_000);
    let made_up = [
        "",
        "0",
        "-1",
        "1",
        "1.5",
        "x",
        "\u{0}",
        "99999",
        "18446744073709551615",
        "1e9",
        &long,
        "\u{fffd}",
    ];
    for from in [STEPS, STEPS * 2, STEPS * 3] {
        for payload in made_up {
            for subject in [&subject, &hints] {
                stranger.say(subject, payload.to_owned()).await;
            }
        }
        for _ in 0..1000 {
            stranger.say(&subject, "18446744073709551615").await;
            stranger.say(&hints, vec![0xff; 3]).await;
        }
        followed.steps(from).await;
    }
    followed.end().await;

    // Of another database nobody here hears anything.
    let Some(other) = Followed::start(Some(&nats.url())).await else {
        return;
    };
    other.connected().await;
    for piece in PIECES {
        other.cluster.upstream.open(piece);
    }
    other.end().await;
    let prefix = subject.strip_suffix(&of_turn).unwrap();
    told.extend(heard.so_far());
    assert!(told.iter().any(|(subject, _)| !subject.starts_with(prefix)));
    let own = told.iter().filter(|(_, payload)| {
        !made_up.contains(&&*String::from_utf8_lossy(payload)) && payload[..] != [0xff; 3]
    });
    for (subject, payload) in own {
        let number = String::from_utf8_lossy(payload).parse::<u64>();
        assert!(number.is_ok(), "{subject}: {payload:?}");
    }
}

/// Where no `NOTIFY` arrives: a hint that comes over NATS has the driver look at once, and a server that has written
/// something for others sends one.
#[tokio::test(flavor = "multi_thread")]
async fn hints_go_over_nats_too() {
    const TURNS: u32 = 5;
    let Some(nats) = NatsServer::start(&[]).await else {
        return;
    };
    let stranger = nats.client().await;
    let mut heard = stranger.hear_all().await;
    let upstream = Listener::in_turn(vec![never()]).await.unwrap();
    let more = format!("nats_url = \"{}\"", nats.url());
    let Some(cluster) = Cluster::on(upstream, &settings(&more)).await else {
        return;
    };
    let driver = cluster.start("driver");
    let other = cluster.start("other");
    connected(&cluster, [&driver, &other]).await;
    let asking = cluster.ask(&driver);
    let turn = cluster.turn().await;
    let path = format!("/v1/turns/{turn}/cancel");
    let stopped = cluster.client(&other).send("POST", &path, &[], "").await;
    assert_eq!(stopped.unwrap().status, 200);
    asking.await.unwrap();
    let hints = loop {
        let (subject, payload) = heard.next().await;
        if subject.ends_with(".hint") {
            assert!(payload.is_empty(), "{payload:?}");
            break subject;
        }
    };

    let mut took = Duration::ZERO;
    for _ in 0..TURNS {
        let asking = cluster.ask(&driver);
        // Without the `NOTIFY` of a server that is asked.
        let ask = "UPDATE turn_state SET stop_reason = 'requested' WHERE status = 'running'";
        poll_until("the turn's row", async || {
            let asked = cluster.database.execute(ask, &[]).await.unwrap();
            (asked == 1).then_some(())
        })
        .await;
        let began = Instant::now();
        stranger.say(&hints, "").await;
        asking.await.unwrap();
        took += began.elapsed();
    }
    eprintln!("stopped {:?} after a hint", took / TURNS);
    // Looks are a second apart.
    assert!(took < Duration::from_millis(500) * TURNS, "{took:?}");
    let open = "SELECT count(*) FROM turn WHERE status <> 'cancelled'";
    assert_eq!(cluster.number(open).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_name_themselves_over_tls() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("Operator").unwrap();
    let ca = authority.write(folder.path(), "ca.pem").unwrap();
    let identity = authority.sign(&["127.0.0.1"], Validity::Now).unwrap();
    let (certificate, key) = identity.write(folder.path(), "nats").unwrap();
    let paths = [&certificate, &key].map(|path| path.to_str().unwrap());
    let flags = [
        "--tls",
        "--tlscert",
        paths[0],
        "--tlskey",
        paths[1],
        "--user",
        "turn",
        "--pass",
        "p@ss",
    ];
    let Some(nats) = NatsServer::start(&flags).await else {
        return;
    };
    for (login, is_known) in [("turn:p%40ss@", true), ("turn:canary@", false)] {
        let upstream = Listener::in_turn(vec![ListenerReply::json(super::PLAIN)])
            .await
            .unwrap();
        let url = format!("tls://{login}{}", nats.address());
        let more = format!(
            "nats_url = \"{url}\"\n[tls]\nca_file = \"{}\"",
            ca.display()
        );
        let Some(cluster) = Cluster::on(upstream, &settings(&more)).await else {
            return;
        };
        let server = cluster.start("only");
        let said = if is_known {
            "connected to NATS"
        } else {
            "NATS cannot be reached"
        };
        poll_until(said, async || {
            let is_right = is_connected(&cluster, &server).await == is_known;
            (is_right && server.log().contains(said)).then_some(())
        })
        .await;
        let answer = cluster.client(&server).chat(&question()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let log = server.log();
        assert_eq!(log.contains("connected to NATS"), is_known, "{log}");
        assert!(!log.contains("canary") && !log.contains("p@ss"), "{log}");
    }
}
