//! The events of a response's stream, one whole event each.

use tw_core::json::{Json, Literal};

use super::ResponseFold;
use super::output::{
    Extent, OutputKind, OutputPart, OutputStatus, write_item, write_part, write_thought,
};
use super::response;
use crate::openai_chat::write;
use crate::openai_responses::error;
use crate::sse;

/// The part of a reasoning that is being written.
struct ThoughtPlace {
    index: usize,
    is_content: bool,
}

impl ResponseFold {
    /// Begins an event; says whether anybody reads it.
    fn start(&mut self, kind: &str) -> bool {
        let Some(stream) = &mut self.stream else {
            return false;
        };
        let number = stream.next;
        stream.next += 1;
        if stream.after.is_some_and(|after| number <= after) {
            return false;
        }
        self.event.clear();
        self.event.push(b'{');
        write::key(&mut self.event, "type");
        write::quoted(&mut self.event, kind);
        write::key(&mut self.event, "sequence_number");
        write::number(&mut self.event, number);
        true
    }

    /// Begins an event of an item.
    fn start_of(&mut self, kind: &str, at: usize) -> bool {
        if !self.start(kind) {
            return false;
        }
        write::key(&mut self.event, "item_id");
        write::string(&mut self.event, &self.items[at].id);
        self.index("output_index", at);
        true
    }

    fn index(&mut self, name: &str, at: usize) {
        write::key(&mut self.event, name);
        // At most as many as an answer has bytes.
        write::number(&mut self.event, at as u64);
    }

    fn literal(&mut self, name: &str, text: &str) {
        write::key(&mut self.event, name);
        write::quoted(&mut self.event, text);
    }

    fn send(&mut self, kind: &str, out: &mut Vec<u8>) {
        self.event.push(b'}');
        sse::write_event(out, kind, &self.event);
    }

    pub(super) fn response_event(&mut self, kind: &str, out: &mut Vec<u8>) {
        if self.start(kind) {
            let mut event = std::mem::take(&mut self.event);
            write::key(&mut event, "response");
            response::write(&mut event, self);
            self.event = event;
            self.send(kind, out);
        }
    }

    pub(super) fn error_event(&mut self, out: &mut Vec<u8>) {
        const KIND: &str = "error";
        if let Some(fault) = self.fault.clone()
            && self.start(KIND)
        {
            write::key(&mut self.event, "error");
            error::write_payload(&mut self.event, &fault);
            self.send(KIND, out);
        }
    }

    pub(super) fn stream_end(&self, out: &mut Vec<u8>) {
        if self.stream.is_some() {
            out.extend_from_slice(sse::DONE);
        }
    }

    pub(super) fn item_added(&mut self, at: usize, out: &mut Vec<u8>) {
        self.item_event("response.output_item.added", at, Extent::Empty, out);
    }

    pub(super) fn item_done(&mut self, at: usize, status: OutputStatus, out: &mut Vec<u8>) {
        self.items[at].status = status;
        self.item_event("response.output_item.done", at, Extent::Full, out);
    }

    fn item_event(&mut self, kind: &str, at: usize, extent: Extent, out: &mut Vec<u8>) {
        if self.start(kind) {
            self.index("output_index", at);
            write::key(&mut self.event, "item");
            write_item(&mut self.event, &self.items[at], extent);
            self.send(kind, out);
        }
    }

    /// Ends a message or a reasoning with its last part.
    pub(super) fn written_done(&mut self, at: usize, status: OutputStatus, out: &mut Vec<u8>) {
        self.part_done(at, out);
        self.thought_done(at, out);
        self.item_done(at, status, out);
    }

    fn last_part(&self, at: usize) -> Option<(usize, &OutputPart)> {
        match &self.items[at].kind {
            OutputKind::Message { parts, .. } => Some((parts.len().checked_sub(1)?, parts.last()?)),
            OutputKind::Reasoning { .. }
            | OutputKind::Call(_)
            | OutputKind::Mcp(_)
            | OutputKind::Approval { .. }
            | OutputKind::CallOutput { .. }
            | OutputKind::Native(_) => None,
        }
    }

    fn part_event(&mut self, kind: &str, at: usize, extent: Extent, out: &mut Vec<u8>) {
        let Some((index, part)) = self.last_part(at) else {
            return;
        };
        let mut written = Vec::new();
        write_part(&mut written, part, extent);
        if self.start_of(kind, at) {
            self.index("content_index", index);
            write::key(&mut self.event, "part");
            self.event.extend_from_slice(&written);
            self.send(kind, out);
        }
    }

    pub(super) fn part_added(&mut self, at: usize, out: &mut Vec<u8>) {
        self.part_event("response.content_part.added", at, Extent::Empty, out);
    }

    /// Ends the last part of a message, if it has one.
    pub(super) fn part_done(&mut self, at: usize, out: &mut Vec<u8>) {
        let Some((index, part)) = self.last_part(at) else {
            return;
        };
        match part {
            OutputPart::Text { text, logprobs, .. } => {
                const KIND: &str = "response.output_text.done";
                let (text, logprobs) = (text.as_str().to_owned(), logprobs.clone());
                if self.start_of(KIND, at) {
                    self.index("content_index", index);
                    self.literal("text", &text);
                    write::key(&mut self.event, "logprobs");
                    write::joined_arrays(&mut self.event, &logprobs);
                    self.send(KIND, out);
                }
            }
            OutputPart::Refusal(text) => {
                const KIND: &str = "response.refusal.done";
                let text = text.as_str().to_owned();
                if self.start_of(KIND, at) {
                    self.index("content_index", index);
                    self.literal("refusal", &text);
                    self.send(KIND, out);
                }
            }
        }
        self.part_event("response.content_part.done", at, Extent::Full, out);
    }

    pub(super) fn text_delta(
        &mut self,
        at: usize,
        part: usize,
        text: &Literal,
        logprobs: Option<&Json>,
        out: &mut Vec<u8>,
    ) {
        const KIND: &str = "response.output_text.delta";
        if self.start_of(KIND, at) {
            self.index("content_index", part);
            self.literal("delta", text.as_str());
            write::key(&mut self.event, "logprobs");
            match logprobs {
                Some(list) => write::raw(&mut self.event, list),
                None => self.event.extend_from_slice(b"[]"),
            }
            self.send(KIND, out);
        }
    }

    pub(super) fn refusal_delta(
        &mut self,
        at: usize,
        part: usize,
        text: &Literal,
        out: &mut Vec<u8>,
    ) {
        const KIND: &str = "response.refusal.delta";
        if self.start_of(KIND, at) {
            self.index("content_index", part);
            self.literal("delta", text.as_str());
            self.send(KIND, out);
        }
    }

    pub(super) fn annotation_added(
        &mut self,
        at: usize,
        part: usize,
        index: usize,
        annotation: &Json,
        out: &mut Vec<u8>,
    ) {
        const KIND: &str = "response.output_text.annotation.added";
        if self.start_of(KIND, at) {
            self.index("content_index", part);
            self.index("annotation_index", index);
            write::key(&mut self.event, "annotation");
            write::raw(&mut self.event, annotation);
            self.send(KIND, out);
        }
    }

    /// The last part of a reasoning, with its text.
    fn last_thought(&self, at: usize) -> Option<(ThoughtPlace, &str)> {
        let OutputKind::Reasoning {
            summary, content, ..
        } = &self.items[at].kind
        else {
            return None;
        };
        let is_content = summary.is_empty();
        let parts = if is_content { content } else { summary };
        let place = ThoughtPlace {
            index: parts.len().checked_sub(1)?,
            is_content,
        };
        Some((place, parts.last()?.as_str()))
    }

    fn thought_index(&mut self, place: &ThoughtPlace) {
        let name = if place.is_content {
            "content_index"
        } else {
            "summary_index"
        };
        self.index(name, place.index);
    }

    fn thought_part(
        &mut self,
        kind: &str,
        at: usize,
        place: &ThoughtPlace,
        text: &str,
        out: &mut Vec<u8>,
    ) {
        if self.start_of(kind, at) {
            self.thought_index(place);
            write::key(&mut self.event, "part");
            let part = if place.is_content {
                "reasoning_text"
            } else {
                "summary_text"
            };
            write_thought(&mut self.event, part, text);
            self.send(kind, out);
        }
    }

    pub(super) fn thought_added(&mut self, at: usize, out: &mut Vec<u8>) {
        let Some((place, _)) = self.last_thought(at) else {
            return;
        };
        let kind = if place.is_content {
            "response.content_part.added"
        } else {
            "response.reasoning_summary_part.added"
        };
        self.thought_part(kind, at, &place, "", out);
    }

    pub(super) fn thought_delta(&mut self, at: usize, text: &Literal, out: &mut Vec<u8>) {
        let Some((place, _)) = self.last_thought(at) else {
            return;
        };
        let kind = if place.is_content {
            "response.reasoning_text.delta"
        } else {
            "response.reasoning_summary_text.delta"
        };
        if self.start_of(kind, at) {
            self.thought_index(&place);
            self.literal("delta", text.as_str());
            self.send(kind, out);
        }
    }

    /// Ends the last part of a reasoning, if it has one.
    pub(super) fn thought_done(&mut self, at: usize, out: &mut Vec<u8>) {
        let Some((place, text)) = self.last_thought(at) else {
            return;
        };
        let text = text.to_owned();
        let (done, part_done) = if place.is_content {
            ("response.reasoning_text.done", "response.content_part.done")
        } else {
            (
                "response.reasoning_summary_text.done",
                "response.reasoning_summary_part.done",
            )
        };
        if self.start_of(done, at) {
            self.thought_index(&place);
            self.literal("text", &text);
            self.send(done, out);
        }
        self.thought_part(part_done, at, &place, &text, out);
    }

    /// The names of the events of a call's text, and of that text.
    fn call_words(&self, at: usize) -> (&'static str, &'static str, &'static str) {
        let is_custom = match &self.items[at].kind {
            OutputKind::Call(call) => call.form == tw_core::model::CallForm::Custom,
            OutputKind::Message { .. }
            | OutputKind::Reasoning { .. }
            | OutputKind::Mcp(_)
            | OutputKind::Approval { .. }
            | OutputKind::CallOutput { .. }
            | OutputKind::Native(_) => false,
        };
        if is_custom {
            (
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
                "input",
            )
        } else {
            (
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
                "arguments",
            )
        }
    }

    pub(super) fn arguments_delta(&mut self, at: usize, text: &Literal, out: &mut Vec<u8>) {
        let (kind, ..) = self.call_words(at);
        if self.start_of(kind, at) {
            self.literal("delta", text.as_str());
            self.send(kind, out);
        }
    }

    /// Ends a call of the client's, or one that looks like it.
    pub(super) fn call_done(&mut self, at: usize, status: OutputStatus, out: &mut Vec<u8>) {
        let (_, kind, name) = self.call_words(at);
        let OutputKind::Call(call) = &self.items[at].kind else {
            return;
        };
        let text = call.arguments.as_str().to_owned();
        let called = call.name.clone();
        if self.start_of(kind, at) {
            self.literal(name, &text);
            if name == "arguments" {
                write::key(&mut self.event, "name");
                write::string(&mut self.event, &called);
            }
            self.send(kind, out);
        }
        self.item_done(at, status, out);
    }

    pub(super) fn own_call_begun(&mut self, at: usize, arguments: &Literal, out: &mut Vec<u8>) {
        self.own_call_event("response.mcp_call.in_progress", at, None, out);
        let text = arguments.as_str();
        if !text.is_empty() {
            let delta = Some(("delta", text));
            self.own_call_event("response.mcp_call_arguments.delta", at, delta, out);
        }
        let whole = Some(("arguments", text));
        self.own_call_event("response.mcp_call_arguments.done", at, whole, out);
    }

    pub(super) fn own_call_ended(&mut self, at: usize, status: OutputStatus, out: &mut Vec<u8>) {
        let kind = match status {
            OutputStatus::Completed => "response.mcp_call.completed",
            OutputStatus::Failed | OutputStatus::Incomplete | OutputStatus::InProgress => {
                "response.mcp_call.failed"
            }
        };
        self.own_call_event(kind, at, None, out);
        self.item_done(at, status, out);
    }

    fn own_call_event(
        &mut self,
        kind: &str,
        at: usize,
        text: Option<(&str, &str)>,
        out: &mut Vec<u8>,
    ) {
        if self.start_of(kind, at) {
            if let Some((name, text)) = text {
                self.literal(name, text);
            }
            self.send(kind, out);
        }
    }
}
