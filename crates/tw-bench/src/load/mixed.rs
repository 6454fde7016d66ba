//! A round in which the model calls a tool of the server and one of the client, and the client's answer to it.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::all::request;

/// A mixed round as it is asked: two requests, of which the second continues the first.
#[derive(Clone, Debug)]
pub struct MixedRound {
    pub key: String,
    pub model: String,
    /// The server's tool.
    pub ours: String,
    /// The client's own.
    pub theirs: String,
}

const RESULT: &str = r#"{"seat":"12A"}"#;

impl MixedRound {
    pub fn first(&self) -> Vec<u8> {
        request::post(&self.body(&[]), &self.key)
    }

    /// Answers the call of the client's tool, which must be the only one that the client was handed.
    ///
    /// # Errors
    /// The answer is another one.
    pub fn second(&self, status: u16, answer: &[u8]) -> anyhow::Result<Vec<u8>> {
        let whole = || String::from_utf8_lossy(answer).into_owned();
        ensure!(status == 200, "status {status}: {}", whole());
        let answer: Value = serde_json::from_slice(answer).with_context(whole)?;
        let choice = &answer["choices"][0];
        ensure!(choice["finish_reason"] == "tool_calls", "{answer}");
        let message = &choice["message"];
        let calls = message["tool_calls"].as_array().map(Vec::as_slice);
        let Some([call]) = calls else {
            anyhow::bail!("not one call: {answer}");
        };
        ensure!(call["function"]["name"] == self.theirs.as_str(), "{answer}");
        let result = json!({"role": "tool", "tool_call_id": call["id"], "content": RESULT});
        let body = self.body(&[message.clone(), result]);
        Ok(request::post(&body, &self.key))
    }

    fn body(&self, more: &[Value]) -> Value {
        let mut messages = request::messages();
        messages.extend_from_slice(more);
        let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
        json!({
            "model": self.model,
            "messages": messages,
            "tools": [tool(&self.ours), tool(&self.theirs)],
        })
    }
}

#[cfg(test)]
mod tests;
