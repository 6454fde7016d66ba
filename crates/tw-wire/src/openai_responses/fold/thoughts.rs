//! Reasoning in a response: a summary in parts, or the reasoning itself.

use tw_core::json::{Literal, LiteralBuf};
use tw_core::native::NativeLabel;

use super::output::OutputKind;
use super::{MessageEnd, ResponseFold};
use crate::openai_responses::request::PART_GAP;
use crate::openai_responses::{REASONING_TEXT, ids};

impl ResponseFold {
    pub(super) fn reasoning(&mut self, place: NativeLabel, text: &Literal, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let is_content = place == REASONING_TEXT;
        let at = match self.open_as(|kind| matches!(kind, OutputKind::Reasoning { .. })) {
            Some(at) => at,
            None => {
                self.close(MessageEnd::Unknown, out);
                let id = self.next_id(ids::REASONING);
                let kind = OutputKind::Reasoning {
                    summary: Vec::new(),
                    content: Vec::new(),
                    encrypted: None,
                };
                let at = self.add(id, kind, out);
                self.open = Some(at);
                at
            }
        };
        // Where one part ends and the next begins.
        if self.is_native && text.as_str() == Literal::from_text(PART_GAP).as_str() {
            self.thought_done(at, out);
            self.thought(at, is_content, out);
            return;
        }
        let OutputKind::Reasoning {
            summary, content, ..
        } = &self.items[at].kind
        else {
            return;
        };
        // In an item, the one follows the other.
        let fits = if is_content {
            !content.is_empty() && summary.is_empty()
        } else {
            !summary.is_empty()
        };
        if !fits {
            self.thought_done(at, out);
            self.thought(at, is_content && self.may_hold_content(at), out);
        }
        self.thought_text(at, text, out);
    }

    /// Whether a reasoning has no summary yet, behind which nothing else is written.
    fn may_hold_content(&self, at: usize) -> bool {
        match &self.items[at].kind {
            OutputKind::Reasoning { summary, .. } => summary.is_empty(),
            OutputKind::Message { .. }
            | OutputKind::Call(_)
            | OutputKind::Mcp(_)
            | OutputKind::Approval { .. }
            | OutputKind::CallOutput { .. }
            | OutputKind::Native(_) => false,
        }
    }

    /// Begins a part of a reasoning.
    fn thought(&mut self, at: usize, is_content: bool, out: &mut Vec<u8>) {
        let may_hold = self.may_hold_content(at);
        let OutputKind::Reasoning {
            summary, content, ..
        } = &mut self.items[at].kind
        else {
            return;
        };
        if is_content && may_hold {
            content.push(LiteralBuf::default());
        } else {
            summary.push(LiteralBuf::default());
        }
        self.thought_added(at, out);
    }

    fn thought_text(&mut self, at: usize, text: &Literal, out: &mut Vec<u8>) {
        let OutputKind::Reasoning {
            summary, content, ..
        } = &mut self.items[at].kind
        else {
            return;
        };
        let parts = if summary.is_empty() { content } else { summary };
        if let Some(part) = parts.last_mut() {
            part.push(text);
        }
        self.thought_delta(at, text, out);
    }
}
