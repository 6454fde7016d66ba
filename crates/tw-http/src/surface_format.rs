//! The format in which a path is answered, also where there is no route: a client reads errors in its own.

use http::HeaderMap;
use tw_wire::format::WireFormat;

use crate::error::FORMAT_DEFAULT;

/// Paths that are answered, with all below them, in one format.
const OF_ONE_FORMAT: [(&str, WireFormat); 2] = [
    ("/v1/messages", WireFormat::AnthropicMessages),
    ("/v1/responses", WireFormat::OpenAiResponses),
];
/// The paths, with all below them, that clients of several formats ask for alike; their headers tell which.
const OF_SEVERAL: &str = "/v1/models";

/// The format of answers to a request for a path.
pub(crate) fn of(path: &str, headers: &HeaderMap) -> WireFormat {
    let named = OF_ONE_FORMAT
        .iter()
        .find(|(top, _)| is_at_or_below(path, top));
    if let Some((_, format)) = named {
        return *format;
    }
    if is_at_or_below(path, OF_SEVERAL) {
        return of_client(headers);
    }
    FORMAT_DEFAULT
}

/// The format that the client speaks, as far as its headers tell.
pub(crate) fn of_client(headers: &HeaderMap) -> WireFormat {
    WireFormat::of_client(|name| headers.contains_key(name)).unwrap_or(FORMAT_DEFAULT)
}

fn is_at_or_below(path: &str, top: &str) -> bool {
    let below = path.strip_prefix(top);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
