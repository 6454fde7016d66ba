//! The plan by which SQLite runs a statement, for tests.

use rusqlite::params_from_iter;
use rusqlite::types::Null;
use tw_core::time::Timestamp;

use crate::connection;
use crate::migrate::{self, MIGRATIONS};

/// Panics unless each statement finds its rows `by` what stands beside it, and walks through nothing.
pub fn assert_each_looks(statements: &[(&str, &str)]) {
    for (sql, by) in statements {
        let plan = plan(sql);
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

/// The query plan of a statement, a line for each table.
pub fn plan(sql: &str) -> Vec<String> {
    let conn = &mut connection::open_memory().unwrap();
    migrate::run(conn, MIGRATIONS, Timestamp(0)).unwrap();
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nulls = std::iter::repeat_n(Null, statement.parameter_count());
    let lines = statement.query_map(params_from_iter(nulls), |row| row.get("detail"));
    let lines = lines.unwrap();
    lines.collect::<Result<_, _>>().unwrap()
}
