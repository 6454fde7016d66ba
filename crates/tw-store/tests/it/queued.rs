//! Rows that applications insert by SQL: each is taken once, and goes with whom it is of.

use tw_core::change::{Change, EraseEndUser, NewTurn, Outcome, TurnChange};
use tw_core::id::QueuedRowId;
use tw_store::apply::StoreApplyError;
use tw_store::system::queued::{QueuedRow, queued_rows};

use crate::world::{StoreWorld, at, on_each_database};

/// Runs a statement as an application does, beside the store.
async fn run(world: &StoreWorld, sql: &str) {
    match (&world.path, &world.schema) {
        (Some(path), _) => {
            let conn = rusqlite::Connection::open(path).unwrap();
            conn.execute_batch(sql).unwrap();
        }
        (None, Some(schema)) => schema.client().await.batch_execute(sql).await.unwrap(),
        (None, None) => panic!("nobody else sees this store"),
    }
}

async fn insert(world: &StoreWorld, conversation: &str) {
    let sql = format!(
        "INSERT INTO queued_row (organization, api_key, shape, conversation, body, created_us, updated_us)
        SELECT organization, key, 'langchain', '{conversation}', '{{}}', 0, 0 FROM api_key"
    );
    run(world, &sql).await;
}

async fn waiting(world: &StoreWorld) -> Vec<QueuedRow> {
    let rows = queued_rows(&world.store, QueuedRowId(0), 100).await;
    rows.unwrap()
}

#[tokio::test]
async fn whoever_comes_late_takes_and_refuses_no_other_row() {
    on_each_database(async |world| {
        insert(&world, "first").await;
        let first = waiting(&world).await.remove(0).id;
        let take = |n| world.accept_with(world.new_turn(n), vec![TurnChange::TakeQueuedRow(first)]);
        take(1).await.unwrap();
        insert(&world, "second").await;
        let again = take(2).await;
        assert!(
            matches!(again, Err(StoreApplyError::Guard { .. })),
            "{again:?}"
        );
        let refuse = Change::RefuseQueuedRow {
            row: first,
            fault: "late".to_owned(),
            at: at(3),
        };
        assert_eq!(world.write(refuse).await.unwrap(), Outcome::Already);
        let left = waiting(&world).await;
        let left: Vec<&str> = left.iter().map(|row| &*row.conversation).collect();
        assert_eq!(left, ["second"]);
    })
    .await;
}

#[tokio::test]
async fn rows_that_wait_go_with_the_end_user_of_their_conversation() {
    on_each_database(async |world| {
        let said = async |n, conversation: &str, name: &str| {
            let new = NewTurn {
                end_user: Some(name.to_owned()),
                conversation: conversation.to_owned(),
                conversation_named: true,
                ..world.new_turn(n)
            };
            world.accept_new(new).await.unwrap();
        };
        said(1, "hers", "ann").await;
        said(2, "joined", "bob").await;
        said(3, "joined", "ann").await;
        said(4, "his", "bob").await;
        for conversation in ["hers", "joined", "his", "nobody's"] {
            insert(&world, &conversation.replace('\'', "''")).await;
        }
        insert(&world, "hers").await;
        run(&world, "UPDATE queued_row SET fault = 'no' WHERE key = 1").await;
        let erase = Change::EraseEndUser(EraseEndUser {
            organization: world.organization,
            name: "ann".to_owned(),
            pseudonym: "erased 1".to_owned(),
            at: at(5),
        });
        world.write(erase).await.unwrap();
        let delete = Change::DeleteErased {
            at: at(6),
            turns_max: 10,
        };
        world.write(delete).await.unwrap();
        // What was refused is to be seen, too.
        run(&world, "UPDATE queued_row SET fault = NULL").await;
        let left = waiting(&world).await;
        let left: Vec<&str> = left.iter().map(|row| &*row.conversation).collect();
        assert_eq!(left, ["his", "nobody's"]);
    })
    .await;
}
