//! Errors, in the shape of all of OpenAI's: as the body of an answer, in a stream's event, and in a failed response.

use serde_json::value::RawValue;
use tw_core::fault::TurnFault;

use crate::client_error::ClientError;
use crate::openai_chat::raw::ObjectFields;
use crate::openai_chat::{self, write};

/// The error's JSON.
pub fn render(error: &ClientError, request_id: Option<&str>) -> Vec<u8> {
    openai_chat::error::render(error, request_id)
}

/// Writes the error of a fault as a stream tells it.
pub(super) fn write_payload(out: &mut Vec<u8>, fault: &TurnFault) {
    let whole = render(&ClientError::of_fault(fault), None);
    let text = std::str::from_utf8(&whole).unwrap_or_default();
    let inner = ObjectFields::parse(text).ok();
    let inner = inner.and_then(|fields| fields.get("error"));
    out.extend_from_slice(inner.map_or("{}", RawValue::get).as_bytes());
}

/// Writes the error of a fault as a response holds it, where it has to have a code.
pub(super) fn write_held(out: &mut Vec<u8>, fault: &TurnFault) {
    let error = ClientError::of_fault(fault);
    out.push(b'{');
    write::key(out, "code");
    write::string(out, error.code.as_deref().unwrap_or(SERVER_ERROR));
    write::key(out, "message");
    write::string(out, &error.message);
    out.push(b'}');
}

/// OpenAI's code for a failure that has none of its own.
const SERVER_ERROR: &str = "server_error";
