//! The calls of a round: which may run, and what is recorded of the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::answer::{DraftCall, ModelAnswer};
use super::{Call, CallState, Now, Phase, Round, Step, Turn, failed};
use crate::approval::ApprovalState;
use crate::arguments::{self, ArgumentsEnd, InvalidArguments, ValidArgs};
use crate::call::{CallEnd, CallReason, CallRunner, CallStatus};
use crate::change::{AttemptOutcome, CloseAttempt, NewCall, NewMessage, TurnChange};
use crate::event::LogEvent;
use crate::id::{CallId, CallRef};
use crate::limits::INVALID_CALLS_OF_A_TOOL_MAX;
use crate::model::{AnswerDelta, Finish};
use crate::request::{Role, call_in};
use crate::tool::{CallCompletion, EffectClass, Tool, ToolKind};
use crate::turn_status::{TurnReason, TurnStatus};
use crate::variables::beginning;

/// Longest part of an unknown tool's name that is repeated, in bytes.
const NAME_SHOWN_BYTES_MAX: usize = 128;

impl Turn {
    /// The model's answer is whole: record it, and run its calls or end the turn.
    pub(super) fn close_round(
        &mut self,
        n: u32,
        answer: ModelAnswer,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let round = self.round_number();
        step.write.push(TurnChange::CloseAttempt(CloseAttempt {
            round,
            position: None,
            n,
            outcome: AttemptOutcome::Ok,
            http_status: None,
            usage: answer.usage.clone(),
            at: now.at,
        }));
        self.charge_answer(n, answer.usage.as_ref(), now, step);
        self.count(answer.usage.as_ref());
        let sent_ids = self.sent_ids(round, &answer, 0);
        let origin = self.origin_of(n);
        let blocks = answer.blocks(origin.format, &sent_ids);
        step.write.push(TurnChange::AddMessage(NewMessage {
            round,
            seq: 0,
            role: Role::Assistant,
            blocks: blocks.clone(),
            origin: Some(Arc::clone(&origin)),
            at: now.at,
        }));
        self.chain.begin_at(self.upstream_of(n));
        self.phase = Phase::RunningTools;
        self.rounds.push(Round {
            blocks,
            origin: Some(origin),
            calls: Vec::new(),
        });
        let has_calls = answer.drafts.iter().any(|draft| draft.choice == 0);
        if self.setup.offer.is_relay() || !has_calls {
            self.end_with_answer(round, answer, step, now);
            return;
        }
        let cut = answer.finish.get(&0) == Some(&Finish::Length);
        let last_round = round >= self.setup.limits.rounds_max;
        let over_calls = self.calls_total >= self.setup.limits.calls_per_turn_max;
        self.add_calls(round, &answer, sent_ids, now, step);
        if cut {
            self.show_answer_head(&answer, step);
            self.end_by_limit(TurnReason::Length, now, step);
        } else if self.holds_calls() {
            // The turn ends with this round anyway, whatever of ours may still run in it.
            self.show_answer_head(&answer, step);
            self.show_calls(round, step);
            self.go_on(now, step);
        } else if last_round {
            self.show_answer_head(&answer, step);
            self.end_by_limit(TurnReason::Rounds, now, step);
        } else if over_calls {
            self.show_answer_head(&answer, step);
            self.end_by_limit(TurnReason::Calls, now, step);
        } else {
            self.show_start(answer.model, answer.created_s, step);
            self.show_calls(round, step);
            self.go_on(now, step);
        }
    }

    fn show_answer_head(&mut self, answer: &ModelAnswer, step: &mut Step) {
        self.show_start(answer.model.clone(), answer.created_s, step);
        self.show_round(answer, step);
        self.show_held_text(answer, step);
    }

    /// Shows that the round began, if nothing of it was shown before and what is shown now has parts that only the
    /// answer's format knows, or text.
    fn show_round(&self, answer: &ModelAnswer, step: &mut Step) {
        let is_text_held = self.setup.holds_text() && answer.text().is_some();
        let has_natives = answer.drafts.iter().any(|draft| draft.native.is_some());
        if !answer.shown && (is_text_held || has_natives) {
            let (round, format) = (self.round_number(), self.asked_format());
            step.show.push(LogEvent::Round { round, format });
        }
    }

    /// Shows the text of the turn's last round, where it waited for the round's end.
    fn show_held_text(&self, answer: &ModelAnswer, step: &mut Step) {
        if !self.setup.holds_text() {
            return;
        }
        let Some(text) = answer.text() else {
            return;
        };
        step.show.push(LogEvent::Delta(AnswerDelta {
            choice: 0,
            text: Some(text),
            rest: None,
        }));
    }

    /// The ids by which the upstream will know the calls of a choice: its own, or one of ours where
    /// it gave none or gave one twice.
    pub(super) fn sent_ids(&self, round: u32, answer: &ModelAnswer, choice: u32) -> Vec<String> {
        let mut seen = BTreeSet::new();
        answer
            .drafts
            .iter()
            .filter(|draft| draft.choice == choice)
            .map(|draft| match &draft.id {
                Some(id) if seen.insert(id.clone()) => id.clone(),
                Some(_) | None => {
                    let minted = format!("call_{}_{round}_{}", self.setup.id.plain(), draft.call);
                    seen.insert(minted.clone());
                    minted
                }
            })
            .collect()
    }

    fn add_calls(
        &mut self,
        round: u32,
        answer: &ModelAnswer,
        sent_ids: Vec<String>,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let end = match answer.finish.get(&0) {
            Some(Finish::Length) => ArgumentsEnd::CutByLength,
            Some(
                Finish::Stop
                | Finish::ToolCalls
                | Finish::ContentFilter
                | Finish::StopSequence
                | Finish::Refusal
                | Finish::Pause,
            )
            | None => ArgumentsEnd::InFull,
        };
        let first_choice = answer.drafts.iter().filter(|draft| draft.choice == 0);
        // What the model was offered holds for its whole answer, however many of its calls fail.
        let offered: Vec<Arc<Tool>> = self.offered_tools().cloned().collect();
        let mut calls = Vec::new();
        for ((draft, sent_id), position) in first_choice.zip(sent_ids).zip(0u32..) {
            let at = CallRef { round, position };
            let tool = offered.iter().find(|tool| tool.name == draft.name).cloned();
            let is_clients = self.setup.offer.is_clients(&draft.name);
            let state = if is_clients {
                held(end)
            } else {
                let requires_approval = |tool: &Arc<Tool>| tool.policy.requires_approval;
                match self.check_call(draft, tool.as_deref(), end, at) {
                    Ok(_) if tool.as_ref().is_some_and(requires_approval) => CallState::Held,
                    Ok(args) => CallState::Pending {
                        args,
                        n: 1,
                        asked: false,
                    },
                    Err(end) => CallState::Ended(end),
                }
            };
            self.calls_total = self.calls_total.saturating_add(1);
            let id = CallId((now.fresh_id)());
            let effect = tool.as_ref().map(|tool| tool.policy.effect);
            let given = match &state {
                CallState::Pending { args, .. } if effect == Some(EffectClass::Idempotent) => {
                    Some(args.clone())
                }
                CallState::Pending { .. }
                | CallState::Held
                | CallState::Running { .. }
                | CallState::Waiting { .. }
                | CallState::LookingUp { .. }
                | CallState::AwaitingCallback
                | CallState::Detached { .. }
                | CallState::Ended(_) => None,
            };
            let repeated = given
                .as_ref()
                .and_then(|args| self.key_to_repeat(&draft.name, args, &calls));
            let (runs, idempotency_key) = if is_clients {
                (CallRunner::Client, String::new())
            } else {
                let key = repeated.unwrap_or_else(|| format!("tw_{}", id.plain()));
                (CallRunner::Server, key)
            };
            let call = Call {
                at,
                id,
                runs,
                name: draft.name.clone(),
                sent_id,
                approves: None,
                idempotency_key,
                callback_token: callback_token(tool.as_deref(), now),
                effect,
                tool,
                given,
                acted: false,
                unsure: false,
                state,
            };
            let arguments = draft.arguments.to_text();
            let new = new_call(&call, arguments, now);
            step.write.push(TurnChange::AddCall(Box::new(new)));
            calls.push(call);
        }
        if let Some(made) = self.rounds.last_mut() {
            made.calls = calls;
        }
    }

    /// The arguments of a call that may run, or the end of one that may not.
    fn check_call(
        &mut self,
        draft: &DraftCall,
        tool: Option<&Tool>,
        end: ArgumentsEnd,
        at: CallRef,
    ) -> Result<ValidArgs, CallEnd> {
        let limits = &self.setup.limits;
        let Some(tool) = tool else {
            return Err(failed(
                CallReason::UnknownTool,
                self.unknown_tool(&draft.name),
            ));
        };
        if at.position >= limits.calls_per_round_max {
            let shown = format!(
                "At most {} calls run at once; make this call again.",
                limits.calls_per_round_max
            );
            return Err(failed(CallReason::Denied, shown));
        }
        if self.calls_total >= limits.calls_per_turn_max {
            let shown = format!(
                "At most {} calls run for one request.",
                limits.calls_per_turn_max
            );
            return Err(failed(CallReason::Denied, shown));
        }
        if end == ArgumentsEnd::InFull && at.round >= limits.rounds_max {
            let shown = format!("At most {} rounds run for one request.", limits.rounds_max);
            return Err(failed(CallReason::Denied, shown));
        }
        // Before a call has its name, it may be one of the client's, which may be longer.
        if draft.overflown || draft.arguments.len() > limits.argument_bytes_max {
            let shown = format!(
                "The arguments are longer than {} bytes.",
                limits.argument_bytes_max
            );
            return Err(self.invalid(tool, InvalidArguments(shown)));
        }
        let written = draft.arguments.to_literal();
        arguments::read(&written, end, &tool.schema, &tool.parameters)
            .map_err(|error| self.invalid(tool, error))
    }

    fn invalid(&mut self, tool: &Tool, error: InvalidArguments) -> CallEnd {
        *self.invalid.entry(tool.name.clone()).or_default() += 1;
        failed(CallReason::InvalidArguments, error.0)
    }

    fn unknown_tool(&self, name: &str) -> String {
        let name = beginning(name, NAME_SHOWN_BYTES_MAX);
        let offered = self.offered_names();
        if offered.is_empty() {
            return format!("There is no tool named {name:?}; answer without tools.");
        }
        format!(
            "There is no tool named {name:?}. The tools are: {}.",
            offered.join(", ")
        )
    }

    /// The tools that the next request names, in order.
    pub(super) fn offered_tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let ours = self.setup.offer.ours();
        ours.filter(|tool| self.is_still_offered(&tool.name))
    }

    /// Whether a tool of ours is offered in the round that is asked for.
    pub(super) fn is_still_offered(&self, name: &str) -> bool {
        let invalid = self.invalid.get(name).copied().unwrap_or_default();
        let is_withheld =
            self.round_number() == 1 && self.setup.withheld.iter().any(|withheld| withheld == name);
        invalid < INVALID_CALLS_OF_A_TOOL_MAX && !is_withheld
    }

    fn show_calls(&self, round: u32, step: &mut Step) {
        // Whoever is asked for an approval sees the call then.
        let ours = |call: &&Call| {
            let is_held = matches!(call.state, CallState::Held);
            call.at.round == round && call.runs == CallRunner::Server && !is_held
        };
        let blocks = self.rounds.last().map_or(&[][..], |round| &round.blocks);
        let written = |call: &Call| {
            let made = call_in(blocks, &call.sent_id);
            made.map(|made| made.arguments.clone()).unwrap_or_default()
        };
        for call in self.calls().filter(ours) {
            step.show.push(LogEvent::CallStarted {
                call: call.at,
                id: call.id,
                name: call.name.clone(),
                arguments: written(call),
                approves: None,
            });
            if let CallState::Ended(end) = &call.state {
                step.show.push(LogEvent::CallEnded {
                    call: call.at,
                    id: call.id,
                    end: Box::new(end.clone()),
                });
            }
        }
    }

    /// Ends the turn with what the model said last.
    fn end_with_answer(
        &mut self,
        round: u32,
        mut answer: ModelAnswer,
        step: &mut Step,
        now: &mut Now<'_>,
    ) {
        self.show_start(answer.model.take(), answer.created_s, step);
        self.show_round(&answer, step);
        step.show.append(&mut answer.held);
        self.show_held_text(&answer, step);
        if self.setup.offer.is_relay() {
            self.hand_over_all(round, &answer, now, step);
        }
        let has_calls = |choice| answer.drafts.iter().any(|draft| draft.choice == choice);
        let mut reasons = Vec::new();
        for choice in 0..self.setup.choices {
            let said = answer.finish.get(&choice).copied();
            reasons.push((choice, finish_of(said, has_calls(choice))));
        }
        let status = if reasons.iter().any(|(_, reason)| *reason == Finish::Length) {
            (TurnStatus::Incomplete, Some(TurnReason::Length))
        } else {
            (TurnStatus::Completed, None)
        };
        for (choice, reason) in reasons {
            step.show.push(LogEvent::Finish { choice, reason });
        }
        self.end(status.0, status.1, None, now, step);
    }
}

/// The finish reason that fits what the model did: upstreams say `stop` with calls present, and
/// `tool_calls` with none.
fn finish_of(said: Option<Finish>, has_calls: bool) -> Finish {
    match (said, has_calls) {
        (Some(cut @ (Finish::Length | Finish::ContentFilter | Finish::Refusal)), _) => cut,
        (_, true) => Finish::ToolCalls,
        (Some(kept @ (Finish::StopSequence | Finish::Pause)), false) => kept,
        (Some(Finish::Stop | Finish::ToolCalls) | None, false) => Finish::Stop,
    }
}

/// A call that the client is to run. One that was cut off is not handed over.
fn held(end: ArgumentsEnd) -> CallState {
    match end {
        ArgumentsEnd::InFull => CallState::Held,
        ArgumentsEnd::CutByLength => {
            let shown = "The answer was cut off before this call was whole.".to_owned();
            CallState::Ended(failed(CallReason::Interrupted, shown))
        }
    }
}

pub(super) fn new_call(call: &Call, arguments: String, now: &Now<'_>) -> NewCall {
    let is_asked_for = matches!(call.state, CallState::Held) && call.runs == CallRunner::Server;
    let (status, end) = match &call.state {
        CallState::Ended(end) => (end.status(), Some(end.clone())),
        CallState::Pending { .. }
        | CallState::Held
        | CallState::Running { .. }
        | CallState::Waiting { .. }
        | CallState::LookingUp { .. }
        | CallState::AwaitingCallback
        | CallState::Detached { .. } => (CallStatus::Pending, None),
    };
    NewCall {
        call: call.at,
        id: call.id,
        runs: call.runs,
        effect: call.effect,
        tool_version: call
            .tool
            .as_ref()
            .and_then(|tool| tool.version)
            .map(|version| version.key),
        tool_name: call.name.clone(),
        tool_call_id: call.sent_id.clone(),
        sensitive: call.tool.as_ref().and_then(|tool| match &tool.kind {
            ToolKind::ApiRequest(definition) => definition.sensitive_call(&arguments),
            ToolKind::TimeNow | ToolKind::Calculate | ToolKind::Probe(_) => None,
        }),
        arguments,
        status,
        end,
        idempotency_key: call.idempotency_key.clone(),
        callback_token: call.callback_token.clone(),
        approval: is_asked_for.then_some(ApprovalState::Needed),
        approves: call.approves,
        at: now.at,
    }
}

/// The guard of the callback that may end a call of a tool.
pub(super) fn callback_token(tool: Option<&Tool>, now: &mut Now<'_>) -> Option<String> {
    match tool?.policy.completion {
        CallCompletion::Inline => None,
        CallCompletion::Job(_) => Some((now.fresh_id)().simple().to_string()),
    }
}
