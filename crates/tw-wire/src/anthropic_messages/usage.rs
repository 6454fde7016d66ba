//! Tokens of an answer.

use tw_core::json::Json;
use tw_core::model::TokenUsage;
use tw_core::native::{NativeFields, NativePart};

use super::FORMAT;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;
use serde_json::value::RawValue;

/// Different fields of a usage that are kept; further ones are not.
const FIELDS_MAX: usize = 64;

/// The usage of an answer, of which each event tells a part: what comes later counts.
#[derive(Debug, Default)]
pub struct UsageSoFar(NativeFields);

impl UsageSoFar {
    /// Takes what an event tells, and gives all that is known; `None` if it tells nothing.
    pub fn add(&mut self, told: &RawValue) -> Option<TokenUsage> {
        let told = ObjectFields::parse(told.get()).ok()?;
        for (key, value) in &told.0 {
            match self.0.iter().position(|(have, _)| **have == **key) {
                // Null takes nothing back.
                Some(_) if raw::is_null(value) => {}
                Some(at) => self.0[at].1 = Json::from_raw(value),
                None if self.0.len() == FIELDS_MAX => {}
                None => self.0.push((Box::from(&**key), Json::from_raw(value))),
            }
        }
        read(&Json::of_fields(&self.0))
    }
}

/// Reads a usage. Its `input_tokens` leave out what was read from the cache or written to it.
fn read(json: &Json) -> Option<TokenUsage> {
    let fields = ObjectFields::parse(json.as_str()).ok()?;
    let count = |name| fields.get(name).and_then(raw::count);
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached = count("cache_read_input_tokens");
    let cache_write = count("cache_creation_input_tokens");
    let prompt_tokens = [input, cached, cache_write]
        .into_iter()
        .flatten()
        .fold(0u64, u64::saturating_add);
    let completion_tokens = output.unwrap_or(0);
    let details = fields
        .get("output_tokens_details")
        .and_then(|raw| ObjectFields::parse(raw.get()).ok());
    Some(TokenUsage {
        prompt_tokens,
        completion_tokens,
        total_tokens: prompt_tokens.saturating_add(completion_tokens),
        cached_tokens: cached,
        cache_write_tokens: cache_write,
        reasoning_tokens: details
            .and_then(|details| details.get("thinking_tokens").and_then(raw::count)),
        native: Some(NativePart {
            format: FORMAT,
            json: json.clone(),
        }),
    })
}

/// Writes the usage of a turn: as the upstream wrote it, where that was in this format.
pub fn write(out: &mut Vec<u8>, usage: &TokenUsage) {
    if let Some(native) = usage
        .native
        .as_ref()
        .filter(|native| native.format == FORMAT)
    {
        return write::raw(out, &native.json);
    }
    // Some providers say that more was cached than there is; the parts are together what they counted as the input.
    let cached = usage.cached_tokens.unwrap_or(0).min(usage.prompt_tokens);
    let fresh = usage.prompt_tokens - cached;
    let cache_write = usage.cache_write_tokens.unwrap_or(0).min(fresh);
    let input = fresh - cache_write;
    out.push(b'{');
    for (name, tokens) in [
        ("input_tokens", input),
        ("cache_creation_input_tokens", cache_write),
        ("cache_read_input_tokens", cached),
        ("output_tokens", usage.completion_tokens),
    ] {
        write::key(out, name);
        write::number(out, tokens);
    }
    if let Some(tokens) = usage.reasoning_tokens {
        write::key(out, "output_tokens_details");
        out.extend_from_slice(b"{\"thinking_tokens\":");
        write::number(out, tokens);
        out.push(b'}');
    }
    out.push(b'}');
}

/// The usage before anything is known.
pub const NOTHING: &[u8] = b"{\"input_tokens\":0,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":0}";
