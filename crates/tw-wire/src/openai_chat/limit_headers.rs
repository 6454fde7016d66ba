//! Headers that tell how a limit of requests stands, named as OpenAI names them: its guide "Rate limits", section
//! "Rate limits in headers".

use std::time::Duration;

use tw_core::rate::BucketStanding;

pub fn of(standing: &BucketStanding) -> [(&'static str, String); 3] {
    [
        (
            "x-ratelimit-limit-requests",
            standing.limit.get().to_string(),
        ),
        (
            "x-ratelimit-remaining-requests",
            standing.remaining.to_string(),
        ),
        ("x-ratelimit-reset-requests", span(standing.full_in)),
    ]
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

#[cfg(test)]
mod tests;
