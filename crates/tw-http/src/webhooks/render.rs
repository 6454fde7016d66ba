//! Webhooks and deliveries as JSON. A secret is in the answer that makes it, and nowhere else.

use serde_json::{Value, json};
use tw_core::id::WebhookId;
use tw_core::time::Timestamp;
use tw_core::webhook::{DeliveryFault, DeliveryState, WebhookDisabled, WebhookEvent};
use tw_store::read::webhooks::{DeliveryAttemptRow, DeliveryRow, WebhookRow};

pub(super) fn webhook(row: &WebhookRow, now: Timestamp) -> Value {
    let events: Vec<&str> = row
        .settings
        .events
        .iter()
        .map(WebhookEvent::as_str)
        .collect();
    let old_secret = row.old_secret_until.filter(|until| *until > now);
    json!({
        "id": row.id.to_string(),
        "object": "webhook",
        "url": row.settings.url,
        "description": row.settings.description,
        "events": events,
        "contents": row.settings.contents.as_str(),
        "enabled": row.disabled.is_none(),
        "disabled_reason": row.disabled.map(|(why, _)| WebhookDisabled::as_str(why)),
        "disabled_at": seconds(row.disabled.map(|(_, at)| at)),
        "failing_since": seconds(row.failing),
        "failures": row.failures,
        "last_delivered_at": seconds(row.delivered),
        "old_secret_until": seconds(old_secret),
        "created_at": row.created.seconds(),
    })
}

/// Renders a webhook with its new secret.
pub(super) fn made(row: &WebhookRow, secret: &str, now: Timestamp) -> String {
    let mut told = webhook(row, now);
    told["secret"] = json!(secret);
    told.to_string()
}

pub(super) fn list(rows: &[WebhookRow], now: Timestamp) -> String {
    let data: Vec<Value> = rows.iter().map(|row| webhook(row, now)).collect();
    json!({ "object": "list", "data": data, "has_more": false }).to_string()
}

pub(super) fn deleted(webhook: WebhookId) -> String {
    json!({ "id": webhook.to_string(), "object": "webhook.deleted", "deleted": true }).to_string()
}

pub(super) fn replayed(webhook: WebhookId, deliveries: u64) -> String {
    json!({ "id": webhook.to_string(), "object": "webhook.replayed", "deliveries": deliveries })
        .to_string()
}

fn delivery(row: &DeliveryRow) -> Value {
    let next = match row.state {
        DeliveryState::Pending => Some(row.due),
        DeliveryState::Delivered | DeliveryState::Dead => None,
    };
    json!({
        "id": row.event_id,
        "object": "webhook.delivery",
        "event": row.event.as_str(),
        "turn": row.turn.map(|turn| turn.to_string()),
        "call": row.call.map(|call| call.to_string()),
        "state": row.state.as_str(),
        "attempts": row.attempts,
        "http_status": row.http_status,
        "fault": row.fault.map(DeliveryFault::as_str),
        "created_us": row.created.0,
        "next_attempt_us": micros(next),
        "delivered_us": micros(row.delivered),
    })
}

pub(super) fn delivery_with(row: &DeliveryRow, attempts: &[DeliveryAttemptRow]) -> String {
    let attempts = attempts.iter().map(|attempt| {
        json!({
            "n": attempt.n,
            "http_status": attempt.http_status,
            "fault": attempt.fault.map(DeliveryFault::as_str),
            "started_us": attempt.started.0,
            "ended_us": attempt.ended.0,
        })
    });
    let mut told = delivery(row);
    told["log"] = attempts.collect();
    told.to_string()
}

pub(super) fn deliveries(rows: &[DeliveryRow], has_more: bool) -> String {
    let data: Vec<Value> = rows.iter().map(delivery).collect();
    json!({ "object": "list", "data": data, "has_more": has_more }).to_string()
}

fn seconds(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::seconds)
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(|at| at.0)
}
