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

/// Reading times that others have written.
impl Timestamp {
    /// Reads `2025-01-01`, with a time of day, a fraction of its seconds and an offset from UTC where those are written;
    /// without an offset it is UTC. `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let day = CalendarDay::parse(text.get(..10)?)?;
        let rest = text.get(10..)?;
        let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
            return rest.is_empty().then(|| Self::of_parts(day, 0, 0))?;
        };
        let (clock, offset_minutes) = split_offset(rest)?;
        let mut parts = clock.split(':');
        let hour = digits(parts.next()?, 23)?;
        let minute = digits(parts.next()?, 59)?;
        let (second, micros) = match parts.next() {
            None => (0, 0),
            Some(seconds) => {
                let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
                if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                let fraction = format!("{:0<6.6}", fraction);
                // A leap second is the next minute's first.
                (digits(whole, 60)?, fraction.parse().ok()?)
            }
        };
        if parts.next().is_some() {
            return None;
        }
        let seconds = hour * 3_600 + minute * 60 + second - offset_minutes * 60;
        Self::of_parts(day, seconds, micros)
    }

    fn of_parts(day: CalendarDay, seconds: i64, micros: i64) -> Option<Self> {
        let seconds = day.0.checked_mul(DAY_SECONDS)?.checked_add(seconds)?;
        let micros = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
        Some(Self(micros))
    }
}

/// A time of day, and the minutes that its zone is ahead of UTC.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, offset) = text.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let offset = offset.get(1..)?;
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None => (offset.get(..2)?, offset.get(2..)?),
    };
    let minutes = if minutes.is_empty() { "00" } else { minutes };
    Some((
        clock.trim_end(),
        sign * (digits(hours, 23)? * 60 + digits(minutes, 59)?),
    ))
}

/// A number of two digits.
fn digits(text: &str, max: i64) -> Option<i64> {
    let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = is_number.then(|| text.parse().ok())??;
    (number <= max).then_some(number)
}

/// A day of the calendar in UTC, as days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalendarDay(pub i64);

/// A month of the calendar in UTC, as months since January 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalendarMonth(pub i64);

impl CalendarDay {
    pub fn of(at: Timestamp) -> Self {
        Self(at.seconds().div_euclid(DAY_SECONDS))
    }

    /// Reads `YYYY-MM-DD`; `None` for what is no day of the years 1970 to 9999.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let number = |digits: &str| -> Option<i64> {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok())?
        };
        let year = number(text.get(..4)?)?;
        let month = number(text.get(5..7)?)?;
        let day = number(text.get(8..)?)?;
        if year < 1970 || !(1..=12).contains(&month) || day < 1 {
            return None;
        }
        let found = Self(first_day(year, month) + day - 1);
        // The 30th of February is a day of March.
        (found.text() == text).then_some(found)
    }

    /// The day as `YYYY-MM-DD`.
    pub fn text(self) -> String {
        let (year, month, day) = date(self.0);
        format!("{year:04}-{month:02}-{day:02}")
    }
}

impl CalendarMonth {
    pub fn of(at: Timestamp) -> Self {
        let (year, month, _) = date(CalendarDay::of(at).0);
        Self((year - 1970) * 12 + month - 1)
    }

    /// The time when the next month begins.
    pub fn end(self) -> Timestamp {
        let next = self.0 + 1;
        let days = first_day(1970 + next.div_euclid(12), next.rem_euclid(12) + 1);
        Timestamp(days.saturating_mul(DAY_SECONDS).saturating_mul(1_000_000))
    }
}

/// Days from 1970-01-01 to the first of a month, the reverse of [`date`].
fn first_day(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
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
