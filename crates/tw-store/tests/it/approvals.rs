//! Calls whose approval is asked for: asked once, answered once by another turn, or ended when their time is up.

use tw_core::approval::{ApprovalGiven, ApprovalState, ApprovalVerdict};
use tw_core::call::{CallReason, CallStatus};
use tw_core::change::{Change, CompleteCall, NewCall, NewTurn, Outcome, TurnChange};
use tw_core::id::{CallId, TurnId};
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::read::view::ResultDetail;
use uuid::Uuid;

use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, failed, on_each_store, pending_call, turn_id,
};

/// The time until which the questions here are open.
pub const UNTIL: i64 = 500;

fn needing(turn: TurnId) -> NewCall {
    NewCall {
        approval: Some(ApprovalState::Needed),
        ..pending_call(turn, call_ref(1, 0))
    }
}

fn ask() -> TurnChange {
    TurnChange::AskApproval {
        call: call_ref(1, 0),
        until: at(UNTIL),
        at: at(9),
    }
}

/// A turn that ended by asking about its call.
pub async fn asking(world: &StoreWorld, n: u128) -> NewCall {
    let turn = world.accept(n).await;
    let call = needing(turn);
    let changes = vec![
        TurnChange::AddCall(Box::new(call.clone())),
        ask(),
        TurnChange::EndTurn(end_turn(TurnStatus::Completed)),
    ];
    world.write_turn(turn, changes).await.unwrap();
    call
}

/// A turn that answers, and its call that acts on the answer.
pub fn answering(
    world: &StoreWorld,
    n: u128,
    asked: CallId,
    verdict: ApprovalVerdict,
) -> (NewTurn, TurnChange) {
    let new = NewTurn {
        answers: vec![ApprovalGiven { asked, verdict }],
        ..world.new_turn(n)
    };
    let acts = NewCall {
        approves: Some(asked),
        ..pending_call(new.id, call_ref(0, 0))
    };
    (new, TurnChange::AddCall(Box::new(acts)))
}

async fn answer(world: &StoreWorld, n: u128, asked: CallId, verdict: ApprovalVerdict) -> Outcome {
    let (new, acts) = answering(world, n, asked, verdict);
    world.accept_with(new, vec![acts]).await.unwrap()[0].clone()
}

async fn state(
    world: &StoreWorld,
    turn: u128,
) -> (Option<ApprovalState>, CallStatus, Option<CallReason>) {
    let call = world.recovered(turn_id(turn)).await.calls.remove(0).call;
    let reason = call.end.as_ref().and_then(|end| end.reason);
    (call.approval, call.status, reason)
}

#[tokio::test]
async fn a_question_is_answered_by_one_turn() {
    let denied = || ApprovalVerdict::Denied { reason: None };
    for (verdict, after) in [
        (
            ApprovalVerdict::Approved,
            (ApprovalState::Approved, CallStatus::Completed, None),
        ),
        (
            denied(),
            (
                ApprovalState::Denied,
                CallStatus::Failed,
                Some(CallReason::Denied),
            ),
        ),
        (
            ApprovalVerdict::Expired,
            (
                ApprovalState::Expired,
                CallStatus::Failed,
                Some(CallReason::ApprovalExpired),
            ),
        ),
    ] {
        on_each_store(async |world| {
            let call = asking(&world, 1).await;
            assert_eq!(
                state(&world, 1).await,
                (Some(ApprovalState::Asked), CallStatus::Pending, None)
            );
            assert_eq!(
                answer(&world, 2, call.id, verdict.clone()).await,
                Outcome::Done
            );
            let (approval, status, reason) = after;
            assert_eq!(state(&world, 1).await, (Some(approval), status, reason));
            for again in [
                ApprovalVerdict::Approved,
                denied(),
                ApprovalVerdict::Expired,
            ] {
                let closed = Outcome::ApprovalClosed { asked: call.id };
                assert_eq!(answer(&world, 3, call.id, again).await, closed);
                let third = world
                    .store
                    .turn_for_recovery(world.organization, turn_id(3))
                    .await;
                assert_eq!(third.unwrap(), None, "nothing of it is written");
            }
            let rows = world
                .store
                .approvals(world.organization, vec![call.id])
                .await
                .unwrap();
            assert_eq!(
                rows[0].acted.as_ref().map(|acted| acted.turn),
                Some(turn_id(2))
            );
            let view = world
                .store
                .turn_view(world.organization, turn_id(1), ResultDetail::Shown);
            let view = view.await.unwrap().unwrap();
            let told = view.rounds[0].calls[0].approval.clone().unwrap();
            assert_eq!(
                told.answered.map(|answered| answered.turn),
                Some(turn_id(2))
            );
            assert_eq!(told.until, Some(at(UNTIL)));
        })
        .await;
    }
}

#[tokio::test]
async fn what_was_not_asked_is_not_answered() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let call = needing(turn);
        let add = TurnChange::AddCall(Box::new(call.clone()));
        world.write_turn(turn, vec![add]).await.unwrap();
        let plain = pending_call(turn, call_ref(1, 1));
        let add = TurnChange::AddCall(Box::new(plain.clone()));
        world.write_turn(turn, vec![add]).await.unwrap();
        for asked in [call.id, plain.id, CallId(Uuid::from_u128(77))] {
            let closed = Outcome::ApprovalClosed { asked };
            assert_eq!(
                answer(&world, 2, asked, ApprovalVerdict::Approved).await,
                closed
            );
        }
        // Nor is it asked twice, or of a call that needs no approval.
        world.write_turn(turn, vec![ask()]).await.unwrap();
        let of_plain = TurnChange::AskApproval {
            call: plain.call,
            until: at(UNTIL),
            at: at(9),
        };
        for change in [ask(), of_plain] {
            let refused = world.write_turn(turn, vec![change]).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Guard { .. })),
                "{refused:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_deleted_turn_asks_nothing() {
    on_each_store(async |world| {
        let call = asking(&world, 1).await;
        let delete = Change::DeleteTurn {
            organization: world.organization,
            turn: turn_id(1),
            at: at(20),
        };
        world.write(delete).await.unwrap();
        let closed = Outcome::ApprovalClosed { asked: call.id };
        assert_eq!(
            answer(&world, 2, call.id, ApprovalVerdict::Approved).await,
            closed
        );
        let rows = world
            .store
            .approvals(world.organization, vec![call.id])
            .await;
        assert_eq!(rows.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn what_nobody_answers_ends_after_its_time() {
    on_each_store(async |world| {
        let call = asking(&world, 1).await;
        let expire = |now| Change::ExpireApprovals {
            now: at(now),
            calls_max: 10,
        };
        assert_eq!(world.write(expire(UNTIL)).await.unwrap(), Outcome::Count(0));
        assert_eq!(
            world.write(expire(UNTIL + 1)).await.unwrap(),
            Outcome::Count(1)
        );
        assert_eq!(
            world.write(expire(UNTIL + 1)).await.unwrap(),
            Outcome::Count(0)
        );
        let expired = (
            Some(ApprovalState::Expired),
            CallStatus::Failed,
            Some(CallReason::ApprovalExpired),
        );
        assert_eq!(state(&world, 1).await, expired);
        // Whoever approves it then is told so, once.
        let closed = Outcome::ApprovalClosed { asked: call.id };
        assert_eq!(
            answer(&world, 2, call.id, ApprovalVerdict::Approved).await,
            closed
        );
        assert_eq!(
            answer(&world, 2, call.id, ApprovalVerdict::Expired).await,
            Outcome::Done
        );
        assert_eq!(
            answer(&world, 3, call.id, ApprovalVerdict::Expired).await,
            closed
        );
        assert_eq!(state(&world, 1).await, expired);
    })
    .await;
}

#[tokio::test]
async fn nobody_else_ends_a_call_that_is_asked_about() {
    on_each_store(async |world| {
        let call = asking(&world, 1).await;
        let complete = Change::CompleteCall(Box::new(CompleteCall {
            organization: world.organization,
            call: call.id,
            end: completed(),
            at: at(20),
        }));
        assert_eq!(world.write(complete).await.unwrap(), Outcome::Already);
        // The turn's own end of one that was not asked about counts.
        let turn = world.accept(5).await;
        let other = needing(turn);
        let end = TurnChange::EndCall {
            call: other.call,
            end: failed(CallReason::Cancelled),
            at: at(21),
        };
        let changes = vec![TurnChange::AddCall(Box::new(other)), end];
        world.write_turn(turn, changes).await.unwrap();
        assert_eq!(state(&world, 5).await.1, CallStatus::Failed);
    })
    .await;
}
