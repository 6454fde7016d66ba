//! What a request says of how its turn is to be kept and ended.

use std::time::Duration;

/// How long a turn's contents are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPolicy {
    /// Until retention.
    Full,
    /// Until shortly after the turn ended.
    Minimal,
}

/// After this a minimal turn's contents are erased (design, section 5).
pub const MINIMAL_KEPT: Duration = Duration::from_secs(600);

/// The same for a turn that handed calls over and holds results of its own for the client's
/// answer.
pub const HELD_KEPT: Duration = Duration::from_secs(3600);

/// What happens to a turn whose client closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLeave {
    Stop,
    Finish,
}

/// Which API a turn came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    ChatCompletions,
}
