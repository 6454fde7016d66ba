//! Principals: the organizations and keys on whose behalf requests come, found by the key of each request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tw_core::change::Change;
use tw_core::id::{ApiKeyId, OrgId};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_store::read::ReadError;
use tw_store::system::{self, ApiKeyRow};

use crate::error_chain::ErrorChain;
use crate::runtime::Runtime;

/// The organization and key of a request, with what the key may do.
#[derive(Clone, Debug)]
pub struct Principal {
    pub organization: OrgId,
    /// The organization's slug.
    pub organization_slug: Arc<str>,
    pub api_key: ApiKeyId,
    /// The first characters of the key's text, as it is listed.
    pub key_shown: Arc<str>,
    pub scopes: Vec<KeyScope>,
    pub tools: ToolGrant,
    /// Mode of requests that name none.
    pub tools_mode: ToolsMode,
    pub record: RecordPolicy,
    /// Limits of the key itself.
    pub limits: RateLimits,
    pub memory: KeyMemory,
    pub expires: Option<Timestamp>,
}

impl Principal {
    pub fn may(&self, scope: KeyScope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&KeyScope::Admin)
    }
}

/// Reasons for which a key is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticateError {
    #[error("no such key")]
    Unknown,
    #[error("the key has expired")]
    Expired,
    #[error("looking up a key")]
    Read(#[from] ReadError),
}

/// Least time between two notes of a key's last use.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);
/// Longest text that is hashed, in bytes; longer ones are no keys of ours.
const KEY_BYTES_MAX: usize = 256;

impl Runtime {
    /// Resolves a key.
    ///
    /// # Errors
    /// [`AuthenticateError`]; an unknown key and one of a deleted organization look the same.
    pub async fn authenticate(&self, key: &str) -> Result<Principal, AuthenticateError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(AuthenticateError::Unknown);
        }
        self.authenticate_hash(hash(key)).await
    }

    /// Resolves a key by its hash.
    ///
    /// # Errors
    /// As [`Runtime::authenticate`].
    pub(crate) async fn authenticate_hash(
        &self,
        hash: [u8; 32],
    ) -> Result<Principal, AuthenticateError> {
        let found = self.find_key(hash).await?;
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
            self.0.keys.put(hash, Arc::new(used), now);
            self.touch(found.id, now);
        }
        Ok(Principal {
            organization: found.organization,
            organization_slug: found.organization_slug.as_str().into(),
            api_key: found.id,
            key_shown: found.shown.as_str().into(),
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

    /// Notes the last use of a key. Nobody waits for this note, and losing it loses nothing.
    fn touch(&self, key: ApiKeyId, at: Timestamp) {
        let store = self.store().clone();
        self.0.tasks.spawn(async move {
            if let Err(error) = store.apply(vec![Change::TouchApiKey { key, at }]).await {
                tracing::warn!(error = %ErrorChain(&error), "noting a key's use failed");
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

/// Time when a key was looked up, and its row.
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

/// The hash under which a key is stored.
pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
