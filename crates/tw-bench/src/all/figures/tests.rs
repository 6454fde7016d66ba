use std::time::Duration;

use super::super::scenarios::{MeasuredPeer, Scenario};
use super::{Figure, Figures};
use crate::load::Observed;

#[test]
fn medians() {
    for (values, expected) in [
        (&[][..], None),
        (&[3.0], Some(3.0)),
        (&[9.0, 1.0], Some(5.0)),
        (&[9.0, 1.0, 2.0], Some(2.0)),
        (&[4.0, 1.0, 9.0, 2.0], Some(3.0)),
    ] {
        let mut figures = Figures::default();
        for value in values {
            figures.note(
                Scenario::C1,
                MeasuredPeer::Nginx,
                Figure::RequestsPerS,
                *value,
            );
        }
        let median = figures.median(Scenario::C1, MeasuredPeer::Nginx, Figure::RequestsPerS);
        assert_eq!(median, expected, "{values:?}");
    }
}

#[test]
fn a_run_in_figures() {
    let observed = Observed {
        window: Duration::from_secs(2),
        requests: 4,
        events: 1000,
        deltas: 500,
        totals: [40, 10, 20, 30].map(Duration::from_micros).to_vec(),
        firsts: [4, 1, 2, 3].map(Duration::from_micros).to_vec(),
        server_cpu: Duration::from_millis(1),
        resident_before_kib: 10_000,
        resident_peak_kib: 90_000,
        foreign_share: 0.1,
        ..Observed::default()
    };
    let cases = [
        (Scenario::SseB1, Figure::RequestsPerS, Some(2.0)),
        (Scenario::SseB1, Figure::EventsPerS, Some(500.0)),
        (Scenario::SseB1, Figure::CpuPerRequestUs, Some(250.0)),
        (Scenario::SseB1, Figure::CpuPerEventUs, Some(1.0)),
        (Scenario::PairMessagesChat, Figure::CpuPerDeltaUs, Some(2.0)),
        (Scenario::SseB1, Figure::TotalP50Us, Some(20.0)),
        (Scenario::SseB1, Figure::TotalP99Us, Some(40.0)),
        (Scenario::SseB1, Figure::FirstP50Us, Some(2.0)),
        (Scenario::SseB1, Figure::Foreign, Some(0.1)),
        (Scenario::SseB1, Figure::PerStreamKib, None),
        (Scenario::C64, Figure::EventsPerS, None),
        (Scenario::C64, Figure::CpuPerDeltaUs, None),
        (Scenario::Memory, Figure::PerStreamKib, Some(40.0)),
        (Scenario::Memory, Figure::RequestsPerS, None),
    ];
    for (scenario, figure, expected) in cases {
        let mut figures = Figures::default();
        figures.note_run(
            scenario,
            &scenario.shape(),
            MeasuredPeer::Turnwright,
            &observed,
        );
        let median = figures.median(scenario, MeasuredPeer::Turnwright, figure);
        let is_equal = match (median, expected) {
            (Some(got), Some(expected)) => (got - expected).abs() < 1e-6,
            (got, expected) => got == expected,
        };
        assert!(is_equal, "{scenario:?} {figure:?}: {median:?}");
    }
}
