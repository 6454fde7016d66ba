//! Organizations and keys: who may ask, and who asks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tw_core::change::{
    Change, KeyMemory, NewApiKey, NewOrganization, Outcome, Record, Scope, ToolGrant, ToolsMode,
};
use tw_core::id::{ApiKeyId, ApiKeyUuid, OrgId};
use tw_core::rate::Limits;
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_store::apply::ApplyError;
use tw_store::read::ReadError;
use tw_store::read::api_keys::ListedApiKey;
use tw_store::store::Store;
use tw_store::system::{self, ApiKeyRow};

use crate::chain::Chain;
use crate::runtime::Runtime;

/// Who asks, as resolved from a key.
#[derive(Clone, Debug)]
pub struct Caller {
    pub organization: OrgId,
    /// The organization's slug.
    pub organization_slug: Arc<str>,
    pub api_key: ApiKeyId,
    pub scopes: Vec<Scope>,
    pub tools: ToolGrant,
    /// Where a request does not say.
    pub tools_mode: ToolsMode,
    pub record: Record,
    /// The key's own.
    pub limits: Limits,
    pub memory: KeyMemory,
    pub expires: Option<Timestamp>,
}

impl Caller {
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// Why a key is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticateError {
    #[error("no such key")]
    Unknown,
    #[error("the key has expired")]
    Expired,
    #[error("looking up a key")]
    Read(#[from] ReadError),
}

/// A key's last use is noted at most this often.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);
/// Longer texts are no keys of ours and are not hashed.
const KEY_BYTES_MAX: usize = 256;
const KEY_PREFIX: &str = "tw-";
const KEY_SHOWN_BYTES: usize = 8;

impl Runtime {
    /// Resolves a key.
    ///
    /// # Errors
    /// [`AuthenticateError`]; an unknown key and one of a deleted organization look the same.
    pub async fn authenticate(&self, key: &str) -> Result<Caller, AuthenticateError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(AuthenticateError::Unknown);
        }
        let found = self.find_key(hash(key)).await?;
        let now = self.env().now();
        if found.expires.is_some_and(|expires| expires <= now) {
            return Err(AuthenticateError::Expired);
        }
        if found
            .last_used
            .is_none_or(|used| now.since(used) >= TOUCH_INTERVAL)
        {
            let used = ApiKeyRow {
                last_used: Some(now),
                ..(*found).clone()
            };
            self.0.keys.put(hash(key), Arc::new(used), now);
            self.touch(found.id, now);
        }
        Ok(Caller {
            organization: found.organization,
            organization_slug: found.organization_slug.as_str().into(),
            api_key: found.id,
            scopes: found.scopes.clone(),
            tools: found.tools.clone(),
            tools_mode: found.tools_mode,
            record: found.record,
            limits: found.limits,
            memory: found.memory,
            expires: found.expires,
        })
    }

    /// Looks a key up, or takes what was found within the last second.
    async fn find_key(&self, hash: [u8; 32]) -> Result<Arc<ApiKeyRow>, AuthenticateError> {
        let now = self.env().now();
        if let Some(known) = self.0.keys.get(hash, now) {
            return Ok(known);
        }
        let found = system::api_key_by_hash(self.store(), hash)
            .await?
            .ok_or(AuthenticateError::Unknown)?;
        let found = Arc::new(found);
        self.0.keys.put(hash, Arc::clone(&found), now);
        Ok(found)
    }

    /// Nobody waits for this note, and losing it loses nothing.
    fn touch(&self, key: ApiKeyId, at: Timestamp) {
        let store = self.store().clone();
        self.0.tasks.spawn(async move {
            if let Err(error) = store
                .apply(vec![Change::TouchApiKey { key, at }], None)
                .await
            {
                tracing::warn!(error = %Chain(&error), "noting a key's use failed");
            }
        });
    }
}

/// Keys that were looked up just now, so that a busy key does not cost a read for each request.
///
/// Only keys that exist are kept, so a new key works at once; a deleted one stops within
/// [`KEY_KNOWN`].
#[derive(Debug, Default)]
pub(crate) struct KnownKeys(Mutex<BTreeMap<[u8; 32], KnownKey>>);

/// When it was looked up, and what was found.
type KnownKey = (Timestamp, Arc<ApiKeyRow>);

const KEY_KNOWN: Duration = Duration::from_secs(1);
const KEYS_KNOWN_MAX: usize = 10_000;

impl KnownKeys {
    fn get(&self, hash: [u8; 32], now: Timestamp) -> Option<Arc<ApiKeyRow>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, row) = known.get(&hash)?;
        (now >= *since && now.since(*since) < KEY_KNOWN).then(|| Arc::clone(row))
    }

    fn put(&self, hash: [u8; 32], row: Arc<ApiKeyRow>, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEYS_KNOWN_MAX {
            known.clear();
        }
        known.insert(hash, (now, row));
    }
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct KeyWanted {
    pub organization: String,
    pub name: String,
    pub scopes: Vec<Scope>,
    pub tools: ToolGrant,
    pub tools_mode: ToolsMode,
    pub record: Record,
    pub memory: KeyMemory,
    pub limits: Limits,
    pub expires: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateKeyError {
    #[error("making its organization")]
    Organization(#[from] CreateOrganizationError),
    #[error("writing the key")]
    Write(#[from] ApplyError),
}

#[derive(Debug, thiserror::Error)]
pub enum CreateOrganizationError {
    #[error("reading organizations")]
    Read(#[from] ReadError),
    #[error("writing the organization")]
    Write(#[from] ApplyError),
    #[error("the store did not say which row it made")]
    NoRow,
}

/// Makes a key, and its organization if it is the first one, and returns the key's text, which
/// is stored nowhere.
///
/// # Errors
/// When the store fails.
pub async fn create_key(
    store: &Store,
    env: &Env,
    wanted: KeyWanted,
) -> Result<String, CreateKeyError> {
    let organization = organization(store, env, &wanted.organization).await?;
    let (key, new) = new_key(env, organization, wanted, None);
    store.apply(vec![Change::CreateApiKey(new)], None).await?;
    Ok(key)
}

/// The text of a new key, and what is stored of it.
pub(crate) fn new_key(
    env: &Env,
    organization: OrgId,
    wanted: KeyWanted,
    created_by: Option<ApiKeyId>,
) -> (String, NewApiKey) {
    let mut random = [0; 32];
    env.fill(&mut random);
    let key = format!(
        "{KEY_PREFIX}{}",
        random
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    );
    let new = NewApiKey {
        organization,
        uuid: ApiKeyUuid(env.ordered_id()),
        created_by,
        name: wanted.name,
        hash: hash(&key),
        shown: key.chars().take(KEY_SHOWN_BYTES).collect(),
        scopes: wanted.scopes,
        tools: wanted.tools,
        tools_mode: wanted.tools_mode,
        record: wanted.record,
        memory: wanted.memory,
        limits: wanted.limits,
        expires: wanted.expires,
        at: env.now(),
    };
    (key, new)
}

#[derive(Debug, thiserror::Error)]
pub enum RevokeKeyError {
    #[error("looking for the key")]
    Read(#[from] ReadError),
    #[error("writing that the key has ended")]
    Write(#[from] ApplyError),
    #[error("no key begins with that")]
    Unknown,
    #[error("{0} keys begin with that; give the whole key")]
    Several(usize),
    #[error("the key has ended already")]
    Ended,
}

/// Ends a key, given whole or as it is listed, and returns what is known of it. A server that runs accepts it for
/// another two seconds at most.
///
/// # Errors
/// [`RevokeKeyError`]; unless it is of a write, nothing was changed.
pub async fn revoke_key(
    store: &Store,
    env: &Env,
    given: &str,
) -> Result<ListedApiKey, RevokeKeyError> {
    let now = env.now();
    let whole = system::api_key_by_hash(store, hash(given)).await?;
    let mut found = system::api_keys(store).await?;
    match whole {
        Some(whole) => found.retain(|key| key.id == whole.id),
        None => found.retain(|key| key.shown == given),
    }
    let had_any = !found.is_empty();
    found.retain(|key| !key.has_ended(now));
    let key = match found.len() {
        0 if had_any => return Err(RevokeKeyError::Ended),
        0 => return Err(RevokeKeyError::Unknown),
        1 => found.remove(0),
        several => return Err(RevokeKeyError::Several(several)),
    };
    let change = Change::ExpireApiKey {
        key: key.id,
        at: now,
    };
    store.apply(vec![change], None).await?;
    Ok(key)
}

/// The organization with this slug, which is made if there is none.
///
/// # Errors
/// When the store fails.
pub async fn organization(
    store: &Store,
    env: &Env,
    slug: &str,
) -> Result<OrgId, CreateOrganizationError> {
    if let Some(known) = system::organization_by_slug(store, slug).await? {
        return Ok(known);
    }
    let organization = NewOrganization {
        slug: slug.to_owned(),
        name: slug.to_owned(),
        at: env.now(),
    };
    let outcomes = store
        .apply(vec![Change::CreateOrganization(organization)], None)
        .await?;
    if let Some(Outcome::Organization(id)) = outcomes.first() {
        Ok(*id)
    } else {
        Err(CreateOrganizationError::NoRow)
    }
}

pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
