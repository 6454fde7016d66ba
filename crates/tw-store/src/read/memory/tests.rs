//! Which way SQLite takes to what is remembered.

use super::REMEMBERED;
use crate::read::plan::plan;

/// What comes first is read before what comes after it is looked for, and in this order.
#[test]
fn what_there_is_no_room_for_is_not_read() {
    let plan = plan(REMEMBERED);
    assert_eq!(
        plan,
        [
            "CO-ROUTINE before",
            "SETUP",
            "SEARCH turn USING INDEX sqlite_autoindex_turn_1 (organization=? AND id=?)",
            "RECURSIVE STEP",
            "SCAN before",
            "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
            "SCAN b",
            "SEARCH m USING PRIMARY KEY (turn=? AND round>?) LEFT-JOIN",
            "SEARCH c USING PRIMARY KEY (turn=? AND round=?) LEFT-JOIN",
        ]
    );
}
