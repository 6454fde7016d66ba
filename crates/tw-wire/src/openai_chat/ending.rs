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

/// Parts of words for an answer that was blocked: OpenAI's and Azure's, Gemini's safety reasons, Zhipu's
/// `sensitive`, DashScope's `data_inspection_failed`, Bedrock's guardrail, Anthropic's refusal.
const BLOCKED: [&str; 17] = [
    "contentfilter",
    "contentblock",
    "contentpolicy",
    "policyviolation",
    "filtered",
    "blocked",
    "blocklist",
    "safety",
    "sensitive",
    "recitation",
    "prohibited",
    "spii",
    "guardrail",
    "moderat",
    "refusal",
    "inspection",
    "toxic",
];
/// Words that mean it, whole: parts of others may not. Gemini's `LANGUAGE` is one that it may not speak.
const BLOCKED_WHOLE: [&str; 4] = ["language", "unsafe", "censored", "violation"];

/// Parts of words for a failure: whatever names an error, vLLM's and SGLang's `abort`, Gemini's reasons for a call that
/// it could not write, DeepSeek's `insufficient_system_resource`, and what others say of an answer that they gave up.
const FAILED: [&str; 19] = [
    "error",
    "fail",
    "exception",
    "abort",
    "cancel",
    "timeout",
    "timedout",
    "overload",
    "unavailable",
    "unloaded",
    "interrupted",
    "disconnect",
    "malformed",
    "unexpectedtoolcall",
    "toomanytoolcalls",
    "missingthoughtsignature",
    "insufficient",
    "ratelimit",
    "connection",
];
const FAILED_WHOLE: [&str; 2] = ["incomplete", "crash"];

/// Parts of words of OpenAI, Anthropic, Mistral and Gemini, and of local servers, for an answer that a limit ended.
const LENGTH: [&str; 4] = ["length", "contextwindow", "tokenlimit", "tokenslimit"];
/// The beginning of others: `max_tokens`, `max_output`, `maxPredictedTokensReached`.
const LENGTH_BEGINNING: &str = "max";

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
    let has_any = |parts: &[&str]| {
        let has = |word: &String| parts.iter().any(|part| word.contains(part));
        words.iter().any(has)
    };
    let is = |known: &str| words.iter().any(|word| word == known);
    if word.trim().is_empty() || is("null") || is("none") {
        return None;
    }
    let begins_as_length = |word: &String| word.starts_with(LENGTH_BEGINNING);
    Some(if has_any(&BLOCKED) || is_any(&BLOCKED_WHOLE) {
        ChoiceEnding::As(Finish::ContentFilter)
    } else if has_any(&FAILED) || is_any(&FAILED_WHOLE) {
        ChoiceEnding::Failed
    } else if has_any(&LENGTH) || words.iter().any(begins_as_length) {
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
