//! Figures of the writer: counters and histograms of its transactions.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

const GROUP_JOBS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
/// Buckets in seconds, from a fast disk to a disk that is in trouble.
const COMMIT_SECONDS: [f64; 10] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

/// Handles to the figures, cheap to clone.
#[derive(Clone, Debug)]
pub struct WriterFigures {
    /// Jobs that one transaction held.
    pub group_jobs: Histogram,
    /// Time from beginning a transaction to its being on disk.
    pub commit_seconds: Histogram,
    /// Jobs that failed by the database, or may have.
    pub failed: Counter,
}

impl WriterFigures {
    pub(crate) fn new() -> Self {
        Self {
            group_jobs: Histogram::new(GROUP_JOBS),
            commit_seconds: Histogram::new(COMMIT_SECONDS),
            failed: Counter::default(),
        }
    }
}
