//! Figures that were measured, over all rounds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::scenarios::{LoadShape, MeasuredPeer, Scenario};
use crate::load::Observed;
use crate::load::answer::ExpectedForm;
use crate::percentile::percentile;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    RequestsPerS,
    EventsPerS,
    CpuPerRequestUs,
    CpuPerEventUs,
    /// The same for the events that hold a piece of text, of which all formats have the same number.
    CpuPerDeltaUs,
    TotalP50Us,
    TotalP99Us,
    FirstP50Us,
    FirstP99Us,
    /// Resident memory after one request.
    AtRestMib,
    PerStreamKib,
    /// Time by which a piece of text came later than its pace.
    LateP99Us,
    /// A turn of a conversation near its beginning, and near its end.
    EarlyTurnP50Us,
    LastTurnP50Us,
    /// CPUs that others used.
    Foreign,
}

impl Figure {
    pub const ALL: [Self; 15] = [
        Self::RequestsPerS,
        Self::EventsPerS,
        Self::CpuPerRequestUs,
        Self::CpuPerEventUs,
        Self::CpuPerDeltaUs,
        Self::TotalP50Us,
        Self::TotalP99Us,
        Self::FirstP50Us,
        Self::FirstP99Us,
        Self::AtRestMib,
        Self::PerStreamKib,
        Self::LateP99Us,
        Self::EarlyTurnP50Us,
        Self::LastTurnP50Us,
        Self::Foreign,
    ];

    pub fn says(self) -> &'static str {
        match self {
            Self::RequestsPerS => "requests/s",
            Self::EventsPerS => "events/s",
            Self::CpuPerRequestUs => "CPU us/request",
            Self::CpuPerEventUs => "CPU us/event",
            Self::CpuPerDeltaUs => "CPU us/delta",
            Self::TotalP50Us => "whole answer p50 us",
            Self::TotalP99Us => "whole answer p99 us",
            Self::FirstP50Us => "first delta p50 us",
            Self::FirstP99Us => "first delta p99 us",
            Self::AtRestMib => "MiB after one request",
            Self::PerStreamKib => "KiB per open stream",
            Self::LateP99Us => "delta late by, p99 us",
            Self::EarlyTurnP50Us => "turns 6 to 15 p50 us",
            Self::LastTurnP50Us => "turns 191 to 200 p50 us",
            Self::Foreign => "foreign CPU",
        }
    }
}

/// Positions of turns, from 0; each range has one turn with a call.
const EARLY_TURNS: Range<usize> = 5..15;
const LAST_TURNS: Range<usize> = 190..200;

/// Values of the figures, one a round.
#[derive(Debug, Default)]
pub struct Figures(BTreeMap<(Scenario, MeasuredPeer, Figure), Vec<f64>>);

impl Figures {
    pub fn note(&mut self, scenario: Scenario, peer: MeasuredPeer, figure: Figure, value: f64) {
        let values = self.0.entry((scenario, peer, figure)).or_default();
        values.push(value);
    }

    /// The median over the rounds; `None` if it was not measured.
    pub fn median(&self, scenario: Scenario, peer: MeasuredPeer, figure: Figure) -> Option<f64> {
        let mut values = self.0.get(&(scenario, peer, figure))?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        if values.len() % 2 == 1 {
            return Some(upper);
        }
        Some((values.get(middle.checked_sub(1)?)? + upper) / 2.0)
    }

    /// Notes how long the turns of a conversation took, from the first on.
    pub fn note_conversation(&mut self, peer: MeasuredPeer, took: &[Duration]) {
        for (figure, turns) in [
            (Figure::EarlyTurnP50Us, EARLY_TURNS),
            (Figure::LastTurnP50Us, LAST_TURNS),
        ] {
            let mut times = took.get(turns).unwrap_or_default().to_vec();
            times.sort_unstable();
            if let Some(time) = percentile(&times, 50) {
                let time_us = time.as_secs_f64() * 1e6;
                self.note(Scenario::Conversation, peer, figure, time_us);
            }
        }
    }

    /// Notes what one run showed.
    pub fn note_run(
        &mut self,
        scenario: Scenario,
        shape: &LoadShape,
        peer: MeasuredPeer,
        observed: &Observed,
    ) {
        let mut note = |figure, value: f64| {
            if value.is_finite() {
                self.note(scenario, peer, figure, value);
            }
        };
        let seconds = observed.window.as_secs_f64();
        let (requests, events) = (observed.requests as f64, observed.events as f64);
        let cpu_us = observed.server_cpu.as_secs_f64() * 1e6;
        let is_stream = shape.form != ExpectedForm::Plain;
        note(Figure::Foreign, observed.foreign_share);
        if matches!(
            scenario,
            Scenario::Memory | Scenario::Crowd | Scenario::Stalled
        ) {
            let grown = observed
                .resident_peak_kib
                .saturating_sub(observed.resident_before_kib);
            let streams = shape.connections + shape.silent;
            note(Figure::PerStreamKib, grown as f64 / streams as f64);
            let mut late = observed.lateness.clone();
            late.sort_unstable();
            if let Some(late) = percentile(&late, 99) {
                note(Figure::LateP99Us, late.as_secs_f64() * 1e6);
            }
            return;
        }
        note(Figure::RequestsPerS, requests / seconds);
        if is_stream {
            note(Figure::EventsPerS, events / seconds);
        }
        if peer != MeasuredPeer::Direct {
            note(Figure::CpuPerRequestUs, cpu_us / requests);
            if is_stream {
                note(Figure::CpuPerEventUs, cpu_us / events);
                note(Figure::CpuPerDeltaUs, cpu_us / observed.deltas as f64);
            }
        }
        for (times, half, tail) in [
            (&observed.totals, Figure::TotalP50Us, Figure::TotalP99Us),
            (&observed.firsts, Figure::FirstP50Us, Figure::FirstP99Us),
        ] {
            let mut times = times.clone();
            times.sort_unstable();
            for (figure, percent) in [(half, 50), (tail, 99)] {
                if let Some(time) = percentile(&times, percent) {
                    note(figure, time.as_secs_f64() * 1e6);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
