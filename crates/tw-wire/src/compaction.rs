//! Compaction: a conversation in one item, which stands for it in later requests.
//!
//! Follows `CompactResponseMethodPublicBody` and `CompactResource` of the Open Responses document (92c12d9).
//!
//! What a sealed item holds is a JSON array of the items that it stands for. A short conversation is there as it was. Of
//! a longer one there is a summary that the model wrote, and behind it the calls that nobody has answered yet, since
//! their results are still to come.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::shared::SharedText;

use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;
use crate::openai_responses::ids;

/// Types of items whose content is sealed; the second is an older name.
const COMPACTION: [&str; 2] = ["compaction", "compaction_summary"];

/// Conversations of at most so many bytes, as items, stay as they are: a summary would hardly be shorter, would cost a
/// request to the model, and would lose something.
pub const KEPT_BYTES_MAX: usize = 16 * 1024;

/// What the model is asked for, behind the conversation.
const ASK: &str = "Write a summary of the whole conversation above. It will take the conversation's place: whoever goes \
on will see nothing else of it. Say what was asked for and what was decided, with names, numbers, paths, ids and quotes \
that are still needed word for word; what tools were called for and what came of it; what is done, and what is still to \
do next. Answer with the summary alone and call no tools.";
/// What a later model reads before the summary.
const LEAD: &str = "The conversation so far, as it was summarized to make room:";

/// A request with what its sealed items stand for.
#[derive(Debug)]
pub struct UnfoldedBody {
    pub body: SharedText,
    /// The place of the first sealed item that is another server's, and was left as it is.
    pub foreign: Option<usize>,
}

/// A sealed item that is not as this server made it; its place in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenSealAt(pub usize);

/// What opening a sealed content gives.
pub enum OpenedSeal {
    Content(String),
    /// Another server sealed it.
    Foreign,
    Broken,
}

/// The request with the items that its sealed ones stand for in their places.
///
/// # Errors
/// [`BrokenSealAt`].
pub fn unfold(
    body: &SharedText,
    open: impl Fn(&str) -> OpenedSeal,
) -> Result<UnfoldedBody, BrokenSealAt> {
    let mut unfolded = UnfoldedBody {
        body: body.clone(),
        foreign: None,
    };
    let text = body.as_str();
    let Ok(fields) = ObjectFields::parse(text) else {
        return Ok(unfolded);
    };
    let items = fields.get("input").and_then(raw::array);
    let (mut out, mut written) = (String::new(), 0);
    for (at, item) in items.into_iter().flatten().enumerate() {
        let Some(sealed) = sealed_content(item) else {
            continue;
        };
        let content = match open(&sealed) {
            OpenedSeal::Content(content) => content,
            OpenedSeal::Foreign => {
                unfolded.foreign = unfolded.foreign.or(Some(at));
                continue;
            }
            OpenedSeal::Broken => return Err(BrokenSealAt(at)),
        };
        let items = content
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let items = items.filter(|items| !items.trim().is_empty());
        let start = item.get().as_ptr().addr() - text.as_ptr().addr();
        out.push_str(&text[written..start]);
        out.push_str(items.ok_or(BrokenSealAt(at))?);
        written = start + item.get().len();
    }
    if written > 0 {
        out.push_str(&text[written..]);
        unfolded.body = SharedText::new(out);
    }
    Ok(unfolded)
}

fn sealed_content(item: &RawValue) -> Option<String> {
    let fields = ObjectFields::parse(item.get()).ok()?;
    let kind = raw::string(fields.get("type")?)?;
    let content = raw::string(fields.get("encrypted_content")?)?;
    COMPACTION.contains(&&*kind).then(|| content.into_owned())
}

/// Whether a body may hold sealed items, at a glance.
pub fn may_hold_sealed(body: &SharedText) -> bool {
    memchr::memmem::find(body.as_str().as_bytes(), b"encrypted_content").is_some()
}

/// How a conversation is made smaller.
#[derive(Debug, PartialEq, Eq)]
pub enum CompactionPlan {
    /// It is small enough: the content of its seal.
    Kept(String),
    /// The body of the request by which the model is asked for a summary.
    Ask(String),
}

/// Plans the compaction of a request that was read and found good; `follows` when more stands before its input.
pub fn plan(body: &SharedText, follows: bool) -> CompactionPlan {
    let fields = ObjectFields::parse(body.as_str()).unwrap_or_default();
    let items = joined(&items_of(&fields));
    if !follows && items.len() <= KEPT_BYTES_MAX {
        return CompactionPlan::Kept(format!("[{items}]"));
    }
    let mut out = vec![b'{'];
    for name in [
        "model",
        "instructions",
        "previous_response_id",
        "prompt_cache_key",
        "safety_identifier",
        "user",
    ] {
        if let Some(value) = fields.get(name) {
            write::key(&mut out, name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    write::key(&mut out, "store");
    out.extend_from_slice(b"false");
    write::key(&mut out, "input");
    out.push(b'[');
    out.extend_from_slice(items.as_bytes());
    write::separate(&mut out);
    write_message(&mut out, ASK);
    out.extend_from_slice(b"]}");
    CompactionPlan::Ask(text(out))
}

/// The content of the seal of a conversation that the model summarized.
pub fn summarized(body: &SharedText, summary: &str) -> String {
    let fields = ObjectFields::parse(body.as_str()).unwrap_or_default();
    let items = items_of(&fields);
    let mut out = vec![b'['];
    write_message(&mut out, &format!("{LEAD}\n\n{summary}"));
    for call in unanswered(&items) {
        write::separate(&mut out);
        out.extend_from_slice(call.as_bytes());
    }
    out.push(b']');
    text(out)
}

/// The calls of the client's that have no result yet, and the questions whether calls may run that nothing came of yet.
fn unanswered(items: &[String]) -> Vec<&String> {
    let read = |item: &str| {
        let fields = ObjectFields::parse(item).ok()?;
        let text = |name: &str| raw::filled_string(fields.get(name)).map(Cow::into_owned);
        let kind = text("type")?;
        let id = match &*kind {
            QUESTION => text("id"),
            RAN => text("approval_request_id"),
            _ => text("call_id"),
        };
        Some((kind, id?))
    };
    let of: Vec<_> = items.iter().map(|item| read(item)).collect();
    let is_answered = |by: &dyn Fn(&str) -> bool, id: &str| {
        let mut others = of.iter().flatten();
        others.any(|(kind, answers)| by(kind) && answers == id)
    };
    let is_open = |(kind, id): &(String, String)| match &**kind {
        QUESTION => !is_answered(&|kind| kind == RAN, id),
        RAN => false,
        kind => kind.ends_with("_call") && !is_answered(&|kind| kind.ends_with("_output"), id),
    };
    let pairs = items.iter().zip(&of);
    pairs
        .filter(|(_, of)| of.as_ref().is_some_and(is_open))
        .map(|(item, _)| item)
        .collect()
}

/// The question whether a call may run, and the call that ran, or did not.
const QUESTION: &str = "mcp_approval_request";
const RAN: &str = "mcp_call";

/// The items of a request; an input that is one text is a message of the user.
fn items_of(fields: &ObjectFields<'_>) -> Vec<String> {
    let Some(input) = fields.get("input") else {
        return Vec::new();
    };
    if raw::literal(input).is_some() {
        let input = input.get();
        return vec![format!(
            r#"{{"type":"message","role":"user","content":{input}}}"#
        )];
    }
    let items = raw::array(input).unwrap_or_default();
    items.iter().map(|item| item.get().to_owned()).collect()
}

fn joined(items: &[String]) -> String {
    items.join(",")
}

fn write_message(out: &mut Vec<u8>, said: &str) {
    out.extend_from_slice(
        br#"{"type":"message","role":"user","content":[{"type":"input_text","text":"#,
    );
    write::string(out, said);
    out.extend_from_slice(b"}]}");
}

/// The text that a response says and its usage, if it says any.
pub fn summary_of(response: &[u8]) -> Option<(String, String)> {
    let body = std::str::from_utf8(response).ok()?;
    let fields = ObjectFields::parse(body).ok()?;
    let mut said = String::new();
    for item in fields.get("output").and_then(raw::array)? {
        let Ok(item) = ObjectFields::parse(item.get()) else {
            continue;
        };
        let is_message = item.get("type").and_then(raw::string).as_deref() == Some("message");
        let parts = item.get("content").filter(|_| is_message);
        for part in parts.and_then(raw::array).unwrap_or_default() {
            let part = ObjectFields::parse(part.get()).ok()?;
            if let Some(text) = part.get("text").and_then(raw::string) {
                said.push_str(&text);
            }
        }
    }
    let usage = fields.get("usage").map_or(NO_USAGE, RawValue::get);
    (!said.trim().is_empty()).then(|| (said, usage.to_owned()))
}

/// The usage of a compaction that asked no model.
pub const NO_USAGE: &str = r#"{"input_tokens":0,"input_tokens_details":{"cached_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}"#;

/// A compaction as its client gets it.
#[derive(Debug)]
pub struct MadeCompaction<'a> {
    /// Part of the ids of it and its item.
    pub plain_id: &'a str,
    pub created_s: i64,
    pub sealed: &'a str,
    /// JSON of the usage.
    pub usage: &'a str,
}

pub fn render(made: &MadeCompaction<'_>) -> Vec<u8> {
    let mut out = vec![b'{'];
    write::key(&mut out, "id");
    write::string(&mut out, &format!("{}{}", ids::RESPONSE, made.plain_id));
    write::key(&mut out, "object");
    write::quoted(&mut out, "response.compaction");
    write::key(&mut out, "created_at");
    write::number(&mut out, made.created_s);
    write::key(&mut out, "output");
    out.extend_from_slice(b"[{");
    write::key(&mut out, "id");
    write::string(&mut out, &format!("{}{}", ids::COMPACTION, made.plain_id));
    write::key(&mut out, "type");
    write::quoted(&mut out, COMPACTION[0]);
    write::key(&mut out, "encrypted_content");
    write::string(&mut out, made.sealed);
    out.extend_from_slice(b"}]");
    write::key(&mut out, "usage");
    out.extend_from_slice(made.usage.as_bytes());
    out.push(b'}');
    out
}

/// What was written here is text.
fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests;
