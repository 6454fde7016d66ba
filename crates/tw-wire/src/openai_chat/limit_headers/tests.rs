use std::time::Duration;

use super::span;

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
