//! The longest time of a tool's attempt.

use std::time::Duration;

use tw_core::tool::{Tool, ToolKind};

/// Time beyond the timeout of a tool that keeps its own: it knows better whether anything was sent,
/// so it gets to say so.
const OWN_TIMEOUT_GRACE: Duration = Duration::from_millis(500);

/// Longest time that one attempt of a tool is waited for.
pub(crate) fn longest(tool: &Tool) -> Duration {
    match tool.kind {
        ToolKind::ApiRequest(_) => tool.policy.timeout.saturating_add(OWN_TIMEOUT_GRACE),
        ToolKind::TimeNow | ToolKind::Calculate | ToolKind::Probe(_) => tool.policy.timeout,
    }
}
