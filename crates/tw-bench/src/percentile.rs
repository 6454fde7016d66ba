//! Percentiles of times.

use std::time::Duration;

/// The smallest of the sorted times that at least `percent` of them do not exceed; `None` if there are none.
pub fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests;
