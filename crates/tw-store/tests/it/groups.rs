use std::sync::Arc;

use tw_core::call::CallStatus;
use tw_core::change::{Change, ChangeGroup, Fence, TurnChange};
use tw_core::id::TurnId;
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::store::{Store, StoreOptions};

use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, flush, message, on_each_store, pending_call,
    turn_id,
};

#[tokio::test]
async fn a_group_is_written_whole_or_not_at_all() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let call = call_ref(1, 0);
        let group = vec![
            TurnChange::AddMessage(message(1, 0)),
            TurnChange::AddCall(Box::new(pending_call(turn, call))),
            TurnChange::AppendEvents(flush(1, 2)),
            TurnChange::EndCall {
                call: call_ref(9, 9),
                end: completed(),
                at: at(7),
            },
        ];
        let refused = world.write_turn(turn, group).await;
        assert!(
            matches!(refused, Err(StoreApplyError::Guard { .. })),
            "{refused:?}"
        );
        let found = world.recovered(turn).await;
        assert!(found.calls.is_empty() && found.events.is_empty());
        assert_eq!(found.messages.len(), 1);
        let late = vec![TurnChange::AppendEvents(flush(2, 1))];
        assert!(matches!(
            world.accept_with(world.new_turn(2), late).await,
            Err(StoreApplyError::Guard { .. })
        ));
        assert_eq!(
            world
                .store
                .turn_status(world.organization, turn_id(2))
                .await
                .unwrap(),
            None
        );
    })
    .await;
}

#[tokio::test]
async fn an_empty_group_has_no_outcomes() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        assert_eq!(world.store.apply(Vec::new()).await.unwrap(), []);
        assert_eq!(world.write_turn(turn, Vec::new()).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_fence_holds_for_its_turn_and_organization_only() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let group = || vec![TurnChange::AppendEvents(flush(1, 1))];
        for fence in [
            world.fence(turn, 2),
            world.fence(turn, 0),
            world.fence(turn_id(99), 1),
            Fence {
                organization: world.stranger,
                turn,
                fence: 1,
            },
        ] {
            let refused = world.store.apply_to_turn(fence, group()).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Fenced { .. })),
                "{refused:?}"
            );
        }
        let empty = world
            .store
            .apply_to_turn(world.fence(turn, 2), Vec::new())
            .await;
        assert!(
            matches!(empty, Err(StoreApplyError::Fenced { .. })),
            "{empty:?}"
        );
        world.write_turn(turn, group()).await.unwrap();
    })
    .await;
}

/// One turn from start to end, each step on its own, with a bad group after each.
async fn drive(world: &StoreWorld, n: u128) {
    let turn = world.accept(n).await;
    let call = call_ref(1, 0);
    let steps = [
        TurnChange::AddCall(Box::new(pending_call(turn, call))),
        TurnChange::StartCall { call, at: at(6) },
        TurnChange::EndCall {
            call,
            end: completed(),
            at: at(7),
        },
        TurnChange::EndTurn(end_turn(TurnStatus::Completed)),
    ];
    for step in steps {
        let bad = vec![
            TurnChange::AppendEvents(flush(1, 1)),
            TurnChange::StartCall {
                call: call_ref(9, 9),
                at: at(8),
            },
        ];
        let (good, bad) = tokio::join!(
            world.write_turn(turn, vec![step]),
            world.write_turn(turn, bad)
        );
        good.unwrap();
        assert!(matches!(bad, Err(StoreApplyError::Guard { .. })), "{bad:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_member_of_a_transaction_leaves_the_others_written() {
    const TURNS: u128 = 40;
    let world = Arc::new(StoreWorld::on_disk().await);
    let tasks: Vec<_> = (1..=TURNS)
        .map(|n| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { drive(&world, n).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for n in 1..=TURNS {
        let found = world.recovered(turn_id(n)).await;
        assert_eq!(found.turn.status, TurnStatus::Completed);
        assert_eq!(found.calls[0].call.status, CallStatus::Completed);
        assert!(found.events.is_empty());
    }
    assert_eq!(
        world.store.integrity_check().await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn a_queue_of_one_place_only_slows_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let options = StoreOptions {
        queue_jobs_max: 1,
        group_jobs_max: 1,
        readers_max: 1,
        ..StoreOptions::defaults(at(0))
    };
    let world = StoreWorld::fill(
        Store::open(&path, options).unwrap(),
        Some(path),
        Some(folder),
    )
    .await;
    let turns: Vec<TurnId> = {
        let (a, b, c) = tokio::join!(world.accept(1), world.accept(2), world.accept(3));
        vec![a, b, c]
    };
    for turn in turns {
        let (view, status) = tokio::join!(
            world.store.turn_for_recovery(world.organization, turn),
            world.store.turn_status(world.organization, turn)
        );
        assert_eq!(view.unwrap().unwrap().turn.status, status.unwrap().unwrap());
    }
}

#[tokio::test]
async fn writing_inline_belongs_to_the_store_that_does() {
    let disk = StoreWorld::on_disk().await;
    let touch = ChangeGroup::Free(vec![Change::TouchApiKey {
        key: disk.key,
        at: at(1),
    }]);
    let refused = disk.store.apply_inline(&touch);
    assert!(
        matches!(refused, Err(StoreApplyError::NotInline)),
        "{refused:?}"
    );
    let memory = Store::in_memory_inline().unwrap();
    memory.apply_inline(&touch).unwrap();
}
