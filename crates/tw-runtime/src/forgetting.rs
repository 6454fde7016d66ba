//! End users who are to be forgotten: their turns stop, nobody sees them any more, and what was said in them is erased.

use std::sync::Arc;

use tw_core::change::{Change, EraseEndUser, Outcome};
use tw_core::id::OrgId;
use tw_egress::env::Env;
use tw_store::apply::StoreApplyError;
use tw_store::store::Store;

use crate::auth::Principal;
use crate::retention::TURNS_PER_SWEEP_MAX;
use crate::runtime::{Runtime, RuntimeInner};

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Counts and costs stay under this name.
    As(String),
    /// Nobody has the name.
    NotFound,
}

/// Gives an end user another name and has their turns deleted from now on, by whichever server runs on the store.
///
/// # Errors
/// When the store fails; after `Unknown` it may be done.
pub async fn begin(
    store: &Store,
    env: &Env,
    organization: OrgId,
    name: &str,
) -> Result<Forgotten, StoreApplyError> {
    let pseudonym = format!("erased-{}", env.random_id().simple());
    let erase = Change::EraseEndUser(EraseEndUser {
        organization,
        name: name.to_owned(),
        pseudonym: pseudonym.clone(),
        at: env.now(),
    });
    match store.apply(vec![erase]).await?.first() {
        Some(Outcome::Already) | None => Ok(Forgotten::NotFound),
        Some(_) => Ok(Forgotten::As(pseudonym)),
    }
}

/// Deletes the turns of all who are to be forgotten, and erases what is due, some at once; `running` hears of each turn
/// that is to be stopped.
///
/// # Errors
/// When the store fails; the rest is done the next time.
pub async fn go_on(
    store: &Store,
    env: &Env,
    mut running: impl FnMut(tw_core::id::TurnId),
) -> Result<(), StoreApplyError> {
    loop {
        let (at, turns_max) = (env.now(), TURNS_PER_SWEEP_MAX);
        let delete = Change::DeleteErased { at, turns_max };
        let erase = Change::EraseDue { now: at, turns_max };
        let outcomes = store.apply(vec![delete, erase]).await?;
        for outcome in &outcomes {
            if let Outcome::Deleted { running: found } = outcome {
                found.iter().copied().for_each(&mut running);
            }
        }
        if outcomes.first() == Some(&Outcome::Already) {
            return Ok(());
        }
    }
}

/// [`go_on`] for the turns that run here, too.
pub(crate) async fn delete_erased(inner: &Arc<RuntimeInner>) -> Result<(), StoreApplyError> {
    let runtime = Runtime(Arc::clone(inner));
    let stop = |turn| {
        runtime.cancel_live(turn);
    };
    go_on(&inner.store, &inner.env, stop).await
}

impl Runtime {
    /// Forgets an end user of the caller's organization. When this returns, nobody sees, attaches to, recalls or
    /// continues their turns; those that run are being stopped, and erased with their end.
    ///
    /// # Errors
    /// When the store fails. It may have begun then: the name is gone, and the rest is done by a later sweep.
    ///
    /// # Cancel safety
    /// A dropped call still forgets.
    pub async fn forget_end_user(
        &self,
        caller: &Principal,
        name: &str,
    ) -> Result<Forgotten, StoreApplyError> {
        let (inner, organization) = (Arc::clone(&self.0), caller.organization);
        let name = name.to_owned();
        let forgetting = async move {
            let begun = begin(&inner.store, &inner.env, organization, &name).await?;
            if begun != Forgotten::NotFound {
                delete_erased(&inner).await?;
            }
            Ok(begun)
        };
        let ended = self.0.tasks.spawn(forgetting).await;
        ended.unwrap_or(Err(StoreApplyError::Unknown { source: None }))
    }
}
