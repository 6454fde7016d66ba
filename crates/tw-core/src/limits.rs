//! The limits of a turn and their defaults.
//!
//! The defaults are section 12 of the design; each is a config field.

use std::time::Duration;

pub const ROUNDS_DEFAULT: u32 = 16;
pub const CALLS_PER_ROUND_DEFAULT: u32 = 16;
pub const CALLS_PER_TURN_DEFAULT: u32 = 64;
pub const CALLS_PARALLEL_DEFAULT: u32 = 8;
pub const ARGUMENT_BYTES_DEFAULT: usize = 64 * 1024;
pub const RESULT_KEPT_BYTES_DEFAULT: usize = 1024 * 1024;
pub const RESULT_SHOWN_BYTES_DEFAULT: usize = 16 * 1024;
pub const BODY_BYTES_DEFAULT: usize = 32 * 1024 * 1024;
pub const JSON_DEPTH_DEFAULT: usize = 64;
pub const MESSAGES_DEFAULT: usize = 4096;
/// Longest result that a client brings, in bytes; it may hold images, which are some MiB each.
pub const CLIENT_RESULT_BYTES_DEFAULT: usize = 8 * 1024 * 1024;
pub const TOOLS_DEFAULT: usize = 128;
/// Function schemas and descriptions of all tools of ours that one request is offered, in bytes.
///
/// They go to the model with each round; more than this no model reads.
pub const OFFERED_BYTES_MAX: usize = 1024 * 1024;
/// The text of one definition, in bytes; one schema in it may have a quarter of that.
pub const DEFINITION_BYTES_MAX: usize = 256 * 1024;
/// Values in the JSON of one definition, at all depths: each takes many times its text in memory.
pub const DEFINITION_VALUES_MAX: usize = 10_000;
/// Definitions of all tools of an organization, in their newest versions, in bytes.
pub const DEFINITIONS_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const SCHEMA_BYTES_DEFAULT: usize = 64 * 1024;
pub const SCHEMA_DEPTH_DEFAULT: usize = 32;
/// Largest compiled `pattern` of a schema, in bytes of memory.
pub const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Longest URL that a tool calls, in bytes; servers refuse much longer ones anyway.
pub const URL_BYTES_MAX: usize = 2048;
/// Timeout of one attempt of a tool.
pub const TOOL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Longest timeout that an inline tool may set.
pub const TOOL_TIMEOUT_MAX: Duration = Duration::from_secs(60);
pub const TOOL_ATTEMPTS_DEFAULT: u32 = 3;
pub const TOOL_BACKOFF_DEFAULT: Duration = Duration::from_millis(200);
pub const TOOL_BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Doublings of a backoff beyond which its cap holds anyway.
pub const BACKOFF_DOUBLINGS_MAX: u32 = 16;
pub const TOOL_CONCURRENCY_DEFAULT: u32 = 64;
pub const TURN_STREAMED_DEFAULT: Duration = Duration::from_secs(30 * 60);
/// Longest turn whose answer is not streamed: under the ten minutes after which the official
/// clients give up.
pub const TURN_PLAIN_DEFAULT: Duration = Duration::from_secs(9 * 60);
/// Time in which the approval of a call may be given.
pub const APPROVAL_DEFAULT: Duration = Duration::from_secs(24 * 60 * 60);
/// Time for which a turn whose client waits for the answer waits for a callback.
pub const CALLBACK_WAIT_DEFAULT: Duration = Duration::from_secs(60);
/// Time in which a callback must end its call, unless the tool says otherwise.
pub const CALLBACK_DEADLINE_DEFAULT: Duration = Duration::from_secs(60 * 60);
/// Longest id of a job that is kept, in bytes.
pub const EXTERNAL_ID_BYTES_MAX: usize = 512;
/// Attempts of one round's model request, over all upstreams.
pub const MODEL_ATTEMPTS_DEFAULT: u32 = 3;
pub const MODEL_BACKOFF_DEFAULT: Duration = Duration::from_millis(500);
/// Longest `Retry-After` of an upstream that is waited for.
pub const RETRY_AFTER_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// Calls of one choice of an answer; an upstream that sends more is out of order.
pub const CALLS_PER_CHOICE_MAX: u32 = 1024;
/// Longest answer of a model, in bytes; a longer one ends the turn by length.
pub const ANSWER_BYTES_DEFAULT: usize = 16 * 1024 * 1024;
/// Invalid calls of one tool in a turn after which it is no longer offered.
pub const INVALID_CALLS_OF_A_TOOL_MAX: u32 = 3;

/// Limits of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    pub rounds_max: u32,
    pub calls_per_round_max: u32,
    pub calls_per_turn_max: u32,
    pub calls_parallel_max: u32,
    pub argument_bytes_max: usize,
    pub answer_bytes_max: usize,
    pub result_kept_bytes_max: usize,
    pub model_attempts_max: u32,
    pub model_backoff: Duration,
    pub retry_after_max: Duration,
    pub streamed_max: Duration,
    pub plain_max: Duration,
    /// Time in which the approval of a call may be given.
    pub approval_max: Duration,
    /// Time for which a turn whose client waits for the answer waits for a callback.
    pub callback_wait_max: Duration,
}

impl TurnLimits {
    pub fn defaults() -> Self {
        Self {
            rounds_max: ROUNDS_DEFAULT,
            calls_per_round_max: CALLS_PER_ROUND_DEFAULT,
            calls_per_turn_max: CALLS_PER_TURN_DEFAULT,
            calls_parallel_max: CALLS_PARALLEL_DEFAULT,
            argument_bytes_max: ARGUMENT_BYTES_DEFAULT,
            answer_bytes_max: ANSWER_BYTES_DEFAULT,
            result_kept_bytes_max: RESULT_KEPT_BYTES_DEFAULT,
            model_attempts_max: MODEL_ATTEMPTS_DEFAULT,
            model_backoff: MODEL_BACKOFF_DEFAULT,
            retry_after_max: RETRY_AFTER_MAX_DEFAULT,
            streamed_max: TURN_STREAMED_DEFAULT,
            plain_max: TURN_PLAIN_DEFAULT,
            approval_max: APPROVAL_DEFAULT,
            callback_wait_max: CALLBACK_WAIT_DEFAULT,
        }
    }
}

/// Limits of a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    pub body_bytes_max: usize,
    pub json_depth_max: usize,
    pub messages_max: usize,
    pub client_result_bytes_max: usize,
    pub tools_max: usize,
    pub schema_bytes_max: usize,
    pub schema_depth_max: usize,
}

impl RequestLimits {
    pub fn defaults() -> Self {
        Self {
            body_bytes_max: BODY_BYTES_DEFAULT,
            json_depth_max: JSON_DEPTH_DEFAULT,
            messages_max: MESSAGES_DEFAULT,
            client_result_bytes_max: CLIENT_RESULT_BYTES_DEFAULT,
            tools_max: TOOLS_DEFAULT,
            schema_bytes_max: SCHEMA_BYTES_DEFAULT,
            schema_depth_max: SCHEMA_DEPTH_DEFAULT,
        }
    }
}
