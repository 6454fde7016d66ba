//! Quotas: how many calls may be started in an hour, and how many tokens may be used in a minute.
//!
//! Hours and minutes are those of the clock, in UTC.

use crate::id::{OrgId, TurnId};
use crate::time::Timestamp;

/// Whose use a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaHolder {
    Organization,
    Key,
    EndUser,
}

impl QuotaHolder {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Organization => "organization",
            Self::Key => "key",
            Self::EndUser => "end_user",
        }
    }

    /// As an error calls it.
    pub fn called(self) -> &'static str {
        match self {
            Self::Organization => "organization",
            Self::Key => "API key",
            Self::EndUser => "user",
        }
    }
}

/// Calls that may be started in an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallQuota {
    pub of: QuotaHolder,
    /// The tool whose calls count; `None` counts those of all.
    pub tool: Option<String>,
    /// At least 1.
    pub calls_max: u32,
}

/// A call that is about to start, and the quotas in which it needs room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeCallQuotas {
    pub organization: OrgId,
    pub turn: TurnId,
    /// Those of end users only for a turn that names one.
    pub quotas: Vec<CallQuota>,
    pub at: Timestamp,
}

/// An hour, as hours since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockHour(pub i64);

/// A minute, as minutes since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockMinute(pub i64);

const HOUR_US: i64 = 3_600_000_000;
const MINUTE_US: i64 = 60_000_000;

impl ClockHour {
    pub fn of(at: Timestamp) -> Self {
        Self(at.0.div_euclid(HOUR_US))
    }

    /// The time when the next hour begins.
    pub fn end(self) -> Timestamp {
        Timestamp(self.0.saturating_add(1).saturating_mul(HOUR_US))
    }
}

impl ClockMinute {
    pub fn of(at: Timestamp) -> Self {
        Self(at.0.div_euclid(MINUTE_US))
    }

    /// The time when the next minute begins.
    pub fn end(self) -> Timestamp {
        Timestamp(self.0.saturating_add(1).saturating_mul(MINUTE_US))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockHour, ClockMinute};
    use crate::time::Timestamp;

    #[test]
    fn hours_and_minutes_begin_where_the_clocks_do() {
        for (at_us, hour, minute) in [
            (0, 0, 0),
            (59_999_999, 0, 0),
            (60_000_000, 0, 1),
            (3_599_999_999, 0, 59),
            (3_600_000_000, 1, 60),
            (-1, -1, -1),
        ] {
            let at = Timestamp(at_us);
            assert_eq!((ClockHour::of(at).0, ClockMinute::of(at).0), (hour, minute));
            assert!(ClockHour::of(at).end() > at && ClockMinute::of(at).end() > at);
        }
        assert_eq!(ClockHour(1).end(), Timestamp(7_200_000_000));
        assert_eq!(ClockMinute(1).end(), Timestamp(120_000_000));
    }
}
