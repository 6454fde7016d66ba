//! What was measured, over all rounds.

use std::collections::BTreeMap;

use super::scenarios::{Peer, Scenario};
use crate::load::Observed;
use crate::load::answer::Form;
use crate::percentile::percentile;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    RequestsPerS,
    EventsPerS,
    CpuPerRequestUs,
    CpuPerEventUs,
    TotalP50Us,
    TotalP99Us,
    FirstP50Us,
    FirstP99Us,
    /// After one request.
    AtRestMib,
    PerStreamKib,
    /// CPUs that others used.
    Foreign,
}

impl Figure {
    pub const ALL: [Self; 11] = [
        Self::RequestsPerS,
        Self::EventsPerS,
        Self::CpuPerRequestUs,
        Self::CpuPerEventUs,
        Self::TotalP50Us,
        Self::TotalP99Us,
        Self::FirstP50Us,
        Self::FirstP99Us,
        Self::AtRestMib,
        Self::PerStreamKib,
        Self::Foreign,
    ];

    pub fn says(self) -> &'static str {
        match self {
            Self::RequestsPerS => "requests/s",
            Self::EventsPerS => "events/s",
            Self::CpuPerRequestUs => "CPU us/request",
            Self::CpuPerEventUs => "CPU us/event",
            Self::TotalP50Us => "whole answer p50 us",
            Self::TotalP99Us => "whole answer p99 us",
            Self::FirstP50Us => "first delta p50 us",
            Self::FirstP99Us => "first delta p99 us",
            Self::AtRestMib => "MiB after one request",
            Self::PerStreamKib => "KiB per open stream",
            Self::Foreign => "foreign CPU",
        }
    }
}

/// Each figure's values, one a round.
#[derive(Debug, Default)]
pub struct Figures(BTreeMap<(Scenario, Peer, Figure), Vec<f64>>);

impl Figures {
    pub fn note(&mut self, scenario: Scenario, peer: Peer, figure: Figure, value: f64) {
        let values = self.0.entry((scenario, peer, figure)).or_default();
        values.push(value);
    }

    /// The median over the rounds; `None` if it was not measured.
    pub fn median(&self, scenario: Scenario, peer: Peer, figure: Figure) -> Option<f64> {
        let mut values = self.0.get(&(scenario, peer, figure))?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        if values.len() % 2 == 1 {
            return Some(upper);
        }
        Some((values.get(middle.checked_sub(1)?)? + upper) / 2.0)
    }

    /// Notes what one run showed.
    pub fn note_run(&mut self, scenario: Scenario, peer: Peer, observed: &Observed) {
        let mut note = |figure, value: f64| {
            if value.is_finite() {
                self.note(scenario, peer, figure, value);
            }
        };
        let seconds = observed.window.as_secs_f64();
        let (requests, events) = (observed.requests as f64, observed.events as f64);
        let cpu_us = observed.server_cpu.as_secs_f64() * 1e6;
        let shape = scenario.shape();
        let is_stream = shape.form != Form::Plain;
        note(Figure::Foreign, observed.foreign_share);
        if scenario == Scenario::Memory {
            let grown = observed
                .resident_peak_kib
                .saturating_sub(observed.resident_before_kib);
            note(
                Figure::PerStreamKib,
                grown as f64 / shape.connections as f64,
            );
            return;
        }
        note(Figure::RequestsPerS, requests / seconds);
        if is_stream {
            note(Figure::EventsPerS, events / seconds);
        }
        if peer != Peer::Direct {
            note(Figure::CpuPerRequestUs, cpu_us / requests);
            if is_stream {
                note(Figure::CpuPerEventUs, cpu_us / events);
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
