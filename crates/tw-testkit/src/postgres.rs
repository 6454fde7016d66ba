//! A PostgreSQL server to test with: a schema of its own for each test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// The server that is tested with where none is named.
const SERVER_DEFAULT: &str = "postgres://postgres@127.0.0.1:5432/postgres";

const BYTES_DATABASE: &str = "turnwright_test_bytes";

/// A schema that is dropped with this.
#[derive(Debug)]
pub struct PostgresSchema {
    server: String,
    /// Its name, which is also that of the connections to it.
    pub name: String,
    /// The database, seen from within the schema.
    pub url: String,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl PostgresSchema {
    /// `None` where no server is named by `TURNWRIGHT_TEST_PG` and there is none at the usual place.
    ///
    /// # Panics
    /// When the server that is named takes no connection.
    pub async fn create() -> Option<Self> {
        let named = std::env::var("TURNWRIGHT_TEST_PG").ok();
        let server = named.clone().unwrap_or_else(|| SERVER_DEFAULT.to_owned());
        let client = match connect(&server).await {
            Ok(client) => client,
            Err(error) if named.is_none() => {
                eprintln!("no PostgreSQL at {SERVER_DEFAULT}, so not tested with it: {error}");
                return None;
            }
            Err(error) => panic!("TURNWRIGHT_TEST_PG: {error}"),
        };
        Some(Self::create_in(server, &client).await)
    }

    /// The same in a database that does not know what the bytes of its texts mean. That is made once, and stays: making
    /// and dropping one each time takes long on a server that is busy.
    ///
    /// # Panics
    /// When the server makes no database.
    pub async fn create_of_bytes() -> Option<Self> {
        let schema = Self::create().await?;
        let client = schema.outside().await;
        let make = format!(
            "CREATE DATABASE {BYTES_DATABASE} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        );
        if let Err(error) = client.batch_execute(&make).await {
            let is_there = [SqlState::DUPLICATE_DATABASE, SqlState::UNIQUE_VIOLATION];
            let code = error.code().cloned();
            assert!(code.is_some_and(|code| is_there.contains(&code)), "{error}");
        }
        let (place, options) = match schema.server.split_once('?') {
            Some((place, options)) => (place, format!("?{options}")),
            None => (&*schema.server, String::new()),
        };
        let (host, _) = place.rsplit_once('/')?;
        let server = format!("{host}/{BYTES_DATABASE}{options}");
        let client = connect(&server).await.unwrap();
        Some(Self::create_in(server, &client).await)
    }

    async fn create_in(server: String, client: &Client) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("turnwright_test_{}_{number}", std::process::id());
        let make = format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}");
        client.batch_execute(&make).await.unwrap();
        let mark = if server.contains('?') { '&' } else { '?' };
        let url =
            format!("{server}{mark}application_name={name}&options=-c%20search_path%3D{name}");
        Self { server, name, url }
    }

    /// The name of a schema that a test may make beside it, which is dropped with it.
    pub fn views_schema(&self) -> String {
        format!("{}_views", self.name)
    }

    /// The name of a role that a test may make, which is dropped with the schema.
    pub fn role(&self, name: &str) -> String {
        format!("{}_role_{name}", self.name)
    }

    /// A connection to the server that is none of the schema's.
    ///
    /// # Panics
    /// When the server takes none.
    pub async fn outside(&self) -> Client {
        connect(&self.server).await.unwrap()
    }

    /// A connection that sees the schema.
    ///
    /// # Panics
    /// When the server takes none.
    pub async fn client(&self) -> Client {
        connect(&self.url).await.unwrap()
    }
}

impl Drop for PostgresSchema {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let (views, roles) = (self.views_schema(), self.role(""));
        let drop = async move {
            let client = connect(&server).await.unwrap();
            let sql = format!(
                "SET client_min_messages = warning; DROP SCHEMA {name} CASCADE;
                 DROP SCHEMA IF EXISTS {views} CASCADE;
                 DO $$ DECLARE role text; BEGIN
                     FOR role IN SELECT rolname FROM pg_roles WHERE starts_with(rolname, '{roles}') LOOP
                         EXECUTE format('DROP OWNED BY %1$I; DROP ROLE %1$I', role);
                     END LOOP;
                 END $$"
            );
            client.batch_execute(&sql).await.unwrap();
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        // The test's own thread may be within a runtime.
        let dropped = thread::spawn(move || runtime.block_on(drop)).join();
        assert!(dropped.is_ok() || thread::panicking());
    }
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
