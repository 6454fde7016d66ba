//! Calls of custom tools that an upstream knows as functions of one text: the client gets them as what they are.

use std::sync::Arc;

use tw_core::json::{Literal, LiteralBuf};
use tw_core::model::{CallDelta, CallForm, ModelEvent};

use crate::anthropic_messages::TEXT_INPUT_FIELD;
use crate::openai_chat::raw::{self, ObjectFields};

/// Unpacks the inputs of custom tools. An input is told of when it is whole.
#[derive(Debug, Default)]
pub struct CustomCalls {
    /// The names of the custom tools that are offered.
    names: Arc<[Box<str>]>,
    /// Calls whose input is not whole yet.
    open: Vec<PackedCall>,
}

/// The arguments so far of a call, in which the input is.
#[derive(Debug)]
struct PackedCall {
    choice: u32,
    call: u32,
    arguments: LiteralBuf,
}

impl CustomCalls {
    pub fn new(names: Arc<[Box<str>]>) -> Self {
        Self {
            names,
            open: Vec::new(),
        }
    }

    /// Unpacks what was added to `out` from `from` on.
    pub fn unpack(&mut self, out: &mut Vec<ModelEvent>, from: usize) {
        if self.names.is_empty() {
            return;
        }
        for event in out.split_off(from) {
            match event {
                ModelEvent::Call(piece) => self.piece(piece, out),
                // All calls are whole by then.
                ModelEvent::Finish { .. } | ModelEvent::Error(_) | ModelEvent::Done => {
                    self.end(out);
                    out.push(event);
                }
                ModelEvent::Start { .. }
                | ModelEvent::Delta(_)
                | ModelEvent::BlockEnd(_)
                | ModelEvent::Native { .. }
                | ModelEvent::Extra { .. }
                | ModelEvent::Progress { .. }
                | ModelEvent::Usage(_) => out.push(event),
            }
        }
    }

    fn piece(&mut self, mut piece: CallDelta, out: &mut Vec<ModelEvent>) {
        let is_of = |open: &PackedCall| (open.choice, open.call) == (piece.choice, piece.call);
        let is_open = self.open.iter().any(is_of);
        let names_custom = piece
            .name
            .as_ref()
            .is_some_and(|name| self.names.contains(name));
        if !is_open && !names_custom {
            return out.push(ModelEvent::Call(piece));
        }
        if !is_open {
            self.open.push(PackedCall {
                choice: piece.choice,
                call: piece.call,
                arguments: LiteralBuf::default(),
            });
        }
        let is_of = |open: &&mut PackedCall| (open.choice, open.call) == (piece.choice, piece.call);
        if let Some(open) = self.open.iter_mut().find(is_of)
            && let Some(arguments) = piece.arguments.take()
        {
            open.arguments.push(&arguments);
        }
        piece.form = CallForm::Custom;
        if piece.id.is_some() || piece.name.is_some() || piece.native.is_some() {
            out.push(ModelEvent::Call(piece));
        }
    }

    /// Tells of the inputs that were held.
    pub fn end(&mut self, out: &mut Vec<ModelEvent>) {
        for open in self.open.drain(..) {
            out.push(ModelEvent::Call(CallDelta {
                choice: open.choice,
                call: open.call,
                id: None,
                name: None,
                form: CallForm::Custom,
                arguments: Some(input_of(&open.arguments)),
                native: None,
            }));
        }
    }
}

/// The input in the arguments; all of them where the model did not write what it was asked for.
fn input_of(arguments: &LiteralBuf) -> Literal {
    let text = arguments.to_text();
    let fields = ObjectFields::parse(&text).ok();
    let input = fields
        .as_ref()
        .and_then(|fields| fields.get(TEXT_INPUT_FIELD));
    let input = input.and_then(raw::literal);
    input.unwrap_or_else(|| arguments.to_literal())
}

#[cfg(test)]
mod tests;
