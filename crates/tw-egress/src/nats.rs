//! A connection to NATS, over which servers hint at things to each other.
//!
//! Nothing waits for it: what finds no connection, or no room in a queue, is dropped, and whoever relies on a message
//! looks without it, too.

use std::fmt;
use std::future::ready;
use std::str::from_utf8;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use percent_encoding::percent_decode_str;
use tokio::task::unconstrained;
use tokio::time::timeout;
use url::Url;

/// Messages that wait to be sent; further ones are dropped.
const QUEUE_MAX: usize = 1024;
/// Messages of a subscription that wait to be taken; further ones are dropped.
const TAKEN_LATER_MAX: usize = 64;
/// Time that making a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time after which a connection is tried; one that misses two answers is made anew.
const PING_EVERY: Duration = Duration::from_secs(10);
/// Longest pause before a connection is tried again; the pause doubles up to that.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_FIRST: Duration = Duration::from_millis(2);

/// The servers of one NATS, and who connects to them.
#[derive(Clone)]
pub struct NatsServers {
    addresses: Vec<ServerAddr>,
    login: NatsLogin,
}

#[derive(Clone, PartialEq, Eq)]
enum NatsLogin {
    Nobody,
    Token(String),
    User { name: String, password: String },
}

/// Leaves out who connects, and with what.
impl fmt::Debug for NatsServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.addresses.iter().map(ServerAddr::as_url_str);
        f.debug_list().entries(addresses).finish()
    }
}

/// What is wrong with the URLs of a NATS; what is written there is not shown, since it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNatsUrl {
    #[error(
        "must be a URL as nats://user:password@host:4222, nats://token@host:4222 or tls://…, or several with commas between them"
    )]
    Form,
    #[error("names several users: one connects to all servers")]
    Logins,
}

impl NatsServers {
    /// Reads one URL, or several with commas between them.
    ///
    /// # Errors
    /// [`BadNatsUrl`].
    pub fn parse(written: &str) -> Result<Self, BadNatsUrl> {
        let mut servers = Self {
            addresses: Vec::new(),
            login: NatsLogin::Nobody,
        };
        for url in written.split(',') {
            let url = Url::parse(url.trim()).map_err(|_| BadNatsUrl::Form)?;
            servers.add(url)?;
        }
        Ok(servers)
    }

    fn add(&mut self, mut url: Url) -> Result<(), BadNatsUrl> {
        let is_known = matches!(url.scheme(), "nats" | "tls");
        let has_more = !matches!(url.path(), "" | "/") || url.query().or(url.fragment()).is_some();
        if !is_known || has_more || url.host_str().is_none_or(str::is_empty) {
            return Err(BadNatsUrl::Form);
        }
        let login = NatsLogin::of(&url)?;
        if login != NatsLogin::Nobody {
            if self.login != NatsLogin::Nobody && self.login != login {
                return Err(BadNatsUrl::Logins);
            }
            self.login = login;
        }
        let stripped = url.set_username("").and_then(|()| url.set_password(None));
        stripped.map_err(|()| BadNatsUrl::Form)?;
        let address = ServerAddr::from_url(url).map_err(|_| BadNatsUrl::Form)?;
        self.addresses.push(address);
        Ok(())
    }
}

impl NatsLogin {
    /// As the tools of NATS read a URL: a name without a password is a token.
    fn of(url: &Url) -> Result<Self, BadNatsUrl> {
        let decoded = |part: &str| {
            let decoded = percent_decode_str(part).decode_utf8();
            decoded.map(Into::into).map_err(|_| BadNatsUrl::Form)
        };
        match (url.username(), url.password()) {
            ("", None) => Ok(Self::Nobody),
            (name, None) => Ok(Self::Token(decoded(name)?)),
            (name, Some(password)) => Ok(Self::User {
                name: decoded(name)?,
                password: decoded(password)?,
            }),
        }
    }
}

/// Where a NATS is, and how its servers are trusted.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    pub servers: NatsServers,
    /// For `tls://`, and where a server asks for it.
    pub tls: rustls::ClientConfig,
}

/// A connection that is made, and made anew, in the background.
#[derive(Clone, Debug)]
pub struct NatsConnection(Client);

impl NatsConnection {
    /// Begins to connect, and does not wait for it.
    ///
    /// # Errors
    /// None but those of addresses that are none, which [`NatsServers::parse`] has read.
    pub async fn start(config: NatsConfig) -> Result<Self, async_nats::ConnectError> {
        let standing = Arc::new(Standing::default());
        let options = ConnectOptions::new()
            .name("turnwright")
            .retry_on_initial_connect()
            .no_echo()
            .tls_client_config(config.tls)
            .client_capacity(QUEUE_MAX)
            .subscription_capacity(TAKEN_LATER_MAX)
            .connection_timeout(CONNECT_MAX)
            .ping_interval(PING_EVERY)
            .reconnect_delay_callback(pause_before)
            .event_callback(move |event| {
                standing.tell(&event);
                ready(())
            });
        let options = match config.servers.login {
            NatsLogin::Nobody => options,
            NatsLogin::Token(token) => options.token(token),
            NatsLogin::User { name, password } => options.user_and_password(name, password),
        };
        options.connect(config.servers.addresses).await.map(Self)
    }

    pub fn is_connected(&self) -> bool {
        self.0.connection_state() == State::Connected
    }

    /// Sends a message if there is a connection and room for it, and never waits; whether there was.
    pub fn publish(&self, subject: String, payload: Bytes) -> bool {
        // What waits for a connection would be old once there is one.
        self.is_connected()
            // It waits for nothing but room.
            && unconstrained(self.0.publish(subject, payload))
                .now_or_never()
                .is_some_and(|sent| sent.is_ok())
    }

    /// Hears what is sent to a subject from now on, over all connections; `None` if there is no room to ask for it.
    pub fn subscribe(&self, subject: String) -> Option<NatsSubscription> {
        let asked = unconstrained(self.0.subscribe(subject)).now_or_never()?;
        asked.ok().map(NatsSubscription)
    }

    /// Waits until what was published is with the server, if there is a connection.
    pub async fn flush_within(&self, limit: Duration) {
        if self.is_connected() {
            // What does not arrive is not relied upon.
            let _ = timeout(limit, self.0.flush()).await;
        }
    }
}

/// What is sent to one subject, for as long as this is there.
#[derive(Debug)]
pub struct NatsSubscription(Subscriber);

impl NatsSubscription {
    /// The text of the next message; `None` for one that is no text. Ends only with a message.
    ///
    /// # Cancel safety
    /// No message is lost by it.
    pub async fn next(&mut self) -> Option<String> {
        match self.0.next().await {
            Some(message) => from_utf8(&message.payload).ok().map(ToOwned::to_owned),
            // The connection was given up, which nobody asks for while this is there.
            None => std::future::pending().await,
        }
    }
}

fn pause_before(tries: usize) -> Duration {
    let doubled = u32::try_from(tries.saturating_sub(1)).unwrap_or(u32::MAX);
    let factor = 2_u32.checked_pow(doubled).unwrap_or(u32::MAX);
    PAUSE_FIRST.saturating_mul(factor).min(PAUSE_MAX)
}

/// What the log was told, so that it is told once.
#[derive(Debug, Default)]
struct Standing {
    is_lost: AtomicBool,
    /// The server has refused something on this connection.
    has_refused: AtomicBool,
}

impl Standing {
    fn tell(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.is_lost.store(false, Ordering::Release);
                self.has_refused.store(false, Ordering::Release);
                tracing::info!("connected to NATS");
            }
            Event::Disconnected => self.tell_lost("the connection ended"),
            Event::ClientError(error) => self.tell_lost(&error.to_string()),
            Event::ServerError(error) => {
                if !self.has_refused.swap(true, Ordering::AcqRel) {
                    tracing::warn!(cause = %error, "NATS refuses something");
                }
            }
            Event::SlowConsumer(_) | Event::LameDuckMode | Event::Draining | Event::Closed => {}
        }
    }

    fn tell_lost(&self, cause: &str) {
        if !self.is_lost.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                cause,
                "NATS cannot be reached: servers hear of each other by the database alone"
            );
        }
    }
}

#[cfg(test)]
mod tests;
