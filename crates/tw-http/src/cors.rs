//! Cross-origin access: the pages in browsers that may ask this server (the Fetch standard, section
//! "HTTP CORS protocol").
//!
//! A key is sent in a header, never in a cookie, so answers are for no one's credentials and any
//! header may be asked for: what a page may do is decided by the key that it has.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// The origins whose pages may ask, as a browser writes them in `Origin`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsOrigins {
    /// No page of another origin.
    #[default]
    None,
    Any,
    These(Vec<HeaderValue>),
}

/// Reasons for which a text is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOrigin {
    #[error("'*' stands for all origins, so it stands alone")]
    NotAlone,
    #[error(
        "an origin is '*', or a scheme and a host in small letters, such as https://chat.example.com:8443, without a path"
    )]
    NoOrigin,
}

/// Time for which a browser may keep what it was told of a route: the longest that Chromium heeds.
const MAX_AGE: Duration = Duration::from_secs(7200);

/// Headers of answers that a page may read, beside those that it always may.
const EXPOSED: [&str; 18] = [
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-requests-remaining",
    "anthropic-ratelimit-requests-reset",
    "request-id",
    "retry-after",
    "turnwright-changed",
    "turnwright-conversation",
    "turnwright-memory",
    "turnwright-repaired",
    "turnwright-tools-left-out",
    "turnwright-tools-shared",
    "turnwright-turn",
    "www-authenticate",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-request-id",
    "x-should-retry",
];

const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::PATCH, Method::DELETE];

impl CorsOrigins {
    /// Reads a list of exact origins, or `*` alone.
    ///
    /// # Errors
    /// [`BadOrigin`].
    pub fn parse(texts: &[String]) -> Result<Self, BadOrigin> {
        if texts.iter().any(|text| text == "*") {
            return match texts.len() {
                1 => Ok(Self::Any),
                _ => Err(BadOrigin::NotAlone),
            };
        }
        let origins = texts.iter().map(|text| origin(text));
        let origins = origins.collect::<Option<Vec<_>>>();
        match origins.ok_or(BadOrigin::NoOrigin)? {
            none if none.is_empty() => Ok(Self::None),
            these => Ok(Self::These(these)),
        }
    }

    /// Layer that answers preflights and adds headers to answers; `None` where no page of another origin may ask.
    pub(crate) fn layer(&self) -> Option<CorsLayer> {
        let origins = match self {
            Self::None => return None,
            Self::Any => AllowOrigin::any(),
            Self::These(origins) => AllowOrigin::list(origins.clone()),
        };
        Some(
            CorsLayer::new()
                .allow_origin(origins)
                .allow_methods(METHODS)
                .allow_headers(AllowHeaders::mirror_request())
                .expose_headers(EXPOSED.map(HeaderName::from_static))
                .max_age(MAX_AGE),
        )
    }
}

/// A text that is written as browsers write it, since it is compared with what they send.
fn origin(text: &str) -> Option<HeaderValue> {
    if text.contains('*') {
        return None;
    }
    let url = url::Url::parse(text).ok()?;
    let written = url.origin();
    // A scheme such as that of an extension has no origin to a parser of URLs.
    let as_written = if written.is_tuple() {
        written.ascii_serialization()
    } else {
        format!("{}://{}", url.scheme(), url.host_str()?)
    };
    (as_written == text).then(|| HeaderValue::from_str(text).ok())?
}

#[cfg(test)]
mod tests;
