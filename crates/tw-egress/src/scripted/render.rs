//! The rendering of a rule's answer as the bytes of a stream or of a plain body.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::request::SeenRequest;
use super::rule::{
    RawBody, RawPieces, ScriptRule, ScriptedCall, ScriptedCompletion, ScriptedStop, ScriptedText,
};
use super::wire::{
    Chunk, ChunkChoice, ChunkDelta, ChunkUsage, PlainBody, PlainCall, PlainChoice, PlainFunction,
    PlainMessage,
};
use super::{PIECES_MAX, ScriptedAnswer, ScriptedPiece};

/// 1 January 2026, 00:00 UTC, in seconds; `created` is this plus the serial number.
const CREATED_S: u64 = 1_767_225_600;
/// Characters in one piece of arguments unless `piece_chars` says otherwise; recorded pieces have 1 to 10.
const ARGUMENT_PIECE_CHARS_DEFAULT: usize = 8;
/// Bytes of text that are counted as one token.
const TOKEN_BYTES: usize = 4;
/// Model name in an answer to a request that names none.
const MODEL_DEFAULT: &str = "scripted";

/// An event of a stream, or a whole plain body.
struct Event {
    bytes: Bytes,
    /// Whether the gap between deltas comes before it.
    paced: bool,
}

pub(super) fn completion(
    rule: &ScriptRule,
    completion: &ScriptedCompletion,
    seen: &SeenRequest,
    serial: u64,
) -> ScriptedAnswer {
    let filled = Filled::new(completion, seen);
    let id = format!("chatcmpl-{serial:024x}");
    let frame = Frame {
        id: &id,
        created: CREATED_S.saturating_add(serial),
        model: seen.model.as_deref().unwrap_or(MODEL_DEFAULT),
        usage: usage(completion, &filled, seen),
        serial,
    };
    let (content_type, body) = if seen.stream {
        let events = stream(completion, &filled, &frame, seen);
        ("text/event-stream; charset=utf-8", paced(rule, events))
    } else {
        let bytes = plain(completion, &filled, &frame, seen);
        ("application/json", single(rule, bytes))
    };
    answer(rule, 200, content_type, body, serial)
}

pub(super) fn raw(
    rule: &ScriptRule,
    raw: &RawPieces,
    seen: &SeenRequest,
    serial: u64,
) -> ScriptedAnswer {
    let content_type = match (&raw.content_type, seen.stream) {
        (Some(content_type), _) => content_type.as_str(),
        (None, true) => "text/event-stream; charset=utf-8",
        (None, false) => "application/json",
    };
    let events = raw.pieces.iter().map(|bytes| Event {
        bytes: bytes.clone(),
        paced: true,
    });
    answer(
        rule,
        raw.status,
        content_type,
        paced(rule, events.collect()),
        serial,
    )
}

pub(super) fn body(rule: &ScriptRule, body: &RawBody, serial: u64) -> ScriptedAnswer {
    let pieces = single(rule, body.bytes.clone());
    answer(rule, body.status, &body.content_type, pieces, serial)
}

/// An HTTP 400 of the scripted model itself.
pub(super) fn refusal(message: &str, param: Option<&str>, serial: u64) -> ScriptedAnswer {
    let error = serde_json::json!({ "error": {
        "message": format!("scripted model: {message}"),
        "type": "invalid_request_error",
        "param": param,
        "code": null,
    }});
    ScriptedAnswer {
        head_delay: std::time::Duration::ZERO,
        status: 400,
        headers: headers("application/json", serial),
        body: vec![ScriptedPiece::Bytes(Bytes::from(error.to_string()))],
    }
}

fn answer(
    rule: &ScriptRule,
    status: u16,
    content_type: &str,
    body: Vec<ScriptedPiece>,
    serial: u64,
) -> ScriptedAnswer {
    let mut headers = headers(content_type, serial);
    if let Some(retry_after) = &rule.retry_after {
        headers.push(("retry-after".into(), retry_after.clone()));
    }
    ScriptedAnswer {
        head_delay: rule.head_delay,
        status,
        headers,
        body,
    }
}

fn headers(content_type: &str, serial: u64) -> Vec<(String, String)> {
    vec![
        ("content-type".into(), content_type.to_owned()),
        ("cache-control".into(), "no-cache".into()),
        ("x-request-id".into(), format!("req_{serial:024x}")),
    ]
}

/// Puts the gaps between events and ends the body where the rule says.
fn paced(rule: &ScriptRule, events: Vec<Event>) -> Vec<ScriptedPiece> {
    let mut pieces = Vec::with_capacity(events.len());
    let count = events.len();
    let (after, end) = match rule.stop {
        Some(ScriptedStop::CutAfter(after)) => (after, Some(ScriptedPiece::Cut)),
        Some(ScriptedStop::SilentAfter(after)) => (after, Some(ScriptedPiece::Silence)),
        None => (count, None),
    };
    for (at, event) in events.into_iter().take(after).enumerate() {
        if at > 0 && event.paced && !rule.delta_gap.is_zero() {
            pieces.push(ScriptedPiece::Wait(rule.delta_gap));
        }
        pieces.push(ScriptedPiece::Bytes(event.bytes));
    }
    if after <= count {
        pieces.extend(end);
    }
    pieces
}

/// A plain body has no events: it stops before its first byte or in its middle.
fn single(rule: &ScriptRule, bytes: Bytes) -> Vec<ScriptedPiece> {
    let (after, end) = match rule.stop {
        Some(ScriptedStop::CutAfter(after)) => (after, ScriptedPiece::Cut),
        Some(ScriptedStop::SilentAfter(after)) => (after, ScriptedPiece::Silence),
        None => return vec![ScriptedPiece::Bytes(bytes)],
    };
    if after == 0 {
        return vec![end];
    }
    vec![ScriptedPiece::Bytes(bytes.slice(..bytes.len() / 2)), end]
}

/// An answer with its placeholders filled in and its texts split.
struct Filled {
    /// `None` when the rule names no text: the content is null.
    text: Option<Vec<String>>,
    reasoning: Vec<String>,
    arguments: Vec<Vec<String>>,
}

impl Filled {
    fn new(completion: &ScriptedCompletion, seen: &SeenRequest) -> Filled {
        let split = |text: &str| match completion.piece_chars {
            Some(chars) => by_chars(text, chars),
            None => by_words(text),
        };
        let mut whole = String::new();
        let text = completion.text.as_ref().map(|text| match text {
            ScriptedText::Whole(template) => {
                template.render_into(seen, &mut whole);
                split(&whole)
            }
            ScriptedText::Pieces(templates) => {
                let mut pieces = Vec::with_capacity(templates.len());
                for template in templates {
                    let start = whole.len();
                    template.render_into(seen, &mut whole);
                    pieces.push(whole[start..].to_owned());
                }
                pieces
            }
        });
        let mut reasoning = String::new();
        if let Some(template) = &completion.reasoning {
            template.render_into(seen, &mut reasoning);
        }
        let chars = completion
            .piece_chars
            .unwrap_or(ARGUMENT_PIECE_CHARS_DEFAULT);
        let arguments = completion
            .calls
            .iter()
            .map(|call| by_chars(&call.arguments, chars));
        Filled {
            text,
            reasoning: split(&reasoning),
            arguments: arguments.collect(),
        }
    }

    fn bytes(&self) -> usize {
        let texts = self.text.iter().flatten().chain(&self.reasoning);
        texts
            .chain(self.arguments.iter().flatten())
            .map(String::len)
            .sum()
    }
}

fn by_chars(text: &str, chars: usize) -> Vec<String> {
    let starts = text.char_indices().map(|(at, _)| at).step_by(chars);
    pieces(text, starts)
}

/// Splits a text into words, each with the white space before it, as tokens are.
fn by_words(text: &str) -> Vec<String> {
    let mut before_is_space = true;
    let starts = text.char_indices().filter_map(move |(at, letter)| {
        let starts = at == 0 || (letter.is_whitespace() && !before_is_space);
        before_is_space = letter.is_whitespace();
        starts.then_some(at)
    });
    pieces(text, starts)
}

fn pieces(text: &str, starts: impl Iterator<Item = usize>) -> Vec<String> {
    let starts: Vec<usize> = starts.take(PIECES_MAX).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| text[*start..end].to_owned())
        .collect()
}

/// Members that all chunks of one answer share.
struct Frame<'a> {
    id: &'a str,
    created: u64,
    model: &'a str,
    usage: ChunkUsage,
    serial: u64,
}

impl Frame<'_> {
    /// The scripted id, or one of the 24 characters that OpenAI's have, different for each choice.
    fn call_id(&self, call: &ScriptedCall, choice: u64, index: usize) -> String {
        match &call.id {
            Some(id) => id.clone(),
            None => format!("call_{:016x}{choice:04x}{index:04x}", self.serial),
        }
    }
}

fn usage(completion: &ScriptedCompletion, filled: &Filled, seen: &SeenRequest) -> ChunkUsage {
    let asked: usize = seen.messages.iter().map(|message| message.text.len()).sum();
    let given = filled.bytes().div_ceil(TOKEN_BYTES) as u64 * seen.choices;
    let mut others = completion.usage.clone().unwrap_or_default();
    let mut take = |key: &str, estimate: u64| others.remove(key).unwrap_or_else(|| estimate.into());
    let prompt_tokens: Value = take("prompt_tokens", asked.div_ceil(TOKEN_BYTES) as u64);
    let completion_tokens: Value = take("completion_tokens", given);
    let count = |tokens: &Value| tokens.as_u64().unwrap_or(0);
    let total = count(&prompt_tokens).saturating_add(count(&completion_tokens));
    ChunkUsage {
        total_tokens: take("total_tokens", total),
        prompt_tokens,
        completion_tokens,
        others,
    }
}

fn finish(completion: &ScriptedCompletion) -> &str {
    match &completion.finish {
        Some(finish) => finish,
        None if completion.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

/// The content of one delta; the same for every choice but for the ids.
#[derive(Clone, Copy)]
enum Step<'a> {
    Role,
    Reasoning(&'a str),
    Text(&'a str),
    Head(usize, &'a ScriptedCall),
    Arguments(usize, &'a str),
    Finish(&'a str),
}

/// The choices take turns, as recorded from OpenAI for `n` = 2.
fn stream(
    completion: &ScriptedCompletion,
    filled: &Filled,
    frame: &Frame<'_>,
    seen: &SeenRequest,
) -> Vec<Event> {
    let mut steps = vec![Step::Role];
    steps.extend(filled.reasoning.iter().map(|piece| Step::Reasoning(piece)));
    steps.extend(filled.text.iter().flatten().map(|piece| Step::Text(piece)));
    for (index, (call, arguments)) in completion.calls.iter().zip(&filled.arguments).enumerate() {
        steps.push(Step::Head(index, call));
        steps.extend(arguments.iter().map(|piece| Step::Arguments(index, piece)));
    }
    if !completion.no_finish {
        steps.push(Step::Finish(finish(completion)));
    }
    let mut events = Vec::new();
    for step in steps {
        for index in 0..seen.choices {
            let choice = step.choice(index, frame, filled.text.is_some());
            events.push(frame.event(&[choice], seen.include_usage.then_some(None), true));
        }
    }
    if seen.include_usage {
        events.push(frame.event(&[], Some(Some(&frame.usage)), false));
    }
    if !completion.no_done {
        events.push(Event {
            bytes: Bytes::from_static(b"data: [DONE]\n\n"),
            paced: false,
        });
    }
    events
}

impl<'a> Step<'a> {
    fn choice(self, index: u64, frame: &Frame<'_>, has_text: bool) -> ChunkChoice<'a> {
        let mut finish_reason = None;
        let delta = match self {
            Step::Role => ChunkDelta::Role {
                role: "assistant",
                content: has_text.then_some(""),
                refusal: (),
            },
            Step::Reasoning(reasoning_content) => ChunkDelta::Reasoning { reasoning_content },
            Step::Text(content) => ChunkDelta::Text { content },
            Step::Head(at, call) => {
                ChunkDelta::head(at, frame.call_id(call, index, at), &call.name)
            }
            Step::Arguments(at, arguments) => ChunkDelta::arguments(at, arguments),
            Step::Finish(finish) => {
                finish_reason = Some(finish);
                ChunkDelta::Nothing {}
            }
        };
        ChunkChoice {
            index,
            delta,
            logprobs: (),
            finish_reason,
        }
    }
}

impl Frame<'_> {
    fn event(
        &self,
        choices: &[ChunkChoice<'_>],
        usage: Option<Option<&ChunkUsage>>,
        paced: bool,
    ) -> Event {
        let chunk = Chunk {
            id: self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: self.model,
            service_tier: "default",
            system_fingerprint: (),
            choices,
            usage,
        };
        let mut bytes = b"data: ".to_vec();
        bytes.extend(json(&chunk));
        bytes.extend(b"\n\n");
        Event {
            bytes: Bytes::from(bytes),
            paced,
        }
    }
}

fn plain(
    completion: &ScriptedCompletion,
    filled: &Filled,
    frame: &Frame<'_>,
    seen: &SeenRequest,
) -> Bytes {
    let reasoning = filled.reasoning.concat();
    let text = filled.text.as_ref().map(|pieces| pieces.concat());
    let choice = |index: u64| PlainChoice {
        index,
        message: PlainMessage {
            role: "assistant",
            content: text.as_deref(),
            reasoning_content: (!reasoning.is_empty()).then_some(reasoning.as_str()),
            tool_calls: completion
                .calls
                .iter()
                .enumerate()
                .map(|(at, call)| PlainCall {
                    id: frame.call_id(call, index, at),
                    kind: "function",
                    function: PlainFunction {
                        name: Some(&call.name),
                        arguments: &call.arguments,
                    },
                })
                .collect(),
            refusal: (),
            annotations: [],
        },
        logprobs: (),
        finish_reason: (!completion.no_finish).then(|| finish(completion)),
    };
    Bytes::from(json(&PlainBody {
        id: frame.id,
        object: "chat.completion",
        created: frame.created,
        model: frame.model,
        choices: (0..seen.choices).map(choice).collect(),
        usage: &frame.usage,
        service_tier: "default",
        system_fingerprint: (),
    }))
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let bytes = serde_json::to_vec(value);
    debug_assert!(bytes.is_ok(), "strings and numbers always serialize");
    bytes.unwrap_or_default()
}
