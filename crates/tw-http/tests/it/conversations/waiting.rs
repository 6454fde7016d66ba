//! Calls that wait for their results at the end of a conversation, and whose results are which.

use serde_json::{Value, json};
use tw_testkit::client::TestClient;

use super::{get, hello, start};
use crate::app::{CHAT, ask};

/// More than a page holds.
const LARGE_BYTES: usize = 5 * 1024 * 1024;

fn user() -> Value {
    json!({ "role": "user", "content": "Hi" })
}

fn asks(calls: &[(&str, &str)]) -> Value {
    let calls = calls.iter();
    let calls = calls.map(|(id, name)| json!({ "id": id, "name": name, "args": {} }));
    json!({ "role": "assistant", "content": "", "tool_calls": calls.collect::<Vec<_>>() })
}

fn result(id: &str, content: &str, status: &str) -> Value {
    json!({ "role": "tool", "content": content, "tool_call_id": id, "status": status })
}

/// Appends one row; returns the code of the error, if it is refused.
async fn append(client: &TestClient, conversation: &str, row: &Value) -> Option<String> {
    let path = format!("/v1/conversations/{conversation}/rows?shape=langchain");
    let body = json!({ "rows": [row] }).to_string();
    let got = client.send("POST", &path, &[], body).await.unwrap();
    let code = got.json()["error"]["code"].as_str().map(str::to_owned);
    assert_eq!(got.status == 200, code.is_none(), "{}", got.text());
    code
}

/// Role, call, tool and status of each row.
async fn rows(client: &TestClient, conversation: &str) -> Vec<Value> {
    let path = format!("/v1/conversations/{conversation}/messages?shape=langchain&limit=100");
    let list = get(client, &path).await.json();
    let rows = list["data"].as_array().unwrap().iter();
    let shown = ["role", "tool_call_id", "tool_name", "status"];
    rows.map(|row| shown.iter().map(|name| row[*name].clone()).collect())
        .collect()
}

#[tokio::test]
async fn a_call_waits_behind_a_result_that_fills_a_page() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let large = "x".repeat(LARGE_BYTES);
    for (row, code) in [
        (user(), None),
        (asks(&[("call_1", "products"), ("call_2", "orders")]), None),
        (result("call_1", &large, "success"), None),
        (user(), Some("call_without_result")),
        (result("call_2", "none", "error"), None),
    ] {
        let refused = append(&app.client, "c", &row).await;
        assert_eq!(refused.as_deref(), code, "{}", row["role"]);
    }
    // Whoever reads on behind the large one comes to the end.
    assert_eq!(
        rows(&app.client, "c").await,
        [
            json!(["user", null, null, null]),
            json!(["assistant", null, null, null]),
            json!(["tool", "call_1", "products", "success"]),
            json!(["tool", "call_2", "orders", "error"]),
        ]
    );
}

#[tokio::test]
async fn a_call_whose_result_was_deleted_is_answered_again() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let answer = result("call_1", "none", "success");
    for row in [user(), asks(&[("call_1", "products")]), answer.clone()] {
        assert_eq!(append(&app.client, "c", &row).await, None);
    }
    let items = get(&app.client, "/v1/conversations/c/items").await.json();
    let items = items["data"].as_array().unwrap();
    let output = items
        .iter()
        .find(|item| item["type"] == "function_call_output");
    let path = format!(
        "/v1/conversations/c/items/{}",
        output.unwrap()["id"].as_str().unwrap()
    );
    let deleted = app.client.send("DELETE", &path, &[], "").await.unwrap();
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let refused = append(&app.client, "c", &user()).await;
    assert_eq!(refused.as_deref(), Some("call_without_result"));
    assert_eq!(append(&app.client, "c", &answer).await, None);
    assert_eq!(append(&app.client, "c", &user()).await, None);
    let told = rows(&app.client, "c").await;
    assert_eq!(told[2], json!(["tool", "call_1", "products", "success"]));
}

#[tokio::test]
async fn a_result_is_of_the_call_of_its_own_conversation() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    for (conversation, row) in [
        ("c", asks(&[("call_1", "products")])),
        ("d", asks(&[("call_1", "payroll")])),
        ("d", result("call_1", "x", "error")),
        ("c", result("call_1", "x", "success")),
    ] {
        assert_eq!(append(&app.client, conversation, &row).await, None);
    }
    for (conversation, row) in [
        ("c", json!(["tool", "call_1", "products", "success"])),
        ("d", json!(["tool", "call_1", "payroll", "error"])),
    ] {
        assert_eq!(rows(&app.client, conversation).await[1], row);
    }
}

#[tokio::test]
async fn turns_that_name_a_made_conversation_are_no_part_of_it() {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let made = app
        .client
        .send("POST", "/v1/conversations", &[], "{}")
        .await;
    let made = made.unwrap().json()["id"].as_str().unwrap().to_owned();
    let headers = [("turnwright-conversation", made.as_str())];
    let body = ask("Hi").to_string();
    let asked = app.client.send("POST", CHAT, &headers, body).await.unwrap();
    assert_eq!(asked.status, 200, "{}", asked.text());
    app.settled().await;
    assert_eq!(rows(&app.client, &made).await, [] as [Value; 0]);
}
