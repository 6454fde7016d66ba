//! The shapes of Chat Completions as this module writes them, fields in OpenAI's order.
//!
//! A field of type `()` is null.

use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Serialize)]
pub(super) struct Chunk<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) service_tier: &'static str,
    pub(super) system_fingerprint: (),
    pub(super) choices: &'a [ChunkChoice<'a>],
    /// Null in every chunk but the last when usage was asked for, absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Option<&'a ChunkUsage>>,
}

/// Counts are JSON values because a script may write any.
#[derive(Serialize)]
pub(super) struct ChunkUsage {
    pub(super) prompt_tokens: Value,
    pub(super) completion_tokens: Value,
    pub(super) total_tokens: Value,
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

#[derive(Serialize)]
pub(super) struct ChunkChoice<'a> {
    pub(super) index: u64,
    pub(super) delta: ChunkDelta<'a>,
    pub(super) logprobs: (),
    pub(super) finish_reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ChunkDelta<'a> {
    Role {
        role: &'static str,
        content: Option<&'static str>,
        refusal: (),
    },
    Reasoning {
        reasoning_content: &'a str,
    },
    Text {
        content: &'a str,
    },
    Calls {
        tool_calls: [ChunkCall<'a>; 1],
    },
    Nothing {},
}

impl<'a> ChunkDelta<'a> {
    pub(super) fn head(index: usize, id: String, name: &'a str) -> ChunkDelta<'a> {
        let function = PlainFunction {
            name: Some(name),
            arguments: "",
        };
        ChunkDelta::Calls {
            tool_calls: [ChunkCall {
                index,
                id: Some(id),
                kind: Some("function"),
                function,
            }],
        }
    }

    pub(super) fn arguments(index: usize, arguments: &'a str) -> ChunkDelta<'a> {
        let function = PlainFunction {
            name: None,
            arguments,
        };
        ChunkDelta::Calls {
            tool_calls: [ChunkCall {
                index,
                id: None,
                kind: None,
                function,
            }],
        }
    }
}

#[derive(Serialize)]
pub(super) struct ChunkCall<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: PlainFunction<'a>,
}

#[derive(Serialize)]
pub(super) struct PlainFunction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

#[derive(Serialize)]
pub(super) struct PlainBody<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: Vec<PlainChoice<'a>>,
    pub(super) usage: &'a ChunkUsage,
    pub(super) service_tier: &'static str,
    pub(super) system_fingerprint: (),
}

#[derive(Serialize)]
pub(super) struct PlainChoice<'a> {
    pub(super) index: u64,
    pub(super) message: PlainMessage<'a>,
    pub(super) logprobs: (),
    pub(super) finish_reason: Option<&'a str>,
}

#[derive(Serialize)]
pub(super) struct PlainMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<PlainCall<'a>>,
    pub(super) refusal: (),
    pub(super) annotations: [(); 0],
}

#[derive(Serialize)]
pub(super) struct PlainCall<'a> {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: PlainFunction<'a>,
}
