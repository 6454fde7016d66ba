//! Rows that an application appends: what they become, and those that are refused.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply};

use super::{get, hello, start};
use crate::app::{App, AppOptions, upstream_body};

async fn append(client: &TestClient, shape: &str, rows: &Value) -> (u16, Value) {
    append_to(client, "c", shape, rows, &[]).await
}

async fn append_to(
    client: &TestClient,
    conversation: &str,
    shape: &str,
    rows: &Value,
    headers: &[(&str, &str)],
) -> (u16, Value) {
    let path = format!("/v1/conversations/{conversation}/rows?shape={shape}");
    let body = json!({ "rows": rows }).to_string();
    let got = client.send("POST", &path, headers, body).await.unwrap();
    (got.status, got.json())
}

/// What of the rows was sent, without what the server fills in.
async fn told(app: &App, shape: &str, names: &[&str]) -> Vec<Value> {
    let path = format!("/v1/conversations/c/messages?shape={shape}&limit=100");
    let list = get(&app.client, &path).await.json();
    let rows = list["data"].as_array().unwrap().iter();
    let row = |row: &Value| names.iter().map(|name| row[*name].clone()).collect();
    rows.map(row).collect()
}

const LANGCHAIN: [&str; 6] = [
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "tool_name",
    "status",
];

fn calls() -> Value {
    json!([
        { "id": "call_1", "name": "products", "args": { "n": 9_007_199_254_740_993_u64 } },
        { "id": "call_2", "name": "orders", "args": {} },
    ])
}

#[tokio::test]
async fn rows_are_told_again_as_they_were_appended() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let history = json!([
        { "role": "user", "content": "Show me my products 🧺" },
        { "role": "assistant", "content": "I fetch \"them\".", "tool_calls": calls() },
        { "role": "tool", "content": "{\"products\":[]}", "tool_call_id": "call_1", "tool_name": "products", "status": "success" },
        { "role": "tool", "content": "no such shop", "tool_call_id": "call_2", "tool_name": "orders", "status": "error" },
        { "role": "assistant", "content": "There are none." },
    ]);
    let (status, got) = append(&app.client, "langchain", &history).await;
    assert_eq!(status, 200, "{got}");
    let expected: Vec<Value> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|row| LANGCHAIN.iter().map(|name| row[*name].clone()).collect())
        .collect();
    assert_eq!(told(&app, "langchain", &LANGCHAIN).await, expected);
    let told_at_once: Vec<Value> = got["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| LANGCHAIN.iter().map(|name| row[*name].clone()).collect())
        .collect();
    assert_eq!(told_at_once, expected);
    // The same rows, taken from one shape and appended in it, are the same in another conversation.
    for (shape, names) in [
        (
            "openai",
            &["role", "content", "tool_calls", "tool_call_id", "status"][..],
        ),
        ("blocks", &["role", "content"][..]),
    ] {
        let path = format!("/v1/conversations/c/messages?shape={shape}");
        let list = get(&app.client, &path).await.json();
        let rows: Vec<Value> = list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                names
                    .iter()
                    .map(|name| ((*name).to_owned(), row[*name].clone()))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            })
            .collect();
        let (status, got) = append_to(&app.client, shape, shape, &json!(rows), &[]).await;
        assert_eq!(status, 200, "{got}");
        let path = format!("/v1/conversations/{shape}/messages?shape=langchain");
        let list = get(&app.client, &path).await.json();
        let again: Vec<Value> = list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| LANGCHAIN.iter().map(|name| row[*name].clone()).collect())
            .collect();
        assert_eq!(again, expected, "{shape}");
    }
}

#[tokio::test]
async fn a_tool_row_completes_its_call_and_an_orphan_is_refused() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let tool = |id: &str, status: &str| json!([{ "role": "tool", "content": "r", "tool_call_id": id, "status": status }]);
    let user = json!([{ "role": "user", "content": "Hi" }]);
    let asks = json!([{ "role": "assistant", "content": "", "tool_calls": calls() }]);
    let steps = [
        (tool("call_1", "success"), Some("orphan_result")),
        (user.clone(), None),
        (tool("call_1", "success"), Some("orphan_result")),
        (asks.clone(), None),
        (user.clone(), Some("call_without_result")),
        (tool("call_3", "success"), Some("orphan_result")),
        (tool("call_2", "error"), None),
        (tool("call_2", "success"), Some("orphan_result")),
        (asks.clone(), Some("call_without_result")),
        (tool("call_1", "success"), None),
        (tool("call_1", "success"), Some("orphan_result")),
        (user.clone(), None),
    ];
    for (at, (rows, code)) in steps.iter().enumerate() {
        let (status, got) = append(&app.client, "langchain", rows).await;
        match code {
            None => assert_eq!(status, 200, "{at}: {got}"),
            Some(code) => {
                assert_eq!(status, 400, "{at}: {got}");
                assert_eq!(got["error"]["code"], *code, "{at}: {got}");
            }
        }
    }
    let failed = get(&app.client, "/v1/calls?status=failed").await.json();
    assert_eq!(failed["data"][0]["tool_call_id"], "call_2");
    let found = get(&app.client, "/v1/calls?tool_call_id=call_1")
        .await
        .json();
    assert_eq!(found["data"][0]["status"], "completed");
    assert_eq!(found["data"][0]["runs"], "outside");
    assert_eq!(
        told(
            &app,
            "langchain",
            &["role", "tool_call_id", "tool_name", "status"]
        )
        .await,
        [
            json!(["user", null, null, null]),
            json!(["assistant", null, null, null]),
            json!(["tool", "call_2", "orders", "error"]),
            json!(["tool", "call_1", "products", "success"]),
            json!(["user", null, null, null]),
        ]
    );
}

#[tokio::test]
async fn bad_rows_are_refused_where_they_are_bad() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let row = |row: Value| json!([{ "role": "user", "content": "Hi" }, row]);
    for (shape, rows, param) in [
        ("langchain", json!([]), "rows"),
        ("langchain", json!("x"), "rows"),
        (
            "langchain",
            json!(vec![json!({ "role": "user", "content": "Hi" }); 101]),
            "rows",
        ),
        ("langchain", json!(["x"]), "rows[0]"),
        (
            "langchain",
            row(json!({ "role": "system", "content": "x" })),
            "rows[1].role",
        ),
        (
            "langchain",
            row(json!({ "role": "user" })),
            "rows[1].content",
        ),
        (
            "langchain",
            row(json!({ "role": "user", "content": 1 })),
            "rows[1].content",
        ),
        (
            "langchain",
            row(json!({ "role": "user", "content": "x", "id": "1" })),
            "rows[1].id",
        ),
        (
            "langchain",
            row(json!({ "role": "user", "content": "x", "name": "1" })),
            "rows[1].name",
        ),
        (
            "langchain",
            row(json!({ "role": "user", "content": "x", "metadata": { "a": 1 } })),
            "rows[1].metadata.a",
        ),
        (
            "langchain",
            row(json!({ "role": "user", "content": "x", "tool_calls": calls() })),
            "rows[1].tool_calls",
        ),
        (
            "langchain",
            row(json!({ "role": "tool", "content": "x" })),
            "rows[1].tool_call_id",
        ),
        (
            "langchain",
            row(json!({ "role": "tool", "content": "x", "tool_call_id": "c", "status": "done" })),
            "rows[1].status",
        ),
        (
            "langchain",
            row(
                json!({ "role": "tool", "content": "x", "tool_call_id": "c", "status": "pending" }),
            ),
            "rows[1].status",
        ),
        (
            "langchain",
            row(
                json!({ "role": "assistant", "content": "x", "tool_calls": [{ "id": "c", "args": {} }] }),
            ),
            "rows[1].tool_calls[0].name",
        ),
        (
            "langchain",
            row(
                json!({ "role": "assistant", "content": "x", "tool_calls": [{ "id": "c", "name": "n", "args": [] }] }),
            ),
            "rows[1].tool_calls[0].args",
        ),
        (
            "openai",
            row(json!({ "role": "user", "content": [{ "type": "image_url" }] })),
            "rows[1].content[0]",
        ),
        (
            "openai",
            row(json!({ "role": "user", "content": [
                { "type": "text", "text": "a" }, { "type": "video_url", "video_url": { "url": "https://a.test" } },
            ] })),
            "rows[1].content[1]",
        ),
        (
            "openai",
            row(json!({ "role": "assistant", "content": "x", "function_call": {} })),
            "rows[1].function_call",
        ),
        (
            "blocks",
            row(json!({ "role": "user", "content": [{ "type": "tool_use" }] })),
            "rows[1].content[0]",
        ),
        (
            "blocks",
            row(
                json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "n" }] }),
            ),
            "rows[1].content[0].input",
        ),
        ("pocketbase", row(json!({})), "shape"),
    ] {
        let (status, got) = append(&app.client, shape, &rows).await;
        assert_eq!(status, 400, "{rows}: {got}");
        assert_eq!(got["error"]["param"], param, "{rows}: {got}");
    }
    let two = json!([{ "role": "assistant", "content": "", "tool_calls": [
        { "id": "c", "name": "n", "args": {} }, { "id": "c", "name": "n", "args": {} },
    ] }]);
    let (status, got) = append(&app.client, "langchain", &two).await;
    assert_eq!(
        (status, &got["error"]["param"]),
        (400, &json!("rows[0].tool_calls"))
    );
    // Nothing of it is there.
    assert_eq!(get(&app.client, "/v1/conversations/c").await.status, 404);
}

#[tokio::test]
async fn appended_rows_are_what_the_model_is_told() {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Three.", &[]))]);
    let upstream = upstream.await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let rows = json!([
        { "role": "user", "content": "How many?" },
        { "role": "assistant", "content": "", "tool_calls": [{ "id": "call_1", "name": "count", "args": { "of": "x" } }] },
        { "role": "tool", "content": "3", "tool_call_id": "call_1" },
    ]);
    let (status, got) = append(&app.client, "langchain", &rows).await;
    assert_eq!(status, 200, "{got}");
    let body = json!({ "model": "m", "input": "Well?", "conversation": "c" });
    let got = app
        .client
        .send("POST", "/v1/responses", &[], body.to_string());
    let got = got.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    let sent = upstream.asked()[0].json();
    let messages = sent["messages"].as_array().unwrap();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user"]);
    assert_eq!(messages[1]["tool_calls"][0]["id"], "call_1");
    assert_eq!(messages[2]["content"], "3");
    assert_eq!(
        told(&app, "langchain", &["role", "content"]).await[3..],
        [json!(["user", "Well?"]), json!(["assistant", "Three."])]
    );
}

#[tokio::test]
async fn another_key_neither_reads_nor_appends() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let user = json!([{ "role": "user", "content": "Hi" }]);
    assert_eq!(append(&app.client, "langchain", &user).await.0, 200);
    let other = app
        .key("default", ToolGrant::None, vec![KeyScope::Chat])
        .await;
    let other = app.with_key(Some(other));
    assert_eq!(append(&other, "langchain", &user).await.0, 404);
    assert_eq!(
        get(&other, "/v1/conversations/c/messages").await.status,
        404
    );
    let reads = app
        .key("default", ToolGrant::None, vec![KeyScope::TurnsRead])
        .await;
    let reads = app.with_key(Some(reads));
    assert_eq!(append(&reads, "langchain", &user).await.0, 403);
    let unstored = app.with_key(Some(app.minimal_key().await));
    assert_eq!(append(&unstored, "langchain", &user).await.0, 400);
    // A deleted conversation is gone, and its name is free.
    let gone = app.client.send("DELETE", "/v1/conversations/c", &[], "");
    assert_eq!(gone.await.unwrap().status, 200);
    assert_eq!(
        get(&app.client, "/v1/conversations/c/messages")
            .await
            .status,
        404
    );
    assert_eq!(append(&other, "langchain", &user).await.0, 200);
    assert_eq!(append(&app.client, "langchain", &user).await.0, 404);
    let theirs = get(&other, "/v1/conversations/c/messages").await.json();
    assert_eq!(theirs["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_marked_repetition_appends_once() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let user = json!([{ "role": "user", "content": "Hi" }]);
    let first = append(&app.client, "langchain", &user).await;
    assert_eq!(first.0, 200, "{}", first.1);
    let marked = [("x-stainless-retry-count", "1")];
    let again = append_to(&app.client, "c", "langchain", &user, &marked).await;
    assert_eq!(again, first);
    assert_eq!(told(&app, "langchain", &["content"]).await, [json!(["Hi"])]);
    append(&app.client, "langchain", &user).await;
    let twice = [json!(["Hi"]), json!(["Hi"])];
    assert_eq!(told(&app, "langchain", &["content"]).await, twice);
}
