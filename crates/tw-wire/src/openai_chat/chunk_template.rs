//! The usual chunk of an answer, which differs from the one before it in nothing but its text.
//!
//! Most upstreams write the same around the text of every chunk. What stands around it is then
//! compared instead of parsed, which costs a tenth: parsing it would give what it gave before,
//! since a string ends at the first quote without a backslash, whatever it holds.

use tw_core::json::Literal;
use tw_core::model::AnswerDelta;

use super::surrogates;

/// The text around the answer's text in the usual chunk; empty until one was seen.
#[derive(Debug, Default)]
pub struct ChunkTemplate {
    /// The chunk up to and with the text's first quote.
    before: String,
    /// The chunk from the text's last quote on.
    after: String,
    choice: u32,
}

/// Longest text around a chunk's own that is worth keeping, in bytes.
const AROUND_BYTES_MAX: usize = 4096;

impl ChunkTemplate {
    /// Keeps the text around `text`, the string with its quotes as it stands in `chunk`.
    ///
    /// The chunk must have given one delta with this text and nothing else, and left nothing to
    /// remember: it is not looked at again.
    pub fn keep(&mut self, chunk: &str, text: &str, choice: u32) {
        let start = (text.as_ptr() as usize).wrapping_sub(chunk.as_ptr() as usize);
        let around = chunk
            .get(start..)
            .and_then(|from_text| from_text.strip_prefix(text))
            .zip(chunk.get(..start.saturating_add(1)))
            .filter(|_| text.len() >= 2 && text.starts_with('"') && text.ends_with('"'));
        self.before.clear();
        self.after.clear();
        let Some((after, before)) = around else {
            return;
        };
        if before.len() + after.len() < AROUND_BYTES_MAX {
            self.before.push_str(before);
            self.after.push('"');
            self.after.push_str(after);
            self.choice = choice;
        }
    }

    /// The delta of `chunk`, if it is a usual one.
    pub fn read(&self, chunk: &str) -> Option<AnswerDelta> {
        if self.before.is_empty() {
            return None;
        }
        let text = chunk
            .strip_prefix(&*self.before)?
            .strip_suffix(&*self.after)?;
        // A quote inside would end the string, and what follows it would be other fields.
        let text = Literal::checked(text).filter(|text| !text.is_empty())?;
        // Half a character changes what the next text means.
        if surrogates::may_hold_half(text.as_str()) {
            return None;
        }
        Some(AnswerDelta {
            choice: self.choice,
            text: Some(text),
            rest: None,
        })
    }
}

#[cfg(test)]
mod tests;
