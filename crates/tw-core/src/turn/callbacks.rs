//! Calls whose jobs end later: the turn waits for a job's end, or goes on without.

use super::{Call, CallState, Effect, Now, Step, Timer, Turn};
use crate::change::{AwaitedCallback, TurnChange};
use crate::definition::JobAnswer;
use crate::effect_words;
use crate::event::LogEvent;
use crate::id::CallRef;
use crate::tool::{CallCompletion, JobCompletion, ToolKind, ToolOutput};

impl Turn {
    /// Notes that a call's request was taken, or may have been, and goes on.
    pub(super) fn await_callback(
        &mut self,
        at: CallRef,
        external_id: Option<String>,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        self.await_callback_of(at, external_id, now, step);
        self.go_on(now, step);
    }

    /// The same, without going on.
    pub(super) fn await_callback_of(
        &mut self,
        at: CallRef,
        external_id: Option<String>,
        now: &Now<'_>,
        step: &mut Step,
    ) {
        // A turn that hands calls over has nobody who would wait with it.
        let may_wait = self.stopping.is_none() && !self.holds_calls();
        let Some(call) = self.find_mut(at) else {
            return;
        };
        let Some(rules) = call.job_completion() else {
            debug_assert!(false, "the tool has no jobs");
            return;
        };
        call.state = CallState::AwaitingCallback;
        step.write.push(TurnChange::AwaitCallback(AwaitedCallback {
            call: at,
            external_id: external_id.clone(),
            until: now.at.after(rules.deadline),
            // At the deadline at the latest.
            poll_at: rules
                .first_poll(external_id.as_deref())
                .map(|wait| now.at.after(wait.min(rules.deadline))),
            at: now.at,
        }));
        if rules.waits && may_wait {
            step.then.push(Effect::ReleaseSlot { call: at });
            self.set_wait(at, step);
        } else {
            self.detach_with(at, external_id.as_deref(), now, step);
        }
    }

    /// Leaves a call to its callback, or to the deadline of that, when the turn ends while its request is under way: the
    /// tool may have the job.
    pub(super) fn leave_to_callback(&mut self, at: CallRef, now: &Now<'_>, step: &mut Step) {
        self.await_callback_of(at, None, now, step);
        let call = self.find_mut(at);
        if call.is_some_and(|call| matches!(call.state, CallState::AwaitingCallback)) {
            self.detach(at, now, step);
        }
    }

    /// Goes on without the end of a call that the turn waits for.
    pub(super) fn detach(&mut self, at: CallRef, now: &Now<'_>, step: &mut Step) {
        self.detach_with(at, None, now, step);
    }

    fn detach_with(
        &mut self,
        at: CallRef,
        external_id: Option<&str>,
        now: &Now<'_>,
        step: &mut Step,
    ) {
        let Some(call) = self.find_mut(at) else {
            return;
        };
        let told = call.told(external_id);
        call.state = CallState::Detached { told: told.clone() };
        step.show.push(LogEvent::CallDetached {
            call: at,
            id: call.id,
            told: told.as_str().into(),
        });
        step.then.push(Effect::ReleaseSlot { call: at });
        step.write.push(TurnChange::DetachCall {
            call: at,
            told,
            at: now.at,
        });
    }

    /// Goes on without those calls that the turn waits for.
    pub(super) fn detach_awaiting(&mut self, now: &Now<'_>, step: &mut Step) {
        for at in self.awaiting() {
            self.detach(at, now, step);
        }
    }

    pub(super) fn on_callback_wait(&mut self, at: CallRef, now: &mut Now<'_>, step: &mut Step) {
        let Some(call) = self.find(at) else {
            return;
        };
        if matches!(call.state, CallState::AwaitingCallback) {
            self.detach(at, now, step);
            self.go_on(now, step);
        }
    }

    /// Waits anew for what the turn waited for before it was taken over.
    pub(super) fn resume_waits(&self, step: &mut Step) {
        for at in self.awaiting() {
            self.set_wait(at, step);
        }
    }

    fn set_wait(&self, call: CallRef, step: &mut Step) {
        let timer = Timer::CallbackWait { call };
        let waits = |effect: &Effect| matches!(effect, Effect::SetTimer { timer: set, .. } if *set == timer);
        if !step.then.iter().any(waits) {
            step.then.push(Effect::SetTimer {
                timer,
                after: self.setup.limits.callback_wait_max,
            });
        }
    }

    fn awaiting(&self) -> Vec<CallRef> {
        let awaiting = |call: &&Call| matches!(call.state, CallState::AwaitingCallback);
        self.calls().filter(awaiting).map(|call| call.at).collect()
    }
}

impl Call {
    /// The rules of a call that ends with its job; `None` for one that its answer ends.
    pub(super) fn job_completion(&self) -> Option<JobCompletion> {
        match self.tool.as_ref()?.policy.completion {
            CallCompletion::Inline => None,
            CallCompletion::Job(rules) => Some(rules),
        }
    }

    /// Whether a job that may have started, and whose id nobody knows, can still tell its end.
    pub(super) fn may_hear_of_job(&self) -> bool {
        self.job_completion()
            .is_some_and(|rules| rules.is_heard_of(None))
    }

    /// The id of the job that a look-up found, if it has one; `None` where its end could not be heard of.
    pub(super) fn job_found(&self, found: &ToolOutput) -> Option<Option<String>> {
        let rules = self.job_completion()?;
        let ToolKind::ApiRequest(definition) = &self.tool.as_ref()?.kind else {
            return rules.is_heard_of(None).then_some(None);
        };
        let external_id = match found {
            ToolOutput::Text { text, .. } => match definition.job_answer(text) {
                JobAnswer::Started { external_id } => external_id,
                JobAnswer::Refused(_) | JobAnswer::NotNow(_) | JobAnswer::Unknown(_) => None,
            },
            ToolOutput::Opaque { .. } => None,
        };
        rules
            .is_heard_of(external_id.as_deref())
            .then_some(external_id)
    }

    /// The text for the model in place of the result that is not there yet.
    fn told(&self, external_id: Option<&str>) -> String {
        let reference = match external_id {
            Some(external_id) => external_id.to_owned(),
            None => self.id.to_string(),
        };
        if self.unsure {
            let text = format!(
                "The job was asked for, but it is not known whether it has started. If it has, its result comes later. \
                 Its reference is {reference}."
            );
            return effect_words::with(text, effect_words::may_have_acted(self.effect()));
        }
        format!(
            "The job has started; its result is not there yet and comes later. Its reference is {reference}. Do not \
             start it again."
        )
    }
}
