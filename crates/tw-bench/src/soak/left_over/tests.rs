use std::time::Duration;

use rusqlite::Connection;

use super::{check, wait_until_none_runs};
use crate::floor::schema::create;
use crate::floor::turns::{TurnFactory, TurnShape};

fn ids(conn: &Connection) -> Vec<String> {
    let mut statement = conn.prepare("SELECT id FROM turn ORDER BY key").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[tokio::test]
async fn what_runs_is_lost_or_was_tried_twice_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.db");
    let conn = create(&file).unwrap();
    TurnFactory::new(TurnShape::OneTool)
        .run_batch(&conn, 2)
        .unwrap();
    let answered = ids(&conn);
    assert_eq!(answered.len(), 2);
    assert_eq!(check(&file, &answered).unwrap(), [""; 0]);
    let none = wait_until_none_runs(&file, Duration::ZERO).await.unwrap();
    assert_eq!(none, 0);

    let mut more = answered.clone();
    more.push("another".to_owned());
    let wrong = check(&file, &more).unwrap();
    assert!(wrong[0].starts_with("1 turns"), "{wrong:?}");

    let attempt =
        "INSERT INTO attempt (turn, round, position, n, outcome, ended_us, created_us, updated_us)
        SELECT turn, round, position, ?1, 'ok', 1, 1, 1 FROM tool_call LIMIT 1";
    assert_eq!(conn.execute(attempt, [1]).unwrap(), 1);
    assert_eq!(check(&file, &answered).unwrap(), [""; 0]);
    assert_eq!(conn.execute(attempt, [2]).unwrap(), 1);
    let wrong = check(&file, &answered).unwrap();
    assert_eq!(wrong, ["1 calls of effect once were tried twice"]);

    let open = "INSERT INTO tool_call (turn, round, position, organization, id, runs, effect, tool_name, tool_call_id,
            callback_token, idempotency_key, arguments, status, created_us, updated_us)
        SELECT turn, round, 9, organization, 'x', runs, effect, tool_name, tool_call_id, 'x', '', '', 'pending', 1, 1
        FROM tool_call LIMIT 1";
    assert_eq!(conn.execute(open, []).unwrap(), 1);
    let left = wait_until_none_runs(&file, Duration::ZERO).await.unwrap();
    assert_eq!(left, 1);
}
