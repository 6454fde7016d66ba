//! A tool's request as it is written to the connection.

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::OutgoingRequest;
use super::failure::FailureKind;
use super::target::RequestTarget;

/// Most headers of a request.
pub const REQUEST_HEADERS_MAX: usize = 64;
/// Longest value of a request's header, in bytes.
pub const REQUEST_HEADER_BYTES_MAX: usize = 8 * 1024;

const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

/// Headers that this client writes itself, or that are between neighbours.
const HEADERS_OF_OURS: [HeaderName; 11] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Further headers of that kind, for which there are no constants.
const HEADERS_OF_OURS_OTHER: [&str; 2] = ["keep-alive", "proxy-connection"];

/// Checks one header as [`super::EgressClient::send`] does.
///
/// # Errors
/// [`FailureKind::BadRequest`].
pub fn check_header(name: &str, value: &str) -> Result<(), FailureKind> {
    header(name, value).map(|_| ())
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), FailureKind> {
    let name: HeaderName = name.parse().map_err(|_| FailureKind::BadRequest)?;
    let is_ours = HEADERS_OF_OURS.contains(&name) || HEADERS_OF_OURS_OTHER.contains(&name.as_str());
    if is_ours || value.len() > REQUEST_HEADER_BYTES_MAX {
        return Err(FailureKind::BadRequest);
    }
    // Beyond ASCII it goes out as UTF-8; control characters are refused.
    let value = HeaderValue::from_bytes(value.as_bytes());
    let mut value = value.map_err(|_| FailureKind::BadRequest)?;
    // Any of them may hold a secret.
    value.set_sensitive(true);
    Ok((name, value))
}

/// # Errors
/// [`FailureKind::BadRequest`], and [`FailureKind::BadUrl`] for a path that HTTP cannot say.
pub(super) fn request(
    outgoing: OutgoingRequest,
    target: &RequestTarget,
) -> Result<Request<Bytes>, FailureKind> {
    if !METHODS.contains(&outgoing.method) || outgoing.headers.len() > REQUEST_HEADERS_MAX {
        return Err(FailureKind::BadRequest);
    }
    let mut headers = HeaderMap::new();
    let authority = target.authority();
    let host = HeaderValue::from_str(&authority).map_err(|_| FailureKind::BadUrl)?;
    headers.insert(HOST, host);
    // A compressed answer could be small on the wire and large in memory: none is asked for,
    // and one that comes all the same is not decoded.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for (name, value) in &outgoing.headers {
        let (name, value) = header(name, value)?;
        headers.append(name, value);
    }
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(concat!(
            "turnwright/",
            env!("CARGO_PKG_VERSION")
        )));
    // Nothing is said of a body that is empty, but some servers want to hear it (RFC 9110, 8.6).
    let may_have_body = [Method::POST, Method::PUT, Method::PATCH].contains(&outgoing.method);
    if may_have_body && outgoing.body.is_empty() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let uri: http::Uri = target
        .path_and_query
        .parse()
        .map_err(|_| FailureKind::BadUrl)?;
    let mut request = Request::new(outgoing.body);
    *request.method_mut() = outgoing.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(request)
}
