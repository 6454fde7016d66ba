//! No limit is 0 where that would serve nobody.

use toml::{Table, Value};

use super::load;
use crate::config::DEFAULTS;

/// Where 0 means something.
const MEANT: [&str; 30] = [
    "cache.bytes_max",
    "cache.models_s",
    "files.organization_bytes_max",
    "hooks.wait_s",
    "limits.memory_bytes_max",
    "limits.model_backoff_ms",
    "limits.retry_after_max_s",
    "limits.tools_stored_max",
    "rate.key.concurrency_max",
    "rate.key.requests_per_minute",
    "rate.key.streams_max",
    "rate.organization.concurrency_max",
    "rate.organization.requests_per_minute",
    "rate.organization.streams_max",
    "record.content_bytes_min",
    "record.contents_kept_h",
    "record.deliveries_kept_h",
    "record.events_kept_h",
    "record.flush_interval_ms",
    "record.relayed_requests_kept_h",
    "record.repeat_window_s",
    "record.request_keys_kept_h",
    "record.tool_versions_kept_h",
    "record.tool_versions_max",
    "server.drain_s",
    "server.unready_s",
    "spend.end_user_usd",
    "spend.key_usd",
    "spend.organization_usd",
    "telemetry.batch_delay_ms",
];

/// Every integer of the reference, as table and key.
fn integers(table: &Table, above: &str, found: &mut Vec<(String, String)>) {
    for (key, value) in table {
        match value {
            Value::Integer(_) => found.push((above.to_owned(), key.clone())),
            Value::Table(inner) if above.is_empty() => integers(inner, key, found),
            Value::Table(inner) => integers(inner, &format!("{above}.{key}"), found),
            _ => {}
        }
    }
}

#[test]
fn zero_is_refused_by_name_wherever_it_would_serve_nobody() {
    let mut found = Vec::new();
    integers(&DEFAULTS.parse().unwrap(), "", &mut found);
    assert!(found.len() > 40, "{found:?}");
    let mut meant = Vec::new();
    for (table, key) in &found {
        let path = format!("{table}.{key}");
        match load(&format!("[{table}]\n{key} = 0\n")) {
            Ok(_) => meant.push(path),
            Err(error) => {
                let error = format!("{error:#}");
                assert!(
                    error.contains(&format!("{path} must be at least 1")),
                    "{error}"
                );
            }
        }
    }
    meant.sort();
    assert_eq!(meant, MEANT);
}

#[test]
fn so_it_is_in_lists_of_tables() {
    for key in ["connect_s", "first_byte_s", "idle_s"] {
        let text = format!(
            "[[upstream]]\nname = \"a\"\nkind = \"openai\"\n\
             [[upstream]]\nname = \"b\"\nkind = \"openai\"\n{key} = 0\n"
        );
        let error = format!("{:#}", load(&text).unwrap_err());
        let named = format!("upstream[1].{key} must be at least 1");
        assert!(error.contains(&named), "{error}");
    }
}
