//! What looks cost: no more with ten times as many rows.

use std::collections::BTreeMap;

use rusqlite::StatementStatus;
use tw_testkit::postgres::PostgresSchema;

use super::{SqlWorld, Views};

/// Turns with a call each, of which one in a thousand failed. `ZERO_HASH` is a hash in each engine's words.
const FILL: &str = "
    WITH RECURSIVE n (n) AS (SELECT FIRST UNION ALL SELECT n + 1 FROM n WHERE n < LAST)
    INSERT INTO conversation (key, organization, id, created_us, updated_us) SELECT n, 1, 'conv-' || n, n, n FROM n;
    WITH RECURSIVE n (n) AS (SELECT FIRST UNION ALL SELECT n + 1 FROM n WHERE n < LAST)
    INSERT INTO turn_start
        (key, organization, id, api_key, conversation, conversation_named, surface, streamed, on_leave, record, model,
         request_id, projector_version, deadline_us, created_us, updated_us)
        SELECT n, 1, 'turn-' || n, 1, n, 1, 'chat_completions', 1, 'stop', 'full', 'm', 'r', 1, 9, n, n
        FROM n;
    WITH RECURSIVE n (n) AS (SELECT FIRST UNION ALL SELECT n + 1 FROM n WHERE n < LAST)
    INSERT INTO turn_state
        (turn, organization, api_key, names_somebody, body_hash, owner, fence, status, ended_us, on_head_path, created_us,
         updated_us)
        SELECT n, 1, 1, 1, ZERO_HASH, 'b', 1, 'completed', n, 1, n, n
        FROM n;
    WITH RECURSIVE n (n) AS (SELECT FIRST UNION ALL SELECT n + 1 FROM n WHERE n < LAST)
    INSERT INTO message (turn, round, seq, role, blocks, created_us, updated_us)
        SELECT n, 0, 0, 'user', '[{\"text\":\"Hello\"}]', n, n FROM n;
    WITH RECURSIVE n (n) AS (SELECT FIRST UNION ALL SELECT n + 1 FROM n WHERE n < LAST)
    INSERT INTO message (turn, round, seq, role, blocks, created_us, updated_us)
        SELECT n, 1, 0, 'assistant', '[{\"call\":{\"id\":\"call_' || n || '\",\"n\":\"t\",\"m\":\"tool\",\"a\":\"{}\"}}]',
               n, n
        FROM n;
    WITH RECURSIVE n (n) AS (SELECT FIRST UNION ALL SELECT n + 1 FROM n WHERE n < LAST)
    INSERT INTO tool_call
        (turn, round, position, organization, id, runs, tool_name, tool_call_id, callback_token, idempotency_key,
         arguments, status, reason, shown, is_error, ended_us, created_us, updated_us)
        SELECT n, 1, 0, 1, 'call-' || n, 'server', 't', 'call_' || n, 'token ' || n, '', '{}',
               CASE n % 1000 WHEN 7 THEN 'failed' ELSE 'completed' END,
               CASE n % 1000 WHEN 7 THEN 'timeout' END, 'r', CASE n % 1000 WHEN 7 THEN 1 ELSE 0 END, n, n, n
        FROM n;
    WITH RECURSIVE n (n) AS (SELECT FIRST UNION ALL SELECT n + 1 FROM n WHERE n < LAST)
    INSERT INTO brought_result
        (turn, round, seq, block, organization, tool_call_id, is_error, created_us, updated_us)
        SELECT n, 0, 0, 0, 1, 'brought_' || n, 0, n, n FROM n;";

fn fill(zero_hash: &str, first: u64, last: u64) -> String {
    FILL.replace("ZERO_HASH", zero_hash)
        .replace("FIRST", &first.to_string())
        .replace("LAST", &last.to_string())
}

/// Looks, with how many rows they find.
const LOOKS: [(&str, &[(&str, usize)]); 4] = [
    (
        "langchain",
        &[
            ("SELECT * FROM messages WHERE tool_call_id = 'call_123'", 1),
            (
                "SELECT * FROM messages WHERE conversation_id = 'conv-123' AND tool_calls IS NOT NULL",
                1,
            ),
            (
                "SELECT * FROM messages WHERE conversation_id = 'conv-123' ORDER BY created_at",
                4,
            ),
            (
                "SELECT * FROM messages WHERE status = 'error' AND conversation_id = 'conv-7'",
                1,
            ),
            ("SELECT * FROM conversations WHERE id = 'conv-7'", 1),
        ],
    ),
    (
        "openai",
        &[
            ("SELECT * FROM messages WHERE tool_call_id = 'call_123'", 1),
            (
                "SELECT * FROM messages WHERE conversation_id = 'conv-123' ORDER BY created_at",
                4,
            ),
        ],
    ),
    (
        "blocks",
        &[(
            "SELECT * FROM messages WHERE conversation_id = 'conv-123' ORDER BY created_at",
            2,
        )],
    ),
    (
        "pocketbase",
        &[
            ("SELECT * FROM turns WHERE id = 'turn-123'", 1),
            ("SELECT * FROM tool_calls WHERE turn = 'turn-123'", 1),
            (
                "SELECT * FROM tool_calls WHERE tool_call_id = 'call_123'",
                1,
            ),
            (
                "SELECT * FROM tool_calls WHERE status = 'processing' OR status = 'pending'",
                0,
            ),
            ("SELECT * FROM tool_calls WHERE status = 'processing'", 0),
        ],
    ),
];
/// Their rows are as many as calls failed.
const FAILED: [(&str, &str); 3] = [
    (
        "langchain",
        "SELECT * FROM messages WHERE role = 'tool' AND status = 'error'",
    ),
    (
        "openai",
        "SELECT * FROM messages WHERE role = 'tool' AND status = 'error'",
    ),
    (
        "pocketbase",
        "SELECT * FROM tool_calls WHERE status = 'failed'",
    ),
];

const FEW: u64 = 2_000;
const MANY: u64 = 20_000;

/// The rows that a query finds, and the steps that it takes.
fn steps(views: &Views, sql: &str) -> (usize, i32) {
    let Views::File(conn) = views else { panic!() };
    let mut statement = conn.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut count = 0;
    while rows.next().unwrap().is_some() {
        count += 1;
    }
    drop(rows);
    (count, statement.get_status(StatementStatus::VmStep))
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_file_looks_cost_what_they_find() {
    let world = SqlWorld::start(Vec::new(), None).await;
    let mut views = BTreeMap::new();
    for (shape, _) in LOOKS {
        views.insert(shape, world.views(shape, &[]).await);
    }
    let each = || {
        let looks = LOOKS
            .iter()
            .flat_map(|(shape, looks)| looks.iter().map(move |look| (*shape, *look)));
        looks.collect::<Vec<_>>()
    };
    let conn = rusqlite::Connection::open(world.data.join("turnwright.db")).unwrap();
    conn.execute_batch(&fill("zeroblob(32)", 1, FEW)).unwrap();
    let few: Vec<_> = each()
        .iter()
        .map(|(shape, (sql, _))| steps(&views[shape], sql))
        .collect();
    let failed: Vec<_> = FAILED
        .iter()
        .map(|(shape, sql)| steps(&views[shape], sql))
        .collect();
    conn.execute_batch(&fill("zeroblob(32)", FEW + 1, MANY))
        .unwrap();
    for ((shape, (sql, expected)), few) in each().into_iter().zip(few) {
        let many = steps(&views[shape], sql);
        assert_eq!((few.0, many.0), (expected, expected), "{shape}: {sql}");
        assert!(
            many.1 <= few.1 * 11 / 10,
            "{shape}: {sql}: {few:?} {many:?}"
        );
    }
    for ((shape, sql), few) in FAILED.iter().zip(failed) {
        // Ten times as many calls failed.
        let many = steps(&views[shape], sql);
        assert_eq!((few.0, many.0), (2, 20), "{shape}");
        assert!(many.1 <= few.1 * 12, "{shape}: {few:?} {many:?}");
        assert!(many.1 < i32::try_from(MANY).unwrap(), "{shape}: {many:?}");
    }
    for (shape, sql, by) in [
        (
            "langchain",
            LOOKS[0].1[0].0,
            &[
                "tool_call_upstream (tool_call_id=?",
                "brought_result_call (tool_call_id=?",
            ][..],
        ),
        (
            "langchain",
            LOOKS[0].1[1].0,
            &[
                "(organization=? AND id=?)",
                "turn_conversation (organization=? AND conversation=?)",
            ],
        ),
        (
            "langchain",
            FAILED[0].1,
            &[
                "tool_call_failed (organization=?)",
                "brought_result_failed (organization=?)",
            ],
        ),
        (
            "pocketbase",
            FAILED[2].1,
            &["tool_call_failed (organization=?)"],
        ),
        (
            "pocketbase",
            LOOKS[3].1[4].0,
            &["tool_call_open (organization=? AND created_us>?)"],
        ),
    ] {
        let Views::File(conn) = &views[shape] else {
            panic!()
        };
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines = statement.query_map([], |row| row.get("detail")).unwrap();
        let plan: Vec<String> = lines.collect::<Result<_, _>>().unwrap();
        for by in by {
            assert!(
                plan.iter().any(|line| line.contains(by)),
                "{sql}\n{by}\n{plan:#?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_server_looks_scan_no_table() {
    let Some(schema) = PostgresSchema::create().await else {
        return;
    };
    let world = SqlWorld::start(Vec::new(), Some(schema)).await;
    let schema = world.schema.as_ref().unwrap();
    let client = schema.client().await;
    let zero_hash = "decode(repeat('00', 32), 'hex')";
    client
        .batch_execute(&fill(zero_hash, 1, MANY))
        .await
        .unwrap();
    let analyze = "ANALYZE conversation, turn, message, tool_call, brought_result";
    client.batch_execute(analyze).await.unwrap();
    for (shape, looks) in LOOKS {
        let views = world.views(shape, &[]).await;
        let failed = FAILED.iter().filter(|(of, _)| *of == shape);
        for (sql, expected) in looks
            .iter()
            .copied()
            .chain(failed.map(|(_, sql)| (*sql, 20)))
        {
            assert_eq!(views.rows(sql).await.len(), expected, "{shape}: {sql}");
            let Views::Server(client) = &views else {
                panic!()
            };
            let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, SUMMARY OFF) {sql}");
            let rows = client.query(&explain, &[]).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            for table in [
                "turn",
                "message",
                "tool_call",
                "brought_result",
                "conversation",
            ] {
                let scans = |line: &&String| {
                    line.contains(&format!("Seq Scan on {table} "))
                        && !line.contains("never executed")
                };
                assert_eq!(plan.iter().find(scans), None, "{shape}: {sql}\n{plan:#?}");
            }
        }
        let drop = format!("DROP SCHEMA {} CASCADE", schema.views_schema());
        client.batch_execute(&drop).await.unwrap();
    }
}
