use tw_core::change::{Change, ClaimTurn, NewTurn, Outcome, TurnChange};
use tw_core::id::{ApiKeyId, TurnId};
use tw_core::json::shared::SharedText;
use tw_core::turn_policy::{RecordPolicy, Surface};
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::read::requests::KeySent;
use tw_store::system;

use crate::world::{StoreWorld, at, end_turn, flush, message, on_each_store, turn_id};

#[tokio::test]
async fn a_turn_comes_back_as_it_was_accepted() {
    on_each_store(async |world| {
        let new = NewTurn {
            end_user: Some("ann".to_owned()),
            conversation_named: true,
            messages: vec![message(0, 0), message(0, 1)],
            ..world.new_turn(1)
        };
        world.accept_new(new.clone()).await.unwrap();
        let found = world
            .store
            .turn_for_recovery(world.organization, new.id)
            .await
            .unwrap()
            .unwrap();
        let turn = &found.turn;
        assert_eq!(
            (turn.id, turn.organization, turn.api_key),
            (new.id, new.organization, new.api_key)
        );
        assert_eq!(
            (&turn.end_user, &turn.conversation),
            (&new.end_user, &new.conversation)
        );
        assert_eq!(
            (turn.streamed, turn.on_leave, turn.record),
            (new.streamed, new.on_leave, new.record)
        );
        assert_eq!(
            (&turn.model, &turn.request_id),
            (&new.model, &new.request_id)
        );
        assert_eq!(
            (turn.deadline, turn.created, turn.body_hash),
            (new.deadline, new.at, new.body_hash)
        );
        assert_eq!(
            (turn.fence, turn.status, turn.reason),
            (1, TurnStatus::Running, None)
        );
        assert_eq!(
            (&turn.owner, turn.answered, turn.ended),
            (&new.owner, None, None)
        );
        assert!(turn.conversation_named);
        assert_eq!(
            (found.body, found.context, found.messages),
            (
                new.body.as_str().as_bytes().to_vec(),
                new.context,
                new.messages
            )
        );
        assert!(found.calls.is_empty() && found.attempts.is_empty() && found.events.is_empty());
        assert_eq!(
            world
                .store
                .turn_for_recovery_now(world.organization, new.id)
                .unwrap()
                .unwrap()
                .turn
                .id,
            new.id
        );
    })
    .await;
}

#[tokio::test]
async fn a_turn_may_bring_nothing() {
    on_each_store(async |world| {
        let new = NewTurn {
            body: SharedText::default(),
            context: String::new(),
            messages: Vec::new(),
            ..world.new_turn(1)
        };
        world.accept_new(new.clone()).await.unwrap();
        let found = world
            .store
            .turn_for_recovery(world.organization, new.id)
            .await
            .unwrap()
            .unwrap();
        assert!(found.body.is_empty() && found.messages.is_empty());
    })
    .await;
}

#[tokio::test]
async fn the_same_turn_twice_and_a_turn_with_anothers_key_are_refused() {
    on_each_store(async |world| {
        world.accept(1).await;
        let foreign = NewTurn {
            organization: world.stranger,
            ..world.new_turn(2)
        };
        let unknown = NewTurn {
            api_key: ApiKeyId(99),
            ..world.new_turn(3)
        };
        for new in [world.new_turn(1), foreign, unknown] {
            let refused = world.accept_new(new).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Conflict { .. })),
                "{refused:?}"
            );
        }
        // The rows that were made on the way there went with the rest.
        let found = world
            .store
            .turn_status(world.stranger, turn_id(2))
            .await
            .unwrap();
        assert_eq!(found, None);
        assert_eq!(
            world.store.integrity_check().await.unwrap(),
            Vec::<String>::new()
        );
    })
    .await;
}

fn keyed(world: &StoreWorld, n: u128, hash: u8) -> NewTurn {
    let key = Some("key".to_owned());
    NewTurn {
        idempotency_key: key,
        body_hash: [hash; 32],
        ..world.new_turn(n)
    }
}

#[tokio::test]
async fn a_taken_key_writes_nothing_of_the_group() {
    on_each_store(async |world| {
        assert_eq!(
            world.accept_new(keyed(&world, 1, 7)).await.unwrap(),
            Outcome::Done
        );
        let first = vec![TurnChange::AppendEvents(flush(1, 1))];
        let outcomes = world.accept_with(keyed(&world, 2, 7), first).await.unwrap();
        assert_eq!(
            outcomes,
            [Outcome::KeyTaken {
                turn: turn_id(1),
                same_request: true
            }]
        );
        let other = world.accept_new(keyed(&world, 3, 8)).await.unwrap();
        assert_eq!(
            other,
            Outcome::KeyTaken {
                turn: turn_id(1),
                same_request: false
            }
        );
        for n in [2, 3] {
            assert_eq!(
                world
                    .store
                    .turn_status(world.organization, turn_id(n))
                    .await
                    .unwrap(),
                None
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_belongs_to_its_end_user() {
    on_each_store(async |world| {
        let of = |n, name: Option<&str>| {
            let end_user = name.map(str::to_owned);
            let idempotency_key = Some("key".to_owned());
            NewTurn {
                end_user,
                idempotency_key,
                ..world.new_turn(n)
            }
        };
        for (n, name) in [(1, None), (2, Some("ann")), (3, Some("bob"))] {
            assert_eq!(
                world.accept_new(of(n, name)).await.unwrap(),
                Outcome::Done,
                "{name:?}"
            );
        }
        for (first, name) in [(1, None), (2, Some("ann")), (3, Some("bob"))] {
            let taken = Outcome::KeyTaken {
                turn: turn_id(first),
                same_request: true,
            };
            assert_eq!(
                world.accept_new(of(first + 10, name)).await.unwrap(),
                taken,
                "{name:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_is_of_one_conversation() {
    on_each_store(async |world| {
        let of = |n, key: &str, named: Option<&str>| NewTurn {
            idempotency_key: Some(key.to_owned()),
            conversation: named.map_or(format!("given {n}"), str::to_owned),
            conversation_named: named.is_some(),
            ..world.new_turn(n)
        };
        for (n, key, named) in [(1, "a", Some("trip")), (2, "b", None)] {
            let accepted = world.accept_new(of(n, key, named)).await.unwrap();
            assert_eq!(accepted, Outcome::Done);
            let sent = KeySent {
                api_key: world.key,
                end_user: None,
                surface: Surface::ChatCompletions,
                key: key.to_owned(),
            };
            let row = world.store.request_key(world.organization, sent).await;
            let conversation = row.unwrap().unwrap().conversation;
            assert_eq!(conversation.as_deref(), named);
        }
        for (key, named, first, same_request) in [
            ("a", Some("trip"), 1, true),
            ("a", Some("home"), 1, false),
            ("a", None, 1, false),
            ("b", None, 2, true),
            ("b", Some("trip"), 2, false),
            // What the server called it is no name that the client gave.
            ("b", Some("given 2"), 2, false),
        ] {
            let taken = Outcome::KeyTaken {
                turn: turn_id(first),
                same_request,
            };
            let again = world.accept_new(of(11, key, named)).await.unwrap();
            assert_eq!(again, taken, "{key} {named:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_old_key_is_replaced() {
    on_each_store(async |world| {
        world.accept_new(keyed(&world, 1, 7)).await.unwrap();
        let late = |n| NewTurn {
            idempotency_key: Some("key".to_owned()),
            keys_since: at(2),
            at: at(5),
            ..world.new_turn(n)
        };
        assert_eq!(world.accept_new(late(2)).await.unwrap(), Outcome::Done);
        let taken = Outcome::KeyTaken {
            turn: turn_id(2),
            same_request: true,
        };
        assert_eq!(world.accept_new(late(3)).await.unwrap(), taken);
    })
    .await;
}

async fn claim(world: &StoreWorld, turn: TurnId, owner: &str) -> Outcome {
    let claim = ClaimTurn {
        organization: world.organization,
        turn,
        owner: owner.to_owned(),
        at: at(9),
    };
    world.write(Change::ClaimTurn(claim)).await.unwrap()
}

#[tokio::test]
async fn a_claim_raises_the_fence_and_shuts_the_old_driver_out() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        assert_eq!(claim(&world, turn, "boot 1").await, Outcome::Already);
        assert_eq!(
            claim(&world, turn, "boot 2").await,
            Outcome::Claimed { fence: 2, open: 0 }
        );
        assert_eq!(claim(&world, turn, "boot 2").await, Outcome::Already);
        let old = world
            .write_turn(turn, vec![TurnChange::AppendEvents(flush(1, 1))])
            .await;
        assert!(
            matches!(old, Err(StoreApplyError::Fenced { fence: 1, .. })),
            "{old:?}"
        );
        let end = vec![TurnChange::EndTurn(end_turn(TurnStatus::Failed))];
        world
            .store
            .apply_to_turn(world.fence(turn, 2), end)
            .await
            .unwrap();
        assert_eq!(claim(&world, turn, "boot 3").await, Outcome::Already);
        assert_eq!(claim(&world, turn_id(99), "boot 3").await, Outcome::Already);
    })
    .await;
}

#[tokio::test]
async fn orphans_are_listed_oldest_first_and_without_ones_own() {
    on_each_store(async |world| {
        for n in [3, 1, 2] {
            world.accept(n).await;
        }
        world
            .write_turn(
                turn_id(2),
                vec![TurnChange::EndTurn(end_turn(TurnStatus::Completed))],
            )
            .await
            .unwrap();
        let one = |n| (world.organization, turn_id(n));
        let listed = system::unfinished_turns(&world.store, "boot 2", 10)
            .await
            .unwrap();
        assert_eq!(listed, [one(1), one(3)]);
        assert_eq!(
            system::unfinished_turns_now(&world.store, "boot 2", 1).unwrap(),
            [one(1)]
        );
        assert_eq!(
            system::unfinished_turns(&world.store, "boot 1", 10)
                .await
                .unwrap(),
            []
        );
        assert_eq!(
            system::unfinished_turns(&world.store, "boot 2", 0)
                .await
                .unwrap(),
            []
        );
    })
    .await;
}

#[tokio::test]
async fn an_answer_is_noted_once_and_only_by_its_organization() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let mark = async |organization, at| {
            world
                .write(Change::MarkAnswered {
                    organization,
                    turn,
                    at,
                })
                .await
                .unwrap()
        };
        assert_eq!(mark(world.stranger, at(1)).await, Outcome::Already);
        assert_eq!(mark(world.organization, at(2)).await, Outcome::Done);
        assert_eq!(mark(world.organization, at(3)).await, Outcome::Already);
        let found = world.recovered(turn).await;
        assert_eq!(found.turn.answered, Some(at(2)));
        assert_eq!(found.turn.record, RecordPolicy::Full);
    })
    .await;
}
