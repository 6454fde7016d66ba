//! What must hold, and whether it does.

use super::figures::{Figure, Figures};
use super::scenarios::{Peer, Scenario};

/// One thing that must hold of the server's figure.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub scenario: Scenario,
    pub figure: Figure,
    pub must: Must,
}

#[derive(Clone, Copy, Debug)]
pub enum Must {
    Reach(f64),
    StayWithin(f64),
    /// So much of a peer's figure.
    ReachOf(Peer, f64),
    /// So many times a peer's figure.
    StayWithinTimes(Peer, f64),
    /// So much of the rate that a core allows when a request costs what it costs nginx and what its statements cost.
    ReachOfAllowed(f64),
    /// What the server adds to the direct connection is so many times what nginx adds.
    AddWithinTimes(f64),
    /// The median and so many times the same percentile of the floor.
    StayWithinMedianAndFloor(f64),
    /// So many times the server's own figure in another scenario.
    StayWithinTimesOf(Scenario, f64),
    /// What the server adds to the direct connection is so many times what it adds to another figure of the scenario.
    AddWithinTimesOf(Figure, f64),
}

pub const TARGETS: [Target; 17] = [
    Target {
        scenario: Scenario::Memory,
        figure: Figure::AtRestMib,
        must: Must::StayWithin(28.0),
    },
    Target {
        scenario: Scenario::Memory,
        figure: Figure::PerStreamKib,
        must: Must::StayWithin(40.0),
    },
    Target {
        scenario: Scenario::C64,
        figure: Figure::RequestsPerS,
        must: Must::ReachOf(Peer::Nginx, 0.18),
    },
    Target {
        scenario: Scenario::C64,
        figure: Figure::RequestsPerS,
        must: Must::ReachOfAllowed(0.6),
    },
    Target {
        scenario: Scenario::SseB1,
        figure: Figure::CpuPerEventUs,
        must: Must::StayWithinTimes(Peer::Nginx, 1.6),
    },
    Target {
        scenario: Scenario::SseB16,
        figure: Figure::EventsPerS,
        must: Must::Reach(300_000.0),
    },
    Target {
        scenario: Scenario::Open50,
        figure: Figure::FirstP50Us,
        must: Must::AddWithinTimes(2.0),
    },
    Target {
        scenario: Scenario::Turn1,
        figure: Figure::TotalP99Us,
        must: Must::StayWithinMedianAndFloor(2.0),
    },
    Target {
        scenario: Scenario::Turn64,
        figure: Figure::RequestsPerS,
        must: Must::Reach(2_500.0),
    },
    Target {
        scenario: Scenario::Turn64,
        figure: Figure::RequestsPerS,
        must: Must::ReachOf(Peer::Unrecorded, 0.7),
    },
    Target {
        scenario: Scenario::Turn64Sse,
        figure: Figure::RequestsPerS,
        must: Must::Reach(1_800.0),
    },
    Target {
        scenario: Scenario::Turn64Sse,
        figure: Figure::RequestsPerS,
        must: Must::ReachOf(Peer::Unrecorded, 0.7),
    },
    Target {
        scenario: Scenario::Replay,
        figure: Figure::EventsPerS,
        must: Must::Reach(500_000.0),
    },
    Target {
        scenario: Scenario::Conversation,
        figure: Figure::LastTurnP50Us,
        must: Must::AddWithinTimesOf(Figure::EarlyTurnP50Us, 1.5),
    },
    Target {
        scenario: Scenario::Crowd,
        figure: Figure::PerStreamKib,
        must: Must::StayWithin(40.0),
    },
    Target {
        scenario: Scenario::Stalled,
        figure: Figure::PerStreamKib,
        must: Must::StayWithin(40.0),
    },
    // Two runs of the same load differ by as much.
    Target {
        scenario: Scenario::Stalled,
        figure: Figure::LateP99Us,
        must: Must::StayWithinTimesOf(Scenario::Crowd, 1.25),
    },
];

/// How a target came out. What was not measured does not hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Holds { got: f64, bound: f64 },
    Fails { got: f64, bound: f64 },
    NotMeasured(Peer),
}

impl Verdict {
    pub fn holds(self) -> bool {
        matches!(self, Self::Holds { .. })
    }
}

impl Target {
    pub fn says(&self) -> String {
        let figure = self.figure.says();
        match self.must {
            Must::Reach(least) => format!("{figure} at least {least}"),
            Must::StayWithin(most) => format!("{figure} at most {most}"),
            Must::ReachOf(peer, share) => {
                format!("{figure} at least {share} of those of {}", peer.name())
            }
            Must::StayWithinTimes(peer, times) => {
                format!("{figure} at most {times} times that of {}", peer.name())
            }
            Must::ReachOfAllowed(share) => format!(
                "{figure} at least {share} of what nginx's CPU and the statements' floor allow"
            ),
            Must::AddWithinTimes(times) => {
                format!("{figure}: adds at most {times} times what nginx adds")
            }
            Must::StayWithinMedianAndFloor(times) => {
                format!("{figure} at most p50 and {times} times the floor's p99")
            }
            Must::StayWithinTimesOf(other, times) => {
                format!("{figure} at most {times} times that of {}", other.name())
            }
            Must::AddWithinTimesOf(other, times) => format!(
                "{figure}: adds at most {times} times what is added to {}",
                other.says()
            ),
        }
    }

    pub fn judge(&self, figures: &Figures) -> Verdict {
        self.try_judge(figures).unwrap_or_else(Verdict::NotMeasured)
    }

    /// `Err` names the peer whose figure is missing.
    fn try_judge(&self, figures: &Figures) -> Result<Verdict, Peer> {
        let of = |peer, figure| {
            let median = figures.median(self.scenario, peer, figure);
            median.ok_or(peer)
        };
        let got = of(Peer::Turnwright, self.figure)?;
        Ok(match self.must {
            Must::Reach(least) => reach(got, least),
            Must::StayWithin(most) => stay_within(got, most),
            Must::ReachOf(peer, share) => reach(got, share * of(peer, self.figure)?),
            Must::StayWithinTimes(peer, times) => stay_within(got, times * of(peer, self.figure)?),
            Must::ReachOfAllowed(share) => {
                let cost_us = of(Peer::Nginx, Figure::CpuPerRequestUs)?
                    + of(Peer::Floor, Figure::CpuPerRequestUs)?;
                reach(got, share * 1e6 / cost_us)
            }
            Must::AddWithinTimes(times) => {
                let direct = of(Peer::Direct, self.figure)?;
                let nginx_adds = of(Peer::Nginx, self.figure)? - direct;
                stay_within(got - direct, times * nginx_adds)
            }
            Must::StayWithinMedianAndFloor(times) => {
                let half = of(Peer::Turnwright, Figure::TotalP50Us)?;
                stay_within(got, half + times * of(Peer::Floor, self.figure)?)
            }
            Must::StayWithinTimesOf(other, times) => {
                let theirs = figures.median(other, Peer::Turnwright, self.figure);
                stay_within(got, times * theirs.ok_or(Peer::Turnwright)?)
            }
            Must::AddWithinTimesOf(other, times) => {
                let added = got - of(Peer::Direct, self.figure)?;
                let added_to_other = of(Peer::Turnwright, other)? - of(Peer::Direct, other)?;
                stay_within(added, times * added_to_other)
            }
        })
    }
}

fn reach(got: f64, bound: f64) -> Verdict {
    if got >= bound {
        Verdict::Holds { got, bound }
    } else {
        Verdict::Fails { got, bound }
    }
}

fn stay_within(got: f64, bound: f64) -> Verdict {
    if got <= bound {
        Verdict::Holds { got, bound }
    } else {
        Verdict::Fails { got, bound }
    }
}

#[cfg(test)]
mod tests;
