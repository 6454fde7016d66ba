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
    let (world, service) = start_with(replies(), schema).await;
    let asked = json!({ "messages": [{ "role": "user", "content": "Send it" }] });
    let said = chat(&world, "c", asked).await;
    assert_eq!(said["content"], "I send.\n\nSent.");
    (world, service)
}

async fn start_with(
    replies: Vec<ListenerReply>,
    schema: Option<PostgresSchema>,
) -> (SqlWorld, Listener) {
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
    let world = SqlWorld::start_with(replies, schema, &config).await;
    let body = tool(&url).to_string();
    let made = world
        .client
        .send("POST", "/api/default/tools", &[], body)
        .await
        .unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
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

/// A client without a stored answer sends back what it was shown, which is all.
async fn check_history(schema: Option<PostgresSchema>) {
    let replies = [replies(), vec![answer(&json!("Again."), &Value::Null)]].concat();
    let (world, _service) = start_with(replies, schema).await;
    let ask = async |conversation: Option<&str>, body: Value| {
        let headers = conversation.map(|id| ("turnwright-conversation", id));
        let headers: Vec<_> = headers
            .into_iter()
            .chain([("turnwright-user", "ann")])
            .collect();
        let got = world
            .client
            .send("POST", "/v1/responses", &headers, body.to_string());
        let got = got.await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        got.json()
    };
    let user = |text: &str| json!({ "role": "user", "content": text });
    let first = json!({ "model": "m", "store": false, "input": [user("Send it")] });
    let said = ask(None, first).await;
    let shown = said["output"].as_array().unwrap();
    let is_call = |item: &&Value| item["type"] == "mcp_call";
    assert_eq!(shown.iter().filter(is_call).count(), 3, "{said}");
    assert!(said.to_string().contains("CANARY"), "{said}");
    // Without what was said behind the calls, so that their results are new.
    let (last, shown) = shown.split_last().unwrap();
    assert_eq!(last["type"], "message");
    let history = [&[user("Send it")][..], shown, &[user("And again")]].concat();
    let second = json!({ "model": "m", "input": history });
    ask(Some("back"), second).await;
    let items = json!({ "items": history }).to_string();
    let made = world.client.send("POST", "/v1/conversations", &[], items);
    let made = made.await.unwrap();
    assert_eq!(made.status, 200, "{}", made.text());
    let added = made.json()["id"].as_str().unwrap().to_owned();
    for shape in ["langchain", "openai", "blocks"] {
        let views = world.views(shape, &[]).await;
        for (conversation, has_calls) in [("back", false), (&*added, true)] {
            let query = format!(
                "SELECT * FROM messages WHERE conversation_id = '{conversation}' ORDER BY created_at"
            );
            let rows = views.rows(&query).await;
            let expected = over_http(&world, conversation, shape).await;
            for written in [&rows, &expected] {
                let written = Value::from(written.clone()).to_string();
                assert!(!written.contains("CANARY"), "{shape}: {written}");
                assert!(!written.contains("1234567"), "{shape}: {written}");
                for shown in ["***", "again", "open", "42", "And again"] {
                    assert!(written.contains(shown), "{shape}: {written}");
                }
                assert_eq!(written.contains("I send."), has_calls, "{shape}: {written}");
            }
        }
        drop_views(&world).await;
    }
    // The records of the turns, too.
    for conversation in ["back", &*added] {
        let path = format!("/v1/conversations/{conversation}/turns");
        let turns = world.client.send("GET", &path, &[], "");
        let turns = turns.await.unwrap().text();
        assert!(!turns.contains("CANARY"), "{turns}");
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn on_a_file_what_comes_back_is_masked() {
    check_history(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_server_what_comes_back_is_masked() {
    if let Some(schema) = PostgresSchema::create().await {
        check_history(Some(schema)).await;
    }
}
