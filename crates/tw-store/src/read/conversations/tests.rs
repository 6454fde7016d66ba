//! Which way SQLite takes through each statement.

use rusqlite::types::Null;
use rusqlite::{Connection, params_from_iter};
use tw_core::time::Timestamp;

use super::{
    CONTENT_BYTES, CURSOR, FIND, NEWEST_FIRST, NEXT, NEXT_OF_KEY, NEXT_OF_USER, OF_OTHERS,
    OLDEST_FIRST, ROW,
};
use crate::connection;
use crate::migrate::{self, MIGRATIONS};

/// What SQLite says it does, a line for each table.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nulls = std::iter::repeat_n(Null, statement.parameter_count());
    let lines = statement.query_map(params_from_iter(nulls), |row| row.get("detail"));
    let lines = lines.unwrap();
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn each_statement_looks_and_never_walks() {
    const TURNS: &str = "turn_conversation (organization=? AND conversation=?";
    let conn = &mut connection::open_memory().unwrap();
    migrate::run(conn, MIGRATIONS, Timestamp(0)).unwrap();
    for (sql, by) in [
        (FIND, TURNS),
        (OF_OTHERS, TURNS),
        (
            NEXT,
            "turn_conversation (organization=? AND conversation<?)",
        ),
        (
            NEXT_OF_KEY,
            "turn_conversation_of_key (organization=? AND api_key=? AND conversation<?)",
        ),
        (
            NEXT_OF_USER,
            "turn_conversation_of_user (organization=? AND end_user=? AND conversation<?)",
        ),
        (ROW, TURNS),
        (CURSOR, "sqlite_autoindex_turn_1 (organization=? AND id=?)"),
        (OLDEST_FIRST, TURNS),
        (NEWEST_FIRST, TURNS),
        (CONTENT_BYTES, "PRIMARY KEY (turn=?)"),
    ] {
        let plan = plan(conn, sql);
        assert!(
            plan.iter().any(|line| line.contains(by)),
            "{sql}\n{plan:#?}"
        );
        for line in &plan {
            // One row, or what another line finds.
            let is_constant = ["CONSTANT ROW", "subquery", "(subquery"].iter();
            let walks =
                line.starts_with("SCAN") && !is_constant.clone().any(|of| line.contains(of));
            assert!(!walks && !line.contains("TEMP B-TREE"), "{sql}\n{plan:#?}");
        }
    }
}
