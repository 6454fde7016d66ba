//! Keys as JSON. A key's own text is in the answer that makes it, and nowhere else.

use serde_json::{Value, json};
use tw_core::id::ApiKeyUuid;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_runtime::keys::ALL_TOOLS;
use tw_store::read::api_keys::ListedApiKey;

pub(super) fn key(key: &ListedApiKey, now: Timestamp) -> Value {
    let scopes: Vec<&str> = key.scopes.iter().copied().map(KeyScope::as_str).collect();
    let seconds = |at: Option<Timestamp>| at.map(|at| at.seconds());
    json!({
        "id": key.uuid.to_string(),
        "object": "api_key",
        "name": key.name,
        "begins_with": key.shown,
        "status": if key.has_ended(now) { "ended" } else { "active" },
        "scopes": scopes,
        "tools": match &key.tools {
            ToolGrant::None => json!("none"),
            ToolGrant::All => json!(ALL_TOOLS),
            ToolGrant::Named(names) => json!(names),
        },
        "tools_mode": key.tools_mode.as_str(),
        "record": match key.record {
            RecordPolicy::Full => "full",
            RecordPolicy::Minimal => "minimal",
        },
        "memory": match key.memory {
            KeyMemory::Off => "off",
            KeyMemory::Key => "key",
        },
        "limits": {
            "requests_per_minute": key.limits.requests_per_minute,
            "concurrency": key.limits.concurrency_max,
            "streams": key.limits.streams_max,
        },
        "created_by": key.created_by.map(|maker| maker.to_string()),
        "created_at": key.created.seconds(),
        "last_used_at": seconds(key.last_used),
        "expires_at": seconds(key.expires),
    })
}

/// Renders a new key with its own text.
pub(super) fn made(made: &ListedApiKey, text: &str, now: Timestamp) -> String {
    let mut told = key(made, now);
    if let Some(members) = told.as_object_mut() {
        members.insert("key".to_owned(), json!(text));
    }
    told.to_string()
}

pub(super) fn list(keys: &[ListedApiKey], has_more: bool, now: Timestamp) -> String {
    let data: Vec<Value> = keys.iter().map(|listed| key(listed, now)).collect();
    json!({ "object": "list", "data": data, "has_more": has_more }).to_string()
}

pub(super) fn ended(key: ApiKeyUuid) -> String {
    json!({ "id": key.to_string(), "object": "api_key.ended", "ended": true }).to_string()
}
