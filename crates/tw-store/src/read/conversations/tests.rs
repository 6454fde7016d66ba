//! Which way SQLite takes through each statement.

use super::{
    CONTENT_BYTES, CURSOR, FIND, NEWEST_FIRST, NEXT, NEXT_OF_KEY, NEXT_OF_USER, OF_OTHERS,
    OLDEST_FIRST, ROW,
};
use crate::read::plan::assert_each_looks;

#[test]
fn each_statement_looks_and_never_walks() {
    const TURNS: &str = "turn_conversation (organization=? AND conversation=?";
    assert_each_looks(&[
        (FIND, TURNS),
        (OF_OTHERS, TURNS),
        (
            NEXT.sqlite,
            "turn_conversation (organization=? AND conversation<?)",
        ),
        (
            NEXT_OF_KEY.sqlite,
            "turn_conversation_of_key (organization=? AND api_key=? AND conversation<?)",
        ),
        (
            NEXT_OF_USER.sqlite,
            "turn_conversation_of_user (organization=? AND end_user=? AND conversation<?)",
        ),
        (ROW.sqlite, TURNS),
        (CURSOR, "sqlite_autoindex_turn_1 (organization=? AND id=?)"),
        (OLDEST_FIRST, TURNS),
        (NEWEST_FIRST, TURNS),
        (CONTENT_BYTES, "PRIMARY KEY (turn=?)"),
    ]);
}
