//! `turnwright keys`

use anyhow::{Context, anyhow, bail};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key, revoke_key};
use tw_runtime::keys::{ALL_TOOLS, check_known, check_tool_name, ends_after};
use tw_store::read::api_keys::ListedApiKey;
use tw_store::store::Store;
use tw_store::system;

use crate::cli::{CreateKeyArgs, KeysOf, MemoryArg, RecordArg, RevokeKeyArgs, ToolsModeArg};
use crate::config::Settings;
use crate::database::DatabasePlace;
use crate::organization::slug;
use crate::printed;
use crate::registry;
use printed::{print, table};

/// Prints only the key. Whoever named another folder than the server's is told that it was an empty one.
pub async fn create(args: CreateKeyArgs) -> anyhow::Result<()> {
    let env = Env::system();
    let wanted = wanted(&args, &env)?;
    let place = DatabasePlace::of(&args.store, &Settings::of_file(None)?, &args.data)?;
    let existing = place.open_existing(&env).await?;
    if let ToolGrant::Named(names) = &wanted.tools
        && !args.allow_unknown_tools
    {
        let known = tool_names_of(existing.as_ref(), &wanted.organization).await?;
        check_tools(names, &known)?;
    }
    let store = match existing {
        Some(store) => store,
        None => {
            let made = place.open(&env).await?;
            printed::complain(&format!("made a new database in {place}\n"));
            made
        }
    };
    let key = create_key(&store, &env, wanted)
        .await
        .context("making the key")?;
    print(&format!("{key}\n"))?;
    Ok(())
}

const HEAD: [&str; 9] = [
    "KEY",
    "ORGANIZATION",
    "NAME",
    "SCOPES",
    "TOOLS",
    "LIMITS",
    "MADE",
    "LAST USED",
    "ENDS",
];

pub async fn list(args: KeysOf) -> anyhow::Result<()> {
    let keys = system::api_keys(&store_of(&args).await?).await?;
    let rows = keys.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
    print(&table(HEAD, &rows))
}

/// Prints which key it was.
pub async fn revoke(args: RevokeKeyArgs) -> anyhow::Result<()> {
    let store = store_of(&args.of).await?;
    let key = revoke_key(&store, &Env::system(), &args.key)
        .await
        .context("ending the key")?;
    let (shown, slug, name) = (key.shown, key.organization_slug, key.name);
    print(&format!("ended: {shown} of {slug}, {name:?}\n"))
}

/// The database of a folder; none is made where there is none.
pub async fn store_of(args: &KeysOf) -> anyhow::Result<Store> {
    let place = DatabasePlace::of(&args.store, &Settings::of_file(None)?, &args.data)?;
    let found = place.open_existing(&Env::system()).await?;
    found.with_context(|| format!("there is no database in {place}"))
}

fn row(key: &ListedApiKey) -> anyhow::Result<[String; 9]> {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let or = |at: Option<Timestamp>| at.map_or(Ok("never".to_owned()), second);
    Ok([
        key.shown.clone(),
        key.organization_slug.clone(),
        key.name.clone(),
        scopes.join(","),
        tools(&key.tools, key.tools_mode),
        limits(&key.limits),
        second(key.created)?,
        or(key.last_used)?,
        or(key.expires)?,
    ])
}

fn tools(granted: &ToolGrant, mode: ToolsMode) -> String {
    let names = match granted {
        ToolGrant::None => "none".to_owned(),
        ToolGrant::All => ALL_TOOLS.to_owned(),
        ToolGrant::Named(names) => names.join(","),
    };
    match mode {
        ToolsMode::Replace => names,
        ToolsMode::Add => format!("{names} (added)"),
    }
}

/// The limits as the flags name them; those that the key leaves to the configuration are not there.
fn limits(limits: &RateLimits) -> String {
    let said = [
        ("requests-per-minute", limits.requests_per_minute),
        ("concurrency", limits.concurrency_max),
        ("streams", limits.streams_max),
    ];
    let said = said
        .into_iter()
        .filter_map(|(name, limit)| limit.map(|limit| format!("{name}={limit}")));
    let said: Vec<String> = said.collect();
    if said.is_empty() {
        return "-".to_owned();
    }
    said.join(",")
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
            [ALL_TOOLS] => ToolGrant::All,
            names => ToolGrant::Named(tool_names(names)?),
        },
        tools_mode: match args.tools_mode {
            ToolsModeArg::Replace => ToolsMode::Replace,
            ToolsModeArg::Add => ToolsMode::Add,
        },
        record: match args.record {
            RecordArg::Full => RecordPolicy::Full,
            RecordArg::Minimal => RecordPolicy::Minimal,
        },
        memory: match args.memory {
            Some(MemoryArg::Key) => KeyMemory::Key,
            None => KeyMemory::Off,
        },
        limits: RateLimits {
            requests_per_minute: args.requests_per_minute,
            concurrency_max: args.concurrency,
            streams_max: args.streams,
        },
        expires: args
            .expires_days
            .map(|days| ends_after(env.now(), days))
            .transpose()
            .map_err(|problem| anyhow!("--expires-days: {problem}"))?,
    })
}

fn tool_names(names: &[&str]) -> anyhow::Result<Vec<String>> {
    for name in names {
        check_tool_name(name).map_err(|problem| anyhow!("--tools: {problem}"))?;
    }
    Ok(names.iter().map(|name| (*name).to_owned()).collect())
}

/// The names of the built-in tools and those of the organization.
async fn tool_names_of(store: Option<&Store>, organization: &str) -> anyhow::Result<Vec<String>> {
    let built_in = registry::tools(&[])?;
    let mut names: Vec<String> = built_in.iter().map(|tool| tool.name.clone()).collect();
    if let Some(store) = store
        && let Some(organization) = system::organization_by_slug(store, organization).await?
    {
        let stored = store.tools(organization).await?;
        names.extend(stored.into_iter().map(|row| row.name));
    }
    Ok(names)
}

/// Checks that the tools are there; the error says how to look further.
fn check_tools(names: &[String], known: &[String]) -> anyhow::Result<()> {
    let refused = names.iter().find_map(|name| check_known(name, known).err());
    let Some(refused) = refused else {
        return Ok(());
    };
    bail!(
        "--tools: {refused} ('turnwright tools list' prints those that there are; --allow-unknown-tools takes the name \
         of one that will be made later)"
    )
}

fn scopes(words: &[String]) -> anyhow::Result<Vec<KeyScope>> {
    if words.is_empty() {
        return Ok(KeyScope::DEFAULT.to_vec());
    }
    words
        .iter()
        .map(|word| {
            KeyScope::parse(word).with_context(|| {
                let known = KeyScope::ALL.map(KeyScope::as_str).join(", ");
                format!("--scope {word:?} is none of {known}")
            })
        })
        .collect()
}
