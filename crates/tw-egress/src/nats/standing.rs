//! How a connection to NATS stands, and how long it pauses.
//!
//! A server that takes connections and drops them at once is as good as none: nothing begins anew before a connection has
//! stood for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Event;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Longest pause before a connection is tried again; the pause doubles up to that.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_FIRST: Duration = Duration::from_millis(2);
/// Time that a connection has to stand before the pauses and the log begin anew.
const PROVEN_AFTER: Duration = Duration::from_secs(10);
/// Pause before a client that broke is replaced; it doubles as well.
const BROKEN_PAUSE_FIRST: Duration = Duration::from_secs(1);
const BROKEN_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How the connection stands, and what the log was told of it, so that it is told once.
#[derive(Debug, Default)]
pub(super) struct Standing {
    state: Mutex<StandingState>,
    /// A connection was made or has ended.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct StandingState {
    connected: Connected,
    told: Told,
    /// The log was told that the server refuses something.
    has_refused: bool,
    /// Tries to connect since a connection stood for [`PROVEN_AFTER`].
    tries: u32,
    /// Clients that broke since then.
    breaks: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Connected {
    #[default]
    No,
    Since(Instant),
    /// For longer than [`PROVEN_AFTER`].
    Proven,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    Connected,
    Lost,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
enum StandingNews {
    Connected,
    Lost(String),
    Refused(String),
}

impl Standing {
    pub(super) fn hear(&self, event: &Event) {
        let news = self.state().on(event, Instant::now());
        self.changed.notify_one();
        tell(news);
    }

    /// When a connection that has just been made will have stood for long enough.
    pub(super) fn proven_at(&self) -> Option<Instant> {
        self.state().proven_at()
    }

    pub(super) fn prove(&self, now: Instant) {
        let news = self.state().prove(now);
        tell(news);
    }

    /// Notes that the client broke; the pause before the next one.
    pub(super) fn break_down(&self) -> Duration {
        let (pause, news) = self.state().break_down();
        tell(news);
        pause
    }

    /// The pause before the next try to connect.
    pub(super) fn next_pause(&self) -> Duration {
        self.state().next_pause()
    }

    fn state(&self) -> MutexGuard<'_, StandingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StandingState {
    fn on(&mut self, event: &Event, now: Instant) -> Option<StandingNews> {
        match event {
            Event::Connected => {
                self.connected = Connected::Since(now);
                // After a loss it has to prove itself first.
                self.tell_connected(Told::Nothing)
            }
            Event::Disconnected => self.lose("the connection ended"),
            Event::ClientError(error) if self.connected == Connected::No => {
                self.lose(&error.to_string())
            }
            Event::ServerError(error) => {
                let is_told = std::mem::replace(&mut self.has_refused, true);
                (!is_told).then(|| StandingNews::Refused(error.to_string()))
            }
            Event::ClientError(_)
            | Event::SlowConsumer(_)
            | Event::LameDuckMode
            | Event::Draining
            | Event::Closed => None,
        }
    }

    fn proven_at(&self) -> Option<Instant> {
        match self.connected {
            Connected::Since(since) => Some(since + PROVEN_AFTER),
            Connected::No | Connected::Proven => None,
        }
    }

    fn prove(&mut self, now: Instant) -> Option<StandingNews> {
        if self.proven_at().is_none_or(|at| at > now) {
            return None;
        }
        self.connected = Connected::Proven;
        self.has_refused = false;
        (self.tries, self.breaks) = (0, 0);
        self.tell_connected(Told::Lost)
    }

    fn break_down(&mut self) -> (Duration, Option<StandingNews>) {
        self.breaks = self.breaks.saturating_add(1);
        let news = self.lose("what came from there broke the connection");
        let pause = doubled(BROKEN_PAUSE_FIRST, self.breaks).min(BROKEN_PAUSE_MAX);
        (pause, news)
    }

    fn next_pause(&mut self) -> Duration {
        self.tries = self.tries.saturating_add(1);
        doubled(PAUSE_FIRST, self.tries).min(PAUSE_MAX)
    }

    fn tell_connected(&mut self, after: Told) -> Option<StandingNews> {
        if self.told != after {
            return None;
        }
        self.told = Told::Connected;
        Some(StandingNews::Connected)
    }

    fn lose(&mut self, cause: &str) -> Option<StandingNews> {
        self.connected = Connected::No;
        let told = std::mem::replace(&mut self.told, Told::Lost);
        (told != Told::Lost).then(|| StandingNews::Lost(cause.to_owned()))
    }
}

/// The first pause, doubled with each time after the first.
fn doubled(first: Duration, times: u32) -> Duration {
    let factor = 2_u32
        .checked_pow(times.saturating_sub(1))
        .unwrap_or(u32::MAX);
    first.saturating_mul(factor)
}

fn tell(news: Option<StandingNews>) {
    match news {
        None => {}
        Some(StandingNews::Connected) => tracing::info!("connected to NATS"),
        Some(StandingNews::Lost(cause)) => tracing::warn!(
            cause,
            "NATS cannot be reached: servers hear of each other by the database alone"
        ),
        Some(StandingNews::Refused(cause)) => tracing::warn!(cause, "NATS refuses something"),
    }
}

#[cfg(test)]
mod tests;
