//! Whose rows a role of PostgreSQL sees, and what the command refuses.

use serde_json::json;
use tw_testkit::listener::ListenerReply;
use tw_testkit::postgres::PostgresSchema;

use super::{SqlWorld, sql};
use crate::process::{create_key, key_of, stderr};

#[tokio::test(flavor = "multi_thread")]
async fn a_role_sees_the_rows_of_one_organization_and_no_table() {
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let plain = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}"#;
    let replies = vec![ListenerReply::json(plain), ListenerReply::json(plain)];
    let world = SqlWorld::start(replies, Some(schema)).await;
    let schema = world.schema.as_ref().unwrap();
    let flags = ["--store", &schema.url, "--organization", "other"];
    let other = key_of(&create_key(&world.data, &flags));
    let (name, roles) = (
        schema.views_schema(),
        ["one", "two", "none"].map(|role| schema.role(role)),
    );
    let client = schema.outside().await;
    for role in &roles {
        client
            .batch_execute(&format!("CREATE ROLE {role}"))
            .await
            .unwrap();
    }
    for (role, flag, of) in [
        (&roles[0], "--organization", "default"),
        (&roles[1], "--key", &*other),
    ] {
        let made = world.sql(&["langchain", "--schema", &name, "--role", role, flag, of]);
        assert!(made.status.success(), "{}", stderr(&made));
    }
    // Who is granted the schema, and belongs to no organization, sees nothing.
    let grant = format!(
        "GRANT USAGE ON SCHEMA {name} TO {0}; GRANT SELECT ON {name}.messages TO {0}",
        roles[2]
    );
    client.batch_execute(&grant).await.unwrap();
    for (key, text) in [(&world.key, "from one"), (&other, "from two")] {
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": text }] });
        let client = tw_testkit::client::TestClient {
            key: Some(key.clone()),
            ..world.client.clone()
        };
        // Both name their conversation alike.
        let headers = [("turnwright-conversation", "c")];
        let got = client.send("POST", "/v1/chat/completions", &headers, body.to_string());
        assert_eq!(got.await.unwrap().status, 200);
    }
    for (role, expected) in [
        (&roles[0], &["from one"][..]),
        (&roles[1], &["from two"]),
        (&roles[2], &[]),
    ] {
        client
            .batch_execute(&format!("SET ROLE {role}"))
            .await
            .unwrap();
        let query = format!("SELECT content FROM {name}.messages WHERE role = 'user'");
        let rows = client.query(&query, &[]).await.unwrap();
        let seen: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(seen, expected, "{role}");
        for table in ["turn", "message", "tool_call", "api_key", "seal"] {
            let refused = client
                .query(&format!("SELECT * FROM {}.{table}", schema.name), &[])
                .await;
            let refused = refused.unwrap_err();
            assert!(
                refused
                    .as_db_error()
                    .unwrap()
                    .message()
                    .contains("permission denied"),
                "{table}"
            );
        }
        for part in ["reader", "path_turn", "said_message"] {
            let refused = client
                .query(&format!("SELECT * FROM {name}.{part}"), &[])
                .await;
            assert!(refused.is_err(), "{part}");
        }
        client.batch_execute("RESET ROLE").await.unwrap();
    }
    // Rows are inserted as the role's own key, and as no other.
    let insert = format!(
        "INSERT INTO {name}.messages (conversation_id, content, role) VALUES ('own', 'mine', 'user')"
    );
    client
        .batch_execute(&format!("SET ROLE {}", roles[1]))
        .await
        .unwrap();
    client.batch_execute(&insert).await.unwrap();
    let queued = client
        .query(&format!("SELECT id FROM {name}.queued_messages"), &[])
        .await;
    assert!(queued.unwrap().len() <= 1);
    for (organization, api_key) in [(1, 1), (1, 2), (2, 1)] {
        let forged = format!(
            "INSERT INTO {name}.inbox (organization, api_key, shape, conversation, body, created_us, updated_us)
             VALUES ({organization}, {api_key}, 'langchain', 'c', '{{}}', 1, 1)"
        );
        let refused = client.batch_execute(&forged).await.unwrap_err();
        let said = refused.as_db_error().unwrap().message();
        assert!(said.contains("violates check option"), "{said}");
    }
    client
        .batch_execute(&format!("RESET ROLE; SET ROLE {}", roles[0]))
        .await
        .unwrap();
    let refused = client.batch_execute(&insert).await.unwrap_err();
    assert!(
        refused
            .as_db_error()
            .unwrap()
            .message()
            .contains("without a key")
    );
    client.batch_execute("RESET ROLE").await.unwrap();
    // What a user's own function is shown of rows: those that the user sees.
    let spy = format!(
        "SET ROLE {0}; CREATE FUNCTION pg_temp.spy(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
         $$ BEGIN RAISE NOTICE '%', t; RETURN true; END $$", roles[2]
    );
    client.batch_execute(&spy).await.unwrap();
    let query = format!(
        "EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM {name}.messages WHERE pg_temp.spy(content)"
    );
    let plan = client.query(&query, &[]).await.unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
    assert!(plan[0].contains("rows=0"), "{plan:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shown_is_refused_with_a_reason() {
    let world = SqlWorld::start(Vec::new(), None).await;
    for (words, reason) in [
        (
            &["tables"][..],
            "no shape; there are: openai, langchain, blocks, pocketbase, vapi",
        ),
        (
            &["langchain", "--organization", "other"],
            "there is no organization \"other\"",
        ),
        (&["langchain", "--organization", "Ä"], "--organization"),
        (&["langchain", "--key", "tw-none"], "--key"),
        (&["langchain", "--role", "app"], "for PostgreSQL"),
        (&["langchain", "--schema", "app"], "for PostgreSQL"),
    ] {
        let refused = world.sql(words);
        assert!(!refused.status.success(), "{words:?}");
        assert!(stderr(&refused).contains(reason), "{}", stderr(&refused));
        assert_eq!(String::from_utf8_lossy(&refused.stdout), "", "{words:?}");
    }
    let nowhere = sql(&world.data.join("none"), None, &["langchain"]);
    assert!(
        stderr(&nowhere).contains("there is no database"),
        "{}",
        stderr(&nowhere)
    );
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    create_key(&world.data, &["--store", &schema.url]);
    let long = "s".repeat(64);
    for (words, reason) in [
        (&["langchain", "--schema", ""][..], "--schema"),
        (&["langchain", "--schema", &long], "--schema"),
        (
            &[
                "langchain",
                "--schema",
                &schema.views_schema(),
                "--role",
                "turnwright_no_such_role",
            ],
            "does not exist",
        ),
    ] {
        let refused = sql(&world.data, Some(&schema), words);
        assert!(!refused.status.success(), "{words:?}");
        assert!(stderr(&refused).contains(reason), "{}", stderr(&refused));
    }
    // A name is a name, whatever is in it.
    let odd = format!("{}\"'; --", schema.views_schema());
    let printed = sql(
        &world.data,
        Some(&schema),
        &["langchain", "--schema", &odd, "--print"],
    );
    let printed = key_of(&printed);
    let client = schema.client().await;
    client.batch_execute(&printed).await.unwrap();
    let found = client
        .query_one(
            "SELECT count(*) FROM pg_views WHERE schemaname = $1",
            &[&odd],
        )
        .await
        .unwrap();
    assert!(found.get::<_, i64>(0) >= 2);
    let drop = format!("DROP SCHEMA \"{}\" CASCADE", odd.replace('"', "\"\""));
    client.batch_execute(&drop).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_read_by_its_schema_from_any_search_path() {
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let plain = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}"#;
    let world = SqlWorld::start(vec![ListenerReply::json(plain)], Some(schema)).await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    let asked = world
        .client
        .send("POST", "/v1/chat/completions", &[], body.to_string());
    assert_eq!(asked.await.unwrap().status, 200);
    let schema = world.schema.as_ref().unwrap();
    let name = schema.views_schema();
    for (shape, views) in [
        ("openai", &["conversations", "messages"][..]),
        ("langchain", &["conversations", "messages"]),
        ("blocks", &["conversations", "messages"]),
        ("pocketbase", &["conversations", "turns", "tool_calls"]),
        ("vapi", &["tools"]),
    ] {
        let drop = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
        schema.outside().await.batch_execute(&drop).await.unwrap();
        let made = world.sql(&[shape, "--schema", &name]);
        assert!(made.status.success(), "{}", stderr(&made));
        let client = schema.outside().await;
        for view in views {
            let read = client
                .query(&format!("SELECT * FROM {name}.{view}"), &[])
                .await;
            let rows = read.unwrap_or_else(|error| panic!("{shape} {view}: {error:?}"));
            let is_none = ["tool_calls", "tools"].contains(view);
            assert_eq!(rows.is_empty(), is_none, "{shape} {view}");
        }
    }
}
