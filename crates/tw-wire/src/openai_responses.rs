//! OpenAI's Responses, as upstreams answer them and as clients are answered.
//!
//! Follows the Open Responses document (92c12d9, `openapi.json`), the types of openai-python 3.3.1
//! (`types/responses/`) for what that does not have, and recorded answers of some ten vendors where they do otherwise.
//!
//! An item is a block here: the model's items that follow one another are one message, whose calls stand together as
//! they do in other formats. What only this format says of an item goes with it as its native part: the whole item
//! behind the text of a message or the call, or in the reasoning.

use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::model::TokenUsage;
use tw_core::native::{FormatName, NativeLabel, NativePart};
use tw_core::request::PartBlock;

use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

pub mod request;
pub mod settings;

pub mod body;
pub mod conversation_items;
pub mod stream;

pub mod error;
pub mod fold;
pub mod ids;
pub mod input_items;
pub mod options;

/// The name of this format.
pub const FORMAT: FormatName = FormatName::new("openai_responses");

/// The places of reasoning: the summary of it, and the reasoning itself.
pub const SUMMARY: NativeLabel = NativeLabel::new("reasoning_summary");
pub const REASONING_TEXT: NativeLabel = NativeLabel::new("reasoning_text");

/// The name by which clients know this server as the one that runs calls.
pub const SERVER_LABEL: &str = "turnwright";

/// A part of a content.
pub(crate) fn part(json: Json) -> PartBlock {
    content::part_block(json)
}

/// An item that only this format understands.
fn native(json: Json) -> NativePart {
    NativePart {
        format: FORMAT,
        json,
    }
}

/// Reads a usage object.
fn read_usage(raw: &RawValue) -> Option<TokenUsage> {
    let fields = ObjectFields::parse(raw.get()).ok()?;
    let read = |name| fields.get(name).and_then(raw::count);
    let inside = |object: &str, name: &str| {
        let details = ObjectFields::parse(fields.get(object)?.get()).ok()?;
        details.get(name).and_then(raw::count)
    };
    let (input, output, total) = (
        read("input_tokens"),
        read("output_tokens"),
        read("total_tokens"),
    );
    if input.is_none() && output.is_none() && total.is_none() {
        return None;
    }
    let (input, output) = (input.unwrap_or(0), output.unwrap_or(0));
    Some(TokenUsage {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: total.unwrap_or(input.saturating_add(output)),
        cached_tokens: inside("input_tokens_details", "cached_tokens"),
        cache_write_tokens: inside("input_tokens_details", "cache_write_tokens"),
        reasoning_tokens: inside("output_tokens_details", "reasoning_tokens"),
        native: Some(native(Json::from_raw(raw))),
    })
}

/// Writes the usage of a turn, with both objects of details, which clients insist on.
fn write_usage(out: &mut Vec<u8>, usage: &TokenUsage) {
    out.push(b'{');
    write::key(out, "input_tokens");
    write::number(out, usage.prompt_tokens);
    write::key(out, "input_tokens_details");
    out.push(b'{');
    write::key(out, "cached_tokens");
    write::number(out, usage.cached_tokens.unwrap_or(0));
    if let Some(tokens) = usage.cache_write_tokens {
        write::key(out, "cache_write_tokens");
        write::number(out, tokens);
    }
    out.push(b'}');
    write::key(out, "output_tokens");
    write::number(out, usage.completion_tokens);
    write::key(out, "output_tokens_details");
    out.push(b'{');
    write::key(out, "reasoning_tokens");
    write::number(out, usage.reasoning_tokens.unwrap_or(0));
    out.push(b'}');
    write::key(out, "total_tokens");
    write::number(out, usage.total_tokens);
    own_fields(out, usage);
    out.push(b'}');
}

/// The further fields of an upstream's own usage, such as a cost.
fn own_fields(out: &mut Vec<u8>, usage: &TokenUsage) {
    const KNOWN: [&str; 5] = [
        "input_tokens",
        "input_tokens_details",
        "output_tokens",
        "output_tokens_details",
        "total_tokens",
    ];
    let own = usage.native.as_ref().filter(|part| part.format == FORMAT);
    let fields = own.and_then(|part| ObjectFields::parse(part.json.as_str()).ok());
    for (name, value) in fields.into_iter().flat_map(|fields| fields.0) {
        if !KNOWN.contains(&&*name) {
            write::foreign_key(out, &name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
}

mod answer;
pub(crate) mod content;
mod item;
mod open_item;
mod usual_event;
