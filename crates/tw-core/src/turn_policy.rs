//! Settings of a request for how its turn is kept and ended.

use std::time::Duration;

/// The time for which a turn's contents are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPolicy {
    /// Until retention.
    Full,
    /// Until shortly after the turn ended.
    Minimal,
}

/// Time after its end when a minimal turn's contents are erased (design, section 5).
pub const MINIMAL_KEPT: Duration = Duration::from_secs(600);

/// The same time for a turn that handed calls over and holds results of its own for the client's
/// answer.
pub const HELD_KEPT: Duration = Duration::from_secs(3600);

/// The fate of a turn whose client closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLeave {
    Stop,
    Finish,
}

/// The API that a turn came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    ChatCompletions,
    Messages,
    Responses,
}
