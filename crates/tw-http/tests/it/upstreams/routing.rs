//! Patterns, aliases and fallback.

use serde_json::json;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{ask_of, attempts, in_front_of, says, serves, upstream};
use crate::app::{upstream_body, upstream_stream};

/// Where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:1/v1";

fn pair(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

#[tokio::test]
async fn a_model_goes_to_the_first_upstream_that_serves_it_under_its_name_there() {
    let (small, large) = (says("small").await, says("large").await);
    let mut first = upstream("first", small.url("/v1"));
    first.models = serves(&["llama-*"], &[("fast", "llama-3.2-1b")]);
    let mut second = upstream("second", large.url("/v1"));
    second.models = serves(&["*"], &[("fast", "gpt-4o-mini"), ("best", "gpt-5")]);
    let app = in_front_of(vec![first, second]).await;
    for (model, answer, sent, name) in [
        ("llama-3", "small", "llama-3", "first"),
        ("fast", "small", "llama-3.2-1b", "first"),
        ("gpt-4o", "large", "gpt-4o", "second"),
        ("best", "large", "gpt-5", "second"),
    ] {
        let got = app.post(&[], &ask_of(model)).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(
            got.json()["choices"][0]["message"]["content"],
            json!(answer)
        );
        let listener = if name == "first" { &small } else { &large };
        let body = listener.asked().pop().unwrap().body;
        // Only the name differs from what the client wrote.
        let expected = ask_of(sent).to_string();
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&body).unwrap(),
            serde_json::from_str::<serde_json::Value>(&expected).unwrap()
        );
        let turn = app.turn_of(&got).await;
        assert_eq!(attempts(&turn), pair(&[(name, "ok")]));
        assert_eq!(turn["model"], json!(model));
    }
}

#[tokio::test]
async fn a_model_that_nobody_serves_is_not_found_and_nobody_is_asked() {
    let listener = says("x").await;
    let mut only = upstream("only", listener.url("/v1"));
    only.models = serves(&["gpt-*"], &[]);
    let app = in_front_of(vec![only]).await;
    for stream in [true, false] {
        let mut request = ask_of("secret-model-4711");
        request["stream"] = json!(stream);
        let got = app.post(&[], &request).await;
        assert_eq!(got.status, 404);
        let error = &got.json()["error"];
        assert_eq!(error["code"], json!("model_not_found"));
        assert_eq!(error["type"], json!("invalid_request_error"));
        assert_eq!(error["param"], json!("model"));
        assert!(!got.text().contains("only"), "{}", got.text());
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn when_an_upstream_fails_the_next_one_answers() {
    let error = r#"{"error":{"message":"no","type":"t","code":"c","param":null}}"#;
    let page = ListenerReply::pieces("text/html", vec![ReplyPiece::Bytes("<html>".into())]);
    for (reply, outcome) in [
        (Some(ListenerReply::status(503, error)), "status"),
        // It is not waited for, since another one can answer now.
        (
            Some(ListenerReply::status(429, error).with_header("retry-after", "25")),
            "status",
        ),
        (Some(ListenerReply::status(401, error)), "status"),
        (Some(ListenerReply::hang_up()), "reset"),
        (Some(page), "nonsense"),
        (
            Some(ListenerReply::pieces(
                "text/event-stream",
                vec![ReplyPiece::Cut],
            )),
            "cut",
        ),
        (None, "connect"),
    ] {
        let failing = match reply {
            Some(reply) => Some(Listener::in_turn(vec![reply]).await.unwrap()),
            None => None,
        };
        let base_url = failing
            .as_ref()
            .map_or(NOWHERE.to_owned(), |listener| listener.url("/v1"));
        let good = says("good").await;
        let app = in_front_of(vec![
            upstream("bad", base_url),
            upstream("good", good.url("/v1")),
        ])
        .await;
        for stream in [false, true] {
            let mut request = ask_of("m");
            request["stream"] = json!(stream);
            let got = app.post(&[], &request).await;
            assert_eq!(got.status, 200, "{outcome}: {}", got.text());
            assert!(got.text().contains("good"), "{outcome}: {}", got.text());
            let expected = pair(&[("bad", outcome), ("good", "ok")]);
            assert_eq!(attempts(&app.turn_of(&got).await), expected, "{outcome}");
        }
    }
}

#[tokio::test]
async fn a_request_that_the_first_upstream_refuses_goes_to_no_other() {
    let error = r#"{"error":{"message":"too hot","type":"t","code":"c","param":"temperature"}}"#;
    for status in [400, 404, 413, 422] {
        let strict = Listener::in_turn(vec![ListenerReply::status(status, error)])
            .await
            .unwrap();
        let lax = says("lax").await;
        let app = in_front_of(vec![
            upstream("strict", strict.url("/v1")),
            upstream("lax", lax.url("/v1")),
        ])
        .await;
        let got = app.post(&[], &ask_of("m")).await;
        assert_eq!(got.status, status);
        assert_eq!(got.json()["error"]["message"], json!("too hot"));
        assert_eq!(lax.asked().len(), 0);
    }
}

#[tokio::test]
async fn what_was_shown_is_not_begun_again_elsewhere() {
    let whole = upstream_stream("Hel", &[]);
    let until = whole.find("\"finish_reason\":\"stop\"").unwrap();
    let cut_at = whole[..until].rfind("data: ").unwrap();
    let begins = vec![
        ReplyPiece::Bytes(whole[..cut_at].to_owned().into()),
        ReplyPiece::Cut,
    ];
    let cuts = Listener::in_turn(vec![ListenerReply::pieces("text/event-stream", begins)])
        .await
        .unwrap();
    let other = says("other").await;
    let app = in_front_of(vec![
        upstream("cuts", cuts.url("/v1")),
        upstream("other", other.url("/v1")),
    ])
    .await;
    let mut request = ask_of("m");
    request["stream"] = json!(true);
    let got = app.post(&[], &request).await;
    assert!(got.text().contains("Hel"), "{}", got.text());
    assert!(got.text().contains("error"), "{}", got.text());
    assert!(!got.text().contains("[DONE]"), "{}", got.text());
    assert_eq!(other.asked().len(), 0);
}

#[tokio::test]
async fn three_attempts_go_round_and_the_last_failure_is_told() {
    let busy = Listener::in_turn(vec![ListenerReply::status(503, "{}")])
        .await
        .unwrap();
    let app = in_front_of(vec![
        upstream("a", NOWHERE.to_owned()),
        upstream("b", busy.url("/v1")),
    ])
    .await;
    let got = app.post(&[], &ask_of("m")).await;
    assert_eq!(got.status, 502, "{}", got.text());
    let expected = pair(&[("a", "connect"), ("b", "status"), ("a", "connect")]);
    assert_eq!(attempts(&app.turn_of(&got).await), expected);
}

/// How upstreams answer, one request after the other, what becomes of it, and who is asked.
type Tries = (
    &'static [u16],
    &'static [u16],
    u16,
    &'static [(&'static str, &'static str)],
);

const S: &str = "status";
const TRIES: [Tries; 7] = [
    // A fallback that is set up wrongly does not end what the first one would have answered.
    (&[503, 200], &[401], 200, &[("a", S), ("b", S), ("a", "ok")]),
    (&[503, 200], &[404], 200, &[("a", S), ("b", S), ("a", "ok")]),
    (&[503, 503], &[403], 502, &[("a", S), ("b", S), ("a", S)]),
    // The one that would fail again is left out.
    (&[401], &[500, 200], 200, &[("a", S), ("b", S), ("b", "ok")]),
    // What is wrong with the request is wrong everywhere, and what both refuse is refused.
    (&[503], &[400], 400, &[("a", S), ("b", S)]),
    (&[404], &[200], 404, &[("a", S)]),
    (&[401], &[403], 502, &[("a", S), ("b", S)]),
];

#[tokio::test]
async fn an_upstream_that_fails_for_good_keeps_no_other_from_being_asked() {
    let replies = |statuses: &[u16]| {
        let reply = |status: &u16| match status {
            200 => ListenerReply::json(upstream_body("Hello", &[])),
            status => ListenerReply::status(*status, r#"{"error":{"message":"no"}}"#),
        };
        statuses.iter().map(reply).collect::<Vec<_>>()
    };
    for (first, second, status, tries) in TRIES {
        let says = format!("{first:?} {second:?}");
        let a = Listener::in_turn(replies(first)).await.unwrap();
        let b = Listener::in_turn(replies(second)).await.unwrap();
        let app = in_front_of(vec![
            upstream("a", a.url("/v1")),
            upstream("b", b.url("/v1")),
        ])
        .await;
        let got = app.post(&[], &ask_of("m")).await;
        assert_eq!(got.status, status, "{says}: {}", got.text());
        let turns = attempts(&app.turn_of(&got).await);
        assert_eq!(turns, pair(tries), "{says}");
    }
}
