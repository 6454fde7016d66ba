//! Keys that are made, listed, changed and ended by other keys of their organization, which need the scope `admin`.

use std::time::Duration;

use tw_core::change::{Change, ChangeApiKey, Outcome};
use tw_core::id::ApiKeyUuid;
use tw_core::rate::RateLimits;
use tw_core::tenant::{ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::read::api_keys::ListedApiKey;

use crate::admin::{KeyWanted, new_key};
use crate::auth::Principal;
use crate::runtime::Runtime;

/// Longest name of a key, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 200;
/// Most tools that a key names: more are `all`, or a tool's own organization.
pub const KEY_TOOLS_MAX: usize = 1_000;
/// Longest life of a key, in days: a hundred years. What is meant to last longer does not end.
pub const KEY_DAYS_MAX: u32 = 36_500;
/// Longest name that upstreams accept for a tool, in bytes.
const TOOL_NAME_BYTES_MAX: usize = 64;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The word for all tools.
pub const ALL_TOOLS: &str = "all";

/// Whether tools may be named that do not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownTools {
    Refuse,
    Allow,
}

/// Changes of a key; what is `None` stays as it is.
#[derive(Clone, Debug, Default)]
pub struct KeyChanges {
    pub name: Option<String>,
    pub tools: Option<ToolGrant>,
    pub tools_mode: Option<ToolsMode>,
    /// `Some(None)` leaves it to the configuration.
    pub requests_per_minute: Option<Option<u32>>,
    pub concurrency_max: Option<Option<u32>>,
    pub streams_max: Option<Option<u32>>,
}

#[derive(Debug, thiserror::Error)]
pub enum ManageKeyError {
    #[error("{field}: {problem}")]
    Invalid {
        field: &'static str,
        problem: String,
    },
    /// The change would let somebody do more than the key that asks.
    #[error("{field}: {problem}")]
    Beyond {
        field: &'static str,
        problem: String,
    },
    #[error("there is no such key")]
    NotFound,
    #[error("the key has ended")]
    Ended,
    #[error("reading keys")]
    Read(#[from] ReadError),
    #[error("writing the key")]
    Write(#[from] StoreApplyError),
}

impl Runtime {
    /// Lists at most `limit` keys of the caller's organization behind the one with the id `after`,
    /// and says whether there are more.
    ///
    /// # Errors
    /// [`ManageKeyError::NotFound`] when no key has the id.
    pub async fn api_keys(
        &self,
        caller: &Principal,
        after: Option<ApiKeyUuid>,
        limit: u32,
    ) -> Result<(Vec<ListedApiKey>, bool), ManageKeyError> {
        let after = match after {
            None => None,
            Some(after) => Some(self.api_key(caller, after).await?.id),
        };
        let organization = caller.organization;
        let mut keys = self
            .store()
            .api_keys(organization, after, limit.saturating_add(1))
            .await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = keys.len() > limit;
        keys.truncate(limit);
        Ok((keys, has_more))
    }

    /// Reads a key of the caller's organization.
    ///
    /// # Errors
    /// [`ManageKeyError::NotFound`] also for another organization's.
    pub async fn api_key(
        &self,
        caller: &Principal,
        key: ApiKeyUuid,
    ) -> Result<ListedApiKey, ManageKeyError> {
        let found = self.store().api_key(caller.organization, key).await?;
        found.ok_or(ManageKeyError::NotFound)
    }

    /// Makes a key of the caller's organization, which can do no more than the caller's, and returns its text, too. What
    /// is not said of limits and of its end is as the caller's own.
    ///
    /// # Errors
    /// [`ManageKeyError`]; unless it is of a write, nothing was made.
    pub async fn create_api_key(
        &self,
        caller: &Principal,
        mut wanted: KeyWanted,
        unknown: UnknownTools,
    ) -> Result<(ListedApiKey, String), ManageKeyError> {
        check_name(&wanted.name)?;
        if wanted.scopes.is_empty() {
            return Err(invalid("scopes", "a key needs a scope"));
        }
        self.check_tools(caller, &wanted.tools, unknown).await?;
        wanted.limits = within(caller, wanted.limits)?;
        wanted.expires = ends_within(caller, wanted.expires)?;
        let (text, new) = new_key(
            self.env(),
            caller.organization,
            wanted,
            Some(caller.api_key),
        );
        let uuid = new.uuid;
        self.store().apply(vec![Change::CreateApiKey(new)]).await?;
        Ok((self.api_key(caller, uuid).await?, text))
    }

    /// Changes what is named of a key. A server that runs heeds it within two seconds.
    ///
    /// # Errors
    /// [`ManageKeyError`]; unless it is of a write, nothing was changed.
    pub async fn change_api_key(
        &self,
        caller: &Principal,
        key: ApiKeyUuid,
        changes: KeyChanges,
        unknown: UnknownTools,
    ) -> Result<ListedApiKey, ManageKeyError> {
        let before = self.api_key(caller, key).await?;
        if before.has_ended(self.env().now()) {
            return Err(ManageKeyError::Ended);
        }
        if let Some(tools) = &changes.tools {
            self.check_tools(caller, tools, unknown).await?;
        }
        let limits = changed_limits(caller, before.limits, &changes)?;
        let name = changes.name.unwrap_or(before.name);
        check_name(&name)?;
        let change = ChangeApiKey {
            organization: caller.organization,
            key: before.id,
            name,
            tools: changes.tools.unwrap_or(before.tools),
            tools_mode: changes.tools_mode.unwrap_or(before.tools_mode),
            limits,
            at: self.env().now(),
        };
        let outcomes = self
            .store()
            .apply(vec![Change::ChangeApiKey(change)])
            .await?;
        if outcomes.first() == Some(&Outcome::Already) {
            return Err(ManageKeyError::Ended);
        }
        self.api_key(caller, key).await
    }

    /// Ends a key. One that has ended stays as it is. A server that runs accepts it for another two seconds at most.
    ///
    /// # Errors
    /// [`ManageKeyError`].
    pub async fn end_api_key(
        &self,
        caller: &Principal,
        key: ApiKeyUuid,
    ) -> Result<(), ManageKeyError> {
        let found = self.api_key(caller, key).await?;
        let change = Change::ExpireApiKey {
            key: found.id,
            at: self.env().now(),
        };
        self.store().apply(vec![change]).await?;
        Ok(())
    }

    async fn check_tools(
        &self,
        caller: &Principal,
        wanted: &ToolGrant,
        unknown: UnknownTools,
    ) -> Result<(), ManageKeyError> {
        let names = match wanted {
            ToolGrant::None => return Ok(()),
            ToolGrant::All if caller.tools == ToolGrant::All => return Ok(()),
            ToolGrant::All => {
                let problem = "this key may not use all tools itself".to_owned();
                return Err(ManageKeyError::Beyond {
                    field: "tools",
                    problem,
                });
            }
            ToolGrant::Named(names) => names,
        };
        if names.len() > KEY_TOOLS_MAX {
            let problem = format!("at most {KEY_TOOLS_MAX} names");
            return Err(invalid("tools", problem));
        }
        for name in names {
            check_tool_name(name).map_err(|problem| invalid("tools", problem))?;
            if !caller.tools.allows(name) {
                let problem = format!("this key may not use {name} itself");
                return Err(ManageKeyError::Beyond {
                    field: "tools",
                    problem,
                });
            }
        }
        if unknown == UnknownTools::Refuse {
            let stored = self.store().tools(caller.organization).await?;
            let own = self.0.config.tools.iter().map(|tool| tool.name.clone());
            let known: Vec<String> = own.chain(stored.into_iter().map(|row| row.name)).collect();
            for name in names {
                check_known(name, &known).map_err(|problem| invalid("tools", problem))?;
            }
        }
        Ok(())
    }
}

fn invalid(field: &'static str, problem: impl Into<String>) -> ManageKeyError {
    let problem = problem.into();
    ManageKeyError::Invalid { field, problem }
}

fn check_name(name: &str) -> Result<(), ManageKeyError> {
    if name.len() > KEY_NAME_BYTES_MAX {
        return Err(invalid(
            "name",
            format!("at most {KEY_NAME_BYTES_MAX} bytes"),
        ));
    }
    Ok(())
}

/// The time so many days from now.
///
/// # Errors
/// Says how many there may be.
pub fn ends_after(now: Timestamp, days: u32) -> Result<Timestamp, String> {
    if !(1..=KEY_DAYS_MAX).contains(&days) {
        return Err(format!("a whole number from 1 to {KEY_DAYS_MAX}"));
    }
    Ok(now.after(DAY.saturating_mul(days)))
}

/// Limits that are no wider than the caller's own; what is not said is as wide.
fn within(caller: &Principal, wanted: RateLimits) -> Result<RateLimits, ManageKeyError> {
    let one = |field, own: Option<u32>, wanted: Option<u32>| {
        let Some(own) = own.filter(|own| *own > 0) else {
            return Ok(wanted);
        };
        match wanted {
            None => Ok(Some(own)),
            Some(wanted) if (1..=own).contains(&wanted) => Ok(Some(wanted)),
            Some(_) => {
                let problem = format!("this key's own limit is {own}, and it can give no more");
                Err(ManageKeyError::Beyond { field, problem })
            }
        }
    };
    let own = &caller.limits;
    Ok(RateLimits {
        requests_per_minute: one(
            "limits.requests_per_minute",
            own.requests_per_minute,
            wanted.requests_per_minute,
        )?,
        concurrency_max: one(
            "limits.concurrency",
            own.concurrency_max,
            wanted.concurrency_max,
        )?,
        streams_max: one("limits.streams", own.streams_max, wanted.streams_max)?,
    })
}

/// The key's new limits: what is not named stays, also where it is wider.
fn changed_limits(
    caller: &Principal,
    before: RateLimits,
    changes: &KeyChanges,
) -> Result<RateLimits, ManageKeyError> {
    let named = RateLimits {
        requests_per_minute: changes.requests_per_minute.flatten(),
        concurrency_max: changes.concurrency_max.flatten(),
        streams_max: changes.streams_max.flatten(),
    };
    let named = within(caller, named)?;
    let one =
        |change: Option<Option<u32>>, named, before| if change.is_some() { named } else { before };
    Ok(RateLimits {
        requests_per_minute: one(
            changes.requests_per_minute,
            named.requests_per_minute,
            before.requests_per_minute,
        ),
        concurrency_max: one(
            changes.concurrency_max,
            named.concurrency_max,
            before.concurrency_max,
        ),
        streams_max: one(changes.streams_max, named.streams_max, before.streams_max),
    })
}

fn ends_within(
    caller: &Principal,
    wanted: Option<Timestamp>,
) -> Result<Option<Timestamp>, ManageKeyError> {
    match (caller.expires, wanted) {
        (Some(own), Some(wanted)) if wanted > own => Err(ManageKeyError::Beyond {
            field: "expires_days",
            problem: "this key itself ends earlier".to_owned(),
        }),
        (own, wanted) => Ok(wanted.or(own)),
    }
}

/// Checks what a tool may be called at all.
///
/// # Errors
/// Says what it may.
pub fn check_tool_name(name: &str) -> Result<(), String> {
    let fits = (1..=TOOL_NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !fits || name == ALL_TOOLS {
        return Err(format!(
            "{name:?} is no name of a tool; names of tools, or '{ALL_TOOLS}' alone"
        ));
    }
    Ok(())
}

/// Least likeness of a name that may be meant: 0 is nothing in common, 1 is the same. One wrong
/// letter of four is 0.75, two of seven are 0.71.
const LIKENESS_MIN: f64 = 0.7;

/// Checks that a tool is there: a slip in a name would make a key whose requests are offered no tool, in silence.
///
/// # Errors
/// Says what may have been meant.
pub fn check_known(name: &str, known: &[String]) -> Result<(), String> {
    if known.iter().any(|tool| tool == name) {
        return Ok(());
    }
    let lower = name.to_ascii_lowercase();
    let is_close = |tool: &&str| {
        let likeness = strsim::normalized_damerau_levenshtein(&lower, &tool.to_ascii_lowercase());
        likeness >= LIKENESS_MIN
    };
    let names = known.iter().map(String::as_str).chain([ALL_TOOLS]);
    let close: Vec<&str> = names.filter(is_close).collect();
    Err(if close.is_empty() {
        format!("there is no tool {name:?}")
    } else {
        format!(
            "there is no tool {name:?}; did you mean {}?",
            close.join(" or ")
        )
    })
}
