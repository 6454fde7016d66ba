//! Which way SQLite takes through each statement.

use super::{REPEAT_OF, REPEATS_OF_NOBODY, REPEATS_OF_SOMEBODY, REQUEST_KEY};
use crate::read::plan::assert_each_looks;

#[test]
fn each_statement_looks_and_never_walks() {
    assert_each_looks(&[
        (
            REQUEST_KEY,
            "PRIMARY KEY (organization=? AND api_key=? AND end_user=? AND route=? AND key=?)",
        ),
        (
            REPEAT_OF,
            "sqlite_autoindex_turn_start_1 (organization=? AND id=?)",
        ),
    ]);
}

#[test]
fn each_repetition_is_looked_for_in_a_small_index() {
    for (looks, all) in [
        (REPEATS_OF_NOBODY, "turn_unanswered"),
        (REPEATS_OF_SOMEBODY, "turn_named"),
    ] {
        let indexes = [all, all, "turn_effects", "turn_effects"];
        for (sql, index) in looks.into_iter().zip(indexes) {
            let by =
                format!("{index} (organization=? AND api_key=? AND body_hash=? AND created_us>?)");
            assert_each_looks(&[(sql, &by)]);
        }
    }
}
