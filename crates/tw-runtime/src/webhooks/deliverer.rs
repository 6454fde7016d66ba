//! The sender of webhooks: one task, which takes what is due and sends it, some at once.
//!
//! A delivery is claimed in the store before it is sent and settled there afterwards, so a crash in between only means
//! that it is sent again, under the same id. There is no order between deliveries.
//!
//! A webhook that hangs holds its own slots for as long as an attempt may take, one once it has failed; all those that
//! fail hold at most half of the slots together, so that they never keep the others waiting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tw_core::change::{Change, Outcome};
use tw_core::id::WebhookKey;
use tw_core::time::Timestamp;
use tw_core::webhook::told::ToldEvent;
use tw_core::webhook::{
    AttemptEnding, ClaimedDelivery, DeliveryFault, SettleDelivery, WebhookChange, wait_before_next,
};
use tw_egress::webhook_sender::{self, WebhookMessage, WebhookReply};
use tw_egress::webhook_signature::SigningSecret;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::system::webhooks::{self, DeliveryToSend, DueWebhook};
use tw_wire::stored::tool;
use tw_wire::webhook_payload;

use crate::error_chain::ErrorChain;
use crate::owned_tasks::OwnedTasks;
use crate::runtime::RuntimeInner;

/// Deliveries that are sent at once.
const SLOTS: usize = 256;
/// Those of one webhook.
const SLOTS_OF_ONE: usize = 8;
/// Those of a webhook whose last attempt failed.
const SLOTS_OF_FAILING: usize = 1;
/// Those of all such webhooks together.
const SLOTS_FAILING: usize = SLOTS / 2;
/// Longest time between two looks at what is due: what another process writes wakes nobody here.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Time after which a delivery that was claimed and not settled is due again.
const CLAIM_MAX: Duration = Duration::from_secs(60);
/// Time that deliveries get to end when the process is to end.
const LAST_SENDS_MAX: Duration = Duration::from_secs(5);
/// Tries of the write that settles a delivery.
const SETTLES_MAX: u32 = 3;

pub(crate) async fn run(inner: Arc<RuntimeInner>) {
    let mut sending = OwnedTasks::default();
    let mut slots = Slots::default();
    let mut may_free = true;
    loop {
        if may_free {
            may_free = !free_claims(&inner).await;
        }
        let next = take_due(&inner, &mut sending, &mut slots).await;
        let wait = next.map_or(LOOK_INTERVAL, |at| {
            at.since(inner.env.now()).min(LOOK_INTERVAL)
        });
        tokio::select! {
            () = inner.refusing.cancelled() => break,
            () = inner.store.deliveries_written() => {}
            // What it was sending is due again.
            () = inner.replicas.gone.notified() => may_free = true,
            webhook = sending.ended() => slots.give_back(webhook),
            () = tokio::time::sleep(wait) => {}
        }
        while let Some(webhook) = sending.ended_already() {
            slots.give_back(webhook);
        }
    }
    // What is cut off is sent again by the next process.
    let _ = tokio::time::timeout(LAST_SENDS_MAX, sending.all_ended()).await;
}

/// Slots in use.
#[derive(Default)]
struct Slots {
    of: HashMap<WebhookKey, SlotUse>,
    used: usize,
    used_by_failing: usize,
}

#[derive(Default)]
struct SlotUse {
    used: usize,
    used_as_failing: usize,
}

impl Slots {
    /// Slots that a webhook may take now.
    fn room(&self, webhook: &DueWebhook) -> usize {
        let own = self.of.get(&webhook.webhook).map_or(0, |of| of.used);
        let left = SLOTS - self.used;
        if webhook.failures == 0 {
            return left.min(SLOTS_OF_ONE.saturating_sub(own));
        }
        let left = left.min(SLOTS_FAILING.saturating_sub(self.used_by_failing));
        left.min(SLOTS_OF_FAILING.saturating_sub(own))
    }

    fn take(&mut self, webhook: &DueWebhook) {
        let of = self.of.entry(webhook.webhook).or_default();
        of.used += 1;
        self.used += 1;
        if webhook.failures > 0 {
            of.used_as_failing += 1;
            self.used_by_failing += 1;
        }
    }

    fn give_back(&mut self, webhook: WebhookKey) {
        let Some(of) = self.of.get_mut(&webhook) else {
            return;
        };
        of.used = of.used.saturating_sub(1);
        self.used = self.used.saturating_sub(1);
        // Which of a webhook's slots was taken when does not matter: what is over is counted back last.
        if of.used < of.used_as_failing {
            of.used_as_failing -= 1;
            self.used_by_failing = self.used_by_failing.saturating_sub(1);
        }
        if of.used == 0 {
            self.of.remove(&webhook);
        }
    }
}

/// Whether it is done.
async fn free_claims(inner: &RuntimeInner) -> bool {
    let free = WebhookChange::FreeClaims {
        owner: inner.boot.clone(),
        at: inner.env.now(),
    };
    match inner.store.apply(vec![free.into()]).await {
        Ok(_) => true,
        Err(error) => {
            tracing::warn!(error = %ErrorChain(&error), "deliveries of an earlier process were not freed");
            false
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error("reading what is due")]
    Read(#[from] ReadError),
    #[error("claiming deliveries")]
    Write(#[from] StoreApplyError),
}

/// Begins to send what is due, as far as there is room; when the next of the others is due.
async fn take_due(
    inner: &Arc<RuntimeInner>,
    sending: &mut OwnedTasks<WebhookKey>,
    slots: &mut Slots,
) -> Option<Timestamp> {
    if inner.refusing.is_cancelled() || !inner.replicas.may_drive() {
        return None;
    }
    match try_take_due(inner, sending, slots).await {
        Ok(next) => next,
        Err(error) => {
            tracing::warn!(error = %ErrorChain(&error), "webhooks cannot be sent now");
            None
        }
    }
}

async fn try_take_due(
    inner: &Arc<RuntimeInner>,
    sending: &mut OwnedTasks<WebhookKey>,
    slots: &mut Slots,
) -> Result<Option<Timestamp>, TakeError> {
    let now = inner.env.now();
    let mut known = webhooks::due(&inner.store).await?;
    let next = known.iter().map(|of| of.due).filter(|due| *due > now).min();
    known.retain(|of| of.due <= now);
    // Those that work first, and among them whoever has waited longest.
    known.sort_by_key(|of| (of.failures > 0, of.due));
    let (mut claims, mut of) = (Vec::new(), Vec::new());
    for webhook in known {
        let room = slots.room(&webhook);
        if room == 0 {
            continue;
        }
        // Taken as if all were due, so that nobody after takes them; given back below.
        for _ in 0..room {
            slots.take(&webhook);
        }
        of.push((webhook, room));
        claims.push(claim(inner, webhook.webhook, room, now));
    }
    if claims.is_empty() {
        return Ok(next);
    }
    let outcomes = inner.store.apply(claims).await;
    for ((webhook, room), outcome) in of.into_iter().zip(of_each(&outcomes)) {
        for claimed in outcome {
            let inner = Arc::clone(inner);
            let claimed = *claimed;
            sending.spawn(webhook.webhook, async move {
                deliver(&inner, claimed).await;
            });
        }
        for _ in outcome.len()..room {
            slots.give_back(webhook.webhook);
        }
    }
    outcomes?;
    Ok(next)
}

/// The deliveries of each claim; none of claims that were not written.
fn of_each(
    outcomes: &Result<Vec<Outcome>, StoreApplyError>,
) -> impl Iterator<Item = &[ClaimedDelivery]> {
    let outcomes = outcomes.as_deref().unwrap_or_default().iter();
    let claimed = outcomes.map(|outcome| match outcome {
        Outcome::Deliveries(claimed) => claimed.as_slice(),
        _ => &[],
    });
    claimed.chain(std::iter::repeat(&[][..]))
}

fn claim(inner: &RuntimeInner, webhook: WebhookKey, room: usize, at: Timestamp) -> Change {
    WebhookChange::Claim {
        webhook,
        owner: inner.boot.clone(),
        deliveries_max: u32::try_from(room).unwrap_or(u32::MAX),
        at,
        until: at.after(CLAIM_MAX),
    }
    .into()
}

/// Sends a delivery once and notes what became of it.
async fn deliver(inner: &RuntimeInner, claimed: ClaimedDelivery) {
    let started = inner.env.now();
    let began = tokio::time::Instant::now();
    let (reply, to) = match to_send(inner, claimed, started).await {
        Ok(None) => return,
        Ok(Some(found)) => {
            let message = message(&found);
            let client = &inner.config.tool_client;
            let reply = webhook_sender::send(client, &message, started).await;
            (reply, Some(found))
        }
        // The database may be well again in a moment; the claim ends by itself.
        Err(error) if error.may_pass() => {
            tracing::warn!(error = %ErrorChain(&error), "a delivery cannot be read now");
            return;
        }
        Err(error) => {
            let unreadable = WebhookReply {
                http_status: None,
                fault: Some(DeliveryFault::Unreadable),
                retry_after: None,
                cause: Some(ErrorChain(&error).to_string()),
            };
            (unreadable, None)
        }
    };
    let at = inner.env.now();
    let end = ending(inner, &reply, claimed, at);
    inner.metrics.webhook_attempt(end, began.elapsed());
    tell(&reply, end, to.as_ref());
    let settle = SettleDelivery {
        delivery: claimed.delivery,
        attempt: claimed.attempt,
        http_status: reply.http_status,
        end,
        started,
        at,
    };
    settle_delivery(inner, settle).await;
}

async fn settle_delivery(inner: &RuntimeInner, settle: SettleDelivery) {
    for _ in 0..SETTLES_MAX {
        let change = WebhookChange::Settle(settle.clone());
        match inner.store.apply(vec![change.into()]).await {
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "a delivery was not noted");
            }
        }
    }
}

fn ending(
    inner: &RuntimeInner,
    reply: &WebhookReply,
    claimed: ClaimedDelivery,
    at: Timestamp,
) -> AttemptEnding {
    let Some(fault) = reply.fault else {
        return AttemptEnding::Taken;
    };
    let mut random = [0; 4];
    inner.env.fill(&mut random);
    let random = u32::from_le_bytes(random);
    let wait = match fault {
        // Nobody wants it, or nobody ever will be able to send it.
        DeliveryFault::Gone | DeliveryFault::Unreadable => None,
        DeliveryFault::Status
        | DeliveryFault::Redirect
        | DeliveryFault::NotAllowed
        | DeliveryFault::Connect
        | DeliveryFault::Timeout
        | DeliveryFault::Reset => wait_before_next(claimed.tries, reply.retry_after, random),
    };
    AttemptEnding::Failed {
        fault,
        again: wait.map(|wait| at.after(wait)),
    }
}

/// The line in the log of a delivery that failed.
fn tell(reply: &WebhookReply, end: AttemptEnding, to: Option<&DeliveryToSend>) {
    let AttemptEnding::Failed { fault, again } = end else {
        return;
    };
    let (fault, cause) = (fault.as_str(), reply.cause.as_deref());
    let organization = to.map(|to| to.organization_slug.as_str());
    let webhook = to.map(|to| to.webhook.to_string());
    let event = to.map(|to| to.event_id.as_str());
    let status = reply.http_status;
    if again.is_some() {
        tracing::info!(
            organization,
            webhook,
            event,
            fault,
            status,
            cause,
            "a webhook was not delivered"
        );
    } else {
        tracing::warn!(
            organization,
            webhook,
            event,
            fault,
            status,
            cause,
            "a webhook is given up"
        );
    }
}

async fn to_send(
    inner: &RuntimeInner,
    claimed: ClaimedDelivery,
    now: Timestamp,
) -> Result<Option<DeliveryToSend>, ReadError> {
    let found = webhooks::delivery(&inner.store, claimed.delivery, now).await?;
    let Some(mut found) = found else {
        return Ok(None);
    };
    mask(inner, &mut found).await?;
    Ok(Some(found))
}

/// Takes what a tool's definition calls sensitive out of the contents of a call.
async fn mask(inner: &RuntimeInner, found: &mut DeliveryToSend) -> Result<(), ReadError> {
    let ToldEvent { call, .. } = &mut found.told;
    let Some(call) = call else {
        return Ok(());
    };
    let (Some(contents), Some(version)) = (&mut call.contents, call.tool_version) else {
        return Ok(());
    };
    let row = inner
        .store
        .tool_version(found.organization, version)
        .await?;
    let definition = row.and_then(|row| tool::decode(&row.definition).ok());
    match definition {
        Some(definition) => {
            let masked = definition.masked_call(&contents.0, &contents.1);
            *contents = (masked.arguments, masked.shown);
        }
        // Nobody can say what of it is sensitive.
        None => call.contents = None,
    }
    Ok(())
}

fn message(found: &DeliveryToSend) -> WebhookMessage {
    let secrets = found.secrets.iter().cloned();
    WebhookMessage {
        url: found.url.clone(),
        organization: found.organization_slug.clone(),
        id: found.event_id.clone(),
        body: Bytes::from(webhook_payload::body(&found.organization_slug, &found.told)),
        secrets: secrets.filter_map(SigningSecret::of_bytes).collect(),
    }
}

#[cfg(test)]
mod tests;
