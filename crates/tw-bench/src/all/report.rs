//! The tables.

use std::fmt::Write;

use super::figures::{Figure, Figures};
use super::scenarios::{MeasuredPeer, Scenario};
use super::targets::{SpeedTarget, TARGETS, TargetVerdict};

/// Columns, from left to right.
const PEERS: [MeasuredPeer; 6] = [
    MeasuredPeer::Direct,
    MeasuredPeer::Nginx,
    MeasuredPeer::Turnwright,
    MeasuredPeer::Postgres,
    MeasuredPeer::Unrecorded,
    MeasuredPeer::Floor,
];

/// A scenario's medians, and how its targets came out.
pub fn table(scenario: Scenario, figures: &Figures) -> String {
    let shape = scenario.shape();
    let peers: Vec<MeasuredPeer> = PEERS
        .into_iter()
        .filter(|peer| shown(scenario, *peer, figures).next().is_some())
        .collect();
    let beside = [MeasuredPeer::Nginx, MeasuredPeer::Unrecorded]
        .into_iter()
        .find(|peer| peers.contains(peer));
    let mut out = String::new();
    // Writing to memory does not fail.
    let _ = writeln!(out, "\n{}: {}", scenario.name(), shape.says);
    let _ = write!(out, "  {:<24}", "");
    for peer in &peers {
        let _ = write!(out, " {:>12}", peer.name());
    }
    if let Some(beside) = beside {
        let _ = write!(out, " {:>14}", format!("/ {}", beside.name()));
    }
    out.push('\n');
    for figure in Figure::ALL {
        let of = |peer| figures.median(scenario, peer, figure);
        if !peers.iter().any(|peer| of(*peer).is_some()) {
            continue;
        }
        let _ = write!(out, "  {:<24}", figure.says());
        for peer in &peers {
            let _ = write!(out, " {:>12}", number(of(*peer)));
        }
        if let Some(beside) = beside
            && figure != Figure::Foreign
        {
            let ratio = of(MeasuredPeer::Turnwright)
                .zip(of(beside))
                .map(|(ours, theirs)| ours / theirs);
            let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            let _ = write!(out, " {ratio:>14}");
        }
        out.push('\n');
    }
    for target in TARGETS.iter().filter(|target| target.scenario == scenario) {
        let _ = writeln!(out, "  {}", line(target, target.judge(figures)));
    }
    out
}

/// The line of a target.
pub fn line(target: &SpeedTarget, verdict: TargetVerdict) -> String {
    let says = target.says();
    let (word, values) = match verdict {
        TargetVerdict::Holds { got, bound } => ("PASS", Some((got, bound))),
        TargetVerdict::Fails { got, bound } => ("FAIL", Some((got, bound))),
        TargetVerdict::NotMeasured(peer) => {
            return format!("FAIL  {says}: not measured for {}", peer.name());
        }
    };
    let (got, bound) = values.unzip();
    format!("{word}  {says}: {} (bound {})", number(got), number(bound))
}

fn shown(scenario: Scenario, peer: MeasuredPeer, figures: &Figures) -> impl Iterator<Item = f64> {
    Figure::ALL
        .into_iter()
        .filter_map(move |figure| figures.median(scenario, peer, figure))
}

/// A number with as many digits as mean something.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests;
