//! What of a response is an answer, and what the model is shown of it.

use serde_json::Value;

use super::{Definition, ResponseRules, Select, StatusRule, select};
use crate::tool::Selected;

impl Definition {
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
        let essence = content_type.split(';').next().unwrap_or_default();
        let essence = essence.trim().to_ascii_lowercase();
        let Some((kind, subtype)) = essence.split_once('/') else {
            return false;
        };
        let rules = &self.response.content_types;
        rules.iter().any(|rule| {
            rule.split_once('/')
                .is_some_and(|(kinds, subtypes)| fits(kinds, kind) && fits(subtypes, subtype))
        })
    }

    /// What the model is shown of an answer, as JSON; `None` for the answer itself.
    ///
    /// One path that can find one node only gives that node, or null; any other path gives an
    /// array of what it finds. Digits of numbers stay as the answer has them.
    ///
    /// It has no more bytes than the model may be shown. Of an answer that nests deeper than
    /// [`crate::limits::JSON_DEPTH_DEFAULT`], or that holds very many values, nothing is
    /// selected.
    pub fn selected(&self, text: &str) -> Option<Selected> {
        let select = self.response.select.as_ref()?;
        select::apply(select, text, self.policy.shown_bytes_max)
    }
}

/// Whether `*`, `*+suffix` or a plain word takes `word`.
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
            Some(Select::One(path)) => Value::from(path.to_string()),
            Some(Select::Named(paths)) => paths
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
