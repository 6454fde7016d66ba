use clap::ValueEnum;
use tw_wire::format::WireFormat;

use super::super::figures::{Figure, Figures};
use super::super::scenarios::{MeasuredPeer, Scenario};
use super::{SpeedTarget, TARGETS, TargetBound, TargetVerdict};
use crate::load::answer::ExpectedForm;

/// Figures of one scenario.
type Known = &'static [(MeasuredPeer, Figure, f64)];

fn judge(figure: Figure, must: TargetBound, known: Known) -> TargetVerdict {
    let scenario = Scenario::C64;
    let mut figures = Figures::default();
    for (peer, figure, value) in known {
        figures.note(scenario, *peer, *figure, *value);
        // What another scenario showed does not count.
        figures.note(Scenario::Rate2k, *peer, *figure, 1e12);
    }
    SpeedTarget {
        scenario,
        figure,
        must,
    }
    .judge(&figures)
}

const RATE: Figure = Figure::RequestsPerS;
const CPU: Figure = Figure::CpuPerRequestUs;
const FIRST: Figure = Figure::FirstP50Us;
const TAIL: Figure = Figure::TotalP99Us;

#[test]
fn each_kind_of_target_at_its_bound_and_beyond() {
    use MeasuredPeer::{Direct, Floor, Nginx, Postgres, Turnwright, Unrecorded};
    let cases: &[(Figure, TargetBound, Known, Known, f64)] = &[
        (
            RATE,
            TargetBound::Reach(10.0),
            &[(Turnwright, RATE, 10.0)],
            &[(Turnwright, RATE, 9.9)],
            10.0,
        ),
        (
            CPU,
            TargetBound::StayWithin(10.0),
            &[(Turnwright, CPU, 10.0)],
            &[(Turnwright, CPU, 10.1)],
            10.0,
        ),
        (
            RATE,
            TargetBound::ReachOf(Nginx, 0.5),
            &[(Turnwright, RATE, 50.0), (Nginx, RATE, 100.0)],
            &[(Turnwright, RATE, 49.0), (Nginx, RATE, 100.0)],
            50.0,
        ),
        (
            RATE,
            TargetBound::ReachOf(Unrecorded, 0.5),
            &[(Turnwright, RATE, 50.0), (Unrecorded, RATE, 100.0)],
            &[
                (Turnwright, RATE, 49.0),
                (Unrecorded, RATE, 100.0),
                (Nginx, RATE, 1.0),
            ],
            50.0,
        ),
        (
            CPU,
            TargetBound::StayWithinTimes(Nginx, 1.5),
            &[(Turnwright, CPU, 15.0), (Nginx, CPU, 10.0)],
            &[(Turnwright, CPU, 15.1), (Nginx, CPU, 10.0)],
            15.0,
        ),
        (
            RATE,
            TargetBound::ReachOfAllowed(0.5),
            &[
                (Turnwright, RATE, 5_000.0),
                (Nginx, CPU, 20.0),
                (Floor, CPU, 80.0),
            ],
            &[
                (Turnwright, RATE, 4_999.0),
                (Nginx, CPU, 20.0),
                (Floor, CPU, 80.0),
            ],
            5_000.0,
        ),
        (
            FIRST,
            TargetBound::AddWithinTimes(2.0),
            &[
                (Turnwright, FIRST, 400.0),
                (Nginx, FIRST, 250.0),
                (Direct, FIRST, 100.0),
            ],
            &[
                (Turnwright, FIRST, 401.0),
                (Nginx, FIRST, 250.0),
                (Direct, FIRST, 100.0),
            ],
            300.0,
        ),
        (
            TAIL,
            TargetBound::StayWithinMedianAndFloor(2.0),
            &[
                (Turnwright, TAIL, 500.0),
                (Turnwright, Figure::TotalP50Us, 200.0),
                (Floor, TAIL, 150.0),
            ],
            &[
                (Turnwright, TAIL, 501.0),
                (Turnwright, Figure::TotalP50Us, 200.0),
                (Floor, TAIL, 150.0),
            ],
            500.0,
        ),
        (
            FIRST,
            TargetBound::AddWithinTimesOf(TAIL, 1.5),
            &[
                (Turnwright, FIRST, 400.0),
                (Turnwright, TAIL, 250.0),
                (Direct, FIRST, 100.0),
                (Direct, TAIL, 50.0),
            ],
            &[
                (Turnwright, FIRST, 401.0),
                (Turnwright, TAIL, 250.0),
                (Direct, FIRST, 100.0),
                (Direct, TAIL, 50.0),
            ],
            300.0,
        ),
        (
            RATE,
            TargetBound::PeerReaches(Postgres, 0.5),
            &[(Turnwright, RATE, 100.0), (Postgres, RATE, 50.0)],
            &[(Turnwright, RATE, 100.0), (Postgres, RATE, 49.0)],
            50.0,
        ),
        (
            FIRST,
            TargetBound::PeerAddsWithin(Postgres, 30.0),
            &[(Turnwright, FIRST, 10.0), (Postgres, FIRST, 40.0)],
            &[(Turnwright, FIRST, 10.0), (Postgres, FIRST, 41.0)],
            40.0,
        ),
    ];
    for (figure, must, at_bound, beyond, expected) in cases {
        let TargetVerdict::Holds { bound, .. } = judge(*figure, *must, at_bound) else {
            panic!("{must:?} does not hold for {at_bound:?}");
        };
        assert!((bound - expected).abs() < 1e-6, "{must:?}: {bound}");
        let verdict = judge(*figure, *must, beyond);
        assert!(
            matches!(verdict, TargetVerdict::Fails { .. }),
            "{must:?} holds for {beyond:?}"
        );
        for (at, (missing, _, _)) in at_bound.iter().enumerate() {
            let mut rest = at_bound.to_vec();
            rest.remove(at);
            let verdict = judge(*figure, *must, rest.leak());
            assert_eq!(verdict, TargetVerdict::NotMeasured(*missing), "{must:?}");
            assert!(!verdict.holds());
        }
    }
}

#[test]
fn a_figure_beside_that_of_another_scenario() {
    let judge = |got: f64, other: Option<f64>| {
        let mut figures = Figures::default();
        figures.note(Scenario::Stalled, MeasuredPeer::Turnwright, TAIL, got);
        if let Some(other) = other {
            figures.note(Scenario::Crowd, MeasuredPeer::Turnwright, TAIL, other);
        }
        let target = SpeedTarget {
            scenario: Scenario::Stalled,
            figure: TAIL,
            must: TargetBound::StayWithinTimesOf(Scenario::Crowd, 1.5),
        };
        target.judge(&figures)
    };
    assert!(judge(150.0, Some(100.0)).holds());
    assert!(!judge(151.0, Some(100.0)).holds());
    assert_eq!(
        judge(1.0, None),
        TargetVerdict::NotMeasured(MeasuredPeer::Turnwright),
        "alone"
    );
}

#[test]
fn every_pair_of_formats_stands_beside_that_of_chat() {
    let mut pairs = Vec::new();
    for client in WireFormat::ALL {
        for upstream in WireFormat::ALL {
            let name = format!("pair-{}-{}", client.reader_word(), upstream.reader_word());
            let scenario = Scenario::from_str(&name, false).expect(&name);
            let shape = scenario.shape();
            let formats = (shape.form, shape.upstream);
            assert_eq!(formats, (ExpectedForm::Stream(client), upstream), "{name}");
            pairs.push(scenario);
        }
    }
    for scenario in pairs {
        let targets: Vec<SpeedTarget> = TARGETS
            .into_iter()
            .filter(|target| target.scenario == scenario)
            .collect();
        if scenario == Scenario::PairChatChat {
            assert_eq!(targets.len(), 0);
            continue;
        }
        let figures_of = |got| {
            let mut figures = Figures::default();
            let chat = Scenario::PairChatChat;
            for (scenario, value) in [(scenario, got), (chat, 3.0)] {
                figures.note(
                    scenario,
                    MeasuredPeer::Turnwright,
                    Figure::CpuPerDeltaUs,
                    value,
                );
            }
            figures
        };
        let [target] = targets[..] else {
            panic!("{scenario:?}: {targets:?}");
        };
        assert!(target.judge(&figures_of(6.0)).holds(), "{scenario:?}");
        assert!(!target.judge(&figures_of(6.1)).holds(), "{scenario:?}");
    }
}

#[test]
fn the_targets_are_measured_where_they_are_set() {
    for target in TARGETS {
        let peers = target.scenario.shape().peers;
        assert!(peers.contains(&MeasuredPeer::Turnwright), "{target:?}");
        match target.must {
            TargetBound::ReachOf(peer, _)
            | TargetBound::StayWithinTimes(peer, _)
            | TargetBound::PeerReaches(peer, _)
            | TargetBound::PeerAddsWithin(peer, _) => {
                assert!(peers.contains(&peer), "{target:?}");
            }
            TargetBound::ReachOfAllowed(_) => {
                assert!(peers.contains(&MeasuredPeer::Nginx), "{target:?}")
            }
            TargetBound::AddWithinTimes(_) => {
                assert!(
                    peers.contains(&MeasuredPeer::Nginx) && peers.contains(&MeasuredPeer::Direct),
                    "{target:?}"
                );
            }
            TargetBound::AddWithinTimesOf(..) => {
                assert!(peers.contains(&MeasuredPeer::Direct), "{target:?}")
            }
            TargetBound::StayWithinTimesOf(other, _) => {
                assert!(
                    other.shape().peers.contains(&MeasuredPeer::Turnwright),
                    "{target:?}"
                );
                assert!(other < target.scenario, "{target:?}: measured too late");
            }
            TargetBound::Reach(_)
            | TargetBound::StayWithin(_)
            | TargetBound::StayWithinMedianAndFloor(_) => {}
        }
    }
}
