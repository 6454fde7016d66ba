//! What tools call sensitive, which is shown in SQL as little as over HTTP.

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::postgres::PostgresSchema;

use super::langchain::{answer, call, chat, over_http};
use super::{SqlWorld, assert_rows, without};

/// Nobody may read `CANARY`.
const ARGUMENTS: &str = r#"{"to": "CANARY \"1\"", "text": "open", "deep": {"pin": 1234567, "kind": "k"}, "steps": {"item_1": "CANARY ü"}}"#;

fn replies() -> Vec<ListenerReply> {
    let calls = json!([
        call("up_1", "send", ARGUMENTS),
        call("up_2", "calculate", r#"{"expression": "6*7"}"#),
        // Arguments that are no object are hidden whole.
        call("up_3", "send", r#"["CANARY"]"#),
    ]);
    vec![
        answer(&json!("I send."), &calls),
        answer(&json!("Sent."), &Value::Null),
    ]
}

fn tool(url: &str) -> Value {
    json!({ "name": "send", "description": "Sends.", "type": "api_request", "method": "POST", "url": url,
        "parameters": {
            "to": { "mode": "ai", "sensitive": true },
            "text": { "mode": "ai" },
            "deep": { "mode": "object", "properties": {
                "pin": { "mode": "ai", "sensitive": true, "schema": { "type": "integer" } }, "kind": { "mode": "ai" } } },
            "steps": { "mode": "array", "items": [{ "mode": "ai", "sensitive": true }] },
            "from": { "mode": "fixed", "value": "CANARY 2", "sensitive": true } } })
}

async fn start(schema: Option<PostgresSchema>) -> (SqlWorld, Listener) {
    // It repeats what it was sent, in JSON and in JSON within a string.
    let said = json!({ "sent": "CANARY \"1\"", "pin": "1234567", "again": "{\"pin\":\"1234567\"}", "text": "open" });
    let service = Listener::in_turn(vec![ListenerReply::json(said.to_string())])
        .await
        .unwrap();
    let url = service.url("/send");
    let place = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .unwrap();
    let config = format!("[[egress.allow]]\nplace = {place:?}\n");
    let world = SqlWorld::start_with(replies(), schema, &config).await;
    let body = tool(&url).to_string();
    let made = world
        .client
        .send("POST", "/api/default/tools", &[], body)
        .await
        .unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let asked = json!({ "messages": [{ "role": "user", "content": "Send it" }] });
    let said = chat(&world, "c", asked).await;
    assert_eq!(said["content"], "I send.\n\nSent.");
    (world, service)
}

fn rows_in_order(rows: &[Value]) -> Vec<Value> {
    let mut rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut row = without(row, &["created_at"]);
            // SQLite has lists as texts.
            if let Some(Ok(list @ Value::Array(_))) =
                row["content"].as_str().map(serde_json::from_str)
            {
                row["content"] = list;
            }
            row
        })
        .collect();
    let is_result = |row: &Value| row["role"] == "tool";
    for results in rows.chunk_by_mut(|one, next| is_result(one) && is_result(next)) {
        results.sort_by_key(|row| row["tool_call_id"].to_string());
    }
    rows
}

async fn check(schema: Option<PostgresSchema>) {
    let (world, service) = start(schema).await;
    // The tool itself was sent what the model wrote.
    let sent = service.asked().pop().unwrap().json();
    assert_eq!(sent["to"], "CANARY \"1\"");
    for shape in ["langchain", "openai", "blocks"] {
        let views = world.views(shape, &[]).await;
        let rows = views
            .rows("SELECT * FROM messages ORDER BY created_at")
            .await;
        let written = Value::from(rows.clone()).to_string();
        assert!(
            !written.contains("CANARY") && !written.contains("1234567"),
            "{shape}: {written}"
        );
        assert!(
            written.contains("***") && written.contains("open"),
            "{shape}: {written}"
        );
        let expected = over_http(&world, "c", shape).await;
        assert_rows(&rows_in_order(&rows), &rows_in_order(&expected), shape);
        drop_views(&world).await;
    }
    let views = world.views("pocketbase", &[]).await;
    let query =
        "SELECT tool_call_id, arguments, result, error FROM tool_calls ORDER BY tool_call_id";
    let rows = views.rows(query).await;
    let masked = json!({ "to": "***", "text": "open", "deep": { "pin": "***", "kind": "k" }, "steps": { "item_1": "***" } });
    assert_eq!(rows[0]["arguments"], masked);
    let result =
        json!({ "sent": "***", "pin": "***", "again": "{\"pin\":\"***\"}", "text": "open" });
    assert_eq!(rows[0]["result"], result);
    assert_eq!(rows[1]["arguments"], json!({ "expression": "6*7" }));
    assert_eq!(rows[2]["arguments"], "***");
    let turns = views.rows("SELECT * FROM turns").await;
    let written = Value::from([rows, turns].concat()).to_string();
    assert!(!written.contains("CANARY"), "{written}");
}

async fn drop_views(world: &SqlWorld) {
    if let Some(schema) = &world.schema {
        let drop = format!("DROP SCHEMA {} CASCADE", schema.views_schema());
        schema.outside().await.batch_execute(&drop).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_file_what_is_sensitive_is_masked() {
    check(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_server_what_is_sensitive_is_masked() {
    if let Some(schema) = PostgresSchema::create().await {
        check(Some(schema)).await;
    }
}
