//! Webhooks, and what becomes of their deliveries.

use tw_core::change::Outcome;
use tw_core::id::{OrgId, WebhookDeliveryKey, WebhookId};
use tw_core::time::Timestamp;
use tw_core::webhook::{
    AttemptEnding, ChangeWebhook, ClaimedDelivery, DeliveryFault, FAILING_MAX, NewWebhook,
    ReplayedDeliveries, SettleDelivery, WEBHOOKS_MAX, WebhookChange, WebhookDisabled, WebhookEvent,
    WebhookSwitch,
};

use super::{StoreApplyError, execute, execute_guarded, lock_organization, query_key, run};
use crate::session::WriteSession;
use crate::session::bound::params;
use crate::session::sql::Sql;

pub fn apply(
    db: &mut WriteSession<'_>,
    change: &WebhookChange,
) -> Result<Outcome, StoreApplyError> {
    match change {
        WebhookChange::Create(new) => create(db, new),
        WebhookChange::Change(change) => change_webhook(db, change),
        WebhookChange::Delete {
            organization,
            webhook,
            at,
        } => delete(db, *organization, *webhook, *at),
        WebhookChange::Rotate {
            organization,
            webhook,
            secret,
            old_until,
            at,
        } => rotate(db, (*organization, *webhook), secret, *old_until, *at),
        WebhookChange::Test {
            organization,
            webhook,
            event_id,
            at,
        } => test(db, (*organization, *webhook), event_id, *at),
        WebhookChange::Replay {
            organization,
            webhook,
            which,
            at,
        } => replay(db, (*organization, *webhook), which, *at),
        WebhookChange::Claim {
            webhook,
            owner,
            deliveries_max,
            at,
            until,
        } => claim(db, (webhook.0, *deliveries_max), owner, *at, *until),
        WebhookChange::Settle(settle) => settle_delivery(db, settle),
        WebhookChange::FreeClaims { owner, at } => free_claims(db, owner, *at),
        WebhookChange::Expire {
            before,
            deliveries_max,
        } => expire(db, *before, *deliveries_max),
    }
}

const COUNT: &str = "SELECT count(*) FROM webhook WHERE organization = ?1 AND deleted_us IS NULL";

const CREATE: &str = "INSERT INTO webhook
    (organization, id, url, description, events, contents, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)";

const ADD_SECRET: &str = "INSERT INTO webhook_secret (webhook, secret, created_us, updated_us)
    VALUES (?1, ?2, ?3, ?3)";

fn create(db: &mut WriteSession<'_>, new: &NewWebhook) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "making a webhook";
    lock_organization(db, WHAT, new.organization)?;
    let there = query_key(db, WHAT, COUNT, params![new.organization.0])?;
    if there.is_some_and(|there| there >= i64::from(WEBHOOKS_MAX)) {
        return Ok(Outcome::TooMany);
    }
    let bound = params![
        new.organization.0,
        new.id.to_string(),
        new.settings.url,
        new.settings.description,
        new.settings.events.bits(),
        new.settings.contents.as_str(),
        new.at.0,
    ];
    execute_guarded(db, WHAT, CREATE, bound)?;
    let key = find(db, WHAT, (new.organization, new.id))?;
    execute_guarded(db, WHAT, ADD_SECRET, params![key, new.secret, new.at.0])
}

const CHANGE: &str = "UPDATE webhook
    SET url = ?3, description = ?4, events = ?5, contents = ?6, updated_us = ?7
    WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL";

/// What was wrong before is forgotten with it, so that it has its days again.
const ENABLE: &str = "UPDATE webhook
    SET disabled = NULL, disabled_us = NULL, failing_us = NULL, failures = 0, updated_us = ?3
    WHERE organization = ?1 AND id = ?2 AND disabled IS NOT NULL";

const DISABLE: &str = "UPDATE webhook SET disabled = ?4, disabled_us = ?3, updated_us = ?3
    WHERE organization = ?1 AND id = ?2 AND disabled IS NULL";

fn change_webhook(
    db: &mut WriteSession<'_>,
    change: &ChangeWebhook,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "changing a webhook";
    let id = change.id.to_string();
    let organization = change.organization.0;
    let settings = &change.settings;
    let bound = params![
        organization,
        id,
        settings.url,
        settings.description,
        settings.events.bits(),
        settings.contents.as_str(),
        change.at.0,
    ];
    if execute(db, WHAT, CHANGE, bound)? == 0 {
        return Ok(Outcome::Already);
    }
    match change.enabled {
        None => {}
        Some(WebhookSwitch::Enable) => {
            run(db, WHAT, ENABLE, params![organization, id, change.at.0])?;
            db.note_deliveries();
        }
        Some(WebhookSwitch::Disable) => {
            let by = WebhookDisabled::ByHand.as_str();
            let bound = params![organization, id, change.at.0, by];
            run(db, WHAT, DISABLE, bound)?;
        }
    }
    Ok(Outcome::Done)
}

/// PostgreSQL locks the webhook, so that nobody else changes what belongs to it.
const FIND: Sql = Sql {
    sqlite: "SELECT key FROM webhook WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL",
    postgres: "SELECT key FROM webhook WHERE organization = ?1 AND id = ?2 AND deleted_us IS NULL
        FOR NO KEY UPDATE",
};

fn find(
    db: &mut WriteSession<'_>,
    what: &'static str,
    (organization, webhook): (OrgId, WebhookId),
) -> Result<Option<i64>, StoreApplyError> {
    let bound = params![organization.0, webhook.to_string()];
    query_key(db, what, FIND, bound)
}

const DELETE: &str =
    "UPDATE webhook SET deleted_us = ?2, url = '', description = '', updated_us = ?2
    WHERE key = ?1";

fn delete(
    db: &mut WriteSession<'_>,
    organization: OrgId,
    webhook: WebhookId,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "deleting a webhook";
    let Some(key) = find(db, WHAT, (organization, webhook))? else {
        return Ok(Outcome::Already);
    };
    run(db, WHAT, DELETE, params![key, at.0])?;
    let sql = "DELETE FROM webhook_secret WHERE webhook = ?1";
    run(db, WHAT, sql, params![key])?;
    Ok(Outcome::Done)
}

const END_SECRETS: &str = "UPDATE webhook_secret SET expires_us = ?2, updated_us = ?3
    WHERE webhook = ?1 AND (expires_us IS NULL OR expires_us > ?2)";

fn rotate(
    db: &mut WriteSession<'_>,
    place: (OrgId, WebhookId),
    secret: &[u8],
    old_until: Timestamp,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "rotating a webhook's secret";
    let Some(key) = find(db, WHAT, place)? else {
        return Ok(Outcome::Already);
    };
    run(db, WHAT, END_SECRETS, params![key, old_until.0, at.0])?;
    let sql = "DELETE FROM webhook_secret WHERE webhook = ?1 AND expires_us <= ?2";
    run(db, WHAT, sql, params![key, at.0])?;
    execute_guarded(db, WHAT, ADD_SECRET, params![key, secret, at.0])
}

const TEST: &str =
    "INSERT INTO webhook_delivery (webhook, event, event_id, state, due_us, created_us, updated_us)
    SELECT key, ?3, ?4, 'pending', ?5, ?5, ?5 FROM webhook
    WHERE organization = ?1 AND id = ?2 AND disabled IS NULL AND deleted_us IS NULL";

fn test(
    db: &mut WriteSession<'_>,
    (organization, webhook): (OrgId, WebhookId),
    event_id: &str,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let event = WebhookEvent::Test.as_str();
    let bound = params![organization.0, webhook.to_string(), event, event_id, at.0];
    match execute(db, "testing a webhook", TEST, bound)? {
        0 => Ok(Outcome::Already),
        _ => {
            db.note_deliveries();
            Ok(Outcome::Done)
        }
    }
}

const REPLAY_ONE: &str = "UPDATE webhook_delivery
    SET state = 'pending', tries = 0, due_us = ?3, claimed_by = NULL, updated_us = ?3
    WHERE webhook = ?1 AND event_id = ?2 AND state <> 'pending'";

const REPLAY_DEAD: &str = "UPDATE webhook_delivery
    SET state = 'pending', tries = 0, due_us = ?3, claimed_by = NULL, updated_us = ?3
    WHERE key IN (SELECT key FROM webhook_delivery WHERE webhook = ?1 AND state = 'dead' ORDER BY key LIMIT ?2)";

fn replay(
    db: &mut WriteSession<'_>,
    place: (OrgId, WebhookId),
    which: &ReplayedDeliveries,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "replaying deliveries";
    let Some(key) = find(db, WHAT, place)? else {
        return Ok(Outcome::Already);
    };
    let replayed = match which {
        ReplayedDeliveries::One(event_id) => {
            execute(db, WHAT, REPLAY_ONE, params![key, event_id, at.0])?
        }
        ReplayedDeliveries::Dead { deliveries_max } => {
            execute(db, WHAT, REPLAY_DEAD, params![key, deliveries_max, at.0])?
        }
    };
    db.note_deliveries();
    Ok(counted(replayed))
}

/// Deliveries that somebody else claims or settles are left to a later time.
pub const DUE: Sql = Sql {
    sqlite: "SELECT key FROM webhook_delivery
        WHERE webhook = ?1 AND state = 'pending' AND due_us <= ?2 ORDER BY due_us LIMIT ?3",
    postgres: "SELECT key FROM webhook_delivery
        WHERE webhook = ?1 AND state = 'pending' AND due_us <= ?2 ORDER BY due_us LIMIT ?3
        FOR NO KEY UPDATE SKIP LOCKED",
};

const IS_ENABLED: &str =
    "SELECT 1 FROM webhook WHERE key = ?1 AND disabled IS NULL AND deleted_us IS NULL";

const CLAIM: &str = "UPDATE webhook_delivery
    SET attempts = attempts + 1, tries = tries + 1, claimed_by = ?2, due_us = ?3, updated_us = ?4
    WHERE key = ?1";

fn claim(
    db: &mut WriteSession<'_>,
    (webhook, deliveries_max): (i64, u32),
    owner: &str,
    at: Timestamp,
    until: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "claiming deliveries";
    let failed = |error| StoreApplyError::db(WHAT, error);
    if query_key(db, WHAT, IS_ENABLED, params![webhook])?.is_none() {
        return Ok(Outcome::Deliveries(Vec::new()));
    }
    let due: Vec<i64> = db
        .all(DUE, params![webhook, at.0, deliveries_max])
        .map_err(failed)?;
    let mut claimed = Vec::with_capacity(due.len());
    for key in due {
        run(db, WHAT, CLAIM, params![key, owner, until.0, at.0])?;
        let sql = "SELECT attempts, tries FROM webhook_delivery WHERE key = ?1";
        let numbers = db.first(sql, params![key], |row| {
            Ok(ClaimedDelivery {
                delivery: WebhookDeliveryKey(key),
                attempt: row.get(0)?,
                tries: row.get(1)?,
            })
        });
        claimed.extend(numbers.map_err(failed)?);
    }
    Ok(Outcome::Deliveries(claimed))
}

const NOTE_ATTEMPT: &str = "INSERT INTO webhook_attempt
        (delivery, n, http_status, fault, ended_us, created_us, updated_us)
    SELECT key, ?2, ?3, ?4, ?6, ?5, ?6 FROM webhook_delivery WHERE key = ?1
    ON CONFLICT (delivery, n) DO NOTHING";

/// Whoever else has claimed it since: it is delivered.
const TAKEN: &str = "UPDATE webhook_delivery
    SET state = 'delivered', claimed_by = NULL, http_status = ?2, fault = NULL, delivered_us = ?3, updated_us = ?3
    WHERE key = ?1 AND state = 'pending'";

const FAILED: &str = "UPDATE webhook_delivery
    SET state = CASE WHEN ?6 IS NULL THEN 'dead' ELSE 'pending' END, claimed_by = NULL, http_status = ?3, fault = ?4,
        due_us = coalesce(?6, due_us), updated_us = ?5
    WHERE key = ?1 AND state = 'pending' AND attempts = ?2";

fn settle_delivery(
    db: &mut WriteSession<'_>,
    settle: &SettleDelivery,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "settling a delivery";
    let key = settle.delivery.0;
    let fault = match settle.end {
        AttemptEnding::Taken => None,
        AttemptEnding::Failed { fault, .. } => Some(fault),
    };
    let bound = params![
        key,
        settle.attempt,
        settle.http_status,
        fault.map(DeliveryFault::as_str),
        settle.started.0,
        settle.at.0,
    ];
    run(db, WHAT, NOTE_ATTEMPT, bound)?;
    let settled = match settle.end {
        AttemptEnding::Taken => {
            let bound = params![key, settle.http_status, settle.at.0];
            execute(db, WHAT, TAKEN, bound)?
        }
        AttemptEnding::Failed { fault, again } => {
            let bound = params![
                key,
                settle.attempt,
                settle.http_status,
                fault.as_str(),
                settle.at.0,
                again.map(|again| again.0),
            ];
            execute(db, WHAT, FAILED, bound)?
        }
    };
    if settled == 0 {
        return Ok(Outcome::Already);
    }
    let of = "SELECT webhook FROM webhook_delivery WHERE key = ?1";
    if let Some(webhook) = query_key(db, WHAT, of, params![key])? {
        note_health(db, webhook, fault, settle.at)?;
    }
    Ok(Outcome::Done)
}

const WELL: &str = "UPDATE webhook
    SET delivered_us = ?2, failing_us = NULL, failures = 0, updated_us = ?2 WHERE key = ?1";

const FAILING: &str = "UPDATE webhook
    SET failing_us = coalesce(failing_us, ?2), failures = failures + 1, updated_us = ?2 WHERE key = ?1";

const GIVE_UP: &str = "UPDATE webhook SET disabled = ?3, disabled_us = ?2, updated_us = ?2
    WHERE key = ?1 AND disabled IS NULL AND deleted_us IS NULL AND (?4 IS NULL OR failing_us <= ?4)";

/// What waited for a webhook that is given up can be replayed, and is not sent by itself when it is back.
const GIVE_UP_DELIVERIES: &str = "UPDATE webhook_delivery
    SET state = 'dead', claimed_by = NULL, updated_us = ?2 WHERE webhook = ?1 AND state = 'pending'";

fn note_health(
    db: &mut WriteSession<'_>,
    webhook: i64,
    fault: Option<DeliveryFault>,
    at: Timestamp,
) -> Result<(), StoreApplyError> {
    const WHAT: &str = "noting how a webhook does";
    let Some(fault) = fault else {
        return run(db, WHAT, WELL, params![webhook, at.0]);
    };
    run(db, WHAT, FAILING, params![webhook, at.0])?;
    let (why, failing_since) = match fault {
        DeliveryFault::Gone => (WebhookDisabled::Gone, None),
        DeliveryFault::Status
        | DeliveryFault::Redirect
        | DeliveryFault::NotAllowed
        | DeliveryFault::Connect
        | DeliveryFault::Timeout
        | DeliveryFault::Reset
        | DeliveryFault::Unreadable => (WebhookDisabled::Failing, Some(at.before(FAILING_MAX).0)),
    };
    let bound = params![webhook, at.0, why.as_str(), failing_since];
    if execute(db, WHAT, GIVE_UP, bound)? > 0 {
        run(db, WHAT, GIVE_UP_DELIVERIES, params![webhook, at.0])?;
    }
    Ok(())
}

/// On PostgreSQL another process may still be sending what it claimed.
const FREE: Sql = Sql {
    sqlite: "UPDATE webhook_delivery SET claimed_by = NULL, due_us = ?2, updated_us = ?2
        WHERE claimed_by IS NOT NULL AND claimed_by <> ?1 AND state = 'pending'",
    postgres: "UPDATE webhook_delivery SET claimed_by = NULL, due_us = ?2, updated_us = ?2
        WHERE claimed_by IS NOT NULL AND claimed_by <> ?1 AND state = 'pending'
          AND claimed_by NOT IN (SELECT id FROM instance WHERE lease_until_us > clock_us())",
};

fn free_claims(
    db: &mut WriteSession<'_>,
    owner: &str,
    at: Timestamp,
) -> Result<Outcome, StoreApplyError> {
    let freed = execute(db, "freeing deliveries", FREE, params![owner, at.0])?;
    Ok(counted(freed))
}

const EXPIRE: &str = "DELETE FROM webhook_delivery WHERE key IN
    (SELECT key FROM webhook_delivery WHERE state <> 'pending' AND updated_us < ?1 ORDER BY updated_us LIMIT ?2)";

const EXPIRE_DELETED: &str = "DELETE FROM webhook_delivery WHERE key IN
    (SELECT d.key FROM webhook w CROSS JOIN webhook_delivery d
     WHERE w.deleted_us IS NOT NULL AND d.webhook = w.key LIMIT ?1)";

const REMOVE_DELETED: &str = "DELETE FROM webhook WHERE deleted_us IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM webhook_delivery d WHERE d.webhook = webhook.key)";

fn expire(
    db: &mut WriteSession<'_>,
    before: Timestamp,
    deliveries_max: u32,
) -> Result<Outcome, StoreApplyError> {
    const WHAT: &str = "deleting old deliveries";
    let old = execute(db, WHAT, EXPIRE, params![before.0, deliveries_max])?;
    let of_deleted = execute(db, WHAT, EXPIRE_DELETED, params![deliveries_max])?;
    run(db, WHAT, REMOVE_DELETED, params![])?;
    Ok(counted(old.max(of_deleted)))
}

fn counted(rows: usize) -> Outcome {
    Outcome::Count(u64::try_from(rows).unwrap_or(u64::MAX))
}
