use std::time::Duration;

use super::percentile;

#[test]
fn percentiles_are_values_that_occurred() {
    let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
    for (count, percent, expected) in [
        (200, 50, Some(100)),
        (200, 99, Some(198)),
        (200, 100, Some(200)),
        (199, 50, Some(100)),
        (3, 99, Some(3)),
        (1, 50, Some(1)),
        (1, 99, Some(1)),
        (0, 50, None),
    ] {
        let expected = expected.map(Duration::from_micros);
        assert_eq!(
            percentile(&times[..count], percent),
            expected,
            "{percent} % of {count}"
        );
    }
}
