//! Words at the end of a choice, and the endings that they stand for.
//!
//! Words are compared by their letters alone, since they come as `max_tokens`, `MAX_TOKENS` and
//! `MaxTokens`. A word that nobody knows is a stop, as is Together's `eos`: an answer that came
//! whole is not thrown away for it.

use tw_core::model::Finish;

/// The ending of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceEnding {
    As(Finish),
    /// The upstream says that it failed at the answer.
    Failed,
}

/// Words of OpenAI, Anthropic, Mistral, DeepSeek and Gemini for an answer that a limit ended.
const LENGTH: [&str; 9] = [
    "length",
    "maxtokens",
    "maxlength",
    "maxoutputtokens",
    "modellength",
    "modelcontextwindowexceeded",
    "contextlengthexceeded",
    "tokenlimit",
    "insufficientsystemresource",
];

/// Words for an answer that was blocked: OpenAI's and Azure's, Gemini's safety reasons, Zhipu's
/// `sensitive`, Bedrock's guardrail, Anthropic's refusal.
const BLOCKED: [&str; 17] = [
    "contentfilter",
    "contentfiltered",
    "contentblocked",
    "safety",
    "sensitive",
    "recitation",
    "blocklist",
    "blocked",
    "prohibitedcontent",
    "spii",
    "imagesafety",
    "imageprohibitedcontent",
    "imagerecitation",
    "guardrailintervened",
    "guardrails",
    "moderation",
    "refusal",
];

/// Words for a failure that do not name an error: vLLM's and SGLang's `abort`, Gemini's reasons
/// for a call that it could not write, and what others say of an answer that they gave up.
const FAILED: [&str; 14] = [
    "abort",
    "aborted",
    "cancel",
    "cancelled",
    "canceled",
    "timeout",
    "timedout",
    "overloaded",
    "interrupted",
    "incomplete",
    "malformedfunctioncall",
    "malformedresponse",
    "unexpectedtoolcall",
    "toomanytoolcalls",
];

/// Words for an answer that calls tools.
const CALLS: [&str; 5] = [
    "toolcalls",
    "toolcall",
    "tooluse",
    "functioncall",
    "functioncalls",
];

/// Reads a finish; `None` is none: DashScope writes "null" into every chunk.
pub fn read(word: &str) -> Option<ChoiceEnding> {
    // Gemini writes `content_filter: SAFETY` and `function_call_filter: MALFORMED_FUNCTION_CALL`,
    // where the second word says more.
    let words: Vec<String> = word.split(':').map(letters).collect();
    let is_any = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    let is = |known: &str| words.iter().any(|word| word == known);
    if word.trim().is_empty() || is("null") || is("none") {
        return None;
    }
    let names_error = |word: &String| word.contains("error") || word.contains("fail");
    Some(if is_any(&BLOCKED) {
        ChoiceEnding::As(Finish::ContentFilter)
    } else if is_any(&FAILED) || words.iter().any(names_error) {
        ChoiceEnding::Failed
    } else if is_any(&LENGTH) {
        ChoiceEnding::As(Finish::Length)
    } else if is_any(&CALLS) {
        ChoiceEnding::As(Finish::ToolCalls)
    } else {
        ChoiceEnding::As(Finish::Stop)
    })
}

fn letters(word: &str) -> String {
    let letters = word.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests;
