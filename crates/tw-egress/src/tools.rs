//! Running one attempt of a tool call.

use tw_core::arguments::ValidArgs;
use tw_core::id::CallId;
use tw_core::limits;
use tw_core::time::Timestamp;
use tw_core::tool::{LookUp, Tool, ToolKind, ToolOutcome, ToolOutput};

use crate::builtin;
use crate::probe::Prober;

/// What an attempt needs beside the tool.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub call: CallId,
    pub args: ValidArgs,
    /// Stable over attempts.
    pub idempotency_key: String,
    pub now: Timestamp,
}

/// Runs the tool. The caller holds its timeout and catches panics.
pub async fn run(prober: &Prober, tool: &Tool, attempt: &Attempt) -> ToolOutcome {
    match &tool.kind {
        ToolKind::TimeNow => of_builtin(builtin::time_now(
            &attempt.args.json().to_value(),
            attempt.now.0,
        )),
        ToolKind::Calculate => of_builtin(builtin::calculate(&attempt.args.json().to_value())),
        ToolKind::Probe(probe) => prober.send(probe, tool.policy.effect, attempt).await,
    }
}

/// Asks the provider whether an attempt happened.
pub async fn look_up(prober: &Prober, tool: &Tool, attempt: &Attempt) -> LookUp {
    match &tool.kind {
        // These change nothing, so there is nothing to be found.
        ToolKind::TimeNow | ToolKind::Calculate => LookUp::Absent,
        ToolKind::Probe(probe) => prober.look_up(probe, attempt).await,
    }
}

fn of_builtin(result: Result<String, String>) -> ToolOutcome {
    match result {
        Ok(text) => {
            let cut = text.len() > limits::RESULT_KEPT_BYTES_DEFAULT;
            ToolOutcome::Answered(ToolOutput::Text { text, cut })
        }
        Err(message) => ToolOutcome::Refused { message },
    }
}
