//! Rules: when one applies, and what it answers.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;

use super::request::SeenRequest;
use super::template::ScriptTemplate;

#[derive(Debug)]
pub(super) struct ScriptRule {
    pub(super) when: RuleCondition,
    /// Number of requests that the rule may answer; `None` means any.
    pub(super) times_max: Option<u64>,
    pub(super) used: AtomicU64,
    pub(super) head_delay: Duration,
    pub(super) delta_gap: Duration,
    pub(super) stop: Option<ScriptedStop>,
    pub(super) retry_after: Option<String>,
    pub(super) reply: RuleReply,
}

/// Conditions on a request; all that are named must hold.
#[derive(Debug)]
pub(super) struct RuleCondition {
    pub(super) last_role: Option<String>,
    pub(super) last_contains: Option<String>,
    pub(super) user_contains: Option<String>,
    pub(super) messages: Option<usize>,
    pub(super) messages_min: Option<usize>,
    pub(super) tool_results: Option<usize>,
    pub(super) has_tool: Option<String>,
    pub(super) model: Option<String>,
    pub(super) stream: Option<bool>,
}

/// An end that is not a proper one, after so many events of the body.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScriptedStop {
    CutAfter(usize),
    SilentAfter(usize),
}

#[derive(Debug)]
pub(super) enum RuleReply {
    Completion(ScriptedCompletion),
    Raw(RawPieces),
    Body(RawBody),
}

#[derive(Debug)]
pub(super) struct ScriptedCompletion {
    pub(super) text: Option<ScriptedText>,
    pub(super) reasoning: Option<ScriptTemplate>,
    pub(super) piece_chars: Option<usize>,
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) finish: Option<String>,
    pub(super) usage: Option<serde_json::Map<String, serde_json::Value>>,
    pub(super) no_done: bool,
    pub(super) no_finish: bool,
}

#[derive(Debug)]
pub(super) enum ScriptedText {
    Whole(ScriptTemplate),
    Pieces(Vec<ScriptTemplate>),
}

#[derive(Debug)]
pub(super) struct ScriptedCall {
    pub(super) name: String,
    /// Text of the arguments, sent as it is, so it need not be JSON.
    pub(super) arguments: String,
    pub(super) id: Option<String>,
}

/// Pieces sent without any change, each in one write.
#[derive(Debug)]
pub(super) struct RawPieces {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) pieces: Vec<Bytes>,
}

/// A plain body, the same whether a stream was asked for or not.
#[derive(Debug)]
pub(super) struct RawBody {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) bytes: Bytes,
}

impl RuleCondition {
    pub(super) fn holds(&self, seen: &SeenRequest) -> bool {
        let (role, text) = match seen.messages.last() {
            Some(message) => (message.role.as_str(), message.text.as_str()),
            None => ("", ""),
        };
        let messages = seen.messages.len();
        let contains = |part: &Option<String>, text: &str| match part {
            Some(part) => text.contains(part.as_str()),
            None => true,
        };
        is(&self.last_role, role)
            && contains(&self.last_contains, text)
            && contains(&self.user_contains, seen.last_user())
            && self.messages.is_none_or(|count| count == messages)
            && self.messages_min.is_none_or(|min| messages >= min)
            && self
                .tool_results
                .is_none_or(|count| count == seen.tool_results())
            && self
                .has_tool
                .as_ref()
                .is_none_or(|name| seen.tools.contains(name))
            && is(&self.model, seen.model.as_deref().unwrap_or(""))
            && self.stream.is_none_or(|stream| stream == seen.stream)
    }
}

fn is(wanted: &Option<String>, found: &str) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted == found)
}
