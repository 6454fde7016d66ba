//! Points in time, as integers.

use std::time::Duration;

/// Microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn after(self, wait: Duration) -> Self {
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// Time from `earlier` until this; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Whole seconds since 1970, as the OpenAI format's `created` wants them.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The whole second as RFC 3339 writes it, in UTC: `1970-01-01T00:00:00Z`.
    pub fn rfc3339(self) -> String {
        let seconds = self.seconds();
        let (day, in_day) = (
            seconds.div_euclid(DAY_SECONDS),
            seconds.rem_euclid(DAY_SECONDS),
        );
        let (year, month, day) = date(day);
        let (hour, minute, second) = (in_day / 3_600, in_day / 60 % 60, in_day % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

const DAY_SECONDS: i64 = 86_400;

/// Year, month and day of the Gregorian calendar, from days since 1970-01-01: `civil_from_days` of Howard Hinnant's
/// "chrono-Compatible Low-Level Date Algorithms".
fn date(days: i64) -> (i64, i64, i64) {
    /// Days of 400 years, after which all repeats.
    const ERA_DAYS: i64 = 146_097;
    // From here on years begin with March, so that a leap day is the last of its year.
    let days = days + 719_468;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests;
