//! Calls that run only once they are approved: asking for it at a turn's end, and acting on what a request answers.

use super::calls::{callback_token, new_call};
use super::{Call, CallState, Now, Step, Turn, failed};
use crate::approval::{ANSWERED_ROUND, AnsweredCall, ApprovalVerdict};
use crate::arguments;
use crate::call::{CallEnd, CallReason, CallRunner};
use crate::change::TurnChange;
use crate::event::LogEvent;
use crate::id::{CallId, CallRef};
use crate::json::Literal;
use crate::request::{Block, Message, ResultBlock};
use crate::time::Timestamp;
use crate::tool::EffectClass;
use crate::turn_policy::{HELD_KEPT, RecordPolicy};

/// Text for the model in place of the result of a call that nobody approved.
pub const NOT_APPROVED: &str = "Nobody approved this call, so it was not run.";
/// Text for the model in place of the result of a call that was approved and runs now.
pub const APPROVED_AND_RUNNING: &str =
    "This call was approved and is running; its result is not known yet.";

impl Turn {
    /// Acts on the answers that the request brought, as the turn's first deed.
    pub(super) fn run_answered(&mut self, now: &mut Now<'_>, step: &mut Step) {
        self.show_start(None, None, step);
        let answered = std::mem::take(&mut self.setup.answered);
        for (answer, position) in answered.iter().zip(0u32..) {
            let at = CallRef {
                round: ANSWERED_ROUND,
                position,
            };
            let call = self.call_of_answer(answer, at, now);
            self.calls_total = self.calls_total.saturating_add(1);
            let arguments = answer.arguments.clone();
            let new = new_call(&call, arguments, now);
            step.write.push(TurnChange::AddCall(Box::new(new)));
            step.show.push(LogEvent::CallStarted {
                call: at,
                id: call.id,
                name: call.name.clone(),
                arguments: Literal::from_text(&answer.arguments),
                approves: call.approves,
            });
            if let CallState::Ended(end) = &call.state {
                step.show.push(LogEvent::CallEnded {
                    call: at,
                    id: call.id,
                    end: Box::new(end.clone()),
                });
            }
            self.answered.push(call);
        }
        self.setup.answered = answered;
        self.go_on(now, step);
    }

    fn call_of_answer(&self, answer: &AnsweredCall, at: CallRef, now: &mut Now<'_>) -> Call {
        let state = match may_run(answer) {
            Ok(args) => CallState::Pending {
                args,
                n: 1,
                asked: false,
            },
            Err(end) => CallState::Ended(end),
        };
        let given = match &state {
            CallState::Pending { args, .. } if answer.effect == Some(EffectClass::Idempotent) => {
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
        let id = CallId((now.fresh_id)());
        Call {
            at,
            id,
            runs: CallRunner::Server,
            name: answer.tool_name.clone(),
            sent_id: answer.sent_id.clone(),
            approves: Some(answer.asked),
            idempotency_key: format!("tw_{}", id.plain()),
            callback_token: callback_token(answer.tool.as_deref(), now),
            effect: answer.effect,
            tool: answer.tool.clone(),
            given,
            acted: false,
            unsure: false,
            state,
        }
    }

    /// The time until which an approval may be given that is asked for now.
    pub(super) fn approval_until(&self, now: &Now<'_>) -> Timestamp {
        let wait = self.setup.limits.approval_max;
        now.at.after(match self.setup.record {
            RecordPolicy::Full => wait,
            // The call's arguments are erased then.
            RecordPolicy::Minimal => wait.min(HELD_KEPT),
        })
    }

    /// Those of a request's messages that stand for results of calls that this turn ran by an approval, with these
    /// results, by their places.
    pub fn settled(&self, messages: &[&Message]) -> Vec<(usize, Message)> {
        if self.answered.is_empty() {
            return Vec::new();
        }
        let places = messages.iter().enumerate();
        places
            .filter_map(|(at, message)| {
                let asked = message.awaits?;
                let mut answered = self.answered.iter();
                let call = answered.find(|call| call.approves == Some(asked))?;
                Some((at, with_result(message, call.result_text()?)))
            })
            .collect()
    }
}

/// The message with what the model is shown of the call whose result it is.
pub fn with_result(message: &Message, shown: &str) -> Message {
    let call_id = message.result().map(|result| result.call_id.clone());
    let said = Literal::from_text(shown);
    let result = ResultBlock::of_text(call_id.unwrap_or_default(), said);
    Message {
        awaits: message.awaits,
        ..Message::made(message.role, vec![Block::Result(result)])
    }
}

/// The arguments of a call that was approved, or the end of one that does not run.
fn may_run(answer: &AnsweredCall) -> Result<arguments::ValidArgs, CallEnd> {
    match &answer.verdict {
        ApprovalVerdict::Approved => {}
        ApprovalVerdict::Denied { reason: None } => {
            let shown = "This call was denied, so it was not run.".to_owned();
            return Err(failed(CallReason::Denied, shown));
        }
        ApprovalVerdict::Denied {
            reason: Some(reason),
        } => {
            let shown = format!("This call was denied, so it was not run: {reason}");
            return Err(failed(CallReason::Denied, shown));
        }
        ApprovalVerdict::Expired => {
            let shown = "This call was approved too late, so it was not run.".to_owned();
            return Err(failed(CallReason::ApprovalExpired, shown));
        }
    }
    if answer.tool.is_none() {
        let shown = "This tool is no longer available.".to_owned();
        return Err(failed(CallReason::Denied, shown));
    }
    arguments::read_stored(&answer.arguments)
        .map_err(|error| failed(CallReason::InvalidArguments, error.0))
}
