//! Calls that somebody ends who is not their turn's driver.

use tw_core::call::{CallEnd, CallReason, CallRunner, CallStatus};
use tw_core::change::{
    Change, CompleteCall, HandedCall, NewCall, OpenAttempt, Outcome, TurnChange,
};
use tw_core::id::{CallId, CallRef, TurnId};
use tw_store::apply::StoreApplyError;

use crate::world::{
    StoreWorld, at, call_ref, completed, failed, flush, message, model_attempt, on_each_store,
    pending_call,
};

fn complete(world: &StoreWorld, call: CallId, end: CallEnd) -> Change {
    Change::CompleteCall(Box::new(CompleteCall {
        organization: world.organization,
        call,
        end,
        at: at(9),
    }))
}

fn by_another() -> CallEnd {
    CallEnd {
        shown: "by another".to_owned(),
        ..completed()
    }
}

/// A turn with a pending call of ours, one that runs, and a pending one of the client's.
async fn turn_with_calls(world: &StoreWorld, n: u128) -> (TurnId, [NewCall; 3]) {
    let turn = world.accept(n).await;
    let new = |position, runs, status| NewCall {
        runs,
        status,
        ..pending_call(turn, call_ref(1, position))
    };
    let calls = [
        new(0, CallRunner::Server, CallStatus::Pending),
        new(1, CallRunner::Server, CallStatus::Processing),
        new(2, CallRunner::Client, CallStatus::Pending),
    ];
    let add = calls
        .clone()
        .map(|call| TurnChange::AddCall(Box::new(call)));
    world.write_turn(turn, add.to_vec()).await.unwrap();
    (turn, calls)
}

#[tokio::test]
async fn a_call_of_ours_is_completed_once() {
    on_each_store(async |world| {
        let (turn, calls) = turn_with_calls(&world, 1).await;
        for call in &calls[..2] {
            for (end, outcome) in [
                (by_another(), Outcome::Done),
                (failed(CallReason::ToolError), Outcome::Already),
            ] {
                let written = world.write(complete(&world, call.id, end)).await;
                assert_eq!(written.unwrap(), outcome);
            }
        }
        // Neither one of the client's, nor one that is not there, nor another tenant's.
        let own = complete(&world, calls[2].id, by_another());
        let absent = complete(&world, CallId(uuid::Uuid::nil()), by_another());
        for change in [own, absent] {
            assert_eq!(world.write(change).await.unwrap(), Outcome::Already);
        }
        let (other, of_other) = turn_with_calls(&world, 2).await;
        let strange = Change::CompleteCall(Box::new(CompleteCall {
            organization: world.stranger,
            call: of_other[0].id,
            end: by_another(),
            at: at(9),
        }));
        assert_eq!(world.write(strange).await.unwrap(), Outcome::Already);
        let ends = async |turn| {
            let rows = world.recovered(turn).await.calls.into_iter();
            rows.map(|row| (row.call.end, row.ended))
                .collect::<Vec<_>>()
        };
        let ended = (Some(by_another()), Some(at(9)));
        let open = (None, None);
        assert_eq!(ends(turn).await, [ended.clone(), ended, open.clone()]);
        assert_eq!(ends(other).await, [open.clone(), open.clone(), open]);
    })
    .await;
}

/// Each change of a call that a driver may write without knowing that the call has ended.
fn changes_of(call: CallRef) -> [TurnChange; 4] {
    [
        TurnChange::StartCall { call, at: at(20) },
        TurnChange::OpenAttempt(OpenAttempt {
            position: Some(call.position),
            upstream: None,
            ..model_attempt(call.round, 2)
        }),
        TurnChange::EndCall {
            call,
            end: failed(CallReason::OutcomeUnknown),
            at: at(20),
        },
        TurnChange::HandOverCall(Box::new(HandedCall {
            call,
            tool_name: "pick".to_owned(),
            tool_call_id: "up".to_owned(),
            arguments: "{}".to_owned(),
            at: at(20),
        })),
    ]
}

#[tokio::test]
async fn whoever_comes_too_late_is_told_the_end_and_writes_nothing() {
    on_each_store(async |world| {
        let (turn, calls) = turn_with_calls(&world, 1).await;
        for (call, end) in [
            (&calls[0], by_another()),
            (&calls[1], failed(CallReason::ToolError)),
        ] {
            let done = world.write(complete(&world, call.id, end)).await;
            assert_eq!(done.unwrap(), Outcome::Done);
        }
        let before = world.recovered(turn).await;
        let other = world.accept(2).await;
        let mut written = 0;
        for row in &before.calls[..2] {
            let (call, end) = (row.call.call, row.call.end.clone().unwrap());
            for late in changes_of(call) {
                let group = vec![
                    TurnChange::AddMessage(message(1, 0)),
                    late.clone(),
                    TurnChange::AppendEvents(flush(1, 2)),
                ];
                // Another turn's group may be in the same transaction, and is written.
                written += 1;
                let message = vec![TurnChange::AddMessage(message(1, written))];
                let (outcomes, others) = tokio::join!(
                    world.write_turn(turn, group),
                    world.write_turn(other, message)
                );
                let end = end.clone();
                assert_eq!(
                    outcomes.unwrap(),
                    [Outcome::CallEnded { call, end }],
                    "{late:?}"
                );
                assert_eq!(others.unwrap(), [Outcome::Done]);
            }
        }
        let messages = world.recovered(other).await.messages.len();
        assert_eq!(messages, 1 + usize::try_from(written).unwrap());
        assert_eq!(world.recovered(turn).await, before);
        // The call that nobody ended goes on.
        let hand_over = changes_of(calls[2].call)[3].clone();
        let outcomes = world.write_turn(turn, vec![hand_over]).await.unwrap();
        assert_eq!(outcomes, [Outcome::Done]);
    })
    .await;
}

/// That is no lost race, but a fault of the group.
#[tokio::test]
async fn a_group_that_ends_a_call_twice_is_refused() {
    on_each_store(async |world| {
        let (turn, calls) = turn_with_calls(&world, 1).await;
        let end = || changes_of(calls[0].call)[2].clone();
        let refused = world.write_turn(turn, vec![end(), end()]).await;
        assert!(
            matches!(refused, Err(StoreApplyError::Guard { .. })),
            "{refused:?}"
        );
    })
    .await;
}
