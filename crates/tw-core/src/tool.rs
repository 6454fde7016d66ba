//! Tools: what may be called, and how a call of it may be treated.

use std::sync::Arc;
use std::time::Duration;

use crate::arguments::ArgumentsSchema;
use crate::call::CallEnd;
use crate::definition::ToolDefinition;
use crate::id::{ToolId, ToolVersionKey};
use crate::json::Json;
use crate::limits;

/// A tool of ours.
#[derive(Clone, Debug)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// The function schema that the model sees, in the order written.
    pub parameters: Json,
    /// The schema of the arguments, compiled.
    pub schema: ArgumentsSchema,
    pub policy: CallPolicy,
    pub kind: ToolKind,
    /// The version of a stored tool; `None` for a tool that comes with the program.
    pub version: Option<ToolVersion>,
}

/// A version of a stored tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolVersion {
    pub tool: ToolId,
    pub key: ToolVersionKey,
    /// The version's number, from 1.
    pub number: u32,
}

/// The kind of a tool, which says what runs when it is called.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolKind {
    /// The current time in a zone.
    TimeNow,
    /// Exact decimal arithmetic.
    Calculate,
    /// An HTTP request made from a definition.
    ApiRequest(Arc<ToolDefinition>),
    /// A probe, which sends its arguments to a listener and returns its answer. Debug builds only.
    Probe(StatusProbe),
}

/// The listener that a probe sends its arguments to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusProbe {
    /// `http://` on loopback.
    pub url: String,
    /// Panic instead of sending.
    pub panics: bool,
}

/// The rules by which calls of a tool are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPolicy {
    pub effect: EffectClass,
    /// Longest time of one attempt.
    pub timeout: Duration,
    /// At least 1.
    pub attempts_max: u32,
    /// Wait before the second attempt; doubles for each further one.
    pub backoff: Duration,
    /// Calls that may run at once, over all turns.
    pub concurrency_max: u32,
    /// Longest result given to the model, in bytes.
    pub shown_bytes_max: usize,
    /// Rules by which results are kept and given again; of `read` tools only.
    pub cache: Option<CacheRules>,
    /// Calls run only once somebody has approved them.
    pub requires_approval: bool,
    pub completion: CallCompletion,
}

/// The way in which calls of a tool come to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallCompletion {
    /// The answer to the request is the result.
    Inline,
    /// The answer to the request says that a job has started; the result comes by a callback or a poll.
    Job(JobCompletion),
}

/// The rules for calls that end by what becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobCompletion {
    /// The turn goes on with the result; otherwise the model is told that the job has started.
    pub waits: bool,
    /// Time after which a call fails that has not ended.
    pub deadline: Duration,
    pub calls_back: bool,
    pub polls: Option<JobPolls>,
}

/// The polls of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobPolls {
    pub first: Duration,
    /// They ask by the id that the tool has given the job.
    pub by_id: bool,
}

impl JobCompletion {
    /// Whether a job can be heard of again, by its id or without one.
    pub fn is_heard_of(&self, external_id: Option<&str>) -> bool {
        self.calls_back || self.first_poll(external_id).is_some()
    }

    /// The wait before the first poll; `None` where none can be made.
    pub fn first_poll(&self, external_id: Option<&str>) -> Option<Duration> {
        let polls = self.polls?;
        (external_id.is_some() || !polls.by_id).then_some(polls.first)
    }
}

/// The rules by which a result is given again: for how long, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    pub lifetime: Duration,
    pub scope: CacheScope,
}

/// The calls that share a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// Calls of this version of the tool.
    Tool,
    /// Calls of the same named end user; a call for nobody in particular is not answered so.
    User,
    /// Calls of the organization, whatever version of the tool answered, as long as the request is
    /// the same.
    Organization,
}

impl CacheScope {
    pub const ALL: [Self; 3] = [Self::Tool, Self::User, Self::Organization];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::User => "user",
            Self::Organization => "organization",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl CallPolicy {
    /// The defaults for a class.
    pub fn new(effect: EffectClass) -> Self {
        Self {
            effect,
            timeout: limits::TOOL_TIMEOUT_DEFAULT,
            attempts_max: limits::TOOL_ATTEMPTS_DEFAULT,
            backoff: limits::TOOL_BACKOFF_DEFAULT,
            concurrency_max: limits::TOOL_CONCURRENCY_DEFAULT,
            shown_bytes_max: limits::RESULT_SHOWN_BYTES_DEFAULT,
            cache: None,
            requires_approval: false,
            completion: CallCompletion::Inline,
        }
    }

    /// The wait before attempt `n` (2 or more).
    pub fn backoff_before(&self, n: u32) -> Duration {
        let doublings = n.saturating_sub(2).min(limits::BACKOFF_DOUBLINGS_MAX);
        self.backoff
            .saturating_mul(1 << doublings)
            .min(limits::TOOL_BACKOFF_MAX)
    }
}

/// The effect of a tool's calls, by what repeating one does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectClass {
    /// Repeating does nothing; a call may be repeated freely.
    Read,
    /// Repeating with the same key does nothing more than the first time.
    Idempotent,
    /// The provider can be asked, by our reference, whether it happened.
    Queryable,
    /// Repeating does it again; we never repeat a call.
    Once,
}

impl EffectClass {
    pub const ALL: [Self; 4] = [Self::Read, Self::Idempotent, Self::Queryable, Self::Once];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Queryable => "queryable",
            Self::Once => "once",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == text)
    }
}

/// The outcome of one attempt of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The tool answered.
    Answered(ToolOutput),
    /// The tool answered that a job has started, whose end it tells later.
    Accepted {
        /// The id by which the tool knows the job, if it says one.
        external_id: Option<String>,
    },
    /// The tool answered that it does not do this; the model may read why.
    Refused { message: String },
    /// The tool answered that it has started no job, and that another request may: any class may be repeated.
    NotStarted { message: String },
    /// The tool answered that it does not do this at the moment.
    Unavailable {
        message: String,
        /// Time for which the tool asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The tool answered that something went wrong, or pointed elsewhere: it may have acted before.
    Unclear { message: String },
    /// A gateway answered in the tool's place, so that nobody knows what became of the call.
    Gateway {
        message: String,
        /// Time for which the gateway asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// No request can be made of these arguments; nothing was sent, and nothing ever would be.
    Unsendable { message: String },
    /// Certainly not sent; any class may be repeated.
    NotSent { message: String },
    /// The tool's address may not be reached from here; nothing was sent.
    NotAllowed { message: String },
    /// The connection ended after something was sent.
    Reset { message: String },
    /// The attempt's own time was up.
    TimedOut,
    /// The tool's code panicked.
    Panicked,
    /// We ended it before it answered.
    Aborted,
}

impl ToolOutcome {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Accepted { .. } => "accepted",
            Self::Refused { .. } => "refused",
            Self::NotStarted { .. } => "not_started",
            Self::Unavailable { .. } => "unavailable",
            Self::Unclear { .. } => "unclear",
            Self::Gateway { .. } => "gateway",
            Self::Unsendable { .. } => "unsendable",
            Self::NotSent { .. } => "not_sent",
            Self::NotAllowed { .. } => "not_allowed",
            Self::Reset { .. } => "reset",
            Self::TimedOut => "timeout",
            Self::Panicked => "panicked",
            Self::Aborted => "aborted",
        }
    }
}

impl ToolOutcome {
    /// Whether an attempt with this outcome, by its word, certainly did nothing: it was not sent, or its tool says so.
    pub fn is_unsent(word: &str) -> bool {
        matches!(
            word,
            "unsendable" | "not_sent" | "not_allowed" | "not_started"
        )
    }

    /// Whether an attempt with this outcome, by its word, leaves it unknown if it took effect.
    pub fn is_unsure(word: &str) -> bool {
        !Self::is_unsent(word)
            && !matches!(
                word,
                "ok" | "answered" | "accepted" | "refused" | "unavailable"
            )
    }
}

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolOutput {
    Text {
        text: String,
        /// The answer was longer than what is kept.
        cut: bool,
        /// The part of the text that the model is given, if that is not all.
        selected: Option<SelectedAnswer>,
    },
    /// An answer that is no text: described, not kept.
    Opaque {
        content_type: String,
        bytes: u64,
        sha256: String,
    },
}

/// The part of an answer that the model is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedAnswer {
    pub text: String,
    /// The part is longer than the model may be shown.
    pub cut: bool,
}

/// The result of a look-up of a `queryable` call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookUp {
    /// The call happened, with this answer.
    Happened(ToolOutput),
    /// The call certainly did not happen.
    Absent,
    /// The provider did not say.
    Unknown,
}

/// The text behind a result that was cut for the model.
const CUT_MARKER: &str = " …[cut: the result is longer]";

impl ToolOutput {
    /// The text that is kept, with NUL made visible, since not every store can hold it.
    pub fn kept(&self) -> String {
        match self {
            Self::Text { text, .. } => without_nul(text),
            Self::Opaque {
                content_type,
                bytes,
                sha256,
            } => serde_json::json!({
                "content_type": content_type, "bytes": bytes, "sha256": sha256,
            })
            .to_string(),
        }
    }

    /// The text that the model is given, at most `bytes_max` bytes before the marker.
    pub fn shown(&self, bytes_max: usize) -> String {
        let (kept, was_cut) = match self {
            Self::Text {
                selected: Some(selected),
                ..
            } => (without_nul(&selected.text), selected.cut),
            Self::Text { cut, .. } => (self.kept(), *cut),
            Self::Opaque { .. } => (self.kept(), false),
        };
        if kept.len() <= bytes_max && !was_cut {
            return kept;
        }
        let mut end = kept.len().min(bytes_max);
        while !kept.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{CUT_MARKER}", &kept[..end])
    }
}

impl ToolOutput {
    /// The end of a call that this is the result of.
    pub fn end(&self, shown_bytes_max: usize, kept_bytes_max: usize) -> CallEnd {
        let mut kept = self.kept();
        let mut end = kept.len().min(kept_bytes_max);
        while !kept.is_char_boundary(end) {
            end -= 1;
        }
        kept.truncate(end);
        CallEnd {
            reason: None,
            result: Some(kept),
            shown: self.shown(shown_bytes_max),
            is_error: false,
            cached: false,
        }
    }
}

fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests;
