//! The rows of LangChain's shape: the same as over HTTP, whatever is in the record.

use serde_json::{Value, json};
use tw_testkit::listener::ListenerReply;

use super::{SqlWorld, assert_rows, on_each_engine, without};

/// An answer of a model.
pub(super) fn answer(content: &Value, calls: &Value) -> ListenerReply {
    let mut message = json!({ "role": "assistant", "content": content });
    if !calls.is_null() {
        message["tool_calls"] = calls.clone();
    }
    let reason = if calls.is_null() {
        "stop"
    } else {
        "tool_calls"
    };
    let body = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": reason }] });
    ListenerReply::json(body.to_string())
}

pub(super) fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

pub(super) fn replies() -> Vec<ListenerReply> {
    vec![
        // Two calls at once, one of which fails, and one whose arguments are no object.
        answer(
            &json!("I \"look\". 😀"),
            &json!([
                call("up_1", "calculate", r#"{"expression": "6*7"}"#),
                call("up_2", "calculate", r#"{"expression": "6*"}"#),
                call("up_3", "calculate", "[9007199254740993]"),
            ]),
        ),
        answer(&json!("42, \u{0} and \\u0000."), &Value::Null),
        answer(&json!("Made again."), &Value::Null),
        // A call of the client's own.
        answer(&Value::Null, &json!([call("up_4", "theirs", "{}")])),
        answer(&json!("Theirs said so."), &Value::Null),
    ]
}

pub(super) async fn chat(world: &SqlWorld, conversation: &str, body: Value) -> Value {
    let mut body = body;
    body["model"] = "m".into();
    let headers = [
        ("turnwright-conversation", conversation),
        ("turnwright-user", "ann"),
    ];
    let path = "/v1/chat/completions";
    let got = world.client.send("POST", path, &headers, body.to_string());
    let got = got.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()["choices"][0]["message"].clone()
}

/// What there is to read: answers with calls, one that was made again, calls and results of a client, images, long texts,
/// and rows that were appended.
pub(super) async fn fill(world: &SqlWorld) {
    let long = "x".repeat(200_000) + " \" " + &"ü".repeat(100_000);
    let image = "A".repeat(150_000);
    let user = json!({ "role": "user", "content": [
        { "type": "text", "text": long },
        { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{image}") } },
    ] });
    let said = chat(world, "c", json!({ "messages": [user] })).await;
    let thanks = json!({ "role": "user", "content": "Thanks" });
    let mut history = vec![user, said];
    history.push(thanks);
    chat(world, "c", json!({ "messages": history })).await;
    let tools = json!([{ "type": "function", "function": { "name": "theirs", "parameters": { "type": "object" } } }]);
    let mut own = vec![json!({ "role": "user", "content": "Ask them" })];
    let called = chat(world, "own", json!({ "messages": own, "tools": tools })).await;
    let id = called["tool_calls"][0]["id"].clone();
    own.push(called);
    own.push(json!({ "role": "tool", "tool_call_id": id, "content": "so" }));
    own.push(json!({ "role": "user", "content": "Well?" }));
    chat(world, "own", json!({ "messages": own, "tools": tools })).await;
    append(world, "rows", "langchain", json!([
        { "role": "user", "content": "" },
        { "role": "assistant", "content": "", "tool_calls": [
            { "id": "call_1", "name": "products", "args": { "n": 9_007_199_254_740_993_u64 } },
            { "id": "call_2", "name": "orders", "args": {} } ] },
        { "role": "tool", "content": "no such shop", "tool_call_id": "call_2", "status": "error" },
        { "role": "tool", "content": "{\"products\": []}", "tool_call_id": "call_1", "status": "success" },
        { "role": "assistant", "content": "There are none." },
        { "role": "assistant", "content": "", "tool_calls": [{ "id": "call_3", "name": "late", "args": {} }] },
    ])).await;
    append(
        world,
        "rows",
        "langchain",
        json!([{ "role": "tool", "content": "late", "tool_call_id": "call_3" }]),
    )
    .await;
    append(
        world,
        "blocks",
        "blocks",
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "Find it" }] },
            { "role": "assistant", "content": [
                { "type": "text", "text": "I search." },
                { "type": "tool_use", "id": "tc_1", "name": "search", "input": { "limit": 10 } },
                { "type": "tool_result", "tool_use_id": "tc_1", "content": { "tracks": [1.50] } },
                { "type": "text", "text": "Found." } ] },
        ]),
    )
    .await;
}

pub(super) async fn append(world: &SqlWorld, conversation: &str, shape: &str, rows: Value) {
    let path = format!("/v1/conversations/{conversation}/rows?shape={shape}");
    let body = json!({ "rows": rows }).to_string();
    let got = world.client.send("POST", &path, &[], body).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
}

/// U+0000 as PostgreSQL has it in JSON.
pub(super) fn as_kept(world: &SqlWorld, rows: Vec<Value>) -> Vec<Value> {
    if world.schema.is_none() {
        return rows;
    }
    let text = Value::Array(rows)
        .to_string()
        .replace(r"\u0000 ", "\u{fffd} ");
    serde_json::from_str(&text).unwrap()
}

/// A conversation's rows over HTTP.
pub(super) async fn over_http(world: &SqlWorld, conversation: &str, shape: &str) -> Vec<Value> {
    let path = format!("/v1/conversations/{conversation}/messages?shape={shape}&limit=100");
    let got = world
        .client
        .send("GET", &path, &[], "")
        .await
        .unwrap()
        .json();
    got["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_views_have_the_rows_that_are_read_over_http() {
    on_each_engine(replies, async |world| {
        fill(&world).await;
        let views = world.views("langchain", &[]).await;
        for conversation in ["c", "own", "rows", "blocks"] {
            let expected = as_kept(&world, over_http(&world, conversation, "langchain").await);
            assert!(expected.len() >= 2, "{conversation}");
            let query = format!("SELECT * FROM messages WHERE conversation_id = '{conversation}' ORDER BY created_at");
            let got = views.rows(&query).await;
            // Times are a few microseconds later where several rows were written at once, and results stand as they came.
            let plain = |rows: &[Value]| -> Vec<Value> {
                let mut rows: Vec<Value> = rows.iter().map(|row| without(row, &["created_at"])).collect();
                let is_result = |row: &Value| row["role"] == "tool";
                for results in rows.chunk_by_mut(|one, next| is_result(one) && is_result(next)) {
                    results.sort_by_key(|row| row["tool_call_id"].to_string());
                }
                rows
            };
            assert_rows(&plain(&got), &plain(&expected), conversation);
            for (got, expected) in got.iter().zip(&expected) {
                let until = "2026-11-30T05:53:46".len();
                assert_eq!(got["created_at"].as_str().unwrap()[..until - 3], expected["created_at"].as_str().unwrap()[..until - 3]);
            }
        }
        let conversations = views
            .rows("SELECT id, user_id, metadata FROM conversations ORDER BY id")
            .await;
        let expected = [("blocks", Value::Null), ("c", "ann".into()), ("own", "ann".into()), ("rows", Value::Null)];
        let expected: Vec<Value> = expected
            .into_iter()
            .map(|(id, user)| json!({ "id": id, "user_id": user, "metadata": {} }))
            .collect();
        assert_eq!(conversations, expected);
    })
    .await;
}

/// What is asked of the seed's tables, and how many rows answer it.
const QUESTIONS: [(&str, usize); 5] = [
    (
        "SELECT * FROM messages WHERE conversation_id = 'rows' AND tool_calls IS NOT NULL;",
        2,
    ),
    (
        "SELECT * FROM messages WHERE role = 'tool' AND status = 'error';",
        3,
    ),
    ("SELECT * FROM messages WHERE tool_call_id = 'call_2';", 1),
    ("SELECT * FROM messages WHERE tool_call_id = 'up_4';", 1),
    ("SELECT * FROM messages WHERE tool_call_id = 'call_123';", 0),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_is_gone_and_questions_are_answered() {
    on_each_engine(replies, async |world| {
        fill(&world).await;
        let views = world.views("langchain", &[]).await;
        for (question, expected) in QUESTIONS {
            let rows = views.rows(question).await;
            assert_eq!(rows.len(), expected, "{question}\n{rows:#?}");
        }
        let columns = views.rows("SELECT * FROM messages WHERE tool_call_id = 'call_2'").await;
        assert_eq!(
            without(&columns[0], &["id", "created_at", "metadata"]),
            json!({
                "conversation_id": "rows", "content": "no such shop", "role": "tool", "tool_calls": null,
                "tool_call_id": "call_2", "tool_name": "orders", "status": "error",
            })
        );
        let path = "/v1/conversations/rows";
        let deleted = world.client.send("DELETE", path, &[], "").await.unwrap();
        assert_eq!(deleted.status, 200);
        assert_eq!(views.rows("SELECT * FROM messages WHERE conversation_id = 'rows'").await, Vec::<Value>::new());
        assert_eq!(views.rows("SELECT id FROM conversations WHERE id = 'rows'").await, Vec::<Value>::new());
        assert_eq!(views.rows(QUESTIONS[2].0).await, Vec::<Value>::new());
    })
    .await;
}
