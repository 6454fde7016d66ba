//! The statements of an application that keeps LangChain's messages, as its own document has them.

use serde_json::{Value, json};
use tw_testkit::polling::poll_until;
use tw_testkit::postgres::PostgresSchema;

use super::{SqlWorld, Views, on_each_engine};

const INSERTS: [&str; 4] = [
    "INSERT INTO messages (conversation_id, content, role) 
VALUES ('conv-123', 'Show me my Wildberries products', 'user');",
    // The document leaves the quotation mark single, which no database reads.
    r#"INSERT INTO messages (conversation_id, content, role, tool_calls) 
VALUES (
  'conv-123', 
  'I''ll fetch your Wildberries products for you.',
  'assistant',
  '[{"id": "call_123", "name": "wildberries_seller_products", "args": {}}]'
);"#,
    r#"INSERT INTO messages (conversation_id, content, role, tool_call_id, tool_name, status) 
VALUES (
  'conv-123',
  '{"products": [{"name": "Product 1", "price": 100}]}',
  'tool',
  'call_123',
  'wildberries_seller_products',
  'success'
);"#,
    "INSERT INTO messages (conversation_id, content, role) 
VALUES (
  'conv-123',
  'Here are your Wildberries products: Product 1 - $100',
  'assistant'
);",
];

const TOOL_CALLS: &str = "SELECT * FROM messages 
WHERE conversation_id = 'conv-123' 
  AND tool_calls IS NOT NULL;";
const FAILED: &str = "SELECT * FROM messages 
WHERE role = 'tool' 
  AND status = 'error';";
const RESULTS: &str = "SELECT * FROM messages 
WHERE tool_call_id = 'call_123';";

async fn rows_of(views: &Views, conversation: &str, count: usize) -> Vec<Value> {
    let query = format!(
        "SELECT role, content, tool_calls, tool_call_id, tool_name, status FROM messages
         WHERE conversation_id = '{conversation}' ORDER BY created_at"
    );
    poll_until("the rows that were inserted", async || {
        let rows = views.rows(&query).await;
        (rows.len() == count).then_some(rows)
    })
    .await
}

fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content, "tool_calls": null, "tool_call_id": null, "tool_name": null, "status": null })
}

async fn as_the_key(world: &SqlWorld) -> Views {
    world.views("langchain", &["--key", &world.key]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_statements_run_as_they_stand() {
    on_each_engine(Vec::new, async |world| {
        let views = as_the_key(&world).await;
        for insert in INSERTS {
            views.run(insert).await.unwrap();
        }
        let rows = rows_of(&views, "conv-123", 4).await;
        let call = json!([{ "id": "call_123", "name": "wildberries_seller_products", "args": {} }]);
        let mut called = message("assistant", "I'll fetch your Wildberries products for you.");
        called["tool_calls"] = call.clone();
        let products = r#"{"products": [{"name": "Product 1", "price": 100}]}"#;
        let mut result = message("tool", products);
        result["tool_call_id"] = "call_123".into();
        result["tool_name"] = "wildberries_seller_products".into();
        result["status"] = "success".into();
        assert_eq!(
            rows,
            [
                message("user", "Show me my Wildberries products"),
                called,
                result,
                message(
                    "assistant",
                    "Here are your Wildberries products: Product 1 - $100"
                ),
            ]
        );
        let found = views.rows(TOOL_CALLS).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["tool_calls"], call);
        assert_eq!(views.rows(FAILED).await.len(), 0);
        let found = views.rows(RESULTS).await;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["content"], products);
        assert_eq!(views.rows("SELECT * FROM queued_messages").await.len(), 0);
        // Over HTTP it is the same conversation, and its call is completed.
        let path = "/v1/calls?tool_call_id=call_123";
        let calls = world
            .client
            .send("GET", path, &[], "")
            .await
            .unwrap()
            .json();
        assert_eq!(calls["data"][0]["status"], "completed", "{calls}");
        assert_eq!(calls["data"][0]["conversation"], "conv-123", "{calls}");
    })
    .await;
}

/// Statements that are refused at once, and why.
const REFUSED: [(&str, &str); 13] = [
    (
        "INSERT INTO messages (content, role) VALUES ('a', 'user')",
        "conversation_id must not be null",
    ),
    (
        "INSERT INTO messages (conversation_id, role) VALUES ('c', 'user')",
        "content must not be null",
    ),
    (
        "INSERT INTO messages (conversation_id, content, role) VALUES ('c', 'a', 'system')",
        "role is user, assistant or tool",
    ),
    (
        "INSERT INTO messages (conversation_id, content) VALUES ('c', 'a')",
        "role is user, assistant or tool",
    ),
    (
        "INSERT INTO messages (conversation_id, content, role, status) VALUES ('c', 'a', 'tool', 'done')",
        "status is null, pending, success or error",
    ),
    (
        "INSERT INTO messages (conversation_id, content, role, status) VALUES ('c', 'a', 'tool', 'pending')",
        "a result is inserted once it is there",
    ),
    (
        "INSERT INTO messages (id, conversation_id, content, role) VALUES ('m', 'c', 'a', 'user')",
        "given by the server",
    ),
    (
        "INSERT INTO messages (conversation_id, content, role, tool_calls) VALUES ('c', 'a', 'assistant', '[{')",
        "JSON",
    ),
    (
        "UPDATE messages SET content = 'b' WHERE conversation_id = 'there'",
        "POST /v1/conversations/ID/rows",
    ),
    (
        "DELETE FROM messages WHERE conversation_id = 'there'",
        "DELETE /v1/conversations/ID",
    ),
    (
        "INSERT INTO conversations (id) VALUES ('c')",
        "made by its first message",
    ),
    (
        "UPDATE conversations SET user_id = 'b' WHERE id = 'there'",
        "changed by POST /v1/conversations/ID",
    ),
    (
        "DELETE FROM conversations WHERE id = 'there'",
        "deleted by DELETE /v1/conversations/ID",
    ),
];

/// Rows that cannot be appended, and why.
const ORPHANS: [(&str, &str); 4] = [
    (
        "INSERT INTO messages (conversation_id, content, role, tool_call_id) VALUES ('there', 'r', 'tool', 'call_9')",
        "call_9",
    ),
    (
        "INSERT INTO messages (conversation_id, content, role, tool_calls) VALUES ('there', 'r', 'assistant', '{}')",
        "tool_calls",
    ),
    (
        "INSERT INTO messages (conversation_id, content, role) VALUES ('', 'r', 'user')",
        "printable ASCII",
    ),
    (
        "INSERT INTO messages (conversation_id, content, role, metadata) VALUES ('there', 'r', 'user', '{\"content\": 1}')",
        "rows[0].content",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_with_the_reason() {
    on_each_engine(Vec::new, async |world| {
        let views = as_the_key(&world).await;
        let there =
            "INSERT INTO messages (conversation_id, content, role) VALUES ('there', 'a', 'user')";
        views.run(there).await.unwrap();
        rows_of(&views, "there", 1).await;
        for (statement, reason) in REFUSED {
            let refused = views.run(statement).await.unwrap_err();
            assert!(
                refused.to_lowercase().contains(&reason.to_lowercase()),
                "{statement}: {refused}"
            );
        }
        for (statement, _) in ORPHANS {
            views.run(statement).await.unwrap();
        }
        // What comes behind a refused row is appended.
        views.run(there).await.unwrap();
        assert_eq!(
            rows_of(&views, "there", 2).await,
            [message("user", "a"), message("user", "a")]
        );
        let query = "SELECT * FROM queued_messages WHERE refused IS NOT NULL ORDER BY id";
        let refused = poll_until("the refused rows", async || {
            let rows = views.rows(query).await;
            (rows.len() == ORPHANS.len()).then_some(rows)
        })
        .await;
        for ((_, reason), row) in ORPHANS.into_iter().zip(&refused) {
            let said = row["refused"].as_str().unwrap();
            assert!(said.contains(reason), "{said}");
            assert!(row["conversation_id"].is_string());
        }
        let deleted = world
            .client
            .send("DELETE", "/v1/conversations/there", &[], "");
        assert_eq!(deleted.await.unwrap().status, 200);
        assert_eq!(views.rows(query).await.len(), 1);
        // Without a key nothing is inserted.
        let reader = world.views("langchain", &[]).await;
        let refused = reader.run(there).await.unwrap_err();
        assert!(
            refused.contains("nothing is inserted without a key"),
            "{refused}"
        );
    })
    .await;
}

/// Rows that are inserted while two servers look for them, and conversations that they go to.
const ROWS: usize = 45;
const CONVERSATIONS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn of_several_servers_one_appends_a_row() {
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let world = SqlWorld::start(Vec::new(), Some(schema)).await;
    let second = world.another_server();
    let views = as_the_key(&world).await;
    for n in 0..ROWS {
        let conversation = n % CONVERSATIONS;
        let insert = format!(
            "INSERT INTO messages (conversation_id, content, role) VALUES ('many-{conversation}', '{n}', 'user')"
        );
        views.run(&insert).await.unwrap();
    }
    for conversation in 0..CONVERSATIONS {
        let name = format!("many-{conversation}");
        let rows = rows_of(&views, &name, ROWS / CONVERSATIONS).await;
        let expected = (0..ROWS).filter(|n| n % CONVERSATIONS == conversation);
        let expected: Vec<Value> = expected.map(|n| message("user", &n.to_string())).collect();
        assert_eq!(rows, expected);
    }
    let left = views.rows("SELECT * FROM queued_messages").await;
    assert_eq!(left, Vec::<Value>::new());
    drop(second);
}
