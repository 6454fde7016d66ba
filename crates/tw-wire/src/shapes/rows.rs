//! Rows that an application appends to a conversation, read into messages; and the calls that they make and complete.
//!
//! A row becomes a message of chat completions, which is read like any other, so that there is one reader of contents.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::request::{Block, Message, Role};

use super::said::WaitingCall;
use super::write::{ObjectWriter, calls_of, list, quoted, text_of};
use crate::client_request::RequestError;
use crate::format::WireFormat;
use crate::openai_chat::content;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_responses::request::whole_fields;
use tw_core::shape::Shape;

/// Rows of one request.
pub const ROWS_ADDED_MAX: usize = 100;

/// A message that a row is, or is a part of.
#[derive(Clone, Debug)]
pub struct RowMessage {
    /// The place of the row in its request.
    pub row: usize,
    pub message: Message,
}

/// The calls of appended rows.
#[derive(Clone, Debug, Default)]
pub struct PairedCalls {
    pub made: Vec<MadeCall>,
    /// Calls that were made before, with their results.
    pub completed: Vec<(WaitingCall, GivenResult)>,
}

/// A call that appended rows make.
#[derive(Clone, Debug)]
pub struct MadeCall {
    pub tool_call_id: String,
    pub tool_name: String,
    /// Arguments as they were written.
    pub arguments: String,
    /// `None` where no row of the request gives one.
    pub result: Option<GivenResult>,
}

/// A result as its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenResult {
    pub text: String,
    pub is_error: bool,
}

/// Reads a request that appends rows of a shape: `{"rows": […]}`.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn read_rows(
    shape: Shape,
    body: &SharedText,
    limits: &RequestLimits,
) -> Result<Vec<RowMessage>, RequestError> {
    let fields = whole_fields(body.as_str(), limits)?;
    check_known(&fields, &["rows"], "")?;
    let Some(rows) = fields.get("rows") else {
        return Err(RequestError::missing("rows"));
    };
    let rows = raw::array(rows).ok_or_else(|| RequestError::wrong_type("rows", "an array"))?;
    if rows.is_empty() || rows.len() > ROWS_ADDED_MAX {
        let message = format!(
            "'rows' must hold 1 to {ROWS_ADDED_MAX} rows, and holds {}.",
            rows.len()
        );
        return Err(RequestError::wrong_value("rows", message));
    }
    let mut written = Vec::new();
    for (place, row) in rows.into_iter().enumerate() {
        let at = format!("rows[{place}]");
        let fields = ObjectFields::parse(row.get());
        let fields = fields.map_err(|_| RequestError::wrong_type(&at, "an object"))?;
        let row = Row { place, at, fields };
        match shape {
            Shape::OpenAi => written.push(row.openai()?),
            Shape::LangChain => written.push(row.langchain()?),
            Shape::Blocks => written.extend(row.blocks()?),
            Shape::PocketBase => {
                let message = "Rows of the shape 'pocketbase' are not appended: its records are of whole turns.";
                return Err(RequestError::wrong_value("shape", message.to_owned()));
            }
        }
    }
    read_messages(written, limits)
}

/// A row as a message of chat completions.
struct ChatMessage {
    row: usize,
    json: String,
    is_error: bool,
}

fn read_messages(
    written: Vec<ChatMessage>,
    limits: &RequestLimits,
) -> Result<Vec<RowMessage>, RequestError> {
    let messages: Vec<String> = written.iter().map(|message| message.json.clone()).collect();
    let body = ObjectWriter::new()
        .text("model", "-")
        .json("messages", &list(&messages))
        .end();
    let read = WireFormat::OpenAiChat.decode_request(&SharedText::new(body), limits);
    let read = read.map_err(|error| in_rows(error, &written))?;
    let messages = read.input.messages;
    for (message, written) in messages.iter().zip(&written) {
        check_parts(message, written.row)?;
    }
    let read = written
        .into_iter()
        .zip(messages)
        .map(|(written, mut message)| {
            for block in &mut message.blocks {
                if let Block::Result(result) = block {
                    result.is_error = written.is_error;
                }
            }
            message.raw = None;
            RowMessage {
                row: written.row,
                message,
            }
        });
    Ok(read.collect())
}

/// A part of a request is its upstream's to refuse; one of a row has to be one that can be told to any.
fn check_parts(message: &Message, row: usize) -> Result<(), RequestError> {
    let is_content =
        |block: &&Block| matches!(block, Block::Text(_) | Block::Refusal(_) | Block::Part(_));
    let contents = message.blocks.iter().filter(is_content);
    for (place, block) in contents.enumerate() {
        if let Block::Part(part) = block
            && content::media(part).is_none()
        {
            let param = format!("rows[{row}].content[{place}]");
            let message =
                format!("Invalid '{param}': a part is a text, an image, a file or a sound.");
            return Err(RequestError::wrong_value(param, message));
        }
    }
    Ok(())
}

/// The error of a message, as one of the row that it was.
fn in_rows(error: RequestError, written: &[ChatMessage]) -> RequestError {
    let place = error.param.as_deref().and_then(|param| {
        let rest = param.strip_prefix("messages[")?;
        let (place, rest) = rest.split_once(']')?;
        let place: usize = place.parse().ok()?;
        Some((format!("messages[{place}]"), place, rest.to_owned()))
    });
    match place {
        Some((was, place, rest)) => {
            let row = written.get(place).map_or(place, |message| message.row);
            RequestError {
                message: error.message.replace(&was, &format!("rows[{row}]")),
                param: Some(format!("rows[{row}]{rest}")),
                ..error
            }
        }
        None => RequestError {
            message: error.message.replace("'messages'", "'rows'"),
            param: error.param.map(|_| "rows".to_owned()),
            ..error
        },
    }
}

struct Row<'a> {
    place: usize,
    /// The row in errors.
    at: String,
    fields: ObjectFields<'a>,
}

/// Columns that the server fills in.
const GIVEN: [&str; 3] = ["id", "created_at", "conversation_id"];

fn check_known(fields: &ObjectFields<'_>, known: &[&str], at: &str) -> Result<(), RequestError> {
    for (name, value) in &fields.0 {
        if known.contains(&&**name) || raw::is_null(value) {
            continue;
        }
        let param = if at.is_empty() {
            name.to_string()
        } else {
            format!("{at}.{name}")
        };
        let message = if GIVEN.contains(&&**name) {
            format!("'{param}' is given by the server.")
        } else {
            format!("Unknown parameter: '{param}'.")
        };
        return Err(RequestError {
            code: Some("unknown_parameter"),
            ..RequestError::invalid(param, message)
        });
    }
    Ok(())
}

impl Row<'_> {
    fn text(&self, name: &str) -> Result<Option<String>, RequestError> {
        let Some(value) = self.fields.get(name) else {
            return Ok(None);
        };
        let text = raw::string(value).map(Cow::into_owned);
        let param = format!("{}.{name}", self.at);
        text.map(Some)
            .ok_or_else(|| RequestError::wrong_type(param, "a string"))
    }

    fn required(&self, name: &str) -> Result<String, RequestError> {
        let missing = || RequestError::missing(format!("{}.{name}", self.at));
        self.text(name)?.ok_or_else(missing)
    }

    fn wrong(&self, name: &str, message: &str) -> RequestError {
        let param = format!("{}.{name}", self.at);
        RequestError::wrong_value(param.clone(), format!("Invalid '{param}': {message}"))
    }

    fn role(&self, known: &[&str]) -> Result<String, RequestError> {
        let role = self.required("role")?;
        if known.contains(&&*role) {
            return Ok(role);
        }
        Err(self.wrong("role", &format!("it is one of: {}.", known.join(", "))))
    }

    /// Whether the result of the row is an error.
    fn is_error(&self, role: &str) -> Result<bool, RequestError> {
        match (role, self.text("status")?.as_deref()) {
            (_, None) | ("tool", Some("success")) => Ok(false),
            ("tool", Some("error")) => Ok(true),
            ("tool", Some("pending")) => Err(self.wrong(
                "status",
                "a result is appended once it is there; until then its call has none.",
            )),
            (_, Some(_)) => Err(self.wrong(
                "status",
                "it is 'success' or 'error', of a row with the role 'tool'.",
            )),
        }
    }

    fn message(&self, json: ObjectWriter, is_error: bool) -> ChatMessage {
        ChatMessage {
            row: self.place,
            json: json.end(),
            is_error,
        }
    }

    fn openai(&self) -> Result<ChatMessage, RequestError> {
        const KNOWN: [&str; 7] = [
            "role",
            "content",
            "content_json",
            "tool_calls",
            "tool_call_id",
            "name",
            "status",
        ];
        check_known(&self.fields, &KNOWN, &self.at)?;
        let role = self.role(&["system", "user", "assistant", "tool"])?;
        let content = self
            .fields
            .get("content_json")
            .or_else(|| self.fields.get("content"));
        let mut json = ObjectWriter::new().text("role", &role);
        for (name, value) in [
            ("content", content),
            ("tool_calls", self.fields.get("tool_calls")),
            ("tool_call_id", self.fields.get("tool_call_id")),
        ] {
            if let Some(value) = value {
                json = json.json(name, value.get());
            }
        }
        let is_error = self.is_error(&role)?;
        Ok(self.message(json, is_error))
    }

    fn langchain(&self) -> Result<ChatMessage, RequestError> {
        const KNOWN: [&str; 7] = [
            "role",
            "content",
            "tool_calls",
            "tool_call_id",
            "tool_name",
            "status",
            "metadata",
        ];
        check_known(&self.fields, &KNOWN, &self.at)?;
        let role = self.role(&["user", "assistant", "tool"])?;
        let text = self.required("content")?;
        let metadata = match self.fields.get("metadata") {
            None => ObjectFields(Vec::new()),
            Some(value) => {
                let param = format!("{}.metadata", self.at);
                let fields = ObjectFields::parse(value.get());
                let fields = fields.map_err(|_| RequestError::wrong_type(&param, "an object"))?;
                const OF_METADATA: [&str; 3] = ["content", "reasoning", "invalid_tool_calls"];
                check_known(&fields, &OF_METADATA, &param)?;
                fields
            }
        };
        let mut json = ObjectWriter::new().text("role", &role);
        let mut calls = self.langchain_calls("tool_calls", self.fields.get("tool_calls"))?;
        let invalid = metadata.get("invalid_tool_calls");
        calls.extend(self.langchain_calls("metadata.invalid_tool_calls", invalid)?);
        json = match metadata.get("content") {
            Some(parts) => json.json("content", parts.get()),
            None if text.is_empty() && !calls.is_empty() => json.json("content", "null"),
            None => json.text("content", &text),
        };
        if let Some(reasoning) = metadata.get("reasoning") {
            json = json.json("reasoning_content", reasoning.get());
        }
        if !calls.is_empty() {
            if role != "assistant" {
                return Err(self.wrong(
                    "tool_calls",
                    "only a row with the role 'assistant' makes calls.",
                ));
            }
            json = json.json("tool_calls", &list(&calls));
        }
        if role == "tool" {
            json = json.text("tool_call_id", &self.required("tool_call_id")?);
        }
        let is_error = self.is_error(&role)?;
        Ok(self.message(json, is_error))
    }

    /// LangChain's calls as those of a chat message. Arguments are an object, or a text where they are none.
    fn langchain_calls(
        &self,
        name: &str,
        calls: Option<&RawValue>,
    ) -> Result<Vec<String>, RequestError> {
        let Some(calls) = calls else {
            return Ok(Vec::new());
        };
        let param = format!("{}.{name}", self.at);
        let calls =
            raw::array(calls).ok_or_else(|| RequestError::wrong_type(&param, "an array"))?;
        let mut written = Vec::new();
        for (place, call) in calls.into_iter().enumerate() {
            let param = format!("{param}[{place}]");
            let fields = ObjectFields::parse(call.get());
            let fields = fields.map_err(|_| RequestError::wrong_type(&param, "an object"))?;
            check_known(&fields, &["id", "name", "args", "type", "error"], &param)?;
            let filled = |name: &str| {
                let text = raw::filled_string(fields.get(name)).map(Cow::into_owned);
                text.ok_or_else(|| RequestError::missing(format!("{param}.{name}")))
            };
            let arguments = match fields.get("args") {
                None => "{}".to_owned(),
                Some(args) => match raw::string(args) {
                    Some(text) => text.into_owned(),
                    None if raw::is_object(args) => args.get().to_owned(),
                    None => {
                        let param = format!("{param}.args");
                        return Err(RequestError::wrong_type(param, "an object"));
                    }
                },
            };
            written.push(chat_call(&filled("id")?, &filled("name")?, &arguments));
        }
        Ok(written)
    }

    fn blocks(&self) -> Result<Vec<ChatMessage>, RequestError> {
        check_known(&self.fields, &["role", "content"], &self.at)?;
        let role = self.role(&["user", "assistant"])?;
        let param = format!("{}.content", self.at);
        let Some(content) = self.fields.get("content") else {
            return Err(RequestError::missing(param));
        };
        let mut messages = Vec::new();
        let mut open = OpenBlocks::default();
        if raw::string(content).is_some() {
            let json = ObjectWriter::new()
                .text("role", &role)
                .json("content", content.get());
            return Ok(vec![self.message(json, false)]);
        }
        let blocks = raw::array(content);
        let blocks =
            blocks.ok_or_else(|| RequestError::wrong_type(&param, "a string or an array"))?;
        for (place, block) in blocks.into_iter().enumerate() {
            let param = format!("{param}[{place}]");
            let fields = ObjectFields::parse(block.get());
            let fields = fields.map_err(|_| RequestError::wrong_type(&param, "an object"))?;
            let text = |name: &str| {
                let text = fields.get(name).and_then(raw::string).map(Cow::into_owned);
                text.ok_or_else(|| RequestError::wrong_type(format!("{param}.{name}"), "a string"))
            };
            match (&*text("type")?, &*role) {
                ("text", _) => open.texts.push(text("text")?),
                ("thinking", "assistant") => open.thoughts.push(text("thinking")?),
                ("image", "user") => open.parts.push((open.texts.len(), image(&fields, &param)?)),
                ("tool_use", "assistant") => {
                    let input = fields.get("input").filter(|input| raw::is_object(input));
                    let wrong = || RequestError::wrong_type(format!("{param}.input"), "an object");
                    let input = input.ok_or_else(wrong)?;
                    let input = match invalid_arguments(input) {
                        Some(text) => text,
                        None => input.get().to_owned(),
                    };
                    open.calls
                        .push(chat_call(&text("id")?, &text("name")?, &input));
                }
                ("tool_result", _) => {
                    messages.extend(open.take(&role).map(|json| self.message(json, false)));
                    let said = match fields.get("content") {
                        None => String::new(),
                        Some(value) => raw::string(value)
                            .map_or_else(|| value.get().to_owned(), Cow::into_owned),
                    };
                    let json = ObjectWriter::new()
                        .text("role", "tool")
                        .text("tool_call_id", &text("tool_use_id")?)
                        .text("content", &said);
                    let is_error = fields.get("is_error").and_then(raw::boolean);
                    messages.push(self.message(json, is_error == Some(true)));
                }
                (kind, _) => {
                    let message = format!(
                        "Invalid '{param}': a block of the type '{kind}' is none that a row with the role '{role}' holds."
                    );
                    return Err(RequestError::wrong_value(param, message));
                }
            }
        }
        messages.extend(open.take(&role).map(|json| self.message(json, false)));
        Ok(messages)
    }
}

/// Blocks that become one message.
#[derive(Default)]
struct OpenBlocks {
    texts: Vec<String>,
    thoughts: Vec<String>,
    /// Images, each with the number of texts before it.
    parts: Vec<(usize, String)>,
    calls: Vec<String>,
}

impl OpenBlocks {
    fn take(&mut self, role: &str) -> Option<ObjectWriter> {
        let open = std::mem::take(self);
        if open.texts.is_empty() && open.parts.is_empty() && open.calls.is_empty() {
            return None;
        }
        let mut json = ObjectWriter::new().text("role", role);
        if role == "user" {
            let mut parts = Vec::new();
            let mut images = open.parts.into_iter().peekable();
            for (place, text) in open.texts.iter().enumerate() {
                while let Some((_, image)) = images.next_if(|(before, _)| *before <= place) {
                    parts.push(image);
                }
                parts.push(
                    ObjectWriter::new()
                        .text("type", "text")
                        .text("text", text)
                        .end(),
                );
            }
            parts.extend(images.map(|(_, image)| image));
            return Some(json.json("content", &list(&parts)));
        }
        json = match open.texts.is_empty() {
            true => json.json("content", "null"),
            false => json.text("content", &open.texts.concat()),
        };
        if !open.thoughts.is_empty() {
            json = json.text("reasoning_content", &open.thoughts.concat());
        }
        if !open.calls.is_empty() {
            json = json.json("tool_calls", &list(&open.calls));
        }
        Some(json)
    }
}

/// The text that an input stands for which is no object.
fn invalid_arguments(input: &RawValue) -> Option<String> {
    let fields = ObjectFields::parse(input.get()).ok()?;
    match &fields.0[..] {
        [(name, text)] if name == "invalid_arguments" => raw::string(text).map(Cow::into_owned),
        _ => None,
    }
}

fn image(block: &ObjectFields<'_>, param: &str) -> Result<String, RequestError> {
    let param = format!("{param}.source");
    let wrong = || {
        let message =
            format!("Invalid '{param}': an image is a 'url', or 'base64' with its media type.");
        RequestError::wrong_value(param.clone(), message)
    };
    let source = block.get("source").ok_or_else(wrong)?;
    let source = ObjectFields::parse(source.get()).map_err(|_| wrong())?;
    let text = |name: &str| source.get(name).and_then(raw::string).ok_or_else(wrong);
    let url = match &*text("type")? {
        "url" => text("url")?.into_owned(),
        "base64" => format!("data:{};base64,{}", text("media_type")?, text("data")?),
        _ => return Err(wrong()),
    };
    let url = ObjectWriter::new().text("url", &url).end();
    Ok(ObjectWriter::new()
        .text("type", "image_url")
        .json("image_url", &url)
        .end())
}

fn chat_call(id: &str, name: &str, arguments: &str) -> String {
    let function = ObjectWriter::new()
        .text("name", name)
        .json("arguments", &quoted(arguments))
        .end();
    ObjectWriter::new()
        .text("id", id)
        .text("type", "function")
        .json("function", &function)
        .end()
}

/// Puts results to the calls that they answer: those that wait in the conversation, then those of the rows themselves.
///
/// # Errors
/// A result that answers no call, and a message before the result of a call is there.
pub fn pair(rows: &[RowMessage], waiting: Vec<WaitingCall>) -> Result<PairedCalls, RequestError> {
    let mut paired = PairedCalls::default();
    let mut waiting = waiting;
    // Calls of the rows that have no result yet, by their place among those that are made.
    let mut open: Vec<usize> = Vec::new();
    for RowMessage { row, message } in rows {
        if message.role == Role::Tool {
            for block in &message.blocks {
                let Block::Result(result) = block else {
                    continue;
                };
                let given = GivenResult {
                    text: text_of(&result.content),
                    is_error: result.is_error,
                };
                let is_meant = |call: &WaitingCall| {
                    let handed = call.row.map(|row| row.id.handed());
                    call.tool_call_id == result.call_id || handed.as_ref() == Some(&result.call_id)
                };
                if let Some(at) = waiting.iter().position(is_meant) {
                    paired.completed.push((waiting.remove(at), given));
                    continue;
                }
                let made = &mut paired.made;
                let at = open
                    .iter()
                    .position(|at| made[*at].tool_call_id == result.call_id);
                let Some(at) = at else {
                    return Err(orphan(*row, &result.call_id));
                };
                made[open.remove(at)].result = Some(given);
            }
            continue;
        }
        let unanswered = waiting.first().map(|call| call.tool_call_id.clone());
        let unanswered =
            unanswered.or(open.first().map(|at| paired.made[*at].tool_call_id.clone()));
        if let Some(id) = unanswered {
            return Err(unanswered_call(*row, &id));
        }
        for call in calls_of(&message.blocks) {
            let is_there = open
                .iter()
                .any(|at| paired.made[*at].tool_call_id == call.id);
            if is_there {
                let param = format!("rows[{row}].tool_calls");
                let message = format!(
                    "Invalid '{param}': two calls have the id '{}'.",
                    shown(&call.id)
                );
                return Err(RequestError::wrong_value(param, message));
            }
            open.push(paired.made.len());
            paired.made.push(MadeCall {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                arguments: call.arguments.to_text(),
                result: None,
            });
        }
    }
    Ok(paired)
}

/// Characters of an id that an error repeats.
const ID_SHOWN_MAX: usize = 200;

fn shown(id: &str) -> String {
    id.chars().take(ID_SHOWN_MAX).collect()
}

fn orphan(row: usize, id: &str) -> RequestError {
    let param = format!("rows[{row}].tool_call_id");
    let message = format!(
        "Invalid '{param}': no call '{}' waits for a result in this conversation. A result follows the message that makes its call, and is given once.",
        shown(id)
    );
    RequestError {
        code: Some("orphan_result"),
        ..RequestError::invalid(param, message)
    }
}

fn unanswered_call(row: usize, id: &str) -> RequestError {
    let param = format!("rows[{row}]");
    let message = format!(
        "Invalid '{param}': the call '{}' has no result yet, which comes before anything else.",
        shown(id)
    );
    RequestError {
        code: Some("call_without_result"),
        ..RequestError::invalid(param, message)
    }
}
