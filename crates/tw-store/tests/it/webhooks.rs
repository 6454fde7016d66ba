//! Webhooks and the outbox: what is told to whom, and what becomes of it.

use std::time::Duration;

use tw_core::call::{CallReason, CallRunner, CallStatus};
use tw_core::change::{Change, CompleteCall, NewCall, Outcome, TurnChange};
use tw_core::id::{OrgId, TurnId, WebhookId};
use tw_core::time::Timestamp;
use tw_core::turn_status::TurnStatus;
use tw_core::webhook::{
    AttemptEnding, ChangeWebhook, ClaimedDelivery, DeliveryFault, DeliveryState, FAILING_MAX,
    NewWebhook, ReplayedDeliveries, SettleDelivery, WEBHOOKS_MAX, WebhookChange, WebhookContents,
    WebhookDisabled, WebhookEvent, WebhookEvents, WebhookSettings, WebhookSwitch,
};
use tw_store::read::webhooks::{DeliveryFilter, DeliveryRow};
use tw_store::system::webhooks::{self, DueWebhook};

use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, failed, on_each_store, pending_call, turn_id,
};

const LEASE: i64 = 60_000_000;

pub fn id(n: u128) -> WebhookId {
    WebhookId(turn_id(1_000 + n).0)
}

pub fn settings(events: &[WebhookEvent]) -> WebhookSettings {
    WebhookSettings {
        url: "https://example.com/hook".to_owned(),
        description: "billing".to_owned(),
        events: WebhookEvents::of(events),
        contents: WebhookContents::None,
    }
}

pub fn new(organization: OrgId, n: u128, settings: WebhookSettings) -> WebhookChange {
    WebhookChange::Create(NewWebhook {
        organization,
        id: id(n),
        settings,
        secret: vec![u8::try_from(n).unwrap(); 32],
        at: at(1),
    })
}

pub async fn write(world: &StoreWorld, change: WebhookChange) -> Outcome {
    world.write(change.into()).await.unwrap()
}

pub async fn with_webhook(world: &StoreWorld) -> DueWebhook {
    let all = settings(&WebhookEvent::ALL);
    assert_eq!(
        write(world, new(world.organization, 1, all)).await,
        Outcome::Done
    );
    let row = world
        .store
        .webhook(world.organization, id(1))
        .await
        .unwrap();
    DueWebhook {
        webhook: row.unwrap().key,
        failures: 0,
        due: at(0),
    }
}

async fn listed(world: &StoreWorld, n: u128) -> Vec<DeliveryRow> {
    let filter = DeliveryFilter::default();
    let found = world
        .store
        .webhook_deliveries(world.organization, id(n), filter, 100);
    found.await.unwrap()
}

async fn told(world: &StoreWorld, n: u128) -> Vec<(WebhookEvent, Option<TurnId>, bool)> {
    let rows = listed(world, n).await.into_iter().rev();
    rows.map(|row| (row.event, row.turn, row.call.is_some()))
        .collect()
}

/// A turn that ends at once.
pub async fn ended(world: &StoreWorld, n: u128, status: TurnStatus) -> TurnId {
    let turn = world.accept(n).await;
    world
        .write_turn(turn, vec![TurnChange::EndTurn(end_turn(status))])
        .await
        .unwrap();
    turn
}

pub async fn claim(
    world: &StoreWorld,
    of: &DueWebhook,
    owner: &str,
    now: Timestamp,
) -> Vec<ClaimedDelivery> {
    let claim = WebhookChange::Claim {
        webhook: of.webhook,
        owner: owner.to_owned(),
        deliveries_max: 10,
        at: now,
        until: Timestamp(now.0 + LEASE),
    };
    match write(world, claim).await {
        Outcome::Deliveries(claimed) => claimed,
        other => panic!("{other:?}"),
    }
}

fn settle(of: ClaimedDelivery, end: AttemptEnding, now: Timestamp) -> WebhookChange {
    WebhookChange::Settle(SettleDelivery {
        delivery: of.delivery,
        attempt: of.attempt,
        http_status: Some(200),
        end,
        started: now,
        at: now,
    })
}

fn failed_until(again: Option<Timestamp>) -> AttemptEnding {
    AttemptEnding::Failed {
        fault: DeliveryFault::Status,
        again,
    }
}

#[tokio::test]
async fn each_end_is_told_once_to_whom_it_concerns() {
    on_each_store(async |world| {
        let turns = settings(&[WebhookEvent::TurnCompleted, WebhookEvent::TurnFailed]);
        let calls = settings(&[WebhookEvent::CallCompleted, WebhookEvent::CallFailed]);
        write(&world, new(world.organization, 1, turns)).await;
        write(&world, new(world.organization, 2, calls)).await;
        let everything = settings(&WebhookEvent::ALL);
        write(&world, new(world.stranger, 3, everything)).await;
        let turn = world.accept(1).await;
        let mine = |position| pending_call(turn, call_ref(1, position));
        let add = |call: NewCall| TurnChange::AddCall(Box::new(call));
        let invalid = NewCall {
            status: CallStatus::Failed,
            end: Some(failed(CallReason::InvalidArguments)),
            ..mine(1)
        };
        let of_client = NewCall {
            runs: CallRunner::Client,
            effect: None,
            status: CallStatus::Completed,
            end: Some(completed()),
            ..mine(2)
        };
        let complete = CompleteCall {
            organization: world.organization,
            call: mine(3).id,
            end: completed(),
            at: at(8),
        };
        let end = TurnChange::EndCall {
            call: call_ref(1, 0),
            end: completed(),
            at: at(7),
        };
        let changes = vec![
            add(mine(0)),
            add(invalid),
            add(of_client),
            add(mine(3)),
            end,
        ];
        world.write_turn(turn, changes).await.unwrap();
        let outside = Change::CompleteCall(Box::new(complete.clone()));
        assert_eq!(world.write(outside.clone()).await.unwrap(), Outcome::Done);
        assert_eq!(world.write(outside).await.unwrap(), Outcome::Already);
        let over = vec![TurnChange::EndTurn(end_turn(TurnStatus::Completed))];
        world.write_turn(turn, over).await.unwrap();
        let cancelled = ended(&world, 2, TurnStatus::Cancelled).await;
        let failed = ended(&world, 3, TurnStatus::Failed).await;
        assert_eq!(
            told(&world, 1).await,
            [
                (WebhookEvent::TurnCompleted, Some(turn), false),
                (WebhookEvent::TurnFailed, Some(failed), false),
            ]
        );
        assert_ne!(cancelled, failed);
        let of_calls = [
            WebhookEvent::CallFailed,
            WebhookEvent::CallCompleted,
            WebhookEvent::CallCompleted,
        ];
        assert_eq!(
            told(&world, 2).await,
            of_calls.map(|event| (event, Some(turn), true))
        );
        let ids: Vec<String> = listed(&world, 1)
            .await
            .into_iter()
            .map(|row| row.event_id)
            .collect();
        assert_eq!(ids[1], format!("evt_{}", turn.plain()));
        let theirs =
            world
                .store
                .webhook_deliveries(world.stranger, id(3), DeliveryFilter::default(), 9);
        assert_eq!(theirs.await.unwrap(), []);
    })
    .await;
}

/// What is not written tells nobody.
#[tokio::test]
async fn a_group_that_fails_leaves_no_delivery() {
    on_each_store(async |world| {
        with_webhook(&world).await;
        let turn = world.accept(1).await;
        let end = TurnChange::EndTurn(end_turn(TurnStatus::Completed));
        let twice = vec![end.clone(), end.clone()];
        assert!(world.write_turn(turn, twice).await.is_err());
        assert_eq!(told(&world, 1).await, []);
        world.write_turn(turn, vec![end]).await.unwrap();
        assert_eq!(told(&world, 1).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_webhook_that_is_disabled_or_deleted_is_told_nothing() {
    on_each_store(async |world| {
        let of = with_webhook(&world).await;
        let switch = |enabled, n| {
            WebhookChange::Change(ChangeWebhook {
                organization: world.organization,
                id: id(1),
                settings: settings(&WebhookEvent::ALL),
                enabled: Some(enabled),
                at: at(n),
            })
        };
        ended(&world, 1, TurnStatus::Completed).await;
        assert_eq!(
            write(&world, switch(WebhookSwitch::Disable, 3)).await,
            Outcome::Done
        );
        ended(&world, 2, TurnStatus::Completed).await;
        assert_eq!(claim(&world, &of, "a", at(200)).await, []);
        assert_eq!(webhooks::due(&world.store).await.unwrap(), []);
        let row = world
            .store
            .webhook(world.organization, id(1))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(row.disabled, Some((WebhookDisabled::ByHand, at(3))));
        assert_eq!(
            write(&world, switch(WebhookSwitch::Enable, 4)).await,
            Outcome::Done
        );
        ended(&world, 3, TurnStatus::Completed).await;
        // What waited goes on, and what happened meanwhile is not told.
        let turns: Vec<_> = told(&world, 1)
            .await
            .into_iter()
            .map(|(_, turn, _)| turn)
            .collect();
        assert_eq!(turns, [Some(turn_id(1)), Some(turn_id(3))]);
        let claimed = claim(&world, &of, "a", at(200)).await;
        assert_eq!(claimed.len(), 2);
        let delete = WebhookChange::Delete {
            organization: world.organization,
            webhook: id(1),
            at: at(5),
        };
        assert_eq!(write(&world, delete.clone()).await, Outcome::Done);
        assert_eq!(write(&world, delete).await, Outcome::Already);
        ended(&world, 4, TurnStatus::Completed).await;
        let gone = webhooks::delivery(&world.store, claimed[0].delivery, at(6)).await;
        assert_eq!(gone.unwrap(), None);
        // One that was under way may end; then all of it goes.
        write(&world, settle(claimed[0], AttemptEnding::Taken, at(7))).await;
        let expire = || WebhookChange::Expire {
            before: at(0),
            deliveries_max: 1,
        };
        assert_eq!(write(&world, expire()).await, Outcome::Count(1));
        assert_eq!(write(&world, expire()).await, Outcome::Count(1));
        assert_eq!(write(&world, expire()).await, Outcome::Count(0));
        write(
            &world,
            new(world.organization, 1, settings(&WebhookEvent::ALL)),
        )
        .await;
        assert_eq!(told(&world, 1).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_delivery_is_claimed_by_one_at_a_time_and_by_another_once_the_first_is_gone() {
    on_each_store(async |world| {
        let of = with_webhook(&world).await;
        ended(&world, 1, TurnStatus::Completed).await;
        let first = claim(&world, &of, "a", at(200)).await;
        let numbers = |claimed: &[ClaimedDelivery]| -> Vec<(u32, u32)> {
            claimed.iter().map(|one| (one.attempt, one.tries)).collect()
        };
        assert_eq!(numbers(&first), [(1, 1)]);
        assert_eq!(claim(&world, &of, "b", at(201)).await, []);
        // Nothing came of it in time.
        let second = claim(&world, &of, "b", at(200 + LEASE)).await;
        assert_eq!(numbers(&second), [(2, 2)]);
        // The first was only slow: its failure says nothing any more, but a success would.
        let late = settle(first[0], failed_until(None), at(300 + LEASE));
        assert_eq!(write(&world, late).await, Outcome::Already);
        let free = |owner: &str| WebhookChange::FreeClaims {
            owner: owner.to_owned(),
            at: at(400 + LEASE),
        };
        assert_eq!(write(&world, free("b")).await, Outcome::Count(0));
        assert_eq!(write(&world, free("c")).await, Outcome::Count(1));
        let third = claim(&world, &of, "c", at(400 + LEASE)).await;
        assert_eq!(numbers(&third), [(3, 3)]);
        let taken = settle(second[0], AttemptEnding::Taken, at(500 + LEASE));
        assert_eq!(write(&world, taken).await, Outcome::Done);
        let failed = settle(third[0], failed_until(None), at(501 + LEASE));
        assert_eq!(write(&world, failed).await, Outcome::Already);
        let rows = listed(&world, 1).await;
        assert_eq!(
            (rows[0].state, rows[0].attempts),
            (DeliveryState::Delivered, 3)
        );
        let event = rows[0].event_id.clone();
        let found = world
            .store
            .webhook_delivery(world.organization, id(1), event.clone());
        let (_, attempts) = found.await.unwrap().unwrap();
        let ends: Vec<_> = attempts.iter().map(|one| (one.n, one.fault)).collect();
        let status = Some(DeliveryFault::Status);
        assert_eq!(ends, [(3, status), (2, None), (1, status)]);
        let foreign = world.store.webhook_delivery(world.stranger, id(1), event);
        assert_eq!(foreign.await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn what_fails_waits_dies_and_is_replayed() {
    on_each_store(async |world| {
        let of = with_webhook(&world).await;
        ended(&world, 1, TurnStatus::Completed).await;
        let claimed = claim(&world, &of, "a", at(200)).await[0];
        let again = settle(claimed, failed_until(Some(at(900))), at(300));
        assert_eq!(write(&world, again).await, Outcome::Done);
        let due = webhooks::due(&world.store).await.unwrap();
        let expected = DueWebhook {
            failures: 1,
            due: at(900),
            ..of
        };
        assert_eq!(due, [expected]);
        assert_eq!(claim(&world, &of, "a", at(899)).await, []);
        let claimed = claim(&world, &of, "a", at(900)).await[0];
        write(&world, settle(claimed, failed_until(None), at(901))).await;
        let rows = listed(&world, 1).await;
        assert_eq!(
            (rows[0].state, rows[0].fault),
            (DeliveryState::Dead, Some(DeliveryFault::Status))
        );
        assert_eq!(webhooks::due(&world.store).await.unwrap(), []);
        let replay = |which| WebhookChange::Replay {
            organization: world.organization,
            webhook: id(1),
            which,
            at: at(1_000),
        };
        let dead = || ReplayedDeliveries::Dead { deliveries_max: 9 };
        let stranger = WebhookChange::Replay {
            organization: world.stranger,
            webhook: id(1),
            which: dead(),
            at: at(1_000),
        };
        assert_eq!(write(&world, stranger).await, Outcome::Already);
        assert_eq!(write(&world, replay(dead())).await, Outcome::Count(1));
        assert_eq!(write(&world, replay(dead())).await, Outcome::Count(0));
        let claimed = claim(&world, &of, "a", at(1_000)).await[0];
        // The waits begin anew; the attempts are counted on.
        assert_eq!((claimed.attempt, claimed.tries), (3, 1));
        write(&world, settle(claimed, AttemptEnding::Taken, at(1_001))).await;
        let one = || ReplayedDeliveries::One(rows[0].event_id.clone());
        assert_eq!(write(&world, replay(one())).await, Outcome::Count(1));
        assert_eq!(write(&world, replay(one())).await, Outcome::Count(0));
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_is_gone_or_fails_for_days_is_disabled_with_what_waits() {
    on_each_store(async |world| {
        let days = i64::try_from(FAILING_MAX.as_micros()).unwrap();
        let gone = AttemptEnding::Failed {
            fault: DeliveryFault::Gone,
            again: None,
        };
        let cases = [
            (vec![(200, gone)], Some(WebhookDisabled::Gone)),
            (
                vec![
                    (200, failed_until(Some(at(0)))),
                    (199 + days, failed_until(Some(at(0)))),
                ],
                None,
            ),
            (
                vec![
                    (200, failed_until(Some(at(0)))),
                    (200 + days, failed_until(Some(at(0)))),
                ],
                Some(WebhookDisabled::Failing),
            ),
            (
                vec![
                    (200, failed_until(Some(at(0)))),
                    (201, AttemptEnding::Taken),
                    (200 + days, failed_until(Some(at(0)))),
                ],
                None,
            ),
        ];
        for ((ends, disabled), n) in cases.into_iter().zip(1_u128..) {
            let turns = settings(&[WebhookEvent::TurnCompleted]);
            write(&world, new(world.organization, n, turns)).await;
            let row = world
                .store
                .webhook(world.organization, id(n))
                .await
                .unwrap()
                .unwrap();
            let of = DueWebhook {
                webhook: row.key,
                failures: 0,
                due: at(0),
            };
            for turn in 1..=4 {
                ended(&world, n * 100 + turn, TurnStatus::Completed).await;
            }
            for (time, end) in ends {
                let claimed = claim(&world, &of, "a", at(time)).await;
                write(&world, settle(claimed[0], end, at(time))).await;
            }
            let row = world
                .store
                .webhook(world.organization, id(n))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(row.disabled.map(|(why, _)| why), disabled, "{n}");
            let dead = listed(&world, n).await;
            let dead = dead.iter().filter(|row| row.state == DeliveryState::Dead);
            let all_are = dead.count() == 4;
            assert_eq!(all_are, disabled.is_some(), "{n}");
            let delete = WebhookChange::Delete {
                organization: world.organization,
                webhook: id(n),
                at: at(5),
            };
            write(&world, delete).await;
        }
    })
    .await;
}

#[tokio::test]
async fn secrets_overlap_for_as_long_as_was_said() {
    on_each_store(async |world| {
        let of = with_webhook(&world).await;
        let test = WebhookChange::Test {
            organization: world.organization,
            webhook: id(1),
            event_id: "evt_test".to_owned(),
            at: at(2),
        };
        assert_eq!(write(&world, test).await, Outcome::Done);
        let claimed = claim(&world, &of, "a", at(3)).await[0];
        let rotate = |byte: u8, until: i64| WebhookChange::Rotate {
            organization: world.organization,
            webhook: id(1),
            secret: vec![byte; 24],
            old_until: at(until),
            at: at(10),
        };
        let signed_with = async |now: i64| -> Vec<u8> {
            let found = webhooks::delivery(&world.store, claimed.delivery, at(now)).await;
            let secrets = found.unwrap().unwrap().secrets;
            secrets.iter().map(|secret| secret[0]).collect()
        };
        assert_eq!(signed_with(5).await, [1]);
        assert_eq!(write(&world, rotate(2, 100)).await, Outcome::Done);
        assert_eq!(signed_with(99).await, [2, 1]);
        assert_eq!(signed_with(100).await, [2]);
        assert_eq!(write(&world, rotate(3, 50)).await, Outcome::Done);
        // An old one never lives longer than it was to.
        assert_eq!(signed_with(49).await, [3, 2, 1]);
        assert_eq!(signed_with(50).await, [3]);
        assert_eq!(write(&world, rotate(4, 10)).await, Outcome::Done);
        assert_eq!(signed_with(11).await, [4]);
        let found = webhooks::delivery(&world.store, claimed.delivery, at(11)).await;
        let told = found.unwrap().unwrap().told;
        assert_eq!(
            (told.event, told.turn, told.call),
            (WebhookEvent::Test, None, None)
        );
    })
    .await;
}

#[tokio::test]
async fn webhooks_are_their_organizations_and_not_without_end() {
    on_each_store(async |world| {
        with_webhook(&world).await;
        let all = settings(&WebhookEvent::ALL);
        for n in 2..=u128::from(WEBHOOKS_MAX) {
            assert_eq!(
                write(&world, new(world.organization, n, all.clone())).await,
                Outcome::Done
            );
        }
        let more = new(world.organization, 99, all.clone());
        assert_eq!(write(&world, more).await, Outcome::TooMany);
        assert_eq!(
            world
                .store
                .webhooks(world.organization)
                .await
                .unwrap()
                .len(),
            50
        );
        assert_eq!(world.store.webhooks(world.stranger).await.unwrap(), []);
        assert_eq!(
            world.store.webhook(world.stranger, id(1)).await.unwrap(),
            None
        );
        let foreign = [
            WebhookChange::Change(ChangeWebhook {
                organization: world.stranger,
                id: id(1),
                settings: all,
                enabled: Some(WebhookSwitch::Disable),
                at: at(2),
            }),
            WebhookChange::Delete {
                organization: world.stranger,
                webhook: id(1),
                at: at(2),
            },
            WebhookChange::Rotate {
                organization: world.stranger,
                webhook: id(1),
                secret: vec![9; 32],
                old_until: at(2),
                at: at(2),
            },
            WebhookChange::Test {
                organization: world.stranger,
                webhook: id(1),
                event_id: "evt".to_owned(),
                at: at(2),
            },
        ];
        for change in foreign {
            assert_eq!(write(&world, change).await, Outcome::Already);
        }
        let row = world
            .store
            .webhook(world.organization, id(1))
            .await
            .unwrap()
            .unwrap();
        assert_eq!((row.disabled, row.old_secret_until), (None, None));
    })
    .await;
}

#[tokio::test]
async fn a_page_of_deliveries_goes_on_behind_another_and_keeps_to_its_filter() {
    on_each_store(async |world| {
        let of = with_webhook(&world).await;
        for n in 1..=4 {
            let status = if n % 2 == 0 {
                TurnStatus::Failed
            } else {
                TurnStatus::Completed
            };
            ended(&world, n, status).await;
        }
        let claimed = claim(&world, &of, "a", at(200)).await;
        write(&world, settle(claimed[0], AttemptEnding::Taken, at(201))).await;
        write(&world, settle(claimed[1], failed_until(None), at(202))).await;
        let page = async |state, event, behind, limit| -> Vec<u128> {
            let filter = DeliveryFilter {
                state,
                event,
                behind,
            };
            let rows = world
                .store
                .webhook_deliveries(world.organization, id(1), filter, limit);
            let first = turn_id(0).0.as_u128();
            let rows = rows.await.unwrap().into_iter();
            rows.map(|row| row.turn.unwrap().0.as_u128() - first)
                .collect()
        };
        let all = listed(&world, 1).await;
        assert_eq!(page(None, None, None, 2).await, [4, 3]);
        assert_eq!(page(None, None, Some(all[1].key), 9).await, [2, 1]);
        assert_eq!(
            page(None, Some(WebhookEvent::TurnFailed), None, 9).await,
            [4, 2]
        );
        let by_state = [
            (DeliveryState::Pending, vec![4, 3]),
            (DeliveryState::Delivered, vec![1]),
            (DeliveryState::Dead, vec![2]),
        ];
        for (state, turns) in by_state {
            assert_eq!(page(Some(state), None, None, 9).await, turns, "{state:?}");
        }
        let dead = Some(DeliveryState::Dead);
        assert_eq!(
            page(dead, Some(WebhookEvent::TurnCompleted), None, 9).await,
            []
        );
        assert_eq!(page(dead, None, Some(all[2].key), 9).await, []);
    })
    .await;
}

#[tokio::test]
async fn deliveries_that_are_over_expire_and_those_that_wait_do_not() {
    on_each_store(async |world| {
        let of = with_webhook(&world).await;
        for n in 1..=3 {
            ended(&world, n, TurnStatus::Completed).await;
        }
        let claimed = claim(&world, &of, "a", at(200)).await;
        write(&world, settle(claimed[0], AttemptEnding::Taken, at(300))).await;
        write(&world, settle(claimed[1], failed_until(None), at(400))).await;
        let expire = async |before| {
            let change = WebhookChange::Expire {
                before: at(before),
                deliveries_max: 9,
            };
            write(&world, change).await
        };
        assert_eq!(expire(300).await, Outcome::Count(0));
        assert_eq!(expire(301).await, Outcome::Count(1));
        assert_eq!(expire(i64::MAX / 2).await, Outcome::Count(1));
        assert_eq!(listed(&world, 1).await.len(), 1);
        assert_eq!(
            world.store.integrity_check().await.unwrap(),
            Vec::<String>::new()
        );
    })
    .await;
}

#[tokio::test]
async fn contents_are_told_only_where_they_are_wanted_and_still_there() {
    on_each_store(async |world| {
        let full = WebhookSettings {
            contents: WebhookContents::Full,
            ..settings(&WebhookEvent::ALL)
        };
        write(&world, new(world.organization, 1, full)).await;
        write(
            &world,
            new(world.organization, 2, settings(&WebhookEvent::ALL)),
        )
        .await;
        let turn = world.accept(1).await;
        let call = pending_call(turn, call_ref(1, 0));
        let changes = vec![
            TurnChange::AddMessage(crate::world::message(1, 0)),
            TurnChange::AddCall(Box::new(call)),
            TurnChange::EndCall {
                call: call_ref(1, 0),
                end: completed(),
                at: at(7),
            },
            TurnChange::EndTurn(end_turn(TurnStatus::Completed)),
        ];
        world.write_turn(turn, changes).await.unwrap();
        let contents = async |n: u128| {
            let mut found = Vec::new();
            for row in listed(&world, n).await {
                let sent = webhooks::delivery(&world.store, row.key, at(9)).await;
                let told = sent.unwrap().unwrap().told;
                found.push((
                    told.turn.unwrap().answer,
                    told.call.and_then(|call| call.contents),
                ));
            }
            found
        };
        let said = "quote \" and\nline, and \u{1f600}".to_owned();
        let called = ("{\"to\": \"a\"".to_owned(), "lo…".to_owned());
        assert_eq!(
            contents(1).await,
            [(Some(said), None), (None, Some(called))]
        );
        assert_eq!(contents(2).await, [(None, None), (None, None)]);
        let delete = Change::DeleteTurn {
            organization: world.organization,
            turn,
            at: at(200),
        };
        world.write(delete).await.unwrap();
        assert_eq!(contents(1).await, [(None, None), (None, None)]);
    })
    .await;
}

/// Whoever sends is woken by a write that tells somebody, and by no other.
#[tokio::test]
async fn a_write_that_tells_somebody_wakes_the_sender() {
    on_each_store(async |world| {
        let woken = async || {
            let soon = Duration::from_secs(30);
            tokio::time::timeout(soon, world.store.deliveries_written())
                .await
                .is_ok()
        };
        let is_ready = async || {
            let mut waits = std::pin::pin!(world.store.deliveries_written());
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(waits.as_mut().poll(context).is_ready())
            });
            polled.await
        };
        ended(&world, 1, TurnStatus::Completed).await;
        assert!(!is_ready().await);
        with_webhook(&world).await;
        ended(&world, 2, TurnStatus::Completed).await;
        assert!(woken().await);
        world
            .write(Change::CheckWritable { at: at(1) })
            .await
            .unwrap();
        assert!(!is_ready().await);
    })
    .await;
}
