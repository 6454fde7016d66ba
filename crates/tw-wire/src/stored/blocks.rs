//! Message blocks as stored: an array of one-key objects.

use serde::Deserialize;
use serde_json::value::RawValue;
use tw_core::json::{Json, Literal};
use tw_core::model::{CallForm, ReasoningField, ReasoningText};
use tw_core::request::{Block, CallBlock, ResultBlock};

use super::DamagedRecord;
use super::events::{form_word, json_string, read_field, read_form, read_literal, reasoning_word};

const WHAT: &str = "message blocks";

/// Encodes the blocks of one message.
pub fn encode(blocks: &[Block]) -> String {
    let mut out = String::from("[");
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        encode_block(block, &mut out);
    }
    out.push(']');
    out
}

fn encode_block(block: &Block, out: &mut String) {
    match block {
        Block::Text(text) => push(out, &["{\"text\":\"", text.as_str(), "\"}"]),
        Block::Refusal(text) => push(out, &["{\"refusal\":\"", text.as_str(), "\"}"]),
        Block::Reasoning(reasoning) => push(
            out,
            &[
                "{\"reasoning\":{\"f\":\"",
                reasoning_word(reasoning.field),
                "\",\"t\":\"",
                reasoning.text.as_str(),
                "\"}}",
            ],
        ),
        Block::ReasoningDetails(json) => {
            push(out, &["{\"reasoning_details\":", json.as_str(), "}"])
        }
        Block::Call(call) => push(
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
                "\"}}",
            ],
        ),
        Block::Result(result) => push(
            out,
            &[
                "{\"result\":{\"id\":",
                &json_string(&result.call_id),
                ",\"c\":",
                result.content.as_str(),
                "}}",
            ],
        ),
        Block::Part(json) => push(out, &["{\"part\":", json.as_str(), "}"]),
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
    #[serde(borrow)]
    Text(&'a RawValue),
    #[serde(borrow)]
    Refusal(&'a RawValue),
    #[serde(borrow)]
    Reasoning(StoredReasoning<'a>),
    #[serde(borrow)]
    ReasoningDetails(&'a RawValue),
    #[serde(borrow)]
    Call(StoredCall<'a>),
    #[serde(borrow)]
    Result(StoredResult<'a>),
    #[serde(borrow)]
    Part(&'a RawValue),
}

#[derive(Deserialize)]
struct StoredReasoning<'a> {
    f: String,
    #[serde(borrow)]
    t: &'a RawValue,
}

#[derive(Deserialize)]
struct StoredCall<'a> {
    id: String,
    n: String,
    m: String,
    #[serde(borrow)]
    a: &'a RawValue,
}

#[derive(Deserialize)]
struct StoredResult<'a> {
    id: String,
    #[serde(borrow)]
    c: &'a RawValue,
}

/// Reads the blocks of one message.
///
/// # Errors
/// [`DamagedRecord`] when the text is not what [`encode`] wrote.
pub fn decode(text: &str) -> Result<Vec<Block>, DamagedRecord> {
    let stored: Vec<Stored<'_>> =
        serde_json::from_str(text).map_err(|error| DamagedRecord::new(WHAT, error))?;
    stored.into_iter().map(decode_block).collect()
}

fn decode_block(stored: Stored<'_>) -> Result<Block, DamagedRecord> {
    Ok(match stored {
        Stored::Text(raw) => Block::Text(literal(raw)?),
        Stored::Refusal(raw) => Block::Refusal(literal(raw)?),
        Stored::Reasoning(reasoning) => Block::Reasoning(ReasoningText {
            field: field(&reasoning.f)?,
            text: literal(reasoning.t)?,
        }),
        Stored::ReasoningDetails(raw) => Block::ReasoningDetails(Json::from_raw(raw)),
        Stored::Call(call) => Block::Call(CallBlock {
            id: call.id,
            name: call.n,
            form: form(&call.m)?,
            arguments: literal(call.a)?,
        }),
        Stored::Result(result) => Block::Result(ResultBlock {
            call_id: result.id,
            content: Json::from_raw(result.c),
        }),
        Stored::Part(raw) => Block::Part(Json::from_raw(raw)),
    })
}

fn literal(raw: &RawValue) -> Result<Literal, DamagedRecord> {
    read_literal(WHAT, raw)
}

fn field(word: &str) -> Result<ReasoningField, DamagedRecord> {
    read_field(WHAT, word)
}

fn form(word: &str) -> Result<CallForm, DamagedRecord> {
    read_form(WHAT, word)
}
