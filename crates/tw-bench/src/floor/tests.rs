use super::schema::create;
use super::turns::{TurnFactory, TurnShape};

#[test]
fn batches_of_turns_end_with_all_their_rows() {
    const BATCH: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let conn = create(&folder.path().join("floor.db")).unwrap();
    let mut turns = TurnFactory::new(TurnShape::OneTool);
    turns.run_batch(&conn, BATCH).unwrap();
    turns.run_batch(&conn, BATCH).unwrap();
    for (sql, expected) in [
        ("SELECT count(*) FROM turn WHERE status = 'completed'", 6),
        ("SELECT count(*) FROM message", 18),
        (
            "SELECT count(*) FROM tool_call WHERE status = 'completed'",
            6,
        ),
        ("SELECT count(*) FROM attempt WHERE outcome = 'ok'", 12),
        (
            "SELECT count(*) FROM conversation WHERE head_turn IS NOT NULL",
            6,
        ),
    ] {
        let count: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(count, expected, "{sql}");
    }
}

#[test]
fn a_relayed_turn_is_two_steps_and_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let conn = create(&folder.path().join("relay.db")).unwrap();
    TurnFactory::new(TurnShape::Relay)
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
