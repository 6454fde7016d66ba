//! Ending a claimed turn whose machine cannot be rebuilt, or must not be.

use tw_core::call::{CallEnd, CallReason, CallRunner, CallStatus};
use tw_core::change::{EndTurn, EventFlush, Fence, Outcome, TurnChange};
use tw_core::effect_words;
use tw_core::event::{EffectRan, LogEvent, TurnEnd};
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::turn::CallRow;

use super::RecoverError;
use crate::runtime::RuntimeInner;

/// Ends the turn as `failed (internal)`, and the calls that are open with it. Nothing of what was said is loaded.
pub(super) async fn end(inner: &RuntimeInner, fence: Fence) -> Result<(), RecoverError> {
    // Somebody else may end a call between the look and the write; the next look finds one open call less.
    while !end_as_seen(inner, fence).await? {}
    inner
        .metrics
        .turn_ended(TurnStatus::Failed, Some(TurnReason::Internal));
    Ok(())
}

/// False if a call had ended by the time of the write, which then wrote nothing.
async fn end_as_seen(inner: &RuntimeInner, fence: Fence) -> Result<bool, RecoverError> {
    let page = inner
        .store
        .events_after(fence.organization, fence.turn, 0, 0)
        .await?;
    let calls = inner
        .store
        .calls_named(fence.organization, fence.turn)
        .await?;
    let at = inner.env.now();
    let effects: Vec<EffectRan> = calls.iter().filter_map(effect_ran).collect();
    let had_effects = !effects.is_empty();
    let end = TurnEnd {
        status: TurnStatus::Failed,
        reason: Some(TurnReason::Internal),
        fault: Some(TurnFault::new(
            FaultClass::Internal,
            "the request could not be finished after a restart",
        )),
        effects,
        at: Some(at),
    };
    let mut changes: Vec<TurnChange> = calls.iter().filter_map(|row| ended(row, at)).collect();
    changes.push(TurnChange::AppendEvents(EventFlush {
        first: page.map_or(0, |page| page.last) + 1,
        events: vec![LogEvent::End(Box::new(end))],
        at,
    }));
    changes.push(TurnChange::EndTurn(EndTurn {
        status: TurnStatus::Failed,
        reason: Some(TurnReason::Internal),
        usage: None,
        has_tool_calls: false,
        tool_count: 0,
        had_effects,
        remembered: None,
        erase_after: None,
        at,
    }));
    let outcomes = inner.store.apply_to_turn(fence, changes).await?;
    Ok(!matches!(outcomes[..], [Outcome::CallEnded { .. }]))
}

/// The end of an open call. Of one that was started and is not `read`, it is not known whether it took effect.
fn ended(row: &CallRow, at: Timestamp) -> Option<TurnChange> {
    let call = &row.call;
    // What a callback is to end has a deadline of its own.
    if call.status.is_final() || call.runs == CallRunner::Outside || row.awaits_callback() {
        return None;
    }
    let is_unknown = row.started.is_some() && call.effect != Some(EffectClass::Read);
    let (reason, shown) = if is_unknown {
        (CallReason::OutcomeUnknown, effect_words::OUTCOME_UNKNOWN)
    } else {
        (
            CallReason::Interrupted,
            "The turn ended before this call did.",
        )
    };
    let end = CallEnd {
        reason: Some(reason),
        result: None,
        shown: shown.to_owned(),
        is_error: true,
        cached: false,
    };
    Some(TurnChange::EndCall {
        call: call.call,
        end,
        at,
    })
}

fn effect_ran(row: &CallRow) -> Option<EffectRan> {
    let call = &row.call;
    let is_effect = call.runs == CallRunner::Server && call.effect != Some(EffectClass::Read);
    let was_sent = call.end.as_ref().and_then(|end| end.reason) != Some(CallReason::NotSent);
    (is_effect && row.started.is_some() && was_sent).then(|| EffectRan {
        id: call.id,
        name: call.tool_name.clone(),
        status: match call.status {
            status @ CallStatus::Processing if row.awaits_callback() => status,
            CallStatus::Pending | CallStatus::Processing => CallStatus::Failed,
            status @ (CallStatus::Completed | CallStatus::Failed) => status,
        },
    })
}
