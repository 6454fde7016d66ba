//! `time_now`: one moment, written for a reader in one zone.

use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{self, TimeZone};
use jiff::{Timestamp, ZonedDateTime};
use serde_json::Value;

/// Longest zone name looked up, in bytes; the longest name in the database has 32.
const ZONE_BYTES_MAX: usize = 64;

/// Most close names that an error offers.
const SUGGESTIONS_MAX: usize = 3;

/// Least likeness (0 to 1) of a name that is offered; measured on misspelt city names, where lower values offer noise.
const LIKENESS_MIN: f64 = 0.7;

#[derive(Debug, thiserror::Error)]
pub(super) enum ClockError {
    #[error(
        "zone must be a string: an IANA time zone such as Europe/Paris, or an offset such as +05:30"
    )]
    NotText,
    #[error(
        "zone is longer than {ZONE_BYTES_MAX} bytes; use an IANA time zone such as Europe/Paris"
    )]
    TooLong,
    #[error("unknown time zone {name:?}; {}", advice(.close))]
    Unknown { name: String, close: Vec<String> },
    #[error("offset {text:?} is not valid; write it like +05:30")]
    Offset { text: String },
    #[error("the current time cannot be written as a date")]
    Clock,
    #[error("writing the result as JSON")]
    Encode(#[source] serde_json::Error),
}

/// The fields in the order the model reads them.
#[derive(serde::Serialize)]
struct Answer {
    zone: String,
    iso: String,
    date: String,
    time: String,
    weekday: String,
    utc_offset: String,
    unix_seconds: i64,
}

pub(super) fn answer(arguments: &Value, now_us: i64) -> Result<String, ClockError> {
    let (zone, name) = match arguments.get("zone") {
        None | Some(Value::Null) => (TimeZone::UTC, "UTC".to_owned()),
        Some(Value::String(text)) => find(text.trim())?,
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(ClockError::NotText);
        }
    };
    // Whole seconds, always downwards, so that every field names the same second before 1970 too.
    let unix_seconds = now_us.div_euclid(1_000_000);
    let moment = Timestamp::from_second(unix_seconds)
        .map_err(|_| ClockError::Clock)?
        .to_zoned_datetime(zone);
    let answer = Answer {
        zone: name,
        iso: written(&moment, "%Y-%m-%dT%H:%M:%S%:z")?,
        date: written(&moment, "%Y-%m-%d")?,
        time: written(&moment, "%H:%M:%S")?,
        weekday: written(&moment, "%A")?,
        utc_offset: written(&moment, "%:z")?,
        unix_seconds,
    };
    serde_json::to_string(&answer).map_err(ClockError::Encode)
}

fn written(moment: &ZonedDateTime, format: &str) -> Result<String, ClockError> {
    jiff::fmt::strtime::format(format, moment).map_err(|_| ClockError::Clock)
}

fn find(text: &str) -> Result<(TimeZone, String), ClockError> {
    if text.len() > ZONE_BYTES_MAX {
        return Err(ClockError::TooLong);
    }
    if text.starts_with(['+', '-']) {
        // The parser also reads POSIX rules, but none of those begins with a sign.
        let zone = DateTimeParser::new()
            .parse_time_zone(text)
            .map_err(|_| ClockError::Offset {
                text: text.to_owned(),
            })?;
        let offset = zone.to_fixed_offset().map_err(|_| ClockError::Offset {
            text: text.to_owned(),
        })?;
        return Ok((zone, offset.to_string()));
    }
    match TimeZone::get(text) {
        Ok(zone) if !zone.is_unknown() => {
            let name = zone.iana_name().unwrap_or(text).to_owned();
            Ok((zone, name))
        }
        Ok(_) | Err(_) => Err(ClockError::Unknown {
            name: text.to_owned(),
            close: close_to(text),
        }),
    }
}

/// The names most like `text`, best first.
///
/// The last part counts as a name of its own: models ask for "Kolkata" and "New York".
fn close_to(text: &str) -> Vec<String> {
    let wanted = text.to_lowercase().replace(' ', "_");
    let mut close: Vec<(f64, String)> = tz::db()
        .available()
        .filter_map(|name| {
            let name = name.as_str();
            let lower = name.to_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            let likeness = strsim::normalized_damerau_levenshtein(&wanted, &lower)
                .max(strsim::normalized_damerau_levenshtein(&wanted, city));
            (likeness >= LIKENESS_MIN).then(|| (likeness, name.to_owned()))
        })
        .collect();
    // Equal likeness keeps the order of names, so that the same question gets the same answer.
    close.sort_by(|left, right| {
        right
            .0
            .total_cmp(&left.0)
            .then_with(|| left.1.cmp(&right.1))
    });
    close.truncate(SUGGESTIONS_MAX);
    close.into_iter().map(|(_, name)| name).collect()
}

fn advice(close: &[String]) -> String {
    if close.is_empty() {
        "use an IANA time zone such as Europe/Paris, or an offset such as +05:30".to_owned()
    } else {
        format!("did you mean {}?", close.join(", "))
    }
}
