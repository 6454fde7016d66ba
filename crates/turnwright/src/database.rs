//! Where the record is: a file in the data folder, or a database on a PostgreSQL server.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustls::ClientConfig;
use tw_egress::env::Env;
use tw_store::copy::CopyPlace;
use tw_store::db_error::DbError;
use tw_store::foreign::ForeignPlace;
use tw_store::inspection::DatabaseInspection;
use tw_store::shape_views::ViewSchema;
use tw_store::store::{Store, StoreOptions, StoreUse};

use crate::cli::StoreArgs;
use crate::config::Settings;

/// The name of the database's file in its folder.
pub const DATABASE: &str = "turnwright.db";

/// The variable that names a database where no flag does.
const VARIABLE: &str = "DATABASE_URL";
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// A place for a database.
#[derive(Clone, Debug)]
pub enum DatabasePlace {
    Folder(PathBuf),
    Server(Box<DatabaseUrl>),
}

/// The URL of a database on a server, and how to trust that one.
#[derive(Clone)]
pub struct DatabaseUrl {
    url: String,
    tls: ClientConfig,
}

/// Leaves out the password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.url.split_once("://").unwrap_or_default();
        let place = rest.split(['?', '#']).next().unwrap_or_default();
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        write!(f, "{scheme}://{place}")
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

impl fmt::Display for DatabasePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Server(url) => write!(f, "{url}"),
        }
    }
}

impl DatabasePlace {
    /// The database that the flag names, or the environment, or the settings; else the file in `data`.
    ///
    /// # Errors
    /// What the flag or the settings name is no URL of PostgreSQL.
    pub fn of(args: &StoreArgs, settings: &Settings, data: &Path) -> anyhow::Result<Self> {
        let variable = std::env::var(VARIABLE).ok();
        // Other programs read it, too, and may mean another kind of database.
        let variable = variable.filter(|url| is_postgres(url));
        let named = args.store.clone().or(variable);
        let Some(url) = named.or_else(|| settings.server.store.as_ref().map(|url| url.0.clone()))
        else {
            return Ok(Self::Folder(data.to_owned()));
        };
        if !is_postgres(&url) {
            // It may hold a password.
            bail!("the store must be a URL as postgres://user:password@host:port/database");
        }
        Self::on_server(url, settings)
    }

    /// The database that a word of the command line names: a URL of PostgreSQL, or else a folder.
    pub fn named(word: &str, settings: &Settings) -> anyhow::Result<Self> {
        if is_postgres(word) {
            return Self::on_server(word.to_owned(), settings);
        }
        if word.contains("://") {
            bail!(
                "a database is a folder, or a URL as postgres://user:password@host:port/database"
            );
        }
        Ok(Self::Folder(PathBuf::from(word)))
    }

    fn on_server(url: String, settings: &Settings) -> anyhow::Result<Self> {
        let tls = settings.database_tls()?;
        Ok(Self::Server(Box::new(DatabaseUrl { url, tls })))
    }

    /// Opens the database, which is made if it does not exist.
    pub async fn open(&self, env: &Env) -> anyhow::Result<Store> {
        self.open_with(StoreOptions::defaults(env.now())).await
    }

    /// [`DatabasePlace::open`] with the server's own options.
    pub async fn open_with(&self, options: StoreOptions) -> anyhow::Result<Store> {
        match self {
            Self::Folder(folder) => {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("making the folder {}", folder.display()))?;
                let file = folder.join(DATABASE);
                Store::open(&file, options).with_context(|| format!("opening {}", file.display()))
            }
            Self::Server(server) => {
                let connected = Store::connect(&server.url, Some(server.tls.clone()), options);
                connected.await.with_context(|| format!("opening {server}"))
            }
        }
    }

    /// Opens the database like [`DatabasePlace::open`]; `None` when a folder has none, and then none is made.
    pub async fn open_existing(&self, env: &Env) -> anyhow::Result<Option<Store>> {
        let options = StoreOptions::defaults(env.now());
        self.open_existing_with(options).await
    }

    /// The same, to write rows by the thousand.
    pub async fn open_existing_to_fill(&self, env: &Env) -> anyhow::Result<Option<Store>> {
        let options = StoreOptions {
            use_of: StoreUse::Filling,
            ..StoreOptions::defaults(env.now())
        };
        self.open_existing_with(options).await
    }

    async fn open_existing_with(&self, options: StoreOptions) -> anyhow::Result<Option<Store>> {
        match self {
            Self::Folder(folder) if !folder.join(DATABASE).exists() => Ok(None),
            Self::Folder(_) | Self::Server(_) => self.open_with(options).await.map(Some),
        }
    }
}

impl DatabaseUrl {
    /// The database as one that is copied.
    pub fn as_copied(&self) -> CopyPlace {
        CopyPlace::Server {
            url: self.url.clone(),
            tls: Some(Box::new(self.tls.clone())),
        }
    }

    /// The database as that of another application.
    pub fn as_foreign(&self) -> ForeignPlace {
        ForeignPlace::Server {
            url: self.url.clone(),
            tls: Some(Box::new(self.tls.clone())),
        }
    }

    /// Makes a schema of views in the database; blocks.
    pub fn make_views(&self, schema: &ViewSchema<'_>) -> Result<(), DbError> {
        schema.make(&self.url, Some(self.tls.clone()))
    }

    /// Looks at the database; blocks.
    pub fn inspect(&self) -> Result<DatabaseInspection, DbError> {
        DatabaseInspection::connect(&self.url, Some(self.tls.clone()))
    }
}

fn is_postgres(url: &str) -> bool {
    SCHEMES.iter().any(|scheme| url.starts_with(scheme))
}

#[cfg(test)]
mod tests;
