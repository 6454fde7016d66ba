//! Where a database is, and connections to it.

use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};

use super::PgConnection;
use super::tls::PostgresTls;
use crate::db_error::{DbError, Failure};

/// Time that making a connection may take, for each address of the server.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Time after which data that the server's machine has not acknowledged ends the connection, and of silence after
/// which it is asked whether it is still there.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Settings of each connection. A statement that waits for a lock holds up all that are written with it.
const SETTINGS: &str = "SET lock_timeout = '5s'; SET statement_timeout = '50s';
    SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = 'warning';
    SET standard_conforming_strings = on; SET default_transaction_isolation = 'read committed'";

/// A database on a server.
#[derive(Clone)]
pub struct PostgresServer {
    config: Config,
    tls: Option<PostgresTls>,
}

/// Leaves out the password.
impl fmt::Debug for PostgresServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresServer").finish_non_exhaustive()
    }
}

impl PostgresServer {
    /// The database that a URL names, `postgres://user:password@host:port/database`. With `tls` the server's
    /// certificate is checked where the URL's `sslmode` has TLS used.
    ///
    /// # Errors
    /// The URL is none of PostgreSQL.
    pub fn of(url: &str, tls: Option<rustls::ClientConfig>) -> Result<Self, DbError> {
        let mut config = Config::from_str(url)?;
        if config.get_application_name().is_none() {
            config.application_name("turnwright");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        config
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(SILENCE_MAX);
        let tls = tls.map(PostgresTls::new);
        // A server on the same machine shows a certificate that nobody vouches for, where it shows any.
        let may_be_plain = tls.is_none() || (!url.contains("sslmode=") && is_local(&config));
        if may_be_plain && config.get_ssl_mode() == SslMode::Prefer {
            config.ssl_mode(SslMode::Disable);
        }
        Ok(Self { config, tls })
    }

    /// Connects; blocks.
    ///
    /// # Errors
    /// The server is not there, or does not take the connection.
    pub fn connect(&self) -> Result<PgConnection, DbError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::Runtime)?;
        let client = runtime.block_on(async {
            match &self.tls {
                Some(tls) => {
                    let (client, connection) = self.config.connect(tls.clone()).await?;
                    tokio::spawn(connection);
                    Ok::<_, tokio_postgres::Error>(client)
                }
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    Ok(client)
                }
            }
        })?;
        let made = PgConnection {
            runtime: Some(runtime),
            client: Arc::new(client),
            prepared: Default::default(),
            sent: Default::default(),
            lost: Default::default(),
        };
        made.frame(SETTINGS)?;
        Ok(made)
    }

    /// Connects within the caller's runtime, and hears the hints of other servers on the same schema.
    ///
    /// # Errors
    /// As [`PostgresServer::connect`].
    pub async fn listen(&self, hints: &Arc<Notify>) -> Result<Client, DbError> {
        let client = match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(hear(connection, Arc::clone(hints)));
                client
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(hear(connection, Arc::clone(hints)));
                client
            }
        };
        client.batch_execute(SETTINGS).await?;
        client.batch_execute("LISTEN turnwright").await?;
        Ok(client)
    }
}

/// Drives a connection. The hints of all schemas of a database are one channel: one too many costs a look.
async fn hear<S, T>(mut connection: Connection<S, T>, hints: Arc<Notify>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            hints.notify_one();
        }
    }
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}
