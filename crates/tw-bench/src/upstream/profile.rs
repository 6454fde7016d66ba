//! Profiles of the fake server's answers, which the names of models ask for.

use std::time::Duration;

use anyhow::{Context, bail};

/// Faults of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFault {
    /// The connection closes after half of the answer.
    Cut,
    /// The answer has this status, and says so.
    Status(u16),
}

/// Profile of an answer, as `mock-t50-f50-d20-b16-c2` asks for it: 50 text deltas, 50 ms before
/// anything comes, 20 ms between two writes, 16 events in a write; two calls before the text. `-x1`
/// cuts it in the middle, `-s500` answers with that status. What stands before `mock-` is for those who pass it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub deltas: usize,
    /// Time before anything is written.
    pub first: Duration,
    pub pause: Duration,
    /// Events in a write, at least 1.
    pub events_per_write: usize,
    /// Number of tools, of those that it is offered, that the model calls first, one call each.
    pub calls: usize,
    pub fault: Option<AnswerFault>,
}

impl Profile {
    /// # Errors
    /// The name is none of this server's models.
    pub fn parse(model: &str) -> anyhow::Result<Self> {
        let mut profile = Self {
            deltas: 16,
            first: Duration::ZERO,
            pause: Duration::ZERO,
            events_per_write: 1,
            calls: 1,
            fault: None,
        };
        let (_, parts) = model.split_once("mock-").context("no such model")?;
        for part in parts.split('-') {
            let (kind, number) = part.split_at_checked(1).context("no such model")?;
            let number: u32 = number
                .parse()
                .with_context(|| format!("the model {model}"))?;
            match kind {
                "t" => profile.deltas = usize::try_from(number)?,
                "f" => profile.first = Duration::from_millis(number.into()),
                "d" => profile.pause = Duration::from_millis(number.into()),
                "x" => profile.fault = Some(AnswerFault::Cut),
                "s" => profile.fault = Some(AnswerFault::Status(u16::try_from(number)?)),
                "c" => profile.calls = usize::try_from(number)?,
                "b" => profile.events_per_write = usize::try_from(number.max(1))?,
                _ => bail!("the model {model}: {part:?} says nothing"),
            }
        }
        Ok(profile)
    }

    /// The whole text of an answer.
    pub fn text(self) -> String {
        (0..self.deltas).map(word).collect()
    }
}

/// The text of one delta: no two of an answer are equal, so that order can be checked.
pub fn word(index: usize) -> String {
    format!("w{index:05} ")
}
