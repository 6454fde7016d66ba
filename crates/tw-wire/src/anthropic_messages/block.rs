//! Content blocks of an answer, read piece by piece.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, CallNative, DeltaRest, ModelEvent, ReasoningText,
};
use tw_core::native::{NativeFields, NativePart};

use super::{FORMAT, THINKING};
use crate::openai_chat::answer::passes_on;
use crate::openai_chat::raw::{self, FieldRecord, ObjectFields};
use crate::openai_chat::surrogates::{self, with_half, without_half};
use crate::sse::SseError;
use serde::de::MapAccess;

/// Bytes of one block that are held until it is whole: as many as one event may have.
pub const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A block that was begun and did not end yet.
#[derive(Debug)]
pub struct OpenBlock {
    kind: BlockKind,
    /// The first half of a surrogate pair that waits for the second.
    half: Option<Box<str>>,
    /// Text of the block was told of.
    has_said: bool,
    held_bytes: usize,
}

#[derive(Debug)]
enum BlockKind {
    /// A text, with what else the block has, such as citations.
    Text { more: NativeFields },
    Thinking {
        signature: LiteralBuf,
        more: NativeFields,
    },
    Call {
        call: u32,
        /// The whole input, which counts if no pieces of it come.
        input: Option<Literal>,
        has_pieces: bool,
    },
    /// A block that only this format understands: told of when it is whole.
    Native {
        fields: NativeFields,
        input: LiteralBuf,
    },
}

/// The `delta` of an event.
#[derive(Default)]
pub struct BlockDelta<'a> {
    pub kind: Option<&'a RawValue>,
    pub text: Option<&'a RawValue>,
    pub thinking: Option<&'a RawValue>,
    pub signature: Option<&'a RawValue>,
    pub partial_json: Option<&'a RawValue>,
    pub citation: Option<&'a RawValue>,
    pub more: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> FieldRecord<'a> for BlockDelta<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        match &*key {
            "type" => self.kind = map.next_value()?,
            "text" => self.text = map.next_value()?,
            "thinking" => self.thinking = map.next_value()?,
            "signature" => self.signature = map.next_value()?,
            "partial_json" => self.partial_json = map.next_value()?,
            "citation" => self.citation = map.next_value()?,
            _ => {
                if let Some(value) = map.next_value()? {
                    self.more.push((key, value));
                }
            }
        }
        Ok(())
    }
}

/// The number of a call that begins; `None` if there are too many.
pub type NextCall<'a> = &'a mut dyn FnMut() -> Option<u32>;

/// The answer has more calls than it may have.
pub struct TooManyBlockCalls;

impl OpenBlock {
    /// A block of text that nobody began.
    pub fn text() -> Self {
        Self::of(BlockKind::Text { more: Vec::new() })
    }

    /// A thought that nobody began.
    pub fn thinking() -> Self {
        Self::of(BlockKind::Thinking {
            signature: LiteralBuf::default(),
            more: Vec::new(),
        })
    }

    fn of(kind: BlockKind) -> Self {
        Self {
            kind,
            half: None,
            has_said: false,
            held_bytes: 0,
        }
    }

    /// Begins a block as its first event, or a plain answer, has it.
    pub fn begin(
        fields: &ObjectFields<'_>,
        next_call: NextCall<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Self, TooManyBlockCalls> {
        let kind = fields.get("type").and_then(raw::string);
        match kind.as_deref() {
            Some("text") => {
                let mut block = Self::of(BlockKind::Text {
                    more: further(fields, &["type", "text"]),
                });
                block.add_text(fields.get("text"), out);
                Ok(block)
            }
            Some("thinking") => {
                let mut signature = LiteralBuf::default();
                let written = fields.get("signature").and_then(raw::literal);
                written.iter().for_each(|text| signature.push(text));
                let mut block = Self::of(BlockKind::Thinking {
                    signature,
                    more: further(fields, &["type", "thinking", "signature"]),
                });
                block.add_thinking(fields.get("thinking"), out);
                Ok(block)
            }
            Some("tool_use") => {
                let call = next_call().ok_or(TooManyBlockCalls)?;
                let beside = further(fields, &["type", "id", "name", "input"]);
                let native = CallNative {
                    beside,
                    inside: Vec::new(),
                };
                let filled = |name| raw::filled_string(fields.get(name)).map(Box::from);
                out.push(piece(call, |piece| {
                    piece.id = filled("id");
                    piece.name = filled("name");
                    piece.native = (!native.beside.is_empty()).then(|| Box::new(native));
                }));
                Ok(Self::of(BlockKind::Call {
                    call,
                    input: fields.get("input").and_then(input_text),
                    has_pieces: false,
                }))
            }
            Some(_) | None => Ok(Self::of(BlockKind::Native {
                fields: fields
                    .0
                    .iter()
                    .map(|(key, value)| (Box::from(&**key), Json::from_raw(value)))
                    .collect(),
                input: LiteralBuf::default(),
            })),
        }
    }

    /// Whether a text goes on as it came: nothing waits for it.
    pub fn is_plain_text(&self) -> bool {
        self.half.is_none() && matches!(self.kind, BlockKind::Text { .. })
    }

    /// Notes that text of the block was told of.
    pub fn note_said(&mut self) {
        self.has_said = true;
    }

    /// Adds a piece of the block.
    ///
    /// # Errors
    /// More of the block would have to be held than can be.
    pub fn add(
        &mut self,
        delta: &BlockDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), SseError> {
        self.add_text(delta.text, out);
        self.add_thinking(delta.thinking, out);
        match &mut self.kind {
            BlockKind::Text { more } => {
                if let Some(citation) = delta.citation {
                    self.held_bytes += citation.get().len();
                    let one = Json::of_read(&format!("[{}]", citation.get()));
                    tw_core::native::add_field(more, "citations", &one);
                }
            }
            BlockKind::Thinking { signature, .. } => {
                if let Some(more) = delta.signature.and_then(raw::literal) {
                    self.held_bytes += more.as_str().len();
                    signature.push(&more);
                }
            }
            BlockKind::Call {
                call, has_pieces, ..
            } => {
                let more = delta.partial_json.and_then(raw::literal);
                if let Some(more) = more.filter(|more| !more.is_empty()) {
                    *has_pieces = true;
                    out.push(piece(*call, |piece| piece.arguments = Some(more)));
                }
            }
            BlockKind::Native { fields, input } => {
                if let Some(more) = delta.partial_json.and_then(raw::literal) {
                    self.held_bytes += more.as_str().len();
                    input.push(&more);
                }
                for (key, value) in &delta.more {
                    self.held_bytes += value.get().len();
                    add_to(fields, key, value);
                }
            }
        }
        if self.held_bytes > HELD_BYTES_MAX {
            return Err(SseError::TooLong {
                bytes_max: HELD_BYTES_MAX,
            });
        }
        Ok(())
    }

    fn add_text(&mut self, text: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        if !matches!(self.kind, BlockKind::Text { .. }) {
            return;
        }
        if let Some(text) = self.whole_text(text.and_then(raw::literal)) {
            self.has_said = true;
            out.push(said(text));
        }
    }

    fn add_thinking(&mut self, text: Option<&RawValue>, out: &mut Vec<ModelEvent>) {
        if !matches!(self.kind, BlockKind::Thinking { .. }) {
            return;
        }
        if let Some(text) = self.whole_text(text.and_then(raw::literal)) {
            self.has_said = true;
            out.push(thought(text));
        }
    }

    /// Text without half a character at its end, which goes with the next.
    fn whole_text(&mut self, text: Option<Literal>) -> Option<Literal> {
        let text = text.filter(|text| !text.is_empty())?;
        let (text, half) = without_half(with_half(self.half.take(), text)?);
        self.half = half;
        text
    }

    /// Tells of what was held back: the block is whole.
    pub fn end(mut self, out: &mut Vec<ModelEvent>) {
        let half = self.half.take();
        let lone = half.and_then(|half| Literal::checked(&surrogates::mend_all(&half).0));
        match self.kind {
            BlockKind::Text { more } => {
                self.has_said |= lone.is_some();
                out.extend(lone.map(said));
                if self.has_said {
                    out.push(ended(None, more));
                }
            }
            BlockKind::Thinking { signature, more } => {
                self.has_said |= lone.is_some();
                out.extend(lone.map(thought));
                // Thoughts that are not shown have a signature alone.
                if !self.has_said && !signature.is_empty() {
                    self.has_said = true;
                    out.push(thought(Literal::default()));
                }
                if self.has_said {
                    let signature = (!signature.is_empty()).then(|| signature.to_literal());
                    out.push(ended(signature, more));
                }
            }
            BlockKind::Call {
                call,
                input,
                has_pieces,
            } => {
                if let Some(input) = input.filter(|_| !has_pieces) {
                    out.push(piece(call, |piece| piece.arguments = Some(input)));
                }
            }
            BlockKind::Native { mut fields, input } => {
                if let Ok(input) = Json::parse(&input.to_text()) {
                    set(&mut fields, "input", input);
                }
                out.push(ModelEvent::Native {
                    choice: 0,
                    part: Box::new(NativePart {
                        format: FORMAT,
                        json: Json::of_fields(&fields),
                    }),
                });
            }
        }
    }
}

/// The input of a call as the text of its arguments; `None` for one that says nothing.
fn input_text(input: &RawValue) -> Option<Literal> {
    match input.get().as_bytes().first() {
        // Some gateways write it as a string.
        Some(b'"') => raw::literal(input).filter(|text| !text.is_empty()),
        _ => passes_on(input).then(|| Literal::from_text(input.get())),
    }
}

/// Fields of a block that say something, but for those that are `known`.
fn further(fields: &ObjectFields<'_>, known: &[&str]) -> NativeFields {
    let more = fields.0.iter();
    let more = more.filter(|(key, value)| !known.contains(&&**key) && passes_on(value));
    more.map(|(key, value)| (Box::from(&**key), Json::from_raw(value)))
        .collect()
}

fn set(fields: &mut NativeFields, key: &str, value: Json) {
    match fields.iter_mut().find(|(have, _)| **have == *key) {
        Some((_, have)) => *have = value,
        None => fields.push((key.into(), value)),
    }
}

/// Adds a piece of a field: text is put behind text, anything else takes the place of what was there.
fn add_to(fields: &mut NativeFields, key: &str, value: &RawValue) {
    let have = fields.iter().find(|(have, _)| **have == *key);
    let have = have.and_then(|(_, have)| have.as_literal());
    let joined = have.zip(raw::literal(value)).map(|(have, more)| {
        let mut text = LiteralBuf::default();
        text.push(&have);
        text.push(&more);
        Json::of_read(&format!("\"{}\"", text.as_str()))
    });
    set(fields, key, joined.unwrap_or_else(|| Json::from_raw(value)));
}

/// The event of a text.
pub fn said(text: Literal) -> ModelEvent {
    ModelEvent::Delta(AnswerDelta {
        choice: 0,
        text: Some(text),
        rest: None,
    })
}

fn thought(text: Literal) -> ModelEvent {
    ModelEvent::Delta(AnswerDelta {
        choice: 0,
        text: None,
        rest: Some(Box::new(DeltaRest {
            reasoning: Some(ReasoningText {
                place: THINKING,
                text,
            }),
            ..DeltaRest::default()
        })),
    })
}

fn ended(signature: Option<Literal>, more: NativeFields) -> ModelEvent {
    ModelEvent::BlockEnd(Box::new(BlockEnd {
        choice: 0,
        signature,
        native: (!more.is_empty()).then(|| NativePart {
            format: FORMAT,
            json: Json::of_fields(&more),
        }),
    }))
}

fn piece(call: u32, fill: impl FnOnce(&mut CallDelta)) -> ModelEvent {
    let mut piece = CallDelta {
        choice: 0,
        call,
        id: None,
        name: None,
        form: CallForm::Function,
        arguments: None,
        native: None,
    };
    fill(&mut piece);
    ModelEvent::Call(piece)
}
