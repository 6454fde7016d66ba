//! Rows that applications insert by SQL: appended to their conversations as if they had come over HTTP.
//!
//! A row is taken out of the queue by the transaction that appends it, so that it is appended once, whichever servers look
//! at the queue and whenever they end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tw_core::change::Change;
use tw_core::id::QueuedRowId;
use tw_core::json::shared::SharedText;
use tw_core::shape::Shape;
use tw_core::tenant::KeyScope;
use tw_core::turn_policy::RecordPolicy;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::system::queued::{QueuedRow, queued_rows};
use tw_wire::shapes::rows::read_rows;

use crate::auth::AuthenticateError;
use crate::conversation_items::{AddItemsError, hash_of_sent};
use crate::conversation_rows::{AppendRowsError, NAME_BYTES_MAX, RowsSent, is_conversation_name};
use crate::error_chain::ErrorChain;
use crate::runtime::{Runtime, RuntimeInner};

/// Time between two looks at the queue.
const LOOK: Duration = Duration::from_secs(1);
/// Rows that are read at once.
const ROWS_MAX: u32 = 100;
/// Time for which a refused row is kept for whoever looks for it.
pub(crate) const REFUSED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("reading the rows that were inserted")]
    Read(#[from] ReadError),
    #[error("refusing a row that was inserted")]
    Refuse(#[from] StoreApplyError),
}

/// The result of a try to append a row.
enum Tried {
    Appended,
    /// Not now: its conversation is busy, or the store is.
    Later,
    Refused(String),
}

pub(crate) async fn run(inner: Arc<RuntimeInner>) {
    let runtime = Runtime(inner);
    loop {
        tokio::select! {
            () = runtime.0.refusing.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Err(error) = runtime.append_queued_rows().await {
            tracing::warn!(error = %ErrorChain(&error), "appending inserted rows failed");
        }
    }
}

impl Runtime {
    /// Appends the rows that wait, each conversation's in the order in which they were inserted. Returns how many were
    /// appended.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn append_queued_rows(&self) -> Result<usize, QueueError> {
        let mut appended = 0;
        // What waits behind a row that waits waits, too.
        let mut waiting: BTreeSet<([u8; 32], String)> = BTreeSet::new();
        let mut after = QueuedRowId(0);
        while !self.0.refusing.is_cancelled() {
            let rows = queued_rows(self.store(), after, ROWS_MAX).await?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            for row in rows {
                let place = (row.api_key_hash, row.conversation.clone());
                if waiting.contains(&place) {
                    continue;
                }
                match self.append_queued_row(&row).await {
                    Tried::Appended => appended += 1,
                    Tried::Later => {
                        waiting.insert(place);
                    }
                    Tried::Refused(fault) => {
                        tracing::warn!(queued_row = row.id.0, "an inserted row was refused");
                        let refuse = Change::RefuseQueuedRow {
                            row: row.id,
                            fault,
                            at: self.env().now(),
                        };
                        self.store().apply(vec![refuse]).await?;
                    }
                }
            }
        }
        Ok(appended)
    }

    async fn append_queued_row(&self, row: &QueuedRow) -> Tried {
        let caller = match self.authenticate_hash(row.api_key_hash).await {
            Ok(caller) => caller,
            Err(error @ (AuthenticateError::Unknown | AuthenticateError::Expired)) => {
                return Tried::Refused(error.to_string());
            }
            Err(AuthenticateError::Read(_)) => return Tried::Later,
        };
        if !caller.may(KeyScope::Chat) {
            return Tried::Refused("the key has not the scope chat".to_owned());
        }
        if caller.record != RecordPolicy::Full {
            return Tried::Refused("the key keeps no contents".to_owned());
        }
        if !is_conversation_name(&row.conversation) {
            return Tried::Refused(format!(
                "a conversation's name is printable ASCII of at most {NAME_BYTES_MAX} bytes"
            ));
        }
        let Some(shape) = Shape::parse(&row.shape) else {
            return Tried::Refused(format!("{:?} is no shape", row.shape));
        };
        let body = SharedText::new(format!("{{\"rows\":[{}]}}", row.body));
        let read = match read_rows(shape, &body, self.request_limits()) {
            Ok(read) => read,
            Err(error) => return Tried::Refused(error.message),
        };
        // Another server may make the conversation at the same time; then it is there at the second look.
        let mut is_last = false;
        loop {
            let sent = RowsSent {
                caller: &caller,
                end_user: None,
                shape,
                rows: read.clone(),
                sent_hash: hash_of_sent(&body),
                is_repetition: false,
                queued: Some(row.id),
                request_id: self.env().random_id().simple().to_string(),
            };
            match self.append_rows(sent, &row.conversation).await {
                Ok(_) => return Tried::Appended,
                Err(AppendRowsError::Refused(error)) => return Tried::Refused(error.message),
                Err(AppendRowsError::NotSeen) if is_last => {
                    return Tried::Refused("the conversation is somebody else's".to_owned());
                }
                Err(AppendRowsError::NotSeen) => is_last = true,
                Err(AppendRowsError::NotAdded(AddItemsError::Busy | AddItemsError::Gone)) => {
                    return Tried::Later;
                }
                Err(error) => {
                    let error = ErrorChain(&error);
                    tracing::warn!(queued_row = row.id.0, error = %error, "appending an inserted row failed");
                    return Tried::Later;
                }
            }
        }
    }
}
