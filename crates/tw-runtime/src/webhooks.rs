//! Webhooks of organizations: making, changing and trying them, and what became of their deliveries.

pub(crate) mod deliverer;

use std::time::Duration;

use tw_core::change::Outcome;
use tw_core::id::{OrgId, WebhookId};
use tw_core::tenant::KeyScope;
use tw_core::webhook::{
    ChangeWebhook, DESCRIPTION_BYTES_MAX, DeliveryState, NewWebhook, ReplayedDeliveries,
    URL_BYTES_MAX, WEBHOOKS_MAX, WebhookChange, WebhookContents, WebhookEvent, WebhookEvents,
    WebhookSettings, WebhookSwitch,
};
use tw_egress::client::EgressClient;
use tw_egress::client::failure::FailureKind;
use tw_egress::env::Env;
use tw_egress::webhook_signature::SigningSecret;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::read::webhooks::{DeliveryAttemptRow, DeliveryFilter, DeliveryRow, WebhookRow};
use tw_store::store::Store;

use crate::auth::Principal;
use crate::runtime::Runtime;

/// Time for which messages are signed with the secret before, too, unless the request says otherwise.
pub const OVERLAP_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Longest such time.
pub const OVERLAP_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most deliveries that are replayed at once.
const REPLAYED_MAX: u32 = 10_000;

/// Reasons for which a webhook could not be made, changed or tried.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("{field}: {problem}")]
    Invalid {
        field: &'static str,
        problem: String,
    },
    #[error("there is no such webhook")]
    NotFound,
    #[error("there is no such delivery")]
    NoDelivery,
    #[error("the webhook is disabled; enable it first")]
    Disabled,
    #[error("the delivery is still being tried")]
    StillPending,
    #[error("an organization may have {WEBHOOKS_MAX} webhooks")]
    TooMany,
    /// Contents of turns are only for those who may read them.
    #[error("contents need the scope '{}'", .0.as_str())]
    OutOfScope(KeyScope),
    #[error("reading webhooks")]
    Read(#[from] ReadError),
    #[error("writing a webhook")]
    Write(#[from] StoreApplyError),
}

/// A webhook as it is wanted.
#[derive(Clone, Debug)]
pub struct WebhookWanted {
    pub url: String,
    pub description: String,
    /// Kinds of events; `None` for all that there are.
    pub events: Option<Vec<WebhookEvent>>,
    pub contents: WebhookContents,
    /// A secret of the caller's own, as text; `None` makes one.
    pub secret: Option<String>,
}

/// Changes of a webhook; what is `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub struct WebhookPatch {
    pub url: Option<String>,
    pub description: Option<String>,
    pub events: Option<Vec<WebhookEvent>>,
    pub contents: Option<WebhookContents>,
    pub enabled: Option<WebhookSwitch>,
}

/// One organization's webhooks in the hands of somebody who may manage them.
#[derive(Debug)]
pub struct WebhookAdmin<'a> {
    pub store: &'a Store,
    pub env: &'a Env,
    /// Client that they are sent through, which knows what may be reached.
    pub client: &'a EgressClient,
    pub organization: OrgId,
    /// The organization's slug.
    pub slug: &'a str,
    pub contents: ContentsRight,
}

/// Whether whoever manages webhooks may have them told contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentsRight {
    Granted,
    Withheld,
}

impl Runtime {
    /// The webhooks of the caller's organization; which scope that takes is for the surface to say.
    pub fn webhooks<'a>(&'a self, caller: &'a Principal) -> WebhookAdmin<'a> {
        WebhookAdmin {
            store: self.store(),
            env: self.env(),
            client: &self.0.config.tool_client,
            organization: caller.organization,
            slug: &caller.organization_slug,
            contents: if caller.may(KeyScope::TurnsReadAll) {
                ContentsRight::Granted
            } else {
                ContentsRight::Withheld
            },
        }
    }
}

impl WebhookAdmin<'_> {
    /// The webhooks, oldest first.
    ///
    /// # Errors
    /// [`WebhookError::Read`].
    pub async fn list(&self) -> Result<Vec<WebhookRow>, WebhookError> {
        Ok(self.store.webhooks(self.organization).await?)
    }

    /// One webhook.
    ///
    /// # Errors
    /// [`WebhookError::NotFound`] also for another organization's.
    pub async fn get(&self, id: WebhookId) -> Result<WebhookRow, WebhookError> {
        let found = self.store.webhook(self.organization, id).await?;
        found.ok_or(WebhookError::NotFound)
    }

    /// Makes a webhook, and returns it with its secret, which is told only now.
    ///
    /// # Errors
    /// [`WebhookError`]; unless it is of a write, nothing was made.
    pub async fn create(
        &self,
        wanted: WebhookWanted,
    ) -> Result<(WebhookRow, String), WebhookError> {
        let all = WebhookEvents::of(&WebhookEvent::ALL);
        let settings = WebhookSettings {
            url: wanted.url,
            description: wanted.description,
            events: wanted
                .events
                .map_or(all, |events| WebhookEvents::of(&events)),
            contents: wanted.contents,
        };
        self.check(&settings)?;
        self.check_right(settings.contents)?;
        let secret = self.secret(wanted.secret.as_deref())?;
        let id = WebhookId(self.env.ordered_id());
        let new = NewWebhook {
            organization: self.organization,
            id,
            settings,
            secret: secret.reveal_bytes().to_vec(),
            at: self.env.now(),
        };
        match self.write(WebhookChange::Create(new)).await? {
            Some(Outcome::TooMany) => Err(WebhookError::TooMany),
            _ => Ok((self.get(id).await?, secret.reveal())),
        }
    }

    /// Changes what is named of a webhook.
    ///
    /// # Errors
    /// [`WebhookError`]; unless it is of a write, nothing was changed.
    pub async fn change(
        &self,
        id: WebhookId,
        patch: WebhookPatch,
    ) -> Result<WebhookRow, WebhookError> {
        let before = self.get(id).await?.settings;
        let is_moved = patch.url.is_some();
        let settings = WebhookSettings {
            url: patch.url.unwrap_or(before.url),
            description: patch.description.unwrap_or(before.description),
            events: patch
                .events
                .map_or(before.events, |events| WebhookEvents::of(&events)),
            contents: patch.contents.unwrap_or(before.contents),
        };
        self.check(&settings)?;
        // Whoever says where contents go, or which, has to be allowed to read them.
        if patch.contents.is_some() || is_moved {
            self.check_right(settings.contents)?;
        }
        let change = ChangeWebhook {
            organization: self.organization,
            id,
            settings,
            enabled: patch.enabled,
            at: self.env.now(),
        };
        found(self.write(WebhookChange::Change(change)).await?)?;
        self.get(id).await
    }

    /// Takes a webhook away, with what was not delivered.
    ///
    /// # Errors
    /// [`WebhookError::NotFound`].
    pub async fn delete(&self, id: WebhookId) -> Result<(), WebhookError> {
        let delete = WebhookChange::Delete {
            organization: self.organization,
            webhook: id,
            at: self.env.now(),
        };
        found(self.write(delete).await?)
    }

    /// Gives a webhook a new secret, and returns it; messages are signed with the old one, too, for `overlap`.
    ///
    /// # Errors
    /// [`WebhookError::Invalid`] for a longer overlap than [`OVERLAP_MAX`].
    pub async fn rotate(
        &self,
        id: WebhookId,
        secret: Option<&str>,
        overlap: Duration,
    ) -> Result<(WebhookRow, String), WebhookError> {
        if overlap > OVERLAP_MAX {
            let problem = format!("at most {} seconds", OVERLAP_MAX.as_secs());
            return Err(invalid("overlap_s", problem));
        }
        let secret = self.secret(secret)?;
        let at = self.env.now();
        let rotate = WebhookChange::Rotate {
            organization: self.organization,
            webhook: id,
            secret: secret.reveal_bytes().to_vec(),
            old_until: at.after(overlap),
            at,
        };
        found(self.write(rotate).await?)?;
        Ok((self.get(id).await?, secret.reveal()))
    }

    /// Sends a test event, and returns its id.
    ///
    /// # Errors
    /// [`WebhookError::Disabled`].
    pub async fn test(&self, id: WebhookId) -> Result<String, WebhookError> {
        self.enabled(id).await?;
        let event_id = format!("evt_{}", self.env.ordered_id().simple());
        let test = WebhookChange::Test {
            organization: self.organization,
            webhook: id,
            event_id: event_id.clone(),
            at: self.env.now(),
        };
        found(self.write(test).await?)?;
        Ok(event_id)
    }

    /// Deliveries, newest first: at most `limit` of this state and event behind the one with the id `after`, and whether
    /// there are more.
    ///
    /// # Errors
    /// [`WebhookError::NoDelivery`] when no delivery has the id.
    pub async fn deliveries(
        &self,
        id: WebhookId,
        (state, event): (Option<DeliveryState>, Option<WebhookEvent>),
        after: Option<String>,
        limit: u32,
    ) -> Result<(Vec<DeliveryRow>, bool), WebhookError> {
        self.get(id).await?;
        let behind = match after {
            None => None,
            Some(after) => Some(self.delivery(id, after).await?.0.key),
        };
        let filter = DeliveryFilter {
            state,
            event,
            behind,
        };
        let one_more = limit.saturating_add(1);
        let store = self.store;
        let mut rows = store
            .webhook_deliveries(self.organization, id, filter, one_more)
            .await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        Ok((rows, has_more))
    }

    /// One delivery with its attempts, newest first.
    ///
    /// # Errors
    /// [`WebhookError::NoDelivery`].
    pub async fn delivery(
        &self,
        id: WebhookId,
        event_id: String,
    ) -> Result<(DeliveryRow, Vec<DeliveryAttemptRow>), WebhookError> {
        let store = self.store;
        let found = store
            .webhook_delivery(self.organization, id, event_id)
            .await?;
        match found {
            Some(found) => Ok(found),
            None => {
                self.get(id).await?;
                Err(WebhookError::NoDelivery)
            }
        }
    }

    /// Sends a delivery again, dead or delivered.
    ///
    /// # Errors
    /// [`WebhookError::StillPending`], [`WebhookError::Disabled`].
    pub async fn replay(&self, id: WebhookId, event_id: String) -> Result<(), WebhookError> {
        let (row, _) = self.delivery(id, event_id.clone()).await?;
        self.enabled(id).await?;
        if row.state == DeliveryState::Pending {
            return Err(WebhookError::StillPending);
        }
        self.replay_which(id, ReplayedDeliveries::One(event_id))
            .await
            .map(drop)
    }

    /// Sends the dead deliveries again, the oldest first, and returns how many these are; as long as it is not 0 there
    /// may be more.
    ///
    /// # Errors
    /// [`WebhookError::Disabled`].
    pub async fn replay_dead(&self, id: WebhookId) -> Result<u64, WebhookError> {
        self.enabled(id).await?;
        let which = ReplayedDeliveries::Dead {
            deliveries_max: REPLAYED_MAX,
        };
        self.replay_which(id, which).await
    }

    async fn replay_which(
        &self,
        id: WebhookId,
        which: ReplayedDeliveries,
    ) -> Result<u64, WebhookError> {
        let replay = WebhookChange::Replay {
            organization: self.organization,
            webhook: id,
            which,
            at: self.env.now(),
        };
        match self.write(replay).await? {
            Some(Outcome::Count(replayed)) => Ok(replayed),
            _ => Err(WebhookError::NotFound),
        }
    }

    async fn enabled(&self, id: WebhookId) -> Result<WebhookRow, WebhookError> {
        let row = self.get(id).await?;
        if row.disabled.is_some() {
            return Err(WebhookError::Disabled);
        }
        Ok(row)
    }

    async fn write(&self, change: WebhookChange) -> Result<Option<Outcome>, WebhookError> {
        let outcomes = self.store.apply(vec![change.into()]).await?;
        Ok(outcomes.into_iter().next())
    }

    /// The secret that is written, or a new one.
    fn secret(&self, written: Option<&str>) -> Result<SigningSecret, WebhookError> {
        let Some(text) = written else {
            return Ok(SigningSecret::random(self.env));
        };
        SigningSecret::parse(text).ok_or_else(|| {
            let problem = "'whsec_' and base64 of 24 to 64 random bytes";
            invalid("secret", problem)
        })
    }

    /// Checks what is said of a webhook. Its name may still resolve to an address that is refused when it is used.
    fn check(&self, settings: &WebhookSettings) -> Result<(), WebhookError> {
        if settings.url.len() > URL_BYTES_MAX {
            return Err(invalid("url", format!("at most {URL_BYTES_MAX} bytes")));
        }
        self.client
            .check_url(&settings.url, self.slug)
            .map_err(|failure| invalid("url", url_problem(failure.kind)))?;
        if settings.description.len() > DESCRIPTION_BYTES_MAX {
            let problem = format!("at most {DESCRIPTION_BYTES_MAX} bytes");
            return Err(invalid("description", problem));
        }
        if settings.events.is_empty() {
            return Err(invalid("events", "at least one, or none of the field"));
        }
        Ok(())
    }

    fn check_right(&self, contents: WebhookContents) -> Result<(), WebhookError> {
        match (contents, self.contents) {
            (WebhookContents::Full, ContentsRight::Withheld) => {
                Err(WebhookError::OutOfScope(KeyScope::TurnsReadAll))
            }
            (WebhookContents::Full, ContentsRight::Granted) | (WebhookContents::None, _) => Ok(()),
        }
    }
}

fn found(outcome: Option<Outcome>) -> Result<(), WebhookError> {
    match outcome {
        Some(Outcome::Done) => Ok(()),
        _ => Err(WebhookError::NotFound),
    }
}

fn invalid(field: &'static str, problem: impl Into<String>) -> WebhookError {
    WebhookError::Invalid {
        field,
        problem: problem.into(),
    }
}

fn url_problem(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::NotHttps => "must begin with https",
        FailureKind::TargetNotAllowed => "may not be reached from here",
        FailureKind::BadUrl
        | FailureKind::BadRequest
        | FailureKind::Unresolved
        | FailureKind::LookUpFailed
        | FailureKind::Connect
        | FailureKind::Proxy
        | FailureKind::Tls(_)
        | FailureKind::Reset
        | FailureKind::NotHttp
        | FailureKind::HeadersTooLarge
        | FailureKind::TimedOut(_) => "no usable URL",
    }
}
