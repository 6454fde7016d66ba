//! Results of `read` tools, kept for a while and given again.
//!
//! They live in memory: losing them costs another request, no more.

use std::time::{Duration, Instant};

use moka::Expiry;
use moka::sync::Cache;
use sha2::{Digest, Sha256};
use tw_core::arguments::ValidArgs;
use tw_core::id::OrgId;
use tw_core::tool::{CacheScope, Tool, ToolKind, ToolOutput};
use tw_core::variables::Variables;

/// Results of all organizations, within one budget of bytes.
#[derive(Debug)]
pub(crate) struct ResultCache(Cache<ResultKey, Kept>);

/// Hash of a call and of those to whom its result may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResultKey([u8; 32]);

#[derive(Clone, Debug)]
struct Kept {
    output: ToolOutput,
    lifetime: Duration,
}

/// Bytes that an entry takes beside its text.
const ENTRY_BYTES: usize = 256;

impl ResultCache {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let cache = Cache::builder()
            .max_capacity(bytes_max)
            .weigher(|_, kept: &Kept| u32::try_from(kept.bytes()).unwrap_or(u32::MAX))
            .expire_after(OwnLifetime)
            .build();
        Self(cache)
    }

    /// The kept result of a call, if it still holds.
    ///
    /// What was selected of it stays so: its key says how it was selected, and from a text that
    /// was masked it could not be selected again.
    pub(crate) fn get(&self, key: ResultKey) -> Option<ToolOutput> {
        // A longer lifetime that the tool has been given since does not count, a shorter one does
        // with the next result.
        Some(self.0.get(&key)?.output)
    }

    pub(crate) fn put(&self, key: ResultKey, lifetime: Duration, output: ToolOutput) {
        self.0.insert(key, Kept { output, lifetime });
    }
}

impl ResultKey {
    /// The key of a call's result; `None` if it is not kept: the tool has no cache, or it is one
    /// for each end user and nobody is named.
    pub(crate) fn of(
        organization: OrgId,
        tool: &Tool,
        args: &ValidArgs,
        variables: &Variables,
    ) -> Option<Self> {
        let rules = tool.policy.cache?;
        let ToolKind::ApiRequest(definition) = &tool.kind else {
            return None;
        };
        let version = tool.version?;
        let whose = match rules.scope {
            CacheScope::Tool => format!("tool {}", version.key.0),
            CacheScope::User => format!("user {}", variables.get("end_user")?),
            CacheScope::Organization => "organization".to_owned(),
        };
        let identity = definition.identity(args, variables).ok()?;
        let mut hash = Sha256::new();
        hash.update(organization.0.to_le_bytes());
        for text in [whose.as_str(), &version.tool.to_string(), &identity] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        Some(Self(hash.finalize().into()))
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        let text = match &self.output {
            ToolOutput::Text { text, selected, .. } => {
                text.len() + selected.as_ref().map_or(0, |selected| selected.text.len())
            }
            ToolOutput::Opaque {
                content_type,
                sha256,
                ..
            } => content_type.len() + sha256.len(),
        };
        text.saturating_add(ENTRY_BYTES)
    }
}

/// Expiry of entries: each lives as long as its tool says.
#[derive(Debug)]
struct OwnLifetime;

impl Expiry<ResultKey, Kept> for OwnLifetime {
    fn expire_after_create(&self, _: &ResultKey, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.lifetime)
    }

    fn expire_after_update(
        &self,
        _: &ResultKey,
        kept: &Kept,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(kept.lifetime)
    }
}

#[cfg(test)]
mod tests;
