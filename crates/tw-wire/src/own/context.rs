//! What recovery needs of a turn beside its request.

use serde::Deserialize;
use serde_json::{Value, json};

use super::DamagedRecord;

/// The context of a turn, as stored with its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnContext {
    /// Our tools that were offered, in order; `None` for a relay.
    pub tools: Option<Vec<OfferedTool>>,
    /// The upstreams that may answer, by name, in the order in which they are asked.
    pub upstreams: Vec<String>,
}

/// A tool of ours as it was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTool {
    pub name: String,
    /// The key of the stored version; `None` for a tool that comes with the program.
    pub version: Option<i64>,
}

/// A tool without a version is its name alone, as in all contexts written before tools were
/// stored; one with a version is `[name, version]`. One upstream is its name alone; several are a
/// list.
pub fn encode(context: &TurnContext) -> String {
    let tools: Option<Vec<Value>> = context.tools.as_ref().map(|tools| {
        tools
            .iter()
            .map(|tool| match tool.version {
                None => json!(tool.name),
                Some(version) => json!([tool.name, version]),
            })
            .collect()
    });
    let upstream = match context.upstreams.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    json!({ "tools": tools, "upstream": upstream }).to_string()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    tools: Option<Vec<StoredTool>>,
    upstream: StoredUpstreams,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredUpstreams {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum StoredTool {
    Named(String),
    Versioned(String, i64),
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// [`DamagedRecord`] for anything else.
pub fn decode(text: &str) -> Result<TurnContext, DamagedRecord> {
    let stored: Stored =
        serde_json::from_str(text).map_err(|error| DamagedRecord::new("turn context", error))?;
    let offered = |tool| match tool {
        StoredTool::Named(name) => OfferedTool {
            name,
            version: None,
        },
        StoredTool::Versioned(name, version) => OfferedTool {
            name,
            version: Some(version),
        },
    };
    Ok(TurnContext {
        tools: stored
            .tools
            .map(|tools| tools.into_iter().map(offered).collect()),
        upstreams: match stored.upstream {
            StoredUpstreams::One(name) => vec![name],
            StoredUpstreams::Several(names) => names,
        },
    })
}

#[cfg(test)]
mod tests;
