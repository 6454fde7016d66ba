//! Metrics of this process from the operating system, under the names that dashboards expect.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::time::{ClockId, clock_gettime};
use tw_core::time::Timestamp;

/// Collector of metrics that are read at each scrape; what cannot be read is left out.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    pub(super) started: Timestamp,
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let started = ConstGauge::new(self.started.0 as f64 / 1e6);
        let at = encoder.encode_descriptor(
            "process_start_time",
            "When the process started, since the Unix epoch.",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        started.encode(at)?;
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = ConstCounter::new(cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9);
        let at = encoder.encode_descriptor(
            "process_cpu",
            "CPU time, user and system.",
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?;
        cpu.encode(at)?;
        if let Some(bytes) = resident_bytes() {
            let at = encoder.encode_descriptor(
                "process_resident_memory",
                "Resident memory.",
                Some(&Unit::Bytes),
                MetricType::Gauge,
            )?;
            ConstGauge::new(bytes).encode(at)?;
        }
        if let Some(open) = open_fds() {
            let at = encoder.encode_descriptor(
                "process_open_fds",
                "Open files and sockets.",
                None,
                MetricType::Gauge,
            )?;
            ConstGauge::new(open).encode(at)?;
        }
        if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            let at = encoder.encode_descriptor(
                "process_max_fds",
                "Files and sockets that may be open.",
                None,
                MetricType::Gauge,
            )?;
            ConstGauge::new(most).encode(at)?;
        }
        Ok(())
    }
}

/// Resident memory in bytes, by the line `VmRSS:` of `status` in `proc(5)`, which is in KiB.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn open_fds() -> Option<u64> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // Listing them is one more.
    u64::try_from(open).ok()?.checked_sub(1)
}
