//! Checks of a definition's rules for responses and calls: numbers and their ranges.

use std::time::Duration;

use super::{CheckedDefinition, refuse};
use crate::definition::{ResponseSelect, StatusRule, ToolDefinition, select};
use crate::limits;
use crate::tool::EffectClass;

const CONTENT_TYPES_MAX: usize = 32;
const STATUSES_MAX: usize = 32;
/// Named paths of a selection; each looks through the whole answer.
const NAMED_PATHS_MAX: usize = 16;
const PATH_NAME_BYTES_MAX: usize = 128;
/// A result beyond this crowds out the conversation.
const SHOWN_BYTES_MAX: usize = 256 * 1024;
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const ATTEMPTS_MAX: u32 = 10;
const CONCURRENCY_MAX: u32 = 1024;
const LIFETIME_MIN: Duration = Duration::from_secs(1);
const LIFETIME_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) fn check(definition: &ToolDefinition) -> CheckedDefinition {
    if let Some(select) = &definition.response.select {
        check_select("response.select", select)?;
    }
    check_content_types(definition)?;
    check_statuses(definition)?;
    let kept = definition.response.kept_bytes_max;
    if !(1..=limits::RESULT_KEPT_BYTES_DEFAULT).contains(&kept) {
        return refuse(
            "response.kept_bytes_max",
            between(1, limits::RESULT_KEPT_BYTES_DEFAULT),
        );
    }
    let shown = definition.policy.shown_bytes_max;
    if !(1..=SHOWN_BYTES_MAX).contains(&shown) {
        return refuse("response.shown_bytes_max", between(1, SHOWN_BYTES_MAX));
    }
    check_policy(definition)
}

fn between<T: std::fmt::Display>(low: T, high: T) -> String {
    format!("must be from {low} to {high}")
}

pub(super) fn check_select(field: &str, selects: &ResponseSelect) -> CheckedDefinition {
    match selects {
        ResponseSelect::One(path) => select::check(path).or_else(|problem| refuse(field, problem)),
        ResponseSelect::Named(paths) => {
            if !(1..=NAMED_PATHS_MAX).contains(&paths.len()) {
                return refuse(field, format!("must have 1 to {NAMED_PATHS_MAX} members"));
            }
            for (name, path) in paths {
                let field = format!("{field}.{name}");
                if name.len() > PATH_NAME_BYTES_MAX {
                    let problem = format!("names must have at most {PATH_NAME_BYTES_MAX} bytes");
                    return refuse(&field, problem);
                }
                select::check(path).or_else(|problem| refuse(&field, problem))?;
            }
            Ok(())
        }
    }
}

fn check_content_types(definition: &ToolDefinition) -> CheckedDefinition {
    check_types("response.content_types", &definition.response.content_types)
}

pub(super) fn check_types(field: &str, types: &[String]) -> CheckedDefinition {
    if types.len() > CONTENT_TYPES_MAX {
        return refuse(field, format!("must be at most {CONTENT_TYPES_MAX}"));
    }
    for (index, pattern) in types.iter().enumerate() {
        if !is_media_pattern(pattern) {
            return refuse(
                &format!("{field}[{index}]"),
                "must be a media type in lower case, such as application/json, text/* or */*+json",
            );
        }
    }
    Ok(())
}

fn is_media_pattern(pattern: &str) -> bool {
    let is_word = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&-^_.+".contains(&byte)
            })
    };
    pattern.split_once('/').is_some_and(|(kind, subtype)| {
        let kind_fits = kind == "*" || is_word(kind);
        let subtype_fits = match subtype.strip_prefix('*') {
            Some("") => true,
            Some(suffix) => suffix.strip_prefix('+').is_some_and(is_word),
            None => is_word(subtype),
        };
        kind_fits && subtype_fits
    })
}

fn check_statuses(definition: &ToolDefinition) -> CheckedDefinition {
    let field = "response.statuses";
    let statuses = &definition.response.statuses;
    if !(1..=STATUSES_MAX).contains(&statuses.len()) {
        return refuse(field, format!("must be 1 to {STATUSES_MAX}"));
    }
    for (index, status) in statuses.iter().enumerate() {
        let is_final = match *status {
            StatusRule::Hundred(hundred) => (2..=5).contains(&hundred),
            StatusRule::Exactly(exact) => (200..600).contains(&exact),
        };
        if !is_final {
            return refuse(
                &format!("{field}[{index}]"),
                "must be from 200 to 599, or one of 2xx, 3xx, 4xx and 5xx",
            );
        }
    }
    Ok(())
}

fn check_policy(definition: &ToolDefinition) -> CheckedDefinition {
    let policy = &definition.policy;
    if !(TIMEOUT_MIN..=limits::TOOL_TIMEOUT_MAX).contains(&policy.timeout) {
        return refuse(
            "policy.timeout_ms",
            between(
                TIMEOUT_MIN.as_millis(),
                limits::TOOL_TIMEOUT_MAX.as_millis(),
            ),
        );
    }
    if !(1..=ATTEMPTS_MAX).contains(&policy.attempts_max) {
        return refuse("policy.attempts_max", between(1, ATTEMPTS_MAX));
    }
    if policy.backoff > limits::TOOL_BACKOFF_MAX {
        return refuse(
            "policy.backoff_ms",
            between(0, limits::TOOL_BACKOFF_MAX.as_millis()),
        );
    }
    if !(1..=CONCURRENCY_MAX).contains(&policy.concurrency_max) {
        return refuse("policy.concurrency_max", between(1, CONCURRENCY_MAX));
    }
    let Some(cache) = &policy.cache else {
        return Ok(());
    };
    if policy.effect != EffectClass::Read {
        return refuse("policy.cache", "may stand with the effect \"read\" only");
    }
    if !(LIFETIME_MIN..=LIFETIME_MAX).contains(&cache.lifetime) {
        return refuse(
            "policy.cache.lifetime_s",
            between(LIFETIME_MIN.as_secs(), LIFETIME_MAX.as_secs()),
        );
    }
    Ok(())
}
