use super::schema::{BLOB_KEYS, INTEGER_KEYS, create};
use super::turns::{TurnFactory, TurnShape};

#[test]
fn both_variants_write_the_same_turns() {
    const BATCH: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    for (name, variant) in [("integer.db", &INTEGER_KEYS), ("blob.db", &BLOB_KEYS)] {
        let conn = create(&folder.path().join(name), variant).unwrap();
        let mut turns = TurnFactory::new(variant, TurnShape::OneTool);
        turns.run_batch(&conn, BATCH).unwrap();
        turns.run_batch(&conn, BATCH).unwrap();
        let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(
            count("SELECT count(*) FROM turn WHERE status = 'completed'"),
            6,
            "{name}"
        );
        assert_eq!(count("SELECT count(*) FROM message"), 18, "{name}");
        assert_eq!(
            count("SELECT count(*) FROM tool_call WHERE status = 'completed'"),
            6,
            "{name}"
        );
        assert_eq!(
            count("SELECT count(*) FROM attempt WHERE outcome = 'ok'"),
            12,
            "{name}"
        );
        assert_eq!(
            count("SELECT count(*) FROM conversation WHERE head_turn IS NOT NULL"),
            6,
            "{name}"
        );
    }
}

#[test]
fn a_relayed_turn_is_two_steps_and_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let conn = create(&folder.path().join("relay.db"), &INTEGER_KEYS).unwrap();
    TurnFactory::new(&INTEGER_KEYS, TurnShape::Relay)
        .run_batch(&conn, 4)
        .unwrap();
    for (sql, expected) in [
        (
            "SELECT count(*) FROM turn WHERE status = 'completed' AND tool_count = 0",
            4,
        ),
        ("SELECT count(*) FROM message", 12),
        ("SELECT count(*) FROM tool_call", 0),
        (
            "SELECT count(*) FROM attempt WHERE outcome = 'ok' AND round = 1",
            4,
        ),
        ("SELECT count(*) FROM turn_event", 4),
    ] {
        let count: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(count, expected, "{sql}");
    }
}
