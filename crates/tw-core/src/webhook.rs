//! Webhooks that an organization is told by: what it may be told of, and when a delivery is tried again.

pub mod told;

use std::time::Duration;

use crate::change::Change;
use crate::id::{OrgId, WebhookDeliveryKey, WebhookId, WebhookKey};
use crate::time::Timestamp;
use crate::turn_status::TurnStatus;

/// Longest URL of a webhook, in bytes.
pub const URL_BYTES_MAX: usize = 2_048;
/// Longest description of a webhook, in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 200;
/// Most webhooks that an organization may have.
pub const WEBHOOKS_MAX: u32 = 50;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookEvent {
    TurnCompleted,
    TurnIncomplete,
    TurnFailed,
    TurnCancelled,
    CallCompleted,
    CallFailed,
    /// Sent by hand, to try a webhook; every webhook gets it.
    Test,
}

impl WebhookEvent {
    /// Those that a webhook may ask for.
    pub const ALL: [Self; 6] = [
        Self::TurnCompleted,
        Self::TurnIncomplete,
        Self::TurnFailed,
        Self::TurnCancelled,
        Self::CallCompleted,
        Self::CallFailed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::TurnCompleted => "turn.completed",
            Self::TurnIncomplete => "turn.incomplete",
            Self::TurnFailed => "turn.failed",
            Self::TurnCancelled => "turn.cancelled",
            Self::CallCompleted => "call.completed",
            Self::CallFailed => "call.failed",
            Self::Test => "webhook.test",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter().chain([Self::Test]);
        all.find(|event| event.as_str() == text)
    }

    /// The event of a turn's end; `None` while it runs.
    pub fn of_turn(status: TurnStatus) -> Option<Self> {
        match status {
            TurnStatus::Running => None,
            TurnStatus::Completed => Some(Self::TurnCompleted),
            TurnStatus::Incomplete => Some(Self::TurnIncomplete),
            TurnStatus::Failed => Some(Self::TurnFailed),
            TurnStatus::Cancelled => Some(Self::TurnCancelled),
        }
    }

    fn bit(self) -> u32 {
        match self {
            Self::TurnCompleted => 1,
            Self::TurnIncomplete => 1 << 1,
            Self::TurnFailed => 1 << 2,
            Self::TurnCancelled => 1 << 3,
            Self::CallCompleted => 1 << 4,
            Self::CallFailed => 1 << 5,
            Self::Test => 0,
        }
    }
}

/// A set of kinds of events, as bits, so that a statement can ask for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookEvents(u32);

impl WebhookEvents {
    /// The set of these.
    pub fn of(events: &[WebhookEvent]) -> Self {
        Self(events.iter().fold(0, |bits, event| bits | event.bit()))
    }

    /// The set whose bits were stored; bits that nobody knows are an error.
    pub fn of_bits(bits: u32) -> Option<Self> {
        let known = Self::of(&WebhookEvent::ALL);
        (bits & !known.0 == 0).then_some(Self(bits))
    }

    pub fn bits(self) -> u32 {
        self.0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its events, in the order of [`WebhookEvent::ALL`].
    pub fn iter(self) -> impl Iterator<Item = WebhookEvent> {
        let all = WebhookEvent::ALL.into_iter();
        all.filter(move |event| self.0 & event.bit() != 0)
    }
}

/// The contents that a webhook is told beside ids, states and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookContents {
    None,
    /// A turn's answer; a call's arguments, without sensitive ones, and the result that the model was given.
    Full,
}

impl WebhookContents {
    pub const ALL: [Self; 2] = [Self::None, Self::Full];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Full => "full",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// The reason for which a webhook is told nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookDisabled {
    ByHand,
    /// It answered 410.
    Gone,
    /// Nothing was delivered for [`FAILING_MAX`].
    Failing,
}

impl WebhookDisabled {
    pub const ALL: [Self; 3] = [Self::ByHand, Self::Gone, Self::Failing];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ByHand => "by_hand",
            Self::Gone => "gone",
            Self::Failing => "failing",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// To be sent, or sent again.
    Pending,
    /// Taken with a 2xx.
    Delivered,
    /// Given up; it can be replayed.
    Dead,
}

impl DeliveryState {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// The reason for which an attempt of a delivery failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryFault {
    /// An answer that is no 2xx.
    Status,
    /// A redirect, which is not followed.
    Redirect,
    /// 410: nobody wants it any more.
    Gone,
    /// No usable URL, or one that may not be reached from here.
    NotAllowed,
    /// No connection, or no secure one.
    Connect,
    Timeout,
    /// The connection ended before the answer did, or the answer was not HTTP.
    Reset,
    /// The record that it tells of cannot be read.
    Unreadable,
}

impl DeliveryFault {
    pub const ALL: [Self; 8] = [
        Self::Status,
        Self::Redirect,
        Self::Gone,
        Self::NotAllowed,
        Self::Connect,
        Self::Timeout,
        Self::Reset,
        Self::Unreadable,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Redirect => "redirect",
            Self::Gone => "gone",
            Self::NotAllowed => "not_allowed",
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Unreadable => "unreadable",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }
}

/// Time for which nothing may be delivered to a webhook before it is disabled.
pub const FAILING_MAX: Duration = Duration::from_secs(5 * 24 * 3600);

const SECOND: u64 = 1;
const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

/// Waits between the attempts of a delivery, in seconds: 25 hours and a half together.
const WAITS_S: [u64; 8] = [
    5 * SECOND,
    30 * SECOND,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    8 * HOUR,
    10 * HOUR,
];
/// Longest wait that a webhook may ask for by `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(HOUR);
/// Part of a wait by which it is made shorter or longer, so that what failed together does not come back together.
const JITTER_PARTS: u32 = 5;

/// The wait before the next attempt, once so many have failed since the delivery was made or replayed; `None` when
/// there is none. `random` is any number.
pub fn wait_before_next(
    tries: u32,
    retry_after: Option<Duration>,
    random: u32,
) -> Option<Duration> {
    let index = usize::try_from(tries.checked_sub(1)?).ok()?;
    let wait = Duration::from_secs(*WAITS_S.get(index)?);
    let spread = wait / JITTER_PARTS;
    let jitter = spread * 2 * (random % 1_000) / 1_000;
    let jittered = wait - spread + jitter;
    let asked = retry_after.map_or(Duration::ZERO, |asked| asked.min(RETRY_AFTER_MAX));
    Some(jittered.max(asked))
}

/// A change of webhooks and of what they are told.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookChange {
    /// `TooMany` when the organization has [`WEBHOOKS_MAX`].
    Create(NewWebhook),
    /// `Already` for one that is not there.
    Change(ChangeWebhook),
    /// What was not delivered is delivered no more.
    Delete {
        organization: OrgId,
        webhook: WebhookId,
        at: Timestamp,
    },
    /// A new secret; those before it are signed with until `old_until`, too.
    Rotate {
        organization: OrgId,
        webhook: WebhookId,
        secret: Vec<u8>,
        old_until: Timestamp,
        at: Timestamp,
    },
    /// A test event, by its id; `Already` for a webhook that is not there or is disabled.
    Test {
        organization: OrgId,
        webhook: WebhookId,
        event_id: String,
        at: Timestamp,
    },
    /// Dead and delivered ones are sent again; how many, as `Count`.
    Replay {
        organization: OrgId,
        webhook: WebhookId,
        which: ReplayedDeliveries,
        at: Timestamp,
    },

    /// Deliveries of a webhook that are due are taken to be sent, as `Deliveries`: at most `deliveries_max`. If they
    /// are not settled by `until`, they are due again.
    Claim {
        webhook: WebhookKey,
        owner: String,
        deliveries_max: u32,
        at: Timestamp,
        until: Timestamp,
    },
    Settle(SettleDelivery),
    /// What other processes than `owner` had claimed is due at once: they are gone.
    FreeClaims {
        owner: String,
        at: Timestamp,
    },
    /// Deletes deliveries that were delivered or given up before `before`, and those of webhooks that were deleted.
    Expire {
        before: Timestamp,
        deliveries_max: u32,
    },
}

impl From<WebhookChange> for Change {
    fn from(change: WebhookChange) -> Self {
        Self::OfWebhook(Box::new(change))
    }
}

/// The settings of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    pub url: String,
    pub description: String,
    pub events: WebhookEvents,
    pub contents: WebhookContents,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWebhook {
    pub organization: OrgId,
    pub id: WebhookId,
    pub settings: WebhookSettings,
    pub secret: Vec<u8>,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeWebhook {
    pub organization: OrgId,
    pub id: WebhookId,
    pub settings: WebhookSettings,
    /// `None` leaves it as it is.
    pub enabled: Option<WebhookSwitch>,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookSwitch {
    Enable,
    Disable,
}

/// The deliveries that are sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayedDeliveries {
    /// One, by its event's id, dead or delivered.
    One(String),
    /// The dead ones, oldest first.
    Dead { deliveries_max: u32 },
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleDelivery {
    pub delivery: WebhookDeliveryKey,
    /// Number of the attempt, as it was claimed.
    pub attempt: u32,
    pub http_status: Option<u16>,
    pub end: AttemptEnding,
    pub started: Timestamp,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnding {
    Taken,
    Failed {
        fault: DeliveryFault,
        /// Time of the next attempt; `None` gives the delivery up.
        again: Option<Timestamp>,
    },
}

/// A delivery that was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    pub delivery: WebhookDeliveryKey,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// The same, counted from the last replay.
    pub tries: u32,
}

#[cfg(test)]
mod tests;
