//! Deliveries of webhooks, of whichever organization: those that are due, and what they say.

use tw_core::call::{CallReason, CallStatus};
use tw_core::id::{
    CallId, OrgId, ToolVersionKey, TurnId, WebhookDeliveryKey, WebhookId, WebhookKey,
};
use tw_core::request::{Block, Role};
use tw_core::time::Timestamp;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_core::webhook::told::{ToldCall, ToldEvent, ToldTurn};
use tw_core::webhook::{WebhookContents, WebhookEvent};

use crate::read::ReadError;
use crate::read::calls::{ContentsRead, messages};
use crate::read::columns::{get, optional_time, optional_word, time, word};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::store::Store;

/// A webhook that has something to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueWebhook {
    pub webhook: WebhookKey,
    /// Failures since something was delivered.
    pub failures: u32,
    /// Time when the first of its deliveries is due.
    pub due: Timestamp,
}

/// A delivery with all that is needed to send it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryToSend {
    pub organization: OrgId,
    pub organization_slug: String,
    pub webhook: WebhookId,
    pub url: String,
    /// Secrets that count, the newest first.
    pub secrets: Vec<Vec<u8>>,
    pub event_id: String,
    pub told: ToldEvent,
}

const DUE: &str = "SELECT w.key, w.failures,
        (SELECT d.due_us FROM webhook_delivery d WHERE d.webhook = w.key AND d.state = 'pending'
         ORDER BY d.due_us LIMIT 1) AS due_us
    FROM webhook w WHERE w.disabled IS NULL AND w.deleted_us IS NULL";

/// The webhooks that are told something, now or later.
///
/// # Errors
/// See [`ReadError`].
pub async fn due(store: &Store) -> Result<Vec<DueWebhook>, ReadError> {
    store
        .read(|conn| {
            let mut statement = conn.prepare_cached(DUE)?;
            let mut rows = statement.query(params![])?;
            let mut due = Vec::new();
            while let Some(row) = rows.next()? {
                let Some(at) = optional_time(row, "due_us")? else {
                    continue;
                };
                due.push(DueWebhook {
                    webhook: WebhookKey(get(row, "key")?),
                    failures: get(row, "failures")?,
                    due: at,
                });
            }
            Ok(due)
        })
        .await
}

const TO_SEND: &str = "SELECT w.organization, o.slug, w.id AS webhook, w.key AS webhook_key, w.url, w.contents, d.event,
        d.event_id, d.created_us AS told_us, t.key AS turn_key, t.id AS turn, v.id AS conversation, u.name AS end_user,
        t.model, s.status, s.reason, s.tool_count, t.created_us, s.ended_us,
        t.deleted_us IS NULL AND s.erased_us IS NULL AS is_there,
        c.id AS call, c.tool_name, c.tool_version, c.status AS call_status, c.reason AS call_reason, c.is_error,
        c.created_us AS call_created_us, c.started_us AS call_started_us, c.ended_us AS call_ended_us,
        CASE WHEN w.contents = 'full' THEN c.arguments ELSE '' END AS arguments,
        CASE WHEN w.contents = 'full' THEN c.shown ELSE '' END AS shown
    FROM webhook_delivery d JOIN webhook w ON w.key = d.webhook JOIN organization o ON o.key = w.organization
        LEFT JOIN turn_start t ON t.key = d.turn
        LEFT JOIN turn_state s ON s.turn = d.turn
        LEFT JOIN conversation v ON v.key = t.conversation
        LEFT JOIN end_user u ON u.key = t.end_user
        LEFT JOIN tool_call c ON c.turn = d.turn AND c.round = d.round AND c.position = d.position
    WHERE d.key = ?1 AND w.deleted_us IS NULL";

const SECRETS: &str = "SELECT secret FROM webhook_secret
    WHERE webhook = ?1 AND (expires_us IS NULL OR expires_us > ?2) ORDER BY key DESC";

/// A delivery as it is to be sent at `now`; `None` when it is not there any more.
///
/// # Errors
/// See [`ReadError`].
pub async fn delivery(
    store: &Store,
    delivery: WebhookDeliveryKey,
    now: Timestamp,
) -> Result<Option<DeliveryToSend>, ReadError> {
    store.read(move |conn| find(conn, delivery, now)).await
}

fn find(
    conn: ReadSession<'_>,
    delivery: WebhookDeliveryKey,
    now: Timestamp,
) -> Result<Option<DeliveryToSend>, ReadError> {
    let mut statement = conn.prepare_cached(TO_SEND)?;
    let mut rows = statement.query(params![delivery.0])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let contents = word(row, "contents", WebhookContents::parse)?;
    let with_contents = match contents {
        WebhookContents::None => false,
        WebhookContents::Full => get::<Option<bool>>(row, "is_there")?.unwrap_or(false),
    };
    let mut statement = conn.prepare_cached(SECRETS)?;
    let webhook: i64 = get(row, "webhook_key")?;
    let secrets = statement.all(params![webhook, now.0])?;
    let call = told_call(row, with_contents)?;
    Ok(Some(DeliveryToSend {
        organization: OrgId(get(row, "organization")?),
        organization_slug: get(row, "slug")?,
        webhook: word(row, "webhook", WebhookId::parse)?,
        url: get(row, "url")?,
        secrets,
        event_id: get(row, "event_id")?,
        told: ToldEvent {
            event: word(row, "event", WebhookEvent::parse)?,
            at: time(row, "told_us")?,
            turn: told_turn(conn, row, with_contents && call.is_none())?,
            call,
        },
    }))
}

fn told_turn(
    conn: ReadSession<'_>,
    row: Row<'_>,
    with_answer: bool,
) -> Result<Option<ToldTurn>, ReadError> {
    let Some(id) = optional_word(row, "turn", TurnId::parse)? else {
        return Ok(None);
    };
    Ok(Some(ToldTurn {
        id,
        conversation: get(row, "conversation")?,
        end_user: get(row, "end_user")?,
        model: get(row, "model")?,
        status: word(row, "status", TurnStatus::parse)?,
        reason: optional_word(row, "reason", TurnReason::parse)?,
        tool_count: get(row, "tool_count")?,
        created: time(row, "created_us")?,
        ended: optional_time(row, "ended_us")?,
        answer: if with_answer {
            Some(answer(conn, get(row, "turn_key")?)?)
        } else {
            None
        },
    }))
}

/// The text that the last round said.
fn answer(conn: ReadSession<'_>, turn: i64) -> Result<String, ReadError> {
    let messages = messages(conn, turn, ContentsRead::Shown)?;
    let said = messages
        .iter()
        .rfind(|message| message.round > 0 && message.role == Role::Assistant);
    let blocks = said.map_or(&[][..], |message| &message.blocks);
    Ok(blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) | Block::Refusal(text) => Some(text.to_text()),
            Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => None,
        })
        .collect())
}

fn told_call(row: Row<'_>, with_contents: bool) -> Result<Option<ToldCall>, ReadError> {
    let Some(id) = optional_word(row, "call", CallId::parse)? else {
        return Ok(None);
    };
    let contents = (
        get(row, "arguments")?,
        get::<Option<String>>(row, "shown")?.unwrap_or_default(),
    );
    Ok(Some(ToldCall {
        id,
        tool_name: get(row, "tool_name")?,
        tool_version: get::<Option<i64>>(row, "tool_version")?.map(ToolVersionKey),
        status: word(row, "call_status", CallStatus::parse)?,
        reason: optional_word(row, "call_reason", CallReason::parse)?,
        is_error: get::<Option<bool>>(row, "is_error")?.unwrap_or(false),
        created: time(row, "call_created_us")?,
        started: optional_time(row, "call_started_us")?,
        ended: optional_time(row, "call_ended_us")?,
        contents: with_contents.then_some(contents),
    }))
}
