//! The end of a turn: by its answer, a limit, a failure, a stop, the deadline or a shutdown.

use super::answer::ModelAnswer;
use super::attempts::{close_attempt, outcome_unknown};
use super::{Call, CallState, Effect, Now, Phase, Step, Turn};
use crate::call::{CallReason, CallRunner, CallStatus};
use crate::change::{AttemptOutcome, EndTurn, NewMessage, TurnChange};
use crate::event::{EffectRan, LogEvent, TurnEnd};
use crate::fault::{FaultClass, TurnFault};
use crate::id::CallRef;
use crate::model::Finish;
use crate::request::Role;
use crate::tool::EffectClass;
use crate::turn_policy::{HELD_KEPT, MINIMAL_KEPT, RecordPolicy};
use crate::turn_status::{TurnReason, TurnStatus};

impl Turn {
    /// The last step of a turn, whatever the reason.
    pub(super) fn end(
        &mut self,
        status: TurnStatus,
        reason: Option<TurnReason>,
        fault: Option<TurnFault>,
        now: &Now<'_>,
        step: &mut Step,
    ) {
        if let Some(usage) = &self.usage {
            step.show.push(LogEvent::Usage(Box::new(usage.clone())));
        }
        let effects = self.effects_ran();
        let had_effects = !effects.is_empty();
        step.show.push(LogEvent::End(Box::new(TurnEnd {
            status,
            reason,
            fault,
            effects,
            at: Some(now.at),
        })));
        step.write.push(TurnChange::EndTurn(EndTurn {
            status,
            reason,
            usage: self.usage.clone(),
            has_tool_calls: self.calls_total > 0,
            tool_count: self.calls_total,
            had_effects,
            remembered: self.remembered(status, reason),
            erase_after: match self.setup.record {
                RecordPolicy::Full => None,
                RecordPolicy::Minimal if self.holds_results() => Some(now.at.after(HELD_KEPT)),
                RecordPolicy::Minimal => Some(now.at.after(MINIMAL_KEPT)),
            },
            at: now.at,
        }));
        self.phase = Phase::Ended;
    }

    /// Whether calls were handed over whose answers belong beside results of ours, or ours that may yet be approved.
    fn holds_results(&self) -> bool {
        let handed = |call: &Call| match &call.state {
            CallState::Ended(end) => call.runs == CallRunner::Client && end.reason.is_none(),
            CallState::Held => true,
            CallState::Pending { .. }
            | CallState::Running { .. }
            | CallState::Waiting { .. }
            | CallState::LookingUp { .. }
            | CallState::AwaitingCallback
            | CallState::Detached { .. } => false,
        };
        self.calls().any(handed) && self.calls().any(|call| call.runs == CallRunner::Server)
    }

    /// A limit was reached: an ordinary end, which chat knows as `length`.
    pub(super) fn end_by_limit(&mut self, reason: TurnReason, now: &Now<'_>, step: &mut Step) {
        self.show_start(None, None, step);
        step.show.push(LogEvent::Finish {
            choice: 0,
            reason: Finish::Length,
        });
        self.end(TurnStatus::Incomplete, Some(reason), None, now, step);
    }

    pub(super) fn end_cancelled(&mut self, reason: TurnReason, now: &Now<'_>, step: &mut Step) {
        let fault = TurnFault::new(FaultClass::Cancelled, "the request was stopped");
        self.end(TurnStatus::Cancelled, Some(reason), Some(fault), now, step);
    }

    /// Calls that may have changed the world: dispatched, and of another class than `read`.
    fn effects_ran(&self) -> Vec<EffectRan> {
        self.calls()
            .filter(|call| call.effect() != EffectClass::Read)
            .filter_map(|call| {
                let status = match &call.state {
                    CallState::Running { .. }
                    | CallState::AwaitingCallback
                    | CallState::Detached { .. } => CallStatus::Processing,
                    CallState::Pending { .. }
                    | CallState::Waiting { .. }
                    | CallState::LookingUp { .. }
                        if call.acted =>
                    {
                        CallStatus::Processing
                    }
                    CallState::Ended(end) if call.acted => end.status(),
                    CallState::Waiting { .. }
                    | CallState::LookingUp { .. }
                    | CallState::Ended(_)
                    | CallState::Held
                    | CallState::Pending { .. } => return None,
                };
                Some(EffectRan {
                    id: call.id,
                    name: call.name.clone(),
                    status,
                })
            })
            .collect()
    }

    /// Keeps what came of an answer that did not come to its end.
    pub(super) fn keep_partial(
        &mut self,
        n: u32,
        answer: &ModelAnswer,
        now: &Now<'_>,
        step: &mut Step,
    ) {
        // Its calls never run, so they are no part of the record.
        let origin = self.origin_of(n);
        let blocks = answer.blocks(origin.format, &[]);
        if blocks.is_empty() {
            return;
        }
        let round = self.round_number();
        step.write.push(TurnChange::AddMessage(NewMessage {
            round,
            seq: 0,
            role: Role::Assistant,
            blocks,
            origin: Some(origin),
            at: now.at,
        }));
    }

    /// Stop: no new round and nothing new dispatched; a running `read` is aborted, a running
    /// call of another class may end.
    pub(super) fn stop(&mut self, reason: TurnReason, now: &mut Now<'_>, step: &mut Step) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(reason);
        match self.phase {
            Phase::Asking { .. } => {
                self.abort_ask(CallReason::Cancelled, now, step);
                self.end_cancelled(reason, now, step);
            }
            Phase::WaitingToAsk { .. } => self.end_cancelled(reason, now, step),
            Phase::RunningTools => {
                step.write.push(TurnChange::NoteStop { reason, at: now.at });
                self.stop_calls(now, step);
                self.go_on(now, step);
            }
            Phase::Ended => {}
        }
    }

    fn stop_calls(&mut self, now: &Now<'_>, step: &mut Step) {
        const SHOWN: &str = "The request was stopped.";
        for at in self.open_calls() {
            let Some(call) = self.find(at) else {
                continue;
            };
            let effect = call.effect();
            match call.state {
                CallState::Pending { .. } | CallState::Waiting { .. } | CallState::Held => {}
                CallState::Running { n, .. } if effect == EffectClass::Read => {
                    close_attempt(at, n, AttemptOutcome::Cancelled, now, step);
                    step.then.push(Effect::AbortCall { call: at });
                }
                // What was started outside is not undone.
                CallState::AwaitingCallback => {
                    self.detach(at, now, step);
                    continue;
                }
                CallState::Running { .. }
                | CallState::LookingUp { .. }
                | CallState::Detached { .. }
                | CallState::Ended(_) => continue,
            }
            let end = call.failed(CallReason::Cancelled, SHOWN);
            self.finish_call(at, end, now, step);
        }
    }

    pub(super) fn on_deadline(&mut self, now: &mut Now<'_>, step: &mut Step) {
        const SHOWN: &str = "The request's time was up.";
        self.abort_ask(CallReason::Deadline, now, step);
        for at in self.open_calls() {
            let Some(call) = self.find_mut(at) else {
                continue;
            };
            let effect = call.effect();
            let end = match call.state {
                CallState::Running { n, .. } => {
                    call.acted = true;
                    call.unsure = true;
                    close_attempt(at, n, AttemptOutcome::Cancelled, now, step);
                    step.then.push(Effect::AbortCall { call: at });
                    if call.job_completion().is_some() {
                        self.leave_to_callback(at, now, step);
                        continue;
                    }
                    match effect {
                        EffectClass::Read | EffectClass::Idempotent => {
                            call.failed(CallReason::Deadline, SHOWN)
                        }
                        EffectClass::Queryable | EffectClass::Once => outcome_unknown(),
                    }
                }
                CallState::LookingUp { .. } => {
                    step.then.push(Effect::AbortCall { call: at });
                    if call.job_completion().is_some() {
                        self.leave_to_callback(at, now, step);
                        continue;
                    }
                    outcome_unknown()
                }
                CallState::Pending { .. } | CallState::Waiting { .. } | CallState::Held => {
                    call.failed(CallReason::Deadline, SHOWN)
                }
                CallState::AwaitingCallback => {
                    self.detach(at, now, step);
                    continue;
                }
                CallState::Detached { .. } | CallState::Ended(_) => continue,
            };
            self.finish_call(at, end, now, step);
        }
        if let Some(reason) = self.stopping {
            self.end_cancelled(reason, now, step);
            return;
        }
        let fault = TurnFault::new(FaultClass::Deadline, "the request took longer than it may");
        self.end(
            TurnStatus::Incomplete,
            Some(TurnReason::Deadline),
            Some(fault),
            now,
            step,
        );
    }

    /// The process ends. A streamed answer cannot be continued by another; everything else can.
    pub(super) fn on_drained(&mut self, now: &Now<'_>, step: &mut Step) {
        if self.setup.streamed && matches!(self.phase, Phase::Asking { .. }) {
            self.abort_ask(CallReason::Interrupted, now, step);
            self.end_interrupted(now, step);
        } else {
            step.then.push(Effect::HandOver);
        }
    }

    pub(super) fn end_interrupted(&mut self, now: &Now<'_>, step: &mut Step) {
        let fault = TurnFault::new(
            FaultClass::Interrupted,
            "the server was restarted while it answered",
        );
        self.end(
            TurnStatus::Incomplete,
            Some(TurnReason::Interrupted),
            Some(fault),
            now,
            step,
        );
    }

    fn open_calls(&self) -> Vec<CallRef> {
        self.calls()
            .filter(|call| !call.is_ended())
            .map(|call| call.at)
            .collect()
    }
}
