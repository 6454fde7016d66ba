use tw_core::call::CallEnd;
use tw_core::change::{AttemptOutcome, CloseAttempt, NewTurn, OpenAttempt, TurnChange};
use tw_core::id::{OrgId, TurnId};
use tw_core::tenant::TurnOwner;
use tw_store::read::requests::RepeatSent;
use tw_store::read::view::ResultDetail;

use crate::repeats::{key_sent, repeat_sent};
use crate::world::{
    StoreWorld, at, call_ref, completed, message, model_attempt, on_each_store, pending_call,
    turn_id, usage,
};

/// A turn of two rounds, with a tool call in the first.
async fn one_tool_turn(world: &StoreWorld, n: u128) -> TurnId {
    let turn = world.accept(n).await;
    let call = call_ref(1, 0);
    let close = CloseAttempt {
        round: 1,
        position: None,
        n: 1,
        outcome: AttemptOutcome::Ok,
        http_status: Some(200),
        usage: Some(usage()),
        at: at(5),
    };
    let changes = vec![
        TurnChange::OpenAttempt(model_attempt(1, 1)),
        TurnChange::CloseAttempt(close),
        TurnChange::AddMessage(message(1, 0)),
        TurnChange::AddCall(Box::new(pending_call(turn, call))),
        TurnChange::StartCall { call, at: at(6) },
        TurnChange::OpenAttempt(OpenAttempt {
            position: Some(0),
            ..model_attempt(1, 1)
        }),
        TurnChange::EndCall {
            call,
            end: completed(),
            at: at(7),
        },
        TurnChange::OpenAttempt(model_attempt(2, 1)),
        TurnChange::AddMessage(message(2, 0)),
    ];
    world.write_turn(turn, changes).await.unwrap();
    turn
}

#[tokio::test]
async fn a_view_shows_rounds_and_full_results_only_if_asked() {
    on_each_store(async |world| {
        let turn = one_tool_turn(&world, 1).await;
        let view = async |detail| {
            world
                .store
                .turn_view(world.organization, turn, detail)
                .await
                .unwrap()
                .unwrap()
        };
        let shown = view(ResultDetail::Shown).await;
        assert_eq!((shown.turn.id, shown.turn.api_key), (turn, world.key));
        assert_eq!(shown.input, [message(0, 0)]);
        let [first, second] = &shown.rounds[..] else {
            panic!("{:?}", shown.rounds)
        };
        assert_eq!((first.round, second.round), (1, 2));
        assert_eq!(
            (&first.messages[..], &second.messages[..]),
            (&[message(1, 0)][..], &[message(2, 0)][..])
        );
        assert_eq!(first.attempts[0].end.as_ref().unwrap().usage, Some(usage()));
        assert_eq!(
            (second.attempts[0].end.is_none(), second.calls.len()),
            (true, 0)
        );
        let [call] = &first.calls[..] else {
            panic!("{:?}", first.calls)
        };
        assert_eq!(
            (call.attempts.len(), call.arguments.as_str()),
            (1, "{\"to\": \"a\"")
        );
        assert_eq!((call.started, call.ended), (Some(at(6)), Some(at(7))));
        assert_eq!(
            call.end,
            Some(CallEnd {
                result: None,
                ..completed()
            })
        );
        let full = view(ResultDetail::Full).await;
        assert_eq!(full.rounds[0].calls[0].end, Some(completed()));
    })
    .await;
}

#[tokio::test]
async fn a_view_of_a_fresh_turn_has_no_rounds() {
    on_each_store(async |world| {
        let new = NewTurn {
            messages: Vec::new(),
            ..world.new_turn(1)
        };
        let turn = new.id;
        world.accept_new(new).await.unwrap();
        let view = world
            .store
            .turn_view(world.organization, turn, ResultDetail::Full)
            .await
            .unwrap()
            .unwrap();
        assert!(view.input.is_empty() && view.rounds.is_empty());
    })
    .await;
}

#[tokio::test]
async fn another_organization_finds_no_turn_and_nor_do_unknown_ids() {
    on_each_store(async |world| {
        let turn = one_tool_turn(&world, 1).await;
        let store = &world.store;
        let absent = [
            (world.stranger, turn),
            (OrgId(99), turn),
            (world.organization, turn_id(9)),
        ];
        for (organization, turn) in absent {
            assert_eq!(
                store.turn_for_recovery(organization, turn).await.unwrap(),
                None
            );
            assert_eq!(
                store.turn_for_recovery_now(organization, turn).unwrap(),
                None
            );
            assert_eq!(
                store
                    .turn_view(organization, turn, ResultDetail::Full)
                    .await
                    .unwrap(),
                None
            );
            assert_eq!(store.turn_status(organization, turn).await.unwrap(), None);
            assert_eq!(store.repeat_state(organization, turn).await.unwrap(), None);
            assert_eq!(
                store.events_after(organization, turn, 0, 9).await.unwrap(),
                None
            );
            assert_eq!(
                store.events_after_now(organization, turn, 0, 9).unwrap(),
                None
            );
        }
    })
    .await;
}

#[tokio::test]
async fn another_organization_finds_no_request() {
    on_each_store(async |world| {
        let user = Some("ann".to_owned());
        let key = Some("key".to_owned());
        let new = NewTurn {
            idempotency_key: key,
            end_user: user.clone(),
            ..world.new_turn(1)
        };
        world.accept_new(new).await.unwrap();
        let store = &world.store;
        let sent = RepeatSent {
            end_user: user,
            ..repeat_sent(&world)
        };
        for (organization, is_own) in [
            (world.organization, true),
            (world.stranger, false),
            (OrgId(99), false),
        ] {
            let keyed = store
                .request_key(organization, key_sent(&world))
                .await
                .unwrap();
            let repeated = store
                .repeat_candidates(organization, sent.clone())
                .await
                .unwrap();
            assert_eq!((keyed.is_some(), !repeated.is_empty()), (is_own, is_own));
        }
    })
    .await;
}

/// Not every database can hold it.
#[tokio::test]
async fn nul_in_a_text_is_stored_as_something_visible_and_found_by_either() {
    on_each_store(async |world| {
        let mut new = world.new_turn(1);
        new.model = "m\0odel".to_owned();
        new.conversation = "a\0b".to_owned();
        let turn = new.id;
        world.accept_new(new).await.unwrap();
        let found = world.recovered(turn).await;
        assert_eq!(found.turn.model, "m\u{fffd}odel");
        let whose = TurnOwner {
            api_key: None,
            end_user: None,
        };
        for name in ["a\0b", "a\u{fffd}b"] {
            let found = world
                .store
                .conversation(world.organization, name.to_owned(), whose.clone())
                .await;
            assert_eq!(found.unwrap().unwrap().id, "a\u{fffd}b");
        }
    })
    .await;
}
