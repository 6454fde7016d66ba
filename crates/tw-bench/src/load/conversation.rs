//! A client that resends its history with every request, without the calls that it never saw.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::exchange::Connection;
use crate::all::request;

/// A conversation to be held.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub key: String,
    /// The person whose conversation it is.
    pub user: String,
    pub turns: usize,
    /// Divisor of the numbers of those turns that have a hidden call.
    pub calls_every: usize,
    /// Model that answers without a call; `calling_model` answers with one.
    pub model: String,
    pub calling_model: String,
    /// Text that the model answers with.
    pub text: String,
}

/// Holds the conversation and returns how long each turn took.
///
/// # Errors
/// An answer is wrong or does not come.
pub fn hold(address: SocketAddr, plan: &Conversation) -> anyhow::Result<Vec<Duration>> {
    super::runtime()?.block_on(async {
        let mut connection = Connection::open(address).await?;
        let mut messages = Vec::new();
        let mut took = Vec::with_capacity(plan.turns);
        for turn in 1..=plan.turns {
            let question = format!("{}: question {turn}", plan.user);
            messages.push(json!({"role": "user", "content": question}));
            let request = plan.request(turn, &messages);
            let asked = Instant::now();
            let (head, answer) = connection
                .fetch(&request)
                .await
                .with_context(|| format!("turn {turn}"))?;
            took.push(asked.elapsed());
            messages.push(plan.message(head.status, &answer)?);
        }
        Ok(took)
    })
}

impl Conversation {
    fn request(&self, turn: usize, messages: &[Value]) -> Vec<u8> {
        let model = if turn.is_multiple_of(self.calls_every) {
            &self.calling_model
        } else {
            &self.model
        };
        let body = json!({"model": model, "user": self.user, "messages": messages});
        request::post(&body, &self.key)
    }

    /// The assistant's message, as the client sends it back.
    fn message(&self, status: u16, answer: &[u8]) -> anyhow::Result<Value> {
        let whole = || String::from_utf8_lossy(answer).into_owned();
        ensure!(status == 200, "status {status}: {}", whole());
        let answer: Value = serde_json::from_slice(answer).with_context(whole)?;
        let text = answer["choices"][0]["message"]["content"].as_str();
        ensure!(text == Some(self.text.as_str()), "another text: {answer}");
        Ok(json!({"role": "assistant", "content": text}))
    }

    /// Results of hidden calls that the model is given again, over all turns.
    pub fn restored(&self) -> u64 {
        let before = |turn: usize| (turn - 1) / self.calls_every;
        (1..=self.turns).map(|turn| before(turn) as u64).sum()
    }

    pub fn calls(&self) -> u64 {
        (self.turns / self.calls_every) as u64
    }
}

#[cfg(test)]
mod tests;
