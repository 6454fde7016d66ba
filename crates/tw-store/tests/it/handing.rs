//! Calls that clients run: made open, handed over, and found again by the ids under which they were.

use std::sync::Arc;

use tw_core::call::{CallReason, CallRunner, CallStatus};
use tw_core::change::{Change, EndTurn, HandedCall, NewCall, NewTurn, Outcome, TurnChange};
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::recall::SentMessage;
use tw_core::turn_policy::RecordPolicy;
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::read::recall::{AnsweredTurn, HandedRow, HandedSent};

use crate::world::{
    StoreWorld, api_key, at, call_ref, completed, end_turn, failed, message, on_each_store, origin,
    pending_call,
};

const PLENTY: usize = 1 << 20;

fn client_call(turn: TurnId, position: u32) -> NewCall {
    NewCall {
        runs: CallRunner::Client,
        effect: None,
        tool_name: String::new(),
        tool_call_id: String::new(),
        arguments: String::new(),
        ..pending_call(turn, call_ref(1, position))
    }
}

fn handed(position: u32) -> HandedCall {
    HandedCall {
        call: call_ref(1, position),
        tool_name: "pick".to_owned(),
        tool_call_id: format!("up {position}"),
        arguments: "[broken".to_owned(),
        at: at(9),
    }
}

fn hand_over(position: u32) -> TurnChange {
    TurnChange::HandOverCall(Box::new(handed(position)))
}

#[tokio::test]
async fn a_call_is_handed_over_as_written_and_for_good() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let make = vec![
            TurnChange::AddCall(Box::new(client_call(turn, 0))),
            TurnChange::AddCall(Box::new(pending_call(turn, call_ref(1, 1)))),
        ];
        world.write_turn(turn, make).await.unwrap();
        world.write_turn(turn, vec![hand_over(0)]).await.unwrap();
        let row = world.recovered(turn).await.calls.remove(0);
        let expected = NewCall {
            tool_name: "pick".to_owned(),
            tool_call_id: "up 0".to_owned(),
            arguments: "[broken".to_owned(),
            status: CallStatus::Completed,
            end: row.call.end.clone(),
            ..client_call(turn, 0)
        };
        assert_eq!(row.call, expected);
        assert_eq!(row.ended, Some(at(9)));
        let end = row.call.end.unwrap();
        assert_eq!(
            (end.reason, end.shown.as_str(), end.is_error),
            (None, "", false)
        );
        // Neither twice, nor one of ours, nor one that is not there, nor one that has failed.
        world
            .write_turn(
                turn,
                vec![TurnChange::AddCall(Box::new(client_call(turn, 3)))],
            )
            .await
            .unwrap();
        let fail = TurnChange::EndCall {
            call: call_ref(1, 3),
            end: failed(CallReason::Interrupted),
            at: at(8),
        };
        world.write_turn(turn, vec![fail]).await.unwrap();
        for position in 0..4 {
            let refused = world.write_turn(turn, vec![hand_over(position)]).await;
            let has_ended = [0, 3].contains(&position);
            let fits = match &refused {
                Ok(outcomes) => has_ended && matches!(outcomes[..], [Outcome::CallEnded { .. }]),
                Err(error) => !has_ended && matches!(error, StoreApplyError::Guard { .. }),
            };
            assert!(fits, "{position}: {refused:?}");
        }
    })
    .await;
}

/// A turn that ran a call of ours and handed one over.
async fn mixed_turn(world: &StoreWorld, n: u128, record: RecordPolicy) -> (TurnId, CallId) {
    let new = NewTurn {
        record,
        ..world.new_turn(n)
    };
    let turn = new.id;
    world.accept_new(new).await.unwrap();
    let changes = vec![
        TurnChange::AddMessage(message(1, 0)),
        TurnChange::AddCall(Box::new(client_call(turn, 0))),
        TurnChange::AddCall(Box::new(pending_call(turn, call_ref(1, 1)))),
        TurnChange::EndCall {
            call: call_ref(1, 1),
            end: completed(),
            at: at(8),
        },
        hand_over(0),
        TurnChange::EndTurn(EndTurn {
            erase_after: Some(at(200)),
            ..end_turn(TurnStatus::Completed)
        }),
    ];
    world.write_turn(turn, changes).await.unwrap();
    (turn, client_call(turn, 0).id)
}

async fn found(
    world: &StoreWorld,
    (organization, key): (OrgId, ApiKeyId),
    calls: &[CallId],
    bytes_max: usize,
) -> Vec<AnsweredTurn> {
    let sent = HandedSent {
        api_key: key,
        calls: calls.to_vec(),
        bytes_max,
    };
    world
        .store
        .answered_turns(organization, sent)
        .await
        .unwrap()
}

#[tokio::test]
async fn turns_are_found_by_the_ids_that_they_handed_over() {
    on_each_store(async |world| {
        let own = (world.organization, world.key);
        let (first, one) = mixed_turn(&world, 1, RecordPolicy::Full).await;
        let (second, two) = mixed_turn(&world, 2, RecordPolicy::Full).await;
        let plain = world.accept(3).await;
        let make = vec![TurnChange::AddCall(Box::new(client_call(plain, 0)))];
        world.write_turn(plain, make).await.unwrap();
        let three = client_call(plain, 0).id;
        let ours = pending_call(first, call_ref(1, 1)).id;
        let asked = [one, three, two, ours, CallId(uuid::Uuid::nil())];
        let turns = found(&world, own, &asked, PLENTY).await;
        let ids: Vec<TurnId> = turns.iter().map(|turn| turn.id).collect();
        assert_eq!(ids, [plain, second, first], "newest first");
        assert_eq!(
            turns[1].handed,
            [HandedRow {
                id: two,
                sent_id: "up 0".to_owned(),
                tool_name: "pick".to_owned(),
                native: None,
                behind: Vec::new(),
                message: Some(Arc::new(SentMessage::of(origin(), &[]))),
            }]
        );
        assert_eq!(turns[1].conversation, "conversation 2");
        assert_eq!(turns[1].messages.len(), 2);
        assert_eq!(turns[1].calls.len(), 2);
        assert!(!turns[1].names_only);
        assert!(turns[0].calls.is_empty(), "of a relay the ids are enough");
        // What is beyond the budget is that of the oldest.
        let turns = found(&world, own, &asked, 1).await;
        let read: Vec<_> = turns
            .iter()
            .map(|turn| (turn.names_only, turn.calls.len()))
            .collect();
        assert_eq!(read, [(false, 0), (false, 2), (true, 2)]);
        let call = &turns[2].calls[1].call;
        assert_eq!(
            (call.tool_name.as_str(), call.arguments.as_str()),
            ("mail", "")
        );
        assert_eq!(call.end.as_ref().unwrap().shown, "");
        assert!(
            turns[2]
                .messages
                .iter()
                .all(|message| message.blocks.is_empty())
        );
        assert!(found(&world, own, &[], PLENTY).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn ids_of_another_key_or_organization_are_not_found() {
    on_each_store(async |world| {
        let (_, one) = mixed_turn(&world, 1, RecordPolicy::Full).await;
        let new = api_key(world.organization, 9);
        let made = world.write(Change::CreateApiKey(new)).await.unwrap();
        let Outcome::ApiKey(other) = made else {
            panic!("{made:?}")
        };
        for whose in [
            (world.organization, other),
            (OrgId(world.organization.0 + 1), world.key),
        ] {
            assert!(found(&world, whose, &[one], PLENTY).await.is_empty());
        }
    })
    .await;
}

#[tokio::test]
async fn of_an_erased_turn_ids_and_names_are_left() {
    on_each_store(async |world| {
        let (_, one) = mixed_turn(&world, 1, RecordPolicy::Minimal).await;
        let erase = Change::EraseDue {
            now: at(i64::MAX / 4),
            turns_max: 10,
        };
        assert_eq!(world.write(erase).await.unwrap(), Outcome::Count(1));
        let own = (world.organization, world.key);
        let turn = found(&world, own, &[one], PLENTY).await.remove(0);
        assert!(turn.names_only);
        assert_eq!(turn.handed[0].sent_id, "up 0");
        assert_eq!(turn.calls[1].call.tool_name, "mail");
        assert_eq!(turn.calls[1].call.end.as_ref().unwrap().shown, "");
    })
    .await;
}

#[tokio::test]
async fn a_turn_knows_the_one_that_it_answers() {
    on_each_store(async |world| {
        let first = world.accept(1).await;
        let absent = crate::world::turn_id(77);
        for (n, parent, expected) in [
            (2, Some(first), Some(first)),
            (3, None, None),
            (4, Some(absent), None),
        ] {
            let new = NewTurn {
                parent,
                ..world.new_turn(n)
            };
            let turn = new.id;
            world.accept_new(new).await.unwrap();
            assert_eq!(world.recovered(turn).await.turn.parent, expected);
        }
    })
    .await;
}
