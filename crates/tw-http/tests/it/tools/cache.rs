//! Results of `read` tools that are given again. That they end with their lifetime is tested in
//! `tw-runtime`, where no time has to pass.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};

use super::lab::{Ran, ToolLab, definition, editor, made, reaching};
use crate::app::ask;

/// A service whose every answer is another: `{"n":1}`, `{"n":2}`…
async fn lab() -> ToolLab {
    let answers = (1..=20).map(|n| ListenerReply::json(format!(r#"{{"n":{n},"m":{}}}"#, n * 10)));
    ToolLab::of(Listener::in_turn(answers.collect()).await.unwrap()).await
}

fn cached(scope: &str) -> Value {
    json!({
        "parameters": {
            "a": { "mode": "ai" },
            "b": { "mode": "ai", "schema": { "type": "object" }, "required": false, "in": "query" },
        },
        "policy": { "cache": { "lifetime_s": 3600, "scope": scope }, "backoff_ms": 0 },
        "response": { "select": "$.n" },
    })
}

/// What the model was shown, and whether nothing was sent for it; the record, the log of the turn
/// and the full result say the same.
async fn told(lab: &ToolLab, client: &TestClient, ran: &Ran) -> (String, bool) {
    let call = ran.call();
    assert_eq!(ran.ended(), "completed");
    let is_cached = call["cached"].as_bool().unwrap();
    let attempts = call["attempts"].as_array().unwrap().len();
    assert_eq!(attempts == 0, is_cached, "{call}");
    assert_eq!(call["started_us"].is_null(), is_cached, "{call}");
    let id = ran.got.header("turnwright-turn");
    let path = format!("/v1/turns/{id}/events");
    let log = client.send("GET", &path, &[], "").await.unwrap().text();
    assert_eq!(log.contains(r#""cached":true"#), is_cached, "{log}");
    let asked = lab.model.asked().pop().unwrap().json();
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["content"], call["shown"]);
    (call["shown"].as_str().unwrap().to_owned(), is_cached)
}

async fn run(lab: &ToolLab, calls: &str) -> (String, bool) {
    told(lab, &lab.app.client, &lab.run(calls).await).await
}

async fn run_as(lab: &ToolLab, client: &TestClient, user: &str) -> (String, bool) {
    let named = [("turnwright-user", user)];
    let headers = if user.is_empty() { &[] } else { &named[..] };
    let ran = lab
        .run_with(client, headers, &ask(r#"find {"a":"x"}"#))
        .await;
    told(lab, client, &ran).await
}

fn fresh(n: u32) -> (String, bool) {
    (n.to_string(), false)
}

fn kept(n: u32) -> (String, bool) {
    (n.to_string(), true)
}

#[tokio::test]
async fn an_equal_call_sends_nothing_and_says_so() {
    for scope in ["tool", "organization"] {
        let lab = lab().await;
        lab.make("find", "/", cached(scope)).await;
        let first = lab.run(r#"find {"a":"x","b":{"c":1,"d":[1,2]}}"#).await;
        assert_eq!(told(&lab, &lab.app.client, &first).await, fresh(1));
        for equal in [
            r#"find {"a":"x","b":{"c":1,"d":[1,2]}}"#,
            r#"find {"b":{"d":[1,2],"c":1},"a":"x"}"#,
            "find  { \"a\" : \"x\" ,\t\"b\" : { \"c\" : 1 , \"d\" : [ 1 , 2 ] } } ",
            r#"find {"a":"\u0078","b":{"c":1,"d":[1,2]}}"#,
        ] {
            let ran = lab.run(equal).await;
            assert_eq!(told(&lab, &lab.app.client, &ran).await, kept(1), "{equal}");
            assert_eq!(ran.call()["result"], first.call()["result"], "{equal}");
            assert_eq!(ran.call()["tool_version"], 1);
        }
        for (at, other) in [
            r#"find {"a":"x","b":{"c":1,"d":[2,1]}}"#,
            r#"find {"a":"x","b":{"c":"1","d":[1,2]}}"#,
            r#"find {"a":"x"}"#,
            r#"find {"a":"x "}"#,
            r#"find {"a":"X"}"#,
        ]
        .into_iter()
        .enumerate()
        {
            let n = u32::try_from(at).unwrap() + 2;
            // A number and a text of its digits are one and the same in a URL.
            let expected = if other.contains(r#""c":"1""#) {
                kept(1)
            } else {
                fresh(n)
            };
            let found = run(&lab, other).await;
            assert_eq!(found.1, expected.1, "{other}");
        }
        assert_eq!(lab.service.asked().len(), 5);
    }
}

#[tokio::test]
async fn calls_of_one_round_and_of_the_next_share_a_result() {
    let lab = lab().await;
    lab.make("find", "/", cached("tool")).await;
    let ran = lab
        .run("find {\"a\":\"x\"}\n\nfind {\"a\":\"x\"}\nfind {\"a\":\"y\"}")
        .await;
    let second = ran.turn["rounds"][1]["calls"].as_array().unwrap();
    let told: Vec<_> = second
        .iter()
        .map(|call| (&call["shown"], &call["cached"]))
        .collect();
    let wanted = [(&json!("1"), &json!(true)), (&json!("2"), &json!(false))];
    assert_eq!(told, wanted);
    assert_eq!(lab.service.asked().len(), 2);
}

#[tokio::test]
async fn a_new_version_of_the_tool_begins_anew() {
    let lab = lab().await;
    let id = lab.make("find", "/", cached("tool")).await;
    let call = r#"find {"a":"x"}"#;
    assert_eq!(run(&lab, call).await, fresh(1));
    lab.patch(&id, json!({ "label": "Another" })).await;
    assert_eq!(run(&lab, call).await, fresh(2));
    assert_eq!(run(&lab, call).await, kept(2));
    lab.patch(&id, json!({ "label": null })).await;
    assert_eq!(
        run(&lab, call).await,
        fresh(3),
        "not what the first version got"
    );
}

#[tokio::test]
async fn versions_share_what_they_ask_alike_where_the_scope_says_so() {
    let lab = lab().await;
    let id = lab.make("find", "/", cached("organization")).await;
    let call = r#"find {"a":"x"}"#;
    assert_eq!(run(&lab, call).await, fresh(1));
    lab.patch(&id, json!({ "label": "Another" })).await;
    assert_eq!(run(&lab, call).await, kept(1));
    // Another request, or something else made of the answer.
    for (at, patch) in [
        json!({ "headers": { "x-more": "1" } }),
        json!({ "query": { "more": 1 } }),
        json!({ "response": { "statuses": ["2xx", 404] } }),
        json!({ "response": { "content_types": ["application/json"] } }),
        json!({ "response": { "kept_bytes_max": 100 } }),
    ]
    .into_iter()
    .enumerate()
    {
        let n = u32::try_from(at).unwrap() + 2;
        lab.patch(&id, patch.clone()).await;
        assert_eq!(run(&lab, call).await, fresh(n), "{patch}");
        assert_eq!(run(&lab, call).await, kept(n), "{patch}");
    }
    lab.patch(&id, json!({ "response": { "select": "$.m" } }))
        .await;
    let (shown, _) = run(&lab, call).await;
    assert_eq!(
        shown.parse::<u32>().unwrap() % 10,
        0,
        "{shown} is not what is selected now"
    );
}

#[tokio::test]
async fn one_persons_results_are_not_anothers() {
    let lab = lab().await;
    lab.make("find", "/", cached("user")).await;
    let scopes = vec![KeyScope::Chat, KeyScope::TurnsReadAll];
    let mine = &lab.app.client;
    assert_eq!(run_as(&lab, mine, "ann").await, fresh(1));
    assert_eq!(run_as(&lab, mine, "bob").await, fresh(2));
    assert_eq!(run_as(&lab, mine, "ann").await, kept(1));
    assert_eq!(run_as(&lab, mine, "bob").await, kept(2));
    assert_eq!(run_as(&lab, mine, "Ann").await, fresh(3));
    // Nobody in particular is nobody to share with.
    assert_eq!(run_as(&lab, mine, "").await, fresh(4));
    assert_eq!(run_as(&lab, mine, "").await, fresh(5));
    // By the request's own field, too, and by another key of the organization.
    let key = lab.app.key("default", ToolGrant::All, scopes).await;
    let colleague = lab.app.with_key(Some(key));
    assert_eq!(run_as(&lab, &colleague, "ann").await, kept(1));
    let mut request = ask(r#"find {"a":"x"}"#);
    request["user"] = json!("bob");
    let ran = lab.run_with(mine, &[], &request).await;
    assert_eq!(told(&lab, mine, &ran).await, kept(2));
}

#[tokio::test]
async fn what_a_request_holds_of_a_person_parts_results_in_every_scope() {
    let lab = lab().await;
    for (at, scope) in ["tool", "organization"].into_iter().enumerate() {
        let mut members = cached(scope);
        members["headers"] = json!({ "x-user": "{{end_user}}" });
        let id = lab.make("find", "/", members).await;
        let n = u32::try_from(at).unwrap() * 2;
        assert_eq!(run_as(&lab, &lab.app.client, "ann").await, fresh(n + 1));
        assert_eq!(run_as(&lab, &lab.app.client, "bob").await, fresh(n + 2));
        assert_eq!(run_as(&lab, &lab.app.client, "ann").await, kept(n + 1));
        lab.delete(&id).await;
    }
}

#[tokio::test]
async fn organizations_never_share() {
    for scope in ["tool", "user", "organization"] {
        let lab = lab().await;
        let other = editor(&lab.app, "other").await;
        let definition = definition("find", &lab.service.url("/"), cached(scope));
        made(&lab.editor, "default", &definition).await;
        made(&other, "other", &definition).await;
        assert_eq!(
            run_as(&lab, &lab.app.client, "ann").await,
            fresh(1),
            "{scope}"
        );
        assert_eq!(run_as(&lab, &other, "ann").await, fresh(2), "{scope}");
        assert_eq!(
            run_as(&lab, &lab.app.client, "ann").await,
            kept(1),
            "{scope}"
        );
        assert_eq!(run_as(&lab, &other, "ann").await, kept(2), "{scope}");
    }
}

#[tokio::test]
async fn a_failure_is_not_kept_and_what_comes_after_it_is() {
    let busy = ListenerReply::status(503, "busy");
    let replies = vec![
        ListenerReply::status(500, "broken"),
        ListenerReply::hang_up(),
        busy,
        ListenerReply::json(r#"{"n":1}"#),
        ListenerReply::json(r#"{"n":2}"#),
    ];
    let lab = ToolLab::of(Listener::in_turn(replies).await.unwrap()).await;
    lab.make("find", "/", cached("tool")).await;
    let call = r#"find {"a":"x"}"#;
    let failed = lab.run(call).await;
    assert_eq!(failed.ended(), "failed tool_error");
    assert_eq!(failed.call()["cached"], false);
    let ran = lab.run(call).await;
    assert_eq!(ran.call()["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(
        run(&lab, call).await,
        kept(1),
        "the answer of a later attempt"
    );
    assert_eq!(lab.service.asked().len(), 4);
}

#[tokio::test]
async fn an_answer_that_is_no_text_and_one_that_was_cut_are_kept_as_they_are() {
    let image = |n: u8| {
        let bytes = tw_testkit::listener::ReplyPiece::Bytes(vec![0x89, n].into());
        ListenerReply::pieces("image/png", vec![bytes])
    };
    let long = |n: u8| ListenerReply::json(format!("\"{}{n}\"", "x".repeat(200)));
    for replies in [[image(1), image(2)], [long(1), long(2)]] {
        let lab = ToolLab::of(Listener::in_turn(replies.into()).await.unwrap()).await;
        let mut members = cached("tool");
        members["response"] = json!({ "kept_bytes_max": 100 });
        lab.make("find", "/", members).await;
        let call = r#"find {"a":"x"}"#;
        let (first, was_cached) = run(&lab, call).await;
        assert!(!was_cached);
        assert_eq!(run(&lab, call).await, (first, true));
    }
}

#[tokio::test]
async fn a_restarted_server_has_kept_nothing() {
    let lab = lab().await;
    lab.make("find", "/", cached("organization")).await;
    let call = r#"find {"a":"x"}"#;
    assert_eq!(run(&lab, call).await, fresh(1));
    let wanted = reaching(&[&lab.service], Vec::new());
    let app = lab.app.again(&lab.model, wanted).await;
    let lab = ToolLab { app, ..lab };
    assert_eq!(run(&lab, call).await, fresh(2));
}
