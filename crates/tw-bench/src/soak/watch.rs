//! Memory and open files of a process, and the size of its log, over time.

use std::fs;
use std::path::{Path, PathBuf};

use super::wal_of;
use crate::machine::usage;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    pub resident_kib: u64,
    pub open_files: usize,
}

impl ProcessSample {
    pub fn of(pid: u32) -> Self {
        Self {
            resident_kib: usage::resident_kib(&[pid]),
            open_files: usage::open_files(pid),
        }
    }
}

#[derive(Debug)]
pub struct ProcessWatch {
    wal: PathBuf,
    wal_bytes_max: u64,
    /// Samples of the process that runs undisturbed.
    steady: Option<Vec<ProcessSample>>,
}

/// Most bytes of the write-ahead log.
const WAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Largest growth from an earlier quarter's median of one load to a later one's.
const GROWTH_MAX: f64 = 1.10;
const GROWTH_KIB_MAX: u64 = 4 * 1024;
/// Open files more or less, of connections that happen to be open.
const OPEN_FILES_SPREAD: usize = 32;

impl ProcessWatch {
    pub fn new(folder: &Path) -> Self {
        Self {
            wal: wal_of(folder),
            wal_bytes_max: 0,
            steady: None,
        }
    }

    /// Begins the part of the load in which the process stays the same.
    pub fn begin_steady(&mut self) {
        self.steady = Some(Vec::new());
    }

    pub fn note(&mut self, sample: ProcessSample) {
        let wal_bytes = fs::metadata(&self.wal).map_or(0, |file| file.len());
        self.wal_bytes_max = self.wal_bytes_max.max(wal_bytes);
        if let Some(steady) = &mut self.steady {
            steady.push(sample);
        }
    }

    /// The faults that the samples show.
    pub fn judge(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        println!("WAL: at most {} KiB", self.wal_bytes_max / 1024);
        if self.wal_bytes_max > WAL_BYTES_MAX {
            wrong.push(format!("the WAL grew to {} bytes", self.wal_bytes_max));
        }
        let steady = self.steady.as_deref().unwrap_or_default();
        let Some((second, last)) = quarters(steady) else {
            wrong.push("too few samples of memory".to_owned());
            return wrong;
        };
        println!(
            "resident KiB: {} in the second quarter, {} in the last; open files: {} and {}",
            second.resident_kib, last.resident_kib, second.open_files, last.open_files
        );
        let resident_max = (second.resident_kib as f64 * GROWTH_MAX) as u64 + GROWTH_KIB_MAX;
        if last.resident_kib > resident_max {
            wrong.push(format!(
                "memory grew from {} to {} KiB",
                second.resident_kib, last.resident_kib
            ));
        }
        if last.open_files > second.open_files + OPEN_FILES_SPREAD {
            wrong.push(format!(
                "open files grew from {} to {}",
                second.open_files, last.open_files
            ));
        }
        wrong
    }
}

/// Medians of the second and of the last quarter.
fn quarters(samples: &[ProcessSample]) -> Option<(ProcessSample, ProcessSample)> {
    let quarter = samples.len() / 4;
    let second = samples.get(quarter..2 * quarter)?;
    let last = samples.get(samples.len() - quarter..)?;
    Some((median(second)?, median(last)?))
}

fn median(samples: &[ProcessSample]) -> Option<ProcessSample> {
    let mut resident: Vec<u64> = samples.iter().map(|sample| sample.resident_kib).collect();
    let mut files: Vec<usize> = samples.iter().map(|sample| sample.open_files).collect();
    resident.sort_unstable();
    files.sort_unstable();
    Some(ProcessSample {
        resident_kib: *resident.get(resident.len() / 2)?,
        open_files: *files.get(files.len() / 2)?,
    })
}

#[cfg(test)]
mod tests;
