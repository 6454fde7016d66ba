//! Running calls: slots, attempts, look-ups, and what follows an attempt's end.

use std::time::Duration;

use super::{Call, CallState, Effect, Now, Step, Timer, Turn, failed};
use crate::arguments::ValidArgs;
use crate::call::{CallEnd, CallReason, CallRunner};
use crate::change::{AttemptOutcome, CloseAttempt, OpenAttempt, TurnChange};
use crate::effect_words;
use crate::event::LogEvent;
use crate::id::CallRef;
use crate::limits;
use crate::tool::{EffectClass, LookUp, ToolOutcome, ToolOutput};
use crate::turn_status::TurnReason;

impl Turn {
    /// Asks for slots as far as the turn may run calls in parallel, or, when all calls have
    /// ended, goes to the next round.
    pub(super) fn go_on(&mut self, now: &mut Now<'_>, step: &mut Step) {
        let parallel = usize::try_from(self.setup.limits.calls_parallel_max).unwrap_or(usize::MAX);
        let calls = match self.rounds.last_mut() {
            Some(round) => &mut round.calls,
            None => &mut self.answered,
        };
        let active = calls
            .iter()
            .filter(|call| {
                matches!(
                    call.state,
                    CallState::Pending { asked: true, .. }
                        | CallState::Running { .. }
                        | CallState::Waiting { .. }
                        | CallState::LookingUp { .. }
                )
            })
            .count();
        let mut free = parallel.saturating_sub(active);
        for call in calls.iter_mut() {
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
        let is_over = |call: &Call| call.is_ended() || matches!(call.state, CallState::Held);
        if calls.iter().all(is_over) {
            self.after_calls(now, step);
        }
    }

    fn after_calls(&mut self, now: &mut Now<'_>, step: &mut Step) {
        if let Some(reason) = self.stopping {
            self.end_cancelled(reason, now, step);
            return;
        }
        if self.holds_calls() {
            self.hand_over(now, step);
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
        let CallState::Pending {
            args,
            n,
            asked: true,
        } = &call.state
        else {
            return;
        };
        let (args, n) = (args.clone(), *n);
        call.state = CallState::Running { args, n };
        let name = call.name.clone();
        // A call that is taken up again after a crash was started before it.
        if n == 1 {
            step.write.push(TurnChange::StartCall {
                call: at,
                at: now.at,
            });
            self.charge_call(at, &name, now, step);
        }
        open_attempt(at, n, now, step);
    }

    /// The call ends with an earlier answer; nothing is sent.
    pub(super) fn on_cached(
        &mut self,
        at: CallRef,
        output: &ToolOutput,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let kept_max = self.setup.limits.result_kept_bytes_max;
        let Some(call) = self.find(at) else {
            return;
        };
        let CallState::Pending { asked: true, .. } = &call.state else {
            return;
        };
        let end = CallEnd {
            cached: true,
            ..completed(call, output, kept_max)
        };
        self.end_call(at, end, now, step);
    }

    /// The call ends without having been started.
    pub(super) fn on_quota_reached(
        &mut self,
        at: CallRef,
        told: String,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let Some(call) = self.find(at) else {
            return;
        };
        let CallState::Pending { asked: true, .. } = &call.state else {
            return;
        };
        self.end_call(at, failed(CallReason::Quota, told), now, step);
    }

    pub(super) fn on_call_ended(
        &mut self,
        (at, n): (CallRef, u32),
        outcome: ToolOutcome,
        http_status: Option<u16>,
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
            ToolOutcome::Answered(_) | ToolOutcome::Accepted { .. } => AttemptOutcome::Ok,
            ToolOutcome::Refused { .. }
            | ToolOutcome::NotStarted { .. }
            | ToolOutcome::Unavailable { .. }
            | ToolOutcome::Unclear { .. }
            | ToolOutcome::Gateway { .. }
            | ToolOutcome::Unsendable { .. }
            | ToolOutcome::NotSent { .. }
            | ToolOutcome::NotAllowed { .. }
            | ToolOutcome::Reset { .. }
            | ToolOutcome::TimedOut
            | ToolOutcome::Panicked
            | ToolOutcome::Aborted => AttemptOutcome::Failed(outcome.as_str().to_owned()),
        };
        close_answered_attempt(at, n, (word, http_status), now, step);
        let Some(call) = self.find_mut(at) else {
            return;
        };
        call.acted |= !ToolOutcome::is_unsent(outcome.as_str());
        call.unsure |= ToolOutcome::is_unsure(outcome.as_str());
        match next_for(call, n, outcome, kept_max) {
            Next::End(end) => self.end_call(at, end, now, step),
            Next::Again(after) if self.stopping.is_none() => {
                self.wait_for_attempt(at, args, n + 1, after, step);
            }
            Next::Again(_) => {
                let shown = "The request was stopped before this call could be tried again.";
                let end = self
                    .find(at)
                    .map(|call| call.failed(CallReason::Cancelled, shown));
                if let Some(end) = end {
                    self.end_call(at, end, now, step);
                }
            }
            Next::LookUp => self.look_up(at, args, n, step),
            Next::Await { external_id } => self.await_callback(at, external_id, now, step),
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
            call.unsure = false;
        }
        match found {
            LookUp::Happened(output) if call.job_completion().is_some() => {
                call.unsure = false;
                match call.job_found(&output) {
                    Some(external_id) => self.await_callback(at, external_id, now, step),
                    None => self.end_call(at, outcome_unknown(), now, step),
                }
            }
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
            // If the tool has the job, it calls back.
            LookUp::Unknown if call.job_completion().is_some() => {
                self.await_callback(at, None, now, step);
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
        // A call that is held was not shown yet.
        let was_shown = !matches!(call.state, CallState::Held);
        call.state = CallState::Ended(end.clone());
        if was_shown {
            call.show_end(&end, step);
        }
        step.write.push(TurnChange::EndCall {
            call: at,
            end,
            at: now.at,
        });
    }
}

impl Call {
    /// Shows the end of a call of ours, and frees its slot.
    pub(super) fn show_end(&self, end: &CallEnd, step: &mut Step) {
        if self.runs == CallRunner::Server {
            step.show.push(LogEvent::CallEnded {
                call: self.at,
                id: self.id,
                end: Box::new(end.clone()),
            });
            step.then.push(Effect::ReleaseSlot { call: self.at });
        }
    }
}

enum Next {
    End(CallEnd),
    Again(Duration),
    LookUp,
    /// The tool has the job, or may have it.
    Await {
        external_id: Option<String>,
    },
}

/// The next step after an attempt's end, by the tool's effect class.
fn next_for(call: &Call, n: u32, outcome: ToolOutcome, kept_max: usize) -> Next {
    let policy = call.tool.as_ref().map(|tool| &tool.policy);
    let again = policy
        .filter(|policy| n < policy.attempts_max)
        .map(|policy| policy.backoff_before(n + 1));
    let unknown_of_once = || {
        if call.may_hear_of_job() {
            Next::Await { external_id: None }
        } else {
            Next::End(outcome_unknown())
        }
    };
    let ambiguous = |reason: CallReason, shown: &str, again: Option<Duration>| match call.effect() {
        EffectClass::Read | EffectClass::Idempotent => match again {
            Some(wait) => Next::Again(wait),
            None => Next::End(call.failed(reason, shown)),
        },
        EffectClass::Queryable => Next::LookUp,
        EffectClass::Once => unknown_of_once(),
    };
    // The wait before the next attempt of a call that may be made again whatever the last one did: no shorter than the
    // tool asks for, as far as that is within our bound.
    let asked_back = |retry_after: Option<Duration>| match call.effect() {
        EffectClass::Read | EffectClass::Idempotent => {
            let asked = retry_after.unwrap_or_default();
            again.map(|wait| wait.max(asked.min(limits::TOOL_BACKOFF_MAX)))
        }
        EffectClass::Queryable | EffectClass::Once => None,
    };
    // Whatever this attempt came to, one before it may have been done.
    let unsent = |reason: CallReason, message: &str| {
        let reason = if call.unsure && call.effect() == EffectClass::Idempotent {
            CallReason::OutcomeUnknown
        } else {
            reason
        };
        Next::End(call.failed(reason, message))
    };
    match outcome {
        ToolOutcome::Answered(output) => Next::End(completed(call, &output, kept_max)),
        ToolOutcome::Accepted { external_id } => Next::Await { external_id },
        ToolOutcome::Refused { message } => Next::End(call.failed(CallReason::ToolError, &message)),
        ToolOutcome::NotStarted { message } => match again {
            Some(wait) => Next::Again(wait),
            None => unsent(CallReason::ToolError, &message),
        },
        // Its message says of the effect what there is to say.
        ToolOutcome::Unclear { message } => Next::End(failed(CallReason::ToolError, message)),
        ToolOutcome::Unsendable { message } => unsent(CallReason::NotSent, &message),
        ToolOutcome::Unavailable {
            message,
            retry_after,
        } => match asked_back(retry_after) {
            Some(wait) => Next::Again(wait),
            // The tool says when to come back to whoever made the call: the model reads it.
            None => Next::End(call.failed(CallReason::ToolError, &message)),
        },
        ToolOutcome::Gateway {
            message,
            retry_after,
        } => match (asked_back(retry_after), call.effect()) {
            (Some(wait), _) => Next::Again(wait),
            (None, EffectClass::Read | EffectClass::Idempotent) => {
                Next::End(failed(CallReason::ToolError, message))
            }
            (None, EffectClass::Queryable) => Next::LookUp,
            (None, EffectClass::Once) if call.may_hear_of_job() => unknown_of_once(),
            (None, EffectClass::Once) => Next::End(failed(CallReason::OutcomeUnknown, message)),
        },
        ToolOutcome::NotSent { message } => match again {
            Some(wait) => Next::Again(wait),
            None => unsent(CallReason::NotSent, &message),
        },
        ToolOutcome::NotAllowed { message } => unsent(CallReason::TargetNotAllowed, &message),
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
    output.end(shown_max, kept_max)
}

pub(super) fn outcome_unknown() -> CallEnd {
    failed(
        CallReason::OutcomeUnknown,
        effect_words::OUTCOME_UNKNOWN.to_owned(),
    )
}

pub(super) fn open_attempt(at: CallRef, n: u32, now: &Now<'_>, step: &mut Step) {
    step.write.push(TurnChange::OpenAttempt(OpenAttempt {
        round: at.round,
        position: Some(at.position),
        n,
        upstream: None,
        at: now.at,
    }));
    step.then.push(Effect::Dispatch { call: at, n });
}

/// Closes an attempt of a call that got no answer.
pub(super) fn close_attempt(
    at: CallRef,
    n: u32,
    outcome: AttemptOutcome,
    now: &Now<'_>,
    step: &mut Step,
) {
    close_answered_attempt(at, n, (outcome, None), now, step);
}

fn close_answered_attempt(
    at: CallRef,
    n: u32,
    (outcome, http_status): (AttemptOutcome, Option<u16>),
    now: &Now<'_>,
    step: &mut Step,
) {
    step.write.push(TurnChange::CloseAttempt(CloseAttempt {
        round: at.round,
        position: Some(at.position),
        n,
        outcome,
        http_status,
        usage: None,
        at: now.at,
    }));
}
