//! `turnwright keys`

use std::time::Duration;

use anyhow::{Context, bail};
use tw_core::change::{KeyMemory, Record, Scope, ToolGrant};
use tw_core::rate::Limits;
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key, revoke_key};
use tw_store::store::Store;
use tw_store::system::{self, ListedApiKey};

use crate::cli::{CreateKeyArgs, KeysOf, MemoryArg, RecordArg, RevokeKeyArgs};
use crate::organization::slug;
use crate::printed::{print, table};
use crate::serve::{DATABASE, open_existing_store, open_store};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Prints only the key. Whoever named another folder than the server's is told that it was an empty one.
pub async fn create(args: CreateKeyArgs) -> anyhow::Result<()> {
    let env = Env::system();
    let wanted = wanted(&args, &env)?;
    let is_new = !args.data.join(DATABASE).exists();
    let store = open_store(&args.data, &env)?;
    if is_new {
        eprintln!("made a new database in {}", args.data.display());
    }
    let key = create_key(&store, &env, wanted)
        .await
        .context("making the key")?;
    println!("{key}");
    Ok(())
}

const HEAD: [&str; 7] = [
    "KEY",
    "ORGANIZATION",
    "NAME",
    "SCOPES",
    "MADE",
    "LAST USED",
    "ENDS",
];

pub async fn list(args: KeysOf) -> anyhow::Result<()> {
    let keys = system::api_keys(&store_of(&args)?).await?;
    let rows = keys.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
    print(&table(HEAD, &rows))
}

/// Prints which key it was.
pub async fn revoke(args: RevokeKeyArgs) -> anyhow::Result<()> {
    let store = store_of(&args.of)?;
    let key = revoke_key(&store, &Env::system(), &args.key)
        .await
        .context("ending the key")?;
    let (shown, slug, name) = (key.shown, key.organization_slug, key.name);
    print(&format!("ended: {shown} of {slug}, {name:?}\n"))
}

/// No database is made where there is none.
fn store_of(args: &KeysOf) -> anyhow::Result<Store> {
    let found = open_existing_store(&args.data, &Env::system())?;
    found.with_context(|| format!("there is no database in {}", args.data.display()))
}

fn row(key: &ListedApiKey) -> anyhow::Result<[String; 7]> {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let or = |at: Option<Timestamp>| at.map_or(Ok("never".to_owned()), second);
    Ok([
        key.shown.clone(),
        key.organization_slug.clone(),
        key.name.clone(),
        scopes.join(","),
        second(key.created)?,
        or(key.last_used)?,
        or(key.expires)?,
    ])
}

/// A time in UTC, to the second.
fn second(at: Timestamp) -> anyhow::Result<String> {
    let at = jiff::Timestamp::from_microsecond(at.0).context("a time in the database")?;
    let at = at
        .round(jiff::Unit::Second)
        .context("a time in the database")?;
    Ok(at.to_string())
}

fn wanted(args: &CreateKeyArgs, env: &Env) -> anyhow::Result<KeyWanted> {
    Ok(KeyWanted {
        organization: slug(&args.organization)
            .with_context(|| format!("--organization {:?}", args.organization))?,
        name: args.name.clone(),
        scopes: scopes(&args.scopes)?,
        tools: match args
            .tools
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            [] => ToolGrant::None,
            ["all"] => ToolGrant::All,
            names => ToolGrant::Named(tool_names(names)?),
        },
        record: match args.record {
            RecordArg::Full => Record::Full,
            RecordArg::Minimal => Record::Minimal,
        },
        memory: match args.memory {
            Some(MemoryArg::Key) => KeyMemory::Key,
            None => KeyMemory::Off,
        },
        limits: Limits {
            requests_per_minute: args.requests_per_minute,
            concurrency_max: args.concurrency,
            streams_max: args.streams,
        },
        expires: args
            .expires_days
            .map(|days| env.now().after(DAY.saturating_mul(days))),
    })
}

/// Longest name that upstreams accept for a tool, in bytes.
const TOOL_NAME_BYTES_MAX: usize = 64;

fn tool_names(names: &[&str]) -> anyhow::Result<Vec<String>> {
    for name in names {
        let fits = (1..=TOOL_NAME_BYTES_MAX).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !fits || *name == "all" {
            bail!("--tools {name:?}: names of tools separated by commas, or 'all' alone");
        }
    }
    Ok(names.iter().map(|name| (*name).to_owned()).collect())
}

fn scopes(words: &[String]) -> anyhow::Result<Vec<Scope>> {
    if words.is_empty() {
        return Ok(vec![Scope::Chat, Scope::TurnsRead, Scope::ToolsRead]);
    }
    words
        .iter()
        .map(|word| {
            Scope::parse(word).with_context(|| {
                let known = Scope::ALL.map(Scope::as_str).join(", ");
                format!("--scope {word:?} is none of {known}")
            })
        })
        .collect()
}
