//! Finding the turn that a request continues.

use tw_core::change::{Change, EndTurn, NewTurn, Outcome, TurnChange};
use tw_core::id::TurnId;
use tw_core::memory::{HiddenHash, HistoryHash, MemoryVerdict, RememberedHash};
use tw_core::turn_policy::RecordPolicy;
use tw_core::turn_status::TurnStatus;
use tw_store::read::memory::{ContinuedTurn, HistorySearch, HistoryWanted};

use crate::world::{StoreWorld, api_key, at, end_turn, on_each_store, turn_id};

const HISTORY: HistoryHash = HistoryHash([1; 32]);

fn hidden(n: u8) -> Option<HiddenHash> {
    Some(HiddenHash([n; 32]))
}

async fn sought(world: &StoreWorld, history: HistoryHash) -> HistorySearch {
    sought_in(world, history, None).await
}

async fn sought_in(
    world: &StoreWorld,
    history: HistoryHash,
    conversation: Option<&str>,
) -> HistorySearch {
    let wanted = HistoryWanted {
        api_key: world.key,
        history,
        conversation: conversation.map(str::to_owned),
    };
    let found = world
        .store
        .turn_by_history(world.organization, wanted, None);
    found.await.unwrap().0
}

/// A turn that ended and is found by this.
async fn ended(
    world: &StoreWorld,
    n: u128,
    parent: Option<TurnId>,
    found_by: RememberedHash,
) -> TurnId {
    let conversation = format!("conversation {n}");
    ended_in(world, n, parent, found_by, conversation).await
}

/// The same in a conversation with others.
async fn ended_in(
    world: &StoreWorld,
    n: u128,
    parent: Option<TurnId>,
    found_by: RememberedHash,
    conversation: String,
) -> TurnId {
    let memory_turn = match parent {
        Some(parent) => {
            let row = world.recovered(parent).await.turn;
            match sought(world, row.history.unwrap()).await {
                HistorySearch::Found(continued) => continued.memory_turn,
                other => panic!("{other:?}"),
            }
        }
        None => None,
    };
    let new = NewTurn {
        parent,
        memory_turn,
        memory: MemoryVerdict::Attached,
        conversation,
        ..world.new_turn(n)
    };
    let turn = new.id;
    world.accept_new(new).await.unwrap();
    let end = EndTurn {
        remembered: Some(found_by),
        ..end_turn(TurnStatus::Completed)
    };
    world
        .write_turn(turn, vec![TurnChange::EndTurn(end)])
        .await
        .unwrap();
    turn
}

fn by(history: u8, hidden: Option<HiddenHash>) -> RememberedHash {
    RememberedHash {
        history: HistoryHash([history; 32]),
        hidden,
    }
}

#[tokio::test]
async fn a_turn_is_found_by_its_history_within_its_key() {
    on_each_store(async |world| {
        assert_eq!(sought(&world, HISTORY).await, HistorySearch::Unknown);
        let turn = ended(&world, 1, None, by(1, None)).await;
        let found = ContinuedTurn {
            turn,
            conversation: "conversation 1".to_owned(),
            hidden: None,
            memory_turn: None,
        };
        assert_eq!(sought(&world, HISTORY).await, HistorySearch::Found(found));
        assert_eq!(
            sought(&world, HistoryHash([2; 32])).await,
            HistorySearch::Unknown
        );
        let row = world.recovered(turn).await.turn;
        assert_eq!(
            (row.history, row.memory),
            (Some(HISTORY), MemoryVerdict::Attached)
        );
        let other_key = world
            .write(Change::CreateApiKey(api_key(world.organization, 2)))
            .await
            .unwrap();
        let Outcome::ApiKey(other_key) = other_key else {
            panic!("{other_key:?}")
        };
        for (organization, key) in [(world.organization, other_key), (world.stranger, world.key)] {
            let wanted = HistoryWanted {
                api_key: key,
                history: HISTORY,
                conversation: Some("conversation 1".to_owned()),
            };
            let found = world.store.turn_by_history(organization, wanted, None);
            assert_eq!(found.await.unwrap().0, HistorySearch::Unknown);
        }
        let other = world.store.hidden_half(world.stranger, turn).await;
        assert_eq!(other.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn of_equal_turns_the_newest_is_found_and_of_different_ones_none() {
    on_each_store(async |world| {
        for n in 1..5 {
            ended(&world, n, None, by(1, hidden(7))).await;
        }
        match sought(&world, HISTORY).await {
            HistorySearch::Found(found) => {
                assert_eq!((found.turn, found.hidden), (turn_id(4), hidden(7)));
                assert_eq!(found.memory_turn, Some(turn_id(4)));
            }
            other => panic!("{other:?}"),
        }
        ended(&world, 9, None, by(1, hidden(8))).await;
        assert_eq!(sought(&world, HISTORY).await, HistorySearch::Ambiguous);
        // Nothing hidden differs from something hidden.
        ended(&world, 10, None, by(2, hidden(7))).await;
        ended(&world, 11, None, by(2, None)).await;
        assert_eq!(
            sought(&world, HistoryHash([2; 32])).await,
            HistorySearch::Ambiguous
        );
    })
    .await;
}

/// Each turn's conversation and hidden half, in their order.
type TurnsBefore = &'static [(&'static str, u8)];

/// What looking for a history comes to: the number of a turn, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    To(u128),
    ToSeveral,
    ToNone,
}

#[tokio::test]
async fn turns_of_a_named_conversation_come_before_others() {
    use Comes::{To, ToNone, ToSeveral};
    // The turns, all of one history; which conversation is named; what is found.
    let cases: [(TurnsBefore, Option<&str>, Comes); 10] = [
        (&[("a", 1), ("b", 2)], None, ToSeveral),
        (&[("a", 1), ("b", 2)], Some("a"), To(1)),
        (&[("a", 1), ("b", 2)], Some("b"), To(2)),
        (&[("a", 1), ("a", 1), ("b", 2)], Some("a"), To(2)),
        (&[("a", 1), ("a", 2), ("b", 2)], Some("a"), ToSeveral),
        (&[("a", 1), ("a", 2), ("b", 2)], Some("b"), To(3)),
        // What happened elsewhere counts where nothing happened here.
        (&[("a", 1), ("b", 2)], Some("c"), ToSeveral),
        (&[("a", 1), ("b", 1)], Some("c"), To(2)),
        // Of equal ones, the one that was said here is continued.
        (&[("a", 1), ("b", 1)], Some("a"), To(1)),
        (&[], Some("a"), ToNone),
    ];
    on_each_store(async |world| {
        for (at, (turns, named, expected)) in (1..).zip(cases) {
            let name = |conversation: &str| format!("{at} {conversation}");
            let first = u128::from(at) * 100;
            for (n, (conversation, half)) in (first + 1..).zip(turns) {
                let conversation = name(conversation);
                ended_in(&world, n, None, by(at, hidden(*half)), conversation).await;
            }
            let named = named.map(name);
            let found = sought_in(&world, HistoryHash([at; 32]), named.as_deref()).await;
            let comes = match &found {
                HistorySearch::Found(found) => {
                    // Each has hidden calls of its own.
                    assert_eq!(found.memory_turn, Some(found.turn), "{at}");
                    let row = world.recovered(found.turn).await.turn;
                    assert_eq!(row.conversation, found.conversation, "{at}");
                    let mut numbers = first..first + 100;
                    let number = numbers.find(|n| turn_id(*n) == found.turn);
                    To(number.unwrap() - first)
                }
                HistorySearch::Ambiguous => ToSeveral,
                HistorySearch::Unknown => ToNone,
            };
            assert_eq!(comes, expected, "{at}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_nearest_turn_with_hidden_calls_is_told() {
    on_each_store(async |world| {
        let memory_turn = async |history: u8| match sought(&world, HistoryHash([history; 32])).await
        {
            HistorySearch::Found(found) => found.memory_turn,
            other => panic!("{other:?}"),
        };
        let one = ended(&world, 1, None, by(1, hidden(1))).await;
        assert_eq!(memory_turn(1).await, Some(one));
        let two = ended(&world, 2, Some(one), by(2, hidden(1))).await;
        let three = ended(&world, 3, Some(two), by(3, hidden(1))).await;
        assert_eq!(memory_turn(3).await, Some(one));
        let four = ended(&world, 4, Some(three), by(4, hidden(2))).await;
        assert_eq!(memory_turn(4).await, Some(four));
        let row = world.recovered(four).await.turn;
        assert_eq!((row.parent, row.memory_turn), (Some(three), Some(one)));
    })
    .await;
}

#[tokio::test]
async fn a_turn_is_found_neither_before_its_end_nor_after_it_was_erased() {
    on_each_store(async |world| {
        let new = NewTurn {
            record: RecordPolicy::Minimal,
            ..world.new_turn(1)
        };
        let turn = new.id;
        world.accept_new(new).await.unwrap();
        assert_eq!(sought(&world, HISTORY).await, HistorySearch::Unknown);
        let end = EndTurn {
            remembered: Some(by(1, hidden(1))),
            erase_after: Some(at(200)),
            ..end_turn(TurnStatus::Completed)
        };
        world
            .write_turn(turn, vec![TurnChange::EndTurn(end)])
            .await
            .unwrap();
        assert!(matches!(
            sought(&world, HISTORY).await,
            HistorySearch::Found(_)
        ));
        let erase = Change::EraseDue {
            now: at(201),
            turns_max: 9,
        };
        world.write(erase).await.unwrap();
        assert_eq!(sought(&world, HISTORY).await, HistorySearch::Unknown);
        let half = world.store.hidden_half(world.organization, turn).await;
        assert_eq!(half.unwrap(), None);
        // What continued it meanwhile goes on without it.
        let next = NewTurn {
            parent: Some(turn),
            memory_turn: Some(turn_id(99)),
            ..world.new_turn(2)
        };
        world.accept_new(next).await.unwrap();
        let row = world.recovered(turn_id(2)).await.turn;
        assert_eq!((row.parent, row.memory_turn), (Some(turn), None));
    })
    .await;
}

#[tokio::test]
async fn a_parent_is_of_the_same_organization() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let key = world.write(Change::CreateApiKey(api_key(world.stranger, 3)));
        let Outcome::ApiKey(key) = key.await.unwrap() else {
            panic!()
        };
        let foreign = NewTurn {
            organization: world.stranger,
            api_key: key,
            parent: Some(turn),
            memory_turn: Some(turn),
            ..world.new_turn(2)
        };
        let id = foreign.id;
        world.accept_new(foreign).await.unwrap();
        let found = world.store.turn_for_recovery(world.stranger, id).await;
        let row = found.unwrap().unwrap().turn;
        assert_eq!((row.parent, row.memory_turn), (None, None));
    })
    .await;
}
