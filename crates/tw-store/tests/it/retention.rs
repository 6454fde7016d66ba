use tw_core::call::CallEnd;
use tw_core::change::{Change, EndTurn, NewCall, NewTurn, Outcome, TurnChange};
use tw_core::definition::SensitiveCall;
use tw_core::id::TurnId;
use tw_core::turn_policy::RecordPolicy;
use tw_core::turn_status::TurnStatus;

use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, flush, on_each_store, pending_call, turn_id,
    usage,
};

async fn ended(world: &StoreWorld, n: u128, record: RecordPolicy) -> TurnId {
    let new = NewTurn {
        record,
        ..world.new_turn(n)
    };
    let turn = new.id;
    let call = call_ref(1, 0);
    let end = EndTurn {
        usage: Some(usage()),
        erase_after: Some(at(100 + i64::try_from(n).unwrap())),
        ..end_turn(TurnStatus::Completed)
    };
    let first = vec![
        TurnChange::AddCall(Box::new(NewCall {
            sensitive: Some(SensitiveCall {
                arguments: "***".to_owned(),
                hidden: vec!["hidden".to_owned()],
            }),
            ..pending_call(turn, call)
        })),
        TurnChange::EndCall {
            call,
            end: completed(),
            at: at(7),
        },
        TurnChange::AppendEvents(flush(1, 3)),
        TurnChange::EndTurn(end),
    ];
    world.accept_with(new, first).await.unwrap();
    turn
}

#[tokio::test]
async fn what_is_due_is_erased_and_the_sums_stay() {
    on_each_store(async |world| {
        let turn = ended(&world, 1, RecordPolicy::Minimal).await;
        let full = ended(&world, 2, RecordPolicy::Full).await;
        let later = ended(&world, 50, RecordPolicy::Minimal).await;
        world.accept(3).await;
        let erase = async || {
            let change = Change::EraseDue {
                now: at(101),
                turns_max: 10,
            };
            world.write(change).await.unwrap()
        };
        assert_eq!(erase().await, Outcome::Count(1));
        assert_eq!(erase().await, Outcome::Count(0));
        let found = world.recovered(turn).await;
        assert!(found.body.is_empty() && found.context.is_empty() && found.events.is_empty());
        assert!(
            found
                .messages
                .iter()
                .all(|message| message.blocks.is_empty())
        );
        let call = &found.calls[0].call;
        assert_eq!((&*call.arguments, &call.sensitive), ("", &None));
        assert_eq!(
            call.end,
            Some(CallEnd {
                result: None,
                shown: String::new(),
                ..completed()
            })
        );
        assert_eq!(
            (found.turn.status, found.turn.usage),
            (TurnStatus::Completed, Some(usage()))
        );
        assert_eq!(
            (found.turn.ended, found.turn.erased),
            (Some(at(100)), Some(at(101)))
        );
        let log = world
            .store
            .events_after(world.organization, turn, 0, 9)
            .await
            .unwrap()
            .unwrap();
        assert!(log.erased && log.complete && log.last == 0);
        for kept in [full, later] {
            let found = world.recovered(kept).await;
            assert!(
                !found.body.is_empty() && found.events.len() == 3 && found.turn.erased.is_none()
            );
        }
    })
    .await;
}

#[tokio::test]
async fn erasing_takes_the_oldest_first_and_no_more_than_asked() {
    on_each_store(async |world| {
        for n in [3, 1, 2] {
            ended(&world, n, RecordPolicy::Minimal).await;
        }
        let change = Change::EraseDue {
            now: at(1000),
            turns_max: 2,
        };
        assert_eq!(world.write(change).await.unwrap(), Outcome::Count(2));
        for (n, gone) in [(1, true), (2, true), (3, false)] {
            let found = world.recovered(turn_id(n)).await;
            assert_eq!(found.turn.erased.is_some(), gone, "{n}");
        }
    })
    .await;
}

#[tokio::test]
async fn old_logs_go_and_the_record_stays() {
    on_each_store(async |world| {
        let turn = ended(&world, 1, RecordPolicy::Full).await;
        let running = world.accept(2).await;
        world
            .write_turn(running, vec![TurnChange::AppendEvents(flush(1, 1))])
            .await
            .unwrap();
        let expire = async |before| {
            let change = Change::ExpireEvents {
                before,
                turns_max: 10,
            };
            world.write(change).await.unwrap()
        };
        assert_eq!(expire(at(100)).await, Outcome::Count(0));
        assert_eq!(expire(at(101)).await, Outcome::Count(1));
        assert_eq!(expire(at(101)).await, Outcome::Count(0));
        let page = world
            .store
            .events_after(world.organization, turn, 0, 9)
            .await
            .unwrap()
            .unwrap();
        assert!(page.erased && page.events.is_empty());
        let found = world.recovered(turn).await;
        assert!(!found.body.is_empty() && found.turn.erased.is_none());
        let page = world
            .store
            .events_after(world.organization, running, 0, 9)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((page.erased, page.events.len()), (false, 1));
    })
    .await;
}

#[tokio::test]
async fn old_request_keys_go() {
    on_each_store(async |world| {
        for n in [1, 2, 3] {
            let key = Some(format!("key {n}"));
            let new = NewTurn {
                idempotency_key: key,
                ..world.new_turn(n)
            };
            world.accept_new(new).await.unwrap();
        }
        let expire = async |before, keys_max| {
            world
                .write(Change::ExpireRequestKeys { before, keys_max })
                .await
                .unwrap()
        };
        assert_eq!(expire(at(1), 10).await, Outcome::Count(0));
        assert_eq!(expire(at(3), 1).await, Outcome::Count(1));
        assert_eq!(expire(at(3), 10).await, Outcome::Count(1));
        assert_eq!(expire(at(3), 10).await, Outcome::Count(0));
    })
    .await;
}
