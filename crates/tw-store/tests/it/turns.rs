use rusqlite::Connection;
use tw_core::change::{EndTurn, NewTurn, TurnChange};
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::apply::StoreApplyError;

use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, hour, message, on_each_store, pending_call,
    usage,
};

#[tokio::test]
async fn an_end_comes_back_with_its_sums() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let end = EndTurn {
            status: TurnStatus::Incomplete,
            reason: Some(TurnReason::Rounds),
            usage: Some(usage()),
            has_tool_calls: true,
            tool_count: 3,
            had_effects: false,
            remembered: None,
            erase_after: Some(at(7)),
            at: at(200),
        };
        let changes = vec![
            TurnChange::AddMessage(message(1, 0)),
            TurnChange::EndTurn(end),
        ];
        world.write_turn(turn, changes).await.unwrap();
        let row = world.recovered(turn).await.turn;
        assert_eq!(
            (row.status, row.reason),
            (TurnStatus::Incomplete, Some(TurnReason::Rounds))
        );
        assert_eq!(
            (row.usage, row.has_tool_calls, row.tool_count),
            (Some(usage()), true, 3)
        );
        // The record of this turn is full, so nothing is erased.
        assert_eq!((row.ended, row.erase_after), (Some(at(200)), None));
    })
    .await;
}

#[tokio::test]
async fn every_end_and_reason_can_be_written_and_none_changes() {
    on_each_store(async |world| {
        let ends = [
            TurnStatus::Completed,
            TurnStatus::Incomplete,
            TurnStatus::Failed,
            TurnStatus::Cancelled,
        ];
        let reasons = [
            TurnReason::Length,
            TurnReason::Rounds,
            TurnReason::Calls,
            TurnReason::Cost,
            TurnReason::Deadline,
            TurnReason::Interrupted,
            TurnReason::Upstream,
            TurnReason::Internal,
            TurnReason::ClientLeft,
            TurnReason::Requested,
        ];
        for (n, reason) in (1..).zip(reasons) {
            let turn = world.accept(n).await;
            let status = ends[usize::try_from(n).unwrap() % ends.len()];
            let end = EndTurn {
                reason: Some(reason),
                ..end_turn(status)
            };
            world
                .write_turn(
                    turn,
                    vec![
                        TurnChange::NoteStop { reason, at: at(1) },
                        TurnChange::EndTurn(end),
                    ],
                )
                .await
                .unwrap();
            for again in ends {
                let refused = world
                    .write_turn(turn, vec![TurnChange::EndTurn(end_turn(again))])
                    .await;
                assert!(
                    matches!(refused, Err(StoreApplyError::Guard { .. })),
                    "{refused:?}"
                );
            }
            let row = world.recovered(turn).await.turn;
            assert_eq!(
                (row.status, row.reason, row.stop),
                (status, Some(reason), Some(reason))
            );
            assert_eq!(
                world
                    .store
                    .turn_status(world.organization, turn)
                    .await
                    .unwrap(),
                Some(status)
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_turn_does_not_end_as_running() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let refused = world
            .write_turn(
                turn,
                vec![TurnChange::EndTurn(end_turn(TurnStatus::Running))],
            )
            .await;
        assert!(
            matches!(refused, Err(StoreApplyError::Guard { .. })),
            "{refused:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn the_first_reason_to_stop_stands_and_a_final_turn_is_not_stopped() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let stop = |reason| vec![TurnChange::NoteStop { reason, at: at(1) }];
        for reason in [TurnReason::ClientLeft, TurnReason::Requested] {
            world.write_turn(turn, stop(reason)).await.unwrap();
        }
        let row = world.recovered(turn).await.turn;
        assert_eq!(
            (row.status, row.stop),
            (TurnStatus::Running, Some(TurnReason::ClientLeft))
        );
        world
            .write_turn(
                turn,
                vec![TurnChange::EndTurn(end_turn(TurnStatus::Cancelled))],
            )
            .await
            .unwrap();
        let late = world.write_turn(turn, stop(TurnReason::Deadline)).await;
        assert!(
            matches!(late, Err(StoreApplyError::Guard { .. })),
            "{late:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn the_head_moves_when_a_turn_gave_an_answer() {
    let world = StoreWorld::on_disk().await;
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    let head = || -> Option<String> {
        let sql = "SELECT t.id FROM conversation c LEFT JOIN turn t ON t.key = c.head_turn WHERE c.id = 'shared'";
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let mut expected = None;
    for (n, status) in [
        (1, TurnStatus::Failed),
        (2, TurnStatus::Completed),
        (3, TurnStatus::Cancelled),
        (4, TurnStatus::Incomplete),
    ] {
        let new = NewTurn {
            conversation: "shared".to_owned(),
            ..world.new_turn(n)
        };
        if matches!(status, TurnStatus::Completed | TurnStatus::Incomplete) {
            expected = Some(new.id.to_string());
        }
        let ended = vec![TurnChange::EndTurn(end_turn(status))];
        world.accept_with(new, ended).await.unwrap();
        assert_eq!(head(), expected, "{status:?}");
    }
}

#[tokio::test]
async fn a_final_state_is_final_for_sql_of_others_too() {
    let world = StoreWorld::on_disk().await;
    let turn = world.accept(1).await;
    let call = call_ref(1, 0);
    let changes = vec![
        TurnChange::AddCall(Box::new(pending_call(turn, call))),
        TurnChange::EndCall {
            call,
            end: completed(),
            at: at(7),
        },
        TurnChange::EndTurn(end_turn(TurnStatus::Completed)),
    ];
    world.write_turn(turn, changes).await.unwrap();
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    for sql in [
        "UPDATE turn_state SET status = 'running', ended_us = NULL",
        "UPDATE turn_state SET status = 'failed'",
        "UPDATE tool_call SET status = 'failed', reason = 'reset'",
        "UPDATE tool_call SET status = 'pending', ended_us = NULL, shown = NULL, is_error = NULL",
    ] {
        let error = conn.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("final"), "{sql}: {error}");
    }
    assert_eq!(
        conn.execute(
            "UPDATE turn_state SET status = 'completed', usage = 'x'",
            []
        )
        .unwrap(),
        1
    );
    for sql in [
        "UPDATE turn_start SET surface = 'other'",
        "UPDATE turn_state SET reason = 'other'",
        "UPDATE tool_call SET runs = 'x'",
    ] {
        assert!(
            conn.execute(sql, [])
                .unwrap_err()
                .to_string()
                .contains("CHECK"),
            "{sql}"
        );
    }
}

#[tokio::test]
async fn an_accept_and_the_whole_turn_may_be_one_group() {
    on_each_store(async |world| {
        let new = world.new_turn(1);
        let turn = new.id;
        let end = EndTurn {
            at: at(0).after(hour()),
            ..end_turn(TurnStatus::Completed)
        };
        let first = vec![
            TurnChange::AddMessage(message(1, 0)),
            TurnChange::EndTurn(end),
        ];
        world.accept_with(new, first).await.unwrap();
        let found = world.recovered(turn).await;
        assert_eq!(
            (found.turn.status, found.messages.len()),
            (TurnStatus::Completed, 2)
        );
    })
    .await;
}
