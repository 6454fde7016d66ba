//! Errors as Anthropic writes them: `{"type": "error", "error": {"type", "message"}, "request_id"}`.

use crate::client_error::{ClientError, ErrorKind};
use crate::openai_chat::write;

/// Words for a kind of error, each with the HTTP status that the API sends it with.
const KINDS: [(&str, u16); 10] = [
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// The code of a request that cannot be part of a conversation that the server holds. Follows `_thread_state.py` of
/// anthropic-sdk-python 2.14.0.
pub const NO_THREADS: &str = "thread_unsupported_request";

/// The HTTP status that a kind of error stands for.
pub fn status_of(kind: &str) -> Option<u16> {
    let known = KINDS.iter().find(|(word, _)| *word == kind);
    known.map(|(_, status)| *status)
}

/// The error's JSON. The upstream's own word for its kind is kept where it is one of this format.
pub fn render(error: &ClientError, request_id: Option<&str>) -> Vec<u8> {
    let mut out = b"{\"type\":\"error\",\"error\":{".to_vec();
    write::key(&mut out, "type");
    let told = error.upstream_kind.as_deref();
    let own = told.and_then(|told| KINDS.iter().find(|(word, _)| *word == told));
    write::quoted(
        &mut out,
        own.map_or_else(|| kind_word(error.kind), |(word, _)| word),
    );
    write::key(&mut out, "message");
    write::string(&mut out, &error.message);
    if error.code.as_deref() == Some(NO_THREADS) {
        write::key(&mut out, "details");
        out.extend_from_slice(b"{\"error_code\":");
        write::quoted(&mut out, NO_THREADS);
        out.extend_from_slice(b",\"unsupported\":[\"thread\"]}");
    }
    out.push(b'}');
    if let Some(id) = request_id {
        write::key(&mut out, "request_id");
        write::string(&mut out, id);
    }
    out.push(b'}');
    out
}

fn kind_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid
        | ErrorKind::MethodNotAllowed
        | ErrorKind::Conflict
        | ErrorKind::Gone
        | ErrorKind::KeyReused
        | ErrorKind::EffectsRan
        | ErrorKind::Cancelled => "invalid_request_error",
        ErrorKind::Unauthenticated => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::Limited | ErrorKind::UpstreamLimited => "rate_limit_error",
        ErrorKind::QuotaUsedUp => "billing_error",
        ErrorKind::Overloaded => "overloaded_error",
        ErrorKind::BodyTimeout | ErrorKind::UpstreamSilent | ErrorKind::Deadline => "timeout_error",
        ErrorKind::UpstreamFailed
        | ErrorKind::UpstreamReported
        | ErrorKind::Unavailable
        | ErrorKind::Interrupted
        | ErrorKind::Internal => "api_error",
        ErrorKind::Refused { status } => {
            let known = KINDS.iter().find(|(_, have)| *have == status);
            known.map_or("invalid_request_error", |(word, _)| word)
        }
    }
}
