//! Webhooks of an organization, and their deliveries.

use tw_core::id::{CallId, OrgId, TurnId, WebhookDeliveryKey, WebhookId, WebhookKey};
use tw_core::time::Timestamp;
use tw_core::webhook::{
    DeliveryFault, DeliveryState, WebhookContents, WebhookDisabled, WebhookEvent, WebhookEvents,
    WebhookSettings,
};

use super::ReadError;
use super::columns::{get, optional_time, optional_word, time, word};
use crate::session::ReadSession;
use crate::session::bound::params;
use crate::session::row::Row;
use crate::session::sql::Sql;
use crate::store::Store;

/// A webhook without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookRow {
    pub key: WebhookKey,
    pub id: WebhookId,
    pub settings: WebhookSettings,
    /// Reason for which it is told nothing, and since when.
    pub disabled: Option<(WebhookDisabled, Timestamp)>,
    /// Time of the first failure since something was delivered.
    pub failing: Option<Timestamp>,
    pub failures: u32,
    /// Time of the last delivery.
    pub delivered: Option<Timestamp>,
    /// Time until which messages are signed with an earlier secret, too.
    pub old_secret_until: Option<Timestamp>,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// A delivery to one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRow {
    pub key: WebhookDeliveryKey,
    pub event: WebhookEvent,
    /// The `webhook-id` that it is sent with.
    pub event_id: String,
    pub turn: Option<TurnId>,
    pub call: Option<CallId>,
    pub state: DeliveryState,
    /// Attempts that were begun.
    pub attempts: u32,
    /// Time of the next attempt, or until which one that runs may last.
    pub due: Timestamp,
    pub http_status: Option<u16>,
    pub fault: Option<DeliveryFault>,
    pub delivered: Option<Timestamp>,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// An attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttemptRow {
    pub n: u32,
    pub http_status: Option<u16>,
    /// `None` for one that was taken.
    pub fault: Option<DeliveryFault>,
    pub started: Timestamp,
    pub ended: Timestamp,
}

/// The deliveries that are listed.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    pub state: Option<DeliveryState>,
    pub event: Option<WebhookEvent>,
    /// Those older than this one.
    pub behind: Option<WebhookDeliveryKey>,
}

/// Attempts of a delivery that are read, the newest ones.
const ATTEMPTS_MAX: u32 = 100;

const WEBHOOKS: &str = "SELECT w.key, w.id, w.url, w.description, w.events, w.contents, w.disabled, w.disabled_us,
        w.failing_us, w.failures, w.delivered_us, w.created_us, w.updated_us,
        (SELECT max(s.expires_us) FROM webhook_secret s WHERE s.webhook = w.key) AS old_secret_us
    FROM webhook w
    WHERE w.organization = ?1 AND (?2 IS NULL OR w.id = ?2) AND w.deleted_us IS NULL ORDER BY w.key";

const DELIVERIES: &str = "SELECT d.key, d.event, d.event_id, t.id AS turn, c.id AS call, d.state, d.attempts, d.due_us,
        d.http_status, d.fault, d.delivered_us, d.created_us, d.updated_us
    FROM webhook w JOIN webhook_delivery d ON d.webhook = w.key
        LEFT JOIN turn_start t ON t.key = d.turn
        LEFT JOIN tool_call c ON c.turn = d.turn AND c.round = d.round AND c.position = d.position
    WHERE w.organization = ?1 AND w.id = ?2 AND w.deleted_us IS NULL AND (?3 IS NULL OR d.state = ?3)
        AND (?4 IS NULL OR d.event = ?4) AND d.key < coalesce(?5, 9223372036854775807)
    ORDER BY d.key DESC LIMIT ?6";

/// The same of the dead ones, which may be few among millions.
const DEAD: Sql = Sql {
    sqlite: "SELECT d.key, d.event, d.event_id, t.id AS turn, c.id AS call, d.state, d.attempts, d.due_us,
        d.http_status, d.fault, d.delivered_us, d.created_us, d.updated_us
    FROM webhook w JOIN webhook_delivery d INDEXED BY webhook_delivery_dead ON d.webhook = w.key
        LEFT JOIN turn_start t ON t.key = d.turn
        LEFT JOIN tool_call c ON c.turn = d.turn AND c.round = d.round AND c.position = d.position
    WHERE w.organization = ?1 AND w.id = ?2 AND w.deleted_us IS NULL AND d.state = 'dead' AND ?3 IS NOT NULL
        AND (?4 IS NULL OR d.event = ?4) AND d.key < coalesce(?5, 9223372036854775807)
    ORDER BY d.key DESC LIMIT ?6",
    postgres: "SELECT d.key, d.event, d.event_id, t.id AS turn, c.id AS call, d.state, d.attempts, d.due_us,
        d.http_status, d.fault, d.delivered_us, d.created_us, d.updated_us
    FROM webhook w JOIN webhook_delivery d ON d.webhook = w.key
        LEFT JOIN turn_start t ON t.key = d.turn
        LEFT JOIN tool_call c ON c.turn = d.turn AND c.round = d.round AND c.position = d.position
    WHERE w.organization = ?1 AND w.id = ?2 AND w.deleted_us IS NULL AND d.state = 'dead' AND ?3 IS NOT NULL
        AND (?4 IS NULL OR d.event = ?4) AND d.key < coalesce(?5, 9223372036854775807)
    ORDER BY d.key DESC LIMIT ?6",
};

const DELIVERY: &str =
    "SELECT d.key, d.event, d.event_id, t.id AS turn, c.id AS call, d.state, d.attempts, d.due_us,
        d.http_status, d.fault, d.delivered_us, d.created_us, d.updated_us
    FROM webhook w JOIN webhook_delivery d ON d.webhook = w.key
        LEFT JOIN turn_start t ON t.key = d.turn
        LEFT JOIN tool_call c ON c.turn = d.turn AND c.round = d.round AND c.position = d.position
    WHERE w.organization = ?1 AND w.id = ?2 AND w.deleted_us IS NULL AND d.event_id = ?3";

const ATTEMPTS: &str = "SELECT n, http_status, fault, created_us, ended_us FROM webhook_attempt
    WHERE delivery = ?1 ORDER BY n DESC LIMIT ?2";

impl Store {
    /// The webhooks of an organization, oldest first.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn webhooks(&self, organization: OrgId) -> Result<Vec<WebhookRow>, ReadError> {
        self.read(move |conn| find(conn, organization, None)).await
    }

    /// A webhook of an organization.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn webhook(
        &self,
        organization: OrgId,
        webhook: WebhookId,
    ) -> Result<Option<WebhookRow>, ReadError> {
        self.read(move |conn| Ok(find(conn, organization, Some(webhook))?.pop()))
            .await
    }

    /// Deliveries of a webhook, newest first, at most `limit`.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn webhook_deliveries(
        &self,
        organization: OrgId,
        webhook: WebhookId,
        filter: DeliveryFilter,
        limit: u32,
    ) -> Result<Vec<DeliveryRow>, ReadError> {
        self.read(move |conn| {
            let sql = match filter.state {
                Some(DeliveryState::Dead) => DEAD,
                Some(DeliveryState::Pending | DeliveryState::Delivered) | None => DELIVERIES.into(),
            };
            let mut statement = conn.prepare_cached(sql)?;
            let mut rows = statement.query(params![
                organization.0,
                webhook.to_string(),
                filter.state.map(DeliveryState::as_str),
                filter.event.map(WebhookEvent::as_str),
                filter.behind.map(|key| key.0),
                limit,
            ])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(delivery_row(row)?);
            }
            Ok(found)
        })
        .await
    }

    /// A delivery by its event's id, and its attempts, newest first.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn webhook_delivery(
        &self,
        organization: OrgId,
        webhook: WebhookId,
        event_id: String,
    ) -> Result<Option<(DeliveryRow, Vec<DeliveryAttemptRow>)>, ReadError> {
        self.read(move |conn| {
            let mut statement = conn.prepare_cached(DELIVERY)?;
            let bound = params![organization.0, webhook.to_string(), event_id];
            let mut rows = statement.query(bound)?;
            let Some(row) = rows.next()? else {
                return Ok(None);
            };
            let found = delivery_row(row)?;
            let attempts = attempts(conn, found.key)?;
            Ok(Some((found, attempts)))
        })
        .await
    }
}

fn find(
    conn: ReadSession<'_>,
    organization: OrgId,
    webhook: Option<WebhookId>,
) -> Result<Vec<WebhookRow>, ReadError> {
    let mut statement = conn.prepare_cached(WEBHOOKS)?;
    let id = webhook.map(|webhook| webhook.to_string());
    let mut rows = statement.query(params![organization.0, id])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(webhook_row(row)?);
    }
    Ok(found)
}

fn webhook_row(row: Row<'_>) -> Result<WebhookRow, ReadError> {
    let why = optional_word(row, "disabled", WebhookDisabled::parse)?;
    Ok(WebhookRow {
        key: WebhookKey(get(row, "key")?),
        id: word(row, "id", WebhookId::parse)?,
        settings: WebhookSettings {
            url: get(row, "url")?,
            description: get(row, "description")?,
            events: events(row)?,
            contents: word(row, "contents", WebhookContents::parse)?,
        },
        disabled: why.zip(optional_time(row, "disabled_us")?),
        failing: optional_time(row, "failing_us")?,
        failures: get(row, "failures")?,
        delivered: optional_time(row, "delivered_us")?,
        old_secret_until: optional_time(row, "old_secret_us")?,
        created: time(row, "created_us")?,
        updated: time(row, "updated_us")?,
    })
}

fn events(row: Row<'_>) -> Result<WebhookEvents, ReadError> {
    let bits = get(row, "events")?;
    WebhookEvents::of_bits(bits).ok_or(ReadError::Column { column: "events" })
}

fn delivery_row(row: Row<'_>) -> Result<DeliveryRow, ReadError> {
    Ok(DeliveryRow {
        key: WebhookDeliveryKey(get(row, "key")?),
        event: word(row, "event", WebhookEvent::parse)?,
        event_id: get(row, "event_id")?,
        turn: optional_word(row, "turn", TurnId::parse)?,
        call: optional_word(row, "call", CallId::parse)?,
        state: word(row, "state", DeliveryState::parse)?,
        attempts: get(row, "attempts")?,
        due: time(row, "due_us")?,
        http_status: get(row, "http_status")?,
        fault: optional_word(row, "fault", DeliveryFault::parse)?,
        delivered: optional_time(row, "delivered_us")?,
        created: time(row, "created_us")?,
        updated: time(row, "updated_us")?,
    })
}

fn attempts(
    conn: ReadSession<'_>,
    delivery: WebhookDeliveryKey,
) -> Result<Vec<DeliveryAttemptRow>, ReadError> {
    let mut statement = conn.prepare_cached(ATTEMPTS)?;
    let mut rows = statement.query(params![delivery.0, ATTEMPTS_MAX])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(DeliveryAttemptRow {
            n: get(row, "n")?,
            http_status: get(row, "http_status")?,
            fault: optional_word(row, "fault", DeliveryFault::parse)?,
            started: time(row, "created_us")?,
            ended: time(row, "ended_us")?,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::plan::assert_each_looks;
    use super::{DEAD, DELIVERIES, DELIVERY};
    use crate::apply::WEBHOOK_STATEMENTS;

    #[test]
    fn each_statement_looks_and_does_not_walk() {
        assert_each_looks(&[
            (DELIVERIES, "webhook_delivery_of"),
            (DEAD.sqlite, "webhook_delivery_dead"),
            (DELIVERY, "webhook=? AND event_id=?"),
        ]);
        assert_each_looks(&WEBHOOK_STATEMENTS);
    }
}
