//! What webhooks are told, written with the change that it tells of.
//!
//! Most organizations have no webhook, so a look comes first, which then finds an empty index. The id of an event
//! follows from what it tells of, which happens once; so an event is told once to each webhook, whoever writes it.

use tw_core::call::{CallEnd, CallStatus};
use tw_core::change::CompleteCall;
use tw_core::id::{CallRef, OrgId};
use tw_core::time::Timestamp;
use tw_core::turn_status::TurnStatus;
use tw_core::webhook::{WebhookEvent, WebhookEvents};

use super::{StoreApplyError, TurnKey, execute, query_key};
use crate::session::WriteSession;
use crate::session::bound::{Params, params};

const WHAT: &str = "telling webhooks";

pub const IS_TOLD: &str = "SELECT 1 FROM webhook
    WHERE organization = ?1 AND disabled IS NULL AND deleted_us IS NULL AND (events & ?2) <> 0 LIMIT 1";

const OF_TURN: &str =
    "INSERT INTO webhook_delivery (webhook, event, event_id, turn, state, due_us, created_us, updated_us)
    SELECT w.key, ?3, 'evt_' || replace(t.id, '-', ''), t.key, 'pending', ?4, ?4, ?4
    FROM webhook w CROSS JOIN turn_start t
    WHERE w.organization = ?1 AND w.disabled IS NULL AND w.deleted_us IS NULL AND (w.events & ?2) <> 0
        AND t.key = ?5";

const OF_CALL: &str = "INSERT INTO webhook_delivery
        (webhook, event, event_id, turn, round, position, state, due_us, created_us, updated_us)
    SELECT w.key, ?3, 'evt_' || replace(c.id, '-', ''), c.turn, c.round, c.position, 'pending', ?4, ?4, ?4
    FROM webhook w CROSS JOIN tool_call c
    WHERE w.organization = ?1 AND w.disabled IS NULL AND w.deleted_us IS NULL AND (w.events & ?2) <> 0
        AND c.turn = ?5 AND c.round = ?6 AND c.position = ?7 AND c.runs = 'server'";

const OF_NAMED_CALL: &str = "INSERT INTO webhook_delivery
        (webhook, event, event_id, turn, round, position, state, due_us, created_us, updated_us)
    SELECT w.key, ?3, 'evt_' || replace(c.id, '-', ''), c.turn, c.round, c.position, 'pending', ?4, ?4, ?4
    FROM webhook w CROSS JOIN tool_call c
    WHERE w.organization = ?1 AND w.disabled IS NULL AND w.deleted_us IS NULL AND (w.events & ?2) <> 0
        AND c.organization = ?1 AND c.id = ?5 AND c.runs = 'server'";

pub fn tell_of_turn(
    db: &mut WriteSession<'_>,
    turn: TurnKey,
    status: TurnStatus,
    at: Timestamp,
) -> Result<(), StoreApplyError> {
    let Some(event) = WebhookEvent::of_turn(status) else {
        return Ok(());
    };
    let bits = WebhookEvents::of(&[event]).bits();
    let bound = params![turn.organization.0, bits, event.as_str(), at.0, turn.key];
    tell(db, (turn.organization, bits), OF_TURN, bound)
}

/// Tells of the end of a call of ours; those of clients are theirs to know.
pub fn tell_of_call(
    db: &mut WriteSession<'_>,
    turn: TurnKey,
    call: CallRef,
    end: &CallEnd,
    at: Timestamp,
) -> Result<(), StoreApplyError> {
    let event = of_call(end);
    let bits = WebhookEvents::of(&[event]).bits();
    let bound = params![
        turn.organization.0,
        bits,
        event.as_str(),
        at.0,
        turn.key,
        call.round,
        call.position,
    ];
    tell(db, (turn.organization, bits), OF_CALL, bound)
}

/// The same of a call by its id.
pub fn tell_of_named_call(
    db: &mut WriteSession<'_>,
    complete: &CompleteCall,
) -> Result<(), StoreApplyError> {
    let event = of_call(&complete.end);
    let bits = WebhookEvents::of(&[event]).bits();
    let bound = params![
        complete.organization.0,
        bits,
        event.as_str(),
        complete.at.0,
        complete.call.to_string(),
    ];
    tell(db, (complete.organization, bits), OF_NAMED_CALL, bound)
}

fn of_call(end: &CallEnd) -> WebhookEvent {
    match end.status() {
        CallStatus::Failed => WebhookEvent::CallFailed,
        // An end is one or the other.
        CallStatus::Completed | CallStatus::Pending | CallStatus::Processing => {
            WebhookEvent::CallCompleted
        }
    }
}

fn tell(
    db: &mut WriteSession<'_>,
    (organization, bits): (OrgId, u32),
    sql: &'static str,
    bound: Params<'_>,
) -> Result<(), StoreApplyError> {
    if query_key(db, WHAT, IS_TOLD, params![organization.0, bits])?.is_none() {
        return Ok(());
    }
    if execute(db, WHAT, sql, bound)? > 0 {
        db.note_deliveries();
    }
    Ok(())
}
