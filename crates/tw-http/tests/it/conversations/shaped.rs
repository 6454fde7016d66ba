//! What was said, as rows of the shapes, page by page; and calls that are looked for.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};

use super::{get, ids};
use crate::app::{App, AppOptions, CHAT, probe, upstream_body};

const NAMED: [(&str, &str); 2] = [("turnwright-conversation", "c"), ("turnwright-user", "ann")];

/// Two turns of one conversation, the first with a call that succeeds and one that fails; and one that a branch left.
async fn lab() -> (App, [Listener; 2]) {
    let calls = [
        ("up_1", "rates", r#"{"n":9007199254740993}"#),
        ("up_2", "nothing", "{}"),
    ];
    let upstream = Listener::in_turn(vec![
        ListenerReply::json(upstream_body("I look.", &calls)),
        ListenerReply::json(upstream_body("It is 2.", &[])),
        ListenerReply::json(upstream_body("Left behind.", &[])),
        ListenerReply::json(upstream_body("Gladly.", &[])),
    ]);
    let upstream = upstream.await.unwrap();
    let service = Listener::start(|_| ListenerReply::json(r#"{"rate": 1.50}"#));
    let service = service.await.unwrap();
    let tool = probe("rates", EffectClass::Read, service.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![tool])).await;
    let mut history = vec![json!({ "role": "user", "content": "Rates?" })];
    let said = say(&app.client, &history).await;
    history.push(json!({ "role": "assistant", "content": said }));
    for text in ["Thanks", "Thank you"] {
        let mut asked = history.clone();
        asked.push(json!({ "role": "user", "content": text }));
        say(&app.client, &asked).await;
    }
    app.settled().await;
    (app, [upstream, service])
}

async fn say(client: &TestClient, messages: &[Value]) -> String {
    let body = json!({ "model": "m", "messages": messages });
    let got = client.send("POST", CHAT, &NAMED, body.to_string());
    let got = got.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    let said = got.json()["choices"][0]["message"]["content"].clone();
    said.as_str().unwrap().to_owned()
}

async fn rows(app: &App, query: &str) -> Vec<Value> {
    let path = format!("/v1/conversations/c/messages?limit=100&{query}");
    let got = get(&app.client, &path).await.json();
    assert_eq!(got["has_more"], false);
    got["data"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_was_said_is_told_in_each_shape_along_the_path_to_the_head() {
    let (app, _others) = lab().await;
    let of = |rows: &[Value], names: &[&str]| -> Vec<Value> {
        let row = |row: &Value| names.iter().map(|name| row[*name].clone()).collect();
        rows.iter().map(row).collect()
    };
    let rows_of_openai = rows(&app, "shape=openai").await;
    assert_eq!(rows_of_openai, rows(&app, "").await, "the default");
    assert_eq!(
        of(
            &rows_of_openai,
            &["role", "content", "tool_call_id", "status"]
        ),
        [
            json!(["user", "Rates?", null, null]),
            json!(["assistant", "I look.", null, null]),
            json!(["tool", r#"{"rate": 1.50}"#, "up_1", "success"]),
            json!(["tool", rows_of_openai[3]["content"], "up_2", "error"]),
            json!(["assistant", "It is 2.", null, null]),
            json!(["user", "Thank you", null, null]),
            json!(["assistant", "Gladly.", null, null]),
        ]
    );
    let call = &rows_of_openai[1]["tool_calls"][0];
    let expected = json!({
        "id": "up_1", "type": "function",
        "function": { "name": "rates", "arguments": r#"{"n":9007199254740993}"# },
    });
    assert_eq!(*call, expected);
    let rows_of_langchain = rows(&app, "shape=langchain").await;
    let names = ["role", "content", "tool_call_id", "tool_name", "status"];
    assert_eq!(
        of(&rows_of_langchain[2..3], &names),
        [json!([
            "tool",
            r#"{"rate": 1.50}"#,
            "up_1",
            "rates",
            "success"
        ])]
    );
    assert_eq!(
        rows_of_langchain[1]["tool_calls"],
        json!([
            { "id": "up_1", "name": "rates", "args": { "n": 9_007_199_254_740_993_u64 } },
            { "id": "up_2", "name": "nothing", "args": {} },
        ])
    );
    let rows_of_blocks = rows(&app, "shape=blocks").await;
    let kinds = rows_of_blocks[1]["content"].as_array().unwrap().iter();
    let kinds: Vec<&Value> = kinds.map(|block| &block["type"]).collect();
    let order = [
        "text",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
        "text",
    ];
    assert_eq!(kinds, order);
    assert_eq!(
        rows_of_blocks[1]["content"][3]["content"],
        json!({ "rate": 1.5 })
    );
    let records = rows(&app, "shape=pocketbase").await;
    assert_eq!(
        of(
            &records,
            &["prompt", "answer", "tool_count", "has_tool_calls"]
        ),
        [
            json!(["Rates?", "It is 2.", 2, true]),
            json!(["Thank you", "Gladly.", 0, false]),
        ]
    );
    let calls = records[0]["expand"]["tool_calls_via_turn"]
        .as_array()
        .unwrap();
    assert_eq!(
        of(calls, &["tool_call_id", "status", "result"]),
        [
            json!(["up_1", "completed", { "rate": 1.5 }]),
            json!(["up_2", "failed", null]),
        ]
    );
}

#[tokio::test]
async fn pages_put_together_are_the_whole() {
    let (app, _others) = lab().await;
    for shape in ["openai", "langchain", "blocks", "pocketbase"] {
        for order in ["asc", "desc"] {
            let whole = rows(&app, &format!("shape={shape}&order={order}")).await;
            for limit in [1, 2, 3] {
                let (mut together, mut after) = (Vec::new(), String::new());
                loop {
                    let path = format!(
                        "/v1/conversations/c/messages?shape={shape}&order={order}&limit={limit}{after}"
                    );
                    let page = get(&app.client, &path).await.json();
                    together.extend(page["data"].as_array().unwrap().clone());
                    if page["has_more"] == false {
                        break;
                    }
                    assert_eq!(page["data"].as_array().unwrap().len(), limit);
                    after = format!("&after={}", page["last_id"].as_str().unwrap());
                }
                assert_eq!(together, whole, "{shape} {order} {limit}");
            }
            if order == "desc" {
                let mut turned = rows(&app, &format!("shape={shape}")).await;
                turned.reverse();
                assert_eq!(whole, turned, "{shape}");
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused() {
    let (app, _others) = lab().await;
    let left = get(&app.client, "/v1/conversations/c/turns").await.json();
    let left = ids(&left)[1].to_owned();
    for (path, status, param) in [
        ("c/messages?shape=xml".to_owned(), 400, json!("shape")),
        ("c/messages?limit=0".to_owned(), 400, json!("limit")),
        ("c/messages?offset=1".to_owned(), 400, json!("offset")),
        ("c/messages?after=x".to_owned(), 400, json!("after")),
        (format!("c/messages?after={left}.0"), 400, json!("after")),
        (
            format!("c/messages?after={}.99", uuid()),
            400,
            json!("after"),
        ),
        ("d/messages".to_owned(), 404, Value::Null),
    ] {
        let got = get(&app.client, &format!("/v1/conversations/{path}")).await;
        assert_eq!(got.status, status, "{path}: {}", got.text());
        assert_eq!(got.json()["error"]["param"], param, "{path}");
    }
    let other = app
        .key("default", ToolGrant::None, vec![KeyScope::Chat])
        .await;
    let other = app.with_key(Some(other));
    let got = get(&other, "/v1/conversations/c/messages").await;
    assert_eq!(got.status, 404);
    let got = get(&other, "/v1/calls?tool_call_id=up_1").await.json();
    assert_eq!(got["data"], json!([]));
}

fn uuid() -> &'static str {
    "0194f2a0-0000-7000-8000-000000000001"
}

#[tokio::test]
async fn calls_are_found_by_their_id_and_failed_ones_as_such() {
    let (app, _others) = lab().await;
    let turns = get(&app.client, "/v1/conversations/c/turns").await.json();
    let first = &turns["data"][0];
    let made = first["rounds"][0]["calls"].as_array().unwrap();
    let own = made[0]["id"].as_str().unwrap();
    let failed = made[1]["id"].as_str().unwrap();
    let nobodys = format!("status=failed&after={}", uuid());
    for (query, expected) in [
        ("tool_call_id=up_1".to_owned(), Some(vec![own])),
        (format!("tool_call_id={own}"), Some(vec![own])),
        (
            format!("tool_call_id=call_{}", own.replace('-', "")),
            Some(vec![own]),
        ),
        ("tool_call_id=up_3".to_owned(), Some(vec![])),
        ("status=failed".to_owned(), Some(vec![failed])),
        ("status=failed&limit=1".to_owned(), Some(vec![failed])),
        (format!("status=failed&after={failed}"), Some(vec![])),
        (nobodys, None),
        ("status=completed".to_owned(), None),
        (String::new(), None),
        ("status=failed&tool_call_id=x".to_owned(), None),
    ] {
        let got = get(&app.client, &format!("/v1/calls?{query}")).await;
        match expected {
            None => assert_eq!(got.status, 400, "{query}"),
            Some(expected) => {
                let got = got.json();
                assert_eq!(ids(&got), expected, "{query}");
                for call in got["data"].as_array().unwrap() {
                    assert_eq!(call["turn"], first["id"]);
                    assert_eq!(call["conversation"], "c");
                }
            }
        }
    }
}
