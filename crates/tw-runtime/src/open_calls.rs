//! Calls that wait for somebody outside: what an operator sees of them, and may do.

use std::time::Duration;

use tw_core::call::{CallEnd, CallReason, CallRunner};
use tw_core::change::{Change, CompleteCall, Outcome};
use tw_core::id::{CallId, OrgId};
use tw_core::job::JobChange;
use tw_core::limits::{RESULT_KEPT_BYTES_DEFAULT, RESULT_SHOWN_BYTES_DEFAULT};
use tw_core::tool::ToolOutput;
use tw_egress::env::Env;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::read::open_calls::{OpenCallRow, OpenCallsPage, OpenCallsWanted};
use tw_store::store::Store;

use crate::auth::Principal;
use crate::runtime::Runtime;

/// Polls in a row of which nothing came, after which a call counts as stuck before its deadline.
pub const STUCK_FAULTS: u32 = 3;
/// Age after which a call of an application counts as stuck, which has no deadline.
pub const STUCK_OUTSIDE: Duration = Duration::from_secs(3600);
/// Longest text of why a call was failed by hand, in bytes.
pub const WHY_BYTES_MAX: usize = 2_000;

/// Which open calls are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenCallsListed {
    Stuck,
    All,
}

/// What an operator does with an open call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenCallDeed {
    /// Its job is asked about at once.
    Poll,
    Fail {
        why: String,
    },
    Complete {
        result: String,
    },
}

/// Reasons for which a deed is not done.
#[derive(Debug, thiserror::Error)]
pub enum OpenCallError {
    #[error("no such call is open")]
    NotOpen,
    #[error(
        "nobody can be asked about this call: its tool has no poll, or the id of its job is not known"
    )]
    NotPolled,
    #[error("this call is an application's own, which brings its end with the conversation's rows")]
    Outside,
    #[error("the text must have 1 to {0} bytes")]
    Text(usize),
    #[error("reading open calls")]
    Read(#[from] ReadError),
    #[error("writing the end of a call")]
    Write(#[from] StoreApplyError),
}

/// Open calls of one organization, on this database.
#[derive(Clone, Copy, Debug)]
pub struct OpenCallAdmin<'a> {
    pub store: &'a Store,
    pub env: &'a Env,
    pub organization: OrgId,
    /// `None` beside the server: turns that wait find their call's end in the record.
    pub runtime: Option<&'a Runtime>,
}

impl Runtime {
    /// The open calls of a caller's organization.
    pub fn open_calls<'a>(&'a self, caller: &Principal) -> OpenCallAdmin<'a> {
        OpenCallAdmin {
            store: self.store(),
            env: self.env(),
            organization: caller.organization,
            runtime: Some(self),
        }
    }
}

impl OpenCallAdmin<'_> {
    /// The oldest first.
    ///
    /// # Errors
    /// [`OpenCallError::Read`].
    pub async fn list(
        &self,
        listed: OpenCallsListed,
        after: Option<CallId>,
        calls_max: usize,
    ) -> Result<OpenCallsPage, OpenCallError> {
        let now = self.env.now();
        let wanted = match listed {
            OpenCallsListed::All => OpenCallsWanted::All,
            OpenCallsListed::Stuck => OpenCallsWanted::Stuck {
                now,
                faults_min: STUCK_FAULTS,
                outside_before: now.before(STUCK_OUTSIDE),
            },
        };
        let page = self
            .store
            .open_calls(self.organization, wanted, after, calls_max);
        Ok(page.await?)
    }

    /// Does it; what it changes is durable then.
    ///
    /// # Errors
    /// [`OpenCallError`].
    pub async fn act(
        &self,
        call: CallId,
        deed: OpenCallDeed,
    ) -> Result<OpenCallRow, OpenCallError> {
        let found = self.store.open_call(self.organization, call).await?;
        let found = found.ok_or(OpenCallError::NotOpen)?;
        if found.runs == CallRunner::Outside {
            return Err(OpenCallError::Outside);
        }
        let end = match deed {
            OpenCallDeed::Poll => {
                self.poll(&found).await?;
                return Ok(found);
            }
            OpenCallDeed::Fail { why } => {
                check(&why, WHY_BYTES_MAX)?;
                CallEnd {
                    reason: Some(CallReason::ToolError),
                    result: None,
                    shown: format!("The job was ended by hand: {why}"),
                    is_error: true,
                    cached: false,
                }
            }
            OpenCallDeed::Complete { result } => {
                check(&result, RESULT_KEPT_BYTES_DEFAULT)?;
                let output = ToolOutput::Text {
                    text: result,
                    cut: false,
                    selected: None,
                };
                output.end(RESULT_SHOWN_BYTES_DEFAULT, RESULT_KEPT_BYTES_DEFAULT)
            }
        };
        self.end(&found, end).await?;
        Ok(found)
    }

    async fn poll(&self, found: &OpenCallRow) -> Result<(), OpenCallError> {
        if found.job.is_none() {
            return Err(OpenCallError::NotPolled);
        }
        let ask = JobChange::AskNow {
            organization: self.organization,
            call: found.id,
            at: self.env.now(),
        };
        let outcomes = self.store.apply(vec![ask.into()]).await?;
        if outcomes.first() != Some(&Outcome::Done) {
            return Err(OpenCallError::NotOpen);
        }
        if let Some(runtime) = self.runtime {
            runtime.0.jobs_due.notify_one();
        }
        Ok(())
    }

    async fn end(&self, found: &OpenCallRow, end: CallEnd) -> Result<(), OpenCallError> {
        let complete = CompleteCall {
            organization: self.organization,
            call: found.id,
            end: end.clone(),
            at: self.env.now(),
        };
        let change = Change::CompleteCall(Box::new(complete));
        let outcomes = self.store.apply(vec![change]).await?;
        if outcomes.first() != Some(&Outcome::Done) {
            // A callback or a poll came first.
            return Err(OpenCallError::NotOpen);
        }
        let live = self.runtime.and_then(|of| of.0.live.get(found.turn));
        if let Some(live) = live {
            live.call_ended(found.call, end);
        }
        Ok(())
    }
}

fn check(text: &str, bytes_max: usize) -> Result<(), OpenCallError> {
    if (1..=bytes_max).contains(&text.len()) {
        Ok(())
    } else {
        Err(OpenCallError::Text(bytes_max))
    }
}
