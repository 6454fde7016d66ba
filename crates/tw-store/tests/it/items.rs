//! Conversations that hold items: who may add to them, and which turns are on their path.

use tw_core::change::{Change, DeleteConversation, NewTurn, Outcome, TurnChange};
use tw_core::conversation::{
    AddedItems, ChangeConversation, DeleteItem, ItemPlace, ItemSource, NewConversation,
};
use tw_core::id::{ApiKeyId, TurnId};
use tw_core::tenant::TurnOwner;
use tw_core::turn_status::TurnStatus;
use tw_store::read::conversations::MadeBy;
use tw_store::read::items::{ConversationPath, PathStart};

use crate::conversations::{ALL, another_key};
use crate::world::{StoreWorld, at, end_turn, on_each_store, turn_id};

const METADATA: &str = r#"{"a":"1"}"#;

pub async fn make(world: &StoreWorld, id: &str, end_user: Option<&str>) -> Outcome {
    let new = NewConversation {
        organization: world.organization,
        id: id.to_owned(),
        api_key: world.key,
        end_user: end_user.map(str::to_owned),
        metadata: METADATA.to_owned(),
        at: at(1),
    };
    world.write(Change::CreateConversation(new)).await.unwrap()
}

pub fn added(
    world: &StoreWorld,
    n: u128,
    source: ItemSource,
    (head, parent): (Option<u128>, Option<u128>),
) -> NewTurn {
    NewTurn {
        conversation: "c".to_owned(),
        conversation_named: true,
        adds_items: Some(AddedItems {
            source,
            place: ItemPlace::Behind {
                head: head.map(turn_id),
            },
        }),
        parent: parent.map(turn_id),
        ..world.new_turn(n)
    }
}

/// Accepts a turn that adds items behind another one, and ends it.
async fn add(world: &StoreWorld, n: u128, behind: Option<u128>, status: TurnStatus) -> Outcome {
    let new = added(world, n, ItemSource::Answer, (behind, behind));
    let first = vec![TurnChange::EndTurn(end_turn(status))];
    world.accept_with(new, first).await.unwrap().remove(0)
}

async fn path(world: &StoreWorld, whose: TurnOwner) -> Option<ConversationPath> {
    let store = &world.store;
    let path = store.conversation_path(world.organization, "c".to_owned(), whose, PathStart::Head);
    path.await.unwrap()
}

async fn turns(world: &StoreWorld) -> Vec<TurnId> {
    let path = path(world, ALL).await.unwrap();
    path.turns.iter().map(|turn| turn.id).collect()
}

fn ids(turns: &[u128]) -> Vec<TurnId> {
    turns.iter().map(|n| turn_id(*n)).collect()
}

#[tokio::test]
async fn a_turn_adds_its_items_with_the_write_that_completes_it() {
    on_each_store(async |world| {
        assert_eq!(make(&world, "c", None).await, Outcome::Done);
        assert_eq!(make(&world, "c", None).await, Outcome::Already);
        assert_eq!(turns(&world).await, ids(&[]));
        let new = added(&world, 1, ItemSource::Answer, (None, None));
        assert_eq!(world.accept_new(new).await.unwrap(), Outcome::Done);
        assert_eq!(turns(&world).await, ids(&[]), "it runs");
        let end = TurnChange::EndTurn(end_turn(TurnStatus::Completed));
        world
            .write_turn(turn_id(1), vec![end.clone()])
            .await
            .unwrap();
        assert_eq!(turns(&world).await, ids(&[1]));
        // Once: the turn cannot end again.
        world.write_turn(turn_id(1), vec![end]).await.unwrap_err();
        for (n, status, expected) in [
            (2, TurnStatus::Failed, ids(&[1])),
            (3, TurnStatus::Cancelled, ids(&[1])),
            (4, TurnStatus::Incomplete, ids(&[4, 1])),
        ] {
            assert_eq!(add(&world, n, Some(1), status).await, Outcome::Done);
            assert_eq!(turns(&world).await, expected, "{status:?}");
        }
        // A turn that only names it, as a header does, is no part of its path.
        let named = NewTurn {
            conversation: "c".to_owned(),
            ..world.new_turn(5)
        };
        let first = vec![TurnChange::EndTurn(end_turn(TurnStatus::Completed))];
        world.accept_with(named, first).await.unwrap();
        assert_eq!(turns(&world).await, ids(&[4, 1]));
    })
    .await;
}

#[tokio::test]
async fn nothing_is_added_beside_another_turn_or_behind_another_head() {
    on_each_store(async |world| {
        make(&world, "c", None).await;
        let busy = [Outcome::ConversationBusy];
        let running = added(&world, 1, ItemSource::Answer, (None, None));
        world.accept_new(running).await.unwrap();
        assert!(path(&world, ALL).await.unwrap().is_busy);
        for source in [ItemSource::Answer, ItemSource::Client] {
            let new = added(&world, 2, source, (None, None));
            assert_eq!(world.accept_with(new, Vec::new()).await.unwrap(), busy);
        }
        let end = TurnChange::EndTurn(end_turn(TurnStatus::Completed));
        world.write_turn(turn_id(1), vec![end]).await.unwrap();
        assert!(!path(&world, ALL).await.unwrap().is_busy);
        // One that was prepared before the other had ended.
        for head in [None, Some(9)] {
            let new = added(&world, 3, ItemSource::Answer, (head, None));
            assert_eq!(world.accept_with(new, Vec::new()).await.unwrap(), busy);
            let found = world
                .store
                .turn_for_recovery(world.organization, turn_id(3))
                .await;
            assert_eq!(found.unwrap(), None);
        }
        // A conversation that is not there, and one that is to be made and is.
        let nowhere = NewTurn {
            conversation: "nowhere".to_owned(),
            ..added(&world, 4, ItemSource::Answer, (None, None))
        };
        assert_eq!(world.accept_with(nowhere, Vec::new()).await.unwrap(), busy);
        let first = NewTurn {
            adds_items: Some(AddedItems {
                source: ItemSource::Client,
                place: ItemPlace::First {
                    metadata: METADATA.to_owned(),
                },
            }),
            ..added(&world, 5, ItemSource::Client, (None, None))
        };
        assert_eq!(world.accept_with(first, Vec::new()).await.unwrap(), busy);
        // A turn that was deleted while it ran holds nobody up.
        let running = added(&world, 6, ItemSource::Answer, (Some(1), Some(1)));
        world.accept_new(running).await.unwrap();
        let delete = Change::DeleteTurn {
            organization: world.organization,
            turn: turn_id(6),
            at: at(50),
        };
        world.write(delete).await.unwrap();
        assert_eq!(
            add(&world, 7, Some(1), TurnStatus::Completed).await,
            Outcome::Done
        );
        assert_eq!(turns(&world).await, ids(&[7, 1]));
    })
    .await;
}

#[tokio::test]
async fn what_is_taken_out_is_passed_over() {
    on_each_store(async |world| {
        make(&world, "c", None).await;
        for n in 1..4 {
            let behind = (n > 1).then(|| n - 1);
            add(&world, n, behind, TurnStatus::Completed).await;
        }
        let item = |turn: u128, organization| {
            Change::DeleteItem(DeleteItem {
                organization,
                turn: turn_id(turn),
                item: "item".to_owned(),
                at: at(60),
            })
        };
        for (organization, expected) in [
            (world.stranger, Outcome::Already),
            (world.organization, Outcome::Done),
            (world.organization, Outcome::Already),
        ] {
            assert_eq!(world.write(item(1, organization)).await.unwrap(), expected);
        }
        assert_eq!(
            world.write(item(9, world.organization)).await.unwrap(),
            Outcome::Already
        );
        let delete = |turn| Change::DeleteTurn {
            organization: world.organization,
            turn: turn_id(turn),
            at: at(70),
        };
        world.write(delete(2)).await.unwrap();
        assert_eq!(turns(&world).await, ids(&[3, 1]));
        let found = path(&world, ALL).await.unwrap();
        assert_eq!(found.head, Some(turn_id(3)));
        assert_eq!(found.turns[1].deleted_items, ["item"]);
        assert!(found.turns[0].deleted_items.is_empty());
        // From a turn that is gone itself, as for one that is taken over behind it.
        let store = &world.store;
        let start = PathStart::Turn(turn_id(2));
        let behind = store.conversation_path(world.organization, "c".to_owned(), ALL, start);
        let behind = behind.await.unwrap().unwrap();
        assert_eq!(
            behind.turns.iter().map(|turn| turn.id).collect::<Vec<_>>(),
            ids(&[1])
        );
        world.write(delete(3)).await.unwrap();
        assert_eq!(path(&world, ALL).await.unwrap().head, Some(turn_id(1)));
    })
    .await;
}

#[tokio::test]
async fn a_conversation_is_seen_by_its_key_and_its_end_user_alone() {
    on_each_store(async |world| {
        let other = another_key(&world).await;
        make(&world, "c", Some("ann")).await;
        let whose = |api_key: Option<ApiKeyId>, user: Option<&str>| TurnOwner {
            api_key,
            end_user: user.map(str::to_owned),
        };
        for (whose, is_seen) in [
            (ALL, true),
            (whose(Some(world.key), None), true),
            (whose(Some(world.key), Some("ann")), true),
            (whose(None, Some("ann")), true),
            (whose(Some(other), None), false),
            (whose(Some(other), Some("ann")), false),
            (whose(None, Some("bob")), false),
        ] {
            let store = &world.store;
            let row = store.conversation(world.organization, "c".to_owned(), whose.clone());
            assert_eq!(row.await.unwrap().is_some(), is_seen, "{whose:?}");
            assert_eq!(
                path(&world, whose.clone()).await.is_some(),
                is_seen,
                "{whose:?}"
            );
            let listed = store
                .conversations(world.organization, whose.clone(), None, 9)
                .await;
            let listed = listed.unwrap().unwrap().items;
            assert_eq!(listed.len(), usize::from(is_seen), "{whose:?}");
            let elsewhere = store.conversation(world.stranger, "c".to_owned(), whose);
            assert_eq!(elsewhere.await.unwrap(), None);
        }
        let key = other;
        let shared = world
            .store
            .is_shared(world.organization, "c".to_owned(), ALL, key);
        assert!(shared.await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn metadata_is_of_conversations_that_were_made_and_goes_with_them() {
    on_each_store(async |world| {
        make(&world, "c", None).await;
        world.accept(1).await;
        let change = |conversation: &str| {
            Change::ChangeConversation(ChangeConversation {
                organization: world.organization,
                conversation: conversation.to_owned(),
                metadata: r#"{"b":"2"}"#.to_owned(),
                at: at(5),
            })
        };
        for (name, expected) in [
            ("c", Outcome::Done),
            ("conversation 1", Outcome::Already),
            ("nowhere", Outcome::Already),
        ] {
            assert_eq!(world.write(change(name)).await.unwrap(), expected, "{name}");
        }
        let read = async || {
            let store = &world.store;
            let row = store.conversation(world.organization, "c".to_owned(), ALL);
            row.await.unwrap()
        };
        let made = MadeBy {
            api_key: world.key,
            end_user: None,
            metadata: r#"{"b":"2"}"#.to_owned(),
        };
        let row = read().await.unwrap();
        assert_eq!((row.turns, row.created, row.active), (0, at(1), at(5)));
        assert_eq!(row.made, Some(made));
        let delete = || {
            Change::DeleteConversation(DeleteConversation {
                organization: world.organization,
                conversation: "c".to_owned(),
                whose: ALL,
                at: at(9),
            })
        };
        let gone = Outcome::Deleted {
            running: Vec::new(),
        };
        assert_eq!(world.write(delete()).await.unwrap(), gone);
        assert_eq!(read().await, None);
        assert_eq!(world.write(delete()).await.unwrap(), Outcome::Already);
        assert_eq!(world.write(change("c")).await.unwrap(), Outcome::Already);
    })
    .await;
}
