//! The driver of one turn: a task that feeds the machine and does what it says.
//!
//! The order is always the same: the machine decides, the step is applied in one transaction
//! under the turn's fence, then it is shown, then its effects start. What a new turn writes may go
//! to the store beside its acceptance, behind it; nothing is shown or started before both are durable. When a write fails in a way
//! that leaves the outcome open, the driver forgets the machine; the turn is recovered from the
//! store as after a crash.

mod acceptance;
mod calls;
mod log;
mod metering;
mod perform;
mod task;
mod tracing_spans;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Sleep};
use tw_core::accepts::AddressRule;
use tw_core::approval::ANSWERED_ROUND;
use tw_core::call::CallEnd;
use tw_core::change::{Fence, NewTurn, Outcome, TurnChange};
use tw_core::event::LogEvent;
use tw_core::id::CallRef;
use tw_core::model::ModelEvent;
use tw_core::request::ModelInput;
use tw_core::time::Timestamp;
use tw_core::turn::{Effect, Event, ModelRequestNumber, Now, Step, Timer, Turn};
use tw_egress::off_thread::aside;
use tw_egress::part_downloads::{DownloadedParts, TurnDownloads};
use tw_egress::secrets::Tenancy;
use tw_egress::upstream::{ModelExchange, ModelProgress, SentModelRequest, Upstream};
use tw_store::apply::StoreApplyError;
use tw_wire::passed_headers::PassedHeaders;

use crate::equal_requests::TurnstilePass;
use crate::error_chain::ErrorChain;
use crate::fail_point::FailPoint;
use crate::limiter::RoomPermit;
use crate::live_turns::{DriverSignal, LiveTurn, WantedSignals};
use crate::logged_owner::LoggedOwner;
use crate::orphaned_turns::{AFTER_FAILED_WRITE, OrphanedTurn};
use crate::prepared_history::SendableHistories;
use crate::recovery_pace::RecoveryPermit;
use crate::results::ResultKey;
use crate::runtime::RuntimeInner;
use crate::slots::CallSlot;
use crate::telemetry::TracedTurn;
use crate::to_client::ToClient;
use crate::tool_book::ToolBookPage;
use crate::variables::{TurnVariables, VariableSubject};

pub(crate) use acceptance::AcceptedTurn;
pub(crate) use task::spawn;

use calls::{CallEnded, CallTaskKind};
use log::TurnLog;
use metering::{MeteredEvent, Metering};
use tracing_spans::TurnTracing;

/// The parts of a turn that its driver works with and never changes.
#[derive(Debug)]
pub(crate) struct TurnWork {
    pub(crate) input: Arc<ModelInput>,
    pub(crate) histories: SendableHistories,
    /// The turn's chain, as its setup names it; never empty.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// `None` for a relay.
    pub(crate) calls: Option<CallContext>,
    /// The same of the calls that the request brought answers for.
    pub(crate) answered_calls: Option<CallContext>,
    /// Headers of the request that go to upstreams.
    pub(crate) passed: PassedHeaders,
    /// What its rounds have downloaded.
    pub(crate) downloaded: DownloadedParts,
    pub(crate) logged: LoggedOwner,
    /// `None` while nothing is traced.
    pub(crate) trace: Option<TracedTurn>,
}

/// The context of a turn that calls of our tools need.
#[derive(Debug)]
pub(crate) struct CallContext {
    /// The organization's slug.
    pub(crate) organization: Arc<str>,
    pub(crate) tenancy: Tenancy,
    pub(crate) variables: TurnVariables,
    /// The turn is for an end user.
    pub(crate) names_user: bool,
}

impl CallContext {
    pub(crate) fn new(page: &ToolBookPage, whose: VariableSubject<'_>, input: &ModelInput) -> Self {
        Self {
            organization: Arc::clone(&page.slug),
            tenancy: page.tenancy,
            variables: TurnVariables::new(&page.slug, whose, input),
            names_user: whose.end_user.is_some(),
        }
    }
}

impl TurnWork {
    /// The context of a call.
    fn context_of(&self, call: CallRef) -> Option<&CallContext> {
        match call.round {
            ANSWERED_ROUND => self.answered_calls.as_ref(),
            _ => self.calls.as_ref(),
        }
    }
}

/// Arguments that are larger than this, in bytes, may take milliseconds to check.
const ASIDE_BYTES_MIN: usize = 8 * 1024;

pub(crate) struct TurnDriver {
    inner: Arc<RuntimeInner>,
    turn: Turn,
    fence: Fence,
    /// `None` once the turn is accepted.
    accepting: Option<Accepting>,
    work: Arc<TurnWork>,
    live: Arc<LiveTurn>,
    log: TurnLog,
    client: Option<ToClient>,
    /// A client waits, and its leaving is an event.
    client_counts: bool,
    /// Held until the turn's end is durable.
    permit: Option<RoomPermit>,
    /// Of a turn that was taken over, until something has come of what it asked first.
    recovery: Option<RecoveryPermit>,
    asking: Option<(ModelRequestNumber, ModelExchange)>,
    tools: JoinSet<CallEnded>,
    /// Attempts that run, by the id of their task.
    attempts: BTreeMap<tokio::task::Id, (CallRef, u32, CallTaskKind)>,
    aborts: BTreeMap<CallRef, AbortHandle>,
    waiting_for_slots: FuturesUnordered<calls::WaitingForSlot>,
    slots: BTreeMap<CallRef, Option<CallSlot>>,
    /// Calls whose answer is to be kept for others, and under which key.
    results_to_keep: BTreeMap<CallRef, ResultKey>,
    calls_began: BTreeMap<CallRef, Timestamp>,
    metering: Metering,
    tracing: Option<Box<TurnTracing>>,
    timers: BTreeSet<(Instant, Timer)>,
    /// Fires at the next timer or flush.
    alarm: Pin<Box<Sleep>>,
    model_events: Vec<ModelEvent>,
}

/// A turn whose accepting transaction is under way.
struct Accepting {
    apply: Pin<Box<dyn Future<Output = Result<Vec<Outcome>, StoreApplyError>> + Send>>,
    passing: TurnstilePass,
    /// Hears how it went.
    accepted: oneshot::Sender<Result<AcceptedTurn, StoreApplyError>>,
}

/// Reasons for which a driver stops before the turn's end.
#[derive(Debug)]
pub(super) enum DriverStop {
    /// There is no such turn, or whether there is one is unknown.
    NotAccepted,
    /// The write failed, or may have.
    Write(StoreApplyError),
    /// The process ends; the next one takes over.
    HandOver,
}

pub(crate) struct DriverParts {
    pub(crate) inner: Arc<RuntimeInner>,
    pub(crate) turn: Turn,
    pub(crate) fence: Fence,
    pub(crate) work: Arc<TurnWork>,
    pub(crate) live: Arc<LiveTurn>,
    pub(crate) client: Option<ToClient>,
    pub(crate) permit: RoomPermit,
    pub(crate) recovery: Option<RecoveryPermit>,
    /// Events that the log holds already.
    pub(crate) events_stored: u64,
}

/// The next event in the world of one driver.
enum Happened {
    Accepted(Result<Vec<Outcome>, StoreApplyError>),
    Signal(DriverSignal),
    Timer(Timer),
    Call(CallEnded),
    MayStart(CallRef, calls::MayStart),
    Model(ModelRequestNumber, ModelProgress),
    Flushed(Result<u64, StoreApplyError>),
    FlushDue,
}

impl TurnDriver {
    /// On the heap, since a future that hands a value on has room for it twice.
    pub(crate) fn new(parts: DriverParts) -> Box<Self> {
        let DriverParts {
            inner,
            turn,
            fence,
            work,
            live,
            client,
            permit,
            recovery,
            events_stored,
        } = parts;
        let left = turn.setup().deadline.since(inner.env.now());
        let timers = BTreeSet::from([(Instant::now() + left, Timer::Deadline)]);
        let tracing = TurnTracing::of(work.trace.as_ref(), &turn);
        Box::new(Self {
            inner,
            turn,
            fence,
            accepting: None,
            work,
            live,
            log: TurnLog::new(events_stored),
            client_counts: client.is_some(),
            client,
            permit: Some(permit),
            recovery,
            asking: None,
            tools: JoinSet::new(),
            attempts: BTreeMap::new(),
            aborts: BTreeMap::new(),
            waiting_for_slots: FuturesUnordered::new(),
            slots: BTreeMap::new(),
            results_to_keep: BTreeMap::new(),
            calls_began: BTreeMap::new(),
            metering: Metering::default(),
            tracing,
            alarm: Box::pin(tokio::time::sleep_until(Instant::now() + left)),
            timers,
            model_events: Vec::new(),
        })
    }

    /// Accepts the turn and drives it to its end.
    ///
    /// The model is asked, and its answer read, while the accepting transaction commits; nothing is shown or
    /// dispatched before it has. `accepted` hears how it went.
    pub(crate) async fn accept(
        mut self: Box<Self>,
        new: Box<NewTurn>,
        step: Step,
        passing: TurnstilePass,
        accepted: oneshot::Sender<Result<AcceptedTurn, StoreApplyError>>,
    ) {
        let Step {
            mut write,
            show,
            then,
        } = step;
        let acts_on_answers = !show.is_empty();
        if acts_on_answers {
            self.log.add(&show);
            let flush = self.log.take(self.inner.env.now());
            write.extend(flush.map(TurnChange::AppendEvents));
        } else {
            for effect in then.iter().cloned() {
                self.start(effect);
            }
        }
        let noted = self.note(&write);
        self.reach(FailPoint::BeforeAccept);
        let store = self.inner.store.clone();
        self.accepting = Some(Accepting {
            apply: Box::pin(async move { store.accept_turn(new, write).await }),
            passing,
            accepted,
        });
        if acts_on_answers && let Err(stopped) = self.act_on_answers(noted, show, then).await {
            self.stop(stopped).await;
            return;
        }
        self.drive().await;
    }

    /// Begins a turn that acts on answers first: only once those are written down as given.
    async fn act_on_answers(
        &mut self,
        noted: Vec<MeteredEvent>,
        show: Vec<LogEvent>,
        then: Vec<Effect>,
    ) -> Result<(), DriverStop> {
        self.settle().await?;
        self.count(noted);
        self.tell_durable(self.log.numbered());
        self.send(show).await;
        for effect in then {
            self.start(effect);
        }
        Ok(())
    }

    /// Waits until the turn is accepted, if it is not yet.
    async fn settle(&mut self) -> Result<(), DriverStop> {
        match &mut self.accepting {
            Some(accepting) => {
                let outcome = accepting.apply.as_mut().await;
                self.on_accepted(outcome)
            }
            None => Ok(()),
        }
    }

    fn on_accepted(
        &mut self,
        outcome: Result<Vec<Outcome>, StoreApplyError>,
    ) -> Result<(), DriverStop> {
        let Some(accepting) = self.accepting.take() else {
            return Ok(());
        };
        let outcome = outcome.map(AcceptedTurn::of);
        if matches!(outcome, Err(StoreApplyError::Unknown { .. })) {
            // It may be there; then somebody has to drive it.
            self.inner.orphaned.add(OrphanedTurn {
                organization: self.fence.organization,
                turn: self.fence.turn,
                after: AFTER_FAILED_WRITE,
            });
        }
        let is_ours = matches!(outcome, Ok(AcceptedTurn::New));
        if is_ours {
            self.reach(FailPoint::AfterAccept);
            let streamed = self.turn.setup().streamed;
            self.inner.metrics.turn_started(streamed);
        } else if let Some(permit) = self.permit.take() {
            permit.give_back();
        }
        // Whoever sends the same again finds this one now.
        drop(accepting.passing);
        // The one who asked may have gone; the turn is accepted all the same.
        let _ = accepting.accepted.send(outcome);
        if is_ours {
            Ok(())
        } else {
            Err(DriverStop::NotAccepted)
        }
    }

    /// Goes on with a turn that was taken over.
    pub(crate) async fn resume(mut self: Box<Self>, mut step: Step) {
        self.inner.metrics.turn_taken_over();
        let resumed = match self.perform(&mut step).await {
            Ok(()) => self.note_resumed().await,
            Err(stopped) => Err(stopped),
        };
        match resumed {
            Ok(()) => self.drive().await,
            Err(stopped) => self.stop(stopped).await,
        }
    }

    /// Notes that the take-over has done what costs most: its claims do not count against the turn any more.
    async fn note_resumed(&mut self) -> Result<(), DriverStop> {
        if !self.turn.is_ended() {
            let at = self.inner.env.now();
            let note = TurnChange::NoteResumed { at };
            let noted = self.inner.store.apply_to_turn(self.fence, vec![note]).await;
            noted.map_err(DriverStop::Write)?;
        }
        if self.asking.is_none() {
            self.recovery = None;
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.share();
        }
        Ok(())
    }

    async fn drive(mut self: Box<Self>) {
        let mut step = Step::default();
        while !self.turn.is_ended() {
            let happened = self.next().await;
            if let Err(stopped) = self.on(happened, &mut step).await {
                self.stop(stopped).await;
                return;
            }
        }
        if let Some((_, asking)) = self.asking.take() {
            asking.finish();
        }
        self.inner.live.remove(self.fence.turn);
        self.inner.driver_panics.forget(self.fence.turn);
    }

    /// Leaves the turn to whoever takes it over next, which is this process unless it ends.
    async fn stop(self: Box<Self>, stopped: DriverStop) {
        let Self {
            inner,
            fence,
            client,
            ..
        } = *self;
        drop(client);
        inner.live.remove(fence.turn);
        match stopped {
            DriverStop::NotAccepted => {}
            DriverStop::HandOver => {
                tracing::info!(turn.id = %fence.turn, "turn left for the next start")
            }
            DriverStop::Write(StoreApplyError::Fenced { .. }) => {
                tracing::info!(turn.id = %fence.turn, "turn was taken over by another driver");
            }
            DriverStop::Write(error) => {
                tracing::error!(turn.id = %fence.turn, error = %ErrorChain(&error), "writing a turn failed");
                inner.orphaned.add(OrphanedTurn {
                    organization: fence.organization,
                    turn: fence.turn,
                    after: AFTER_FAILED_WRITE,
                });
            }
        }
    }

    /// Waits for what happens next.
    ///
    /// # Cancel safety
    /// Every arm keeps its state in the driver, so a losing arm loses nothing.
    async fn next(&mut self) -> Happened {
        if self.log.is_full() && !self.log.is_flushing() {
            return Happened::FlushDue;
        }
        let timer = self.timers.first().copied();
        let flush_due = self.log.due();
        let due = match (timer, flush_due) {
            (Some((timer, _)), Some(flush)) => Some(timer.min(flush)),
            (timer, flush) => timer.map(|(at, _)| at).or(flush),
        };
        if let Some(due) = due
            && self.alarm.deadline() != due
        {
            self.alarm.as_mut().reset(due);
        }
        let may_be_accepted = !self.holds_acceptance();
        let stopping = self.turn.is_stopping();
        let wanted = WantedSignals {
            ends: true,
            cancel: !stopping,
            all_left: self.client_counts && !stopping,
        };
        tokio::select! {
            outcome = accepted(&mut self.accepting), if may_be_accepted => Happened::Accepted(outcome),
            signal = self.live.signal(wanted) => Happened::Signal(signal),
            () = self.alarm.as_mut(), if due.is_some() => match (timer, flush_due) {
                (Some((at, timer)), flush) if flush.is_none_or(|flush| at <= flush) => {
                    self.timers.pop_first();
                    Happened::Timer(timer)
                }
                _ => Happened::FlushDue,
            },
            Some(ended) = self.tools.join_next_with_id() => self.ended(ended),
            Some((call, may)) = self.waiting_for_slots.next() => Happened::MayStart(call, may),
            (ask, progress) = next_of_answer(&mut self.asking, &mut self.model_events), if !self.log.is_full() => {
                Happened::Model(ask, progress)
            }
            flushed = self.log.flushed() => Happened::Flushed(flushed),
        }
    }

    async fn on(&mut self, happened: Happened, step: &mut Step) -> Result<(), DriverStop> {
        let event = match happened {
            Happened::Accepted(outcome) => return self.on_accepted(outcome),
            // What ended with a step that was refused for it is known.
            Happened::Signal(DriverSignal::CallEnded(call, _)) if !self.turn.is_open_call(call) => {
                return Ok(());
            }
            Happened::Signal(DriverSignal::CallEnded(call, end)) => {
                step.clear();
                self.end_found(call, end, step);
                return self.perform(step).await;
            }
            Happened::Signal(DriverSignal::Cancel) => Event::CancelRequested,
            Happened::Signal(DriverSignal::Drain) => Event::Drained,
            Happened::Signal(DriverSignal::AllLeft) => {
                self.client_counts = false;
                Event::ClientLeft
            }
            Happened::Timer(timer) => Event::TimerFired(timer),
            Happened::Call(CallEnded::Ran {
                call,
                n,
                outcome,
                http_status,
                cause,
            }) => {
                self.reach(FailPoint::ToolAnswered);
                self.keep_result(call, &outcome);
                if let Some(cause) = cause {
                    self.log_unanswered(call, n, CallTaskKind::Attempt, &cause);
                }
                Event::CallEnded {
                    call,
                    n,
                    outcome,
                    http_status,
                }
            }
            Happened::Call(CallEnded::LookedUp {
                call,
                n,
                found,
                cause,
            }) => {
                if let Some(cause) = cause {
                    self.log_unanswered(call, n, CallTaskKind::LookUp, &cause);
                }
                Event::LookedUp { call, n, found }
            }
            Happened::MayStart(call, calls::MayStart::Slot(slot)) => {
                self.slots.insert(call, slot);
                Event::SlotGranted { call }
            }
            Happened::MayStart(call, calls::MayStart::Cached(output)) => {
                Event::Cached { call, output }
            }
            Happened::MayStart(call, calls::MayStart::QuotaReached(told)) => {
                Event::QuotaReached { call, told }
            }
            Happened::Model(ask, progress) => return self.on_answer(ask, progress, step).await,
            Happened::Flushed(flushed) => return self.on_flushed(flushed),
            Happened::FlushDue => {
                self.reach(FailPoint::BeforeFlush);
                self.log
                    .start_flush(&self.inner.store, self.fence, self.inner.env.now());
                return Ok(());
            }
        };
        let granted = if let Event::SlotGranted { call } = &event {
            Some(*call)
        } else {
            None
        };
        self.decide(event, step);
        self.perform(step).await?;
        if let Some(call) = granted
            && self.turn.call_to_run(call).is_none()
        {
            // It was stopped while it waited.
            self.slots.remove(&call);
        }
        Ok(())
    }

    /// Downloads for a request to an upstream that gets contents and no addresses.
    fn downloads_for(&self, upstream: &Upstream) -> Option<TurnDownloads> {
        match upstream.accepts.addresses {
            AddressRule::AsSent => None,
            AddressRule::Downloaded => Some(TurnDownloads {
                downloader: self.inner.config.downloader.clone(),
                organization: Arc::clone(&self.work.logged.organization),
                parts: self.work.downloaded.clone(),
            }),
        }
    }

    /// Feeds what was read of the model's answer; what needs no write is shown in one batch.
    async fn on_answer(
        &mut self,
        ask: ModelRequestNumber,
        progress: ModelProgress,
        step: &mut Step,
    ) -> Result<(), DriverStop> {
        // What was sent is not kept any longer.
        self.recovery = None;
        let mut events = std::mem::take(&mut self.model_events);
        if !events.is_empty() {
            self.reach(FailPoint::AnswerBegan);
        }
        let mut batch = Step::default();
        if let Some(tracing) = &mut self.tracing {
            tracing.hear(&events, self.inner.env.now());
        }
        for event in events.drain(..) {
            self.decide(Event::Model { ask, event }, step);
            // What needs no write does not wait for one.
            if batch.write.is_empty() && !step.write.is_empty() {
                self.show(std::mem::take(&mut batch.show)).await?;
            }
            batch.append(step);
            if !batch.then.is_empty() {
                self.perform(&mut batch).await?;
            }
        }
        self.model_events = events;
        if batch.write.is_empty() {
            self.show(batch.show).await?;
        } else {
            self.perform(&mut batch).await?;
        }
        let event = match progress {
            ModelProgress::More => return Ok(()),
            ModelProgress::Ended => Event::ModelEnded { ask },
            ModelProgress::Failed(failure) => Event::ModelFailed { ask, failure },
        };
        if let Some((_, asking)) = &mut self.asking {
            self.metering.aside = asking.take_aside();
        }
        if self.asking.as_ref().is_some_and(|(asked, _)| *asked == ask) {
            self.asking = None;
        }
        self.decide(event, step);
        self.perform(step).await
    }

    fn decide(&mut self, event: Event, step: &mut Step) {
        step.clear();
        self.decide_beside(event, step);
    }

    /// Goes on with the end that the record holds of a call, in place of what the step says of it.
    fn end_found(&mut self, call: CallRef, end: CallEnd, step: &mut Step) {
        let now = self.inner.env.now();
        let mut noted = vec![self.note_end(call, &end, now)];
        if let Some(tracing) = &mut self.tracing {
            let span = tracing.call_ended(&self.turn, call, &end, now);
            noted.push(MeteredEvent::Span(span));
        }
        self.count(noted);
        self.decide_beside(Event::EndFound { call, end }, step);
    }

    /// Adds to a step that is neither written nor shown yet.
    fn decide_beside(&mut self, event: Event, step: &mut Step) {
        let env = &self.inner.env;
        let mut now = Now {
            at: env.now(),
            fresh_id: &mut || env.ordered_id(),
        };
        let ends = matches!(
            &event,
            Event::ModelEnded { .. }
                | Event::Model {
                    event: ModelEvent::Done,
                    ..
                }
        );
        let is_large = ends && self.turn.argument_bytes() > ASIDE_BYTES_MIN;
        let turn = &mut self.turn;
        aside(is_large, || turn.on(event, &mut now, step));
        if self.turn.is_stopping() {
            self.live.set_stopping();
        }
    }

    fn start(&mut self, effect: Effect) {
        match effect {
            Effect::Ask { round, n } => {
                // The connection of the round before serves this one.
                if let Some((_, answered)) = self.asking.take() {
                    answered.finish();
                }
                let upstream = &self.work.upstreams[self.turn.upstream_of(n)];
                let origin = self.turn.origin_of(n);
                let streamed = self.turn.setup().streamed;
                let mut messages = self.work.histories.sent(&self.work.input, &self.turn);
                let settled = self.turn.settled(&messages);
                for (at, message) in &settled {
                    messages[*at] = message;
                }
                let request = self.turn.model_request(
                    &self.work.input,
                    messages,
                    &origin,
                    streamed && upstream.accepts.usage_in_streams,
                );
                let sent = SentModelRequest {
                    model: origin.model.to_string(),
                    body: upstream.format.encode_request(&request, &upstream.accepts),
                    streamed,
                    offered: request.tool_names(),
                    passed: self.work.passed.clone(),
                    trace: self.trace_of_request(round, n),
                    downloads: self.downloads_for(upstream),
                };
                let serial = self.inner.serial.fetch_add(1, Ordering::Relaxed);
                let asking = ModelExchange::new(&self.inner.connections, upstream, sent, serial);
                self.asking = Some((ModelRequestNumber { round, n }, asking));
                self.reach(if round == 1 {
                    FailPoint::Asked
                } else {
                    FailPoint::NextRoundAsked
                });
            }
            Effect::AbortAsk => self.asking = None,
            Effect::RequestSlot { call } => self.wait_for_slot(call),
            Effect::ReleaseSlot { call } => {
                self.slots.remove(&call);
            }
            Effect::Dispatch { call, n } => self.dispatch(call, n),
            Effect::LookUp { call, n } => self.look_up(call, n),
            Effect::AbortCall { call } => {
                if let Some(running) = self.aborts.remove(&call) {
                    running.abort();
                }
            }
            Effect::SetTimer { timer, after } => {
                self.timers.insert((Instant::now() + after, timer));
            }
            // Handled where the step is performed, since it ends the driver.
            Effect::HandOver => {}
        }
    }

    fn reach(&self, point: FailPoint) {
        reach(&self.inner, point);
    }

    fn holds_acceptance(&self) -> bool {
        let config = &self.inner.config;
        FailPoint::holds_acceptance(config.fail_point, config.panic_point.as_ref())
    }
}

fn reach(inner: &RuntimeInner, point: FailPoint) {
    point.reach(inner.config.fail_point);
    if let Some(planted) = &inner.config.panic_point {
        planted.reach(point);
    }
}

/// # Cancel safety
/// The transaction goes on when polled again.
async fn accepted(accepting: &mut Option<Accepting>) -> Result<Vec<Outcome>, StoreApplyError> {
    match accepting {
        Some(accepting) => accepting.apply.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn next_of_answer(
    asking: &mut Option<(ModelRequestNumber, ModelExchange)>,
    events: &mut Vec<ModelEvent>,
) -> (ModelRequestNumber, ModelProgress) {
    match asking {
        Some((ask, asking)) => (*ask, asking.next(events).await),
        None => std::future::pending().await,
    }
}
