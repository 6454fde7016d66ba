//! Limits of keys and organizations: who is refused, what the refusal says, and what counts.

use std::time::Duration;

use serde_json::{Value, json};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_runtime::limiter::LimiterRules;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, ask_streamed, upstream_body, upstream_stream};
use crate::surfaces::{self, SurfaceError, assert_refused, on_each_surface};

on_each_surface!(
    an_answer_tells_what_is_left_and_a_refusal_when_to_retry,
    without_a_limit_no_header_tells_of_one,
    an_organizations_limit_is_of_all_its_keys_and_of_no_other,
    a_key_may_have_limits_of_its_own,
    a_request_that_begins_no_turn_does_not_count,
    a_refused_request_is_answered_although_its_body_is_large,
    turns_at_once_are_counted_until_they_end,
    a_repetition_that_attaches_needs_no_room_for_another_turn,
    a_turn_whose_client_left_counts_on_while_it_is_to_finish,
    a_turn_that_an_earlier_process_left_counts,
    streams_are_counted_from_head_to_end_readers_of_events_too,
    streams_beyond_those_of_the_server_are_its_own_overload,
    bodies_beyond_the_room_for_them_are_refused_at_once,
    many_at_the_edge_get_exactly_what_there_is,
    the_largest_limit_and_a_clock_that_goes_back_are_told_in_valid_headers,
);

const GATE: &str = "go";
/// A point in time at which the clock of these tests stands.
const START: Timestamp = Timestamp(1_800_000_000_000_000);

async fn hello() -> Listener {
    let reply = ListenerReply::json(upstream_body("Hello", &[]));
    Listener::in_turn(vec![reply]).await.unwrap()
}

/// Answers when the gate is open.
async fn gated() -> Listener {
    let body = ReplyPiece::Bytes(upstream_body("Hello", &[]).into());
    let reply = ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate(GATE), body]);
    Listener::in_turn(vec![reply]).await.unwrap()
}

fn clock() -> Env {
    Env::seeded(7, START)
}

fn with(env: &Env, rules: LimiterRules) -> AppOptions {
    AppOptions {
        config: Box::new(|config| config.rules = rules),
        env: env.clone(),
        ..AppOptions::plain()
    }
}

fn per_minute(requests: u32) -> RateLimits {
    RateLimits {
        requests_per_minute: Some(requests),
        ..RateLimits::default()
    }
}

fn at_once(turns: u32) -> RateLimits {
    RateLimits {
        concurrency_max: Some(turns),
        ..RateLimits::default()
    }
}

fn of_keys(key: RateLimits) -> LimiterRules {
    LimiterRules {
        key,
        ..LimiterRules::defaults()
    }
}

/// A client with another key of an organization.
async fn client_of(app: &App, organization: &str) -> TestClient {
    let scopes = vec![KeyScope::Chat, KeyScope::TurnsReadAll];
    let key = app.key(organization, ToolGrant::None, scopes).await;
    app.with_key(Some(key))
}

async fn ask_on(client: &TestClient, surface: WireFormat, chat: &Value) -> ReadAnswer {
    surfaces::send(client, surface, &[], chat).await
}

/// The limit, what is left of it, and when it is whole again, under the surface's names.
fn told(surface: WireFormat, got: &ReadAnswer) -> [&str; 3] {
    ["limit", "remaining", "reset"].map(|what| {
        got.header(&match surface {
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses => {
                format!("x-ratelimit-{what}-requests")
            }
            WireFormat::AnthropicMessages => format!("anthropic-ratelimit-requests-{what}"),
        })
    })
}

/// When a limit is whole again: Messages tells the time, in whole seconds, and the others how long it takes.
fn reset(surface: WireFormat, within: &'static str, at: &'static str) -> &'static str {
    match surface {
        WireFormat::OpenAiChat | WireFormat::OpenAiResponses => within,
        WireFormat::AnthropicMessages => at,
    }
}

#[track_caller]
fn assert_limited(surface: WireFormat, got: &ReadAnswer, part: &str) {
    assert_refused(surface, got, 429, "rate_limit_exceeded");
    let error = SurfaceError::of(surface, got);
    assert_eq!(error.kind, "rate_limit_error");
    let message = error.message;
    assert!(message.contains(part), "{message}");
    assert!(message.contains("0 left"), "{message}");
    let wait = format!("Try again in {} s.", got.header("retry-after"));
    assert!(message.contains(&wait), "{message}");
}

async fn an_answer_tells_what_is_left_and_a_refusal_when_to_retry(surface: WireFormat) {
    let (upstream, env) = (hello().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(per_minute(2)))).await;
    let first = ask_on(&app.client, surface, &ask("Hi")).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(
        told(surface, &first),
        ["2", "1", reset(surface, "30s", "2027-01-15T08:00:30Z")]
    );
    let second = ask_on(&app.client, surface, &ask("Hi")).await;
    assert_eq!(
        told(surface, &second),
        ["2", "0", reset(surface, "1m0s", "2027-01-15T08:01:00Z")]
    );
    env.move_clock(START.after(Duration::from_micros(500_001)));
    let third = ask_on(&app.client, surface, &ask("Hi")).await;
    assert_limited(
        surface,
        &third,
        "This API key has reached its limit of 2 requests per minute",
    );
    assert_eq!(third.header("retry-after"), "30");
    assert_eq!(
        told(surface, &third),
        ["2", "0", reset(surface, "59.5s", "2027-01-15T08:01:00Z")]
    );
    // Another key is not meant.
    let other = client_of(&app, "default").await;
    assert_eq!(ask_on(&other, surface, &ask("Hi")).await.status, 200);
    env.move_clock(START.after(Duration::from_secs(30)));
    assert_eq!(ask_on(&app.client, surface, &ask("Hi")).await.status, 200);
    assert_eq!(upstream.asked().len(), 4);
}

async fn without_a_limit_no_header_tells_of_one(surface: WireFormat) {
    let reply = ListenerReply::json(upstream_body("Hello", &[]))
        .with_header("x-ratelimit-remaining-requests", "77")
        .with_header("x-ratelimit-limit-requests", "78");
    let upstream = Listener::in_turn(vec![reply]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let got = ask_on(&app.client, surface, &ask("Hi")).await;
    assert_eq!((got.status, told(surface, &got)), (200, ["", "", ""]));
}

async fn an_organizations_limit_is_of_all_its_keys_and_of_no_other(surface: WireFormat) {
    let (upstream, env) = (hello().await, clock());
    let rules = LimiterRules {
        organization: per_minute(2),
        organizations: [("roomy".to_owned(), per_minute(9))].into(),
        ..LimiterRules::defaults()
    };
    let app = App::start(&upstream, with(&env, rules)).await;
    let second_key = client_of(&app, "default").await;
    let stranger = client_of(&app, "stranger").await;
    let roomy = client_of(&app, "roomy").await;
    assert_eq!(ask_on(&app.client, surface, &ask("Hi")).await.status, 200);
    assert_eq!(
        told(surface, &ask_on(&second_key, surface, &ask("Hi")).await)[1],
        "0"
    );
    for client in [&app.client, &second_key] {
        let refused = ask_on(client, surface, &ask("Hi")).await;
        assert_limited(
            surface,
            &refused,
            "This organization has reached its limit of 2",
        );
    }
    assert_eq!(
        told(surface, &ask_on(&stranger, surface, &ask("Hi")).await)[..2],
        ["2", "1"]
    );
    assert_eq!(
        told(surface, &ask_on(&roomy, surface, &ask("Hi")).await)[..2],
        ["9", "8"]
    );
}

async fn a_key_may_have_limits_of_its_own(surface: WireFormat) {
    let (upstream, env) = (hello().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(per_minute(1)))).await;
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "own".to_owned(),
        scopes: vec![KeyScope::Chat],
        tools: ToolGrant::None,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: per_minute(3),
        expires: None,
    };
    let key = create_key(&app.store, &Env::system(), wanted)
        .await
        .unwrap();
    let client = app.with_key(Some(key));
    assert_eq!(
        told(surface, &ask_on(&client, surface, &ask("Hi")).await)[..2],
        ["3", "2"]
    );
}

async fn a_request_that_begins_no_turn_does_not_count(surface: WireFormat) {
    let (upstream, env) = (hello().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(per_minute(1)))).await;
    for _ in 0..3 {
        let invalid = json!({ "model": 7, "messages": [] });
        let invalid = ask_on(&app.client, surface, &invalid).await;
        assert_eq!(invalid.status, 400);
    }
    let key = [("idempotency-key", "k")];
    let first = app.ask_on(surface, &key, &ask("Hi")).await;
    assert_eq!(first.status, 200, "{}", first.text());
    // Its repetition is answered although nothing is left, and a new request is not.
    let again = app.ask_on(surface, &key, &ask("Hi")).await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.json(), first.json());
    assert_limited(
        surface,
        &app.ask_on(surface, &[("idempotency-key", "l")], &ask("Hi"))
            .await,
        "API key",
    );
    let marked = [("x-stainless-retry-count", "1")];
    assert_limited(
        surface,
        &app.ask_on(surface, &marked, &ask("Ho")).await,
        "API key",
    );
    assert_limited(
        surface,
        &ask_on(&app.client, surface, &ask("Hi")).await,
        "API key",
    );
    // Refusals moved nothing: the next one may come when the first said.
    env.move_clock(START.after(Duration::from_secs(60)));
    assert_eq!(ask_on(&app.client, surface, &ask("Hi")).await.status, 200);
    assert_eq!(upstream.asked().len(), 2);
}

async fn a_refused_request_is_answered_although_its_body_is_large(surface: WireFormat) {
    let (upstream, env) = (hello().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(per_minute(1)))).await;
    assert_eq!(ask_on(&app.client, surface, &ask("Hi")).await.status, 200);
    let large = ask(&"x".repeat(900_000));
    assert_limited(
        surface,
        &ask_on(&app.client, surface, &large).await,
        "API key",
    );
}

async fn turns_at_once_are_counted_until_they_end(surface: WireFormat) {
    let (upstream, env) = (gated().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(at_once(1)))).await;
    let client = app.client.clone();
    let first =
        tokio::spawn(async move { surfaces::send(&client, surface, &[], &ask("Hi")).await });
    upstream.asked_times(1).await;
    let refused = ask_on(&app.client, surface, &ask("Hi")).await;
    assert_limited(
        surface,
        &refused,
        "This API key has reached its limit of 1 requests at once",
    );
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(told(surface, &refused), ["", "", ""]);
    upstream.open(GATE);
    assert_eq!(first.await.unwrap().status, 200);
    // Whoever has the answer may ask again at once.
    for _ in 0..20 {
        assert_eq!(ask_on(&app.client, surface, &ask("Hi")).await.status, 200);
    }
}

async fn a_repetition_that_attaches_needs_no_room_for_another_turn(surface: WireFormat) {
    let (upstream, env) = (gated().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(at_once(1)))).await;
    let post = |client: TestClient| async move {
        let key = [("idempotency-key", "k")];
        surfaces::send(&client, surface, &key, &ask("Hi")).await
    };
    let first = tokio::spawn(post(app.client.clone()));
    upstream.asked_times(1).await;
    let second = tokio::spawn(post(app.client.clone()));
    let refused = app
        .ask_on(surface, &[("idempotency-key", "l")], &ask("Ho"))
        .await;
    assert_limited(surface, &refused, "requests at once");
    upstream.open(GATE);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(
        (first.status, second.status),
        (200, 200),
        "{}",
        second.text()
    );
    assert_eq!(first.json(), second.json());
    assert_eq!(upstream.asked().len(), 1);
}

async fn a_turn_whose_client_left_counts_on_while_it_is_to_finish(surface: WireFormat) {
    let (upstream, env) = (gated().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(at_once(1)))).await;
    let client = app.client.clone();
    let headers = [("turnwright-on-leave", "finish"), ("idempotency-key", "k")];
    let leaves =
        tokio::spawn(async move { surfaces::send(&client, surface, &headers, &ask("Hi")).await });
    app.running_turn(surface, "k").await;
    leaves.abort();
    assert!(leaves.await.is_err());
    assert_limited(
        surface,
        &ask_on(&app.client, surface, &ask("Hi")).await,
        "at once",
    );
    upstream.open(GATE);
    app.settled().await;
    assert_eq!(ask_on(&app.client, surface, &ask("Hi")).await.status, 200);
}

async fn a_turn_that_an_earlier_process_left_counts(surface: WireFormat) {
    let upstream = gated().await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let client = app.client.clone();
    let first = tokio::spawn(async move {
        let key = [("idempotency-key", "first")];
        surfaces::send(&client, surface, &key, &ask("Hi")).await
    });
    // The upstream is asked before the turn is in the record.
    app.running_turn(surface, "first").await;
    upstream.asked_times(1).await;
    let wanted = with(&Env::system(), of_keys(at_once(1)));
    let next = app.again(&upstream, wanted).await;
    assert_eq!(next.runtime.recover().await.unwrap(), 1);
    assert_limited(
        surface,
        &ask_on(&next.client, surface, &ask("Ho")).await,
        "at once",
    );
    upstream.open(GATE);
    next.settled().await;
    assert_eq!(ask_on(&next.client, surface, &ask("Ho")).await.status, 200);
    first.abort();
}

fn half_stream() -> ListenerReply {
    let whole = upstream_stream("Hello", &[]);
    let at = whole.find("\n\n").unwrap() + 2;
    let at = at + whole[at..].find("\n\n").unwrap() + 2;
    let (head, tail) = whole.split_at(at);
    ListenerReply::pieces(
        "text/event-stream",
        vec![
            ReplyPiece::Bytes(head.to_owned().into()),
            ReplyPiece::Gate(GATE),
            ReplyPiece::Bytes(tail.to_owned().into()),
        ],
    )
}

async fn streams_are_counted_from_head_to_end_readers_of_events_too(surface: WireFormat) {
    let upstream = Listener::in_turn(vec![half_stream()]).await.unwrap();
    let one = RateLimits {
        streams_max: Some(1),
        ..RateLimits::default()
    };
    let app = App::start(&upstream, with(&clock(), of_keys(one))).await;
    let mut open = surfaces::open(&app.client, surface, &[], &ask_streamed("Hi")).await;
    open.until("Hello").await;
    let second = ask_on(&app.client, surface, &ask_streamed("Hi")).await;
    assert_limited(surface, &second, "1 open streams at once");
    let events = format!("/v1/turns/{}/events", open.header("turnwright-turn"));
    let reader = app.client.send("GET", &events, &[], "").await.unwrap();
    // Our own path, which has our own errors.
    assert_limited(WireFormat::OpenAiChat, &reader, "1 open streams at once");
    // The refused stream began no turn.
    assert_eq!(upstream.asked().len(), 1);
    upstream.open(GATE);
    let end = surfaces::stream_end(surface);
    assert!(open.until(end).await.ends_with(end));
    // Its end is seen, so the next may open, and so for each of them.
    for _ in 0..10 {
        let got = ask_on(&app.client, surface, &ask_streamed("Hi")).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
    let mut read = app.client.open("GET", &events, &[], "").await.unwrap();
    assert_eq!(read.status, 200);
    read.until("event: end").await;
    assert_eq!(
        ask_on(&app.client, surface, &ask_streamed("Hi"))
            .await
            .status,
        200
    );
}

async fn streams_beyond_those_of_the_server_are_its_own_overload(surface: WireFormat) {
    let upstream = Listener::in_turn(vec![half_stream()]).await.unwrap();
    let rules = LimiterRules {
        streams_max: 1,
        ..LimiterRules::defaults()
    };
    let app = App::start(&upstream, with(&clock(), rules)).await;
    let mut open = surfaces::open(&app.client, surface, &[], &ask_streamed("Hi")).await;
    open.until("Hello").await;
    let refused = ask_on(&app.client, surface, &ask_streamed("Hi")).await;
    assert_refused(surface, &refused, 503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
}

async fn bodies_beyond_the_room_for_them_are_refused_at_once(surface: WireFormat) {
    let upstream = hello().await;
    let mut wanted = AppOptions::plain();
    wanted.options.bodies_bytes_max = 0;
    wanted.config = Box::new(|config| config.request.body_bytes_max = 64 * 1024);
    let app = App::start(&upstream, wanted).await;
    let held = Held::start(&app, surface, 60 * 1024).await;
    let large = ask_on(&app.client, surface, &ask(&"x".repeat(32 * 1024))).await;
    assert_refused(surface, &large, 503, "overloaded");
    assert_eq!(large.header("retry-after"), "1");
    drop(held);
    // What was held is free as soon as the server sees that its sender left.
    poll_until("room for a body", async || {
        let got = ask_on(&app.client, surface, &ask(&"x".repeat(32 * 1024))).await;
        (got.status == 200).then_some(())
    })
    .await;
}

/// Looks for what takes a moment.
const PROBES_MAX: u32 = 10_000;

/// A request of which so many bytes of the body were sent, and the rest is not.
struct Held {
    _tcp: tokio::net::TcpStream,
}

impl Held {
    async fn start(app: &App, surface: WireFormat, bytes: usize) -> Self {
        let mut tcp = Self::send(app, surface, bytes).await;
        // The server has read them when a large body no longer finds room.
        for _ in 0..PROBES_MAX {
            let probe = ask(&"x".repeat(32 * 1024));
            if ask_on(&app.client, surface, &probe).await.status == 503 {
                return Self { _tcp: tcp };
            }
            // A probe that was being read left it no room, and it was refused itself.
            let is_answered = !matches!(
                tcp.try_read(&mut [0; 64]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock
            );
            if is_answered {
                tcp = Self::send(app, surface, bytes).await;
            }
        }
        panic!("there was room for a body {PROBES_MAX} times");
    }

    async fn send(app: &App, surface: WireFormat, bytes: usize) -> tokio::net::TcpStream {
        use tokio::io::AsyncWriteExt;
        let mut tcp = tokio::net::TcpStream::connect(app.client.address)
            .await
            .unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            surfaces::path(surface),
            app.client.key.as_deref().unwrap(),
            bytes + 1
        );
        tcp.write_all(head.as_bytes()).await.unwrap();
        tcp.write_all(&vec![b' '; bytes]).await.unwrap();
        tcp
    }
}

async fn many_at_the_edge_get_exactly_what_there_is(surface: WireFormat) {
    let (upstream, env) = (hello().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(per_minute(8)))).await;
    let asking = (0..40).map(|_| {
        let client = app.client.clone();
        tokio::spawn(async move { ask_on(&client, surface, &ask("Hi")).await.status })
    });
    let asking: Vec<_> = asking.collect();
    let mut answered = 0;
    for status in asking {
        match status.await.unwrap() {
            200 => answered += 1,
            other => assert_eq!(other, 429),
        }
    }
    assert_eq!((answered, upstream.asked().len()), (8, 8));
}

async fn the_largest_limit_and_a_clock_that_goes_back_are_told_in_valid_headers(
    surface: WireFormat,
) {
    let (upstream, env) = (hello().await, clock());
    let app = App::start(&upstream, with(&env, of_keys(per_minute(u32::MAX)))).await;
    for at in [START, Timestamp(START.0 - 3_600_000_000), START] {
        env.move_clock(at);
        let got = ask_on(&app.client, surface, &ask("Hi")).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(told(surface, &got)[0], "4294967295");
        let [_, _, at] = told(surface, &got);
        let is_soon = at.ends_with("ms") || at.starts_with("2027-01-15T0");
        assert!(is_soon, "{at}");
    }
    let none = app.with_key(None);
    let got = none
        .send("POST", surfaces::path(surface), &[], "null")
        .await;
    let got = got.unwrap();
    assert_eq!((got.status, told(surface, &got)), (401, ["", "", ""]));
}
