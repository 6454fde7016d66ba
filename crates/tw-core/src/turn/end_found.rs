//! Calls that somebody else ended: what the record says of them counts, and what the machine decided is dropped.

use super::attempts::close_attempt;
use super::{CallState, Effect, Now, Step, Timer, Turn};
use crate::call::CallEnd;
use crate::change::{AttemptOutcome, AwaitedCallback, ChargedUse, TurnChange};
use crate::event::{LogEvent, TurnEnd};
use crate::id::CallRef;

/// The parts of a refused step that were about one call.
#[derive(Clone, Copy, Debug, Default)]
struct Withdrawn {
    /// An attempt would have started.
    start: bool,
    /// The call would have ended, or been handed over.
    end: bool,
}

impl Turn {
    /// Takes the end that the record holds of a call, and takes out of `step` what was refused for it.
    pub(super) fn on_end_found(
        &mut self,
        at: CallRef,
        end: CallEnd,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let withdrawn = withdraw(at, step);
        let Some(call) = self.find_mut(at) else {
            // A call of an answer that never became a round: its row was all that there is of it.
            return;
        };
        match call.state {
            // What this turn wrote itself is not news, and what it went on without stays as the model was told.
            CallState::Ended(_) | CallState::Detached { .. } if !withdrawn.end => return,
            CallState::Ended(_) | CallState::Detached { .. } => {
                call.acted |= end.says_done();
                call.state = CallState::Ended(end.clone());
                show_instead(at, &end, step);
                self.end_anew(now, step);
                return;
            }
            // The client answers it itself, or whoever approves it.
            CallState::Held => return,
            CallState::Running { n, .. } => {
                if !withdrawn.start {
                    call.acted = true;
                    close_attempt(at, n, AttemptOutcome::Cancelled, now, step);
                    step.then.push(Effect::AbortCall { call: at });
                }
            }
            CallState::LookingUp { .. } => step.then.push(Effect::AbortCall { call: at }),
            CallState::Pending { .. } | CallState::Waiting { .. } | CallState::AwaitingCallback => {
            }
        }
        call.acted |= end.says_done();
        call.state = CallState::Ended(end.clone());
        call.show_end(&end, step);
        self.go_on(now, step);
    }

    /// Ends the turn again, if the step ends it, since what that says of its calls has changed.
    fn end_anew(&mut self, now: &Now<'_>, step: &mut Step) {
        let Some(TurnEnd {
            status,
            reason,
            fault,
            effects: _,
            at: _,
        }) = take_end(step)
        else {
            return;
        };
        self.end(status, reason, fault, now, step);
    }
}

/// Takes out of a step what it writes of a call's starts and its end, and what it starts for it.
fn withdraw(at: CallRef, step: &mut Step) -> Withdrawn {
    let mut withdrawn = Withdrawn::default();
    step.write.retain(|change| match change {
        TurnChange::StartCall { call, .. } if *call == at => {
            withdrawn.start = true;
            false
        }
        TurnChange::OpenAttempt(open)
            if open.round == at.round && open.position == Some(at.position) =>
        {
            withdrawn.start = true;
            false
        }
        TurnChange::AwaitCallback(AwaitedCallback { call, .. })
        | TurnChange::DetachCall { call, .. }
        | TurnChange::EndCall { call, .. }
            if *call == at =>
        {
            withdrawn.end = true;
            false
        }
        TurnChange::HandOverCall(handed) if handed.call == at => {
            withdrawn.end = true;
            false
        }
        TurnChange::Charge(charge) if charge.of == ChargedUse::Call(at) => false,
        TurnChange::Charge(_)
        | TurnChange::CountTokens { .. }
        | TurnChange::StartCall { .. }
        | TurnChange::OpenAttempt(_)
        | TurnChange::EndCall { .. }
        | TurnChange::AwaitCallback(_)
        | TurnChange::DetachCall { .. }
        | TurnChange::HandOverCall(_)
        | TurnChange::AskApproval { .. }
        | TurnChange::CloseAttempt(_)
        | TurnChange::AddMessage(_)
        | TurnChange::AddCall(_)
        | TurnChange::EndOutsideCall { .. }
        | TurnChange::TakeQueuedRow(_)
        | TurnChange::AppendEvents(_)
        | TurnChange::NoteStop { .. }
        | TurnChange::NoteResumed { .. }
        | TurnChange::EndTurn(_) => true,
    });
    step.then.retain(|effect| match effect {
        Effect::Dispatch { call, .. }
        | Effect::LookUp { call, .. }
        | Effect::SetTimer {
            timer: Timer::CallAgain { call, .. } | Timer::CallbackWait { call },
            ..
        } => *call != at,
        Effect::Ask { .. }
        | Effect::AbortAsk
        | Effect::RequestSlot { .. }
        | Effect::ReleaseSlot { .. }
        | Effect::AbortCall { .. }
        | Effect::SetTimer {
            timer: Timer::Deadline | Timer::AskAgain { .. },
            ..
        }
        | Effect::HandOver => true,
    });
    withdrawn
}

/// Puts the end of the record where the step shows another one.
fn show_instead(at: CallRef, end: &CallEnd, step: &mut Step) {
    for event in &mut step.show {
        if let LogEvent::CallEnded { call, id, .. } | LogEvent::CallDetached { call, id, .. } =
            event
            && *call == at
        {
            *event = LogEvent::CallEnded {
                call: at,
                id: *id,
                end: Box::new(end.clone()),
            };
        }
    }
}

/// Takes the turn's end out of a step; `None` for a step that does not end it.
fn take_end(step: &mut Step) -> Option<TurnEnd> {
    step.write
        .retain(|change| !matches!(change, TurnChange::EndTurn(_)));
    let mut ended = None;
    step.show.retain(|event| match event {
        LogEvent::End(end) => {
            ended = Some(TurnEnd::clone(end));
            false
        }
        // The turn's usage is shown with its end.
        LogEvent::Usage(_) => false,
        LogEvent::Start { .. }
        | LogEvent::Round { .. }
        | LogEvent::Delta(_)
        | LogEvent::BlockEnd(_)
        | LogEvent::Native { .. }
        | LogEvent::ClientCall(_)
        | LogEvent::Extra { .. }
        | LogEvent::Progress { .. }
        | LogEvent::CallStarted { .. }
        | LogEvent::ApprovalAsked { .. }
        | LogEvent::CallEnded { .. }
        | LogEvent::CallDetached { .. }
        | LogEvent::Finish { .. } => true,
    });
    ended
}
