use tw_core::call::{CallEnd, CallReason, CallRunner, CallStatus};
use tw_core::change::{AttemptOutcome, CloseAttempt, NewCall, OpenAttempt, Outcome, TurnChange};
use tw_core::definition::SensitiveCall;
use tw_core::id::CallId;
use tw_core::tool::EffectClass;
use tw_store::apply::StoreApplyError;
use tw_store::read::turn::AttemptEnd;

use crate::world::{
    at, call_ref, completed, failed, model_attempt, on_each_store, pending_call, usage,
};

#[tokio::test]
async fn attempts_open_and_close_once() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let close = |position, n, outcome| {
            let close = CloseAttempt {
                round: 1,
                position,
                n,
                outcome,
                http_status: Some(503),
                usage: Some(usage()),
                at: at(9),
            };
            TurnChange::CloseAttempt(close)
        };
        let of_call = OpenAttempt {
            position: Some(0),
            upstream: None,
            ..model_attempt(1, 1)
        };
        let open = vec![
            TurnChange::OpenAttempt(model_attempt(1, 1)),
            TurnChange::OpenAttempt(of_call),
        ];
        world.write_turn(turn, open).await.unwrap();
        let failed = AttemptOutcome::Failed("status".to_owned());
        world
            .write_turn(turn, vec![close(None, 1, failed.clone())])
            .await
            .unwrap();
        for again in [
            close(None, 1, AttemptOutcome::Ok),
            close(None, 2, AttemptOutcome::Ok),
        ] {
            let refused = world.write_turn(turn, vec![again]).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Guard { .. })),
                "{refused:?}"
            );
        }
        let twice = world
            .write_turn(turn, vec![TurnChange::OpenAttempt(model_attempt(1, 1))])
            .await;
        assert!(
            matches!(twice, Err(StoreApplyError::Conflict { .. })),
            "{twice:?}"
        );
        let found = world.recovered(turn).await;
        let [model, call] = &found.attempts[..] else {
            panic!("{:?}", found.attempts)
        };
        assert_eq!((model.round, model.position, model.n), (1, None, 1));
        let end = AttemptEnd {
            cost_microusd: None,
            outcome: failed,
            http_status: Some(503),
            usage: Some(usage()),
            at: at(9),
        };
        assert_eq!(
            (model.upstream.as_deref(), model.started, &model.end),
            (Some("main"), at(4), &Some(end))
        );
        assert_eq!(
            (call.position, &call.upstream, &call.end),
            (Some(0), &None, &None)
        );
    })
    .await;
}

#[tokio::test]
async fn each_outcome_of_an_attempt_comes_back() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let outcomes = [
            AttemptOutcome::Ok,
            AttemptOutcome::Cancelled,
            AttemptOutcome::Interrupted,
        ];
        for (n, outcome) in (1..).zip(&outcomes) {
            let (outcome, http_status, usage) = (outcome.clone(), None, None);
            let close = CloseAttempt {
                round: 1,
                position: None,
                n,
                outcome,
                http_status,
                usage,
                at: at(9),
            };
            let both = vec![
                TurnChange::OpenAttempt(model_attempt(1, n)),
                TurnChange::CloseAttempt(close),
            ];
            world.write_turn(turn, both).await.unwrap();
        }
        let found = world.recovered(turn).await;
        let read: Vec<_> = found
            .attempts
            .into_iter()
            .map(|attempt| attempt.end.unwrap().outcome)
            .collect();
        assert_eq!(read, outcomes);
    })
    .await;
}

#[tokio::test]
async fn a_call_goes_from_pending_to_its_end() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let call = call_ref(1, 0);
        let new = pending_call(turn, call);
        world
            .write_turn(turn, vec![TurnChange::AddCall(Box::new(new.clone()))])
            .await
            .unwrap();
        let read = async || {
            let found = world.recovered(turn).await;
            found.calls.into_iter().next().unwrap()
        };
        let row = read().await;
        assert_eq!(
            (row.call, row.started, row.ended),
            (new.clone(), None, None)
        );
        world
            .write_turn(turn, vec![TurnChange::StartCall { call, at: at(6) }])
            .await
            .unwrap();
        let row = read().await;
        assert_eq!(
            (row.call.status, row.started),
            (CallStatus::Processing, Some(at(6)))
        );
        world
            .write_turn(
                turn,
                vec![TurnChange::EndCall {
                    call,
                    end: completed(),
                    at: at(7),
                }],
            )
            .await
            .unwrap();
        let row = read().await;
        assert_eq!(
            row.call,
            NewCall {
                status: CallStatus::Completed,
                end: Some(completed()),
                ..new
            }
        );
        assert_eq!((row.started, row.ended), (Some(at(6)), Some(at(7))));
    })
    .await;
}

#[tokio::test]
async fn a_final_call_stays_as_it_is() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let call = call_ref(1, 0);
        let end = |end| TurnChange::EndCall {
            call,
            end,
            at: at(7),
        };
        let first = vec![
            TurnChange::AddCall(Box::new(pending_call(turn, call))),
            end(failed(CallReason::OutcomeUnknown)),
        ];
        world.write_turn(turn, first).await.unwrap();
        let again = [
            end(completed()),
            end(failed(CallReason::Timeout)),
            TurnChange::StartCall { call, at: at(8) },
        ];
        let end = failed(CallReason::OutcomeUnknown);
        for change in again {
            let outcomes = world.write_turn(turn, vec![change]).await.unwrap();
            let end = end.clone();
            assert_eq!(outcomes, [Outcome::CallEnded { call, end }]);
        }
        let found = world.recovered(turn).await;
        assert_eq!(found.calls[0].call.end, Some(end));
    })
    .await;
}

#[tokio::test]
async fn a_call_starts_once_and_only_if_it_is_there() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let call = call_ref(1, 0);
        world
            .write_turn(
                turn,
                vec![TurnChange::AddCall(Box::new(pending_call(turn, call)))],
            )
            .await
            .unwrap();
        world
            .write_turn(turn, vec![TurnChange::StartCall { call, at: at(6) }])
            .await
            .unwrap();
        let absent = call_ref(1, 1);
        let refused = [
            TurnChange::StartCall { call, at: at(8) },
            TurnChange::StartCall {
                call: absent,
                at: at(8),
            },
            TurnChange::EndCall {
                call: absent,
                end: completed(),
                at: at(8),
            },
        ];
        for change in refused {
            let refused = world.write_turn(turn, vec![change]).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Guard { .. })),
                "{refused:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_sensitive_in_a_call_is_kept_with_it() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let sensitive = SensitiveCall {
            arguments: "{\"to\":\"***\"}".to_owned(),
            hidden: vec!["a \"name\"".to_owned()],
        };
        let calls = [Some(sensitive), None].map(|sensitive| NewCall {
            call: call_ref(1, u32::from(sensitive.is_none())),
            id: CallId(uuid::Uuid::from_u128(u128::from(sensitive.is_none()))),
            idempotency_key: format!("{sensitive:?}"),
            callback_token: Some(format!("{sensitive:?}")),
            sensitive,
            ..pending_call(turn, call_ref(1, 0))
        });
        let add = |call: &NewCall| TurnChange::AddCall(Box::new(call.clone()));
        world
            .write_turn(turn, calls.iter().map(add).collect())
            .await
            .unwrap();
        let found = world.recovered(turn).await;
        let found: Vec<_> = found.calls.into_iter().map(|row| row.call).collect();
        assert_eq!(found, calls);
    })
    .await;
}

#[tokio::test]
async fn an_answer_from_the_cache_is_told_from_one_that_was_sent_for() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let end = |cached| CallEnd {
            cached,
            ..completed()
        };
        let mut changes = Vec::new();
        // Born with its end, and ended later.
        for (position, cached) in [(0, true), (1, false)] {
            let new = NewCall {
                status: CallStatus::Completed,
                end: Some(end(cached)),
                ..pending_call(turn, call_ref(1, position))
            };
            changes.push(TurnChange::AddCall(Box::new(new)));
            let call = call_ref(2, position);
            let end = end(cached);
            changes.push(TurnChange::AddCall(Box::new(pending_call(turn, call))));
            changes.push(TurnChange::EndCall {
                call,
                end,
                at: at(7),
            });
        }
        world.write_turn(turn, changes).await.unwrap();
        let found = world.recovered(turn).await;
        let ends: Vec<_> = found.calls.into_iter().map(|row| row.call.end).collect();
        let each = [Some(end(true)), Some(end(false))];
        assert_eq!(ends, [each.clone(), each].concat());
    })
    .await;
}

/// Other ways to come into being than having failed at once.
fn states() -> [(CallRunner, Option<EffectClass>, CallStatus, Option<CallEnd>); 5] {
    [
        (
            CallRunner::Client,
            None,
            CallStatus::Completed,
            Some(completed()),
        ),
        (CallRunner::Outside, None, CallStatus::Pending, None),
        (
            CallRunner::Server,
            Some(EffectClass::Read),
            CallStatus::Processing,
            None,
        ),
        (
            CallRunner::Server,
            Some(EffectClass::Idempotent),
            CallStatus::Pending,
            None,
        ),
        (
            CallRunner::Server,
            Some(EffectClass::Queryable),
            CallStatus::Pending,
            None,
        ),
    ]
}

#[tokio::test]
async fn a_call_may_be_born_in_any_state_with_its_words() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let mut calls = Vec::new();
        for (position, reason) in (0..).zip(CallReason::ALL) {
            let new = pending_call(turn, call_ref(1, position));
            calls.push(NewCall {
                status: CallStatus::Failed,
                end: Some(failed(reason)),
                ..new
            });
        }
        for (position, (runs, effect, status, end)) in (0..).zip(states()) {
            calls.push(NewCall {
                runs,
                effect,
                status,
                end,
                ..pending_call(turn, call_ref(2, position))
            });
        }
        let changes = calls
            .iter()
            .cloned()
            .map(|call| TurnChange::AddCall(Box::new(call)))
            .collect();
        world.write_turn(turn, changes).await.unwrap();
        let found = world.recovered(turn).await;
        let started: Vec<_> = found
            .calls
            .iter()
            .filter(|row| row.started.is_some())
            .map(|row| row.call.status)
            .collect();
        assert_eq!(started, [CallStatus::Processing]);
        assert_eq!(
            found
                .calls
                .into_iter()
                .map(|row| row.call)
                .collect::<Vec<_>>(),
            calls
        );
    })
    .await;
}

#[tokio::test]
async fn a_status_that_contradicts_its_end_is_refused() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        for (status, end) in [
            (CallStatus::Completed, None),
            (CallStatus::Pending, Some(completed())),
            (CallStatus::Failed, Some(completed())),
        ] {
            let new = NewCall {
                status,
                end,
                ..pending_call(turn, call_ref(1, 0))
            };
            let refused = world
                .write_turn(turn, vec![TurnChange::AddCall(Box::new(new))])
                .await;
            assert!(
                matches!(refused, Err(StoreApplyError::Guard { .. })),
                "{refused:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_place_an_id_and_a_token_are_used_once() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let first = pending_call(turn, call_ref(1, 0));
        world
            .write_turn(turn, vec![TurnChange::AddCall(Box::new(first.clone()))])
            .await
            .unwrap();
        let other = pending_call(turn, call_ref(1, 1));
        let clashes = [
            NewCall {
                call: first.call,
                ..other.clone()
            },
            NewCall {
                id: first.id,
                ..other.clone()
            },
            NewCall {
                callback_token: first.callback_token.clone(),
                ..other.clone()
            },
        ];
        for clash in clashes {
            let refused = world
                .write_turn(turn, vec![TurnChange::AddCall(Box::new(clash))])
                .await;
            assert!(
                matches!(refused, Err(StoreApplyError::Conflict { .. })),
                "{refused:?}"
            );
        }
        // The upstream's own id may come again.
        let added = world
            .write_turn(turn, vec![TurnChange::AddCall(Box::new(other))])
            .await
            .unwrap();
        assert_eq!(added, [Outcome::Done]);
    })
    .await;
}
