//! Rules by which a response is an answer, and the part of it that the model is shown.

use serde_json::Value;

use super::{ResponseRules, ResponseSelect, StatusRule, ToolDefinition, select};
use crate::tool::SelectedAnswer;

impl ToolDefinition {
    /// Whether a response with this status is an answer.
    pub fn accepts(&self, status: u16) -> bool {
        self.response.statuses.iter().any(|rule| match *rule {
            StatusRule::Hundred(hundred) => status / 100 == hundred,
            StatusRule::Exactly(exact) => status == exact,
        })
    }

    /// Whether a body with this `Content-Type`, parameters and all, is given to the model as
    /// text.
    pub fn is_text(&self, content_type: &str) -> bool {
        matches_any(&self.response.content_types, content_type)
    }

    /// The selected part of an answer, as JSON; `None` where the model is shown the answer itself, which holds for a
    /// tool that selects nothing and for an empty answer.
    ///
    /// One path that can find one node only gives that node, or null; any other path gives an
    /// array of what it finds. Digits of numbers stay as the answer has them.
    ///
    /// The part has no more bytes than the model may be shown. What cannot be selected from is not shown at all, since
    /// the owner may have selected to keep the rest from the model: what was cut, is no JSON, nests deeper than
    /// [`crate::limits::JSON_DEPTH_DEFAULT`], or holds very many values.
    pub fn selected(&self, text: &str, cut: bool) -> Option<SelectedAnswer> {
        let select = self.response.select.as_ref()?;
        // Some servers write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return None;
        }
        let selected = if cut {
            None
        } else {
            select::apply(select, text, self.policy.shown_bytes_max)
        };
        Some(selected.unwrap_or_else(|| SelectedAnswer {
            text: NOT_SELECTED.to_owned(),
            cut: false,
        }))
    }
}

/// Whether a `Content-Type`, parameters and all, is one of these media types.
pub(super) fn matches_any(rules: &[String], content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let Some((kind, subtype)) = essence.split_once('/') else {
        return false;
    };
    rules.iter().any(|rule| {
        rule.split_once('/')
            .is_some_and(|(kinds, subtypes)| fits(kinds, kind) && fits(subtypes, subtype))
    })
}

/// The text that the model is given in place of an answer that cannot be selected from.
const NOT_SELECTED: &str =
    "The call succeeded. Its answer cannot be shown: it is not JSON, or too large to select from.";

/// Whether the pattern `*`, `*+suffix` or a plain word takes `word`.
fn fits(pattern: &str, word: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => word.ends_with(suffix),
        None => pattern == word,
    }
}

impl ResponseRules {
    /// The rules as one text, equal for equal rules.
    pub(crate) fn written(&self) -> String {
        let select = match &self.select {
            None => Value::Null,
            Some(ResponseSelect::One(path)) => Value::from(path.to_string()),
            Some(ResponseSelect::Named(paths)) => paths
                .iter()
                .map(|(name, path)| Value::from(vec![name.clone(), path.to_string()]))
                .collect(),
        };
        let statuses: Value = self
            .statuses
            .iter()
            .map(|rule| match *rule {
                StatusRule::Hundred(hundred) => Value::from(format!("{hundred}xx")),
                StatusRule::Exactly(exact) => Value::from(exact),
            })
            .collect();
        serde_json::json!([select, self.content_types, statuses, self.kept_bytes_max]).to_string()
    }
}
