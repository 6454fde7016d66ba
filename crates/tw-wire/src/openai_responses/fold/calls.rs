//! Calls in a response: those that the client is to run, and those that this server runs.

use tw_core::call::CallEnd;
use tw_core::id::CallId;
use tw_core::json::{Literal, LiteralBuf};
use tw_core::model::{CallDelta, CallForm, CallNative};
use tw_core::native::add_field;

use super::output::{OutputCall, OutputKind, OutputStatus, OwnCall, OwnCallEnd};
use super::{ClientCallItem, MessageEnd, OwnCallItems, ResponseFold};
use crate::openai_chat::outcome::minted_id;
use crate::openai_responses::ids;

impl ResponseFold {
    pub(super) fn client_call(&mut self, piece: &CallDelta, out: &mut Vec<u8>) {
        let round = self.round;
        let known = self
            .client_calls
            .iter()
            .find(|call| call.round == round && call.call == piece.call);
        let at = match known {
            Some(call) => call.at,
            None => self.new_client_call(piece, out),
        };
        // A call that was done says nothing more.
        if self.items[at].status != OutputStatus::InProgress {
            return;
        }
        let is_native = self.is_native;
        let OutputKind::Call(call) = &mut self.items[at].kind else {
            return;
        };
        if let Some(name) = piece.name.as_deref().filter(|_| call.name.is_empty()) {
            name.clone_into(&mut call.name);
        }
        if let Some(native) = piece.native.as_deref().filter(|_| is_native) {
            for (key, value) in &native.beside {
                if !matches!(&**key, "id" | "status") {
                    add_field(&mut call.native.beside, key, value);
                }
            }
        }
        if let Some(more) = piece.arguments.as_ref().filter(|more| !more.is_empty()) {
            call.arguments.push(more);
            self.arguments_delta(at, more, out);
        }
    }

    fn new_client_call(&mut self, piece: &CallDelta, out: &mut Vec<u8>) -> usize {
        self.close(MessageEnd::BeforeCall, out);
        self.close_whole_calls(out);
        let prefix = match piece.form {
            CallForm::Custom => ids::CUSTOM_CALL,
            CallForm::Function | CallForm::ByName => ids::FUNCTION_CALL,
        };
        let ordinal = self.client_calls.len();
        let is_free = |id: &str| {
            self.items.iter().all(|item| match &item.kind {
                OutputKind::Call(call) => call.call_id != *id,
                OutputKind::Message { .. }
                | OutputKind::Reasoning { .. }
                | OutputKind::Mcp(_)
                | OutputKind::Approval { .. }
                | OutputKind::CallOutput { .. }
                | OutputKind::Native(_) => true,
            })
        };
        let own = piece.id.as_deref();
        let call_id = match own.filter(|id| !id.is_empty() && is_free(id)) {
            Some(id) => id.to_owned(),
            None => minted_id(self.facts.turn, self.round, ordinal),
        };
        let kind = OutputKind::Call(OutputCall {
            form: piece.form,
            call_id,
            name: piece.name.as_deref().unwrap_or_default().to_owned(),
            arguments: LiteralBuf::default(),
            native: CallNative::default(),
        });
        let id = self.next_id(prefix);
        let at = self.add(id, kind, out);
        self.client_calls.push(ClientCallItem {
            round: self.round,
            call: piece.call,
            at,
        });
        at
    }

    /// Ends the calls whose arguments are whole. Pieces of others may still come, among those of the next call.
    fn close_whole_calls(&mut self, out: &mut Vec<u8>) {
        for at in self.open_calls() {
            let OutputKind::Call(call) = &self.items[at].kind else {
                continue;
            };
            let text = call.arguments.to_literal().to_text();
            if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() {
                self.call_done(at, OutputStatus::Completed, out);
            }
        }
    }

    pub(super) fn open_calls(&self) -> Vec<usize> {
        let open = |at: &usize| self.items[*at].status == OutputStatus::InProgress;
        let calls = self.client_calls.iter().map(|call| call.at);
        calls.filter(open).collect()
    }

    /// The question whether a call may run, whole at once.
    pub(super) fn approval_asked(
        &mut self,
        id: CallId,
        name: &str,
        arguments: &Literal,
        out: &mut Vec<u8>,
    ) {
        self.close(MessageEnd::BeforeCall, out);
        self.position += 1;
        let kind = OutputKind::Approval {
            name: name.to_owned(),
            arguments: arguments.clone(),
        };
        let at = self.add(ids::approval_id(id), kind, out);
        self.item_done(at, OutputStatus::Completed, out);
    }

    pub(super) fn call_started(&mut self, id: CallId, call: OwnCall, out: &mut Vec<u8>) {
        match self.facts.own_calls {
            OwnCallItems::Hidden => self.close(MessageEnd::BeforeCall, out),
            OwnCallItems::Mcp => {
                self.close(MessageEnd::BeforeCall, out);
                self.position += 1;
                let arguments = call.arguments.clone();
                let at = self.add(ids::own_call_id(id), OutputKind::Mcp(call), out);
                self.running.push((id, at));
                self.own_call_begun(at, &arguments, out);
            }
            OwnCallItems::Function => {
                self.close(MessageEnd::BeforeCall, out);
                let item = self.next_id(ids::FUNCTION_CALL);
                let kind = OutputKind::Call(OutputCall {
                    form: CallForm::Function,
                    call_id: id.handed(),
                    name: call.name,
                    arguments: LiteralBuf::default(),
                    native: CallNative::default(),
                });
                let arguments = call.arguments;
                let at = self.add(item, kind, out);
                if let OutputKind::Call(call) = &mut self.items[at].kind {
                    call.arguments.push(&arguments);
                }
                self.arguments_delta(at, &arguments, out);
                self.call_done(at, OutputStatus::Completed, out);
                self.running.push((id, at));
            }
        }
    }

    pub(super) fn call_ended(&mut self, id: CallId, end: &CallEnd, out: &mut Vec<u8>) {
        let running = self.running.iter().position(|(running, _)| *running == id);
        let Some((_, at)) = running.map(|place| self.running.remove(place)) else {
            return;
        };
        let shown = Literal::from_text(&end.shown);
        match self.facts.own_calls {
            OwnCallItems::Hidden => {}
            OwnCallItems::Mcp => {
                let status = if end.is_error {
                    OutputStatus::Failed
                } else {
                    OutputStatus::Completed
                };
                if let OutputKind::Mcp(call) = &mut self.items[at].kind {
                    call.end = Some(OwnCallEnd {
                        shown,
                        is_error: end.is_error,
                    });
                }
                self.own_call_ended(at, status, out);
            }
            OwnCallItems::Function => {
                let item = self.next_id(ids::FUNCTION_OUTPUT);
                let kind = OutputKind::CallOutput {
                    call_id: id.handed(),
                    output: shown,
                };
                let at = self.add(item, kind, out);
                self.item_done(at, OutputStatus::Completed, out);
            }
        }
    }
}
