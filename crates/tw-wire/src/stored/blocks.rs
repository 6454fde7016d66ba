//! Message blocks as stored: an array of one-key objects.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::native::{AnswerOrigin, NativePart};
use tw_core::request::{Block, CallBlock, ReasoningBlock, ResultBlock};

use super::DamagedRecord;
use super::events::{
    decode_call_native, decode_native, encode_call_native, encode_native, form_word, json_string,
    read_form, read_format, read_literal, read_place,
};
use crate::{native_words, openai_chat};

const WHAT: &str = "message blocks";

/// The blocks of a message, and where it came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredBlocks {
    pub blocks: Vec<Block>,
    pub origin: Option<Arc<AnswerOrigin>>,
}

/// Encodes the blocks of one message; where it came from stands before them.
pub fn encode(blocks: &[Block], origin: Option<&AnswerOrigin>) -> String {
    let mut out = String::from("[");
    if let Some(origin) = origin {
        push(
            &mut out,
            &[
                "{\"origin\":[\"",
                origin.format.as_str(),
                "\",",
                &json_string(&origin.upstream),
                ",",
                &json_string(&origin.model),
                "]}",
            ],
        );
    }
    encode_list(blocks, &mut out);
    out.push(']');
    out
}

fn encode_list(blocks: &[Block], out: &mut String) {
    for block in blocks {
        if !out.ends_with('[') {
            out.push(',');
        }
        encode_block(block, out);
    }
}

fn encode_block(block: &Block, out: &mut String) {
    match block {
        Block::Text(text) => push(out, &["{\"text\":\"", text.as_str(), "\"}"]),
        Block::Refusal(text) => push(out, &["{\"refusal\":\"", text.as_str(), "\"}"]),
        Block::Reasoning(reasoning) => {
            push(
                out,
                &[
                    "{\"reasoning\":{\"f\":\"",
                    reasoning.place.as_str(),
                    "\",\"t\":\"",
                    reasoning.text.as_str(),
                    "\"",
                ],
            );
            if let Some(signature) = &reasoning.signature {
                push(out, &[",\"s\":\"", signature.as_str(), "\""]);
            }
            if let Some(native) = &reasoning.native {
                push(out, &[",\"n\":", &encode_native(native)]);
            }
            out.push_str("}}");
        }
        Block::Call(call) => {
            push(
                out,
                &[
                    "{\"call\":{\"id\":",
                    &json_string(&call.id),
                    ",\"n\":",
                    &json_string(&call.name),
                    ",\"m\":\"",
                    form_word(call.form),
                    "\",\"a\":\"",
                    call.arguments.as_str(),
                    "\"",
                ],
            );
            if let Some(native) = &call.native {
                push(out, &[",\"x\":", &encode_call_native(native)]);
            }
            out.push_str("}}");
        }
        Block::Result(result) => {
            push(
                out,
                &[
                    "{\"result\":{\"id\":",
                    &json_string(&result.call_id),
                    ",\"b\":[",
                ],
            );
            encode_list(&result.content, out);
            out.push(']');
            if result.is_error {
                out.push_str(",\"e\":true");
            }
            out.push_str("}}");
        }
        Block::Part(part) if part.format == openai_chat::FORMAT => {
            push(out, &["{\"part\":", part.json.as_str(), "}"]);
        }
        Block::Part(part) => push(
            out,
            &[
                "{\"part_of\":[\"",
                part.format.as_str(),
                "\",",
                part.json.as_str(),
                "]}",
            ],
        ),
        Block::Native(part) => push(out, &["{\"native\":", &encode_native(part), "}"]),
    }
}

fn push(out: &mut String, parts: &[&str]) {
    for part in parts {
        out.push_str(part);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored<'a> {
    Origin((String, Box<str>, Box<str>)),
    #[serde(borrow)]
    Text(&'a RawValue),
    #[serde(borrow)]
    Refusal(&'a RawValue),
    #[serde(borrow)]
    Reasoning(StoredReasoning<'a>),
    /// As written when there was one format, which had them.
    #[serde(borrow)]
    ReasoningDetails(&'a RawValue),
    #[serde(borrow)]
    Call(StoredCall<'a>),
    #[serde(borrow)]
    Result(StoredResult<'a>),
    #[serde(borrow)]
    Part(&'a RawValue),
    #[serde(borrow)]
    PartOf(&'a RawValue),
    #[serde(borrow)]
    Native(&'a RawValue),
}

#[derive(Deserialize)]
struct StoredReasoning<'a> {
    f: String,
    #[serde(borrow)]
    t: &'a RawValue,
    #[serde(borrow)]
    s: Option<&'a RawValue>,
    #[serde(borrow)]
    n: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StoredCall<'a> {
    id: String,
    n: String,
    m: String,
    #[serde(borrow)]
    a: &'a RawValue,
    #[serde(borrow)]
    x: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StoredResult<'a> {
    id: String,
    #[serde(borrow)]
    b: Vec<Stored<'a>>,
    #[serde(default)]
    e: bool,
}

/// Reads the blocks of one message.
///
/// # Errors
/// [`DamagedRecord`] when the text is not what [`encode`] wrote.
pub fn decode(text: &str) -> Result<StoredBlocks, DamagedRecord> {
    let stored: Vec<Stored<'_>> =
        serde_json::from_str(text).map_err(|error| DamagedRecord::new(WHAT, error))?;
    let mut read = StoredBlocks::default();
    for stored in stored {
        match stored {
            Stored::Origin((format, upstream, model)) => {
                read.origin = Some(Arc::new(AnswerOrigin {
                    format: read_format(WHAT, &format)?,
                    upstream,
                    model,
                }));
            }
            block => read.blocks.push(decode_block(block)?),
        }
    }
    Ok(read)
}

fn decode_block(stored: Stored<'_>) -> Result<Block, DamagedRecord> {
    let native = |raw: Option<&RawValue>| raw.map(|raw| decode_native(WHAT, raw)).transpose();
    Ok(match stored {
        Stored::Origin(_) => return Err(DamagedRecord::new(WHAT, "an origin inside a block")),
        Stored::Text(raw) => Block::Text(literal(raw)?),
        Stored::Refusal(raw) => Block::Refusal(literal(raw)?),
        Stored::Reasoning(reasoning) => Block::Reasoning(ReasoningBlock {
            place: read_place(WHAT, &reasoning.f)?,
            text: literal(reasoning.t)?,
            signature: reasoning.s.map(literal).transpose()?,
            native: native(reasoning.n)?,
        }),
        Stored::ReasoningDetails(raw) => {
            let field = (openai_chat::REASONING_DETAILS.into(), Json::from_raw(raw));
            Block::Native(NativePart {
                format: openai_chat::FORMAT,
                json: Json::of_fields(&[field]),
            })
        }
        Stored::Call(call) => {
            let native = call
                .x
                .map(|raw| decode_call_native(WHAT, raw))
                .transpose()?;
            Block::Call(CallBlock {
                id: call.id,
                name: call.n,
                form: read_form(WHAT, &call.m)?,
                arguments: literal(call.a)?,
                native: native.map(Box::new),
            })
        }
        Stored::Result(result) => {
            let content = result.b.into_iter().map(decode_block);
            Block::Result(ResultBlock {
                call_id: result.id,
                content: content.collect::<Result<_, _>>()?,
                is_error: result.e,
            })
        }
        Stored::Part(raw) => {
            Block::Part(native_words::part(openai_chat::FORMAT, Json::from_raw(raw)))
        }
        Stored::PartOf(raw) => {
            let part = decode_native(WHAT, raw)?;
            Block::Part(native_words::part(part.format, part.json))
        }
        Stored::Native(raw) => Block::Native(decode_native(WHAT, raw)?),
    })
}

fn literal(raw: &RawValue) -> Result<Literal, DamagedRecord> {
    read_literal(WHAT, raw)
}
