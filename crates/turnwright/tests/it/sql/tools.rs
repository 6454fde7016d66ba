//! Tools in SQL, as an application has them whose calls VAPI makes: those of the tools API, and none of anybody else.

use serde_json::{Value, json};
use tw_testkit::client::TestClient;
use tw_testkit::postgres::PostgresSchema;

use super::{SqlWorld, Views, assert_rows, on_each_engine};
use crate::foreign_databases::app;
use crate::import_files::import;
use crate::process::{create_key, key_of, stderr};

async fn send(client: &TestClient, method: &str, path: &str, body: &Value) -> Value {
    let got = client
        .send(method, path, &[], body.to_string())
        .await
        .unwrap();
    assert!(got.status < 300, "{path}: {}", got.text());
    if got.body.is_empty() {
        Value::Null
    } else {
        got.json()
    }
}

/// Tools of each kind of parameter. What may not be shown is `CANARY`.
pub(super) async fn make_tools(world: &SqlWorld) -> Vec<Value> {
    let tools = [
        json!({ "name": "plain", "description": "", "type": "api_request", "url": "https://a.example/" }),
        json!({ "name": "fixed", "label": "Fixed 😀", "description": "For {{who}}", "type": "api_request", "method": "POST",
            "url": "https://a.example/{to}", "headers": { "x": "1" }, "query": { "v": "1" },
            "body": { "n": 9_007_199_254_740_993_u64, "of": [null, "{{who}}"] },
            "variables": { "who": { "default": "all" } },
            "parameters": {
                "to": { "mode": "ai", "prompt": "Whom, {{who}}" },
                "from": { "mode": "fixed", "value": "CANARY", "sensitive": true },
                "cc": { "mode": "array_extendable", "fixedValues": ["a"], "aiExtension": { "prompt": "More" } },
                "deep": { "mode": "object", "properties": { "x": { "mode": "ai" }, "y": { "mode": "fixed", "value": true } } } } }),
        json!({ "name": "changed", "description": "first", "type": "api_request", "url": "https://a.example/" }),
        json!({ "name": "renamed", "description": "r", "type": "api_request", "url": "https://a.example/" }),
        json!({ "name": "gone", "description": "CANARY", "type": "api_request", "url": "https://a.example/" }),
    ];
    let mut made = Vec::new();
    for tool in &tools {
        made.push(send(&world.client, "POST", "/api/default/tools", tool).await);
    }
    let path = |at: usize| format!("/api/default/tools/{}", made[at]["id"].as_str().unwrap());
    send(
        &world.client,
        "PATCH",
        &path(2),
        &json!({ "description": "second" }),
    )
    .await;
    send(
        &world.client,
        "PATCH",
        &path(3),
        &json!({ "name": "with_a_new_name" }),
    )
    .await;
    let deleted = world
        .client
        .send("DELETE", &path(4), &[], "")
        .await
        .unwrap();
    assert!(deleted.status < 300, "{}", deleted.text());
    let list = send(&world.client, "GET", "/api/default/tools", &Value::Null).await;
    list["data"].as_array().unwrap().clone()
}

/// Times as seconds since 1970.
fn seconds(views: &Views, column: &str) -> String {
    match views {
        Views::File(_) => format!("CAST(strftime('%s', {column}) AS INTEGER)"),
        Views::Server(_) => format!("floor(extract(epoch FROM {column}))::bigint"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_those_of_the_api() {
    on_each_engine(Vec::new, async |world| {
        let made = make_tools(&world).await;
        assert_eq!(made.len(), 4);
        let views = world.views("vapi", &[]).await;
        let yes = |is: bool| match world.schema {
            Some(_) => Value::from(is),
            None => Value::from(u8::from(is)),
        };
        let expected = |tool: &Value| {
            let config: serde_json::Map<String, Value> = tool
                .as_object()
                .unwrap()
                .iter()
                .filter(|(name, _)| {
                    ![
                        "id",
                        "object",
                        "version",
                        "created_at",
                        "updated_at",
                        "function_schema",
                    ]
                    .contains(&&***name)
                })
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let mut schema = tool["function_schema"].clone();
            // Over HTTP variables are empty, in SQL they stand by their names.
            schema["description"] = tool["description"].clone();
            let fixed = tool["name"] == "fixed";
            if fixed {
                schema["parameters"]["properties"]["to"]["description"] = "Whom, {{who}}".into();
            }
            json!({
                "id": tool["id"],
                "name": tool["name"],
                "label": tool.get("label").unwrap_or(&tool["name"]),
                "description": tool["description"],
                "organization_id": "00000000-0000-0000-0000-000000000001",
                "external_tool_id": null,
                "type": "apiRequest",
                "function_schema": schema,
                "static_config": fixed.then(|| json!({
                    "from": "***", "cc": ["a"], "deep": { "y": true }, "v": "1",
                    "n": 9_007_199_254_740_993_u64, "of": [null, "{{who}}"] })),
                "config_metadata": config,
                "async": yes(false),
                "execute_on_call_start": yes(false),
                "attach_to_agent": yes(true),
                "data": {},
                "made": tool["created_at"],
                "changed": tool["updated_at"],
            })
        };
        let expected: Vec<Value> = made.iter().map(expected).collect();
        let (made_at, changed_at) = (seconds(&views, "created_at"), seconds(&views, "updated_at"));
        let query = format!(
            "SELECT *, {made_at} AS made, {changed_at} AS changed FROM tools ORDER BY name"
        );
        let rows = views.rows(&query).await;
        assert_rows(&rows, &expected, "tools");
        let all = format!("{rows:?}");
        assert!(!all.contains("CANARY"), "{all}");
        // By the key of a table of tools.
        let id = made[1]["id"].as_str().unwrap();
        let one = views
            .rows(&format!("SELECT name FROM tools WHERE id = '{id}'"))
            .await;
        assert_eq!(one, [json!({ "name": "fixed" })]);
        assert!(views.run("DELETE FROM tools").await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_another_organization_are_not_shown() {
    on_each_engine(Vec::new, async |world| {
        make_tools(&world).await;
        let store: Vec<&str> = match &world.schema {
            Some(schema) => vec!["--store", &schema.url],
            None => Vec::new(),
        };
        let theirs = ["--organization", "other", "--scope", "chat,tools:read,tools:write"];
        let key = key_of(&create_key(&world.data, &[&store[..], &theirs].concat()));
        let client = TestClient { key: Some(key), ..world.client.clone() };
        let tool = json!({ "name": "theirs", "description": "t", "type": "api_request", "url": "https://a.example/" });
        send(&client, "POST", "/api/other/tools", &tool).await;
        let names = async |views: &Views| -> Vec<Value> {
            let rows = views.rows("SELECT name, organization_id AS o FROM tools ORDER BY name").await;
            rows.iter().map(|row| json!([row["name"], row["o"]])).collect()
        };
        let ours = names(&world.views("vapi", &[]).await).await;
        assert_eq!(ours.len(), 4);
        assert!(!ours.iter().any(|row| row[0] == "theirs"), "{ours:?}");
        let theirs = names(&world.views("vapi", &["--organization", "other"]).await).await;
        assert_eq!(theirs, [json!(["theirs", "00000000-0000-0000-0000-000000000002"])]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_tool_is_shown_with_vapis_id() {
    let Some(source) = app("vapi").filled(200).await else {
        return;
    };
    on_each_engine(Vec::new, async |world| {
        let store: Vec<&str> = match &world.schema {
            Some(schema) => vec!["--store", &schema.url],
            None => Vec::new(),
        };
        let flags = [&store[..], &["--key", &world.key]].concat();
        let done = import("vapi", &world.data, &source, &flags);
        assert!(done.status.success(), "{}", stderr(&done));
        let views = world.views("vapi", &[]).await;
        let rows = views
            .rows("SELECT name, external_tool_id AS id FROM tools ORDER BY name LIMIT 3")
            .await;
        let expected = [
            json!({ "name": "tool_0", "id": "vapi-0" }),
            json!({ "name": "tool_1", "id": "vapi-1" }),
            json!({ "name": "tool_10", "id": "vapi-10" }),
        ];
        assert_eq!(rows, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_sees_the_view_and_no_table_of_tools() {
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let world = SqlWorld::start(Vec::new(), Some(schema)).await;
    make_tools(&world).await;
    let schema = world.schema.as_ref().unwrap();
    let (name, role) = (schema.views_schema(), schema.role("reader"));
    let client = schema.outside().await;
    let make = format!("CREATE ROLE {role}");
    client.batch_execute(&make).await.unwrap();
    let made = world.sql(&["vapi", "--schema", &name, "--role", &role]);
    assert!(made.status.success(), "{}", stderr(&made));
    let become_it = format!("SET ROLE {role}");
    client.batch_execute(&become_it).await.unwrap();
    let rows = client
        .query(&format!("SELECT name FROM {name}.tools"), &[])
        .await
        .unwrap();
    assert_eq!(rows.len(), 4);
    for table in ["tool", "tool_version", "imported_row"] {
        let query = format!("SELECT * FROM {}.{table}", schema.name);
        let refused = client.query(&query, &[]).await.unwrap_err();
        let said = refused.as_db_error().unwrap().message();
        assert!(said.contains("permission denied"), "{table}: {said}");
    }
}
