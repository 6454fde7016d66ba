//! What is kept for how long, and the end of what is asked to be forgotten.

use std::time::Duration;

use tw_core::change::{Change, EraseEndUser, NewCall, NewTurn, Outcome, SaveTool, TurnChange};
use tw_core::id::{ToolVersionKey, TurnId};
use tw_core::turn_status::TurnStatus;
use tw_store::system::{self, OldToolVersions};

use crate::tools::new_tool;
use crate::world::{
    StoreWorld, at, call_ref, create_organization, end_turn, on_each_store, pending_call, tool_id,
};

impl StoreWorld {
    async fn end(&self, turn: TurnId) {
        let end = TurnChange::EndTurn(end_turn(TurnStatus::Completed));
        self.write_turn(turn, vec![end]).await.unwrap();
    }

    async fn is_erased(&self, turn: TurnId) -> bool {
        self.recovered(turn).await.turn.erased.is_some()
    }

    async fn erase_due(&self, now: i64) -> Outcome {
        let change = Change::EraseDue {
            now: at(now),
            turns_max: 10,
        };
        self.write(change).await.unwrap()
    }
}

#[tokio::test]
async fn old_contents_of_one_organization_go_some_at_once() {
    on_each_store(async |world| {
        let mut turns = Vec::new();
        for n in 1..=3 {
            let turn = world.accept(n).await;
            world.end(turn).await;
            turns.push(turn);
        }
        let running = world.accept(4).await;
        let other = create_organization(&world.store, "other").await;
        let expire = async |organization, before| {
            let change = Change::ExpireContents {
                organization,
                before: at(before),
                now: at(500),
                turns_max: 2,
            };
            world.write(change).await.unwrap()
        };
        // They ended at 100.
        assert_eq!(expire(world.organization, 100).await, Outcome::Count(0));
        assert_eq!(expire(other, 200).await, Outcome::Count(0));
        assert_eq!(expire(world.organization, 200).await, Outcome::Count(2));
        assert_eq!(world.erase_due(500).await, Outcome::Count(2));
        assert_eq!(expire(world.organization, 200).await, Outcome::Count(1));
        assert_eq!(world.erase_due(500).await, Outcome::Count(1));
        assert_eq!(expire(world.organization, 200).await, Outcome::Count(0));
        for turn in turns {
            assert!(world.is_erased(turn).await);
        }
        assert!(!world.is_erased(running).await);
    })
    .await;
}

/// What [`system::old_tool_versions`] finds, by number; then they are deleted.
async fn expire(world: &StoreWorld, keys: &[ToolVersionKey], old: OldToolVersions) -> Vec<usize> {
    let found = system::old_tool_versions(&world.store, old, 100)
        .await
        .unwrap();
    let number = |key: &ToolVersionKey| keys.iter().position(|known| known == key).unwrap() + 1;
    let numbers = found.iter().map(number).collect();
    let deleted = world.write(Change::DeleteToolVersions { versions: found });
    assert!(matches!(deleted.await.unwrap(), Outcome::Count(_)));
    numbers
}

#[tokio::test]
async fn versions_that_no_call_ran_go_when_newer_ones_have_come() {
    on_each_store(async |world| {
        let mut keys = Vec::new();
        for follows in 0..6 {
            let save = SaveTool {
                follows,
                at: at(i64::from(follows) * 100),
                ..new_tool(world.organization, 1, "mail")
            };
            match world.write(Change::SaveTool(Box::new(save))).await.unwrap() {
                Outcome::ToolSaved(version) => keys.push(version.key),
                other => panic!("{other:?}"),
            }
        }
        let new = NewTurn {
            at: at(900),
            ..world.new_turn(1)
        };
        let turn = new.id;
        world.accept_new(new).await.unwrap();
        let call = NewCall {
            tool_version: Some(keys[1]),
            ..pending_call(turn, call_ref(1, 0))
        };
        let add = TurnChange::AddCall(Box::new(call));
        world.write_turn(turn, vec![add]).await.unwrap();
        let old = |before, kept, margin| OldToolVersions {
            before: at(before),
            kept,
            unused_since: at(10_000),
            margin: Duration::from_micros(margin),
        };
        // Nothing is old, and what a turn that runs may have been offered stays.
        assert_eq!(expire(&world, &keys, old(0, 100, 0)).await, [0_usize; 0]);
        assert_eq!(
            expire(&world, &keys, old(10_000, 0, 900)).await,
            [0_usize; 0]
        );
        // The first was replaced at 100; the second was called.
        assert_eq!(expire(&world, &keys, old(250, 100, 0)).await, [1]);
        assert_eq!(expire(&world, &keys, old(0, 2, 0)).await, [3]);
        assert_eq!(expire(&world, &keys, old(10_000, 100, 0)).await, [4, 5]);
        // Whoever asks for others gets no further.
        let change = Change::DeleteToolVersions {
            versions: keys.clone(),
        };
        assert_eq!(world.write(change).await.unwrap(), Outcome::Count(0));
        let delete = Change::DeleteTool {
            organization: world.organization,
            tool: tool_id(1),
            at: at(800),
        };
        world.write(delete).await.unwrap();
        assert_eq!(expire(&world, &keys, old(10_000, 100, 0)).await, [6]);
    })
    .await;
}

#[tokio::test]
async fn an_end_user_is_forgotten_and_another_of_the_name_is_not() {
    on_each_store(async |world| {
        let of_user = |n, name: &str| NewTurn {
            end_user: Some(name.to_owned()),
            conversation: format!("c{n}"),
            ..world.new_turn(n)
        };
        let mut theirs = Vec::new();
        for n in 1..=3 {
            world.accept_new(of_user(n, "ann")).await.unwrap();
            theirs.push(of_user(n, "ann").id);
        }
        world.end(theirs[0]).await;
        world.end(theirs[1]).await;
        world.accept_new(of_user(4, "bob")).await.unwrap();
        world.end(of_user(4, "bob").id).await;
        let erase = |name: &str, n: u32| {
            Change::EraseEndUser(EraseEndUser {
                organization: world.organization,
                name: name.to_owned(),
                pseudonym: format!("erased-{n}"),
                at: at(300),
            })
        };
        assert_eq!(
            world.write(erase("nobody", 1)).await.unwrap(),
            Outcome::Already
        );
        assert_eq!(world.write(erase("ann", 2)).await.unwrap(), Outcome::Done);
        // The name is free, and so is its next owner.
        assert_eq!(
            world.write(erase("ann", 3)).await.unwrap(),
            Outcome::Already
        );
        world.accept_new(of_user(5, "ann")).await.unwrap();
        let again = of_user(5, "ann").id;
        world.end(again).await;
        let step = async || {
            let change = Change::DeleteErased {
                at: at(301),
                turns_max: 2,
            };
            world.write(change).await.unwrap()
        };
        let mut stopped = Vec::new();
        let mut steps = 0;
        while let Outcome::Deleted { running } = step().await {
            stopped.extend(running);
            steps += 1;
        }
        assert_eq!(step().await, Outcome::Already);
        assert_eq!((stopped, steps), (vec![theirs[2]], 3));
        assert_eq!(world.erase_due(301).await, Outcome::Count(2));
        world.end(theirs[2]).await;
        assert_eq!(world.erase_due(301).await, Outcome::Count(1));
        for turn in theirs {
            assert!(world.is_erased(turn).await);
            let found = world.recovered(turn).await;
            assert_eq!(found.turn.end_user.as_deref(), Some("erased-2"));
        }
        for turn in [of_user(4, "bob").id, again] {
            assert!(!world.is_erased(turn).await);
        }
    })
    .await;
}
