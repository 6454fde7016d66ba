//! Refusals for want of room, and the headers that tell how a limit of requests stands.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::rate::BucketStanding;
use tw_runtime::limiter::{LimitKind, LimitSubject, ReachedLimit, RoomRefused};
use tw_wire::client_error::ErrorKind;
use tw_wire::format::WireFormat;

use super::{ApiError, OVERLOAD_RETRY_AFTER_S};

impl ApiError {
    /// The error of a server that has no room as a whole: the caller did nothing wrong.
    pub(crate) fn overloaded() -> Self {
        let mut error = Self::new(
            ErrorKind::Overloaded,
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
            ErrorKind::Limited,
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
pub(crate) fn put_standing(headers: &mut HeaderMap, format: WireFormat, standing: &BucketStanding) {
    for (name, value) in format.limit_headers(standing) {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

fn seconds_up(span: Duration) -> u32 {
    u32::try_from(span.as_micros().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::seconds_up;

    #[test]
    fn seconds_are_rounded_up() {
        for (micros, seconds) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(seconds_up(Duration::from_micros(micros)), seconds);
        }
        assert_eq!(seconds_up(Duration::MAX), u32::MAX);
    }
}
