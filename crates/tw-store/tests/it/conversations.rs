//! Conversations: who sees what of them, and what is left of deleted ones.

use tw_core::call::CallRunner;
use tw_core::change::{
    Change, ClaimTurn, DeleteConversation, EndTurn, EventFlush, NewCall, NewMessage, NewTurn,
    OpenAttempt, Outcome, TurnChange,
};
use tw_core::id::{ApiKeyId, TurnId};
use tw_core::memory::{HistoryHash, RememberedHash};
use tw_core::tenant::TurnOwner;
use tw_core::time::Timestamp;
use tw_core::turn_policy::Surface;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::chain::{ChainFound, ChainRoom};
use tw_store::read::conversations::{ConversationRow, ConversationTurns, ListOrder, TurnsWanted};
use tw_store::read::memory::{HistorySearch, HistoryWanted, RecallRoom};
use tw_store::read::recall::{AnsweredTurn, HandedSent};
use tw_store::read::requests::RepeatSent;
use tw_store::read::view::ResultDetail;

use crate::world::{
    StoreWorld, api_key, at, call_ref, completed, end_turn, flush, message, model_attempt,
    on_each_store, pending_call, turn_id,
};

/// Everybody's of the organization.
pub const ALL: TurnOwner = TurnOwner {
    api_key: None,
    end_user: None,
};

pub async fn another_key(world: &StoreWorld) -> ApiKeyId {
    let made = world.write(Change::CreateApiKey(api_key(world.organization, 2)));
    match made.await.unwrap() {
        Outcome::ApiKey(key) => key,
        other => panic!("{other:?}"),
    }
}

async fn delete(
    world: &StoreWorld,
    conversation: &str,
    whose: TurnOwner,
    at: Timestamp,
) -> Outcome {
    let delete = DeleteConversation {
        organization: world.organization,
        conversation: conversation.to_owned(),
        whose,
        at,
    };
    world
        .write(Change::DeleteConversation(delete))
        .await
        .unwrap()
}

async fn delete_turn(world: &StoreWorld, turn: TurnId, at: Timestamp) -> Outcome {
    let delete = Change::DeleteTurn {
        organization: world.organization,
        turn,
        at,
    };
    world.write(delete).await.unwrap()
}

/// A turn in the conversation `c` with a call of ours and one of the client's, which ran.
async fn began(world: &StoreWorld, n: u128) -> TurnId {
    let new = NewTurn {
        conversation: "c".to_owned(),
        conversation_named: true,
        idempotency_key: Some(format!("key {n}")),
        body_hash: [u8::try_from(n).unwrap(); 32],
        ..world.new_turn(n)
    };
    let turn = new.id;
    let (ours, theirs) = (call_ref(1, 0), call_ref(1, 1));
    let client = NewCall {
        runs: CallRunner::Client,
        effect: None,
        ..pending_call(turn, theirs)
    };
    let first = vec![
        TurnChange::AddCall(Box::new(pending_call(turn, ours))),
        TurnChange::AddCall(Box::new(client)),
        TurnChange::StartCall {
            call: ours,
            at: at(6),
        },
        TurnChange::EndCall {
            call: ours,
            end: completed(),
            at: at(7),
        },
        TurnChange::AppendEvents(flush(1, 3)),
    ];
    world.accept_with(new, first).await.unwrap();
    turn
}

async fn end(world: &StoreWorld, turn: TurnId) {
    let end = EndTurn {
        remembered: Some(RememberedHash {
            history: HISTORY,
            hidden: None,
        }),
        ..end_turn(TurnStatus::Completed)
    };
    world
        .write_turn(turn, vec![TurnChange::EndTurn(end)])
        .await
        .unwrap();
}

const HISTORY: HistoryHash = HistoryHash([9; 32]);

/// Whether more is told of a turn than which tools ran.
fn tells(turns: &[AnsweredTurn]) -> bool {
    turns.iter().any(|turn| {
        let of_calls = turn.calls.iter().any(|row| {
            let end = row.call.end.as_ref();
            !row.call.arguments.is_empty() || end.is_some_and(|end| !end.shown.is_empty())
        });
        let of_handed = turn.handed.iter().any(|row| row.message.is_some());
        !turn.is_deleted || !turn.messages.is_empty() || of_calls || of_handed
    })
}

/// Whether each way to a turn finds it.
async fn ways(world: &StoreWorld, turn: TurnId) -> Vec<(&'static str, bool)> {
    let (store, organization) = (&world.store, world.organization);
    let view = store
        .turn_view(organization, turn, ResultDetail::Full)
        .await;
    let body = store.turn_body(organization, turn).await;
    let context = store.turn_context(organization, turn).await;
    let log = store.events_after(organization, turn, 0, 9).await;
    let row = store.conversation(organization, "c".to_owned(), ALL).await;
    let listed = store.conversations(organization, ALL, None, 9).await;
    let wanted = TurnsWanted {
        order: ListOrder::OldestFirst,
        after: None,
        turns_max: 9,
    };
    let turns = store.conversation_turns(organization, "c".to_owned(), ALL, wanted);
    let room = RecallRoom {
        tools: vec!["mail".to_owned()],
        bytes_max: 1_000_000,
    };
    let history = HistoryWanted {
        api_key: world.key,
        history: HISTORY,
        conversation: Some("c".to_owned()),
    };
    let history = store.turn_by_history(organization, history, Some(room.clone()));
    let remembered = store.remembered(organization, turn, room).await;
    let sent = HandedSent {
        api_key: world.key,
        calls: vec![pending_call(turn, call_ref(1, 1)).id],
        bytes_max: 1_000_000,
    };
    let handed = store.answered_turns(organization, sent).await;
    let repeat = store.repeat_state(organization, turn).await;
    let kept = store.turn_with_context(organization, turn).await;
    let of_call = store.turn_of_call(organization, pending_call(turn, call_ref(1, 1)).id);
    let room = ChainRoom {
        turns_max: 9,
        bytes_max: 1_000_000,
    };
    let chain = store.chain(organization, turn, room).await;
    vec![
        ("kept", kept.unwrap().is_some()),
        ("of call", of_call.await.unwrap() == Some(turn)),
        ("chain", matches!(chain.unwrap(), ChainFound::Turns(_))),
        ("view", view.unwrap().is_some()),
        ("body", body.unwrap().is_some()),
        ("context", context.unwrap().is_some()),
        ("log", !log.unwrap().unwrap().deleted),
        ("conversation", row.unwrap().is_some()),
        ("list", !listed.unwrap().unwrap().items.is_empty()),
        (
            "turns",
            turns.await.unwrap() != ConversationTurns::NoConversation,
        ),
        (
            "history",
            matches!(history.await.unwrap().0, HistorySearch::Found(_)),
        ),
        ("remembered", !remembered.unwrap().is_empty()),
        ("handed", tells(&handed.unwrap())),
        ("repeat", !repeat.unwrap().unwrap().deleted),
    ]
}

#[tokio::test]
async fn no_way_leads_to_a_deleted_turn_and_its_contents_go_at_once() {
    on_each_store(async |world| {
        let turn = began(&world, 1).await;
        end(&world, turn).await;
        let found = ways(&world, turn).await;
        assert!(found.iter().all(|(_, is_found)| *is_found), "{found:?}");
        let deleted = delete(&world, "c", ALL, at(200)).await;
        let running = Vec::new();
        assert_eq!(deleted, Outcome::Deleted { running });
        let found = ways(&world, turn).await;
        assert!(!found.iter().any(|(_, is_found)| *is_found), "{found:?}");
        assert_eq!(delete(&world, "c", ALL, at(201)).await, Outcome::Already);
        assert_eq!(delete_turn(&world, turn, at(201)).await, Outcome::Already);
        let row = world.recovered(turn).await.turn;
        assert_eq!((row.deleted, row.erased), (Some(at(200)), None));
        // What decided it and what erases it may be two processes.
        let erase = Change::EraseDue {
            now: at(200),
            turns_max: 9,
        };
        assert_eq!(world.write(erase).await.unwrap(), Outcome::Count(1));
        let found = world.recovered(turn).await;
        assert!(found.body.is_empty() && found.events.is_empty());
        assert_eq!(found.turn.erased, Some(at(200)));
    })
    .await;
}

#[tokio::test]
async fn one_turn_is_deleted_and_its_conversation_stays() {
    on_each_store(async |world| {
        let other = NewTurn {
            conversation: "c".to_owned(),
            ..world.new_turn(2)
        };
        let other_turn = other.id;
        let first = vec![TurnChange::AppendEvents(flush(1, 1))];
        world.accept_with(other, first).await.unwrap();
        let stranger = Change::DeleteTurn {
            organization: world.stranger,
            turn: other_turn,
            at: at(9),
        };
        assert_eq!(world.write(stranger).await.unwrap(), Outcome::Already);
        let turn = began(&world, 1).await;
        let running = vec![turn];
        let deleted = delete_turn(&world, turn, at(50)).await;
        assert_eq!(deleted, Outcome::Deleted { running });
        let row = world.recovered(turn).await.turn;
        assert_eq!(
            (row.deleted, row.stop),
            (Some(at(50)), Some(TurnReason::Requested))
        );
        let still = ["conversation", "list", "turns"];
        for (way, is_found) in ways(&world, turn).await {
            assert_eq!(is_found, still.contains(&way), "{way}");
        }
        assert_eq!(delete_turn(&world, turn, at(51)).await, Outcome::Already);
        let row = world.recovered(other_turn).await.turn;
        assert_eq!(row.deleted, None);
    })
    .await;
}

#[tokio::test]
async fn a_running_turn_is_told_to_stop_and_leaves_nothing() {
    on_each_store(async |world| {
        let turn = began(&world, 1).await;
        let deleted = delete(&world, "c", ALL, at(50)).await;
        let running = vec![turn];
        assert_eq!(deleted, Outcome::Deleted { running });
        let row = world.recovered(turn).await.turn;
        assert_eq!(
            (row.status, row.stop),
            (TurnStatus::Running, Some(TurnReason::Requested))
        );
        let erase = async |now| {
            let change = Change::EraseDue { now, turns_max: 9 };
            world.write(change).await.unwrap()
        };
        assert_eq!(erase(at(60)).await, Outcome::Count(0));
        // Another process takes it over and ends it.
        let claim = Change::ClaimTurn(ClaimTurn {
            organization: world.organization,
            turn,
            owner: "boot 2".to_owned(),
            at: at(70),
        });
        world.write(claim).await.unwrap();
        let ended = EndTurn {
            remembered: Some(RememberedHash {
                history: HISTORY,
                hidden: None,
            }),
            ..end_turn(TurnStatus::Completed)
        };
        let ended = vec![TurnChange::EndTurn(ended)];
        let written = world.store.apply_to_turn(world.fence(turn, 2), ended);
        written.await.unwrap();
        let found = ways(&world, turn).await;
        assert!(!found.iter().any(|(_, is_found)| *is_found), "{found:?}");
        assert_eq!(erase(at(99)).await, Outcome::Count(0));
        assert_eq!(erase(at(100)).await, Outcome::Count(1));
    })
    .await;
}

#[tokio::test]
async fn nothing_is_accepted_that_continues_a_deleted_turn() {
    on_each_store(async |world| {
        let turn = began(&world, 1).await;
        end(&world, turn).await;
        delete(&world, "c", ALL, at(200)).await;
        for (n, parent, memory_turn) in [(2, Some(turn), None), (3, None, Some(turn))] {
            let next = NewTurn {
                parent,
                memory_turn,
                idempotency_key: Some("next".to_owned()),
                ..world.new_turn(n)
            };
            let id = next.id;
            let first = vec![TurnChange::AppendEvents(flush(1, 1))];
            let outcomes = world.accept_with(next, first).await.unwrap();
            assert_eq!(outcomes, [Outcome::ParentDeleted]);
            let found = world.store.turn_for_recovery(world.organization, id).await;
            assert_eq!(found.unwrap(), None);
        }
    })
    .await;
}

#[tokio::test]
async fn a_repetition_finds_that_it_was_deleted_by_key_and_by_its_looks() {
    on_each_store(async |world| {
        let turn = began(&world, 1).await;
        end(&world, turn).await;
        delete(&world, "c", ALL, at(200)).await;
        let sent = RepeatSent {
            api_key: world.key,
            surface: Surface::ChatCompletions,
            end_user: None,
            conversation: Some("c".to_owned()),
            body_hash: [1; 32],
            accepted_since: at(0),
            since: at(0),
            effects_since: at(0),
        };
        let found = world
            .store
            .repeat_candidates(world.organization, sent)
            .await;
        let found = found.unwrap().remove(0);
        assert_eq!((found.turn, found.deleted), (turn, true));
        assert!(found.dispatched_effects);
    })
    .await;
}

#[tokio::test]
async fn a_name_that_was_deleted_begins_anew() {
    on_each_store(async |world| {
        let first = began(&world, 1).await;
        end(&world, first).await;
        delete(&world, "c", ALL, at(200)).await;
        began(&world, 20).await;
        let row = world
            .store
            .conversation(world.organization, "c".to_owned(), ALL);
        let anew = ConversationRow {
            id: "c".to_owned(),
            turns: 1,
            created: at(20),
            active: at(20),
            made: None,
        };
        assert_eq!(row.await.unwrap(), Some(anew));
    })
    .await;
}

#[tokio::test]
async fn a_conversation_was_active_when_its_running_turn_last_wrote_anything() {
    on_each_store(async |world| {
        let turn = began(&world, 1).await;
        let call = call_ref(2, 0);
        let writes = [
            TurnChange::OpenAttempt(OpenAttempt {
                at: at(20),
                ..model_attempt(2, 1)
            }),
            TurnChange::AddMessage(NewMessage {
                at: at(21),
                ..message(2, 0)
            }),
            TurnChange::AddCall(Box::new(NewCall {
                at: at(22),
                ..pending_call(turn, call)
            })),
            TurnChange::AppendEvents(EventFlush {
                at: at(23),
                ..flush(4, 1)
            }),
            TurnChange::StartCall { call, at: at(24) },
            TurnChange::NoteStop {
                reason: TurnReason::Requested,
                at: at(25),
            },
        ];
        for (time, write) in (20..).zip(writes) {
            world.write_turn(turn, vec![write]).await.unwrap();
            let row = world
                .store
                .conversation(world.organization, "c".to_owned(), ALL);
            let row = row.await.unwrap();
            assert_eq!(row.map(|row| row.active), Some(at(time)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_of_turns_ends_where_it_grows_too_large() {
    on_each_store(async |world| {
        for n in 1..4 {
            let new = NewTurn {
                conversation: "c".to_owned(),
                ..world.new_turn(n)
            };
            let turn = new.id;
            let large = NewCall {
                arguments: "x".repeat(3 * 1024 * 1024),
                ..pending_call(turn, call_ref(1, 0))
            };
            let first = vec![TurnChange::AddCall(Box::new(large))];
            world.accept_with(new, first).await.unwrap();
        }
        let pages = async |after| {
            let wanted = TurnsWanted {
                order: ListOrder::OldestFirst,
                after,
                turns_max: 100,
            };
            let name = "c".to_owned();
            let found = world
                .store
                .conversation_turns(world.organization, name, ALL, wanted);
            match found.await.unwrap() {
                ConversationTurns::Page(page) => {
                    let ids: Vec<TurnId> = page.items.iter().map(|view| view.turn.id).collect();
                    (ids, page.has_more)
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(pages(None).await, (vec![turn_id(1), turn_id(2)], true));
        assert_eq!(pages(Some(turn_id(2))).await, (vec![turn_id(3)], false));
        assert_eq!(pages(Some(turn_id(3))).await, (vec![], false));
    })
    .await;
}

#[tokio::test]
async fn another_organization_neither_finds_nor_deletes() {
    on_each_store(async |world| {
        let turn = began(&world, 1).await;
        let delete = DeleteConversation {
            organization: world.stranger,
            conversation: "c".to_owned(),
            whose: ALL,
            at: at(9),
        };
        let delete = Change::DeleteConversation(delete);
        assert_eq!(world.write(delete).await.unwrap(), Outcome::Already);
        let (store, stranger) = (&world.store, world.stranger);
        let row = store.conversation(stranger, "c".to_owned(), ALL).await;
        assert_eq!(row.unwrap(), None);
        let after = Some("c".to_owned());
        assert_eq!(
            store.conversations(stranger, ALL, after, 9).await.unwrap(),
            None
        );
        assert_eq!(world.recovered(turn).await.turn.deleted, None);
    })
    .await;
}
