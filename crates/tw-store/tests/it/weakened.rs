use tw_core::call::CallReason;
use tw_core::change::{Change, ClaimTurn, TurnChange};
use tw_core::turn_status::TurnStatus;
use tw_store::faults::{Weakness, in_memory_inline};

use crate::world::{StoreWorld, at, call_ref, completed, end_turn, failed, flush, pending_call};

#[tokio::test]
async fn without_its_guards_a_final_state_changes() {
    let world = StoreWorld::fill(
        in_memory_inline(Weakness::NoStatusGuard).unwrap(),
        None,
        None,
    )
    .await;
    let turn = world.accept(1).await;
    let call = call_ref(1, 0);
    let end = |end| TurnChange::EndCall {
        call,
        end,
        at: at(7),
    };
    world
        .write_turn(
            turn,
            vec![
                TurnChange::AddCall(Box::new(pending_call(turn, call))),
                end(completed()),
            ],
        )
        .await
        .unwrap();
    world
        .write_turn(turn, vec![end(failed(CallReason::Timeout))])
        .await
        .unwrap();
    for status in [TurnStatus::Completed, TurnStatus::Failed] {
        world
            .write_turn(turn, vec![TurnChange::EndTurn(end_turn(status))])
            .await
            .unwrap();
    }
    let found = world.recovered(turn).await;
    assert_eq!(found.turn.status, TurnStatus::Failed);
    assert_eq!(found.calls[0].call.end, Some(failed(CallReason::Timeout)));
}

#[tokio::test]
async fn without_a_fence_two_drivers_write() {
    let world = StoreWorld::fill(in_memory_inline(Weakness::NoFence).unwrap(), None, None).await;
    let turn = world.accept(1).await;
    let (organization, owner) = (world.organization, "boot 2".to_owned());
    world
        .write(Change::ClaimTurn(ClaimTurn {
            organization,
            turn,
            owner,
            at: at(2),
        }))
        .await
        .unwrap();
    world
        .write_turn(turn, vec![TurnChange::AppendEvents(flush(1, 1))])
        .await
        .unwrap();
    world
        .store
        .apply_to_turn(
            world.fence(turn, 2),
            vec![TurnChange::AppendEvents(flush(2, 1))],
        )
        .await
        .unwrap();
}
