//! Counts of the tokens of a request that is not answered.
//!
//! Follows "Count tokens" of Anthropic's API reference (`types/message_count_tokens_params.py` of
//! anthropic-sdk-python 0.121.0) and "Get input token counts" of OpenAI's (2025). Both answer `input_tokens`; both
//! refuse the fields of a request that are about its answer.

use crate::format::WireFormat;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// Fields of a request for a message that are no fields of one for its count.
const OF_MESSAGES: [&str; 10] = [
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "service_tier",
    "container",
    "inference_geo",
];

/// The same of a request for a response.
const OF_RESPONSES: [&str; 19] = [
    "background",
    "context_management",
    "include",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "moderation",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "top_logprobs",
    "top_p",
    "user",
];

/// What of the body of a request for an answer is asked for its count.
pub(crate) fn body_of(format: WireFormat, request: &[u8]) -> Vec<u8> {
    let left_out: &[&str] = match format {
        WireFormat::OpenAiChat => &[],
        WireFormat::AnthropicMessages => &OF_MESSAGES,
        WireFormat::OpenAiResponses => &OF_RESPONSES,
    };
    let text = std::str::from_utf8(request).unwrap_or_default();
    let mut out = vec![b'{'];
    // It was written by this program, so it is an object.
    for (name, value) in ObjectFields::parse(text)
        .into_iter()
        .flat_map(|read| read.0)
    {
        if !left_out.contains(&&*name) {
            write::foreign_key(&mut out, &name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    out.push(b'}');
    out
}

/// The count that an upstream answers; `None` for anything else.
pub fn read(answer: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(answer).ok()?;
    let fields = ObjectFields::parse(text).ok()?;
    fields.get("input_tokens").and_then(raw::count)
}

/// Writes a count in the format of a client.
pub(crate) fn render(format: WireFormat, tokens: u64) -> Vec<u8> {
    let mut out = vec![b'{'];
    match format {
        WireFormat::OpenAiChat | WireFormat::AnthropicMessages => {}
        WireFormat::OpenAiResponses => {
            write::key(&mut out, "object");
            write::string(&mut out, "response.input_tokens");
        }
    }
    write::key(&mut out, "input_tokens");
    write::number(&mut out, tokens);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
