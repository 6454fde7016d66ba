//! A turn rebuilt from its record, after the process that drove it ended.
//!
//! An attempt that is found open counts as used. A streamed model request that is found open
//! counts as shown, so the turn ends; an unstreamed one is asked again.

use std::sync::Arc;

use super::attempts::{close_attempt, outcome_unknown};
use super::too_long::TOO_LONG;
use super::{Call, CallState, Effect, Now, Phase, Round, Step, Turn, TurnSetup, failed};
use crate::approval::{ANSWERED_ROUND, ApprovalState};
use crate::arguments;
use crate::call::{CallEnd, CallReason, CallRunner, CallStatus};
use crate::change::{AttemptOutcome, CloseAttempt, NewMessage, TurnChange};
use crate::event::LogEvent;
use crate::fault::{FaultClass, TurnFault};
use crate::id::{CallId, CallRef};
use crate::json::LiteralBuf;
use crate::model::TokenUsage;
use crate::native::AnswerOrigin;
use crate::request::{Block, Role};
use crate::tool::{EffectClass, Tool, ToolOutcome};
use crate::turn_status::{TurnReason, TurnStatus};

/// The record of a turn that nobody drives, as the store holds it.
#[derive(Clone, Debug, Default)]
pub struct FoundTurn {
    /// Assistant messages by round, oldest first.
    pub rounds: Vec<FoundRound>,
    /// Calls in order of round and position.
    pub calls: Vec<FoundCall>,
    /// Attempts in order of round, position and number.
    pub attempts: Vec<FoundAttempt>,
    pub events: Vec<LogEvent>,
    /// The turn was being stopped.
    pub stopping: Option<TurnReason>,
}

/// An assistant message of the record.
#[derive(Clone, Debug)]
pub struct FoundRound {
    pub round: u32,
    pub blocks: Vec<Block>,
    pub origin: Option<Arc<AnswerOrigin>>,
}

#[derive(Clone, Debug)]
pub struct FoundCall {
    pub call: CallRef,
    pub id: CallId,
    pub runs: CallRunner,
    pub tool_name: String,
    pub sent_id: String,
    /// The tool's effect when the call was made.
    pub effect: Option<EffectClass>,
    pub arguments: String,
    pub idempotency_key: String,
    pub callback_token: Option<String>,
    /// Its request was taken, and a callback is to end it.
    pub awaits_callback: bool,
    /// What the model was told when the turn went on without it.
    pub told: Option<String>,
    pub approval: Option<ApprovalState>,
    pub approves: Option<CallId>,
    pub status: CallStatus,
    /// Set for a call with a final status.
    pub end: Option<CallEnd>,
}

#[derive(Clone, Debug)]
pub struct FoundAttempt {
    pub round: u32,
    /// `None` for a model request.
    pub position: Option<u32>,
    pub n: u32,
    pub upstream: Option<String>,
    /// The outcome's word; `None` while open.
    pub outcome: Option<String>,
    pub usage: Option<TokenUsage>,
}

impl Turn {
    /// Rebuilds a turn; `step` says what to do first.
    pub fn recover(
        setup: TurnSetup,
        found: &FoundTurn,
        now: &mut Now<'_>,
        step: &mut Step,
    ) -> Self {
        let mut turn = Self::bare(setup);
        turn.started = !found.events.is_empty();
        turn.stopping = found.stopping;
        turn.restoring &= !found
            .attempts
            .iter()
            .any(|attempt| attempt.outcome.as_deref() == Some(TOO_LONG));
        for attempt in &found.attempts {
            turn.count(attempt.usage.as_ref());
        }
        let asked = found
            .attempts
            .iter()
            .rfind(|attempt| attempt.position.is_none());
        turn.recall_upstream(found);
        let answered = found.calls.iter().filter(is_of_answer);
        turn.answered = answered
            .map(|call| turn.found_call(call, &found.attempts))
            .collect();
        let Some(asked) = asked else {
            if turn.answered.is_empty() {
                // The accepting transaction opens the first attempt, so this record is damaged.
                turn.end_internal(now, step);
            } else {
                turn.resume_calls(found, now, step);
            }
            return turn;
        };
        let whole = |round: u32| {
            found.attempts.iter().any(|attempt| {
                attempt.round == round
                    && attempt.position.is_none()
                    && attempt.outcome.as_deref() == Some(AttemptOutcome::Ok.as_str())
            })
        };
        for made in found.rounds.iter().filter(|made| whole(made.round)) {
            let calls = found.calls.iter();
            let calls = calls.filter(|call| call.call.round == made.round);
            let calls = calls
                .map(|call| turn.found_call(call, &found.attempts))
                .collect();
            turn.rounds.push(Round {
                blocks: made.blocks.clone(),
                origin: made.origin.clone(),
                calls,
            });
        }
        for call in &found.calls {
            if !is_of_answer(&call) && !whole(call.call.round) && call.end.is_none() {
                turn.drop_found(call.call, now, step);
            }
        }
        if whole(asked.round) {
            turn.resume_calls(found, now, step);
        } else {
            turn.resume_asking(asked, found, now, step);
        }
        turn
    }

    fn found_call(&mut self, found: &FoundCall, attempts: &[FoundAttempt]) -> Call {
        self.calls_total = self.calls_total.saturating_add(1);
        if found
            .end
            .as_ref()
            .is_some_and(|end| end.reason == Some(CallReason::InvalidArguments))
        {
            *self.invalid.entry(found.tool_name.clone()).or_default() += 1;
        }
        let tool = match found.approves {
            Some(asked) => self.answered_tool(asked),
            None => self.registered(&found.tool_name),
        };
        let reason = found.end.as_ref().and_then(|end| end.reason);
        let of_call = attempts.iter().filter(|attempt| {
            attempt.round == found.call.round && attempt.position == Some(found.call.position)
        });
        let mut words = of_call.map(|attempt| attempt.outcome.as_deref());
        let was_sent = words
            .clone()
            .any(|word| word.is_none_or(|word| !ToolOutcome::is_unsent(word)));
        let acted = (was_sent && reason != Some(CallReason::NotSent))
            || found.end.as_ref().is_some_and(CallEnd::says_done);
        let unsure = words.any(|word| word.is_none_or(ToolOutcome::is_unsure));
        let arguments = arguments::read_stored(arguments_or_empty(&found.arguments));
        let given = match &arguments {
            Ok(args) if found.effect == Some(EffectClass::Idempotent) => Some(args.clone()),
            Ok(_) | Err(_) => None,
        };
        let state = match (&found.end, arguments) {
            // What the model was told stays, whatever became of the call since.
            _ if found.told.is_some() => CallState::Detached {
                told: found.told.clone().unwrap_or_default(),
            },
            (None, _) if found.awaits_callback => CallState::AwaitingCallback,
            (Some(end), _) => CallState::Ended(end.clone()),
            (None, _) if found.runs == CallRunner::Client || found.approval.is_some() => {
                CallState::Held
            }
            (None, Ok(args)) => CallState::Pending {
                args,
                n: 1,
                asked: false,
            },
            (None, Err(error)) => CallState::Ended(failed(CallReason::InvalidArguments, error.0)),
        };
        Call {
            at: found.call,
            id: found.id,
            runs: found.runs,
            name: found.tool_name.clone(),
            sent_id: found.sent_id.clone(),
            approves: found.approves,
            idempotency_key: found.idempotency_key.clone(),
            callback_token: found.callback_token.clone(),
            effect: found.effect,
            tool,
            given,
            acted,
            unsure,
            state,
        }
    }

    fn answered_tool(&self, asked: CallId) -> Option<Arc<Tool>> {
        let mut answered = self.setup.answered.iter();
        answered.find(|call| call.asked == asked)?.tool.clone()
    }

    fn registered(&self, name: &str) -> Option<Arc<Tool>> {
        let mut ours = self.setup.offer.ours();
        ours.find(|tool| tool.name == name).cloned()
    }

    fn resume_asking(
        &mut self,
        asked: &FoundAttempt,
        found: &FoundTurn,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        self.phase = Phase::WaitingToAsk { n: asked.n + 1 };
        let was_open = asked.outcome.is_none();
        if was_open {
            step.write.push(TurnChange::CloseAttempt(CloseAttempt {
                round: asked.round,
                position: None,
                n: asked.n,
                outcome: AttemptOutcome::Interrupted,
                http_status: None,
                usage: None,
                at: now.at,
            }));
        }
        if let Some(reason) = self.stopping {
            self.end_cancelled(reason, now, step);
        } else if self.is_late(now) {
            self.keep_stored_text(asked.round, &found.events, now, step);
            self.on_deadline(now, step);
        } else if was_open && self.setup.streamed {
            self.keep_stored_text(asked.round, &found.events, now, step);
            self.end_interrupted(now, step);
        } else if asked.n >= self.setup.limits.model_attempts_max {
            self.end_internal(now, step);
        } else {
            self.ask(asked.n + 1, now, step);
        }
    }

    /// The text of a round that was cut off by the crash, as far as the log holds it.
    fn keep_stored_text(&self, round: u32, events: &[LogEvent], now: &Now<'_>, step: &mut Step) {
        let mut text = LiteralBuf::default();
        let mut of_this_round = false;
        for event in events {
            match event {
                LogEvent::Round { round: began, .. } => of_this_round = *began == round,
                LogEvent::Delta(delta) if of_this_round && delta.choice == 0 => {
                    if let Some(more) = &delta.text {
                        text.push(more);
                    }
                }
                LogEvent::Delta(_)
                | LogEvent::BlockEnd(_)
                | LogEvent::Native { .. }
                | LogEvent::Start { .. }
                | LogEvent::ClientCall(_)
                | LogEvent::Extra { .. }
                | LogEvent::Progress { .. }
                | LogEvent::CallStarted { .. }
                | LogEvent::ApprovalAsked { .. }
                | LogEvent::CallEnded { .. }
                | LogEvent::CallDetached { .. }
                | LogEvent::Finish { .. }
                | LogEvent::Usage(_)
                | LogEvent::End(_) => {}
            }
        }
        if !text.is_empty() {
            step.write.push(TurnChange::AddMessage(NewMessage {
                round,
                seq: 0,
                role: Role::Assistant,
                blocks: vec![Block::Text(text.to_literal())],
                origin: None,
                at: now.at,
            }));
        }
    }

    fn resume_calls(&mut self, found: &FoundTurn, now: &mut Now<'_>, step: &mut Step) {
        self.phase = Phase::RunningTools;
        let started: Vec<CallRef> = found
            .calls
            .iter()
            .filter(|call| call.status == CallStatus::Processing)
            .map(|call| call.call)
            .collect();
        for at in started {
            let last = found.attempts.iter().rfind(|attempt| {
                attempt.round == at.round && attempt.position == Some(at.position)
            });
            self.resume_call(at, last, now, step);
        }
        self.note_ends_found(found, now, step);
        self.resume_waits(step);
        self.drop_pending_without_tool(now, step);
        if self.stopping.is_some() {
            self.stop_pending(now, step);
        }
        if self.is_late(now) && self.calls().any(|call| !call.is_ended()) {
            self.on_deadline(now, step);
            // Nothing may start that the deadline would end at once.
            step.then
                .retain(|effect| !matches!(effect, Effect::LookUp { .. }));
            return;
        }
        self.go_on(now, step);
    }

    /// Closes and shows what somebody else ended while nobody drove the turn: its end came into the record alone.
    fn note_ends_found(&self, found: &FoundTurn, now: &Now<'_>, step: &mut Step) {
        let of_round = |call: &&FoundCall| {
            call.call.round == self.round_number() && call.runs == CallRunner::Server
        };
        for call in found.calls.iter().filter(of_round) {
            let Some(end) = call.end.as_ref().filter(|_| call.told.is_none()) else {
                continue;
            };
            let at = call.call;
            let open = found.attempts.iter().find(|attempt| {
                attempt.round == at.round
                    && attempt.position == Some(at.position)
                    && attempt.outcome.is_none()
            });
            if let Some(open) = open {
                close_attempt(at, open.n, AttemptOutcome::Interrupted, now, step);
            }
            let shows_end =
                |event: &LogEvent| matches!(event, LogEvent::CallEnded { call, .. } if *call == at);
            if !found.events.iter().any(shows_end) {
                step.show.push(LogEvent::CallEnded {
                    call: at,
                    id: call.id,
                    end: Box::new(end.clone()),
                });
            }
        }
    }

    fn is_late(&self, now: &Now<'_>) -> bool {
        now.at >= self.setup.deadline
    }

    fn drop_pending_without_tool(&mut self, now: &Now<'_>, step: &mut Step) {
        let pending: Vec<CallRef> = self
            .calls()
            .filter(|call| call.tool.is_none() && matches!(call.state, CallState::Pending { .. }))
            .map(|call| call.at)
            .collect();
        for at in pending {
            let shown = "This tool is no longer available.".to_owned();
            self.finish_call(at, failed(CallReason::Denied, shown), now, step);
        }
    }

    fn stop_pending(&mut self, now: &Now<'_>, step: &mut Step) {
        let pending: Vec<CallRef> = self
            .calls()
            .filter(|call| matches!(call.state, CallState::Pending { .. } | CallState::Held))
            .map(|call| call.at)
            .collect();
        self.detach_awaiting(now, step);
        for at in pending {
            let shown = "The request was stopped.".to_owned();
            self.finish_call(at, failed(CallReason::Cancelled, shown), now, step);
        }
    }

    fn resume_call(
        &mut self,
        at: CallRef,
        last: Option<&FoundAttempt>,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let Some(call) = self.find(at) else {
            return;
        };
        let CallState::Pending { args, .. } = &call.state else {
            return;
        };
        let args = args.clone();
        let effect = call.effect();
        let attempts_max = call.tool.as_ref().map(|tool| tool.policy.attempts_max);
        let used = last.map_or(0, |attempt| attempt.n);
        if let Some(open) = last.filter(|attempt| attempt.outcome.is_none()) {
            close_attempt(at, open.n, AttemptOutcome::Interrupted, now, step);
        }
        let not_sent = last.is_some_and(|attempt| {
            matches!(attempt.outcome.as_deref(), Some("not_sent" | "not_started"))
        });
        let stopping = self.stopping.is_some();
        let asks_provider = effect == EffectClass::Queryable && attempts_max.is_some();
        if asks_provider && !not_sent {
            self.look_up(at, args, used, step);
        } else if matches!(effect, EffectClass::Queryable | EffectClass::Once) && !not_sent {
            if call.may_hear_of_job() {
                // It tells, if the job has started.
                self.await_callback_of(at, None, now, step);
            } else {
                self.finish_call(at, outcome_unknown(), now, step);
            }
        } else if stopping {
            let end = call.failed(CallReason::Cancelled, "The request was stopped.");
            self.finish_call(at, end, now, step);
        } else if attempts_max.is_some_and(|max| used < max) {
            // It waits for a slot like any other.
            if let Some(call) = self.find_mut(at) {
                call.state = CallState::Pending {
                    args,
                    n: used + 1,
                    asked: false,
                };
            }
        } else {
            let end = call.failed(
                CallReason::Interrupted,
                "The call was interrupted too often.",
            );
            self.finish_call(at, end, now, step);
        }
    }

    /// Fails a turn that cannot be driven on.
    pub fn end_internal(&mut self, now: &Now<'_>, step: &mut Step) {
        step.then
            .retain(|effect| !matches!(effect, Effect::Ask { .. } | Effect::Dispatch { .. }));
        let fault = TurnFault::new(
            FaultClass::Internal,
            "the request could not be finished after a restart",
        );
        self.end(
            TurnStatus::Failed,
            Some(TurnReason::Internal),
            Some(fault),
            now,
            step,
        );
    }
}

/// Whether a call acts on an answer that the request brought.
fn is_of_answer(call: &&FoundCall) -> bool {
    call.call.round == ANSWERED_ROUND
}

fn arguments_or_empty(stored: &str) -> &str {
    if stored.trim().is_empty() {
        "{}"
    } else {
        stored
    }
}
