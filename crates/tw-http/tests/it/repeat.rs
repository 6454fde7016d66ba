//! Requests that are sent again: by idempotency key, or marked by the client's library.

use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, ask_streamed, probe, upstream_body, upstream_stream};
use crate::leave::stop_noted;
use crate::surfaces::{self, SurfaceError, assert_refused, on_each_surface};

on_each_surface!(
    a_key_of_a_running_turn_attaches_from_its_start,
    a_key_of_a_finished_turn_gets_its_answer_again,
    a_key_with_another_body_is_refused,
    a_key_in_another_conversation_is_refused,
    a_key_belongs_to_one_end_user,
    two_requests_at_once_with_one_key_make_one_turn,
    a_key_of_a_turn_that_failed_after_reads_starts_a_new_one,
    a_key_of_a_turn_that_failed_after_an_effect_gets_424,
    a_marked_retry_attaches_to_the_running_turn,
    a_marked_retry_of_a_stopping_turn_waits_and_then_gets_424,
    a_marked_retry_after_reads_is_a_new_turn,
    a_marked_retry_after_an_effect_gets_424,
    a_named_users_completed_stream_is_replayed_byte_for_byte,
    a_named_conversation_is_replayed_too,
    an_answered_request_of_nobody_is_not_replayed,
    a_marked_retry_of_an_answer_that_was_handed_over_has_no_effect_again,
    a_marked_retry_of_an_answer_that_broke_off_has_no_effect_again,
    two_people_who_say_the_same_are_two_and_a_retry_of_one_is_neither_anew,
    a_first_try_that_comes_behind_its_retry_has_no_effect_again,
    a_first_try_behind_a_retry_that_is_stopping_gets_424,
    a_retry_behind_its_first_try_leaves_the_next_first_try_alone,
    a_retry_behind_a_turn_that_came_to_nothing_gets_the_answer_that_had_effects,
    a_retry_behind_a_turn_that_came_to_nothing_attaches_to_one_that_runs,
    an_answer_that_nobody_took_is_replayed_to_a_marked_retry,
    a_marked_retry_never_attaches_to_anothers_turn,
    a_turn_that_somebody_cancelled_is_not_run_again_for_a_retry,
    a_retry_after_the_window_is_a_new_turn,
);

const KEY: (&str, &str) = ("idempotency-key", "k");
const FIRST: (&str, &str) = ("x-stainless-retry-count", "0");
const RETRY: (&str, &str) = ("x-stainless-retry-count", "1");
const REFUSAL: &str = r#"{"error":{"message":"too long","type":"invalid_request_error"}}"#;

fn turn(got: &ReadAnswer) -> &str {
    got.header("turnwright-turn")
}

/// Sends in the background.
fn spawn(
    client: &TestClient,
    surface: WireFormat,
    headers: &[(&'static str, &'static str)],
    body: Value,
) -> JoinHandle<ReadAnswer> {
    let (client, headers) = (client.clone(), headers.to_vec());
    tokio::spawn(async move { surfaces::send(&client, surface, &headers, &body).await })
}

fn gated(gate: &'static str, content_type: &str, body: String) -> ListenerReply {
    let pieces = vec![ReplyPiece::HeadGate(gate), ReplyPiece::Bytes(body.into())];
    ListenerReply::pieces(content_type, pieces)
}

async fn answering(replies: Vec<ListenerReply>) -> Listener {
    Listener::in_turn(replies).await.unwrap()
}

/// An upstream that calls `act` and then refuses, twice, and afterwards answers.
async fn failing_after_a_call() -> Listener {
    let call = || ListenerReply::json(upstream_body("", &[("c1", "act", "{}")]));
    answering(vec![
        call(),
        ListenerReply::status(400, REFUSAL),
        ListenerReply::json(upstream_body("Hello", &[])),
    ])
    .await
}

async fn with_act(upstream: &Listener, tool: &Listener, effect: EffectClass) -> App {
    let act = probe("act", effect, tool.url("/"));
    App::start(upstream, AppOptions::with_tools(vec![act])).await
}

fn assert_effects_told(surface: WireFormat, got: &ReadAnswer, of: &str) {
    assert_refused(surface, got, 424, "effects_ran");
    assert_eq!(got.header("x-should-retry"), "false");
    assert_eq!(turn(got), of);
    let message = SurfaceError::of(surface, got).message;
    assert!(message.contains(of), "{message}");
    assert!(message.contains("act (completed)"), "{message}");
}

async fn a_key_of_a_running_turn_attaches_from_its_start(surface: WireFormat) {
    let text = upstream_stream("Hello", &[]);
    let (first, rest) = text.split_at(text.len() / 2);
    let pieces = vec![
        ReplyPiece::Bytes(first.to_owned().into()),
        ReplyPiece::Gate("go"),
        ReplyPiece::Bytes(rest.to_owned().into()),
    ];
    let upstream = answering(vec![ListenerReply::pieces("text/event-stream", pieces)]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = ask_streamed("Hi");
    let first = spawn(&app.client, surface, &[KEY], body.clone());
    upstream.asked_times(1).await;
    app.running_turn(surface, "k").await;
    let second = spawn(&app.client, surface, &[KEY], body);
    upstream.open("go");
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(surfaces::text(surface, &first), "Hello");
    assert_eq!(turn(&first), turn(&second));
    assert_eq!(first.body, second.body);
    assert_eq!(upstream.asked().len(), 1);
}

async fn a_key_of_a_finished_turn_gets_its_answer_again(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let first = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    app.settled().await;
    let second = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    assert_eq!(turn(&first), turn(&second));
    assert_eq!(first.body, second.body);
    assert_eq!(upstream.asked().len(), 1);
}

async fn a_key_with_another_body_is_refused(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    app.ask_on(surface, &[KEY], &ask("Hi")).await;
    let other = app.ask_on(surface, &[KEY], &ask("Bye")).await;
    assert_refused(surface, &other, 422, "idempotency_key_reused");
    assert_eq!(upstream.asked().len(), 1);
}

async fn a_key_in_another_conversation_is_refused(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let named = ("turnwright-conversation", "c-1");
    let first = app.ask_on(surface, &[KEY, named], &ask("Hi")).await;
    app.settled().await;
    for headers in [&[KEY][..], &[KEY, ("turnwright-conversation", "c-2")]] {
        let other = app.ask_on(surface, headers, &ask("Hi")).await;
        assert_refused(surface, &other, 422, "idempotency_key_reused");
    }
    let again = app.ask_on(surface, &[KEY, named], &ask("Hi")).await;
    assert_eq!(turn(&again), turn(&first));
    assert_eq!(upstream.asked().len(), 1);
}

async fn a_key_belongs_to_one_end_user(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let ann = app
        .post(&[KEY, ("turnwright-user", "ann")], &ask("Hi"))
        .await;
    let bob = app
        .post(&[KEY, ("turnwright-user", "bob")], &ask("Hi"))
        .await;
    let nobody = app.ask_on(surface, &[KEY], &ask("Bye")).await;
    assert_eq!(nobody.status, 200, "{}", nobody.text());
    assert_ne!(turn(&ann), turn(&bob));
}

async fn two_requests_at_once_with_one_key_make_one_turn(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let upstream = Listener::start(|asked| {
        let after_call = asked.json()["messages"].as_array().unwrap().len() > 1;
        ListenerReply::json(if after_call {
            upstream_body("Done", &[])
        } else {
            upstream_body("", &[("c1", "act", "{}")])
        })
    })
    .await
    .unwrap();
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let asked: Vec<_> = (0..4)
        .map(|_| spawn(&app.client, surface, &[KEY], ask("Hi")))
        .collect();
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.await.unwrap());
    }
    for got in &answers {
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(turn(got), turn(&answers[0]));
        assert_eq!(got.body, answers[0].body);
    }
    assert_eq!(tool.asked().len(), 1);
}

async fn a_key_of_a_turn_that_failed_after_reads_starts_a_new_one(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let upstream = failing_after_a_call().await;
    let app = with_act(&upstream, &tool, EffectClass::Read).await;
    let failed = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    assert_eq!(failed.status, 400);
    app.settled().await;
    let again = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert_ne!(turn(&again), turn(&failed));
    let third = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    assert_eq!(turn(&third), turn(&again));
    let other = app.ask_on(surface, &[KEY], &ask("Bye")).await;
    assert_eq!(other.status, 422);
}

async fn a_key_of_a_turn_that_failed_after_an_effect_gets_424(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let upstream = failing_after_a_call().await;
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let failed = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    assert_effects_told(surface, &failed, turn(&failed));
    app.settled().await;
    let again = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    assert_effects_told(surface, &again, turn(&failed));
    assert_eq!(tool.asked().len(), 1);
}

async fn a_marked_retry_attaches_to_the_running_turn(surface: WireFormat) {
    let text = upstream_stream("Hello", &[]);
    let (first, rest) = text.split_at(text.find("{}").unwrap());
    let pieces = vec![
        ReplyPiece::Bytes(first.to_owned().into()),
        ReplyPiece::Gate("go"),
        ReplyPiece::Bytes(rest.to_owned().into()),
    ];
    let upstream = answering(vec![ListenerReply::pieces("text/event-stream", pieces)]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = ask_streamed("Hi");
    let first = spawn(&app.client, surface, &[KEY], body.clone());
    let id = app.running_turn(surface, "k").await;
    let mut retry = surfaces::open(&app.client, surface, &[RETRY], &body).await;
    assert_eq!(retry.header("turnwright-turn"), id);
    let mut replayed = retry.until("Hello").await;
    assert_eq!(app.runtime.turns_running(), 1);
    upstream.open("go");
    replayed.push_str(&retry.until(surfaces::stream_end(surface)).await);
    assert_eq!(first.await.unwrap().text(), replayed);
    assert_eq!(upstream.asked().len(), 1);
    let unmarked = app.ask_on(surface, &[], &body).await;
    assert_ne!(turn(&unmarked), id);
}

async fn a_marked_retry_of_a_stopping_turn_waits_and_then_gets_424(surface: WireFormat) {
    let tool = answering(vec![gated("tool", "application/json", "{}".to_owned())]).await;
    let call = ListenerReply::json(upstream_body("", &[("c1", "act", "{}")]));
    let upstream = answering(vec![call]).await;
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let leaving = spawn(&app.client, surface, &[KEY], ask("Hi"));
    tool.asked_times(1).await;
    leaving.abort();
    stop_noted(&app, surface).await;
    let id = app.running_turn(surface, "k").await;
    let retry = spawn(&app.client, surface, &[RETRY], ask("Hi"));
    // The store answers in between, so that the retry has had its chance to go wrong.
    app.runtime.check_store().await.unwrap();
    assert!(!retry.is_finished());
    tool.open("tool");
    assert_effects_told(surface, &retry.await.unwrap(), &id);
    assert_eq!((tool.asked().len(), upstream.asked().len()), (1, 1));
}

async fn a_marked_retry_after_reads_is_a_new_turn(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let upstream = failing_after_a_call().await;
    let app = with_act(&upstream, &tool, EffectClass::Read).await;
    let failed = app.ask_on(surface, &[], &ask("Hi")).await;
    assert_eq!(failed.status, 400);
    assert_eq!(SurfaceError::of(surface, &failed).message, "too long");
    app.settled().await;
    let retry = app.ask_on(surface, &[RETRY], &ask("Hi")).await;
    assert_eq!(retry.status, 200, "{}", retry.text());
    assert_ne!(turn(&retry), turn(&failed));
}

async fn a_marked_retry_after_an_effect_gets_424(surface: WireFormat) {
    for effect in [
        EffectClass::Once,
        EffectClass::Idempotent,
        EffectClass::Queryable,
    ] {
        let tool = answering(vec![ListenerReply::json("{}")]).await;
        let upstream = failing_after_a_call().await;
        let app = with_act(&upstream, &tool, effect).await;
        let failed = app.ask_on(surface, &[], &ask("Hi")).await;
        assert_effects_told(surface, &failed, turn(&failed));
        app.settled().await;
        let retry = app.ask_on(surface, &[RETRY], &ask("Hi")).await;
        assert_effects_told(surface, &retry, turn(&failed));
        assert_eq!(tool.asked().len(), 1, "{effect:?}");
    }
}

async fn a_named_users_completed_stream_is_replayed_byte_for_byte(surface: WireFormat) {
    let tool = answering(vec![ListenerReply::json("{}")]).await;
    let upstream = answering(vec![
        ListenerReply::sse(upstream_stream("Looking.", &[("c1", "act", "{}")])),
        ListenerReply::sse(upstream_stream("Done.", &[])),
    ])
    .await;
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let ann = ("turnwright-user", "ann");
    let first = app.ask_on(surface, &[ann], &ask_streamed("Hi")).await;
    app.settled().await;
    let retry = app
        .ask_on(surface, &[ann, RETRY], &ask_streamed("Hi"))
        .await;
    assert_eq!(turn(&retry), turn(&first));
    assert_eq!(retry.body, first.body);
    assert_eq!((tool.asked().len(), upstream.asked().len()), (1, 2));
}

async fn a_named_conversation_is_replayed_too(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let named = ("turnwright-conversation", "c-1");
    let first = app.ask_on(surface, &[named], &ask("Hi")).await;
    app.settled().await;
    let retry = app.ask_on(surface, &[named, RETRY], &ask("Hi")).await;
    assert_eq!(turn(&retry), turn(&first));
    assert_eq!(retry.body, first.body);
    let elsewhere = ("turnwright-conversation", "c-2");
    let other = app.ask_on(surface, &[elsewhere, RETRY], &ask("Hi")).await;
    assert_ne!(turn(&other), turn(&first));
}

async fn an_answered_request_of_nobody_is_not_replayed(surface: WireFormat) {
    for body in [ask("Hi"), ask_streamed("Hi")] {
        let upstream = answering(vec![
            ListenerReply::json(upstream_body("One", &[])),
            ListenerReply::json(upstream_body("Two", &[])),
        ])
        .await;
        let app = App::start(&upstream, AppOptions::plain()).await;
        let first = app.ask_on(surface, &[], &body).await;
        app.settled().await;
        let retry = app.ask_on(surface, &[RETRY], &body).await;
        assert_ne!(turn(&retry), turn(&first));
        assert_eq!(upstream.asked().len(), 2);
    }
}

/// An upstream that calls `act` and then says that it is done, streamed or not, for whoever asks.
async fn acting(streamed: bool) -> Listener {
    let replies = move |text: &str, calls: &[(&str, &str, &str)]| {
        if streamed {
            ListenerReply::sse(upstream_stream(text, calls))
        } else {
            ListenerReply::json(upstream_body(text, calls))
        }
    };
    Listener::start(move |asked| {
        let after_call = asked.json()["messages"].as_array().unwrap().len() > 1;
        if after_call {
            replies("Done", &[])
        } else {
            replies("", &[("c1", "act", "{}")])
        }
    })
    .await
    .unwrap()
}

/// Whatever became of the first answer: a marked repetition has no effect again.
async fn a_marked_retry_of_an_answer_that_was_handed_over_has_no_effect_again(surface: WireFormat) {
    for streamed in [false, true] {
        let body = if streamed {
            ask_streamed("Hi")
        } else {
            ask("Hi")
        };
        for effect in EffectClass::ALL {
            for named in [&[][..], &[("turnwright-user", "ann")]] {
                let case = format!("{effect:?} {named:?} streamed {streamed}");
                let tool = Listener::start(|_| ListenerReply::json("{}"))
                    .await
                    .unwrap();
                let upstream = acting(streamed).await;
                let app = with_act(&upstream, &tool, effect).await;
                let first = app.ask_on(surface, named, &body).await;
                assert_eq!(first.status, 200, "{case}: {}", first.text());
                app.settled().await;
                let marked: Vec<_> = named.iter().copied().chain([RETRY]).collect();
                for _ in 0..2 {
                    let retry = app.ask_on(surface, &marked, &body).await;
                    let is_again = effect != EffectClass::Read || !named.is_empty();
                    assert_eq!(retry.status, 200, "{case}: {}", retry.text());
                    assert_eq!(turn(&retry) == turn(&first), is_again, "{case}");
                    if is_again {
                        assert_eq!(retry.body, first.body, "{case}");
                        assert_eq!(tool.asked().len(), 1, "{case}");
                    }
                    app.settled().await;
                }
            }
        }
    }
}

/// The answer's head has come, and nothing behind it: whether it counts as handed over nobody knows.
async fn a_marked_retry_of_an_answer_that_broke_off_has_no_effect_again(surface: WireFormat) {
    for streamed in [false, true] {
        let body = if streamed {
            ask_streamed("Hi")
        } else {
            ask("Hi")
        };
        let tool = Listener::start(|_| ListenerReply::json("{}"))
            .await
            .unwrap();
        let upstream = acting(streamed).await;
        let app = with_act(&upstream, &tool, EffectClass::Once).await;
        drop(surfaces::open(&app.client, surface, &[], &body).await);
        app.settled().await;
        let retry = app.ask_on(surface, &[RETRY], &body).await;
        assert!(matches!(retry.status, 200 | 424), "{}", retry.text());
        assert_eq!(tool.asked().len(), 1, "streamed {streamed}");
    }
}

async fn two_people_who_say_the_same_are_two_and_a_retry_of_one_is_neither_anew(
    surface: WireFormat,
) {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let upstream = acting(false).await;
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let one = app.ask_on(surface, &[], &ask("Hi")).await;
    let other = app.ask_on(surface, &[], &ask("Hi")).await;
    assert_ne!(turn(&one), turn(&other));
    app.settled().await;
    let retry = app.ask_on(surface, &[RETRY], &ask("Hi")).await;
    assert_eq!((turn(&retry), tool.asked().len()), (turn(&other), 2));
}

/// Two that waited for the server, or in a proxy that did not see the client leave, arrive in either order.
async fn a_first_try_that_comes_behind_its_retry_has_no_effect_again(surface: WireFormat) {
    let asks: [fn(&str) -> Value; 2] = [ask, ask_streamed];
    for ask in asks {
        for named in [None, Some(("turnwright-user", "ann"))] {
            let tool = Listener::start(|_| ListenerReply::json("{}"))
                .await
                .unwrap();
            let upstream = acting(ask("")["stream"] == true).await;
            let app = with_act(&upstream, &tool, EffectClass::Once).await;
            let with = |mark| named.into_iter().chain([mark]).collect::<Vec<_>>();
            let retry = app.ask_on(surface, &with(RETRY), &ask("Hi")).await;
            let first = app.ask_on(surface, &with(FIRST), &ask("Hi")).await;
            assert_eq!((turn(&first), tool.asked().len()), (turn(&retry), 1));
            // There is one first try; who does not count is somebody else, and so is who says something else.
            for (mark, text, effects) in [(FIRST, "Hi", 2), (RETRY, "Bye", 3)] {
                let other = app.ask_on(surface, &with(mark), &ask(text)).await;
                assert_ne!(turn(&other), turn(&retry));
                assert_eq!(tool.asked().len(), effects);
            }
            app.ask_on(surface, &named.into_iter().collect::<Vec<_>>(), &ask("Bye"))
                .await;
            assert_eq!(tool.asked().len(), 4);
        }
    }
}

/// It finds the repetition's turn again when it has waited for the end.
async fn a_first_try_behind_a_retry_that_is_stopping_gets_424(surface: WireFormat) {
    let tool = answering(vec![gated("tool", "application/json", "{}".to_owned())]).await;
    let upstream = acting(false).await;
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let leaving = spawn(&app.client, surface, &[RETRY], ask("Hi"));
    tool.asked_times(1).await;
    leaving.abort();
    let database = rusqlite::Connection::open(app.database()).unwrap();
    let stopping = "SELECT id FROM turn WHERE stop_reason IS NOT NULL";
    let id: String = poll_until("a stop that is written down", async || {
        database.query_row(stopping, [], |row| row.get(0)).ok()
    })
    .await;
    let first = spawn(&app.client, surface, &[FIRST], ask("Hi"));
    // The store answers in between, so that it has had its chance to go wrong.
    app.runtime.check_store().await.unwrap();
    assert!(!first.is_finished());
    tool.open("tool");
    assert_effects_told(surface, &first.await.unwrap(), &id);
    assert_eq!(tool.asked().len(), 1);
}

/// A first try that was seen is not waited for.
async fn a_retry_behind_its_first_try_leaves_the_next_first_try_alone(surface: WireFormat) {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let upstream = acting(false).await;
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let first = app.ask_on(surface, &[FIRST], &ask("Hi")).await;
    app.settled().await;
    let retry = app.ask_on(surface, &[RETRY], &ask("Hi")).await;
    let other = app.ask_on(surface, &[FIRST], &ask("Hi")).await;
    assert_eq!(turn(&retry), turn(&first));
    assert_ne!(turn(&other), turn(&first));
    assert_eq!(tool.asked().len(), 2);
}

/// It may be the retry of either: the one whose call ran must not have it run again.
async fn a_retry_behind_a_turn_that_came_to_nothing_gets_the_answer_that_had_effects(
    surface: WireFormat,
) {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let upstream = answering(vec![
        ListenerReply::json(upstream_body("", &[("c1", "act", "{}")])),
        ListenerReply::json(upstream_body("Done", &[])),
        ListenerReply::status(400, REFUSAL),
        ListenerReply::json(upstream_body("", &[("c1", "act", "{}")])),
    ])
    .await;
    let app = with_act(&upstream, &tool, EffectClass::Once).await;
    let acted = app.ask_on(surface, &[], &ask("Hi")).await;
    let failed = app.ask_on(surface, &[], &ask("Hi")).await;
    assert_eq!((acted.status, failed.status), (200, 400));
    app.settled().await;
    let retry = app.ask_on(surface, &[RETRY], &ask("Hi")).await;
    assert_eq!((turn(&retry), &retry.body), (turn(&acted), &acted.body));
    assert_eq!(tool.asked().len(), 1);
}

/// What runs may yet have effects.
async fn a_retry_behind_a_turn_that_came_to_nothing_attaches_to_one_that_runs(surface: WireFormat) {
    let text = upstream_stream("Hello", &[]);
    let (first, rest) = text.split_at(text.find("{}").unwrap());
    let pieces = vec![
        ReplyPiece::Bytes(first.to_owned().into()),
        ReplyPiece::Gate("go"),
        ReplyPiece::Bytes(rest.to_owned().into()),
    ];
    let upstream = answering(vec![
        ListenerReply::pieces("text/event-stream", pieces),
        ListenerReply::status(400, REFUSAL),
    ])
    .await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = ask_streamed("Hi");
    let running = spawn(&app.client, surface, &[KEY], body.clone());
    upstream.asked_times(1).await;
    let id = app.running_turn(surface, "k").await;
    let failed = app.ask_on(surface, &[], &body).await;
    assert_eq!(failed.status, 400);
    let mut retry = surfaces::open(&app.client, surface, &[RETRY], &body).await;
    // Its head is here before what it attaches to may go on.
    assert_eq!(retry.header("turnwright-turn"), id);
    upstream.open("go");
    let replayed = retry.until(surfaces::stream_end(surface)).await;
    assert_eq!(running.await.unwrap().text(), replayed);
    assert_eq!(upstream.asked().len(), 2);
}

async fn an_answer_that_nobody_took_is_replayed_to_a_marked_retry(surface: WireFormat) {
    let reply = gated("go", "application/json", upstream_body("Hello", &[]));
    let upstream = answering(vec![reply]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let leaving = spawn(
        &app.client,
        surface,
        &[KEY, ("turnwright-on-leave", "finish")],
        ask("Hi"),
    );
    let id = app.running_turn(surface, "k").await;
    upstream.asked_times(1).await;
    leaving.abort();
    // It was never answered, since it was aborted before there was an answer.
    assert!(leaving.await.unwrap_err().is_cancelled());
    upstream.open("go");
    app.settled().await;
    let retry = app.ask_on(surface, &[RETRY], &ask("Hi")).await;
    assert_eq!(turn(&retry), id);
    assert_eq!(surfaces::text(surface, &retry), "Hello");
}

async fn a_marked_retry_never_attaches_to_anothers_turn(surface: WireFormat) {
    let upstream = answering(vec![gated(
        "go",
        "application/json",
        upstream_body("Hello", &[]),
    )])
    .await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let ann = spawn(
        &app.client,
        surface,
        &[("turnwright-user", "ann")],
        ask("Hi"),
    );
    upstream.asked_times(1).await;
    let key = app
        .key("default", ToolGrant::None, vec![KeyScope::Chat])
        .await;
    let other_key = app.with_key(Some(key));
    let retries = vec![
        spawn(
            &app.client,
            surface,
            &[("turnwright-user", "bob"), RETRY],
            ask("Hi"),
        ),
        spawn(&app.client, surface, &[RETRY], ask("Hi")),
        spawn(
            &other_key,
            surface,
            &[("turnwright-user", "ann"), RETRY],
            ask("Hi"),
        ),
        spawn(
            &app.client,
            surface,
            &[
                ("turnwright-user", "ann"),
                ("turnwright-conversation", "c"),
                RETRY,
            ],
            ask("Hi"),
        ),
        spawn(
            &app.client,
            surface,
            &[("turnwright-user", "ann"), RETRY],
            ask("Bye"),
        ),
    ];
    upstream.asked_times(1 + retries.len()).await;
    upstream.open("go");
    let ann = ann.await.unwrap();
    for retry in retries {
        let got = retry.await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        assert_ne!(turn(&got), turn(&ann));
    }
}

async fn a_turn_that_somebody_cancelled_is_not_run_again_for_a_retry(surface: WireFormat) {
    let reply = gated("go", "application/json", upstream_body("Hello", &[]));
    let upstream = answering(vec![reply]).await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let first = spawn(&app.client, surface, &[KEY], ask("Hi"));
    let id = app.running_turn(surface, "k").await;
    let cancel = format!("/v1/turns/{id}/cancel");
    let cancelled = app.client.send("POST", &cancel, &[], "").await.unwrap();
    assert_eq!(cancelled.json()["status"], "cancelled");
    let first = first.await.unwrap();
    assert_eq!(
        (first.status, first.header("x-should-retry")),
        (409, "false")
    );
    let retry = app.ask_on(surface, &[KEY], &ask("Hi")).await;
    assert_eq!((retry.status, turn(&retry)), (409, id.as_str()));
}

async fn a_retry_after_the_window_is_a_new_turn(surface: WireFormat) {
    let upstream = answering(vec![ListenerReply::json(upstream_body("Hello", &[]))]).await;
    let wanted = AppOptions {
        config: Box::new(|config| config.repeat_window = Duration::ZERO),
        ..AppOptions::plain()
    };
    let app = App::start(&upstream, wanted).await;
    let ann = ("turnwright-user", "ann");
    let first = app.ask_on(surface, &[ann], &ask("Hi")).await;
    let retry = app.ask_on(surface, &[ann, RETRY], &ask("Hi")).await;
    assert_ne!(turn(&retry), turn(&first));
}
