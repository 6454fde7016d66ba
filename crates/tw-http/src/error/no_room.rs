//! Refusals for want of room, and the headers that tell how a limit of requests stands.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::rate::BucketStanding;
use tw_runtime::limiter::{LimitKind, LimitSubject, ReachedLimit, RoomRefused};

use super::{ApiError, OVERLOAD_RETRY_AFTER_S};

/// Headers of a limit, named as OpenAI names them (its guide "Rate limits", section "Rate limits in headers").
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");

impl ApiError {
    /// The error of a server that has no room as a whole: the caller did nothing wrong.
    pub(crate) fn overloaded() -> Self {
        let mut error = Self::new(
            503,
            "server_error",
            Some("overloaded"),
            "The server has no room for another request now.",
        );
        error.retry_after_s = Some(OVERLOAD_RETRY_AFTER_S);
        error
    }

    pub(crate) fn no_room(no_room: &RoomRefused) -> Self {
        let limited = match no_room {
            RoomRefused::Overloaded => return Self::overloaded(),
            RoomRefused::Limited(limited) => limited,
        };
        let retry_after_s = seconds_up(limited.retry_after).max(1);
        let mut error = Self::new(
            429,
            "rate_limit_error",
            Some("rate_limit_exceeded"),
            message(limited, retry_after_s),
        );
        error.retry_after_s = Some(retry_after_s);
        error.requests = limited.requests;
        error
    }
}

fn message(limited: &ReachedLimit, retry_after_s: u32) -> String {
    let whose = match limited.whose {
        LimitSubject::Key => "API key",
        LimitSubject::Organization => "organization",
    };
    let what = match limited.what {
        LimitKind::RequestsPerMinute => "requests per minute",
        LimitKind::TurnsAtOnce => "requests at once",
        LimitKind::StreamsAtOnce => "open streams at once",
    };
    format!(
        "This {whose} has reached its limit of {} {what}: 0 left. Try again in {retry_after_s} s.",
        limited.max
    )
}

/// Adds the headers of the standing of a limit of requests.
pub(crate) fn put_standing(headers: &mut HeaderMap, standing: &BucketStanding) {
    headers.insert(LIMIT, HeaderValue::from(standing.limit.get()));
    headers.insert(REMAINING, HeaderValue::from(standing.remaining));
    if let Ok(reset) = HeaderValue::from_str(&span(standing.full_in)) {
        headers.insert(RESET, reset);
    }
}

/// A span as OpenAI writes it: `12ms`, `1.5s`, `6m0s`; whole milliseconds, rounded up.
fn span(span: Duration) -> String {
    let millis = span.as_micros().div_ceil(1_000);
    let (minutes, seconds, rest) = (millis / 60_000, millis / 1_000 % 60, millis % 1_000);
    let fraction = format!(".{rest:03}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    match (minutes, millis) {
        (0, 1..1_000) => format!("{millis}ms"),
        (0, _) => format!("{seconds}{fraction}s"),
        _ => format!("{minutes}m{seconds}{fraction}s"),
    }
}

fn seconds_up(span: Duration) -> u32 {
    u32::try_from(span.as_micros().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{seconds_up, span};

    #[test]
    fn spans_are_written_as_openai_writes_them() {
        for (micros, written) in [
            (0, "0s"),
            (1, "1ms"),
            (12_000, "12ms"),
            (999_001, "1s"),
            (1_500_000, "1.5s"),
            (1_050_000, "1.05s"),
            (59_999_999, "1m0s"),
            (60_000_000, "1m0s"),
            (360_000_000, "6m0s"),
            (90_020_000, "1m30.02s"),
        ] {
            assert_eq!(span(Duration::from_micros(micros)), written);
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (micros, seconds) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(seconds_up(Duration::from_micros(micros)), seconds);
        }
        assert_eq!(seconds_up(Duration::MAX), u32::MAX);
    }
}
