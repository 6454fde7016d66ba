//! The end of a conversation: its turns stop, and what was said in them is erased.

use std::time::Duration;

use futures_util::future::join_all;
use tw_core::change::{Change, DeleteConversation, Outcome};
use tw_core::id::{OrgId, TurnId};
use tw_core::tenant::TurnOwner;
use tw_store::apply::StoreApplyError;

use crate::auth::Principal;
use crate::error_chain::ErrorChain;
use crate::follow::Follower;
use crate::retention::TURNS_PER_SWEEP_MAX;
use crate::runtime::Runtime;

/// Longest wait for turns that were stopped. A call that must not be cut short may take longer;
/// what it leaves is erased by the next sweep after its end.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// Results of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Now,
    /// There is no turn that is meant.
    NotFound,
}

impl Runtime {
    /// Deletes the turns of a conversation that are meant. When this returns, nobody reads,
    /// attaches to, recalls or continues them; those that ran are stopped.
    ///
    /// # Errors
    /// When the store fails; after `Unknown` they may be deleted.
    ///
    /// # Cancel safety
    /// A dropped call still deletes and stops.
    pub async fn delete_conversation(
        &self,
        caller: &Principal,
        conversation: &str,
        whose: TurnOwner,
    ) -> Result<Deletion, StoreApplyError> {
        let delete = DeleteConversation {
            organization: caller.organization,
            conversation: conversation.to_owned(),
            whose,
            at: self.env().now(),
        };
        self.delete_all(caller.organization, Change::DeleteConversation(delete))
            .await
    }

    /// Deletes one turn, as [`Runtime::delete_conversation`] does with those of a conversation. What continues it by
    /// name can be continued no more.
    ///
    /// # Errors
    /// When the store fails; after `Unknown` it may be deleted.
    ///
    /// # Cancel safety
    /// A dropped call still deletes and stops.
    pub async fn delete_turn(
        &self,
        caller: &Principal,
        turn: TurnId,
    ) -> Result<Deletion, StoreApplyError> {
        let delete = Change::DeleteTurn {
            organization: caller.organization,
            turn,
            at: self.env().now(),
        };
        self.delete_all(caller.organization, delete).await
    }

    async fn delete_all(
        &self,
        organization: OrgId,
        change: Change,
    ) -> Result<Deletion, StoreApplyError> {
        let runtime = self.clone();
        // A task of its own, since a client that leaves must not keep turns from being stopped.
        let deleting = async move { runtime.delete(organization, change).await };
        let ended = self.0.tasks.spawn(deleting).await;
        ended.unwrap_or(Err(StoreApplyError::Unknown { source: None }))
    }

    async fn delete(
        &self,
        organization: OrgId,
        change: Change,
    ) -> Result<Deletion, StoreApplyError> {
        let outcomes = self.store().apply(vec![change]).await?;
        let Some(Outcome::Deleted { running }) = outcomes.into_iter().next() else {
            return Ok(Deletion::NotFound);
        };
        self.stop(organization, &running).await;
        self.erase_due().await;
        Ok(Deletion::Now)
    }

    /// Stops turns and waits for their ends. One that no driver of this process has is stopped by
    /// whoever takes it over.
    async fn stop(&self, organization: OrgId, turns: &[TurnId]) {
        let ends = turns.iter().map(|turn| async move {
            self.cancel_live(*turn);
            let follower = Follower::new(&self.0, organization, *turn);
            if let Err(error) = follower.wait_for_end().await {
                tracing::warn!(turn.id = %turn, error = %ErrorChain(&error), "waiting for a deleted turn failed");
            }
        });
        let all = tokio::time::timeout(STOPPED_WITHIN, join_all(ends));
        if all.await.is_err() {
            tracing::info!("a deleted turn has not ended yet");
        }
    }

    /// Erases what is due; the next sweep erases what is left over.
    async fn erase_due(&self) {
        let change = Change::EraseDue {
            now: self.env().now(),
            turns_max: TURNS_PER_SWEEP_MAX,
        };
        if let Err(error) = self.store().apply(vec![change]).await {
            tracing::warn!(error = %ErrorChain(&error), "erasing a deleted conversation failed");
        }
    }
}
