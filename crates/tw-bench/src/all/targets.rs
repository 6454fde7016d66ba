//! Targets: bounds of figures that must hold, and whether they do.

use super::figures::{Figure, Figures};
use super::scenarios::{MeasuredPeer, Scenario};

/// A bound that the server's figure in a scenario must keep.
#[derive(Clone, Copy, Debug)]
pub struct SpeedTarget {
    pub scenario: Scenario,
    pub figure: Figure,
    pub must: TargetBound,
}

#[derive(Clone, Copy, Debug)]
pub enum TargetBound {
    Reach(f64),
    StayWithin(f64),
    /// At least this part of a peer's figure.
    ReachOf(MeasuredPeer, f64),
    /// At most so many times a peer's figure.
    StayWithinTimes(MeasuredPeer, f64),
    /// At least this part of the rate that a core allows when a request costs what it costs nginx
    /// and what its statements cost.
    ReachOfAllowed(f64),
    /// Addition to the direct connection, at most so many times what nginx adds.
    AddWithinTimes(f64),
    /// At most the median and so many times the same percentile of the floor.
    StayWithinMedianAndFloor(f64),
    /// At most so many times the server's own figure in another scenario.
    StayWithinTimesOf(Scenario, f64),
    /// Addition to the direct connection, at most so many times what the server adds to another figure of the scenario.
    AddWithinTimesOf(Figure, f64),
    /// A peer's figure is at least this part of the server's.
    PeerReaches(MeasuredPeer, f64),
    /// A peer's figure is at most so much more than the server's.
    PeerAddsWithin(MeasuredPeer, f64),
}

pub const TARGETS: [SpeedTarget; 27] = [
    SpeedTarget {
        scenario: Scenario::Memory,
        figure: Figure::AtRestMib,
        must: TargetBound::StayWithin(28.0),
    },
    SpeedTarget {
        scenario: Scenario::Memory,
        figure: Figure::PerStreamKib,
        must: TargetBound::StayWithin(40.0),
    },
    SpeedTarget {
        scenario: Scenario::C64,
        figure: Figure::RequestsPerS,
        must: TargetBound::ReachOf(MeasuredPeer::Nginx, 0.18),
    },
    SpeedTarget {
        scenario: Scenario::C64,
        figure: Figure::RequestsPerS,
        must: TargetBound::ReachOfAllowed(0.6),
    },
    SpeedTarget {
        scenario: Scenario::SseB1,
        figure: Figure::CpuPerEventUs,
        must: TargetBound::StayWithinTimes(MeasuredPeer::Nginx, 1.6),
    },
    SpeedTarget {
        scenario: Scenario::SseB16,
        figure: Figure::EventsPerS,
        must: TargetBound::Reach(300_000.0),
    },
    SpeedTarget {
        scenario: Scenario::Open50,
        figure: Figure::FirstP50Us,
        must: TargetBound::AddWithinTimes(2.0),
    },
    SpeedTarget {
        scenario: Scenario::Turn1,
        figure: Figure::TotalP99Us,
        must: TargetBound::StayWithinMedianAndFloor(2.0),
    },
    SpeedTarget {
        scenario: Scenario::Turn64,
        figure: Figure::RequestsPerS,
        must: TargetBound::Reach(2_500.0),
    },
    SpeedTarget {
        scenario: Scenario::Turn64,
        figure: Figure::RequestsPerS,
        must: TargetBound::ReachOf(MeasuredPeer::Unrecorded, 0.7),
    },
    SpeedTarget {
        scenario: Scenario::Turn64,
        figure: Figure::RequestsPerS,
        must: TargetBound::PeerReaches(MeasuredPeer::Postgres, 0.5),
    },
    SpeedTarget {
        scenario: Scenario::Turn64Sse,
        figure: Figure::FirstP50Us,
        must: TargetBound::PeerAddsWithin(MeasuredPeer::Postgres, 3_000.0),
    },
    SpeedTarget {
        scenario: Scenario::Turn64Sse,
        figure: Figure::RequestsPerS,
        must: TargetBound::Reach(1_800.0),
    },
    SpeedTarget {
        scenario: Scenario::Turn64Sse,
        figure: Figure::RequestsPerS,
        must: TargetBound::ReachOf(MeasuredPeer::Unrecorded, 0.7),
    },
    SpeedTarget {
        scenario: Scenario::Replay,
        figure: Figure::EventsPerS,
        must: TargetBound::Reach(500_000.0),
    },
    SpeedTarget {
        scenario: Scenario::Conversation,
        figure: Figure::LastTurnP50Us,
        must: TargetBound::AddWithinTimesOf(Figure::EarlyTurnP50Us, 1.5),
    },
    SpeedTarget {
        scenario: Scenario::Crowd,
        figure: Figure::PerStreamKib,
        must: TargetBound::StayWithin(40.0),
    },
    SpeedTarget {
        scenario: Scenario::Stalled,
        figure: Figure::PerStreamKib,
        must: TargetBound::StayWithin(40.0),
    },
    beside_chat(Scenario::PairChatMessages),
    beside_chat(Scenario::PairChatResponses),
    beside_chat(Scenario::PairMessagesChat),
    beside_chat(Scenario::PairMessagesMessages),
    beside_chat(Scenario::PairMessagesResponses),
    beside_chat(Scenario::PairResponsesChat),
    beside_chat(Scenario::PairResponsesMessages),
    beside_chat(Scenario::PairResponsesResponses),
    // Two runs of the same load differ by as much.
    SpeedTarget {
        scenario: Scenario::Stalled,
        figure: Figure::LateP99Us,
        must: TargetBound::StayWithinTimesOf(Scenario::Crowd, 1.25),
    },
];

/// The target of a pair of formats: what a piece of text costs beside chat completions at both ends.
const fn beside_chat(scenario: Scenario) -> SpeedTarget {
    SpeedTarget {
        scenario,
        figure: Figure::CpuPerDeltaUs,
        must: TargetBound::StayWithinTimesOf(Scenario::PairChatChat, 2.0),
    }
}

/// Results of a target. A target whose figures were not measured does not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetVerdict {
    Holds { got: f64, bound: f64 },
    Fails { got: f64, bound: f64 },
    NotMeasured(MeasuredPeer),
}

impl TargetVerdict {
    pub fn holds(self) -> bool {
        matches!(self, Self::Holds { .. })
    }
}

impl SpeedTarget {
    pub fn says(&self) -> String {
        let figure = self.figure.says();
        match self.must {
            TargetBound::Reach(least) => format!("{figure} at least {least}"),
            TargetBound::StayWithin(most) => format!("{figure} at most {most}"),
            TargetBound::ReachOf(peer, share) => {
                format!("{figure} at least {share} of those of {}", peer.name())
            }
            TargetBound::StayWithinTimes(peer, times) => {
                format!("{figure} at most {times} times that of {}", peer.name())
            }
            TargetBound::ReachOfAllowed(share) => format!(
                "{figure} at least {share} of what nginx's CPU and the statements' floor allow"
            ),
            TargetBound::AddWithinTimes(times) => {
                format!("{figure}: adds at most {times} times what nginx adds")
            }
            TargetBound::StayWithinMedianAndFloor(times) => {
                format!("{figure} at most p50 and {times} times the floor's p99")
            }
            TargetBound::StayWithinTimesOf(other, times) => {
                format!("{figure} at most {times} times that of {}", other.name())
            }
            TargetBound::AddWithinTimesOf(other, times) => format!(
                "{figure}: adds at most {times} times what is added to {}",
                other.says()
            ),
            TargetBound::PeerReaches(peer, share) => {
                format!(
                    "{figure}: that of {} is at least {share} of it",
                    peer.name()
                )
            }
            TargetBound::PeerAddsWithin(peer, more) => {
                format!("{figure}: that of {} is at most {more} more", peer.name())
            }
        }
    }

    pub fn judge(&self, figures: &Figures) -> TargetVerdict {
        self.try_judge(figures)
            .unwrap_or_else(TargetVerdict::NotMeasured)
    }

    /// Judges the target; `Err` names the peer whose figure is missing.
    fn try_judge(&self, figures: &Figures) -> Result<TargetVerdict, MeasuredPeer> {
        let of = |peer, figure| {
            let median = figures.median(self.scenario, peer, figure);
            median.ok_or(peer)
        };
        let got = of(MeasuredPeer::Turnwright, self.figure)?;
        Ok(match self.must {
            TargetBound::Reach(least) => reach(got, least),
            TargetBound::StayWithin(most) => stay_within(got, most),
            TargetBound::ReachOf(peer, share) => reach(got, share * of(peer, self.figure)?),
            TargetBound::StayWithinTimes(peer, times) => {
                stay_within(got, times * of(peer, self.figure)?)
            }
            TargetBound::ReachOfAllowed(share) => {
                let cost_us = of(MeasuredPeer::Nginx, Figure::CpuPerRequestUs)?
                    + of(MeasuredPeer::Floor, Figure::CpuPerRequestUs)?;
                reach(got, share * 1e6 / cost_us)
            }
            TargetBound::AddWithinTimes(times) => {
                let direct = of(MeasuredPeer::Direct, self.figure)?;
                let nginx_adds = of(MeasuredPeer::Nginx, self.figure)? - direct;
                stay_within(got - direct, times * nginx_adds)
            }
            TargetBound::StayWithinMedianAndFloor(times) => {
                let half = of(MeasuredPeer::Turnwright, Figure::TotalP50Us)?;
                stay_within(got, half + times * of(MeasuredPeer::Floor, self.figure)?)
            }
            TargetBound::StayWithinTimesOf(other, times) => {
                let theirs = figures.median(other, MeasuredPeer::Turnwright, self.figure);
                stay_within(got, times * theirs.ok_or(MeasuredPeer::Turnwright)?)
            }
            TargetBound::AddWithinTimesOf(other, times) => {
                let added = got - of(MeasuredPeer::Direct, self.figure)?;
                let added_to_other =
                    of(MeasuredPeer::Turnwright, other)? - of(MeasuredPeer::Direct, other)?;
                stay_within(added, times * added_to_other)
            }
            TargetBound::PeerReaches(peer, share) => reach(of(peer, self.figure)?, share * got),
            TargetBound::PeerAddsWithin(peer, more) => {
                stay_within(of(peer, self.figure)?, got + more)
            }
        })
    }
}

fn reach(got: f64, bound: f64) -> TargetVerdict {
    if got >= bound {
        TargetVerdict::Holds { got, bound }
    } else {
        TargetVerdict::Fails { got, bound }
    }
}

fn stay_within(got: f64, bound: f64) -> TargetVerdict {
    if got <= bound {
        TargetVerdict::Holds { got, bound }
    } else {
        TargetVerdict::Fails { got, bound }
    }
}

#[cfg(test)]
mod tests;
