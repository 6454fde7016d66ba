//! OpenAI's Chat Completions, as upstreams answer it and as clients are answered.
//!
//! Follows the types of openai-python 3.3.1 (`types/chat/`), and recorded answers of some forty
//! vendors where they do otherwise; what they do is listed in each module.

use tw_core::json::{Json, Literal};
use tw_core::model::TokenUsage;
use tw_core::native::{FormatName, NativeLabel};
use tw_core::request::{PartBlock, ROUND_GAP};

pub mod request;
pub mod settings;

pub mod body;
pub mod stream;

pub mod chunks;
pub mod completion;
pub mod error;
pub mod limit_headers;
pub mod no_such_path;
pub mod outcome;

/// The name of this format.
pub const FORMAT: FormatName = FormatName::new("chat_completions");

/// The fields in which upstreams write reasoning.
pub const REASONING_CONTENT: NativeLabel = NativeLabel::new("reasoning_content");
pub const REASONING: NativeLabel = NativeLabel::new("reasoning");
/// OpenRouter's list of thoughts, with signatures, among the further fields of a message.
pub(crate) const REASONING_DETAILS: &str = "reasoning_details";
/// A part of `content` with `type: thinking`.
pub const THINKING_PART: NativeLabel = NativeLabel::new("thinking");

/// Writes the usage of a turn: as the upstream wrote it, where that was in this format.
fn write_usage(out: &mut Vec<u8>, usage: &TokenUsage) {
    if let Some(native) = usage
        .native
        .as_ref()
        .filter(|native| native.format == FORMAT)
    {
        return write::raw(out, &native.json);
    }
    out.push(b'{');
    for (name, tokens) in [
        ("prompt_tokens", usage.prompt_tokens),
        ("completion_tokens", usage.completion_tokens),
        ("total_tokens", usage.total_tokens),
    ] {
        write::key(out, name);
        write::number(out, tokens);
    }
    for (object, name, tokens) in [
        (
            "prompt_tokens_details",
            "cached_tokens",
            usage.cached_tokens,
        ),
        (
            "completion_tokens_details",
            "reasoning_tokens",
            usage.reasoning_tokens,
        ),
    ] {
        if let Some(tokens) = tokens {
            write::key(out, object);
            out.push(b'{');
            write::key(out, name);
            write::number(out, tokens);
            out.push(b'}');
        }
    }
    out.push(b'}');
}

/// A part of a content.
pub(crate) fn part(json: Json) -> PartBlock {
    content::part_block(json)
}

/// The text between those of two rounds.
fn round_gap() -> Literal {
    Literal::from_text(ROUND_GAP)
}

pub(crate) mod answer;
mod calls;
mod chunk_template;
pub(crate) mod client_calls;
pub(crate) mod content;
mod delta;
pub(crate) mod ending;
pub(crate) mod raw;
pub(crate) mod reported;
pub(crate) mod surrogates;
pub(crate) mod write;
