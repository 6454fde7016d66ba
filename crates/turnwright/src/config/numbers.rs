//! Bounds of numbers, in whatever table they stand.

use anyhow::bail;
use toml::{Table, Value};

/// Longest time, in seconds: ten years. Times beyond what a clock can hold would fail when they are used.
const SECONDS_MAX: i64 = 10 * 365 * 24 * 3600;

/// Settings in which 0 keeps, waits for, puts back or allows none of something that can be done
/// without. Anywhere else it would leave a server that serves nobody.
const MAY_BE_ZERO: [&str; 21] = [
    "cache.bytes_max",
    "cache.models_s",
    "files.organization_bytes_max",
    "hooks.wait_s",
    "limits.memory_bytes_max",
    "limits.model_backoff_ms",
    "limits.retry_after_max_s",
    "limits.tools_stored_max",
    "record.content_bytes_min",
    "record.contents_kept_h",
    "record.deliveries_kept_h",
    "record.events_kept_h",
    "record.flush_interval_ms",
    "record.relayed_requests_kept_h",
    "record.repeat_window_s",
    "record.request_keys_kept_h",
    "record.tool_versions_max",
    "record.tool_versions_kept_h",
    "server.drain_s",
    "server.unready_s",
    "telemetry.batch_delay_ms",
];
/// Beginnings of the tables in which 0 is no limit, or costs nothing.
const ZERO_IS_NO_LIMIT: [&str; 4] = ["rate.", "record.organizations.", "spend.", "price["];

/// Refuses times that are too long, and limits that nobody gets past.
pub fn check(table: &Table) -> anyhow::Result<()> {
    check_table(table, "")
}

fn check_table(table: &Table, above: &str) -> anyhow::Result<()> {
    for (key, value) in table {
        let path = if above.is_empty() {
            key.clone()
        } else {
            format!("{above}.{key}")
        };
        match value {
            Value::Integer(units) => check_integer(*units, key, &path)?,
            Value::Table(inner) => check_table(inner, &path)?,
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    if let Value::Table(inner) = item {
                        check_table(inner, &format!("{path}[{place}]"))?;
                    }
                }
            }
            Value::String(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
        }
    }
    Ok(())
}

fn is_unlimited(path: &str) -> bool {
    ZERO_IS_NO_LIMIT.iter().any(|table| path.starts_with(table))
}

fn check_integer(units: i64, key: &str, path: &str) -> anyhow::Result<()> {
    let units_max = match key.rsplit_once('_').map(|(_, unit)| unit) {
        Some("s") => SECONDS_MAX,
        Some("ms") => SECONDS_MAX * 1000,
        Some("h") => SECONDS_MAX / 3600,
        Some(_) | None => i64::MAX,
    };
    if units > units_max {
        bail!("{path} may be at most {units_max}, which is ten years");
    }
    if units == 0 && !MAY_BE_ZERO.contains(&path) && !is_unlimited(path) {
        bail!("{path} must be at least 1: with 0 nobody would be served");
    }
    Ok(())
}
