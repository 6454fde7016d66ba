//! Organizations and their keys, made and ended by the operator.

use tw_core::change::{Change, NewApiKey, NewOrganization, Outcome};
use tw_core::id::{ApiKeyId, ApiKeyUuid, OrgId};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::read::api_keys::ListedApiKey;
use tw_store::store::Store;
use tw_store::system;

use crate::auth::hash;

const KEY_PREFIX: &str = "tw-";
const KEY_SHOWN_BYTES: usize = 8;

/// A key to be made.
#[derive(Clone, Debug)]
pub struct KeyWanted {
    pub organization: String,
    pub name: String,
    pub scopes: Vec<KeyScope>,
    pub tools: ToolGrant,
    pub tools_mode: ToolsMode,
    pub record: RecordPolicy,
    pub memory: KeyMemory,
    pub limits: RateLimits,
    pub expires: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateKeyError {
    #[error("making its organization")]
    Organization(#[from] CreateOrganizationError),
    #[error("writing the key")]
    Write(#[from] StoreApplyError),
}

#[derive(Debug, thiserror::Error)]
pub enum CreateOrganizationError {
    #[error("reading organizations")]
    Read(#[from] ReadError),
    #[error("writing the organization")]
    Write(#[from] StoreApplyError),
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
    store.apply(vec![Change::CreateApiKey(new)]).await?;
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
    Write(#[from] StoreApplyError),
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
    let key = key_given(store, env, given).await?;
    let change = Change::ExpireApiKey {
        key: key.id,
        at: now,
    };
    store.apply(vec![change]).await?;
    Ok(key)
}

/// The key that is given whole or as it is listed, if it has not ended.
///
/// # Errors
/// [`RevokeKeyError`].
pub async fn key_given(
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
    match found.len() {
        0 if had_any => Err(RevokeKeyError::Ended),
        0 => Err(RevokeKeyError::Unknown),
        1 => Ok(found.remove(0)),
        several => Err(RevokeKeyError::Several(several)),
    }
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
        .apply(vec![Change::CreateOrganization(organization)])
        .await?;
    if let Some(Outcome::Organization(id)) = outcomes.first() {
        Ok(*id)
    } else {
        Err(CreateOrganizationError::NoRow)
    }
}
