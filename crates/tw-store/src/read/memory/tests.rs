//! Which way SQLite takes to what is remembered.

use super::{NAMED, REMEMBERED};
use crate::read::plan::plan;

/// What comes first is read before what comes after it is looked for, and in this order.
#[test]
fn what_there_is_no_room_for_is_not_read() {
    let plan = plan(REMEMBERED.sqlite);
    assert_eq!(
        plan,
        [
            "CO-ROUTINE before",
            "SETUP",
            "SEARCH t USING INDEX sqlite_autoindex_turn_start_1 (organization=? AND id=?)",
            "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)",
            "RECURSIVE STEP",
            "SCAN before",
            "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)",
            "SCAN b",
            "SEARCH m USING PRIMARY KEY (turn=? AND round>?) LEFT-JOIN",
            "SEARCH c USING PRIMARY KEY (turn=? AND round=?) LEFT-JOIN",
        ]
    );
}

/// Of a conversation the newest turns are read and no others, however many have the history.
#[test]
fn the_turns_of_a_conversation_are_read_from_their_end() {
    let plan = plan(NAMED.sqlite);
    assert_eq!(
        plan,
        [
            "CO-ROUTINE newest",
            "SEARCH turn_start USING INDEX turn_conversation_of_key (organization=? AND api_key=? AND conversation=?)",
            "SCALAR SUBQUERY 1",
            "SEARCH conversation USING COVERING INDEX sqlite_autoindex_conversation_1 (organization=? AND id=?)",
            "SCAN newest",
            "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH m USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
            "SEARCH ms USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
        ]
    );
}
