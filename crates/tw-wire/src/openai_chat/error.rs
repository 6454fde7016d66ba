//! Errors as OpenAI writes them: `{"error": {"message", "type", "param", "code"}}`.
//!
//! Known difference: `request_id` stands inside the object where there is one, since a stream has
//! no header left to carry it.

use tw_core::fault::{FaultClass, TurnFault};

use super::request::{RequestError, RequestErrorKind};
use super::write;

/// An error and the HTTP status that it is sent with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorParts {
    pub status: u16,
    pub message: String,
    /// The field `type`.
    pub kind: String,
    pub param: Option<String>,
    pub code: Option<String>,
}

/// The error's JSON.
pub fn render(error: &ErrorParts, request_id: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"error\":{".to_vec();
    write::key(&mut out, "message");
    write::string(&mut out, &error.message);
    write::key(&mut out, "type");
    write::string(&mut out, &error.kind);
    for (name, value) in [("param", &error.param), ("code", &error.code)] {
        write::key(&mut out, name);
        match value {
            Some(text) => write::string(&mut out, text),
            None => out.extend_from_slice(b"null"),
        }
    }
    if let Some(id) = request_id {
        write::key(&mut out, "request_id");
        write::string(&mut out, id);
    }
    out.extend_from_slice(b"}}");
    out
}

/// The error that a client is sent for a turn's fault.
pub fn of_fault(fault: &TurnFault) -> ErrorParts {
    let upstream_kind = |other: &str| fault.kind.clone().unwrap_or_else(|| other.to_owned());
    let (status, kind, code) = match fault.class {
        FaultClass::Refused { status } => (
            status,
            upstream_kind("invalid_request_error"),
            fault.code.clone(),
        ),
        FaultClass::UpstreamFailed => (
            502,
            "upstream_error".to_owned(),
            Some("upstream_failed".to_owned()),
        ),
        FaultClass::UpstreamReported => (502, upstream_kind("upstream_error"), fault.code.clone()),
        // A client that watches for it finds the upstream's own name of it.
        FaultClass::UpstreamLimited if fault.is_used_up() => {
            (429, upstream_kind("insufficient_quota"), fault.code.clone())
        }
        FaultClass::UpstreamLimited => (
            429,
            "rate_limit_error".to_owned(),
            Some("rate_limit_exceeded".to_owned()),
        ),
        FaultClass::UpstreamSilent => (
            504,
            "upstream_error".to_owned(),
            Some("upstream_timeout".to_owned()),
        ),
        FaultClass::Deadline => (504, "server_error".to_owned(), Some("deadline".to_owned())),
        FaultClass::Interrupted => (
            503,
            "server_error".to_owned(),
            Some("interrupted".to_owned()),
        ),
        FaultClass::Cancelled => (
            409,
            "conflict_error".to_owned(),
            Some("cancelled".to_owned()),
        ),
        FaultClass::Internal => (500, "server_error".to_owned(), None),
    };
    let param = match fault.class {
        FaultClass::Refused { .. } | FaultClass::UpstreamReported => fault.param.clone(),
        FaultClass::UpstreamFailed
        | FaultClass::UpstreamLimited
        | FaultClass::UpstreamSilent
        | FaultClass::Deadline
        | FaultClass::Interrupted
        | FaultClass::Cancelled
        | FaultClass::Internal => None,
    };
    ErrorParts {
        status,
        message: fault.message.clone(),
        kind,
        param,
        code,
    }
}

/// The error that a client is sent for a request that is refused.
pub fn of_request(error: &RequestError) -> ErrorParts {
    ErrorParts {
        status: match error.kind {
            RequestErrorKind::Invalid => 400,
            RequestErrorKind::TooLarge => 413,
        },
        message: error.message.clone(),
        kind: "invalid_request_error".to_owned(),
        param: error.param.clone(),
        code: error.code.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
