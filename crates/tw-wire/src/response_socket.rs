//! Responses over a WebSocket: what a client's messages say, and what it is told beside the events of responses.
//!
//! Follows `WebSocketResponseCreateEvent` and `WebSocketErrorEvent` of the Open Responses document (92c12d9) and OpenAI's
//! guide "WebSocket mode" (2026).
//!
//! Known differences:
//! - `stream` and `stream_options` are passed over, as some clients send them;
//! - the response that goes on from one that was only prepared (`generate: false`) names as the one before it that
//!   which the prepared one continued: its request holds the prepared input itself.

mod prepared;

use std::borrow::Cow;

use tw_core::json::shared::SharedText;

use crate::client_error::ClientError;
use crate::client_request::{RequestError, RequestErrorKind};
use crate::openai_chat::raw::{self, NotFields, ObjectFields};
use crate::openai_chat::write;
use crate::openai_responses::error;

pub use prepared::PreparedInput;

/// The only kind of message that a client sends.
const CREATE: &str = "response.create";

/// Fields of the message that are none of the request's.
const OF_TRANSPORT: [&str; 6] = [
    "type",
    "stream",
    "stream_options",
    "stream_id",
    "background",
    "generate",
];

/// A message that asks for a response.
#[derive(Debug)]
pub struct CreateMessage {
    /// The body of the request that it makes: that of a stream.
    pub body: SharedText,
    /// The response that it continues, as the client names it.
    pub continues: Option<String>,
    pub lane: EventLane,
    pub wants: SocketWish,
}

/// What is to become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketWish {
    Response,
    /// Its input is taken, and a later message goes on from there: the model is not asked.
    Preparation,
}

/// The lane of a connection on which a client wants the events of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventLane {
    /// The JSON of its id.
    id: Option<String>,
}

impl EventLane {
    /// The event with its lane, if the client named one.
    pub fn on(&self, event: &str) -> String {
        match (&self.id, event.strip_prefix('{')) {
            (Some(id), Some(rest)) => format!("{{\"stream_id\":{id},{rest}"),
            (Some(_) | None, _) => event.to_owned(),
        }
    }
}

/// Reads a client's message.
///
/// # Errors
/// What is wrong with the message; what is wrong with the request is found when that is read.
pub fn read(message: &str) -> Result<CreateMessage, RequestError> {
    let fields = ObjectFields::parse(message).map_err(|error| match error {
        NotFields::Json(error) => RequestError::whole(
            RequestErrorKind::Invalid,
            format!("The message is not a JSON object: {error}."),
        ),
        NotFields::Duplicate(name) => {
            RequestError::invalid(name.clone(), format!("'{name}' is given twice."))
        }
    })?;
    let kind = fields.get("type");
    let kind = kind.ok_or_else(|| RequestError::missing("type"))?;
    if raw::string(kind).as_deref() != Some(CREATE) {
        let message = format!("The only message that a client sends is of the type '{CREATE}'.");
        return Err(RequestError::wrong_value("type", message));
    }
    let is = |name: &str, value: bool| fields.get(name).and_then(raw::boolean) == Some(value);
    if is("background", true) {
        let message = "'background' is not taken over a WebSocket.";
        return Err(RequestError {
            code: Some("unsupported_parameter"),
            ..RequestError::invalid("background", message)
        });
    }
    let generate = fields.get("generate").filter(|raw| !raw::is_null(raw));
    if generate.is_some_and(|raw| raw::boolean(raw).is_none()) {
        return Err(RequestError::wrong_type("generate", "a boolean"));
    }
    let wants = if is("generate", false) {
        SocketWish::Preparation
    } else {
        SocketWish::Response
    };
    let mut out = b"{\"stream\":true".to_vec();
    for (name, value) in &fields.0 {
        if !OF_TRANSPORT.contains(&&**name) {
            write::foreign_key(&mut out, name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    out.push(b'}');
    let continues = raw::filled_string(fields.get("previous_response_id"));
    let lane = fields.get("stream_id");
    if lane.is_some_and(|lane| raw::string(lane).is_none()) {
        return Err(RequestError::wrong_type("stream_id", "a string"));
    }
    Ok(CreateMessage {
        body: SharedText::new(String::from_utf8(out).unwrap_or_default()),
        continues: continues.map(Cow::into_owned),
        lane: EventLane {
            id: lane.map(|lane| lane.get().to_owned()),
        },
        wants,
    })
}

/// The event of an error, with the status that it would have over HTTP.
pub fn error_event(told: &ClientError, status: u16, request_id: &str) -> String {
    let rendered = error::render(told, Some(request_id));
    let text = std::str::from_utf8(&rendered).unwrap_or_default();
    let whole = ObjectFields::parse(text).unwrap_or_default();
    let inner = whole.get("error").map_or("{}", |inner| inner.get());
    let inner = ObjectFields::parse(inner).unwrap_or_default();
    let mut out = b"{\"type\":\"error\"".to_vec();
    write::key(&mut out, "status");
    write::number(&mut out, status);
    write::key(&mut out, "error");
    out.push(b'{');
    for (name, value) in &inner.0 {
        write::foreign_key(&mut out, name);
        // A code has to be there.
        match inner
            .get("type")
            .filter(|_| name == "code" && value.get() == "null")
        {
            Some(kind) => out.extend_from_slice(kind.get().as_bytes()),
            None => out.extend_from_slice(value.get().as_bytes()),
        }
    }
    out.extend_from_slice(b"}}");
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests;
