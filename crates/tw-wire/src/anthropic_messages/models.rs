//! What models can, by their names: the API answers 400 to what a model cannot.
//!
//! Follows Anthropic's pages "Extended thinking", "Adaptive thinking", "Structured outputs" and "Models overview" as of
//! August 2026, from memory. Of a name that is not known, the newest is thought where it says `claude`, and the oldest
//! form where it does not: other vendors speak the API as it was.

/// The form in which a model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingForm {
    /// The model does not think.
    None,
    /// `{"type": "enabled", "budget_tokens"}`
    Budget,
    /// `{"type": "adaptive"}` and `output_config.effort`.
    Adaptive,
}

/// What a model can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelAbilities {
    pub thinking: ThinkingForm,
    /// `output_config.format`, and `strict` tools.
    pub schemas: bool,
    /// The limit of an answer whose client gave none, in tokens.
    pub max_tokens_default: u64,
}

/// The limit of an answer whose client gave none, in tokens: the most that all models since 2024 take.
const MAX_TOKENS_DEFAULT: u64 = 8192;
/// The most that the first models of the third generation take.
const MAX_TOKENS_OF_OLD: u64 = 4096;

const OLD: [&str; 5] = [
    "claude-2",
    "claude-instant",
    "claude-3-opus",
    "claude-3-sonnet",
    "claude-3-haiku",
];
const WITHOUT_THINKING: [&str; 2] = ["claude-3-5", "claude-3.5"];
/// Models that think within a budget and know no schemas.
const FIRST_THINKING: [&str; 6] = [
    "claude-3-7",
    "claude-3.7",
    "sonnet-4-20",
    "opus-4-20",
    "sonnet-4-0",
    "opus-4-0",
];
const BUDGET: [&str; 4] = ["opus-4-1", "opus-4.1", "-4-5", "-4.5"];

/// What the model of this name can.
pub fn abilities(model: &str) -> ModelAbilities {
    let has = |words: &[&str]| words.iter().any(|word| model.contains(word));
    let (thinking, schemas) = if has(&OLD) || has(&WITHOUT_THINKING) {
        (ThinkingForm::None, false)
    } else if has(&FIRST_THINKING) || !model.contains("claude") || model.ends_with("-4") {
        (ThinkingForm::Budget, false)
    } else if has(&BUDGET) {
        (ThinkingForm::Budget, true)
    } else {
        (ThinkingForm::Adaptive, true)
    };
    ModelAbilities {
        thinking,
        schemas,
        max_tokens_default: if has(&OLD) {
            MAX_TOKENS_OF_OLD
        } else {
            MAX_TOKENS_DEFAULT
        },
    }
}
