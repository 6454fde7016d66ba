//! The scripted model: an upstream that answers from a small TOML file with real chat-completions bytes.
//!
//! A script is a list of rules; the first rule that matches a request answers it.
//! Nothing here does I/O or waits: [`ScriptedAnswer`] says which bytes to send and how long to pause, and the caller does both.
//! The streams follow OpenAI's Chat Completions as recorded in 2024 and 2025: a role chunk, one piece for the head of each
//! call, pieces of arguments, an empty delta with the finish reason, the usage chunk if it was asked for, `[DONE]`.
//!
//! Known differences: no `obfuscation`, `created` is a fixed date plus the serial number, token counts are estimates
//! of four bytes for each token, ids are made from the serial number, and the first call never shares the role chunk.
//!
//! Read `parse.rs` for what a script may say and `render.rs` for the bytes.

mod fields;
mod parse;
mod render;
mod request;
mod rule;
mod template;
mod wire;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;

use request::SeenRequest;
use rule::{RuleReply, ScriptRule};

/// Longest script that is read, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 256 * 1024;
/// Most rules in a script.
pub const RULES_MAX: usize = 512;
/// Most pieces into which one text, or the arguments of one call, is split; the last piece takes what is left.
pub const PIECES_MAX: usize = 1024;
/// Most calls in one answer.
pub const CALLS_MAX: usize = 32;
/// Most choices (`n`) that a request may ask for.
pub const CHOICES_MAX: u64 = 8;
/// Longest text after its placeholders are filled in, in bytes; what is beyond is left out.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Longest pause, before the head or between two deltas, in milliseconds.
pub const PAUSE_MS_MAX: u64 = 600_000;

/// A script that was read and checked.
///
/// It counts how often each rule with `times` has answered, so one script serves one test or one server.
#[derive(Debug)]
pub struct Script {
    rules: Vec<ScriptRule>,
}

/// The scripted answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedAnswer {
    /// Pause before the status line is sent; zero when the script names none.
    pub head_delay: Duration,
    /// HTTP status, 200 to 599.
    pub status: u16,
    /// Names in lower case; values are visible ASCII. No length and no transfer encoding: framing is the caller's.
    pub headers: Vec<(String, String)>,
    /// The body in order. `Cut` and `Silence` stand only at the end.
    pub body: Vec<ScriptedPiece>,
}

/// A step of sending a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedPiece {
    /// Send these bytes in one write.
    Bytes(Bytes),
    /// Send nothing for this long.
    Wait(Duration),
    /// Close the connection without a proper end of the body.
    Cut,
    /// Send nothing more and keep the connection open.
    Silence,
}

/// Reasons for which a script is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("script has {bytes} bytes, at most {bytes_max} are read")]
    TooLarge { bytes: usize, bytes_max: usize },
    #[error("script is not valid TOML")]
    Toml {
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("script has the unknown key `{key}`; only [[rule]] stands at the top")]
    TopKey { key: String },
    #[error("script has {rules} rules, from 1 to {rules_max} are allowed")]
    RuleCount { rules: usize, rules_max: usize },
    /// `rule` counts from 1; `field` is a path inside the rule such as `calls[1].name`.
    #[error("rule {rule}: `{field}` {reason}")]
    Field {
        rule: usize,
        field: String,
        reason: String,
    },
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] names the rule, counted from 1, and the field. Unknown keys are errors, and so are keys that have
    /// no effect beside the others of their rule.
    pub fn parse(toml: &str) -> Result<Script, ScriptError> {
        parse::script(toml).map(|rules| Script { rules })
    }

    /// The models that its rules name, each once.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        let named: BTreeSet<&str> = self
            .rules
            .iter()
            .filter_map(|rule| rule.when.model.as_deref())
            .collect();
        named.into_iter()
    }

    /// Answers `request`, the body of a `POST /v1/chat/completions`.
    ///
    /// `serial` tells answers apart: ids and `created` are made from it, the same serial gives the same bytes.
    /// A request that is no chat completion, and one that no rule matches, is answered with an HTTP 400 in OpenAI's shape.
    pub fn answer(&self, request: &[u8], serial: u64) -> ScriptedAnswer {
        let seen = match SeenRequest::read(request) {
            Ok(seen) => seen,
            Err(refusal) => return render::refusal(&refusal.message, refusal.param, serial),
        };
        let Some(rule) = self.rules.iter().find(|rule| rule.applies(&seen)) else {
            return render::refusal(&seen.unmatched(self.rules.len()), None, serial);
        };
        match &rule.reply {
            RuleReply::Completion(completion) => {
                render::completion(rule, completion, &seen, serial)
            }
            RuleReply::Raw(raw) => render::raw(rule, raw, &seen, serial),
            RuleReply::Body(body) => render::body(rule, body, serial),
        }
    }
}

impl ScriptRule {
    /// Whether this rule answers; a rule with `times` uses one of them up.
    fn applies(&self, seen: &SeenRequest) -> bool {
        if !self.when.holds(seen) {
            return false;
        }
        let Some(times_max) = self.times_max else {
            return true;
        };
        // Relaxed is enough: the counter guards nothing but itself.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                (used < times_max).then(|| used + 1)
            })
            .is_ok()
    }
}
