//! The calls of a round: what may run, when, how often, and how it ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::answer::{Answer, Draft};
use super::{Call, CallState, Effect, Now, Offer, Phase, Round, Step, Timer, Turn, failed};
use crate::arguments::{self, InvalidArguments, ValidArgs, Written};
use crate::call::{CallEnd, CallReason, CallStatus, Runs};
use crate::change::{AttemptOutcome, Change, CloseAttempt, NewCall, NewMessage, OpenAttempt};
use crate::event::{LogEvent, TurnReason, TurnStatus};
use crate::id::{CallId, CallRef};
use crate::limits::INVALID_CALLS_OF_A_TOOL_MAX;
use crate::model::Finish;
use crate::request::Role;
use crate::tool::{EffectClass, LookUp, Tool, ToolOutcome, ToolOutput};

impl Turn {
    /// The model's answer is whole: record it, and run its calls or end the turn.
    pub(super) fn close_round(
        &mut self,
        n: u32,
        answer: Answer,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let round = self.round_number();
        step.write.push(Change::CloseAttempt(CloseAttempt {
            round,
            position: None,
            n,
            outcome: AttemptOutcome::Ok,
            http_status: None,
            usage: answer.usage.clone(),
            at: now.at,
        }));
        self.count(answer.usage.as_ref());
        let sent_ids = self.sent_ids(round, &answer);
        let blocks = answer.blocks(&sent_ids);
        step.write.push(Change::AddMessage(NewMessage {
            round,
            seq: 0,
            role: Role::Assistant,
            blocks: blocks.clone(),
            at: now.at,
        }));
        self.phase = Phase::RunningTools;
        self.rounds.push(Round {
            blocks,
            calls: Vec::new(),
        });
        if self.setup.offer.is_relay() {
            self.record_client_calls(round, &answer, &sent_ids, now, step);
        }
        let has_calls = answer.drafts.iter().any(|draft| draft.choice == 0);
        if self.setup.offer.is_relay() || !has_calls {
            self.end_with_answer(answer, step, now);
            return;
        }
        let cut = answer.finish.get(&0) == Some(&Finish::Length);
        let last_round = round >= self.setup.limits.rounds_max;
        let over_calls = self.calls_total >= self.setup.limits.calls_per_turn_max;
        self.add_calls(round, &answer, sent_ids, now, step);
        if cut {
            self.show_answer_head(&answer, step);
            self.end_by_limit(TurnReason::Length, now, step);
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

    fn show_answer_head(&mut self, answer: &Answer, step: &mut Step) {
        self.show_start(answer.model.clone(), answer.created_s, step);
    }

    /// What the upstream will know each call of the first choice by: its own id, or one of ours
    /// where it gave none or gave one twice.
    fn sent_ids(&self, round: u32, answer: &Answer) -> Vec<String> {
        let mut seen = BTreeSet::new();
        answer
            .drafts
            .iter()
            .filter(|draft| draft.choice == 0)
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

    /// Calls of a client's own tools are handed over as written.
    fn record_client_calls(
        &mut self,
        round: u32,
        answer: &Answer,
        sent_ids: &[String],
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let first_choice = answer.drafts.iter().filter(|draft| draft.choice == 0);
        for ((draft, sent_id), position) in first_choice.zip(sent_ids).zip(0..) {
            self.calls_total = self.calls_total.saturating_add(1);
            let end = CallEnd {
                reason: None,
                result: None,
                shown: String::new(),
                is_error: false,
            };
            let fresh = NewCall {
                call: CallRef { round, position },
                id: CallId((now.fresh_id)()),
                runs: Runs::Client,
                effect: None,
                tool_name: draft.name.clone(),
                tool_call_id: sent_id.clone(),
                arguments: draft.arguments.to_text(),
                status: CallStatus::Completed,
                end: Some(end),
                idempotency_key: String::new(),
                callback_token: (now.fresh_id)().simple().to_string(),
                at: now.at,
            };
            step.write.push(Change::AddCall(Box::new(fresh)));
        }
    }

    fn add_calls(
        &mut self,
        round: u32,
        answer: &Answer,
        sent_ids: Vec<String>,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let end = match answer.finish.get(&0) {
            Some(Finish::Length) => Written::CutByLength,
            Some(
                Finish::Stop | Finish::ToolCalls | Finish::ContentFilter | Finish::FunctionCall,
            )
            | None => Written::InFull,
        };
        let first_choice = answer.drafts.iter().filter(|draft| draft.choice == 0);
        // What the model was offered holds for its whole answer, however many of its calls fail.
        let offered: Vec<Arc<Tool>> = self.offered_tools().cloned().collect();
        let mut calls = Vec::new();
        for ((draft, sent_id), position) in first_choice.zip(sent_ids).zip(0u32..) {
            let at = CallRef { round, position };
            let tool = offered.iter().find(|tool| tool.name == draft.name).cloned();
            let checked = self.check_call(draft, tool.as_deref(), end, at);
            self.calls_total = self.calls_total.saturating_add(1);
            let id = CallId((now.fresh_id)());
            let call = Call {
                at,
                id,
                name: draft.name.clone(),
                sent_id,
                idempotency_key: format!("tw_{}", id.plain()),
                effect: tool.as_ref().map(|tool| tool.policy.effect),
                tool,
                acted: false,
                state: match checked {
                    Ok(args) => CallState::Pending { args, asked: false },
                    Err(end) => CallState::Ended(end),
                },
            };
            let token = (now.fresh_id)().simple().to_string();
            step.write.push(Change::AddCall(Box::new(new_call(
                &call, draft, token, now,
            ))));
            calls.push(call);
        }
        if let Some(made) = self.rounds.last_mut() {
            made.calls = calls;
        }
    }

    /// The arguments of a call that may run, or the end of one that may not.
    fn check_call(
        &mut self,
        draft: &Draft,
        tool: Option<&Tool>,
        end: Written,
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
        if end == Written::InFull && at.round >= limits.rounds_max {
            let shown = format!("At most {} rounds run for one request.", limits.rounds_max);
            return Err(failed(CallReason::Denied, shown));
        }
        if draft.overflown {
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
        let offered: Vec<&str> = self
            .offered_tools()
            .map(|tool| tool.name.as_str())
            .collect();
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
        let tools: &[Arc<Tool>] = match &self.setup.offer {
            Offer::Ours(tools) => tools,
            Offer::Relay => &[],
        };
        tools.iter().filter(|tool| {
            self.invalid.get(&tool.name).copied().unwrap_or_default() < INVALID_CALLS_OF_A_TOOL_MAX
        })
    }

    fn show_calls(&self, round: u32, step: &mut Step) {
        for call in self.calls().filter(|call| call.at.round == round) {
            step.show.push(LogEvent::CallStarted {
                call: call.at,
                id: call.id,
                name: call.name.clone(),
            });
            if let CallState::Ended(end) = &call.state {
                step.show.push(LogEvent::CallEnded {
                    call: call.at,
                    id: call.id,
                    end: end.clone(),
                });
            }
        }
    }

    /// Asks for slots as far as the turn may run calls in parallel, or, when all calls have
    /// ended, goes to the next round.
    pub(super) fn go_on(&mut self, now: &mut Now<'_>, step: &mut Step) {
        let parallel = usize::try_from(self.setup.limits.calls_parallel_max).unwrap_or(usize::MAX);
        let Some(round) = self.rounds.last_mut() else {
            return;
        };
        let active = round
            .calls
            .iter()
            .filter(|call| match call.state {
                CallState::Pending { asked, .. } => asked,
                CallState::Running { .. }
                | CallState::Waiting { .. }
                | CallState::LookingUp { .. } => true,
                CallState::Ended(_) => false,
            })
            .count();
        let mut free = parallel.saturating_sub(active);
        for call in &mut round.calls {
            if let CallState::Pending {
                asked: asked @ false,
                ..
            } = &mut call.state
                && free > 0
            {
                *asked = true;
                free -= 1;
                step.then.push(Effect::RequestSlot { call: call.at });
            }
        }
        if round.calls.iter().all(Call::is_ended) {
            self.after_calls(now, step);
        }
    }

    fn after_calls(&mut self, now: &mut Now<'_>, step: &mut Step) {
        if let Some(reason) = self.stopping {
            self.end_cancelled(reason, now, step);
            return;
        }
        if self.completion_tokens_left() == Some(0) {
            self.end_by_limit(TurnReason::Length, now, step);
            return;
        }
        self.ask(1, now, step);
    }

    pub(super) fn on_slot(&mut self, at: CallRef, now: &mut Now<'_>, step: &mut Step) {
        let Some(call) = self.find_mut(at) else {
            return;
        };
        let CallState::Pending { args, asked: true } = &call.state else {
            return;
        };
        call.state = CallState::Running {
            args: args.clone(),
            n: 1,
        };
        step.write.push(Change::StartCall {
            call: at,
            at: now.at,
        });
        open_attempt(at, 1, now, step);
    }

    pub(super) fn on_call_ended(
        &mut self,
        at: CallRef,
        n: u32,
        outcome: ToolOutcome,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let kept_max = self.setup.limits.result_kept_bytes_max;
        let Some(call) = self.find(at) else {
            return;
        };
        let CallState::Running { args, n: running } = &call.state else {
            return;
        };
        if *running != n {
            return;
        }
        let args = args.clone();
        let word = match &outcome {
            ToolOutcome::Answered(_) => AttemptOutcome::Ok,
            ToolOutcome::Refused { .. }
            | ToolOutcome::NotSent { .. }
            | ToolOutcome::Reset { .. }
            | ToolOutcome::TimedOut
            | ToolOutcome::Panicked
            | ToolOutcome::Aborted => AttemptOutcome::Failed(outcome.as_str().to_owned()),
        };
        close_attempt(at, n, word, now, step);
        let was_sent = !matches!(outcome, ToolOutcome::NotSent { .. });
        let next = next_for(call, n, outcome, kept_max);
        if let Some(call) = self.find_mut(at) {
            call.acted |= was_sent;
        }
        match next {
            Next::End(end) => self.end_call(at, end, now, step),
            Next::Again(after) if self.stopping.is_none() => {
                self.wait_for_attempt(at, args, n + 1, after, step);
            }
            Next::Again(_) => {
                let shown =
                    "The request was stopped before this call could be tried again.".to_owned();
                self.end_call(at, failed(CallReason::Cancelled, shown), now, step);
            }
            Next::LookUp => self.look_up(at, args, n, step),
        }
    }

    fn wait_for_attempt(
        &mut self,
        at: CallRef,
        args: ValidArgs,
        n: u32,
        after: Duration,
        step: &mut Step,
    ) {
        if let Some(call) = self.find_mut(at) {
            call.state = CallState::Waiting { args, n };
        }
        step.then.push(Effect::SetTimer {
            timer: Timer::CallAgain { call: at, n },
            after,
        });
    }

    pub(super) fn look_up(&mut self, at: CallRef, args: ValidArgs, n: u32, step: &mut Step) {
        if let Some(call) = self.find_mut(at) {
            call.state = CallState::LookingUp { args, n };
        }
        step.then.push(Effect::LookUp { call: at, n });
    }

    pub(super) fn on_call_again(
        &mut self,
        at: CallRef,
        n: u32,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let Some(call) = self.find_mut(at) else {
            return;
        };
        let CallState::Waiting { args, n: next } = &call.state else {
            return;
        };
        if *next != n {
            return;
        }
        call.state = CallState::Running {
            args: args.clone(),
            n,
        };
        open_attempt(at, n, now, step);
    }

    pub(super) fn on_looked_up(
        &mut self,
        at: CallRef,
        n: u32,
        found: LookUp,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let kept_max = self.setup.limits.result_kept_bytes_max;
        let stopping = self.stopping.is_some();
        let Some(call) = self.find_mut(at) else {
            return;
        };
        let CallState::LookingUp { args, n: asked } = &call.state else {
            return;
        };
        if *asked != n {
            return;
        }
        let args = args.clone();
        let attempts_max = call
            .tool
            .as_ref()
            .map_or(1, |tool| tool.policy.attempts_max);
        if found == LookUp::Absent {
            call.acted = false;
        }
        match found {
            LookUp::Happened(output) => {
                let end = completed(call, &output, kept_max);
                self.end_call(at, end, now, step);
            }
            LookUp::Absent if n < attempts_max && !stopping => {
                self.wait_for_attempt(at, args, n + 1, Duration::ZERO, step);
            }
            LookUp::Absent => {
                let shown = "The tool did not answer, and the provider says that nothing was done."
                    .to_owned();
                self.end_call(at, failed(CallReason::NotSent, shown), now, step);
            }
            LookUp::Unknown => self.end_call(at, outcome_unknown(), now, step),
        }
    }

    /// Writes a call's end and goes on.
    pub(super) fn end_call(
        &mut self,
        at: CallRef,
        end: CallEnd,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        self.finish_call(at, end, now, step);
        self.go_on(now, step);
    }

    /// Writes a call's end, without going on.
    pub(super) fn finish_call(
        &mut self,
        at: CallRef,
        end: CallEnd,
        now: &Now<'_>,
        step: &mut Step,
    ) {
        let Some(call) = self.find_mut(at) else {
            return;
        };
        call.state = CallState::Ended(end.clone());
        step.show.push(LogEvent::CallEnded {
            call: at,
            id: call.id,
            end: end.clone(),
        });
        step.write.push(Change::EndCall {
            call: at,
            end,
            at: now.at,
        });
        step.then.push(Effect::ReleaseSlot { call: at });
    }

    /// Ends the turn with what the model said last.
    fn end_with_answer(&mut self, answer: Answer, step: &mut Step, now: &mut Now<'_>) {
        self.show_start(answer.model, answer.created_s, step);
        step.show.extend(answer.held);
        let has_calls = |choice| answer.drafts.iter().any(|draft| draft.choice == choice);
        let mut reasons = Vec::new();
        for choice in 0..self.setup.choices {
            let said = answer.finish.get(&choice).copied();
            reasons.push((choice, finish_of(said, has_calls(choice), &answer.drafts)));
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
fn finish_of(said: Option<Finish>, has_calls: bool, drafts: &[Draft]) -> Finish {
    let legacy = drafts
        .iter()
        .any(|draft| draft.form == crate::model::CallForm::Legacy);
    match (said, has_calls) {
        (Some(Finish::Length), _) => Finish::Length,
        (Some(Finish::ContentFilter), _) => Finish::ContentFilter,
        (_, true) if legacy => Finish::FunctionCall,
        (_, true) => Finish::ToolCalls,
        (_, false) => Finish::Stop,
    }
}

enum Next {
    End(CallEnd),
    Again(Duration),
    LookUp,
}

/// What follows an attempt's end, by the tool's effect class.
fn next_for(call: &Call, n: u32, outcome: ToolOutcome, kept_max: usize) -> Next {
    let policy = call.tool.as_ref().map(|tool| &tool.policy);
    let again = policy
        .filter(|policy| n < policy.attempts_max)
        .map(|policy| policy.backoff_before(n + 1));
    let ambiguous = |reason: CallReason, shown: &str, again: Option<Duration>| match call.effect() {
        EffectClass::Read | EffectClass::Idempotent => match again {
            Some(wait) => Next::Again(wait),
            None => Next::End(failed(reason, shown.to_owned())),
        },
        EffectClass::Queryable => Next::LookUp,
        EffectClass::Once => Next::End(outcome_unknown()),
    };
    match outcome {
        ToolOutcome::Answered(output) => Next::End(completed(call, &output, kept_max)),
        ToolOutcome::Refused { message } => Next::End(failed(CallReason::ToolError, message)),
        ToolOutcome::NotSent { message } => match again {
            Some(wait) => Next::Again(wait),
            None => Next::End(failed(CallReason::NotSent, message)),
        },
        ToolOutcome::Reset { message } => ambiguous(CallReason::Reset, &message, again),
        ToolOutcome::TimedOut => ambiguous(
            CallReason::Timeout,
            "The tool did not answer within its time.",
            again,
        ),
        // Code that panicked once panics again.
        ToolOutcome::Panicked => {
            ambiguous(CallReason::Panicked, "The tool failed internally.", None)
        }
        ToolOutcome::Aborted => {
            ambiguous(CallReason::Interrupted, "The call was interrupted.", again)
        }
    }
}

fn completed(call: &Call, output: &ToolOutput, kept_max: usize) -> CallEnd {
    let shown_max = call
        .tool
        .as_ref()
        .map_or(0, |tool| tool.policy.shown_bytes_max);
    let mut kept = output.kept();
    if kept.len() > kept_max {
        let mut end = kept_max;
        while !kept.is_char_boundary(end) {
            end -= 1;
        }
        kept.truncate(end);
    }
    CallEnd {
        reason: None,
        result: Some(kept),
        shown: output.shown(shown_max),
        is_error: false,
    }
}

pub(super) fn outcome_unknown() -> CallEnd {
    failed(
        CallReason::OutcomeUnknown,
        "It is not known whether this call took effect. It must not simply be repeated.".to_owned(),
    )
}

pub(super) fn open_attempt(at: CallRef, n: u32, now: &Now<'_>, step: &mut Step) {
    step.write.push(Change::OpenAttempt(OpenAttempt {
        round: at.round,
        position: Some(at.position),
        n,
        upstream: None,
        at: now.at,
    }));
    step.then.push(Effect::Dispatch { call: at, n });
}

pub(super) fn close_attempt(
    at: CallRef,
    n: u32,
    outcome: AttemptOutcome,
    now: &Now<'_>,
    step: &mut Step,
) {
    step.write.push(Change::CloseAttempt(CloseAttempt {
        round: at.round,
        position: Some(at.position),
        n,
        outcome,
        http_status: None,
        usage: None,
        at: now.at,
    }));
}

fn new_call(call: &Call, draft: &Draft, token: String, now: &Now<'_>) -> NewCall {
    let (status, end) = match &call.state {
        CallState::Ended(end) => (end.status(), Some(end.clone())),
        CallState::Pending { .. }
        | CallState::Running { .. }
        | CallState::Waiting { .. }
        | CallState::LookingUp { .. } => (CallStatus::Pending, None),
    };
    NewCall {
        call: call.at,
        id: call.id,
        runs: Runs::Server,
        effect: call.effect,
        tool_name: call.name.clone(),
        tool_call_id: call.sent_id.clone(),
        arguments: draft.arguments.to_text(),
        status,
        end,
        idempotency_key: call.idempotency_key.clone(),
        callback_token: token,
        at: now.at,
    }
}
