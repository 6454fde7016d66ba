//! Which way SQLite takes through each statement.

use super::{REPEAT_OF, REPEAT_OF_NOBODY, REPEAT_OF_SOMEBODY, REQUEST_KEY};
use crate::read::plan::assert_each_looks;

#[test]
fn each_statement_looks_and_never_walks() {
    const BY_BODY: &str = "(organization=? AND api_key=? AND body_hash=? AND created_us>?)";
    assert_each_looks(&[
        (
            REQUEST_KEY,
            "PRIMARY KEY (organization=? AND api_key=? AND end_user=? AND route=? AND key=?)",
        ),
        (
            REPEAT_OF,
            "sqlite_autoindex_turn_1 (organization=? AND id=?)",
        ),
        (REPEAT_OF_NOBODY, &format!("turn_unanswered {BY_BODY}")),
        (REPEAT_OF_SOMEBODY, &format!("turn_named {BY_BODY}")),
    ]);
}
