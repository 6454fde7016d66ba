//! The turn machine: from one user request to its final answer.
//!
//! [`Turn::on`] takes an event and fills a [`Step`]: what to write, what may start once that is
//! durable, and what is shown then. Effects only start things; their ends come back as events,
//! and an end that comes twice or too late changes nothing.

mod answer;
mod approvals;
mod attempts;
mod callbacks;
mod calls;
mod charges;
mod client_calls;
mod end_found;
mod ending;
mod model_requests;
mod offer;
mod recovery;
mod remembering;
mod same_key;
mod sending;
mod too_long;
mod upstreams;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::approval::{ANSWERED_ROUND, AnsweredCall};
use crate::arguments::ValidArgs;
use crate::call::{CallEnd, CallReason, CallRunner};
use crate::change::TurnChange;
use crate::effect_words;
use crate::event::LogEvent;
use crate::id::{CallId, CallRef, TurnId};
use crate::limits::TurnLimits;
use crate::memory::TurnMemory;
use crate::model::{ModelEvent, ReportedError, TokenUsage};
use crate::native::AnswerOrigin;
use crate::price::PriceTable;
use crate::request::{Block, CallBlock};
use crate::time::Timestamp;
use crate::tool::{EffectClass, LookUp, Tool, ToolOutcome, ToolOutput};
use crate::turn_policy::{OnLeave, RecordPolicy};
use crate::turn_status::TurnReason;
use crate::upstream_chain::UpstreamChain;

pub use approvals::{APPROVED_AND_RUNNING, NOT_APPROVED, with_result};
pub use offer::{MixedListEntry, OfferError, OfferOutcome, OfferRules, ToolOffer, offer};
pub use recovery::{FoundAttempt, FoundCall, FoundRound, FoundTurn};

use answer::ModelAnswer;

/// The settings of a turn, which hold from its start to its end.
#[derive(Clone, Debug)]
pub struct TurnSetup {
    pub id: TurnId,
    pub created: Timestamp,
    pub deadline: Timestamp,
    /// The client reads the answer as it comes, and rounds are streamed from the upstream.
    pub streamed: bool,
    pub on_leave: OnLeave,
    pub record: RecordPolicy,
    /// The model's name as the client wrote it.
    pub model: String,
    pub choices: u32,
    /// The client made the model call something; holds for the first round only.
    pub choice_is_forced: bool,
    /// The answer is to be one JSON text, so that what the model says beside calls of ours is not put before it.
    pub is_structured: bool,
    /// Budget of the whole turn.
    pub completion_tokens_max: Option<u64>,
    pub offer: ToolOffer,
    /// Calls of earlier turns that the request brings the answers for.
    pub answered: Vec<AnsweredCall>,
    /// Tools of ours that the first round is not offered.
    pub withheld: Vec<String>,
    pub limits: TurnLimits,
    /// The upstreams that may answer, by their names in the config: the first, and those that are
    /// asked when it fails.
    pub upstreams: Vec<Arc<AnswerOrigin>>,
    /// The prices by which its use is charged.
    pub prices: Arc<PriceTable>,
    /// There are quotas of tokens.
    pub counts_tokens: bool,
    /// `None` for a turn that is not to be found again.
    pub memory: Option<TurnMemory>,
}

impl TurnSetup {
    /// Whether a round's text is shown when the round is whole: only then is it known whether it is the answer.
    fn holds_text(&self) -> bool {
        self.is_structured && !self.offer.is_relay()
    }
}

/// An event of the world that a turn is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A piece of a model's answer.
    Model {
        ask: ModelRequestNumber,
        event: ModelEvent,
    },
    /// The answer is over, however its connection ended: nothing more comes of it.
    ModelEnded {
        ask: ModelRequestNumber,
    },
    /// The request failed before an answer began, or the answer is no answer.
    ModelFailed {
        ask: ModelRequestNumber,
        failure: ModelFailure,
    },
    /// A call may start.
    SlotGranted {
        call: CallRef,
    },
    /// A call that waits for a slot needs none: an earlier answer holds.
    Cached {
        call: CallRef,
        output: ToolOutput,
    },
    /// A call that waits for a slot may not start: a quota has no room. The model is shown what it is told.
    QuotaReached {
        call: CallRef,
        told: String,
    },
    CallEnded {
        call: CallRef,
        n: u32,
        outcome: ToolOutcome,
        /// HTTP status of the answer, if one came and the tool speaks HTTP.
        http_status: Option<u16>,
    },
    LookedUp {
        call: CallRef,
        n: u32,
        found: LookUp,
    },
    /// The record holds an end of a call that this turn did not write. The step at hand is what was refused for it, or
    /// empty; what is refused is put right in it.
    EndFound {
        call: CallRef,
        end: CallEnd,
    },
    TimerFired(Timer),
    ClientLeft,
    CancelRequested,
    /// The process will end now.
    Drained,
}

/// The number of a model request in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelRequestNumber {
    pub round: u32,
    /// The attempt, from 1.
    pub n: u32,
}

/// An effect on the world, which starts once the step's writes are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send the round's request to the model.
    Ask {
        round: u32,
        n: u32,
    },
    /// Close the connection of the request that is under way.
    AbortAsk,
    /// Ask for permission to start a call; comes back as `SlotGranted` or `Cached`.
    RequestSlot {
        call: CallRef,
    },
    ReleaseSlot {
        call: CallRef,
    },
    Dispatch {
        call: CallRef,
        n: u32,
    },
    /// End a call's attempt; its end no longer matters.
    AbortCall {
        call: CallRef,
    },
    /// Ask the provider whether attempt `n` happened.
    LookUp {
        call: CallRef,
        n: u32,
    },
    SetTimer {
        timer: Timer,
        after: Duration,
    },
    /// Stop driving; whoever starts next takes the turn over from the store.
    HandOver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The turn's time is up.
    Deadline,
    /// The wait before another model request is over.
    AskAgain { round: u32, n: u32 },
    /// The wait before another attempt of a call is over.
    CallAgain { call: CallRef, n: u32 },
    /// The turn waits no longer for a call's callback.
    CallbackWait { call: CallRef },
}

/// The consequences of one event: written first, then shown and started.
#[derive(Debug, Default)]
pub struct Step {
    pub write: Vec<TurnChange>,
    pub show: Vec<LogEvent>,
    pub then: Vec<Effect>,
}

impl Step {
    /// Adds what another event led to, leaving `later` empty.
    pub fn append(&mut self, later: &mut Self) {
        self.write.append(&mut later.write);
        self.show.append(&mut later.show);
        self.then.append(&mut later.then);
    }

    pub fn clear(&mut self) {
        self.write.clear();
        self.show.clear();
        self.then.clear();
    }
}

/// The time, and the fresh ids, that a step is told.
pub struct Now<'a> {
    pub at: Timestamp,
    /// Ids that cannot be guessed, one for each call of it. They may begin with the time, so that an index of them
    /// grows at its end.
    pub fresh_id: &'a mut dyn FnMut() -> Uuid,
}

/// The failure of a model request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFailure {
    pub kind: ModelFailureKind,
    /// The error that the client is told; holds nothing secret.
    pub error: ReportedError,
    /// The upstream's `Retry-After`, or `retry-after-ms`.
    pub retry_after: Option<Duration>,
    /// The upstream's `x-should-retry`.
    pub should_retry: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailureKind {
    /// No connection was made.
    Connect,
    /// The connection broke before an answer began.
    Reset,
    /// The upstream was silent for longer than allowed.
    Silent,
    /// An HTTP status other than 2xx.
    Status(u16),
    /// A 2xx whose body is no answer.
    Nonsense,
    /// The answer broke off without a finish.
    Cut,
    /// An error object inside the answer.
    Reported,
}

/// The state machine of one turn.
#[derive(Debug)]
pub struct Turn {
    setup: TurnSetup,
    phase: Phase,
    /// Calls that the request brought the answers for, which come before the first round.
    answered: Vec<Call>,
    /// Rounds whose model answer is whole, oldest first.
    rounds: Vec<Round>,
    /// Usage of all model requests so far.
    usage: Option<TokenUsage>,
    /// Invalid calls by tool name.
    invalid: BTreeMap<String, u32>,
    calls_total: u32,
    /// The log's first event was shown.
    started: bool,
    stopping: Option<TurnReason>,
    /// The attempts of the open round begin at the upstream that answered the last whole round.
    chain: UpstreamChain,
    /// The calls of the first choice that the client was handed, with its ids.
    handed: Vec<CallBlock>,
    /// Hidden calls of earlier turns are put back, until the model finds them too much.
    restoring: bool,
}

#[derive(Debug)]
enum Phase {
    Asking { n: u32, answer: Box<ModelAnswer> },
    WaitingToAsk { n: u32 },
    RunningTools,
    Ended,
}

/// A round whose model answer is whole.
#[derive(Debug)]
struct Round {
    blocks: Vec<Block>,
    /// `None` for a round of a record that does not say.
    origin: Option<Arc<AnswerOrigin>>,
    calls: Vec<Call>,
}

/// A call that we run, or hand over when ours have ended.
#[derive(Clone, Debug)]
struct Call {
    at: CallRef,
    id: CallId,
    runs: CallRunner,
    name: String,
    /// The id by which the upstream knows the call.
    sent_id: String,
    /// The call of an earlier turn whose approval it acts on.
    approves: Option<CallId>,
    idempotency_key: String,
    /// Of a call that a job may end.
    callback_token: Option<String>,
    /// The tool's effect when the call was made; `None` for a tool that is not offered.
    effect: Option<EffectClass>,
    /// `None` for a tool that is not offered, or no longer is.
    tool: Option<Arc<Tool>>,
    /// The arguments that an `idempotent` call was made with, if it may run.
    given: Option<ValidArgs>,
    /// An attempt of it was sent and may have changed the world.
    acted: bool,
    /// An attempt of it was sent, and nobody knows whether it took effect.
    unsure: bool,
    state: CallState,
}

#[derive(Clone, Debug)]
enum CallState {
    /// Waits for a slot, in which attempt `n` will run.
    Pending {
        args: ValidArgs,
        n: u32,
        asked: bool,
    },
    /// The client is to run it, or is asked whether we may, once all others of ours have ended.
    Held,
    /// Attempt `n` runs.
    Running {
        args: ValidArgs,
        n: u32,
    },
    /// Attempt `n` follows after a wait.
    Waiting {
        args: ValidArgs,
        n: u32,
    },
    /// The provider is asked whether attempt `n` happened.
    LookingUp {
        args: ValidArgs,
        n: u32,
    },
    /// Its request was taken; the turn waits for the callback that ends it.
    AwaitingCallback,
    /// It goes on without the turn; the model has this text in place of its result.
    Detached {
        told: String,
    },
    Ended(CallEnd),
}

/// The parts of a call that are needed to run it.
#[derive(Clone, Debug)]
pub struct CallToRun {
    pub id: CallId,
    pub tool: Arc<Tool>,
    pub args: ValidArgs,
    /// The idempotency key, stable over attempts.
    pub idempotency_key: String,
    /// The guard of a callback that ends this call; `None` where none may.
    pub callback_token: Option<String>,
}

impl Turn {
    /// A new turn; its first request is written by the accepting transaction.
    ///
    /// `step.write` holds what follows the turn's own row, which is not the machine's. Only a turn that acts on
    /// answers shows something before it is accepted.
    pub fn start(setup: TurnSetup, now: &mut Now<'_>, step: &mut Step) -> Self {
        let mut turn = Self::bare(setup);
        if turn.setup.answered.is_empty() {
            turn.ask(1, now, step);
        } else {
            turn.run_answered(now, step);
        }
        turn
    }

    fn bare(setup: TurnSetup) -> Self {
        Self {
            restoring: setup.memory.is_some_and(|memory| memory.restores),
            chain: UpstreamChain::new(setup.upstreams.len()),
            setup,
            phase: Phase::RunningTools,
            answered: Vec::new(),
            rounds: Vec::new(),
            usage: None,
            invalid: BTreeMap::new(),
            calls_total: 0,
            started: false,
            stopping: None,
            handed: Vec::new(),
        }
    }

    /// Takes an event. Whatever the event, a turn whose end is written stays as it is.
    pub fn on(&mut self, event: Event, now: &mut Now<'_>, step: &mut Step) {
        // The end of a turn that a refused step holds is not written.
        let is_refused = matches!(event, Event::EndFound { .. });
        if self.is_ended() && !is_refused {
            return;
        }
        match event {
            Event::Model { ask, event } => {
                if self.is_current(ask) {
                    self.on_model(ask.n, event, now, step);
                }
            }
            Event::ModelEnded { ask } => {
                if self.is_current(ask) {
                    self.on_model_ended(ask.n, now, step);
                }
            }
            Event::ModelFailed { ask, failure } => {
                if self.is_current(ask) {
                    self.on_model_failed(ask.n, &failure, now, step);
                }
            }
            Event::SlotGranted { call } => self.on_slot(call, now, step),
            Event::Cached { call, output } => self.on_cached(call, &output, now, step),
            Event::QuotaReached { call, told } => self.on_quota_reached(call, told, now, step),
            Event::CallEnded {
                call,
                n,
                outcome,
                http_status,
            } => self.on_call_ended((call, n), outcome, http_status, now, step),
            Event::LookedUp { call, n, found } => self.on_looked_up(call, n, found, now, step),
            Event::EndFound { call, end } => self.on_end_found(call, end, now, step),
            Event::TimerFired(Timer::Deadline) => self.on_deadline(now, step),
            Event::TimerFired(Timer::AskAgain { round, n }) => {
                self.on_ask_again(round, n, now, step)
            }
            Event::TimerFired(Timer::CallAgain { call, n }) => {
                self.on_call_again(call, n, now, step)
            }
            Event::TimerFired(Timer::CallbackWait { call }) => {
                self.on_callback_wait(call, now, step)
            }
            Event::ClientLeft => match self.setup.on_leave {
                OnLeave::Stop => self.stop(TurnReason::ClientLeft, now, step),
                OnLeave::Finish => {}
            },
            Event::CancelRequested => self.stop(TurnReason::Requested, now, step),
            Event::Drained => self.on_drained(now, step),
        }
    }

    /// Whether `ask` is the model request that is under way.
    fn is_current(&self, ask: ModelRequestNumber) -> bool {
        ask.round == self.round_number()
            && matches!(self.phase, Phase::Asking { n, .. } if n == ask.n)
    }

    pub fn setup(&self) -> &TurnSetup {
        &self.setup
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// The turn ends as soon as what runs has ended.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// Bytes of arguments that the model has written in the open round, which are checked when the round ends.
    pub fn argument_bytes(&self) -> usize {
        match &self.phase {
            Phase::Asking { answer, .. } => answer.argument_bytes(),
            Phase::WaitingToAsk { .. } | Phase::RunningTools | Phase::Ended => 0,
        }
    }

    /// Whether the history goes to the model with its hidden calls put back.
    pub fn is_restoring(&self) -> bool {
        self.restoring
    }

    /// The parts needed to run a call that was dispatched; `None` if it is not running.
    pub fn call_to_run(&self, call: CallRef) -> Option<CallToRun> {
        let found = self.find(call)?;
        match &found.state {
            CallState::Running { args, .. } | CallState::LookingUp { args, .. } => {
                found.to_run(args)
            }
            CallState::Pending { .. }
            | CallState::Waiting { .. }
            | CallState::Held
            | CallState::AwaitingCallback
            | CallState::Detached { .. }
            | CallState::Ended(_) => None,
        }
    }

    /// The parts needed to run a call that waits for a slot; `None` if it does not wait.
    pub fn call_waiting(&self, call: CallRef) -> Option<CallToRun> {
        let found = self.find(call)?;
        match &found.state {
            CallState::Pending { args, .. } => found.to_run(args),
            CallState::Running { .. }
            | CallState::LookingUp { .. }
            | CallState::Waiting { .. }
            | CallState::Held
            | CallState::AwaitingCallback
            | CallState::Detached { .. }
            | CallState::Ended(_) => None,
        }
    }

    /// Whether a call waits for a slot and was never started.
    pub fn starts_anew(&self, call: CallRef) -> bool {
        let found = self.find(call).map(|call| &call.state);
        matches!(found, Some(CallState::Pending { n: 1, .. }))
    }

    /// Whether the turn still needs the end of a call.
    pub fn is_open_call(&self, call: CallRef) -> bool {
        self.find(call).is_some_and(|call| !call.is_ended())
    }

    /// The tool of a call, whatever its state.
    pub fn tool_of(&self, call: CallRef) -> Option<&Arc<Tool>> {
        self.find(call)?.tool.as_ref()
    }

    fn find(&self, at: CallRef) -> Option<&Call> {
        let calls = match at.round {
            ANSWERED_ROUND => &self.answered,
            round => &self.rounds.get(usize::try_from(round - 1).ok()?)?.calls,
        };
        calls.get(usize::try_from(at.position).ok()?)
    }

    fn find_mut(&mut self, at: CallRef) -> Option<&mut Call> {
        let calls = match at.round {
            ANSWERED_ROUND => &mut self.answered,
            round => &mut self.rounds.get_mut(usize::try_from(round - 1).ok()?)?.calls,
        };
        calls.get_mut(usize::try_from(at.position).ok()?)
    }

    /// The number of the round that is asked for or whose calls run.
    fn round_number(&self) -> u32 {
        let whole = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX);
        match self.phase {
            Phase::Asking { .. } | Phase::WaitingToAsk { .. } => whole.saturating_add(1),
            Phase::RunningTools | Phase::Ended => whole,
        }
    }

    fn calls(&self) -> impl Iterator<Item = &Call> {
        let of_rounds = self.rounds.iter().flat_map(|round| &round.calls);
        self.answered.iter().chain(of_rounds)
    }
}

impl Call {
    fn effect(&self) -> EffectClass {
        // An unknown tool never runs, so its class is never asked for.
        self.effect.unwrap_or(EffectClass::Read)
    }

    /// Whether the turn has no more to do with it.
    fn is_ended(&self) -> bool {
        matches!(self.state, CallState::Ended(_) | CallState::Detached { .. })
    }

    /// The text that the model has in place of the call's result; `None` while there is none.
    fn result_text(&self) -> Option<&str> {
        match &self.state {
            CallState::Ended(end) => Some(&end.shown),
            CallState::Detached { told } => Some(told),
            CallState::Pending { .. }
            | CallState::Held
            | CallState::Running { .. }
            | CallState::Waiting { .. }
            | CallState::LookingUp { .. }
            | CallState::AwaitingCallback => None,
        }
    }

    /// The end of this call, which says whether what was sent of it may have taken effect.
    fn failed(&self, reason: CallReason, shown: &str) -> CallEnd {
        let words = effect_words::may_have_acted(self.effect()).filter(|_| self.unsure);
        failed(reason, effect_words::with(shown.to_owned(), words))
    }

    fn to_run(&self, args: &ValidArgs) -> Option<CallToRun> {
        Some(CallToRun {
            id: self.id,
            tool: self.tool.clone()?,
            args: args.clone(),
            idempotency_key: self.idempotency_key.clone(),
            callback_token: self.callback_token.clone(),
        })
    }
}

/// The end of a call that did not run, or whose run came to nothing.
fn failed(reason: CallReason, shown: String) -> CallEnd {
    CallEnd {
        reason: Some(reason),
        result: None,
        shown,
        is_error: true,
        cached: false,
    }
}

#[cfg(test)]
mod tests;
