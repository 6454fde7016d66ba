//! Calls of the client's own tools: passed on as they come where no tool of ours is offered, and
//! handed over when ours have ended where one is.

use super::answer::{DraftCall, ModelAnswer};
use super::{Call, CallState, Now, Phase, Step, Turn, failed};
use crate::call::{CallEnd, CallReason, CallRunner, CallStatus};
use crate::change::{HandedCall, NewCall, TurnChange};
use crate::event::LogEvent;
use crate::id::{CallId, CallRef};
use crate::json::Literal;
use crate::model::{CallDelta, CallForm, Finish};
use crate::request::{CallBlock, call_in};
use crate::time::Timestamp;
use crate::turn_status::TurnStatus;

impl Turn {
    /// A piece of a call: kept, and passed on if the client reads along and no tool of ours is
    /// offered. The first one goes with the call's row, under whose id the client knows it.
    pub(super) fn on_piece(&mut self, piece: CallDelta, now: &mut Now<'_>, step: &mut Step) {
        let round = self.round_number();
        let Phase::Asking { answer, .. } = &mut self.phase else {
            return;
        };
        let (offer, limits) = (&self.setup.offer, &self.setup.limits);
        let name = answer.name_of(&piece);
        // A client's own call may be as long as the answer.
        let bytes_max = if name.is_empty() || offer.is_clients(name) {
            limits.answer_bytes_max
        } else {
            limits.argument_bytes_max
        };
        let draft = answer.add_piece(&piece, bytes_max);
        if !(offer.is_relay() && self.setup.streamed) {
            return;
        }
        let mut shown = CallDelta { id: None, ..piece };
        if draft.handed.is_none() {
            let id = CallId((now.fresh_id)());
            draft.handed = Some(id);
            shown.id = Some(id.handed().into());
            // The round may be cut off before its ids are settled.
            let sent_id = draft.id.clone().filter(|id| !id.is_empty());
            let sent_id = sent_id.unwrap_or_else(|| id.handed());
            let fresh = client_call(round, draft, id, sent_id, now);
            step.write.push(TurnChange::AddCall(Box::new(fresh)));
            self.calls_total = self.calls_total.saturating_add(1);
        }
        self.show(LogEvent::ClientCall(shown), step);
    }

    /// The calls of a whole answer that go to the client, of all its choices.
    pub(super) fn hand_over_all(
        &mut self,
        round: u32,
        answer: &ModelAnswer,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        for choice in 0..self.setup.choices {
            let sent_ids = self.sent_ids(round, answer, choice);
            let drafts = answer.drafts.iter().filter(|draft| draft.choice == choice);
            for (draft, sent_id) in drafts.zip(sent_ids) {
                let id = draft.handed.unwrap_or_else(|| CallId((now.fresh_id)()));
                if choice == 0 {
                    self.handed.push(CallBlock {
                        id: id.handed(),
                        name: draft.name.clone(),
                        form: draft.form,
                        arguments: draft.arguments.to_literal(),
                        native: draft.native.clone(),
                    });
                }
                if draft.handed.is_some() {
                    let handed = handed_call(round, draft, sent_id, now.at);
                    step.write.push(TurnChange::HandOverCall(Box::new(handed)));
                    continue;
                }
                let whole = NewCall {
                    arguments: draft.arguments.to_text(),
                    status: CallStatus::Completed,
                    end: Some(handed_over()),
                    ..client_call(round, draft, id, sent_id, now)
                };
                step.write.push(TurnChange::AddCall(Box::new(whole)));
                self.calls_total = self.calls_total.saturating_add(1);
                step.show.push(LogEvent::ClientCall(CallDelta {
                    choice,
                    call: draft.call,
                    id: Some(id.handed().into()),
                    name: Some(draft.name.as_str().into()),
                    form: draft.form,
                    arguments: filled(draft.arguments.to_literal()),
                    native: draft.native.clone(),
                }));
            }
        }
    }

    /// Whether calls of the newest round wait to be handed over.
    pub(super) fn holds_calls(&self) -> bool {
        let newest = self.rounds.last();
        newest.is_some_and(|round| {
            round
                .calls
                .iter()
                .any(|call| matches!(call.state, CallState::Held))
        })
    }

    /// Ends the turn with the calls that the client is to run, and with those of ours that it is asked about.
    pub(super) fn hand_over(&mut self, now: &Now<'_>, step: &mut Step) {
        let until = self.approval_until(now);
        let Some(round) = self.rounds.last_mut() else {
            return;
        };
        let held = round
            .calls
            .iter_mut()
            .filter(|call| matches!(call.state, CallState::Held));
        let mut place = 0;
        for call in held {
            let made = call_in(&round.blocks, &call.sent_id);
            let handed = CallBlock {
                id: call.id.handed(),
                name: call.name.clone(),
                form: made.map_or(CallForm::Function, |made| made.form),
                arguments: made.map(|made| made.arguments.clone()).unwrap_or_default(),
                native: made.and_then(|made| made.native.clone()),
            };
            match call.runs {
                CallRunner::Client => {
                    give_to_client(call, &handed, place, now, step);
                    place += 1;
                    call.state = CallState::Ended(handed_over());
                }
                CallRunner::Server | CallRunner::Outside => {
                    step.write.push(TurnChange::AskApproval {
                        call: call.at,
                        until,
                        at: now.at,
                    });
                    step.show.push(LogEvent::ApprovalAsked {
                        call: call.at,
                        id: call.id,
                        name: handed.name.clone(),
                        arguments: handed.arguments.clone(),
                    });
                }
            }
            self.handed.push(handed);
        }
        let reason = match place {
            0 => Finish::Stop,
            _ => Finish::ToolCalls,
        };
        step.show.push(LogEvent::Finish { choice: 0, reason });
        self.end(TurnStatus::Completed, None, None, now, step);
    }

    /// Ends the row of a call that was handed over in part before a crash.
    pub(super) fn drop_found(&mut self, at: CallRef, now: &Now<'_>, step: &mut Step) {
        self.calls_total = self.calls_total.saturating_add(1);
        step.write
            .push(broken_off(at, CallReason::Interrupted, now.at));
    }
}

/// Hands over a call that the client is to run, which is the one at `place` of such.
fn give_to_client(call: &Call, handed: &CallBlock, place: u32, now: &Now<'_>, step: &mut Step) {
    step.write
        .push(TurnChange::HandOverCall(Box::new(HandedCall {
            call: call.at,
            tool_name: call.name.clone(),
            tool_call_id: call.sent_id.clone(),
            arguments: handed.arguments.to_text(),
            at: now.at,
        })));
    step.show.push(LogEvent::ClientCall(CallDelta {
        choice: 0,
        call: place,
        id: Some(handed.id.as_str().into()),
        name: Some(handed.name.as_str().into()),
        form: handed.form,
        arguments: filled(handed.arguments.clone()),
        native: handed.native.clone(),
    }));
}

/// Ends the rows of calls whose answer did not come to its end.
pub(super) fn drop_handed(
    round: u32,
    answer: &ModelAnswer,
    reason: CallReason,
    now: &Now<'_>,
    step: &mut Step,
) {
    let handed = answer.drafts.iter().filter(|draft| draft.handed.is_some());
    step.write
        .extend(handed.map(|draft| broken_off(place(round, draft), reason, now.at)));
}

fn broken_off(call: CallRef, reason: CallReason, at: Timestamp) -> TurnChange {
    let shown = "The answer broke off before this call was whole.".to_owned();
    TurnChange::EndCall {
        call,
        end: failed(reason, shown),
        at,
    }
}

fn filled(arguments: Literal) -> Option<Literal> {
    (!arguments.is_empty()).then_some(arguments)
}

/// The end of a call that was handed over: without a result, which the client has yet to bring.
fn handed_over() -> CallEnd {
    CallEnd {
        reason: None,
        result: None,
        shown: String::new(),
        is_error: false,
        cached: false,
    }
}

fn place(round: u32, draft: &DraftCall) -> CallRef {
    CallRef {
        round,
        position: draft.position,
    }
}

fn handed_call(round: u32, draft: &DraftCall, sent_id: String, at: Timestamp) -> HandedCall {
    HandedCall {
        call: place(round, draft),
        tool_name: draft.name.clone(),
        tool_call_id: sent_id,
        arguments: draft.arguments.to_text(),
        at,
    }
}

/// A call as it begins, without arguments.
fn client_call(
    round: u32,
    draft: &DraftCall,
    id: CallId,
    sent_id: String,
    now: &mut Now<'_>,
) -> NewCall {
    NewCall {
        call: place(round, draft),
        id,
        runs: CallRunner::Client,
        effect: None,
        tool_version: None,
        tool_name: draft.name.clone(),
        tool_call_id: sent_id,
        arguments: String::new(),
        sensitive: None,
        status: CallStatus::Pending,
        end: None,
        idempotency_key: String::new(),
        callback_token: None,
        approval: None,
        approves: None,
        at: now.at,
    }
}
