//! The model's answer to one request, as far as it has come.

use std::collections::BTreeMap;

use crate::event::LogEvent;
use crate::id::CallId;
use crate::json::{Json, Literal, LiteralBuf};
use crate::limits::CALLS_PER_CHOICE_MAX;
use crate::model::{
    AnswerDelta, CallDelta, CallForm, Finish, ReasoningField, ReasoningText, ReportedError,
    TokenUsage,
};
use crate::request::{Block, CallBlock};

#[derive(Debug, Default)]
pub(super) struct ModelAnswer {
    /// The text of the first choice. With the three fields below it goes into the record and back
    /// to the upstream.
    text: LiteralBuf,
    refusal: LiteralBuf,
    reasoning: Vec<(ReasoningField, LiteralBuf)>,
    reasoning_details: Vec<serde_json::Value>,
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
        (!self.text.is_empty()).then(|| self.text.to_literal())
    }

    /// Bytes of the arguments of all calls together.
    pub(super) fn argument_bytes(&self) -> usize {
        self.drafts.iter().map(|draft| draft.arguments.len()).sum()
    }

    pub(super) fn add_delta(&mut self, delta: &AnswerDelta) {
        if let Some(text) = &delta.text {
            self.bytes += text.as_str().len();
            if delta.choice == 0 {
                self.text.push(text);
            }
        }
        let Some(rest) = delta.rest.as_deref() else {
            return;
        };
        let unread = rest
            .extra
            .iter()
            .chain(&rest.beside)
            .map(|(_, value)| value);
        self.bytes += unread
            .chain(&rest.logprobs)
            .map(|json| json.as_str().len())
            .sum::<usize>();
        if let Some(refusal) = &rest.refusal {
            self.bytes += refusal.as_str().len();
            if delta.choice == 0 {
                self.refusal.push(refusal);
            }
        }
        if let Some(reasoning) = &rest.reasoning {
            self.bytes += reasoning.text.as_str().len();
            if delta.choice == 0 {
                self.add_reasoning(reasoning);
            }
        }
        if let Some(details) = &rest.reasoning_details {
            self.bytes += details.as_str().len();
            if delta.choice == 0
                && let serde_json::Value::Array(entries) = details.to_value()
            {
                self.reasoning_details.extend(entries);
            }
        }
    }

    fn add_reasoning(&mut self, reasoning: &ReasoningText) {
        match self.reasoning.last_mut() {
            Some((field, text)) if *field == reasoning.field => text.push(&reasoning.text),
            Some(_) | None => {
                let mut text = LiteralBuf::default();
                text.push(&reasoning.text);
                self.reasoning.push((reasoning.field, text));
            }
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
                overflown: false,
            });
            self.drafts.len() - 1
        });
        &mut self.drafts[at]
    }

    /// The first choice as blocks: reasoning first, as upstreams want it back.
    pub(super) fn blocks(&self, sent_ids: &[String]) -> Vec<Block> {
        let mut blocks = Vec::new();
        for (field, text) in &self.reasoning {
            blocks.push(Block::Reasoning(ReasoningText {
                field: *field,
                text: text.to_literal(),
            }));
        }
        if !self.reasoning_details.is_empty() {
            let details = serde_json::Value::Array(self.reasoning_details.clone());
            blocks.push(Block::ReasoningDetails(Json::from_value(&details)));
        }
        if !self.text.is_empty() {
            blocks.push(Block::Text(self.text.to_literal()));
        }
        if !self.refusal.is_empty() {
            blocks.push(Block::Refusal(self.refusal.to_literal()));
        }
        let first_choice = self.drafts.iter().filter(|draft| draft.choice == 0);
        for (draft, id) in first_choice.zip(sent_ids) {
            blocks.push(Block::Call(CallBlock {
                id: id.clone(),
                name: draft.name.clone(),
                form: draft.form,
                arguments: draft.arguments.to_literal(),
            }));
        }
        blocks
    }
}
