//! The model's answer to one request, as far as it has come.

use std::collections::BTreeMap;

use crate::event::LogEvent;
use crate::id::CallId;
use crate::json::{Json, Literal, LiteralBuf};
use crate::limits::CALLS_PER_CHOICE_MAX;
use crate::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, CallNative, DeltaRest, Finish, ReasoningText,
    ReportedError, TokenUsage,
};
use crate::native::{FormatName, NativeFields, NativeLabel, NativePart, add_field};
use crate::request::{Block, CallBlock, ReasoningBlock};

#[derive(Debug, Default)]
pub(super) struct ModelAnswer {
    /// The blocks of the first choice, in the order in which the model gave them. They go into the record and back to
    /// the upstream.
    blocks: Vec<DraftBlock>,
    /// The last block is whole: what comes next begins another one.
    block_ended: bool,
    /// Fields of the first choice's message that only the format knows.
    extra: NativeFields,
    pub(super) drafts: Vec<DraftCall>,
    pub(super) finish: BTreeMap<u32, Finish>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) error: Option<ReportedError>,
    pub(super) done: bool,
    /// The client was shown something of this answer.
    pub(super) shown: bool,
    pub(super) model: Option<String>,
    pub(super) created_s: Option<i64>,
    /// Events that are shown as soon as something else is.
    pub(super) held: Vec<LogEvent>,
    /// Text and arguments so far, in bytes.
    pub(super) bytes: usize,
}

/// A block that the model is writing.
#[derive(Debug)]
enum DraftBlock {
    Text(LiteralBuf),
    Refusal(LiteralBuf),
    Reasoning {
        place: NativeLabel,
        text: LiteralBuf,
        end: Option<Box<BlockEnd>>,
    },
    /// The call at this place among the calls of the first choice.
    Call(usize),
    Native(NativePart),
}

/// A call that the model is writing.
#[derive(Debug)]
pub(super) struct DraftCall {
    pub(super) choice: u32,
    pub(super) call: u32,
    /// The call's place among the calls of its round. The first choice's count from 0; each further
    /// choice's begin where no call of the one before can be.
    pub(super) position: u32,
    /// The id under which its row was made and the client was shown its first piece.
    pub(super) handed: Option<CallId>,
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) form: CallForm,
    pub(super) arguments: LiteralBuf,
    pub(super) native: Option<Box<CallNative>>,
    /// The arguments passed their limit; the rest was not kept.
    pub(super) overflown: bool,
}

impl ModelAnswer {
    /// Whether the answer came to its end: a finish, or the format's end mark, and no error.
    pub(super) fn is_whole(&self) -> bool {
        self.error.is_none() && (self.done || !self.finish.is_empty())
    }

    /// The text of the first choice, if it has any.
    pub(super) fn text(&self) -> Option<Literal> {
        let mut all = LiteralBuf::default();
        for block in &self.blocks {
            match block {
                DraftBlock::Text(text) => all.push(&text.to_literal()),
                DraftBlock::Refusal(_)
                | DraftBlock::Reasoning { .. }
                | DraftBlock::Call(_)
                | DraftBlock::Native(_) => {}
            }
        }
        (!all.is_empty()).then(|| all.to_literal())
    }

    /// Bytes of the arguments of all calls together.
    pub(super) fn argument_bytes(&self) -> usize {
        self.drafts.iter().map(|draft| draft.arguments.len()).sum()
    }

    pub(super) fn add_delta(&mut self, delta: &AnswerDelta) {
        let is_first_choice = delta.choice == 0;
        if let Some(rest) = delta.rest.as_deref() {
            self.bytes += rest.text_bytes();
            if is_first_choice {
                self.add_rest(rest);
            }
        }
        if let Some(text) = &delta.text {
            self.bytes += text.as_str().len();
            if is_first_choice {
                self.add_text(text);
            }
        }
    }

    fn add_rest(&mut self, rest: &DeltaRest) {
        if let Some(ReasoningText { place, text }) = &rest.reasoning {
            match self.open_block() {
                Some(DraftBlock::Reasoning {
                    place: open,
                    text: written,
                    ..
                }) if open == place => written.push(text),
                Some(_) | None => self.begin_block(DraftBlock::Reasoning {
                    place: *place,
                    text: begun(text),
                    end: None,
                }),
            }
        }
        if let Some(refusal) = &rest.refusal {
            match self.open_block() {
                Some(DraftBlock::Refusal(written)) => written.push(refusal),
                Some(_) | None => self.begin_block(DraftBlock::Refusal(begun(refusal))),
            }
        }
        for (key, value) in &rest.extra {
            add_field(&mut self.extra, key, value);
        }
    }

    fn add_text(&mut self, text: &Literal) {
        match self.open_block() {
            Some(DraftBlock::Text(written)) => written.push(text),
            Some(_) | None => self.begin_block(DraftBlock::Text(begun(text))),
        }
    }

    fn open_block(&mut self) -> Option<&mut DraftBlock> {
        self.blocks.last_mut().filter(|_| !self.block_ended)
    }

    fn begin_block(&mut self, block: DraftBlock) {
        // Each further block takes room even if it says nothing; most answers have one.
        if self.blocks.is_empty() {
            self.blocks.reserve_exact(1);
        } else {
            self.bytes += size_of::<DraftBlock>();
        }
        self.blocks.push(block);
        self.block_ended = false;
    }

    pub(super) fn end_block(&mut self, end: &BlockEnd) {
        self.bytes += end.bytes();
        if end.choice != 0 {
            return;
        }
        match self.blocks.last_mut().filter(|_| !self.block_ended) {
            Some(DraftBlock::Reasoning { end: have, .. }) => *have = Some(Box::new(end.clone())),
            Some(_) | None => {
                let native = end.native.clone();
                self.blocks.extend(native.map(DraftBlock::Native));
            }
        }
        self.block_ended = true;
    }

    pub(super) fn add_native(&mut self, choice: u32, part: &NativePart) {
        self.bytes += part.json.as_str().len();
        if choice == 0 {
            self.begin_block(DraftBlock::Native(part.clone()));
            self.block_ended = true;
        }
    }

    pub(super) fn add_piece(
        &mut self,
        piece: &CallDelta,
        argument_bytes_max: usize,
    ) -> &mut DraftCall {
        // What is not kept may be shown, and counts all the same.
        let arguments = piece.arguments.as_ref();
        self.bytes += arguments.map_or(0, |arguments| arguments.as_str().len());
        self.bytes += piece.native.as_deref().map_or(0, CallNative::bytes);
        let draft = self.draft(piece);
        if draft.id.is_none() {
            draft.id = piece.id.as_deref().map(str::to_owned);
        }
        if draft.name.is_empty()
            && let Some(name) = &piece.name
        {
            name.as_ref().clone_into(&mut draft.name);
        }
        if let Some(arguments) = arguments {
            let length = draft.arguments.len() + arguments.as_str().len();
            if draft.overflown || length > argument_bytes_max {
                draft.overflown = true;
            } else {
                draft.arguments.push(arguments);
            }
        }
        if let Some(native) = &piece.native {
            draft.native.get_or_insert_default().add(native);
        }
        draft
    }

    /// The name of the call that a piece belongs to, as far as it is known.
    pub(super) fn name_of<'a>(&'a self, piece: &'a CallDelta) -> &'a str {
        let known = self
            .drafts
            .iter()
            .find(|draft| draft.choice == piece.choice && draft.call == piece.call)
            .map(|draft| draft.name.as_str());
        let named = piece.name.as_deref().unwrap_or_default();
        known.filter(|name| !name.is_empty()).unwrap_or(named)
    }

    fn draft(&mut self, piece: &CallDelta) -> &mut DraftCall {
        let found = self
            .drafts
            .iter()
            .position(|draft| draft.choice == piece.choice && draft.call == piece.call);
        let at = found.unwrap_or_else(|| {
            // A call takes room even if it says nothing.
            self.bytes += size_of::<DraftCall>() + piece.name.as_ref().map_or(0, |name| name.len());
            let first = piece.choice.saturating_mul(CALLS_PER_CHOICE_MAX);
            let before = self
                .drafts
                .iter()
                .filter(|draft| draft.choice == piece.choice);
            self.drafts.push(DraftCall {
                choice: piece.choice,
                call: piece.call,
                position: before
                    .zip(1u32..)
                    .last()
                    .map_or(first, |(_, n)| first.saturating_add(n)),
                handed: None,
                id: None,
                name: String::new(),
                form: piece.form,
                arguments: LiteralBuf::default(),
                native: None,
                overflown: false,
            });
            if piece.choice == 0 {
                let of_choice = self.drafts.iter().filter(|draft| draft.choice == 0);
                let place = of_choice.count() - 1;
                self.begin_block(DraftBlock::Call(place));
            }
            self.drafts.len() - 1
        });
        &mut self.drafts[at]
    }

    /// The first choice as blocks, in the order in which the model gave them. Calls beyond `sent_ids` are left out.
    pub(super) fn blocks(&self, format: FormatName, sent_ids: &[String]) -> Vec<Block> {
        let calls: Vec<&DraftCall> = self
            .drafts
            .iter()
            .filter(|draft| draft.choice == 0)
            .collect();
        let written = self.blocks.iter().filter_map(|block| match block {
            DraftBlock::Text(text) => Some(Block::Text(text.to_literal())),
            DraftBlock::Refusal(text) => Some(Block::Refusal(text.to_literal())),
            DraftBlock::Reasoning { place, text, end } => Some(Block::Reasoning(ReasoningBlock {
                place: *place,
                text: text.to_literal(),
                signature: end.as_ref().and_then(|end| end.signature.clone()),
                native: end.as_ref().and_then(|end| end.native.clone()),
            })),
            DraftBlock::Call(place) => {
                let (draft, id) = (calls.get(*place)?, sent_ids.get(*place)?);
                Some(Block::Call(CallBlock {
                    id: id.clone(),
                    name: draft.name.clone(),
                    form: draft.form,
                    arguments: draft.arguments.to_literal(),
                    native: draft.native.clone(),
                }))
            }
            DraftBlock::Native(part) => Some(Block::Native(part.clone())),
        });
        // What is said of the whole message stands before it.
        let extra = (!self.extra.is_empty()).then(|| {
            Block::Native(NativePart {
                format,
                json: Json::of_fields(&self.extra),
            })
        });
        extra.into_iter().chain(written).collect()
    }
}

fn begun(text: &Literal) -> LiteralBuf {
    let mut written = LiteralBuf::default();
    written.push(text);
    written
}
