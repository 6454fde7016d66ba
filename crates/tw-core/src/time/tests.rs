use super::Timestamp;

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
