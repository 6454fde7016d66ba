//! Which way SQLite takes through each statement.

use super::{
    CONTENT_BYTES, CURSOR, FIND, MADE, NEWEST_FIRST, NEXT, NEXT_MADE, NEXT_MADE_BY_KEY,
    NEXT_MADE_FOR_USER, NEXT_OF_KEY, NEXT_OF_USER, OF_OTHERS, OLDEST_FIRST, ROW,
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
        (
            NEXT_MADE.sqlite,
            "conversation_made_of_all (organization=? AND rowid<?)",
        ),
        (
            NEXT_MADE_BY_KEY.sqlite,
            "conversation_made (organization=? AND api_key=? AND rowid<?)",
        ),
        (
            NEXT_MADE_FOR_USER.sqlite,
            "conversation_made_for_user (organization=? AND end_user=? AND rowid<?)",
        ),
        (MADE, "INTEGER PRIMARY KEY (rowid=?)"),
        (ROW.sqlite, TURNS),
        (
            CURSOR,
            "sqlite_autoindex_turn_start_1 (organization=? AND id=?)",
        ),
        (OLDEST_FIRST, TURNS),
        (NEWEST_FIRST, TURNS),
        (CONTENT_BYTES, "PRIMARY KEY (turn=?)"),
    ]);
}
