use super::super::figures::{Figure, Figures};
use super::super::scenarios::{MeasuredPeer, Scenario};
use super::table;

#[test]
fn a_table_has_what_was_measured() {
    let mut figures = Figures::default();
    for (peer, figure, value) in [
        (MeasuredPeer::Nginx, Figure::EventsPerS, 1_400_000.0),
        (MeasuredPeer::Turnwright, Figure::EventsPerS, 350_000.0),
        (MeasuredPeer::Nginx, Figure::Foreign, 0.02),
        (MeasuredPeer::Turnwright, Figure::Foreign, 0.031),
        (MeasuredPeer::Turnwright, Figure::CpuPerEventUs, 2.9),
    ] {
        figures.note(Scenario::SseB16, peer, figure, value);
    }
    let expected = "
sse-b16: 200 deltas without pause, 16 events to a write, 32 connections
                                  nginx   turnwright        / nginx
  events/s                      1400000       350000           0.25
  CPU us/event                        -         2.90              -
  foreign CPU                      0.02         0.03
  PASS  events/s at least 300000: 350000 (bound 300000)
";
    assert_eq!(table(Scenario::SseB16, &figures), expected);
}
