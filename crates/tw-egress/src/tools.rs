//! Running one attempt of a tool call.

use std::sync::Arc;

use tw_core::arguments::ValidArgs;
use tw_core::id::CallId;
use tw_core::limits;
use tw_core::time::Timestamp;
use tw_core::tool::{LookUp, Tool, ToolKind, ToolOutcome, ToolOutput};
use tw_core::variables::Variables;
use tw_wire::trace_context::TraceContext;

use crate::api_request::ApiCaller;
use crate::builtin;
use crate::client::failure::SendFailure;
use crate::exchange::failed;
use crate::off_thread::aside;
use crate::probe::Prober;
use crate::secrets::Tenancy;

/// Runs tools of every kind.
///
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolExecutors {
    pub prober: Prober,
    pub api: ApiCaller,
}

/// Inputs of an attempt beside the tool.
#[derive(Clone, Debug)]
pub struct AttemptContext {
    pub call: CallId,
    pub args: ValidArgs,
    /// Key that is the same in every attempt of the call.
    pub idempotency_key: String,
    pub now: Timestamp,
    /// Slug of the organization whose turn this is.
    pub organization: Arc<str>,
    pub tenancy: Tenancy,
    /// Variables that the tool's definition may name.
    pub variables: Arc<Variables>,
    /// The span of the attempt, for the tool's part of the trace.
    pub trace: Option<TraceContext>,
}

/// Bytes of the arguments of `calculate` up to which it takes well under a millisecond; long powers and fractions may
/// take 20 times as long.
const SHORT_EXPRESSION_BYTES_MAX: usize = 100;
/// End of an attempt.
#[derive(Debug)]
pub struct AttemptReport {
    pub outcome: ToolOutcome,
    /// HTTP status of the answer, if one came and the tool speaks HTTP.
    pub http_status: Option<u16>,
    /// Reason for which no answer came, for the operator's log alone: it names hosts and addresses.
    pub cause: Option<String>,
}

/// Finding of a look-up.
#[derive(Debug)]
pub struct LookUpReport {
    pub found: LookUp,
    /// As [`AttemptReport::cause`].
    pub cause: Option<String>,
}

impl AttemptReport {
    pub(crate) fn answered(status: u16, outcome: ToolOutcome) -> Self {
        Self {
            outcome,
            http_status: Some(status),
            cause: None,
        }
    }

    pub(crate) fn unanswered(failure: SendFailure) -> Self {
        Self {
            outcome: failed(&failure),
            http_status: None,
            cause: Some(failure.cause),
        }
    }
}

impl From<ToolOutcome> for AttemptReport {
    fn from(outcome: ToolOutcome) -> Self {
        Self {
            outcome,
            http_status: None,
            cause: None,
        }
    }
}

impl LookUpReport {
    pub(crate) fn unanswered(failure: SendFailure) -> Self {
        Self {
            found: LookUp::Unknown,
            cause: Some(failure.cause),
        }
    }
}

impl From<LookUp> for LookUpReport {
    fn from(found: LookUp) -> Self {
        Self { found, cause: None }
    }
}

/// Runs the tool. The caller holds its timeout and catches panics.
///
/// An `api_request` holds its timeout by itself, too, and should get to do so: only the client
/// knows whether anything was sent by then.
pub async fn run(
    executors: &ToolExecutors,
    tool: &Tool,
    attempt: &AttemptContext,
) -> AttemptReport {
    match &tool.kind {
        ToolKind::TimeNow => of_builtin(builtin::time_now(
            &attempt.args.json().to_value(),
            attempt.now.0,
        ))
        .into(),
        ToolKind::Calculate => {
            let arguments = attempt.args.json();
            let is_long = arguments.as_str().len() > SHORT_EXPRESSION_BYTES_MAX;
            let calculated = aside(is_long, || builtin::calculate(&arguments.to_value()));
            of_builtin(calculated).into()
        }
        ToolKind::ApiRequest(definition) => executors.api.send(definition, attempt).await,
        ToolKind::Probe(probe) => {
            let prober = &executors.prober;
            prober.send(probe, tool.policy.effect, attempt).await
        }
    }
}

/// Asks the provider whether an attempt happened. The caller holds the tool's timeout.
pub async fn look_up(
    executors: &ToolExecutors,
    tool: &Tool,
    attempt: &AttemptContext,
) -> LookUpReport {
    match &tool.kind {
        // These change nothing, so there is nothing to be found.
        ToolKind::TimeNow | ToolKind::Calculate => LookUp::Absent.into(),
        ToolKind::ApiRequest(definition) => executors.api.look_up(definition, attempt).await,
        ToolKind::Probe(probe) => executors.prober.look_up(probe, attempt).await,
    }
}

fn of_builtin(result: Result<String, String>) -> ToolOutcome {
    match result {
        Ok(text) => {
            let cut = text.len() > limits::RESULT_KEPT_BYTES_DEFAULT;
            ToolOutcome::Answered(ToolOutput::Text {
                text,
                cut,
                selected: None,
            })
        }
        Err(message) => ToolOutcome::Refused { message },
    }
}
