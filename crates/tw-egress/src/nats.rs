//! A connection to NATS, over which servers hint at things to each other.
//!
//! Nothing waits for it: what finds no connection, or no room in a queue, is dropped, and whoever relies on a message
//! looks without it, too.

mod standing;

use std::convert::Infallible;
use std::fmt;
use std::future::{pending, ready};
use std::str::from_utf8;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectError, ConnectOptions, ServerAddr, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use percent_encoding::percent_decode_str;
use tokio::sync::{oneshot, watch};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use url::Url;

use standing::Standing;

/// Messages that wait to be sent; further ones are dropped.
const QUEUE_MAX: usize = 1024;
/// Messages of a subscription that wait to be taken; further ones are dropped. Each may be as large as its server lets
/// it be, and one is as good as many.
const TAKEN_LATER_MAX: usize = 4;
/// A message that is larger than this is none of ours: they are numbers of up to 20 digits.
const PAYLOAD_BYTES_MAX: usize = 32;
/// Time that making a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time after which a connection is tried; one that misses two answers is made anew.
const PING_EVERY: Duration = Duration::from_secs(10);

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
    #[error("must be a URL of nats:// or tls://, and is one of something else")]
    Scheme,
    #[error("has some servers with TLS and some without: the password would leave in clear")]
    Mixed,
    #[error("names several users: one connects to all servers")]
    Logins,
}

impl NatsServers {
    /// Reads one URL, or several with commas between them; `nats://` may be left out.
    ///
    /// # Errors
    /// [`BadNatsUrl`].
    pub fn parse(written: &str) -> Result<Self, BadNatsUrl> {
        let mut servers = Self {
            addresses: Vec::new(),
            login: NatsLogin::Nobody,
        };
        for url in written.split(',') {
            let url = url.trim();
            let read = if url.contains("://") {
                Url::parse(url)
            } else {
                Url::parse(&format!("nats://{url}"))
            };
            servers.add(read.map_err(|_| BadNatsUrl::Form)?)?;
        }
        let with_tls = |address: &ServerAddr| address.tls_required();
        if servers.wants_tls() && !servers.addresses.iter().all(with_tls) {
            return Err(BadNatsUrl::Mixed);
        }
        Ok(servers)
    }

    fn wants_tls(&self) -> bool {
        self.addresses.iter().any(ServerAddr::tls_required)
    }

    fn add(&mut self, mut url: Url) -> Result<(), BadNatsUrl> {
        if !matches!(url.scheme(), "nats" | "tls") {
            return Err(BadNatsUrl::Scheme);
        }
        let has_more = !matches!(url.path(), "" | "/") || url.query().or(url.fragment()).is_some();
        if has_more || url.host_str().is_none_or(str::is_empty) {
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

impl NatsConfig {
    /// A client that connects in the background, and what ends with it.
    async fn connect(
        &self,
        standing: &Arc<Standing>,
    ) -> Result<(Client, oneshot::Receiver<Infallible>), ConnectError> {
        let (alive, end) = oneshot::channel();
        let pauses = Arc::clone(standing);
        let events = Arc::clone(standing);
        let servers = &self.servers;
        let options = ConnectOptions::new()
            .name("turnwright")
            .retry_on_initial_connect()
            .no_echo()
            .require_tls(servers.wants_tls())
            // Whoever names servers says who is given the password, and over what.
            .ignore_discovered_servers()
            .tls_client_config(self.tls.clone())
            .client_capacity(QUEUE_MAX)
            .subscription_capacity(TAKEN_LATER_MAX)
            .connection_timeout(CONNECT_MAX)
            .ping_interval(PING_EVERY)
            .reconnect_delay_callback(move |_| pauses.next_pause())
            .event_callback(move |event| {
                // It is dropped with this, when nothing can come of the client any more.
                let _alive: &oneshot::Sender<Infallible> = &alive;
                events.hear(&event);
                ready(())
            });
        let options = match servers.login.clone() {
            NatsLogin::Nobody => options,
            NatsLogin::Token(token) => options.token(token),
            NatsLogin::User { name, password } => options.user_and_password(name, password),
        };
        let client = options.connect(servers.addresses.clone()).await?;
        Ok((client, end))
    }
}

/// A connection that is made, and made anew, in the background, while its [`NatsKeeper`] is run.
#[derive(Clone, Debug)]
pub struct NatsConnection(watch::Receiver<NatsLink>);

/// What the connection is now.
#[derive(Clone, Debug)]
struct NatsLink {
    /// Grows with each client.
    number: u64,
    /// `None` while the client has broken and there is no new one.
    client: Option<Client>,
}

impl NatsConnection {
    /// Begins to connect, and does not wait for it.
    ///
    /// # Errors
    /// None but those of addresses that are none, which [`NatsServers::parse`] has read.
    pub async fn start(config: NatsConfig) -> Result<(Self, NatsKeeper), ConnectError> {
        let standing = Arc::new(Standing::default());
        let (client, end) = config.connect(&standing).await?;
        let (links, link) = watch::channel(NatsLink {
            number: 0,
            client: Some(client),
        });
        let keeper = NatsKeeper {
            config,
            standing,
            links,
            end,
        };
        Ok((Self(link), keeper))
    }

    pub fn is_connected(&self) -> bool {
        self.client().is_some()
    }

    /// The client, if it has a connection.
    fn client(&self) -> Option<Client> {
        let client = self.0.borrow().client.clone();
        client.filter(|client| client.connection_state() == State::Connected)
    }

    /// Sends a message if there is a connection and room for it, and never waits; whether there was.
    pub fn publish(&self, subject: String, payload: Bytes) -> bool {
        // What waits for a connection would be old once there is one.
        self.client().is_some_and(|client| {
            // It waits for nothing but room.
            unconstrained(client.publish(subject, payload))
                .now_or_never()
                .is_some_and(|sent| sent.is_ok())
        })
    }

    /// Hears what is sent to a subject from now on, over all connections; `None` if there is no room to ask for it.
    pub fn subscribe(&self, subject: String) -> Option<NatsSubscription> {
        let NatsLink { number, client } = self.0.borrow().clone();
        let asked = unconstrained(client?.subscribe(subject.clone())).now_or_never()?;
        Some(NatsSubscription {
            link: self.0.clone(),
            subject,
            number,
            messages: asked.ok()?,
        })
    }

    /// Waits until what was published is with the server, if there is a connection.
    pub async fn flush_within(&self, limit: Duration) {
        if let Some(client) = self.client() {
            // What does not arrive is not relied upon.
            let _ = timeout(limit, client.flush()).await;
        }
    }
}

/// What is sent to one subject, for as long as this is there.
#[derive(Debug)]
pub struct NatsSubscription {
    link: watch::Receiver<NatsLink>,
    subject: String,
    /// The client that the messages come from.
    number: u64,
    messages: Subscriber,
}

impl NatsSubscription {
    /// The text of the next message; `None` for one that is no text. Ends only with a message, and passes over one that
    /// is larger than any of ours.
    ///
    /// # Cancel safety
    /// No message is lost by it.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            match self.messages.next().await {
                Some(message) if message.payload.len() > PAYLOAD_BYTES_MAX => {}
                Some(message) => return from_utf8(&message.payload).ok().map(ToOwned::to_owned),
                None => self.ask_anew().await,
            }
        }
    }

    /// Waits for the client that takes the place of the one that broke, and asks it.
    async fn ask_anew(&mut self) {
        loop {
            let number = self.number;
            let has_come = |link: &NatsLink| link.number > number && link.client.is_some();
            let Ok(link) = self.link.wait_for(has_come).await.map(|link| link.clone()) else {
                // Nobody keeps the connection any more.
                return pending().await;
            };
            if let Some(client) = link.client
                && let Ok(messages) = client.subscribe(self.subject.clone()).await
            {
                self.messages = messages;
                self.number = link.number;
                return;
            }
            self.number = link.number;
        }
    }
}

/// Says in the log how the connection stands, and makes a new one where the client breaks.
#[derive(Debug)]
pub struct NatsKeeper {
    config: NatsConfig,
    standing: Arc<Standing>,
    links: watch::Sender<NatsLink>,
    /// Ends with the client: what a server says can make it panic.
    end: oneshot::Receiver<Infallible>,
}

impl NatsKeeper {
    /// Never ends.
    pub async fn keep(mut self) {
        loop {
            let proven_at = self.standing.proven_at();
            let proven = async {
                match proven_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                _ = &mut self.end => self.make_anew().await,
                () = self.standing.changed.notified() => {}
                () = proven => self.standing.prove(Instant::now()),
            }
        }
    }

    async fn make_anew(&mut self) {
        self.links.send_modify(|link| link.client = None);
        loop {
            sleep(self.standing.break_down()).await;
            match self.config.connect(&self.standing).await {
                Ok((client, end)) => {
                    self.end = end;
                    return self.links.send_modify(|link| {
                        link.number += 1;
                        link.client = Some(client);
                    });
                }
                Err(error) => tracing::error!(%error, "connecting to NATS anew"),
            }
        }
    }
}

#[cfg(test)]
mod tests;
