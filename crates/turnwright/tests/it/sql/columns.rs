//! The columns of the views against the tables that they stand for: names, order, which may be null, and what words there
//! are.

use serde_json::Value;

use super::langchain::{fill, replies};
use super::tools::make_tools;
use super::{Views, on_each_engine};

/// A column: whether it may be null, and the words that it may hold; none where it holds anything.
type Column = (&'static str, bool, &'static [&'static str]);

/// Of seed document 001, with the table that it refers to.
const LANGCHAIN: &[Column] = &[
    ("id", false, &[]),
    ("created_at", false, &[]),
    ("conversation_id", false, &[]),
    ("content", false, &[]),
    ("role", false, &["user", "assistant", "tool"]),
    ("tool_calls", true, &[]),
    ("tool_call_id", true, &[]),
    ("tool_name", true, &[]),
    ("status", true, &["pending", "success", "error"]),
    ("metadata", false, &[]),
];
/// Of seed document 002.
const BLOCKS: &[Column] = &[
    ("id", false, &[]),
    ("conversation_id", false, &[]),
    ("role", false, &["user", "assistant"]),
    ("content", false, &[]),
    ("created_at", false, &[]),
];
/// Of seed document 000.
const TOOL_CALLS: &[Column] = &[
    ("id", false, &[]),
    ("turn", false, &[]),
    ("tool_name", false, &[]),
    ("tool_call_id", false, &[]),
    ("arguments", false, &[]),
    ("result", true, &[]),
    (
        "status",
        false,
        &["pending", "processing", "completed", "failed"],
    ),
    ("error", true, &[]),
    ("external_id", true, &[]),
    ("metadata", true, &[]),
    ("created", false, &[]),
    ("updated", false, &[]),
];
const TURNS: &[Column] = &[
    ("id", false, &[]),
    ("conversation", false, &[]),
    ("prompt", false, &[]),
    ("answer", false, &[]),
    ("has_tool_calls", false, &[]),
    ("tool_count", false, &[]),
    ("created", false, &[]),
    ("updated", false, &[]),
];
const OPENAI: &[Column] = &[
    ("id", false, &[]),
    ("conversation_id", false, &[]),
    ("role", false, &["system", "user", "assistant", "tool"]),
    ("content", true, &[]),
    ("content_json", true, &[]),
    ("tool_calls", true, &[]),
    ("function_call", true, &[]),
    ("tool_call_id", true, &[]),
    ("name", true, &[]),
    ("status", true, &["pending", "success", "error"]),
    ("created_at", false, &[]),
];

/// Of seed document 004.
const TOOLS: &[Column] = &[
    ("id", false, &[]),
    ("name", false, &[]),
    ("label", false, &[]),
    ("description", true, &[]),
    ("organization_id", false, &[]),
    ("external_tool_id", true, &[]),
    (
        "type",
        false,
        &[
            "query",
            "sms",
            "apiRequest",
            "transferCall",
            "externalApp",
            "pipedream_action",
            "transfer_call",
        ],
    ),
    ("function_schema", false, &[]),
    ("static_config", true, &[]),
    ("config_metadata", true, &[]),
    ("async", true, &[]),
    ("execute_on_call_start", true, &[]),
    ("attach_to_agent", true, &[]),
    ("data", false, &[]),
    ("created_at", true, &[]),
    ("updated_at", true, &[]),
];

const TABLES: [(&str, &str, &[Column]); 6] = [
    ("langchain", "messages", LANGCHAIN),
    ("blocks", "messages", BLOCKS),
    ("pocketbase", "tool_calls", TOOL_CALLS),
    ("pocketbase", "turns", TURNS),
    ("openai", "messages", OPENAI),
    ("vapi", "tools", TOOLS),
];

async fn columns(views: &Views, query: &str) -> Vec<String> {
    match views {
        Views::File(conn) => {
            let statement = conn.prepare(query).unwrap();
            let names = statement.column_names();
            names.map(str::to_owned).collect()
        }
        Views::Server(client) => {
            let statement = client.prepare(query).await.unwrap();
            let columns = statement.columns().iter();
            columns.map(|column| column.name().to_owned()).collect()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_views_have_the_columns_of_the_applications_tables() {
    on_each_engine(replies, async |world| {
        fill(&world).await;
        make_tools(&world).await;
        let mut made: Option<(&str, Views)> = None;
        for (shape, table, expected) in TABLES {
            let is_made = made.as_ref().is_some_and(|(of, _)| *of == shape);
            if !is_made {
                // One schema at a time has the name.
                if let Some(schema) = &world.schema {
                    let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", schema.views_schema());
                    schema.client().await.batch_execute(&drop).await.unwrap();
                }
                made = Some((shape, world.views(shape, &[]).await));
            }
            let (_, views) = made.as_ref().unwrap();
            let query = format!("SELECT * FROM {table}");
            let names: Vec<&str> = expected.iter().map(|(name, ..)| *name).collect();
            assert_eq!(columns(views, &query).await, names, "{shape}.{table}");
            let rows = views.rows(&query).await;
            assert!(rows.len() > 3, "{shape}.{table}");
            for row in &rows {
                for (name, is_nullable, words) in expected {
                    let value = &row[*name];
                    assert!(*is_nullable || !value.is_null(), "{shape}.{table}.{name}");
                    let is_word = |value: &Value| words.iter().any(|word| value == word);
                    let fits = words.is_empty() || value.is_null() || is_word(value);
                    assert!(fits, "{shape}.{table}.{name}: {value}");
                }
            }
        }
    })
    .await;
}

/// The types of the tables of the seed documents, where the views are to have the same ones.
#[tokio::test(flavor = "multi_thread")]
async fn the_view_of_tools_has_the_types_of_its_table() {
    let Some(schema) = tw_testkit::postgres::PostgresSchema::create().await else {
        return;
    };
    let world = super::SqlWorld::start(Vec::new(), Some(schema)).await;
    let views = world.views("vapi", &[]).await;
    let query = "SELECT string_agg(format_type(atttypid, NULL), ',' ORDER BY attnum) AS types FROM pg_attribute
        WHERE attrelid = 'tools'::regclass AND attnum > 0";
    let types = views.rows(query).await;
    assert_eq!(
        types[0]["types"],
        "uuid,text,text,text,uuid,text,text,jsonb,jsonb,jsonb,boolean,boolean,boolean,jsonb,\
         timestamp with time zone,timestamp with time zone"
    );
}
