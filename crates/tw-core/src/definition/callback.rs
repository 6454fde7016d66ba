//! What a tool that completes by webhook says in its answer and in its callbacks.

use serde_json::Value;
use serde_json_path::JsonPath;

use super::{CallbackRules, ToolDefinition, select};
use crate::call::{CallEnd, CallReason};
use crate::callback::CallbackMeaning;
use crate::limits::EXTERNAL_ID_BYTES_MAX;
use crate::tool::ToolOutput;
use crate::variables::beginning;

/// Longest text of what went wrong that the model is shown, in bytes.
const ERROR_BYTES_MAX: usize = 2048;

/// The answer does not name the job that it should have started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoJobNamed;

impl ToolDefinition {
    /// What the body of a callback says of its call.
    pub fn callback_meaning(&self, body: &str) -> CallbackMeaning {
        let Some(rules) = &self.callback else {
            return CallbackMeaning::Malformed;
        };
        let Some(status) = &rules.status else {
            return self.completed_by(rules, body);
        };
        let Some(value) = select::parse(body) else {
            return CallbackMeaning::Malformed;
        };
        match node(&status.path, &value) {
            None => CallbackMeaning::Malformed,
            Some(word) if status.completed.contains(word) => self.completed_by(rules, body),
            Some(word) if status.failed.contains(word) => {
                CallbackMeaning::Ended(failed(rules, &value))
            }
            Some(_) => CallbackMeaning::Progress,
        }
    }

    fn completed_by(&self, rules: &CallbackRules, body: &str) -> CallbackMeaning {
        let shown_max = self.policy.shown_bytes_max;
        let selected = match &rules.result {
            None => None,
            Some(result) => match select::apply(result, body, shown_max) {
                Some(selected) => Some(selected),
                None => return CallbackMeaning::Malformed,
            },
        };
        let output = ToolOutput::Text {
            text: body.to_owned(),
            cut: false,
            selected,
        };
        CallbackMeaning::Ended(output.end(shown_max, self.response.kept_bytes_max))
    }

    /// The id of the job that an answer says has started; `None` for a tool that says none.
    ///
    /// # Errors
    /// [`NoJobNamed`] when there is no such id where the definition says that it is.
    pub fn job_named(&self, answer: &str) -> Result<Option<String>, NoJobNamed> {
        let Some(path) = self
            .callback
            .as_ref()
            .and_then(|rules| rules.external_id.as_ref())
        else {
            return Ok(None);
        };
        let answer = select::parse(answer).ok_or(NoJobNamed)?;
        let id = match node(path, &answer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
                return Err(NoJobNamed);
            }
        };
        let is_fit =
            !id.is_empty() && id.len() <= EXTERNAL_ID_BYTES_MAX && !id.contains(char::is_control);
        if is_fit {
            Ok(Some(id))
        } else {
            Err(NoJobNamed)
        }
    }
}

fn failed(rules: &CallbackRules, body: &Value) -> CallEnd {
    let said = rules.error.as_ref().and_then(|path| node(path, body));
    let said = match said {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.replace('\0', "\u{fffd}"),
        Some(value) => value.to_string(),
    };
    let shown = match beginning(&said, ERROR_BYTES_MAX) {
        "" => "The job failed.".to_owned(),
        said => format!("The job failed: {said}"),
    };
    CallEnd {
        reason: Some(CallReason::ToolError),
        result: None,
        shown,
        is_error: true,
        cached: false,
    }
}

/// The first node that a path finds.
pub(super) fn node<'a>(path: &JsonPath, value: &'a Value) -> Option<&'a Value> {
    path.query(value).first()
}
