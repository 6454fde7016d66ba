//! Writing a turn as one plain answer.
//!
//! Follows `message.py` of anthropic-sdk-python 0.121.0; the differences are those of the stream.

use tw_core::event::LogEvent;
use tw_core::id::TurnId;
use tw_core::json::{Json, LiteralBuf};
use tw_core::model::TokenUsage;
use tw_core::native::{NativeFields, add_field};

use super::events::message_id;
use super::fold::{BlockFold, BlockStep, RanCalls, input_object};
use super::usage;
use crate::openai_chat::raw::ObjectFields;
use crate::openai_chat::write;

/// Folds the log of a turn into the body of a plain answer.
#[derive(Clone, Debug)]
pub struct MessageBuilder {
    turn: TurnId,
    model: String,
    fold: BlockFold,
    blocks: Vec<BuiltBlock>,
    extra: NativeFields,
    usage: Option<Box<TokenUsage>>,
}

#[derive(Clone, Debug)]
struct BuiltBlock {
    kind: BuiltKind,
    text: LiteralBuf,
    signature: LiteralBuf,
    more: NativeFields,
}

#[derive(Clone, Debug)]
enum BuiltKind {
    Text,
    Thinking,
    ToolUse { id: String, name: String },
    Whole(Json),
}

impl MessageBuilder {
    pub fn new(turn: TurnId, ran: RanCalls) -> Self {
        Self {
            turn,
            model: String::new(),
            fold: BlockFold::new(turn, ran),
            blocks: Vec::new(),
            extra: Vec::new(),
            usage: None,
        }
    }

    pub fn push(&mut self, event: &LogEvent) {
        match event {
            LogEvent::Start { model, .. } => self.model.clone_from(model),
            LogEvent::Extra { key, value } if self.fold.is_native() => {
                self.extra.retain(|(have, _)| have != key);
                self.extra.push((key.clone(), value.clone()));
            }
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
        let blocks = &mut self.blocks;
        self.fold.push(event, &mut |step| add(blocks, step));
    }

    /// The body; whether the turn ended with one or with a fault is the caller's to know.
    pub fn into_body(self) -> Vec<u8> {
        let mut out = b"{".to_vec();
        write::key(&mut out, "id");
        write::quoted(&mut out, &message_id(self.turn));
        out.extend_from_slice(b",\"type\":\"message\",\"role\":\"assistant\"");
        write::key(&mut out, "model");
        write::string(&mut out, &self.model);
        write::key(&mut out, "content");
        out.push(b'[');
        for block in &self.blocks {
            write::separate(&mut out);
            block.write(&mut out);
        }
        out.push(b']');
        write::key(&mut out, "stop_reason");
        write::quoted(&mut out, self.fold.stop_reason());
        if !self.extra.iter().any(|(key, _)| &**key == "stop_sequence") {
            out.extend_from_slice(b",\"stop_sequence\":null");
        }
        write::fields(&mut out, Some(&self.extra));
        write::key(&mut out, "usage");
        match &self.usage {
            Some(usage) => usage::write(&mut out, usage),
            None => out.extend_from_slice(usage::NOTHING),
        }
        out.push(b'}');
        out
    }
}

fn add(blocks: &mut Vec<BuiltBlock>, step: BlockStep<'_>) {
    let mut open = |kind, more: Option<&NativeFields>| {
        blocks.push(BuiltBlock {
            kind,
            text: LiteralBuf::default(),
            signature: LiteralBuf::default(),
            more: more.cloned().unwrap_or_default(),
        });
    };
    match step {
        BlockStep::Text => open(BuiltKind::Text, None),
        BlockStep::Thinking => open(BuiltKind::Thinking, None),
        BlockStep::ToolUse { id, name, more } => {
            let (id, name) = (id.to_owned(), name.to_owned());
            open(BuiltKind::ToolUse { id, name }, more);
        }
        BlockStep::Whole(json) => open(BuiltKind::Whole(json.clone()), None),
        BlockStep::More(text) => {
            if let Some(block) = blocks.last_mut() {
                block.text.push(text);
            }
        }
        BlockStep::Signature(text) => {
            if let Some(block) = blocks.last_mut() {
                block.signature.push(text);
            }
        }
        BlockStep::Fields(json) => {
            let fields = ObjectFields::parse(json.as_str()).ok();
            let fields = fields.into_iter().flat_map(|fields| fields.0);
            if let Some(block) = blocks.last_mut() {
                for (key, value) in fields {
                    add_field(&mut block.more, &key, &Json::from_raw(value));
                }
            }
        }
        BlockStep::End => {}
    }
}

impl BuiltBlock {
    fn write(&self, out: &mut Vec<u8>) {
        match &self.kind {
            BuiltKind::Whole(json) => return write::raw(out, json),
            BuiltKind::Text => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                write::quoted(out, self.text.as_str());
            }
            BuiltKind::Thinking => {
                out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
                write::quoted(out, self.text.as_str());
                write::key(out, "signature");
                write::quoted(out, self.signature.as_str());
            }
            BuiltKind::ToolUse { id, name } => {
                out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
                write::string(out, id);
                write::key(out, "name");
                write::string(out, name);
                write::key(out, "input");
                out.extend_from_slice(input_object(&self.text.to_literal()).as_bytes());
            }
        }
        write::fields(out, Some(&self.more));
        out.push(b'}');
    }
}
