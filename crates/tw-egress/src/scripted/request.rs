//! The parts of a request that a script can see.

use serde_json::Value;

use super::CHOICES_MAX;

/// The parts of a chat-completions request that rules and answers look at.
#[derive(Debug)]
pub(super) struct SeenRequest {
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) choices: u64,
    pub(super) messages: Vec<SeenMessage>,
    pub(super) tools: Vec<String>,
}

#[derive(Debug)]
pub(super) struct SeenMessage {
    pub(super) role: String,
    /// The content when it is a string, else its text parts joined; empty for null.
    pub(super) text: String,
}

/// The reason for which a body is no request for a chat completion.
#[derive(Debug)]
pub(super) struct RequestRefusal {
    pub(super) message: String,
    pub(super) param: Option<&'static str>,
}

impl SeenRequest {
    pub(super) fn read(body: &[u8]) -> Result<SeenRequest, RequestRefusal> {
        let Ok(Value::Object(request)) = serde_json::from_slice(body) else {
            return Err(refuse("the body is not a JSON object", None));
        };
        let Some(Value::Array(messages)) = request.get("messages") else {
            return Err(refuse(
                "`messages` is missing or no array",
                Some("messages"),
            ));
        };
        if messages.is_empty() {
            return Err(refuse("`messages` is empty", Some("messages")));
        }
        let choices = match request.get("n") {
            None | Some(Value::Null) => 1,
            Some(n) => match n.as_u64() {
                Some(n) if (1..=CHOICES_MAX).contains(&n) => n,
                _ => {
                    let message = format!("`n` is not a whole number from 1 to {CHOICES_MAX}");
                    return Err(refuse(&message, Some("n")));
                }
            },
        };
        let usage = request
            .get("stream_options")
            .and_then(|options| options.get("include_usage"));
        Ok(SeenRequest {
            model: request
                .get("model")
                .and_then(Value::as_str)
                .map(String::from),
            stream: request.get("stream") == Some(&Value::Bool(true)),
            include_usage: usage == Some(&Value::Bool(true)),
            choices,
            messages: messages.iter().map(SeenMessage::read).collect(),
            tools: tool_names(&request),
        })
    }

    pub(super) fn last_user(&self) -> &str {
        self.last_of("user")
    }

    pub(super) fn last_result(&self) -> &str {
        self.last_of("tool")
    }

    /// The `number`th tool message, from 1, since the last user message; empty when there are fewer.
    pub(super) fn result(&self, number: usize) -> &str {
        let start = self.after_last("user");
        let mut results = self.messages[start..].iter().filter(|m| m.role == "tool");
        number
            .checked_sub(1)
            .and_then(|skip| results.nth(skip))
            .map_or("", |message| &message.text)
    }

    /// Number of tool messages after the last assistant message.
    pub(super) fn tool_results(&self) -> usize {
        let start = self.after_last("assistant");
        self.messages[start..]
            .iter()
            .filter(|m| m.role == "tool")
            .count()
    }

    /// Tells the writer of a script what came in, without quoting any content.
    pub(super) fn unmatched(&self, rules: usize) -> String {
        let last_role = self.messages.last().map_or("", |message| &message.role);
        format!(
            "no rule of the script matches this request ({rules} rules; messages = {}, last_role = {last_role:?}, \
             tool_results = {}, stream = {}, model = {:?}, tools = {:?})",
            self.messages.len(),
            self.tool_results(),
            self.stream,
            self.model.as_deref().unwrap_or(""),
            self.tools,
        )
    }

    fn last_of(&self, role: &str) -> &str {
        let message = self.messages.iter().rev().find(|m| m.role == role);
        message.map_or("", |message| &message.text)
    }

    /// Index of the message after the last one with `role`; 0 when there is none.
    fn after_last(&self, role: &str) -> usize {
        let at = self.messages.iter().rposition(|m| m.role == role);
        at.map_or(0, |at| at + 1)
    }
}

impl SeenMessage {
    fn read(message: &Value) -> SeenMessage {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("");
        let text = match message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => parts
                .iter()
                .filter_map(|part| part.get("text").and_then(Value::as_str))
                .collect(),
            _ => String::new(),
        };
        SeenMessage {
            role: role.to_owned(),
            text,
        }
    }
}

/// Names under `tools`, functions and custom tools alike, then those under the old `functions`.
fn tool_names(request: &serde_json::Map<String, Value>) -> Vec<String> {
    let array = |key: &str| request.get(key).and_then(Value::as_array);
    let tools = array("tools").into_iter().flatten();
    let tools = tools.filter_map(|tool| tool.get("function").or_else(|| tool.get("custom")));
    let functions = array("functions").into_iter().flatten();
    tools
        .chain(functions)
        .filter_map(|tool| tool.get("name").and_then(Value::as_str))
        .map(String::from)
        .collect()
}

fn refuse(message: &str, param: Option<&'static str>) -> RequestRefusal {
    RequestRefusal {
        message: message.to_owned(),
        param,
    }
}
