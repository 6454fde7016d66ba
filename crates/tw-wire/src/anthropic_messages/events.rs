//! Writing a turn as a stream of events.
//!
//! Follows the `raw_*_event.py` types of anthropic-sdk-python 0.121.0 and recorded streams: one `message_start`, blocks
//! one after the other with increasing indexes over all rounds, one `message_delta`, `message_stop`.
//!
//! Known differences:
//! - the usage of `message_start` is 0: what a turn uses is known at its end, and clients take the last one;
//! - thoughts of upstreams of other formats have an empty signature; they go back to nobody;
//! - calls that this server runs are those of an MCP server called `turnwright`, unless they are hidden;
//! - a failure is an `error` event, after which nothing comes.

use tw_core::event::LogEvent;
use tw_core::fault::TurnFault;
use tw_core::id::TurnId;
use tw_core::json::Json;
use tw_core::model::TokenUsage;
use tw_core::native::NativeFields;

pub use super::fold::RanCalls;
use super::fold::{BlockFold, BlockStep};
use super::{FORMAT, error, usage};
use crate::client_error::{ClientError, fault_of};
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;
use crate::sse;

/// An event that keeps idle connections open, as the API sends it.
pub const PING: &[u8] = b"event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// The answer's id.
pub fn message_id(turn: TurnId) -> String {
    format!("msg_{}", turn.plain())
}

/// Reads what [`message_id`] wrote; `None` for an id of somebody else.
pub fn parse_message_id(text: &str) -> Option<TurnId> {
    let plain = text.strip_prefix("msg_")?;
    TurnId::parse(plain).filter(|turn| turn.plain() == plain)
}

/// Folds the log of a turn, from its start, into whole server-sent events.
#[derive(Clone, Debug)]
pub struct EventWriter {
    turn: TurnId,
    fold: BlockFold,
    blocks: BlockEvents,
    extra: NativeFields,
    usage: Option<Box<TokenUsage>>,
}

/// The events of the content.
#[derive(Clone, Debug, Default)]
struct BlockEvents {
    /// The `message_start`, until it was written.
    head: Option<Vec<u8>>,
    index: u32,
    delta: DeltaKind,
    /// The buffer in which one event at a time is put together.
    event: Vec<u8>,
}

/// The delta by which the open block is added to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DeltaKind {
    #[default]
    Text,
    Thinking,
    Input,
}

impl EventWriter {
    pub fn new(turn: TurnId, ran: RanCalls) -> Self {
        Self {
            turn,
            fold: BlockFold::new(turn, ran),
            blocks: BlockEvents::default(),
            extra: Vec::new(),
            usage: None,
        }
    }

    /// Adds the events that `event` gives to `out`, each of them whole.
    pub fn push(&mut self, event: &LogEvent, out: &mut Vec<u8>) {
        match event {
            LogEvent::Start { model, .. } => self.start(model),
            LogEvent::Extra { key, value } if self.fold.is_native() => self.keep_extra(key, value),
            LogEvent::Usage(usage) => self.usage = Some(usage.clone()),
            LogEvent::Extra { .. }
            | LogEvent::Round { .. }
            | LogEvent::Delta(_)
            | LogEvent::BlockEnd(_)
            | LogEvent::Native { .. }
            | LogEvent::ClientCall(_)
            | LogEvent::Progress { .. }
            | LogEvent::CallStarted { .. }
            | LogEvent::ApprovalAsked { .. }
            | LogEvent::CallEnded { .. }
            | LogEvent::CallDetached { .. }
            | LogEvent::Finish { .. }
            | LogEvent::End(_) => {}
        }
        if let LogEvent::End(end) = event
            && let Some(fault) = fault_of(end)
        {
            return Self::fail(&fault, out);
        }
        let blocks = &mut self.blocks;
        self.fold.push(event, &mut |step| blocks.step(step, out));
        if let LogEvent::End(_) = event {
            self.end(out);
        }
    }

    /// Ends a stream with an error.
    pub fn fail(fault: &TurnFault, out: &mut Vec<u8>) {
        let error = error::render(&ClientError::of_fault(fault), None);
        sse::write_event(out, "error", &error);
    }

    /// Whether a client sees something of the event that is more than the stream's own beginning.
    pub fn is_seen(&self, event: &LogEvent) -> bool {
        match event {
            LogEvent::Delta(delta) => delta.choice == 0 && delta.shows_something(),
            LogEvent::Native { choice, part } => *choice == 0 && part.format == FORMAT,
            LogEvent::CallStarted { .. } => self.fold.shows_calls(),
            LogEvent::ClientCall(_) | LogEvent::Finish { .. } | LogEvent::End(_) => true,
            LogEvent::Start { .. }
            | LogEvent::Round { .. }
            | LogEvent::BlockEnd(_)
            | LogEvent::Extra { .. }
            | LogEvent::Progress { .. }
            | LogEvent::ApprovalAsked { .. }
            | LogEvent::CallEnded { .. }
            | LogEvent::CallDetached { .. }
            | LogEvent::Usage(_) => false,
        }
    }

    fn start(&mut self, model: &str) {
        let mut head = b"{\"type\":\"message_start\",\"message\":{".to_vec();
        write::key(&mut head, "id");
        write::quoted(&mut head, &message_id(self.turn));
        head.extend_from_slice(b",\"type\":\"message\",\"role\":\"assistant\"");
        write::key(&mut head, "model");
        write::string(&mut head, model);
        head.extend_from_slice(b",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null");
        write::key(&mut head, "usage");
        head.extend_from_slice(usage::NOTHING);
        head.extend_from_slice(b"}}");
        self.blocks.head = Some(head);
    }

    fn keep_extra(&mut self, key: &str, value: &Json) {
        match self.extra.iter_mut().find(|(have, _)| **have == *key) {
            Some((_, waiting)) => *waiting = value.clone(),
            None => self.extra.push((Box::from(key), value.clone())),
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.blocks.begin(out);
        let mut event = b"{\"type\":\"message_delta\",\"delta\":{".to_vec();
        write::key(&mut event, "stop_reason");
        write::quoted(&mut event, self.fold.stop_reason());
        if !self.extra.iter().any(|(key, _)| &**key == STOP_SEQUENCE) {
            write::key(&mut event, STOP_SEQUENCE);
            event.extend_from_slice(b"null");
        }
        let is_beside = |key: &str| key == CONTEXT_MANAGEMENT;
        let (beside, inside): (NativeFields, NativeFields) =
            self.extra.drain(..).partition(|(key, _)| is_beside(key));
        write::fields(&mut event, Some(&inside));
        event.push(b'}');
        write::key(&mut event, "usage");
        match &self.usage {
            Some(usage) => usage::write(&mut event, usage),
            None => event.extend_from_slice(usage::NOTHING),
        }
        write::fields(&mut event, Some(&beside));
        event.push(b'}');
        sse::write_event(out, "message_delta", &event);
        sse::write_event(out, "message_stop", b"{\"type\":\"message_stop\"}");
    }
}

const STOP_SEQUENCE: &str = "stop_sequence";
/// A field that stands beside the delta of the last event.
const CONTEXT_MANAGEMENT: &str = "context_management";

impl BlockEvents {
    /// Writes the head with the first thing that there is to see.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(head) = self.head.take() {
            sse::write_event(out, "message_start", &head);
        }
    }

    fn step(&mut self, step: BlockStep<'_>, out: &mut Vec<u8>) {
        self.begin(out);
        match step {
            BlockStep::Text => {
                self.delta = DeltaKind::Text;
                self.open(b"{\"type\":\"text\",\"text\":\"\"}", out);
            }
            BlockStep::Thinking => {
                self.delta = DeltaKind::Thinking;
                self.open(
                    b"{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}",
                    out,
                );
            }
            BlockStep::ToolUse { id, name, more } => {
                self.delta = DeltaKind::Input;
                let mut block = b"{\"type\":\"tool_use\"".to_vec();
                write::key(&mut block, "id");
                write::string(&mut block, id);
                write::key(&mut block, "name");
                write::string(&mut block, name);
                block.extend_from_slice(b",\"input\":{}");
                write::fields(&mut block, more);
                block.push(b'}');
                self.open(&block, out);
            }
            BlockStep::Whole(json) => self.whole(json, out),
            BlockStep::More(text) => {
                let (kind, key): (&str, &str) = match self.delta {
                    DeltaKind::Text => ("text_delta", "text"),
                    DeltaKind::Thinking => ("thinking_delta", "thinking"),
                    DeltaKind::Input => ("input_json_delta", "partial_json"),
                };
                self.delta(kind, key, |event| write::literal(event, text), out);
            }
            BlockStep::Signature(signature) => {
                let write = |event: &mut Vec<u8>| write::literal(event, signature);
                self.delta("signature_delta", "signature", write, out);
            }
            BlockStep::Fields(json) => self.citations(json, out),
            BlockStep::End => self.end(out),
        }
    }

    fn open(&mut self, block: &[u8], out: &mut Vec<u8>) {
        self.head_of("content_block_start");
        write::key(&mut self.event, "content_block");
        self.event.extend_from_slice(block);
        self.event.push(b'}');
        sse::write_event(out, "content_block_start", &self.event);
    }

    fn head_of(&mut self, kind: &str) {
        self.event.clear();
        self.event.extend_from_slice(b"{\"type\":");
        write::quoted(&mut self.event, kind);
        write::key(&mut self.event, "index");
        write::number(&mut self.event, self.index);
    }

    fn delta(
        &mut self,
        kind: &str,
        key: &str,
        value: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        self.head_of("content_block_delta");
        self.event.extend_from_slice(b",\"delta\":{\"type\":");
        write::quoted(&mut self.event, kind);
        write::key(&mut self.event, key);
        value(&mut self.event);
        self.event.extend_from_slice(b"}}");
        sse::write_event(out, "content_block_delta", &self.event);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.head_of("content_block_stop");
        self.event.push(b'}');
        sse::write_event(out, "content_block_stop", &self.event);
        self.index += 1;
    }

    /// Writes a block whole; the input of a tool that the provider runs comes behind it, as the API sends it: clients
    /// put it together from there.
    fn whole(&mut self, json: &Json, out: &mut Vec<u8>) {
        let fields = ObjectFields::parse(json.as_str()).ok();
        let get = |name| fields.as_ref().and_then(|fields| fields.get(name));
        let is_streamed = get("type").and_then(raw::string).as_deref() == Some("server_tool_use");
        let input = get("input").filter(|input| is_streamed && raw::is_object(input));
        let Some(input) = input.filter(|input| input.get() != "{}") else {
            self.open(json.as_str().as_bytes(), out);
            return self.end(out);
        };
        let mut block = vec![b'{'];
        for (name, value) in fields.iter().flat_map(|fields| &fields.0) {
            write::foreign_key(&mut block, name);
            let value = if name == "input" { "{}" } else { value.get() };
            block.extend_from_slice(value.as_bytes());
        }
        block.push(b'}');
        self.open(&block, out);
        let write = |event: &mut Vec<u8>| write::string(event, input.get());
        self.delta("input_json_delta", "partial_json", write, out);
        self.end(out);
    }

    fn citations(&mut self, json: &Json, out: &mut Vec<u8>) {
        let fields = ObjectFields::parse(json.as_str()).ok();
        let list = fields.as_ref().and_then(|fields| fields.get("citations"));
        for citation in list.and_then(raw::array).unwrap_or_default() {
            let write = |event: &mut Vec<u8>| event.extend_from_slice(citation.get().as_bytes());
            self.delta("citations_delta", "citation", write, out);
        }
    }
}
