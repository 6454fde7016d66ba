//! The invariants, by the names of the failure model: I1 no lost turn, I2 no lost message,
//! I3 pairing, I4 effects, I5 final is final, I6 fencing, I8 what was shown can be replayed,
//! I9 deleted is erased.

use std::collections::BTreeSet;

use serde_json::Value;
use tw_core::approval::ApprovalState;
use tw_core::call::{CallReason, CallRunner, CallStatus};
use tw_core::change::{Change, ChangeGroup, Outcome};
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::json::Literal;
use tw_core::tool::EffectClass;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::turn::{CallRow, RecoveredTurn};
use tw_store::system;

use super::config::Mishap;
use super::lab;
use super::world::{InvariantViolation, SweepWorld};

/// Compares a turn's rows with how they were at some time before.
pub fn rows(
    before: Option<&RecoveredTurn>,
    after: Option<&RecoveredTurn>,
    out: &mut Vec<InvariantViolation>,
) {
    let mut violate = |invariant, what| out.push(InvariantViolation { invariant, what });
    let Some(after) = after else {
        if before.is_some() {
            violate("I1", "a durable turn is gone".to_owned());
        }
        return;
    };
    check_log(after, &mut violate);
    let Some(before) = before else {
        return;
    };
    let (old, new) = (&before.turn, &after.turn);
    if new.fence < old.fence {
        violate(
            "I6",
            format!("the fence fell from {} to {}", old.fence, new.fence),
        );
    }
    let end_of = |turn: &RecoveredTurn| {
        let turn = &turn.turn;
        (
            turn.status,
            turn.reason,
            turn.usage.clone(),
            turn.ended,
            turn.tool_count,
        )
    };
    if old.status.is_final() && end_of(before) != end_of(after) {
        let (old, new) = (end_of(before), end_of(after));
        violate(
            "I5",
            format!("a final turn changed from {old:?} to {new:?}"),
        );
    }
    if !after.events.starts_with(&before.events) {
        violate("I8", "the log was rewritten".to_owned());
    }
    for message in &before.messages {
        if !after.messages.contains(message) {
            violate("I5", format!("a message changed: {message:?}"));
        }
    }
    for old in &before.calls {
        let new = after
            .calls
            .iter()
            .find(|new| new.call.call == old.call.call);
        match new {
            Some(new) if may_become(old, new) => {}
            Some(_) | None => violate("I5", format!("a call went from {old:?} to {new:?}")),
        }
    }
    for old in before.attempts.iter().filter(|old| old.end.is_some()) {
        if !after.attempts.contains(old) {
            violate("I5", format!("a closed attempt changed: {old:?}"));
        }
    }
}

fn may_become(old: &CallRow, new: &CallRow) -> bool {
    let (from, to) = (old.call.status, new.call.status);
    if from.is_final() {
        return old == new;
    }
    let same_call = old.call.id == new.call.id
        && old.call.idempotency_key == new.call.idempotency_key
        && old.call.arguments == new.call.arguments;
    same_call && (to != CallStatus::Pending || from == CallStatus::Pending)
}

/// Numbers without gaps; one end, as the last event, of the turn as its row says.
fn check_log(rows: &RecoveredTurn, violate: &mut impl FnMut(&'static str, String)) {
    let numbers = rows.events.iter().map(|event| event.number);
    if !numbers.eq(1..=rows.events.len() as u64) {
        violate("I8", "the log has a gap".to_owned());
    }
    let ends: Vec<(usize, &TurnEnd)> = rows
        .events
        .iter()
        .enumerate()
        .filter_map(|(at, numbered)| match &numbered.event {
            LogEvent::End(end) => Some((at, &**end)),
            _ => None,
        })
        .collect();
    let turn = &rows.turn;
    let fits = match ends[..] {
        [] => !turn.status.is_final(),
        [(at, end)] => {
            at + 1 == rows.events.len() && (end.status, end.reason) == (turn.status, turn.reason)
        }
        _ => false,
    };
    if !fits {
        violate(
            "I8",
            format!("the log of a {:?} turn has the ends {ends:?}", turn.status),
        );
    }
}

/// I3 over the bytes of a model request, and that each result is the one of its call.
pub fn request(body: &[u8], round: u32, world: &mut SweepWorld<'_>) {
    let body: Value = serde_json::from_slice(body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let mut open: Vec<(String, i64)> = Vec::new();
    let mut wrong = None;
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if open.is_empty() || open[0].0 != id {
                wrong = Some(format!("a result of {id:?} where {open:?} are open"));
                break;
            }
            let (_, argument) = open.remove(0);
            let content = message["content"].as_str().unwrap_or_default();
            let is_wrong = match world.completed.get(&argument) {
                Some(shown) => content != shown,
                None => content.starts_with("did ") && content != lab::tool_answer(argument),
            };
            if is_wrong {
                wrong = Some(format!("call {argument} was given {content:?}"));
            }
            continue;
        }
        if !open.is_empty() {
            break;
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if open.iter().any(|(other, _)| *other == id) {
                wrong = Some(format!("two calls with the id {id:?}"));
            }
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            open.push((id, argument(arguments)));
        }
    }
    if wrong.is_none() && !open.is_empty() {
        wrong = Some(format!("no results for {open:?}"));
    }
    let calls = messages
        .iter()
        .filter_map(|message| message["tool_calls"].as_array())
        .map(Vec::len)
        .sum::<usize>();
    let expected = if round == 1 && world.config.mishap != Mishap::Answered {
        0
    } else {
        world.config.order.len()
    };
    if wrong.is_none() && calls != expected {
        wrong = Some(format!("{calls} calls in the request of round {round}"));
    }
    if let Some(what) = wrong {
        world.violate("I3", what);
    }
}

fn argument(arguments: &str) -> i64 {
    serde_json::from_str::<Value>(arguments)
        .ok()
        .and_then(|value| value["i"].as_i64())
        .unwrap_or(-1)
}

/// Everything that must hold when nobody drives the turn any more.
pub fn end(world: &mut SweepWorld<'_>) {
    world.look_now();
    let Some(rows) = world.rows.clone() else {
        if world.accepted {
            world.violate("I1", "an accepted turn is not in the store".to_owned());
        }
        if !world.shown.is_empty() || !world.ledger.is_empty() {
            world.violate(
                "I1",
                "something happened for a turn that is not durable".to_owned(),
            );
        }
        return;
    };
    ended(&rows, world);
    effects(&rows, world);
    outcomes(&rows, world);
    replay(&rows, world);
}

/// A deleted turn is due to be erased with its end, and no other is.
pub fn erasure(world: &mut SweepWorld<'_>) {
    let erase = Change::EraseDue {
        now: world.lab.now(),
        turns_max: 10,
    };
    let erased = world
        .lab
        .store
        .apply_inline(&ChangeGroup::Free(vec![erase]))
        .unwrap();
    let expected = [Outcome::Count(u64::from(world.deleted))];
    if erased != expected {
        world.violate("I9", format!("erasing came to {erased:?}"));
    }
}

fn ended(rows: &RecoveredTurn, world: &mut SweepWorld<'_>) {
    let unfinished = system::unfinished_turns_now(&world.lab.store, "nobody", 10).unwrap();
    if !rows.turn.status.is_final() || !unfinished.is_empty() {
        world.violate("I1", "the turn has not ended".to_owned());
    }
    for call in &rows.calls {
        let is_asked_about = call.call.approval == Some(ApprovalState::Asked);
        if !call.call.status.is_final() && !is_asked_about {
            world.violate("I1", format!("a call is left open: {:?}", call.call));
        }
    }
    for attempt in &rows.attempts {
        if attempt.end.is_none() {
            world.violate("I1", format!("an attempt is left open: {attempt:?}"));
        }
    }
    let max = world.config.attempts_max();
    let most = world.asked.values().chain(world.dispatched.values()).max();
    if let Some(most) = most.copied().filter(|most| *most > max) {
        world.violate("I1", format!("{most} tries where {max} are allowed"));
    }
    if !rows.messages.iter().any(|message| message.round == 0) {
        world.violate("I2", "the user's message is lost".to_owned());
    }
}

fn effects(rows: &RecoveredTurn, world: &mut SweepWorld<'_>) {
    let class = world.config.class;
    let told: BTreeSet<_> = rows
        .events
        .iter()
        .filter_map(|numbered| match &numbered.event {
            LogEvent::End(end) => Some(end.effects.iter().map(|effect| effect.id)),
            _ => None,
        })
        .flatten()
        .collect();
    let mut found = Vec::new();
    for (argument, effects) in &world.ledger {
        let keys: BTreeSet<&String> = effects.keys.iter().collect();
        let too_many = match class {
            EffectClass::Read => false,
            EffectClass::Idempotent => keys.len() > 1,
            EffectClass::Queryable | EffectClass::Once => effects.count > 1,
        };
        if too_many {
            found.push(format!(
                "call {argument} had its effect {} times",
                effects.count
            ));
        }
        let call = rows.calls.iter().find(|row| of(row) == *argument);
        match call {
            None => found.push(format!("call {argument} has no record")),
            Some(row) if class != EffectClass::Read && !told.contains(&row.call.id) => {
                found.push(format!("call {argument} ran, and the end does not say so"));
            }
            Some(_) => {}
        }
    }
    for what in found {
        world.violate("I4", what);
    }
}

fn of(row: &CallRow) -> i64 {
    argument(&row.call.arguments)
}

/// The record says what happened, and says no worse than what happened.
fn outcomes(rows: &RecoveredTurn, world: &mut SweepWorld<'_>) {
    for row in &rows.calls {
        if row.call.approval.is_some() {
            asked_about(row, rows, world);
            continue;
        }
        let Some(end) = &row.call.end else {
            continue;
        };
        if row.call.runs == CallRunner::Client {
            handed_over(row, rows, world);
            continue;
        }
        if let Some(shown) = world.completed.get(&of(row)) {
            if (end.reason, &end.shown) != (None, shown) {
                let what = format!("call {} ended {end:?} after {shown:?}", of(row));
                world.violate("I5", what);
            }
            continue;
        }
        let count = world
            .ledger
            .get(&of(row))
            .map_or(0, |effects| effects.count);
        let fits = fits(end.reason, count, world)
            && (end.reason.is_some() || end.shown == lab::tool_answer(of(row)));
        if !fits {
            let what = format!("call {} had {count} effects and ended {end:?}", of(row));
            world.violate("I4", what);
        }
    }
    if world.config.mishap == Mishap::Completed && !world.was_killed() && world.completed.len() < 2
    {
        world.violate("I5", "nobody ended the calls from outside".to_owned());
    }
    let end = (rows.turn.status, rows.turn.reason);
    let of_mishap = match world.config.mishap {
        Mishap::Stopped | Mishap::Deleted => (TurnStatus::Cancelled, Some(TurnReason::Requested)),
        Mishap::Late => (TurnStatus::Incomplete, Some(TurnReason::Deadline)),
        Mishap::Nothing
        | Mishap::Reset
        | Mishap::TimedOut
        | Mishap::NotSent
        | Mishap::Invalid
        | Mishap::Mixed
        | Mishap::Asked
        | Mishap::Answered
        | Mishap::ModelFails
        | Mishap::Drained
        | Mishap::Completed => (TurnStatus::Completed, None),
    };
    let of_kills = if world.config.streamed {
        (TurnStatus::Incomplete, Some(TurnReason::Interrupted))
    } else {
        (TurnStatus::Failed, Some(TurnReason::Internal))
    };
    // What was decided outside the driver holds whatever became of the driver.
    let decided = world.deleted;
    let allowed = end == of_mishap
        || (!decided
            && world.was_killed()
            && (end == of_kills || end == (TurnStatus::Completed, None)));
    if !allowed {
        world.violate("I1", format!("the turn ended {end:?}"));
    }
}

/// A call of the client's is shown to it whole, once, as written, if the turn came so far; and
/// before that ours have ended.
fn handed_over(row: &CallRow, rows: &RecoveredTurn, world: &mut SweepWorld<'_>) {
    let log: Vec<&LogEvent> = rows.events.iter().map(|numbered| &numbered.event).collect();
    let shown: Vec<usize> = (0..log.len())
        .filter(|at| matches!(log[*at], LogEvent::ClientCall(_)))
        .collect();
    let is_whole = |at: usize| match log[at] {
        LogEvent::ClientCall(piece) => {
            piece.id.as_deref() == Some(row.call.id.handed().as_str())
                && piece.call == 0
                && piece.arguments.as_ref().map(Literal::to_text).as_deref()
                    == Some(lab::OWN_ARGUMENTS)
        }
        _ => false,
    };
    let ours_ended = |at: usize| {
        let ended = log[..at]
            .iter()
            .filter(|event| matches!(event, LogEvent::CallEnded { .. }));
        ended.count() == world.config.order.len()
    };
    let end = row.call.end.as_ref();
    let was_handed = end.is_some_and(|end| end.reason.is_none() && end.shown.is_empty())
        && row.call.arguments == lab::OWN_ARGUMENTS;
    let fits = match (rows.turn.status, &shown[..]) {
        (TurnStatus::Completed, [at]) => was_handed && is_whole(*at) && ours_ended(*at),
        (TurnStatus::Completed, _) => false,
        (_, shown) => shown.is_empty() && !was_handed,
    };
    if !fits {
        let what = format!(
            "a call of the client's ended {end:?} and was shown {} times",
            shown.len()
        );
        world.violate("I3", what);
    }
}

/// A call that has to be approved is asked about once, if the turn came so far, and before that ours have ended.
fn asked_about(row: &CallRow, rows: &RecoveredTurn, world: &mut SweepWorld<'_>) {
    let log: Vec<&LogEvent> = rows.events.iter().map(|numbered| &numbered.event).collect();
    let asks =
        |at: &usize| matches!(log[*at], LogEvent::ApprovalAsked { id, .. } if *id == row.call.id);
    let asked: Vec<usize> = (0..log.len()).filter(asks).collect();
    let ours_ended = |at: usize| {
        let ended = log[..at].iter();
        let ended = ended.filter(|event| matches!(event, LogEvent::CallEnded { .. }));
        ended.count() == world.config.order.len()
    };
    let is_open = row.call.status == CallStatus::Pending
        && row.call.approval == Some(ApprovalState::Asked)
        && row.until.is_some()
        && row.started.is_none();
    let fits = match (rows.turn.status, &asked[..]) {
        (TurnStatus::Completed, [at]) => is_open && ours_ended(*at),
        (TurnStatus::Completed, _) => false,
        (_, asked) => asked.is_empty() && row.call.status == CallStatus::Failed,
    };
    if !fits {
        let what = format!(
            "a call to approve is {row:?} and was asked about {} times",
            asked.len()
        );
        world.violate("I3", what);
    }
}

fn fits(reason: Option<CallReason>, count: u32, world: &SweepWorld<'_>) -> bool {
    let class = world.config.class;
    let repeatable = matches!(class, EffectClass::Read | EffectClass::Idempotent);
    match reason {
        None => count > 0,
        Some(CallReason::NotSent) => count == 0,
        Some(CallReason::InvalidArguments) => world.config.mishap == Mishap::Invalid && count == 0,
        Some(CallReason::OutcomeUnknown) => {
            class == EffectClass::Once
                || (class == EffectClass::Queryable && world.config.mishap == Mishap::Late)
        }
        Some(CallReason::Interrupted) => repeatable && world.was_killed(),
        Some(CallReason::Reset | CallReason::Timeout) => repeatable,
        Some(CallReason::Cancelled) => {
            matches!(world.config.mishap, Mishap::Stopped | Mishap::Deleted)
                && (repeatable || count == 0)
        }
        Some(CallReason::Deadline) => {
            world.config.mishap == Mishap::Late && (repeatable || count == 0)
        }
        Some(
            CallReason::UnknownTool
            | CallReason::Quota
            | CallReason::Denied
            | CallReason::ApprovalExpired
            | CallReason::ToolError
            | CallReason::TargetNotAllowed
            | CallReason::Panicked,
        ) => false,
    }
}

fn replay(rows: &RecoveredTurn, world: &mut SweepWorld<'_>) {
    let log: Vec<&LogEvent> = rows.events.iter().map(|numbered| &numbered.event).collect();
    // A plain answer reaches its client in one piece, with the end.
    let is_whole = matches!(world.shown.last(), Some(LogEvent::End(_)));
    if !world.config.streamed && !is_whole {
        world.shown.clear();
    }
    let shown = &world.shown;
    let same = shown.iter().zip(&log).take_while(|(a, b)| a == *b).count();
    let rest_is_an_end = log[same..]
        .iter()
        .all(|event| matches!(event, LogEvent::Usage(_) | LogEvent::End(_)));
    let was_interrupted = rows.turn.reason == Some(TurnReason::Interrupted);
    if same < shown.len() && !(rest_is_an_end && was_interrupted && world.config.streamed) {
        let what = format!(
            "shown {:?}, but the log holds {:?}",
            &shown[same..],
            &log[same..]
        );
        world.violate("I8", what);
        return;
    }
    let (organization, turn) = (world.lab.organization, world.turn());
    let page = world
        .lab
        .store
        .events_after_now(organization, turn, same as u64, usize::MAX)
        .unwrap();
    let follows = page.is_some_and(|page| page.complete && page.events[..] == rows.events[same..]);
    if !follows {
        world.violate(
            "I8",
            format!("reading on from event {same} gives something else"),
        );
    }
}
