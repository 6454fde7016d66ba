//! `turnwright import vapi`: tools of an application whose calls VAPI makes.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::Listener;
use tw_testkit::postgres::PostgresSchema;

use crate::foreign_databases::{ForeignDatabase, ForeignEngine, app};
use crate::import_files::import;
use crate::process::{ServerProcess, create_key, key_of, serve, stderr, turnwright};

const ORGANIZATION: &str = "10000000-0000-4000-8000-000000000001";
const OTHER: &str = "10000000-0000-4000-8000-000000000002";

fn tool_id(n: u32) -> String {
    format!("20000000-0000-4000-8000-{n:012}")
}

/// Tools that an application has, some of which cannot be made here.
fn rows() -> String {
    let tool = |n: u32, name: &str, organization: &str, data: &str, more: &str| {
        let id = tool_id(n);
        format!(
            r#"INSERT INTO tools (id, name, label, organization_id, external_tool_id, type, function_schema, static_config, data, created_at{more_names})
            VALUES ('{id}', '{name}', 'Label {n}', '{organization}', 'vapi-{n}', 'sms',
                '{{"name": "{name}", "description": "Sends {{{{caller_phone_number}}}} a message", "parameters": {{"type": "object",
                   "properties": {{"message": {{"type": "string"}}}}, "required": ["message"]}}}}',
                '{{"password": "CANARY"}}', '{data}', '2025-01-02 03:04:05.000006+00'{more});"#,
            more_names = if more.is_empty() {
                ""
            } else {
                ", execute_on_call_start, attach_to_agent"
            },
        )
    };
    let url = "https://app.example/api/tools/1/execute";
    let plain = format!(r#"{{"type": "apiRequest", "method": "POST", "url": "{url}"}}"#);
    let with = |more: &str| {
        format!(r#"{{"type": "apiRequest", "method": "POST", "url": "{url}", {more}}}"#)
    };
    [
        format!("INSERT INTO organisations VALUES ('{ORGANIZATION}', 'one'), ('{OTHER}', 'two');"),
        tool(1, "send_sms", ORGANIZATION, &plain, ""),
        tool(
            2,
            "keyed",
            ORGANIZATION,
            &with(r#""headers": {"x-api-key": "CANARY"}, "messages": [1]"#),
            "",
        ),
        tool(
            3,
            "signed",
            ORGANIZATION,
            &with(r#""credentialId": "cred-1""#),
            "",
        ),
        tool(4, "look_up", ORGANIZATION, "{}", ", true, false"),
        tool(5, "send_sms", OTHER, &plain, ""),
        tool(
            6,
            "transfer",
            ORGANIZATION,
            r#"{"type": "transferCall"}"#,
            "",
        ),
        tool(
            7,
            "inside",
            ORGANIZATION,
            r#"{"type": "apiRequest", "method": "POST", "url": "http://127.0.0.1/"}"#,
            "",
        ),
        tool(8, "time_now", ORGANIZATION, &plain, ""),
    ]
    .concat()
}

/// What was told of rows, as `row problem`, by the end of the row's id.
fn notes(done: &Output) -> Vec<String> {
    let lines = std::str::from_utf8(&done.stdout).unwrap().lines();
    let mut notes: Vec<String> = lines
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let row = line["row"].as_str().unwrap();
            let row = row.get(row.len().saturating_sub(2)..).unwrap_or(row);
            format!("{row} {}", line["problem"].as_str().unwrap())
        })
        .collect();
    notes.sort();
    notes
}

/// The tools of the server at this place, by name.
async fn tools(data: &Path, flags: &[&str]) -> (ServerProcess, TestClient, Vec<Value>) {
    let wanted = ["--scope", "chat,tools:read,tools:write"];
    let key = key_of(&create_key(data, &[flags, &wanted].concat()));
    let upstream = Listener::in_turn(Vec::new()).await.unwrap();
    let mut command = serve(data, &upstream);
    command.args(flags);
    let server = ServerProcess::start(command, data);
    let client = TestClient {
        key: Some(key),
        ..server.client.clone()
    };
    let list = client
        .send("GET", "/api/default/tools", &[], "")
        .await
        .unwrap()
        .json();
    let tools = list["data"].as_array().unwrap().clone();
    (server, client, tools)
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_made_of_what_says_where_its_requests_go() {
    let (Some(source), Some(store)) = (
        app("vapi").filled_by(&rows()).await,
        PostgresSchema::create().await,
    ) else {
        return;
    };
    for flags in [&[][..], &["--store", &store.url]] {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let key = key_of(&create_key(&data, flags));
        let with_key = [flags, &["--key", &key]].concat();
        let done = import("vapi", &data, &source, &with_key);
        assert!(done.status.success(), "{}", stderr(&done));
        let expected = [
            "02 tool_secret_not_granted",
            "03 tool_credential_elsewhere",
            "04 tool_only_at_call_start",
            "05 tool_name_taken",
            "06 tool_of_another_kind",
            "07 tool_unfit",
            "08 tool_unfit",
        ];
        assert_eq!(notes(&done), expected);
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.contains("KEYED_X_API_KEY for app.example"), "{said}");
        assert!(!said.contains("CANARY"), "{said}");
        let said = stderr(&done);
        assert!(said.contains("10 rows, "), "{said}");
        assert!(
            said.contains(": 1 tools made, 0 there before, 7 notes"),
            "{said}"
        );
        // Once the secret is granted, the tool is made.
        let mut again = turnwright();
        again
            .args(["import", "vapi", &source.word(), "--data"])
            .arg(&data)
            .args(&with_key)
            .env("TURNWRIGHT_SECRET_KEYED_X_API_KEY", "the key");
        let again = again.output().unwrap();
        let said = stderr(&again);
        assert!(
            said.contains(": 1 tools made, 1 there before, 7 notes"),
            "{said}"
        );
        assert!(notes(&again).contains(&"02 tool_partly".to_owned()));
        let (server, client, tools) = tools(&data, flags).await;
        let names: Vec<&str> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["keyed", "send_sms"]);
        assert_eq!(
            tools[0]["headers"],
            json!({ "x-api-key": { "secret": "KEYED_X_API_KEY" } })
        );
        let sms = &tools[1];
        assert_eq!(sms["id"], tool_id(1));
        assert_eq!(sms["created_at"], 1_735_787_045);
        assert_eq!(sms["label"], "Label 1");
        let path = format!("/api/default/tools/{}/test", tool_id(1));
        let trial = json!({ "arguments": { "message": "Hi" }, "metadata": { "caller_phone_number": "+1" } });
        let preview = client
            .send("POST", &path, &[], trial.to_string())
            .await
            .unwrap()
            .json();
        let request = &preview["request"];
        assert_eq!(
            request["url"], "https://app.example/api/tools/1/execute",
            "{preview}"
        );
        assert_eq!(request["body"], r#"{"message":"Hi"}"#, "{preview}");
        // One that is deleted here stays so.
        let path = format!("/api/default/tools/{}", tool_id(1));
        let deleted = client.send("DELETE", &path, &[], "").await.unwrap();
        assert!(deleted.status < 300, "{}", deleted.text());
        drop(server);
        let third = import("vapi", &data, &source, &with_key);
        let said = stderr(&third);
        assert!(said.contains(": 1 tools made, 2 there before"), "{said}");
    }
}

/// Their names become one where what stands between words is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_one_tool_is_not_sent_by_another() {
    let tool = |n: u32, name: &str, header: &str, value: &str| {
        let id = tool_id(n);
        format!(
            r#"INSERT INTO tools (id, name, label, organization_id, type, function_schema, data) VALUES
            ('{id}', '{name}', 'Label', '{ORGANIZATION}', 'sms', '{{"name": "{name}"}}', '{{"type": "apiRequest",
              "method": "POST", "url": "https://app.example/{n}", "headers": {{"{header}": "{value}"}}}}');"#
        )
    };
    let organization = format!("INSERT INTO organisations VALUES ('{ORGANIZATION}', 'one');");
    let rows = [
        organization,
        tool(1, "a", "b-c", "CANARY 1"),
        tool(2, "a_b", "c", "CANARY 2"),
        tool(3, "a_b", "C", "CANARY 1"),
    ];
    let Some(source) = app("vapi").filled_by(&rows.concat()).await else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    // The first is there from the second time on.
    for (granted, expected) in [
        (
            false,
            [
                "01 tool_secret_not_granted",
                "02 tool_unfit",
                "03 tool_secret_not_granted",
            ]
            .as_slice(),
        ),
        (true, &["02 tool_unfit"]),
        (true, &["02 tool_unfit"]),
    ] {
        let mut command = turnwright();
        let words = ["import", "vapi", &source.word(), "--key", &key, "--data"];
        command.args(words).arg(&data);
        if granted {
            command.env("TURNWRIGHT_SECRET_A_B_C", "the key");
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", stderr(&done));
        assert_eq!(notes(&done), expected);
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.contains("secret A_B_C: is another tool's"), "{said}");
        assert!(!said.contains("CANARY"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_one_organization_are_made_alone() {
    let Some(source) = app("vapi").filled_by(&rows()).await else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let done = import("vapi", &data, &source, &["--key", &key, "--only", OTHER]);
    assert_eq!(notes(&done), Vec::<String>::new());
    let (_server, _, tools) = tools(&data, &[]).await;
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0]["id"], tool_id(5));
    let conn = rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let sql = "SELECT count(*) FROM imported_row WHERE source_table = 'tools'";
    let kept: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 8);
}

/// Tables that hold whatever they are given.
pub const NASTY_TOOLS: &str = r#"
    CREATE TABLE agents (id TEXT, organization_id TEXT, "odd "" name'" BYTEA);
    CREATE TABLE tools (n BIGSERIAL, id TEXT, name TEXT, type TEXT, organization_id UUID, function_schema TEXT, config JSON, data TEXT,
        attach_to_agent BOOLEAN, created_at TEXT);
    CREATE TABLE agent_tools (agent_id TEXT, tool_id TEXT, note JSONB, PRIMARY KEY (agent_id, tool_id));
    CREATE TABLE organisations (id UUID, slug TEXT);
    INSERT INTO organisations VALUES ('10000000-0000-4000-8000-000000000001', 'one'), ('10000000-0000-4000-8000-000000000001', 'twice'), (NULL, NULL);
    INSERT INTO agents VALUES ('a01', NULL, '\x00ff'), ('a02', 'gone', NULL);
    INSERT INTO tools (id, name, type, organization_id, function_schema, config, data, created_at) VALUES
    ('t01', 'good', 'odd', '10000000-0000-4000-8000-000000000001', '{"parameters": null}', '{"a" : 1, "a":2}',
     '{"type": "apiRequest", "method": "GET", "url": "https://app.example/"}', 'noon'),
    ('t01', 'again', 'sms', NULL, '{}', 'null', '{"type": "apiRequest", "method": "GET", "url": "https://app.example/"}', NULL),
    ('t02', 'no_json', 'sms', '99999999-0000-4000-8000-000000000001', '{"a":', NULL, '{}', '2025-01-01'),
    ('t03', 'no_data', 'sms', NULL, '[]', NULL, '{', '2025-01-01'),
    ('t04', NULL, 'sms', NULL, '{}', NULL, '{"type": "apiRequest", "method": "GET", "url": "https://app.example/"}', '2025-01-01'),
    (NULL, 'no_id', 'sms', NULL, NULL, NULL, NULL, NULL), (NULL, 'no_id', 'sms', NULL, NULL, NULL, NULL, NULL);
    INSERT INTO tools (id, name, type, function_schema, data) VALUES
    ('t05', 'long', 'sms', '{"description": "' || repeat('x', 10000000) || '"}',
     '{"type": "apiRequest", "method": "GET", "url": "https://app.example/"}');
    INSERT INTO agent_tools VALUES ('a01', 't01', '[1]'), ('a01', 'gone', 'null'), ('gone', 't01', NULL);"#;

pub async fn nasty_tools() -> Option<ForeignDatabase> {
    let source = ForeignDatabase::empty(ForeignEngine::Postgres).await?;
    source.run(NASTY_TOOLS).await;
    // What counts a column there is an identity here.
    source
        .run("ALTER TABLE tools ALTER n DROP DEFAULT, ALTER n ADD GENERATED BY DEFAULT AS IDENTITY")
        .await;
    Some(source)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_no_tools_are_kept_and_told() {
    let (Some(source), Some(store)) = (nasty_tools().await, PostgresSchema::create().await) else {
        return;
    };
    for flags in [&[][..], &["--store", &store.url]] {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let key = key_of(&create_key(&data, flags));
        let with_key = [flags, &["--key", &key]].concat();
        let done = import("vapi", &data, &source, &with_key);
        assert!(done.status.success(), "{}", stderr(&done));
        let mut expected = [
            // The agent of an organization that is not there.
            "02 dangling",
            "01 tool_partly",
            "01 row_id_taken",
            "02 dangling",
            "02 tool_unfit",
            "03 tool_unfit",
            "04 tool_unfit",
            " tool_without_request",
            " tool_without_request",
            "05 tool_unfit",
            "\"] dangling",
            "\"] dangling",
        ];
        expected.sort_unstable();
        assert_eq!(notes(&done), expected);
        let again = import("vapi", &data, &source, &with_key);
        let said = stderr(&again);
        assert!(said.contains(": 0 tools made, 2 there before, "), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_tools_whose_source_dies_is_completed_by_the_next() {
    let Some(source) = app("vapi").filled(3000).await else {
        return;
    };
    // A view that fails at a row, as a server does that goes away.
    let dies = "ALTER TABLE agent_tools RENAME TO kept;
        CREATE FUNCTION alive(n boolean) RETURNS text LANGUAGE sql STABLE AS $$ SELECT (1 / (NOT n)::int)::text $$;
        CREATE VIEW agent_tools AS SELECT kept.*, kept.ctid, alive(kept.id = md5('at' || 2900)::uuid) FROM kept";
    source.run(dies).await;
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let dead = import("vapi", &data, &source, &["--key", &key]);
    assert!(!dead.status.success());
    let said = stderr(&dead);
    assert!(said.contains("the source ended after"), "{said}");
    let conn = rusqlite::Connection::open(data.join("turnwright.db")).unwrap();
    let count = |table: &str| {
        let sql = "SELECT count(*) FROM imported_row WHERE source_table = ?1";
        conn.query_row(sql, [table], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    assert_eq!(count("tools"), 301);
    assert!(count("agent_tools") < 3000);
    let back = "CREATE OR REPLACE FUNCTION alive(n boolean) RETURNS text LANGUAGE sql STABLE AS $$ SELECT '1' $$";
    source.run(back).await;
    let done = import("vapi", &data, &source, &["--key", &key]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(count("tools"), 301);
    assert_eq!(count("agent_tools"), 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_database_of_tools_is_refused() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let key = key_of(&create_key(&data, &[]));
    let file = ForeignDatabase::empty(ForeignEngine::Sqlite).await.unwrap();
    file.run("CREATE TABLE tools (id, name, function_schema, data)")
        .await;
    let refused = import("vapi", &data, &file, &["--key", &key]);
    let said = stderr(&refused);
    assert!(said.contains("keeps its tools in PostgreSQL"), "{said}");
    let Some(other) = ForeignDatabase::empty(ForeignEngine::Postgres).await else {
        return;
    };
    other.run("CREATE TABLE tools (id TEXT, name TEXT)").await;
    let refused = import("vapi", &data, &other, &["--key", &key]);
    let said = stderr(&refused);
    let expected = "no table tools with the columns id, name, function_schema, data";
    assert!(said.contains(expected), "{said}");
}
