//! The rows of the other shapes, which are those that are read over HTTP.

use serde_json::{Value, json};

use super::langchain::{append, as_kept, fill, over_http, replies};
use super::{assert_rows, on_each_engine, without};

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_chat_completions_are_those_over_http() {
    on_each_engine(replies, async |world| {
        fill(&world).await;
        let views = world.views("openai", &[]).await;
        for conversation in ["c", "own", "rows", "blocks"] {
            let expected = as_kept(&world, over_http(&world, conversation, "openai").await);
            let query = format!("SELECT * FROM messages WHERE conversation_id = '{conversation}' ORDER BY created_at");
            let got = views.rows(&query).await;
            let sorted = |rows: &[Value]| -> Vec<Value> {
                let mut rows: Vec<Value> = rows.iter().map(|row| without(row, &["created_at"])).collect();
                let is_result = |row: &Value| row["role"] == "tool";
                for results in rows.chunk_by_mut(|one, next| is_result(one) && is_result(next)) {
                    results.sort_by_key(|row| row["tool_call_id"].to_string());
                }
                rows
            };
            assert_rows(&sorted(&got), &sorted(&expected), conversation);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_blocks_are_those_over_http() {
    on_each_engine(replies, async |world| {
        fill(&world).await;
        let views = world.views("blocks", &[]).await;
        for conversation in ["c", "own", "rows", "blocks"] {
            let expected = as_kept(&world, over_http(&world, conversation, "blocks").await);
            let query = format!("SELECT * FROM messages WHERE conversation_id = '{conversation}' ORDER BY created_at");
            let got = views.rows(&query).await;
            let plain = |rows: &[Value]| -> Vec<Value> {
                let row = |row: &Value| {
                    let mut row = without(row, &["created_at"]);
                    // SQLite has it as text.
                    if let Some(text) = row["content"].as_str() {
                        row["content"] = serde_json::from_str(text).unwrap();
                    }
                    row
                };
                rows.iter().map(row).collect()
            };
            assert_rows(&plain(&got), &plain(&expected), conversation);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_turns_and_calls_are_those_over_http() {
    on_each_engine(replies, async |world| {
        fill(&world).await;
        let views = world.views("pocketbase", &[]).await;
        for conversation in ["c", "own", "rows", "blocks"] {
            let expected = as_kept(&world, over_http(&world, conversation, "pocketbase").await);
            for record in &expected {
                let turn = record["id"].as_str().unwrap();
                let got = views
                    .rows(&format!("SELECT * FROM turns WHERE id = '{turn}'"))
                    .await;
                let mut want = without(record, &["expand", "collectionName"]);
                if world.schema.is_none() {
                    want["has_tool_calls"] = u8::from(want["has_tool_calls"] == true).into();
                }
                assert_rows(&got, &[want], conversation);
                let query = format!("SELECT * FROM tool_calls WHERE turn = '{turn}' ORDER BY id");
                let got = views.rows(&query).await;
                let calls = record["expand"]["tool_calls_via_turn"].as_array().unwrap();
                let mut want: Vec<Value> = calls
                    .iter()
                    .map(|call| without(call, &["collectionName"]))
                    .collect();
                for call in &mut want {
                    // A text that is empty in PocketBase is null in SQL.
                    for name in ["error", "external_id"] {
                        if call[name] == "" {
                            call[name] = Value::Null;
                        }
                    }
                }
                want.sort_by_key(|call| call["id"].to_string());
                assert_rows(&got, &want, conversation);
            }
        }
        for (status, expected) in [
            ("completed", 5),
            ("failed", 3),
            ("processing", 0),
            ("pending", 0),
        ] {
            let query = format!("SELECT id FROM tool_calls WHERE status = '{status}'");
            let got = views.rows(&query).await;
            assert_eq!(got.len(), expected, "{status}");
        }
        let columns = views
            .rows("SELECT * FROM conversations WHERE id = 'own'")
            .await;
        assert_eq!(
            without(&columns[0], &["created", "updated"]),
            json!({ "id": "own", "user": "ann" })
        );
    })
    .await;
}

/// A database reads JSON only so deep; what is deeper is a text like any other, and breaks nobody's query.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_nested_too_deep_is_a_text() {
    const DEPTH: usize = 100_000;
    let deep = "[".repeat(DEPTH) + &"]".repeat(DEPTH);
    for (shape, query, place) in [
        (
            "pocketbase",
            "SELECT arguments FROM tool_calls",
            "/arguments",
        ),
        (
            "blocks",
            "SELECT content FROM messages WHERE role = 'assistant'",
            "/content/1/content",
        ),
    ] {
        on_each_engine(replies, async |world| {
            let function = json!({ "name": "dig", "arguments": deep });
            let rows = json!([
                { "role": "user", "content": "How deep?" },
                { "role": "assistant", "content": null,
                  "tool_calls": [{ "id": "call_1", "type": "function", "function": function }] },
                { "role": "tool", "content": deep, "tool_call_id": "call_1" },
            ]);
            append(&world, "deep", "openai", rows).await;
            let mut got = world.views(shape, &[]).await.rows(query).await;
            assert_eq!(got.len(), 1, "{shape}");
            // SQLite has it as text.
            if let Some(text) = got[0]["content"].as_str() {
                got[0]["content"] = serde_json::from_str(text).unwrap();
            }
            let found = got[0].pointer(place);
            let shown = got[0].to_string();
            assert!(found == Some(&deep.clone().into()), "{shape}: {shown:.500}");
        })
        .await;
    }
}
