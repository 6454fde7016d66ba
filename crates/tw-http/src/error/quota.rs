//! Refusals for want of tokens.

use http::{HeaderMap, HeaderName, HeaderValue};
use tw_runtime::quotas::TokensReached;
use tw_wire::client_error::ErrorKind;

use super::ApiError;

impl ApiError {
    /// The error of a caller whose tokens for the minute are used up.
    pub(crate) fn tokens_reached(reached: &TokensReached) -> Self {
        let message = format!(
            "This {} has reached its limit of {} tokens per minute: {} are used, 0 left. Try again in {} s.",
            reached.of.called(),
            reached.tokens_max,
            reached.used,
            reached.resets_in_s
        );
        let mut error = Self::new(ErrorKind::Limited, Some("rate_limit_exceeded"), message);
        error.retry_after_s = Some(reached.resets_in_s);
        error.tokens = Some(*reached);
        error
    }
}

/// Adds the headers that tell how a quota of tokens stands.
pub(crate) fn put_tokens(headers: &mut HeaderMap, reached: &TokensReached) {
    let left = reached.tokens_max.saturating_sub(reached.used);
    headers.insert(WHOSE, HeaderValue::from_static(reached.of.as_str()));
    headers.insert(LIMIT, HeaderValue::from(reached.tokens_max));
    headers.insert(LEFT, HeaderValue::from(left));
    headers.insert(RESET, HeaderValue::from(reached.resets_in_s));
}

const WHOSE: HeaderName = HeaderName::from_static("turnwright-quota-of");
const LIMIT: HeaderName = HeaderName::from_static("turnwright-quota-limit-tokens");
const LEFT: HeaderName = HeaderName::from_static("turnwright-quota-left-tokens");
const RESET: HeaderName = HeaderName::from_static("turnwright-quota-reset-s");
