use super::{CalendarDay, CalendarMonth, Timestamp};

#[test]
fn points_in_time_are_written_as_rfc_3339_has_them() {
    for (seconds, written) in [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (951_868_800, "2000-03-01T00:00:00Z"),
        (1_800_000_000, "2027-01-15T08:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
        (-11_644_473_600, "1601-01-01T00:00:00Z"),
    ] {
        assert_eq!(Timestamp(seconds * 1_000_000).rfc3339(), written);
    }
    assert_eq!(Timestamp(1_999_999).rfc3339(), "1970-01-01T00:00:01Z");
    // None of them is too far away to be written.
    for end in [i64::MIN, i64::MAX] {
        assert!(Timestamp(end).rfc3339().ends_with('Z'));
    }
}

#[test]
fn days_are_read_as_they_are_written() {
    for (text, day) in [
        ("1970-01-01", 0),
        ("1970-02-28", 58),
        ("1972-02-29", 789),
        ("2000-02-29", 11_016),
        ("2026-11-29", 20_786),
        ("9999-12-31", 2_932_896),
    ] {
        assert_eq!(CalendarDay::parse(text), Some(CalendarDay(day)), "{text}");
        assert_eq!(CalendarDay(day).text(), text);
    }
    for text in [
        "",
        "1969-12-31",
        "2026-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-01-00",
        "2026-1-1",
        "26-01-01",
        "2026-01-01T",
        "+026-01-01",
        "2026/01/01",
    ] {
        assert_eq!(CalendarDay::parse(text), None, "{text}");
    }
}

#[test]
fn a_month_ends_where_the_next_begins() {
    for (day, month, next) in [
        ("1970-01-01", 0, "1970-02-01"),
        ("1970-12-31", 11, "1971-01-01"),
        ("2024-02-29", 649, "2024-03-01"),
        ("2026-11-29", 682, "2026-12-01"),
    ] {
        let begins = |text: &str| {
            let days = CalendarDay::parse(text).unwrap().0;
            Timestamp(days * 86_400 * 1_000_000)
        };
        let last = Timestamp(begins(day).0 + 86_399_999_999);
        assert_eq!(
            CalendarMonth::of(begins(day)),
            CalendarMonth(month),
            "{day}"
        );
        assert_eq!(CalendarMonth::of(last), CalendarMonth(month), "{day}");
        assert_eq!(CalendarMonth(month).end(), begins(next), "{day}");
        assert_eq!(CalendarDay::of(last).text(), day);
    }
}

#[test]
fn times_that_others_wrote_are_read() {
    for (text, expected) in [
        ("1970-01-01", Some(0)),
        ("1970-01-01 00:00:01", Some(1_000_000)),
        ("1970-01-01T00:00:01.5Z", Some(1_500_000)),
        ("1970-01-02 00:00:00.123Z", Some(86_400_123_000)),
        ("1970-01-01T01:00:00.0000019+01:00", Some(1)),
        ("1970-01-01 00:00-0230", Some(9_000_000_000)),
        ("1970-01-01 00:00:00+00", Some(0)),
        ("1970-01-01 00:00:60", Some(60_000_000)),
        ("1970-01-01 24:00:00", None),
        ("1970-02-30 00:00:00", None),
        ("1970-01-01 00:00:00.", None),
        ("1970-01-01 00:00:00.x", None),
        ("1970-01-01 0:0:0", None),
        ("1970-01-01 00:00:00:00", None),
        ("1970-01-01x", None),
        ("1970-01-01 00:00:00+é", None),
        ("é970-01-01", None),
        ("infinity", None),
        ("", None),
    ] {
        let found = Timestamp::parse(text).map(|at| at.0);
        assert_eq!(found, expected, "{text}");
    }
}
