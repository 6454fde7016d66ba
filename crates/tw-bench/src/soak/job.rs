//! Jobs: what a client asks next, and what the answer must be.

use anyhow::{bail, ensure};
use serde_json::{Value, json};

use crate::all::request;
use crate::all::turnwright::{BROKEN_TOOL, TOOL};
use crate::http::ResponseHead;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoakJob {
    Plain,
    Streamed,
    /// A call of effect `once`.
    Tool,
    ToolStreamed,
    /// The tool breaks off after its request was read.
    BrokenTool,
    /// A call of the server and one of the client's own.
    Mixed,
    /// The next turn of a person's conversation, with hidden calls now and then.
    Conversation,
    /// The client leaves in the middle.
    Leave,
    /// The upstream breaks off.
    Cut,
    CutStreamed,
    /// The upstream fails.
    Refused,
}

/// Order of the jobs, by turns; upstreams are asked three times before they count as failed, so failures are fewer.
const JOBS: [SoakJob; 24] = [
    SoakJob::Plain,
    SoakJob::Tool,
    SoakJob::Streamed,
    SoakJob::Conversation,
    SoakJob::ToolStreamed,
    SoakJob::Mixed,
    SoakJob::Plain,
    SoakJob::Leave,
    SoakJob::Tool,
    SoakJob::Streamed,
    SoakJob::Conversation,
    SoakJob::ToolStreamed,
    SoakJob::CutStreamed,
    SoakJob::Plain,
    SoakJob::Mixed,
    SoakJob::Tool,
    SoakJob::Streamed,
    SoakJob::Conversation,
    SoakJob::BrokenTool,
    SoakJob::Leave,
    SoakJob::ToolStreamed,
    SoakJob::Plain,
    SoakJob::Refused,
    SoakJob::Cut,
];

/// The outcome that a job must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// Answer that is whole, with the model's text.
    BeText,
    /// No answer: nobody reads it.
    BeLeft,
    /// An error status.
    BeError,
    /// A stream that ends with an error, or an error status.
    EndWithError,
}

impl SoakJob {
    pub fn number(at: usize) -> Self {
        JOBS[at % JOBS.len()]
    }

    pub fn must(self) -> ExpectedOutcome {
        match self {
            Self::Plain
            | Self::Streamed
            | Self::Tool
            | Self::ToolStreamed
            | Self::BrokenTool
            | Self::Mixed
            | Self::Conversation => ExpectedOutcome::BeText,
            Self::Leave => ExpectedOutcome::BeLeft,
            Self::Cut | Self::Refused => ExpectedOutcome::BeError,
            Self::CutStreamed => ExpectedOutcome::EndWithError,
        }
    }

    fn is_streamed(self) -> bool {
        match self {
            Self::Streamed | Self::ToolStreamed | Self::Leave | Self::CutStreamed => true,
            Self::Plain
            | Self::Tool
            | Self::BrokenTool
            | Self::Mixed
            | Self::Conversation
            | Self::Cut
            | Self::Refused => false,
        }
    }

    pub fn model(self) -> &'static str {
        match self {
            Self::Plain | Self::Tool | Self::BrokenTool => "mock-t16",
            Self::Streamed | Self::ToolStreamed => "mock-t30-d5",
            Self::Mixed => "mock-t16-c2",
            Self::Conversation => "mock-t16-c0",
            Self::Leave => "mock-t200-d20",
            Self::Cut => "mock-t16-x1",
            Self::CutStreamed => "mock-t30-x1",
            Self::Refused => "mock-t16-s500",
        }
    }

    /// The body of a request by itself; a conversation and a mixed round have others.
    pub fn body(self) -> Value {
        let tools: Vec<Value> = match self {
            Self::Tool | Self::ToolStreamed => vec![tool(TOOL)],
            Self::BrokenTool => vec![tool(BROKEN_TOOL)],
            Self::Plain
            | Self::Streamed
            | Self::Mixed
            | Self::Conversation
            | Self::Leave
            | Self::Cut
            | Self::CutStreamed
            | Self::Refused => Vec::new(),
        };
        json!({
            "model": self.model(),
            "stream": self.is_streamed(),
            "messages": request::messages(),
            "tools": tools,
        })
    }
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

/// Holds an answer against what it must be.
///
/// # Errors
/// It is another one.
pub fn check(
    must: ExpectedOutcome,
    text: &str,
    head: &ResponseHead,
    body: &[u8],
) -> anyhow::Result<()> {
    let shown = || {
        let shown = String::from_utf8_lossy(body);
        shown.chars().rev().take(SHOWN_CHARS).collect::<Vec<_>>()
    };
    let shown = || shown().into_iter().rev().collect::<String>();
    let has = |what: &str| memchr::memmem::find(body, what.as_bytes()).is_some();
    let is_stream = body.starts_with(b"data:") || body.starts_with(b":");
    match must {
        ExpectedOutcome::BeText => {
            ensure!(head.status == 200, "status {}: {}", head.status, shown());
            if is_stream {
                ensure!(has("[DONE]"), "a stream without its end: {}", shown());
                let last = text.split_inclusive(' ').next_back().unwrap_or_default();
                ensure!(has(last), "not the last piece of text: {}", shown());
            } else {
                ensure!(has(text), "another text: {}", shown());
            }
        }
        ExpectedOutcome::BeError => {
            ensure!(head.status >= 500, "status {}: {}", head.status, shown())
        }
        ExpectedOutcome::EndWithError if head.status == 200 => {
            ensure!(has("\"error\""), "no error: {}", shown());
            ensure!(!has("[DONE]"), "an end behind an error: {}", shown());
        }
        ExpectedOutcome::EndWithError => {
            ensure!(head.status >= 500, "status {}: {}", head.status, shown())
        }
        ExpectedOutcome::BeLeft => bail!("an answer that nobody reads"),
    }
    Ok(())
}

/// Characters of an answer's end that are shown.
const SHOWN_CHARS: usize = 200;

#[cfg(test)]
mod tests;
