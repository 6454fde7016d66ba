//! Asking the model: the request, its answer piece by piece, failures and retries.

use super::answer::ModelAnswer;
use super::client_calls::drop_handed;
use super::too_long::{TOO_LONG, TOO_LONG_CODE};
use super::{
    Effect, Event, ModelFailure, ModelFailureKind, ModelRequestNumber, Now, Phase, Step, Timer,
    Turn,
};
use crate::call::CallReason;
use crate::change::{AttemptOutcome, CloseAttempt, OpenAttempt, TurnChange};
use crate::event::LogEvent;
use crate::fault::{FaultClass, TurnFault};
use crate::model::{AnswerDelta, Finish, ModelEvent, ReportedError};
use crate::turn_status::{TurnReason, TurnStatus};

impl Turn {
    /// Opens attempt `n` of the next round.
    pub(super) fn ask(&mut self, n: u32, now: &Now<'_>, step: &mut Step) {
        self.phase = Phase::Asking {
            n,
            answer: Box::default(),
        };
        let round = self.round_number();
        step.write.push(TurnChange::OpenAttempt(OpenAttempt {
            round,
            position: None,
            n,
            upstream: Some(self.origin_of(n).upstream.to_string()),
            at: now.at,
        }));
        step.then.push(Effect::Ask { round, n });
    }

    pub(super) fn on_model(
        &mut self,
        n: u32,
        event: ModelEvent,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let Phase::Asking { answer, .. } = &mut self.phase else {
            return;
        };
        match event {
            ModelEvent::Start { model, created_s } => {
                answer.model = model;
                answer.created_s = created_s;
            }
            ModelEvent::Delta(delta) => {
                answer.add_delta(&delta);
                let delta = if self.setup.holds_text() {
                    AnswerDelta {
                        text: None,
                        ..delta
                    }
                } else {
                    delta
                };
                if delta.shows_something() {
                    self.show(LogEvent::Delta(delta), step);
                } else if delta.rest.is_some() {
                    self.hold_or_show(LogEvent::Delta(delta), step);
                }
                self.check_length(now, step);
            }
            ModelEvent::Call(piece) => {
                self.on_piece(piece, now, step);
                self.check_length(now, step);
            }
            ModelEvent::BlockEnd(end) => {
                answer.end_block(&end);
                self.hold_or_show(LogEvent::BlockEnd(end), step);
                self.check_length(now, step);
            }
            ModelEvent::Native { choice, part } => {
                answer.add_native(choice, &part);
                self.show(LogEvent::Native { choice, part }, step);
                self.check_length(now, step);
            }
            ModelEvent::Extra { key, value } => {
                answer.bytes += key.len() + value.as_str().len();
                self.hold_or_show(LogEvent::Extra { key, value }, step);
                self.check_length(now, step);
            }
            // Whoever waits for the answer sees it at once; another upstream may be asked all the same.
            ModelEvent::Progress { key, value } => {
                answer.bytes += key.len() + value.as_str().len();
                let (model, created_s) = (answer.model.clone(), answer.created_s);
                self.show_start(model, created_s, step);
                step.show.push(LogEvent::Progress { key, value });
                self.check_length(now, step);
            }
            ModelEvent::Finish { choice, reason } => {
                answer.finish.entry(choice).or_insert(reason);
            }
            ModelEvent::Usage(usage) => answer.usage = Some(*usage),
            // The word of an end says less than an error that came with it.
            ModelEvent::Error(error) if error.broke_off && answer.error.is_some() => {}
            ModelEvent::Error(error) => answer.error = Some(*error),
            ModelEvent::Done => {
                answer.done = true;
                self.on_model_ended(n, now, step);
            }
        }
    }

    /// Shows an event of the current answer, after what must stand before it.
    pub(super) fn show(&mut self, event: LogEvent, step: &mut Step) {
        let Phase::Asking { answer, .. } = &mut self.phase else {
            return;
        };
        if !answer.shown {
            answer.shown = true;
            let (model, created_s) = (answer.model.clone(), answer.created_s);
            let held = std::mem::take(&mut answer.held);
            self.show_start(model, created_s, step);
            let (round, format) = (self.round_number(), self.asked_format());
            step.show.push(LogEvent::Round { round, format });
            step.show.extend(held);
        }
        step.show.push(event);
    }

    fn hold_or_show(&mut self, event: LogEvent, step: &mut Step) {
        let Phase::Asking { answer, .. } = &mut self.phase else {
            return;
        };
        if answer.shown {
            step.show.push(event);
        } else if answer.held.len() < HELD_EVENTS_MAX {
            answer.held.push(event);
        }
    }

    /// The log's first event, once.
    pub(super) fn show_start(
        &mut self,
        model: Option<String>,
        created_s: Option<i64>,
        step: &mut Step,
    ) {
        if self.started {
            return;
        }
        self.started = true;
        step.show.push(LogEvent::Start {
            model: model.unwrap_or_else(|| self.setup.model.clone()),
            created_s: created_s.unwrap_or_else(|| self.setup.created.seconds()),
        });
    }

    /// An answer beyond the limit is treated as one that the model's own limit ended.
    fn check_length(&mut self, now: &mut Now<'_>, step: &mut Step) {
        let limit = self.setup.limits.answer_bytes_max;
        let Phase::Asking { n, answer } = &mut self.phase else {
            return;
        };
        if answer.bytes <= limit {
            return;
        }
        let n = *n;
        answer.finish.insert(0, Finish::Length);
        step.then.push(Effect::AbortAsk);
        self.on_model_ended(n, now, step);
    }

    pub(super) fn on_model_ended(&mut self, n: u32, now: &mut Now<'_>, step: &mut Step) {
        let Phase::Asking { answer, .. } = &mut self.phase else {
            return;
        };
        if answer.is_whole() {
            let answer = std::mem::take(&mut **answer);
            self.close_round(n, answer, now, step);
            return;
        }
        let failure = match answer.error.take() {
            Some(error) => ModelFailure {
                kind: match error.status {
                    Some(status) => ModelFailureKind::Status(status),
                    None if error.broke_off => ModelFailureKind::Cut,
                    None => ModelFailureKind::Reported,
                },
                error,
                retry_after: None,
                should_retry: None,
            },
            None => ModelFailure {
                kind: ModelFailureKind::Cut,
                error: ReportedError {
                    message: "the upstream's answer broke off".to_owned(),
                    ..ReportedError::default()
                },
                retry_after: None,
                should_retry: None,
            },
        };
        self.on_model_failed(n, &failure, now, step);
    }

    pub(super) fn on_model_failed(
        &mut self,
        n: u32,
        failure: &ModelFailure,
        now: &mut Now<'_>,
        step: &mut Step,
    ) {
        let round = self.round_number();
        let Phase::Asking { answer, .. } = &mut self.phase else {
            return;
        };
        let answer = std::mem::take(&mut **answer);
        let forgets = !answer.shown && self.forgets(n, failure);
        let word = if forgets { TOO_LONG } else { failure.word() };
        step.write.push(TurnChange::CloseAttempt(CloseAttempt {
            round,
            position: None,
            n,
            outcome: AttemptOutcome::Failed(word.to_owned()),
            http_status: failure.status(),
            usage: answer.usage.clone(),
            at: now.at,
        }));
        self.charge_answer(n, answer.usage.as_ref(), now, step);
        self.count(answer.usage.as_ref());
        let limits = &self.setup.limits;
        self.chain
            .note_failure(n, failure, now.at, limits.retry_after_max);
        if forgets {
            self.restoring = false;
            self.chain.stay();
            self.ask(n + 1, now, step);
            return;
        }
        self.chain.pass_over_hopeless(n + 1);
        let backoff = self.setup.limits.model_backoff;
        let wait = self.chain.wait_before(n + 1, now.at, backoff);
        let in_time = now.at.after(wait) < self.setup.deadline;
        if !answer.shown
            && self.chain.may_follow(failure, n + 1)
            && n < self.setup.limits.model_attempts_max
            && in_time
        {
            self.phase = Phase::WaitingToAsk { n: n + 1 };
            let timer = Timer::AskAgain { round, n: n + 1 };
            step.then.push(Effect::SetTimer { timer, after: wait });
            return;
        }
        self.keep_partial(n, &answer, now, step);
        drop_handed(round, &answer, CallReason::Interrupted, now, step);
        self.end(
            TurnStatus::Failed,
            Some(TurnReason::Upstream),
            Some(failure.fault()),
            now,
            step,
        );
    }

    pub(super) fn on_ask_again(&mut self, round: u32, n: u32, now: &Now<'_>, step: &mut Step) {
        if round == self.round_number()
            && matches!(self.phase, Phase::WaitingToAsk { n: next } if next == n)
        {
            self.ask(n, now, step);
        }
    }

    /// Closes the request that is under way, for a turn that ends; `reason` is the end of calls
    /// that the client was shown a part of.
    pub(super) fn abort_ask(&mut self, reason: CallReason, now: &Now<'_>, step: &mut Step) {
        let round = self.round_number();
        let Phase::Asking { n, answer } = &mut self.phase else {
            return;
        };
        let (n, answer): (u32, ModelAnswer) = (*n, std::mem::take(&mut **answer));
        step.write.push(TurnChange::CloseAttempt(CloseAttempt {
            round,
            position: None,
            n,
            outcome: AttemptOutcome::Cancelled,
            http_status: None,
            usage: answer.usage.clone(),
            at: now.at,
        }));
        self.charge_answer(n, answer.usage.as_ref(), now, step);
        self.count(answer.usage.as_ref());
        self.keep_partial(n, &answer, now, step);
        drop_handed(round, &answer, reason, now, step);
        step.then.push(Effect::AbortAsk);
    }

    pub(super) fn count(&mut self, usage: Option<&crate::model::TokenUsage>) {
        let Some(usage) = usage else {
            return;
        };
        self.usage = Some(match &self.usage {
            Some(sum) => sum.plus(usage),
            None => usage.clone(),
        });
    }
}

/// Events that wait for something to be shown; an upstream that sends more of them than this
/// before any text sends them to nobody.
const HELD_EVENTS_MAX: usize = 64;

/// The code of a used-up quota whose upstream has no word for it that is known; OpenAI's.
const USED_UP_CODE: &str = "insufficient_quota";

impl ModelFailure {
    /// The word of the log for this kind of failure.
    pub fn word(&self) -> &'static str {
        match self.kind {
            ModelFailureKind::Connect => "connect",
            ModelFailureKind::Reset => "reset",
            ModelFailureKind::Silent => "silent",
            ModelFailureKind::Status(_) => "status",
            ModelFailureKind::Nonsense => "nonsense",
            ModelFailureKind::Cut => "cut",
            ModelFailureKind::Reported => "reported",
        }
    }

    /// The status that the upstream answered with.
    pub fn status(&self) -> Option<u16> {
        match self.kind {
            ModelFailureKind::Status(status) => Some(status),
            ModelFailureKind::Connect
            | ModelFailureKind::Reset
            | ModelFailureKind::Silent
            | ModelFailureKind::Nonsense
            | ModelFailureKind::Cut
            | ModelFailureKind::Reported => None,
        }
    }

    /// Whether the same upstream may do better when it is asked again.
    pub fn may_be_repeated(&self) -> bool {
        match self.kind {
            ModelFailureKind::Connect | ModelFailureKind::Reset | ModelFailureKind::Cut => true,
            // An account without money has none a moment later either.
            ModelFailureKind::Status(_) if self.error.is_used_up() || self.is_unsupported() => {
                false
            }
            ModelFailureKind::Status(status) => self
                .should_retry
                .unwrap_or(status == 408 || status == 429 || status >= 500),
            // Silence has already cost the client its patience, and nonsense comes from a
            // wrong address; neither gets better by asking again at once.
            ModelFailureKind::Silent | ModelFailureKind::Nonsense | ModelFailureKind::Reported => {
                false
            }
        }
    }

    /// Whether the status says that there is no money, which not every upstream says in words (DeepSeek calls it an
    /// `invalid_request_error`, OpenRouter 402).
    fn says_to_pay(&self) -> bool {
        matches!(self.kind, ModelFailureKind::Status(402))
    }

    /// Whether another upstream may do better although this one would fail again.
    pub fn is_of_the_upstream(&self) -> bool {
        match self.kind {
            ModelFailureKind::Silent | ModelFailureKind::Nonsense => true,
            // Our credentials or our account there; a request that is refused for what it says
            // is the client's to mend.
            ModelFailureKind::Status(status) => {
                matches!(status, 401..=403 | 429)
                    || self.is_unsupported()
                    || self.error.is_used_up()
                    || (status >= 500 && self.should_retry == Some(false))
            }
            ModelFailureKind::Reported => self.error.is_used_up(),
            ModelFailureKind::Connect | ModelFailureKind::Reset | ModelFailureKind::Cut => false,
        }
    }

    /// Whether the upstream says that it cannot do such a thing, ever: another model may. llama.cpp
    /// says of an image for a model of text "image input is not supported" (500), and of what it
    /// has not switched on `not_supported_error` (501).
    fn is_unsupported(&self) -> bool {
        match self.kind {
            ModelFailureKind::Status(501) => true,
            ModelFailureKind::Status(500) => {
                self.error.kind.as_deref() == Some("not_supported_error")
                    || self.error.message.contains("not supported")
            }
            ModelFailureKind::Status(_)
            | ModelFailureKind::Connect
            | ModelFailureKind::Reset
            | ModelFailureKind::Silent
            | ModelFailureKind::Nonsense
            | ModelFailureKind::Cut
            | ModelFailureKind::Reported => false,
        }
    }

    /// The upstream does not know the model, or its address is a wrong one.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind, ModelFailureKind::Status(404))
    }

    /// The fault that a client is told for this failure.
    pub fn fault(&self) -> TurnFault {
        let class = match self.kind {
            ModelFailureKind::Status(status) => match status {
                400 | 404 | 413 | 422 => FaultClass::Refused { status },
                402 => FaultClass::UpstreamLimited,
                403 if self.error.is_used_up() => FaultClass::UpstreamLimited,
                408 | 429 => FaultClass::UpstreamLimited,
                _ => FaultClass::UpstreamFailed,
            },
            ModelFailureKind::Connect
            | ModelFailureKind::Reset
            | ModelFailureKind::Nonsense
            | ModelFailureKind::Cut => FaultClass::UpstreamFailed,
            ModelFailureKind::Silent => FaultClass::UpstreamSilent,
            ModelFailureKind::Reported if self.error.is_used_up() => FaultClass::UpstreamLimited,
            ModelFailureKind::Reported => FaultClass::UpstreamReported,
        };
        let message = match self.kind {
            // The upstream's words may quote the credentials that it refused, which are ours.
            ModelFailureKind::Status(401 | 403) if class == FaultClass::UpstreamFailed => {
                "the upstream refused this server's credentials".to_owned()
            }
            ModelFailureKind::Status(_)
            | ModelFailureKind::Connect
            | ModelFailureKind::Reset
            | ModelFailureKind::Silent
            | ModelFailureKind::Nonsense
            | ModelFailureKind::Cut
            | ModelFailureKind::Reported => self.error.message.clone(),
        };
        let told = !matches!(self.kind, ModelFailureKind::Status(401 | 403))
            || class == FaultClass::UpstreamLimited;
        TurnFault {
            class,
            message,
            code: if self.says_too_long() {
                Some(TOO_LONG_CODE.to_owned())
            } else if self.says_to_pay() && !self.error.is_used_up() {
                Some(USED_UP_CODE.to_owned())
            } else {
                self.error.code.clone().filter(|_| told)
            },
            kind: self.error.kind.clone().filter(|_| told),
            param: self.error.param.clone().filter(|_| told),
            retry_after_s: self.retry_after.and_then(|wait| {
                u32::try_from(wait.as_secs().max(u64::from(wait.subsec_nanos() > 0))).ok()
            }),
        }
    }
}

impl Event {
    /// A failure with a message of our own.
    pub fn model_failed(ask: ModelRequestNumber, kind: ModelFailureKind, message: &str) -> Self {
        let error = ReportedError {
            message: message.to_owned(),
            ..ReportedError::default()
        };
        Self::ModelFailed {
            ask,
            failure: ModelFailure {
                kind,
                error,
                retry_after: None,
                should_retry: None,
            },
        }
    }
}
