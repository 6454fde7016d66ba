//! What the schema says about words, and what saying it costs.

use rusqlite::Connection;

use super::{AT, MIGRATIONS, memory, run};

const START: &str = "INSERT INTO turn_start
    (key, organization, id, api_key, conversation, conversation_named, surface, streamed, on_leave, record, model,
     request_id, projector_version, deadline_us, created_us, updated_us)
    VALUES (1, 1, 't', 1, 1, 0, 'chat_completions', 0, 'stop', 'full', 'm', 'r', 1, 1, 1, 1)";
const STATE: &str = "INSERT INTO turn_state
    (turn, organization, api_key, names_somebody, body_hash, owner, fence, status, created_us, updated_us)
    VALUES (1, 1, 1, 0, zeroblob(32), 'o', 1, 'running', 1, 1)";
const MESSAGE: &str = "INSERT INTO message (turn, round, seq, role, blocks, created_us, updated_us)
    VALUES (1, 0, 0, 'user', '[]', 1, 1)";
const CALL: &str = "INSERT INTO tool_call
    (turn, round, position, organization, id, runs, tool_name, tool_call_id, callback_token, idempotency_key,
     arguments, status, created_us, updated_us)
    VALUES (1, 1, 0, 1, 'c', 'server', 'n', 'u', 't', 'k', '{}', 'pending', 1, 1)";
const END_TURN: &str = "UPDATE turn_state
    SET status = 'failed', reason = 'upstream', stop_reason = 'requested', ended_us = 2 WHERE turn = 1";
const END_CALL: &str = "UPDATE tool_call
    SET status = 'failed', reason = 'timeout', effect = 'once', shown = '', is_error = 1, ended_us = 2
    WHERE turn = 1 AND round = 1 AND position = 0";

fn with_rows() -> Connection {
    let mut conn = memory();
    run(&mut conn, MIGRATIONS, AT).unwrap();
    conn.pragma_update(None, "foreign_keys", false).unwrap();
    for insert in [START, STATE, MESSAGE, CALL] {
        conn.execute(insert, []).unwrap();
    }
    conn
}

#[test]
fn a_word_that_nobody_knows_is_refused() {
    let conn = with_rows();
    let columns = [
        "UPDATE turn_state SET status = 'x'",
        "UPDATE turn_state SET reason = 'x'",
        "UPDATE turn_state SET stop_reason = 'x'",
        "UPDATE message SET role = 'x'",
        "UPDATE tool_call SET runs = 'x'",
        "UPDATE tool_call SET effect = 'x'",
        "UPDATE tool_call SET status = 'x'",
        "UPDATE tool_call SET status = 'failed', reason = 'x', shown = '', is_error = 1, ended_us = 2",
    ];
    for sql in columns {
        let error = conn.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("CHECK constraint failed"), "{sql}: {error}");
    }
    // The words that are known are taken.
    assert_eq!(conn.execute(END_TURN, []).unwrap(), 1);
    assert_eq!(conn.execute(END_CALL, []).unwrap(), 1);
}

/// A table for each run of a statement costs more than the statement.
#[test]
fn no_write_of_a_turn_builds_a_table_for_a_check() {
    let conn = with_rows();
    for sql in [START, STATE, MESSAGE, CALL, END_TURN, END_CALL] {
        let mut explained = conn.prepare(&format!("EXPLAIN {sql}")).unwrap();
        let steps = explained.query_map([], |row| row.get::<_, String>("opcode"));
        let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
        assert!(!steps.is_empty());
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{sql}");
    }
}
