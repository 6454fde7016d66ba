//! The context of a turn: what recovery needs beside its request, and whoever reads the turn again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tw_core::request_changes::RequestChanges;

use super::{DamagedRecord, responses_options};
use crate::anthropic_messages::events::RanCalls;
use crate::format::{Projection, ResponsesProjection, WireFormat};
use crate::openai_chat::chunks::ChunkOptions;
use crate::openai_chat::outcome::ChatDialect;
use crate::openai_responses::fold::OwnCallItems;
use crate::passed_headers::PassedHeaders;
use crate::trace_context::{TraceContext, TraceParent};

/// The context of a turn, as stored with its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnContext {
    /// The tools that were offered, in order; `None` for a relay.
    pub tools: Option<Vec<ListedTool>>,
    /// Our tools that the first round was not offered.
    pub withheld: Vec<String>,
    /// The upstreams that may answer, by name, in the order in which they are asked.
    pub upstreams: Vec<String>,
    /// The form of the answer.
    pub projection: Projection,
    /// Headers of the request that go to upstreams.
    pub passed: PassedHeaders,
    /// What of the request the upstream that is asked first did not get as it was written.
    pub changes: RequestChanges,
    /// The client's trace, if the turn is a part of one.
    pub trace: Option<TraceContext>,
}

/// A tool of the list, ours or the client's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedTool {
    Ours(OfferedTool),
    /// A tool of the client's, by name.
    Client(String),
}

/// A tool of ours as it was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTool {
    pub name: String,
    /// The key of the stored version; `None` for a tool that comes with the program.
    pub version: Option<i64>,
}

/// A tool without a version is its name alone, as in all contexts written before tools were
/// stored; one with a version is `[name, version]`, one of the client's own `{"client": name}`. One
/// upstream is its name alone; several are a list.
pub fn encode(context: &TurnContext) -> String {
    let tools: Option<Vec<Value>> = context.tools.as_ref().map(|tools| {
        tools
            .iter()
            .map(|listed| match listed {
                ListedTool::Ours(OfferedTool { name, version }) => match version {
                    None => json!(name),
                    Some(version) => json!([name, version]),
                },
                ListedTool::Client(name) => json!({ "client": name }),
            })
            .collect()
    });
    let upstream = match context.upstreams.as_slice() {
        [one] => json!(one),
        several => json!(several),
    };
    let mut stored = json!({ "tools": tools, "upstream": upstream });
    // Left out where there are none, as in all contexts written before there could be any.
    if !context.withheld.is_empty() {
        stored["withheld"] = json!(context.withheld);
    }
    if !context.changes.is_empty() {
        let changes: Vec<(&str, u32)> = context.changes.iter().collect();
        stored["changed"] = json!(changes);
    }
    if context.projection != unsaid_projection() {
        stored["projection"] = json!(StoredProjection::of(&context.projection));
    }
    if !context.passed.is_empty() {
        let passed: BTreeMap<&str, &str> = context.passed.iter().collect();
        stored["headers"] = json!(passed);
    }
    if let Some(trace) = &context.trace {
        let parent = trace.parent.to_string();
        stored["trace"] = json!((parent, trace.state.as_deref()));
    }
    stored.to_string()
}

/// The projection that is not written down: that of all contexts written before there were others.
fn unsaid_projection() -> Projection {
    Projection::defaults(WireFormat::OpenAiChat)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    tools: Option<Vec<StoredTool>>,
    #[serde(default)]
    withheld: Vec<String>,
    #[serde(default)]
    changed: Vec<(String, u32)>,
    upstream: StoredUpstreams,
    projection: Option<StoredProjection>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    trace: Option<(String, Option<String>)>,
}

/// A projection by the name of its format, with what differs from that format's defaults.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum StoredProjection {
    ChatCompletions(StoredChatProjection),
    AnthropicMessages(StoredMessagesProjection),
    OpenaiResponses(StoredResponsesProjection),
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredChatProjection {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    include_usage: bool,
    /// Calls are told as `function_call`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    functions: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredMessagesProjection {
    /// Calls that this server runs are shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ran_calls: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StoredResponsesProjection {
    model: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    store: bool,
    /// The options as a text, in which what the response repeats keeps its digits.
    options: String,
}

impl StoredProjection {
    fn of(projection: &Projection) -> Self {
        match projection {
            Projection::OpenAiChat(ChunkOptions {
                include_usage,
                dialect,
            }) => Self::ChatCompletions(StoredChatProjection {
                include_usage: *include_usage,
                functions: match dialect {
                    ChatDialect::Tools => false,
                    ChatDialect::Functions => true,
                },
            }),
            Projection::AnthropicMessages(ran) => {
                Self::AnthropicMessages(StoredMessagesProjection {
                    ran_calls: *ran == RanCalls::Shown,
                })
            }
            Projection::OpenAiResponses(of) => Self::OpenaiResponses(StoredResponsesProjection {
                model: of.model.clone(),
                store: of.store,
                options: responses_options::encode(&of.options),
            }),
        }
    }

    fn read(self) -> Result<Projection, DamagedRecord> {
        Ok(match self {
            Self::ChatCompletions(StoredChatProjection {
                include_usage,
                functions,
            }) => Projection::OpenAiChat(ChunkOptions {
                include_usage,
                dialect: if functions {
                    ChatDialect::Functions
                } else {
                    ChatDialect::Tools
                },
            }),
            Self::AnthropicMessages(StoredMessagesProjection { ran_calls }) => {
                Projection::AnthropicMessages(if ran_calls {
                    RanCalls::Shown
                } else {
                    RanCalls::Hidden
                })
            }
            Self::OpenaiResponses(StoredResponsesProjection {
                model,
                store,
                options,
            }) => Projection::OpenAiResponses(Box::new(ResponsesProjection {
                model,
                store,
                own_calls: OwnCallItems::Mcp,
                options: responses_options::decode(&options)?,
            })),
        })
    }
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
    // No struct, since serde would read one from an array as well.
    Client(BTreeMap<ClientKey, String>),
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
enum ClientKey {
    Client,
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// [`DamagedRecord`] for anything else.
pub fn decode(text: &str) -> Result<TurnContext, DamagedRecord> {
    let stored: Stored =
        serde_json::from_str(text).map_err(|error| DamagedRecord::new("turn context", error))?;
    let mut changes = RequestChanges::default();
    for (name, count) in stored.changed {
        changes.add_times(name, count);
    }
    let offered = |tool| {
        Some(match tool {
            StoredTool::Named(name) => ListedTool::Ours(OfferedTool {
                name,
                version: None,
            }),
            StoredTool::Versioned(name, version) => ListedTool::Ours(OfferedTool {
                name,
                version: Some(version),
            }),
            StoredTool::Client(mut named) => ListedTool::Client(named.remove(&ClientKey::Client)?),
        })
    };
    Ok(TurnContext {
        tools: stored
            .tools
            .map(|tools| tools.into_iter().map(offered).collect::<Option<_>>())
            .map(|tools| {
                tools.ok_or_else(|| DamagedRecord::new("turn context", "a tool without a name"))
            })
            .transpose()?,
        withheld: stored.withheld,
        changes,
        upstreams: match stored.upstream {
            StoredUpstreams::One(name) => vec![name],
            StoredUpstreams::Several(names) => names,
        },
        projection: match stored.projection {
            Some(stored) => stored.read()?,
            None => unsaid_projection(),
        },
        passed: PassedHeaders::of_stored(stored.headers)
            .ok_or_else(|| DamagedRecord::new("turn context", "a header of no format"))?,
        trace: stored.trace.map(trace_of).transpose()?,
    })
}

fn trace_of((parent, state): (String, Option<String>)) -> Result<TraceContext, DamagedRecord> {
    let parent = TraceParent::parse(&parent);
    Ok(TraceContext {
        parent: parent.ok_or_else(|| DamagedRecord::new("turn context", "a trace of no parent"))?,
        state: state.map(Arc::from),
    })
}

#[cfg(test)]
mod tests;
