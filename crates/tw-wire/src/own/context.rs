//! What recovery needs of a turn beside its request.

use serde::{Deserialize, Serialize};

use super::DamagedRecord;

/// The context of a turn, as stored with its input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnContext {
    /// Names of our tools that were offered, in order; `None` for a relay.
    pub tools: Option<Vec<String>>,
    pub upstream: String,
}

pub fn encode(context: &TurnContext) -> String {
    serde_json::json!({ "tools": context.tools, "upstream": context.upstream }).to_string()
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// [`DamagedRecord`] for anything else.
pub fn decode(text: &str) -> Result<TurnContext, DamagedRecord> {
    serde_json::from_str(text).map_err(|error| DamagedRecord::new("turn context", error))
}
