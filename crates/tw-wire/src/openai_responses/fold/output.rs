//! Items of a response as they are shown.

use tw_core::id::CallId;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{CallForm, CallNative};

use crate::openai_chat::raw::ObjectFields;
use crate::openai_chat::write;
use crate::openai_responses::{SERVER_LABEL, ids};

#[derive(Clone, Debug)]
pub struct OutputItem {
    pub id: String,
    pub status: OutputStatus,
    pub kind: OutputKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

#[derive(Clone, Debug)]
pub enum OutputKind {
    Message {
        parts: Vec<OutputPart>,
        phase: Option<Phase>,
    },
    Reasoning {
        summary: Vec<LiteralBuf>,
        content: Vec<LiteralBuf>,
        encrypted: Option<Json>,
    },
    Call(OutputCall),
    Mcp(OwnCall),
    /// The question whether a call of this server's may run.
    Approval {
        name: String,
        arguments: Literal,
    },
    /// The result of a call, where calls of this server are shown as functions.
    CallOutput {
        call_id: String,
        output: Literal,
    },
    /// An item of the provider's, as written.
    Native(Json),
}

/// A call that the client is to run, or that looks like one.
#[derive(Clone, Debug)]
pub struct OutputCall {
    pub form: CallForm,
    pub call_id: String,
    pub name: String,
    pub arguments: LiteralBuf,
    pub native: CallNative,
}

/// A call that this server runs.
#[derive(Clone, Debug)]
pub struct OwnCall {
    pub name: String,
    pub arguments: Literal,
    /// The call whose approval it runs by, or does not.
    pub approves: Option<CallId>,
    pub end: Option<OwnCallEnd>,
}

#[derive(Clone, Debug)]
pub struct OwnCallEnd {
    pub shown: Literal,
    pub is_error: bool,
}

#[derive(Clone, Debug)]
pub enum OutputPart {
    Text {
        text: LiteralBuf,
        annotations: Vec<Json>,
        /// Lists of tokens with their probabilities.
        logprobs: Vec<Json>,
    },
    Refusal(LiteralBuf),
}

/// Whether a message is said on the way or is the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Commentary,
    FinalAnswer,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Commentary => "commentary",
            Self::FinalAnswer => "final_answer",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Commentary, Self::FinalAnswer]
            .into_iter()
            .find(|phase| phase.as_str() == word)
    }
}

impl OutputStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// How much of an item is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The item as it begins: without what it will say.
    Empty,
    Full,
}

/// Writes an item.
pub fn write_item(out: &mut Vec<u8>, item: &OutputItem, extent: Extent) {
    if let OutputKind::Native(json) = &item.kind {
        return native(out, json, &item.id);
    }
    out.push(b'{');
    write::key(out, "id");
    write::string(out, &item.id);
    write::key(out, "type");
    let is_full = extent == Extent::Full;
    match &item.kind {
        OutputKind::Message { parts, phase } => {
            write::quoted(out, "message");
            status(out, item);
            write::key(out, "role");
            write::quoted(out, "assistant");
            write::key(out, "content");
            out.push(b'[');
            for part in parts.iter().filter(|_| is_full) {
                write::separate(out);
                write_part(out, part, Extent::Full);
            }
            out.push(b']');
            if let Some(phase) = phase.filter(|_| is_full) {
                write::key(out, "phase");
                write::quoted(out, phase.as_str());
            }
        }
        OutputKind::Reasoning {
            summary,
            content,
            encrypted,
        } => {
            write::quoted(out, "reasoning");
            write::key(out, "summary");
            thoughts(out, summary, "summary_text", is_full);
            if is_full && !content.is_empty() {
                write::key(out, "content");
                thoughts(out, content, "reasoning_text", is_full);
            }
            if let Some(encrypted) = encrypted.as_ref().filter(|_| is_full) {
                write::key(out, "encrypted_content");
                write::raw(out, encrypted);
            }
        }
        OutputKind::Call(call) => write_call(out, item, call, extent),
        OutputKind::Mcp(call) => write_own_call(out, item, call, extent),
        // No events bring its parts, so it is whole from its beginning.
        OutputKind::Approval { name, arguments } => {
            write::quoted(out, "mcp_approval_request");
            write::key(out, "server_label");
            write::quoted(out, SERVER_LABEL);
            write::key(out, "name");
            write::string(out, name);
            write::key(out, "arguments");
            write::literal(out, arguments);
        }
        OutputKind::CallOutput { call_id, output } => {
            write::quoted(out, "function_call_output");
            status(out, item);
            write::key(out, "call_id");
            write::string(out, call_id);
            write::key(out, "output");
            write::literal(out, output);
        }
        OutputKind::Native(_) => {}
    }
    out.push(b'}');
}

fn status(out: &mut Vec<u8>, item: &OutputItem) {
    write::key(out, "status");
    write::quoted(out, item.status.as_str());
}

/// The provider's item with the id under which the client knows it.
fn native(out: &mut Vec<u8>, json: &Json, id: &str) {
    let Ok(fields) = ObjectFields::parse(json.as_str()) else {
        return write::raw(out, json);
    };
    out.push(b'{');
    for (name, value) in &fields.0 {
        write::foreign_key(out, name);
        if name == "id" {
            write::string(out, id);
        } else {
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    if fields.written("id").is_none() {
        write::key(out, "id");
        write::string(out, id);
    }
    out.push(b'}');
}

fn thoughts(out: &mut Vec<u8>, parts: &[LiteralBuf], kind: &str, is_full: bool) {
    out.push(b'[');
    for text in parts.iter().filter(|_| is_full) {
        write::separate(out);
        write_thought(out, kind, text.as_str());
    }
    out.push(b']');
}

/// Writes a part of a reasoning.
pub fn write_thought(out: &mut Vec<u8>, kind: &str, text: &str) {
    out.push(b'{');
    write::key(out, "type");
    write::quoted(out, kind);
    write::key(out, "text");
    write::quoted(out, text);
    out.push(b'}');
}

/// Writes a part of a message.
pub fn write_part(out: &mut Vec<u8>, part: &OutputPart, extent: Extent) {
    let is_full = extent == Extent::Full;
    out.push(b'{');
    write::key(out, "type");
    match part {
        OutputPart::Text {
            text,
            annotations,
            logprobs,
        } => {
            write::quoted(out, "output_text");
            write::key(out, "annotations");
            out.push(b'[');
            for annotation in annotations.iter().filter(|_| is_full) {
                write::separate(out);
                write::raw(out, annotation);
            }
            out.push(b']');
            write::key(out, "logprobs");
            write::joined_arrays(out, logprobs.iter().filter(|_| is_full));
            write::key(out, "text");
            write::quoted(out, if is_full { text.as_str() } else { "" });
        }
        OutputPart::Refusal(text) => {
            write::quoted(out, "refusal");
            write::key(out, "refusal");
            write::quoted(out, if is_full { text.as_str() } else { "" });
        }
    }
    out.push(b'}');
}

fn write_call(out: &mut Vec<u8>, item: &OutputItem, call: &OutputCall, extent: Extent) {
    let (kind, name) = match call.form {
        CallForm::Custom => ("custom_tool_call", "input"),
        CallForm::Function | CallForm::ByName => ("function_call", "arguments"),
    };
    write::quoted(out, kind);
    status(out, item);
    write::key(out, "call_id");
    write::string(out, &call.call_id);
    write::key(out, "name");
    write::string(out, &call.name);
    write::key(out, name);
    let is_full = extent == Extent::Full;
    write::quoted(out, if is_full { call.arguments.as_str() } else { "" });
    if is_full {
        write::fields(out, Some(&call.native.beside));
    }
}

fn write_own_call(out: &mut Vec<u8>, item: &OutputItem, call: &OwnCall, extent: Extent) {
    let is_full = extent == Extent::Full;
    write::quoted(out, "mcp_call");
    status(out, item);
    write::key(out, "server_label");
    write::quoted(out, SERVER_LABEL);
    write::key(out, "name");
    write::string(out, &call.name);
    write::key(out, "arguments");
    write::quoted(out, if is_full { call.arguments.as_str() } else { "" });
    write::key(out, "approval_request_id");
    match call.approves {
        Some(asked) => write::string(out, &ids::approval_id(asked)),
        None => out.extend_from_slice(b"null"),
    }
    let end = call.end.as_ref().filter(|_| is_full);
    for (name, is_of_error) in [("output", false), ("error", true)] {
        write::key(out, name);
        match end.filter(|end| end.is_error == is_of_error) {
            Some(end) => write::literal(out, &end.shown),
            None => out.extend_from_slice(b"null"),
        }
    }
}
