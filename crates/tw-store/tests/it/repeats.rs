use tw_core::call::{CallReason, CallRunner};
use tw_core::change::{Change, EndTurn, NewCall, NewTurn, TurnChange};
use tw_core::id::ApiKeyId;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::Surface;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::requests::{KeySent, RepeatRow, RepeatSent};

use crate::world::{
    StoreWorld, at, call_ref, end_turn, failed, on_each_store, pending_call, turn_id,
};

pub fn key_sent(world: &StoreWorld) -> KeySent {
    KeySent {
        api_key: world.key,
        end_user: Some("ann".to_owned()),
        surface: Surface::ChatCompletions,
        key: "key".to_owned(),
    }
}

pub fn repeat_sent(world: &StoreWorld) -> RepeatSent {
    RepeatSent {
        api_key: world.key,
        surface: Surface::ChatCompletions,
        end_user: None,
        conversation: None,
        body_hash: [7; 32],
        accepted_since: at(0),
        since: at(0),
        effects_since: at(0),
    }
}

async fn find(world: &StoreWorld, sent: RepeatSent) -> Option<RepeatRow> {
    find_all(world, sent).await.into_iter().next()
}

async fn find_all(world: &StoreWorld, sent: RepeatSent) -> Vec<RepeatRow> {
    world
        .store
        .repeat_candidates(world.organization, sent)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_request_key_is_found_by_all_its_parts() {
    on_each_store(async |world| {
        for (n, end_user) in [(1, None), (2, Some("ann".to_owned()))] {
            let key = Some("key".to_owned());
            let new = NewTurn {
                idempotency_key: key,
                end_user,
                ..world.new_turn(n)
            };
            world.accept_new(new).await.unwrap();
        }
        let find = async |sent| {
            world
                .store
                .request_key(world.organization, sent)
                .await
                .unwrap()
        };
        let ann = find(key_sent(&world)).await.unwrap();
        assert_eq!(
            (ann.turn, ann.body_hash, ann.created),
            (turn_id(2), [7; 32], at(2))
        );
        let nobody = find(KeySent {
            end_user: None,
            ..key_sent(&world)
        })
        .await
        .unwrap();
        assert_eq!(nobody.turn, turn_id(1));
        let absent = [
            KeySent {
                end_user: Some("bob".to_owned()),
                ..key_sent(&world)
            },
            KeySent {
                key: "other".to_owned(),
                ..key_sent(&world)
            },
            KeySent {
                api_key: ApiKeyId(99),
                ..key_sent(&world)
            },
        ];
        for sent in absent {
            assert_eq!(find(sent.clone()).await, None, "{sent:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeat_is_the_newest_turn_with_everything_alike() {
    on_each_store(async |world| {
        let other_body = NewTurn {
            body_hash: [8; 32],
            ..world.new_turn(3)
        };
        for new in [world.new_turn(1), world.new_turn(2), other_body] {
            world.accept_new(new).await.unwrap();
        }
        let sent = || repeat_sent(&world);
        let cases = [
            (sent(), Some(2)),
            (
                RepeatSent {
                    accepted_since: at(2),
                    ..sent()
                },
                Some(2),
            ),
            (
                RepeatSent {
                    accepted_since: at(3),
                    ..sent()
                },
                None,
            ),
            (
                RepeatSent {
                    body_hash: [8; 32],
                    ..sent()
                },
                Some(3),
            ),
            (
                RepeatSent {
                    body_hash: [9; 32],
                    ..sent()
                },
                None,
            ),
            (
                RepeatSent {
                    api_key: ApiKeyId(99),
                    ..sent()
                },
                None,
            ),
        ];
        for (sent, expected) in cases {
            let found = find(&world, sent.clone()).await;
            assert_eq!(found.map(|row| row.turn), expected.map(turn_id), "{sent:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeat_has_the_same_end_user_and_the_same_named_conversation() {
    on_each_store(async |world| {
        let (ann, shared) = (Some("ann"), Some("shared"));
        for (n, user, conversation) in [
            (1, None, None),
            (2, ann, None),
            (3, None, shared),
            (4, ann, shared),
        ] {
            let new = world.new_turn(n);
            let new = NewTurn {
                end_user: user.map(str::to_owned),
                conversation_named: conversation.is_some(),
                conversation: conversation.map_or(new.conversation, str::to_owned),
                ..world.new_turn(n)
            };
            world.accept_new(new).await.unwrap();
        }
        let cases = [
            (None, None, Some(1)),
            (ann, None, Some(2)),
            (None, shared, Some(3)),
            (ann, shared, Some(4)),
            (Some("bob"), None, None),
            (None, Some("other"), None),
            (None, Some("conversation 1"), None),
        ];
        for (user, conversation, expected) in cases {
            let (end_user, conversation) =
                (user.map(str::to_owned), conversation.map(str::to_owned));
            let sent = RepeatSent {
                end_user,
                conversation,
                ..repeat_sent(&world)
            };
            let found = find(&world, sent.clone()).await;
            assert_eq!(found.map(|row| row.turn), expected.map(turn_id), "{sent:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeat_tells_whether_the_turn_had_effects() {
    on_each_store(async |world| {
        let cases = [
            (EffectClass::Once, CallRunner::Server, true, true),
            (EffectClass::Idempotent, CallRunner::Server, true, true),
            (EffectClass::Once, CallRunner::Server, false, false),
            (EffectClass::Read, CallRunner::Server, true, false),
            (EffectClass::Once, CallRunner::Outside, true, false),
        ];
        for (n, (effect, runs, started, expected)) in (1..).zip(cases) {
            let turn = world.accept(n).await;
            let call = call_ref(1, 0);
            let new = NewCall {
                effect: Some(effect),
                runs,
                ..pending_call(turn, call)
            };
            let mut changes = vec![TurnChange::AddCall(Box::new(new))];
            if started {
                changes.push(TurnChange::StartCall { call, at: at(6) });
            }
            changes.push(TurnChange::EndCall {
                call,
                end: failed(CallReason::Cancelled),
                at: at(7),
            });
            world.write_turn(turn, changes).await.unwrap();
            let found = find(&world, repeat_sent(&world)).await.unwrap();
            assert_eq!(
                (found.turn, found.status, found.reason),
                (turn, TurnStatus::Running, None)
            );
            assert_eq!(
                (found.dispatched_effects, found.stop),
                (expected, None),
                "{effect:?} {runs:?} {started}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeat_tells_how_the_turn_stands() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let reason = TurnReason::ClientLeft;
        let end = EndTurn {
            reason: Some(reason),
            ..end_turn(TurnStatus::Cancelled)
        };
        world
            .write_turn(
                turn,
                vec![
                    TurnChange::NoteStop { reason, at: at(8) },
                    TurnChange::EndTurn(end),
                ],
            )
            .await
            .unwrap();
        let found = find(&world, repeat_sent(&world)).await.unwrap();
        assert_eq!(
            (found.status, found.reason, found.stop),
            (TurnStatus::Cancelled, Some(reason), Some(reason))
        );
        assert_eq!((found.answered, found.erased), (None, false));
        let state = world
            .store
            .repeat_state(world.organization, turn)
            .await
            .unwrap();
        assert_eq!(state, Some(found));
        assert_eq!(
            world
                .store
                .repeat_state(world.stranger, turn)
                .await
                .unwrap(),
            None
        );
    })
    .await;
}

#[tokio::test]
async fn an_answered_turn_is_repeated_only_where_somebody_is_named() {
    on_each_store(async |world| {
        let (user, conversation) = (Some("ann".to_owned()), Some("shared".to_owned()));
        let named = NewTurn {
            conversation: "shared".to_owned(),
            conversation_named: true,
            ..world.new_turn(3)
        };
        let turns = [
            world.new_turn(1),
            NewTurn {
                end_user: user.clone(),
                ..world.new_turn(2)
            },
            named,
        ];
        for new in turns {
            let (organization, turn) = (world.organization, new.id);
            world.accept_new(new).await.unwrap();
            world
                .write(Change::MarkAnswered {
                    organization,
                    turn,
                    at: at(9),
                })
                .await
                .unwrap();
        }
        let cases = [
            (repeat_sent(&world), None),
            (
                RepeatSent {
                    end_user: user,
                    ..repeat_sent(&world)
                },
                Some(2),
            ),
            (
                RepeatSent {
                    conversation,
                    ..repeat_sent(&world)
                },
                Some(3),
            ),
        ];
        for (sent, expected) in cases {
            let found = find(&world, sent.clone()).await;
            assert_eq!(
                found.as_ref().map(|row| row.turn),
                expected.map(turn_id),
                "{sent:?}"
            );
            assert!(found.is_none_or(|row| row.answered == Some(at(9))));
        }
    })
    .await;
}

/// A turn as it stands before a repetition comes.
struct Stood {
    /// Named by the header `turnwright-user`, if at all.
    user: Option<&'static str>,
    /// When it ended, and how; `None` while it runs.
    ended: Option<(i64, TurnStatus)>,
    had_effects: bool,
    is_answered: bool,
}

const NOBODYS: Stood = Stood {
    user: None,
    ended: Some((100, TurnStatus::Completed)),
    had_effects: false,
    is_answered: true,
};
const WITH_EFFECTS: Stood = Stood {
    had_effects: true,
    ..NOBODYS
};
const LOST: Stood = Stood {
    is_answered: false,
    ..NOBODYS
};
const RUNNING: Stood = Stood {
    ended: None,
    ..LOST
};
const FAILED: Stood = Stood {
    ended: Some((100, TurnStatus::Failed)),
    ..LOST
};
const ANNS: Stood = Stood {
    user: Some("ann"),
    ..NOBODYS
};

async fn stand(world: &StoreWorld, n: u128, stood: &Stood) {
    let new = NewTurn {
        end_user: stood.user.map(str::to_owned),
        ..world.new_turn(n)
    };
    world.accept_new(new).await.unwrap();
    if let Some((ended, status)) = stood.ended {
        let end = EndTurn {
            had_effects: stood.had_effects,
            at: at(ended),
            ..end_turn(status)
        };
        let end = vec![TurnChange::EndTurn(end)];
        world.write_turn(turn_id(n), end).await.unwrap();
    }
    if stood.is_answered {
        let mark = Change::MarkAnswered {
            organization: world.organization,
            turn: turn_id(n),
            at: at(200),
        };
        world.write(mark).await.unwrap();
    }
}

type Case<'a> = (&'a str, &'a [Stood], Option<&'a str>, &'a [u128]);

/// Its name, turns in the order in which they came, who repeats, and which are found, by their number from 1.
#[tokio::test]
async fn whatever_runs_or_had_effects_is_among_the_candidates() {
    let early = Some((10, TurnStatus::Completed));
    let cases: [Case<'_>; 12] = [
        ("answered without effects", &[NOBODYS], None, &[]),
        ("answered with effects", &[WITH_EFFECTS], None, &[1]),
        (
            "the newest of them",
            &[WITH_EFFECTS, WITH_EFFECTS],
            None,
            &[2],
        ),
        (
            "one that was not answered comes first",
            &[
                Stood {
                    is_answered: false,
                    ..WITH_EFFECTS
                },
                WITH_EFFECTS,
            ],
            None,
            &[1, 2],
        ),
        (
            "behind one that failed with nothing",
            &[WITH_EFFECTS, FAILED],
            None,
            &[2, 1],
        ),
        ("what runs, behind it", &[RUNNING, FAILED], None, &[2, 1]),
        ("a lost answer without effects", &[LOST], None, &[1]),
        (
            "it ended before",
            &[Stood {
                ended: early,
                ..LOST
            }],
            None,
            &[],
        ),
        (
            "it ended before, with effects",
            &[Stood {
                ended: early,
                ..WITH_EFFECTS
            }],
            None,
            &[1],
        ),
        (
            "of somebody, for nobody",
            &[Stood {
                had_effects: true,
                ..ANNS
            }],
            None,
            &[],
        ),
        (
            "of nobody, for somebody",
            &[WITH_EFFECTS, ANNS],
            Some("ann"),
            &[2],
        ),
        (
            "of one person",
            &[
                Stood {
                    had_effects: true,
                    ..ANNS
                },
                Stood {
                    user: Some("ann"),
                    ..RUNNING
                },
                Stood {
                    user: Some("ann"),
                    ..FAILED
                },
                Stood {
                    user: Some("bob"),
                    ..WITH_EFFECTS
                },
            ],
            Some("ann"),
            &[3, 2, 1],
        ),
    ];
    for (case, turns, user, expected) in cases {
        on_each_store(async |world| {
            for (n, stood) in (1..).zip(turns) {
                stand(&world, n, stood).await;
            }
            let sent = RepeatSent {
                end_user: user.map(str::to_owned),
                since: at(50),
                ..repeat_sent(&world)
            };
            let found = find_all(&world, sent).await;
            let found: Vec<_> = found.into_iter().map(|row| row.turn).collect();
            let expected: Vec<_> = expected.iter().copied().map(turn_id).collect();
            assert_eq!(found, expected, "{case}");
        })
        .await;
    }
}
