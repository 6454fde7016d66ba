//! Costs, what was used by day, and what was spent in a month.

use std::collections::BTreeSet;

use tw_core::call::{CallEnd, CallReason, CallRunner};
use tw_core::change::{
    AttemptOutcome, ChargedUse, CloseAttempt, EndTurn, NewCall, NewCharge, NewTurn, TurnChange,
};
use tw_core::id::TurnId;
use tw_core::model::TokenUsage;
use tw_core::price::MicroUsd;
use tw_core::time::{CalendarDay, CalendarMonth, Timestamp};
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::read::usage::{UsageAsked, UsagePart, UsageRow, UsageSums};
use tw_store::read::view::ResultDetail;

use crate::world::{
    StoreWorld, call_ref, completed, end_turn, failed, model_attempt, on_each_database,
    on_each_store, pending_call,
};

const DAY_US: i64 = 86_400 * 1_000_000;
/// A day that begins no month.
pub const DAY: i64 = 20_786;

pub fn noon(day: i64) -> Timestamp {
    Timestamp(day * DAY_US + DAY_US / 2)
}

pub fn charge(of: ChargedUse, cost: i64, at: Timestamp) -> TurnChange {
    TurnChange::Charge(NewCharge {
        of,
        cost: MicroUsd(cost),
        at,
    })
}

pub fn request(n: u32) -> ChargedUse {
    ChargedUse::ModelRequest { round: 1, n }
}

/// A turn of two attempts and three calls that ends on a day.
struct Spent {
    n: u32,
    day: i64,
    end_user: Option<&'static str>,
    model: &'static str,
    status: TurnStatus,
}

pub fn attempt(n: u32, at: Timestamp) -> [TurnChange; 2] {
    [
        TurnChange::OpenAttempt(model_attempt(1, n)),
        TurnChange::CloseAttempt(CloseAttempt {
            round: 1,
            position: None,
            n,
            outcome: AttemptOutcome::Ok,
            http_status: None,
            usage: None,
            at,
        }),
    ]
}

async fn spend(world: &StoreWorld, spent: &Spent) -> TurnId {
    let at = noon(spent.day);
    let new = NewTurn {
        end_user: spent.end_user.map(str::to_owned),
        model: spent.model.to_owned(),
        at,
        ..world.new_turn(u128::from(spent.n))
    };
    let turn = new.id;
    let call = |position, name: &str, end: Option<CallEnd>| {
        let ended = end.as_ref().map(CallEnd::status);
        let pending = pending_call(turn, call_ref(1, position));
        TurnChange::AddCall(Box::new(NewCall {
            tool_name: name.to_owned(),
            status: ended.unwrap_or(pending.status),
            end,
            ..pending
        }))
    };
    let unknown = failed(CallReason::UnknownTool);
    let mut first: Vec<TurnChange> = attempt(1, at).into();
    first.push(charge(request(1), 100, at));
    first.extend(attempt(2, at));
    first.push(charge(request(2), 20, at));
    first.push(call(0, "search", None));
    first.push(charge(ChargedUse::Call(call_ref(1, 0)), 5, at));
    first.push(TurnChange::EndCall {
        call: call_ref(1, 0),
        end: completed(),
        at,
    });
    first.push(call(
        1,
        "search",
        Some(failed(CallReason::InvalidArguments)),
    ));
    first.push(call(2, "made up by a model", Some(unknown)));
    first.push(TurnChange::EndTurn(EndTurn {
        usage: Some(TokenUsage {
            prompt_tokens: 1_000,
            completion_tokens: 10,
            total_tokens: 1_010,
            cached_tokens: Some(400),
            reasoning_tokens: Some(4),
            ..TokenUsage::default()
        }),
        has_tool_calls: true,
        tool_count: 3,
        at,
        ..end_turn(spent.status)
    }));
    world.accept_with(new, first).await.unwrap();
    turn
}

fn sums(turns: u64, calls: u64) -> UsageSums {
    UsageSums {
        turns,
        input_tokens: 1_000 * turns,
        cached_tokens: 400 * turns,
        output_tokens: 10 * turns,
        reasoning_tokens: 4 * turns,
        calls: 2 * calls,
        calls_failed: calls,
        cost: MicroUsd(i64::try_from(120 * turns + 5 * calls).unwrap()),
        ..UsageSums::default()
    }
}

pub async fn usage(world: &StoreWorld, by: &[UsagePart], days: (i64, i64)) -> Vec<UsageRow> {
    let asked = UsageAsked {
        from: CalendarDay(days.0),
        to: CalendarDay(days.1),
        by: by.iter().copied().collect::<BTreeSet<_>>(),
        rows_max: 100,
    };
    let read = world.store.usage(world.organization, asked.clone()).await;
    let foreign = world.store.usage(world.stranger, asked).await.unwrap();
    assert_eq!(foreign, Vec::new());
    read.unwrap()
}

fn row(sums: UsageSums) -> UsageRow {
    UsageRow {
        day: None,
        model: None,
        tool: None,
        key: None,
        end_user: None,
        sums,
    }
}

fn turns() -> [Spent; 3] {
    [
        Spent {
            n: 1,
            day: DAY,
            end_user: Some("ada"),
            model: "m",
            status: TurnStatus::Completed,
        },
        Spent {
            n: 2,
            day: DAY,
            end_user: None,
            model: "m",
            status: TurnStatus::Failed,
        },
        Spent {
            n: 3,
            day: DAY + 1,
            end_user: Some("ada"),
            model: "n",
            status: TurnStatus::Completed,
        },
    ]
}

#[tokio::test]
async fn use_is_added_up_by_each_part() {
    on_each_store(async |world| {
        for spent in turns() {
            spend(&world, &spent).await;
        }
        let all = |turns, failed| UsageSums {
            turns_failed: failed,
            ..sums(turns, turns)
        };
        let of_models = |turns, failed| UsageSums {
            turns_failed: failed,
            ..sums(turns, 0)
        };
        let both = (DAY, DAY + 1);
        assert_eq!(usage(&world, &[], both).await, vec![row(all(3, 1))]);
        assert_eq!(
            usage(&world, &[], (DAY + 1, DAY + 9)).await,
            vec![row(all(1, 0))]
        );
        assert_eq!(usage(&world, &[], (DAY + 2, DAY + 9)).await, Vec::new());
        let by_day = |day, sums| UsageRow {
            day: Some(CalendarDay(day)),
            ..row(sums)
        };
        let days = vec![by_day(DAY, all(2, 1)), by_day(DAY + 1, all(1, 0))];
        assert_eq!(usage(&world, &[UsagePart::Day], both).await, days);
        let by_model = |model: Option<&str>, sums| UsageRow {
            model: model.map(str::to_owned),
            ..row(sums)
        };
        let models = vec![
            by_model(None, sums(0, 3)),
            by_model(Some("m"), of_models(2, 1)),
            by_model(Some("n"), of_models(1, 0)),
        ];
        assert_eq!(usage(&world, &[UsagePart::Model], both).await, models);
        let by_tool = |tool: Option<&str>, sums| UsageRow {
            tool: tool.map(str::to_owned),
            ..row(sums)
        };
        let tools = vec![
            by_tool(None, of_models(3, 1)),
            by_tool(Some("search"), sums(0, 3)),
        ];
        assert_eq!(usage(&world, &[UsagePart::Tool], both).await, tools);
        let by_user = |user: Option<&str>, sums| UsageRow {
            end_user: user.map(str::to_owned),
            ..row(sums)
        };
        let users = vec![by_user(None, all(1, 1)), by_user(Some("ada"), all(2, 0))];
        assert_eq!(usage(&world, &[UsagePart::EndUser], both).await, users);
        let keys = usage(&world, &[UsagePart::Key], both).await;
        assert_eq!((keys.len(), keys[0].sums), (1, all(3, 1)));
        assert!(keys[0].key.is_some());
    })
    .await;
}

#[tokio::test]
async fn a_month_holds_what_each_has_spent_in_it() {
    on_each_store(async |world| {
        for spent in turns() {
            spend(&world, &spent).await;
        }
        let next_month = Spent {
            n: 4,
            day: DAY + 9,
            ..turns()[0]
        };
        spend(&world, &next_month).await;
        let month = CalendarMonth::of(noon(DAY));
        let spent = async |organization, user: Option<&str>, month| {
            let user = user.map(str::to_owned);
            let spent = world
                .store
                .month_spent(organization, world.key, user, month);
            let spent = spent.await.unwrap();
            (spent.organization.0, spent.key.0, spent.end_user.0)
        };
        let own = world.organization;
        assert_eq!(spent(own, Some("ada"), month).await, (375, 375, 250));
        assert_eq!(spent(own, None, month).await, (375, 375, 0));
        assert_eq!(spent(own, Some("bob"), month).await, (375, 375, 0));
        let next = CalendarMonth(month.0 + 1);
        assert_eq!(spent(own, Some("ada"), next).await, (125, 125, 125));
        assert_eq!(spent(world.stranger, Some("ada"), month).await, (0, 0, 0));
    })
    .await;
}

#[tokio::test]
async fn the_record_tells_the_cost_of_each_try_and_call() {
    on_each_store(async |world| {
        let turn = spend(&world, &turns()[0]).await;
        let read = world
            .store
            .turn_view(world.organization, turn, ResultDetail::Shown);
        let view = read.await.unwrap().unwrap();
        assert_eq!(view.turn.cost_microusd, Some(125));
        let round = &view.rounds[0];
        let attempts = round.attempts.iter();
        let attempts: Vec<_> = attempts
            .map(|row| row.end.as_ref().and_then(|end| end.cost_microusd))
            .collect();
        assert_eq!(attempts, [Some(100), Some(20)]);
        let calls: Vec<_> = round.calls.iter().map(|call| call.cost_microusd).collect();
        assert_eq!(calls, [Some(5), None, None]);
        assert!(
            round
                .calls
                .iter()
                .all(|call| call.runs == CallRunner::Server)
        );
    })
    .await;
}

#[tokio::test]
async fn nothing_is_charged_twice() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let at = noon(DAY);
        let opened = attempt(1, at).to_vec();
        world.write_turn(turn, opened).await.unwrap();
        let once = vec![charge(request(1), 7, at)];
        world.write_turn(turn, once.clone()).await.unwrap();
        for again in [once, vec![charge(request(2), 7, at)]] {
            let refused = world.write_turn(turn, again).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Guard { .. })),
                "{refused:?}"
            );
        }
        let month = CalendarMonth::of(at);
        let spent = world
            .store
            .month_spent(world.organization, world.key, None, month);
        assert_eq!(spent.await.unwrap().organization, MicroUsd(7));
    })
    .await;
}

#[tokio::test]
async fn sums_hold_what_is_written_at_once() {
    on_each_database(async |world| {
        let ten_from = async |first: u32| {
            for n in first..first + 10 {
                let spent = Spent { n, ..turns()[0] };
                spend(&world, &spent).await;
            }
        };
        tokio::join!(ten_from(1), ten_from(11), ten_from(21), ten_from(31));
        let day = usage(&world, &[], (DAY, DAY)).await;
        assert_eq!(day, vec![row(sums(40, 40))]);
        let month = CalendarMonth::of(noon(DAY));
        let user = Some("ada".to_owned());
        let spent = world
            .store
            .month_spent(world.organization, world.key, user, month);
        let spent = spent.await.unwrap();
        assert_eq!(
            (spent.key, spent.end_user),
            (MicroUsd(5_000), MicroUsd(5_000))
        );
    })
    .await;
}
