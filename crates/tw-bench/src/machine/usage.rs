//! CPU time and resident memory of processes, and how busy a CPU was, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;

use super::cpus::Cpus;

/// Linux tells times to programs in this unit on every architecture that we run on.
const TICK: Duration = Duration::from_millis(10);

/// The fields of a line of `/proc/PID/stat` that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    pub parent: u32,
    /// User and system time since the process began.
    pub cpu: Duration,
}

/// Reads the line; `None` when it is none of these.
pub fn parse_process(line: &str) -> Option<ProcessStat> {
    // The name stands in parentheses and may hold anything, spaces and parentheses too.
    let (_, rest) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some(ProcessStat {
        parent: fields.get(1)?.parse().ok()?,
        cpu: TICK * ticks(11)?.saturating_add(ticks(12)?),
    })
}

/// Busy time of one CPU since the system began, from `/proc/stat`; `None` when it is not listed.
pub fn parse_busy(text: &str, cpu: usize) -> Option<Duration> {
    let name = format!("cpu{cpu}");
    let line = text
        .lines()
        .find(|line| line.split_ascii_whitespace().next() == Some(name.as_str()))?;
    let mut ticks = 0u32;
    for (at, field) in line.split_ascii_whitespace().skip(1).enumerate() {
        match at {
            // idle and iowait; guest times are in the user's already
            3 | 4 | 8.. => {}
            _ => ticks = ticks.saturating_add(field.parse().ok()?),
        }
    }
    Some(TICK * ticks)
}

/// The `VmRSS` of `/proc/PID/status`.
pub fn parse_resident_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// A process and its descendants.
pub fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(stat) = stat_of(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}

fn stat_of(pid: u32) -> Option<ProcessStat> {
    parse_process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

pub fn cpu_of(pids: &[u32]) -> Duration {
    pids.iter()
        .filter_map(|pid| stat_of(*pid))
        .map(|stat| stat.cpu)
        .sum()
}

pub fn resident_kib(pids: &[u32]) -> u64 {
    pids.iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
        .filter_map(|status| parse_resident_kib(&status))
        .sum()
}

/// Open files of a process.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// CPU time used up to a moment.
#[derive(Clone, Copy, Debug)]
pub struct ResourceCounters {
    server: Duration,
    rig: Duration,
    busy: Duration,
}

/// CPU time used between two moments.
#[derive(Clone, Copy, Debug)]
pub struct ResourcesUsed {
    pub server: Duration,
    /// CPU time that went to others on the two CPUs of the measurement.
    ///
    /// Times come in ticks, so for a short burst it may be a little below nothing.
    pub foreign_s: f64,
}

impl ResourceCounters {
    /// # Errors
    /// `/proc` cannot be read.
    pub fn now(server: &[u32], cpus: Cpus) -> anyhow::Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let busy =
            |cpu| parse_busy(&text, cpu).with_context(|| format!("CPU {cpu} is not in /proc/stat"));
        Ok(Self {
            server: cpu_of(server),
            rig: cpu_of(&[std::process::id()]),
            busy: busy(cpus.server)? + busy(cpus.rig)?,
        })
    }

    pub fn since(self, before: Self) -> ResourcesUsed {
        let server = self.server.saturating_sub(before.server);
        let rig = self.rig.saturating_sub(before.rig);
        let busy = self.busy.saturating_sub(before.busy);
        ResourcesUsed {
            server,
            foreign_s: busy.as_secs_f64() - server.as_secs_f64() - rig.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests;
