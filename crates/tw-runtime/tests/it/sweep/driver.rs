//! A driver without a runtime: the same order of things as the real one, one event at a time.

use std::collections::VecDeque;

use tw_core::accepts::Accepts;
use tw_core::change::{ChangeGroup, EventFlush, Fence, NewTurn, Outcome, TurnChange};
use tw_core::event::LogEvent;
use tw_core::id::CallRef;
use tw_core::model::ModelEvent;
use tw_core::tool::ToolOutcome;
use tw_core::turn::{Effect, Event, ModelFailureKind, ModelRequestNumber, Now, Step, Timer, Turn};
use tw_wire::format::WireFormat;

use super::approvals;
use super::check;
use super::config::{Mishap, PlantedFault};
use super::lab::{self, UPSTREAM};
use super::world::{SweepStop, SweepWorld};

pub struct SweepDriver {
    turn: Turn,
    fence: Fence,
    /// The turn with its first changes; `None` once it is accepted.
    new: Option<(Box<NewTurn>, Vec<TurnChange>)>,
    log: Log,
    step: Step,
    /// The step's log is in its writes already, which happens once even if a zombie repeats it.
    composed: bool,
    /// Slots and timers, which come back at once and in order.
    ready: VecDeque<Event>,
    asking: Option<Asking>,
    running: Vec<Running>,
    /// Ends to deliver once more, some time after their second delivery.
    late: VecDeque<Event>,
    has_client: bool,
    /// The turn's end was written by this driver.
    end_written: bool,
}

struct Log {
    next: u64,
    pending: Vec<LogEvent>,
}

struct Asking {
    ask: ModelRequestNumber,
    coming: VecDeque<Coming>,
}

enum Coming {
    Read(Vec<ModelEvent>),
    Flush,
    /// The last read, which holds the answer's end.
    Over(Vec<ModelEvent>),
    Failed,
}

struct Running {
    call: CallRef,
    end: Event,
}

enum Happened {
    /// Something inside, or somebody else.
    Event(Event),
    /// An end that was taken up before.
    Again(Event),
    Read(Vec<ModelEvent>),
    Flush,
    /// The end of an effect.
    End(Vec<Event>),
}

impl SweepDriver {
    /// The driver that accepts the turn, for a client that waits.
    pub fn first(turn: Turn, new: NewTurn, mut step: Step) -> Self {
        let fence = new.fence();
        let mut first = std::mem::take(&mut step.write);
        let shown = step.show.len() as u64;
        if shown > 0 {
            first.push(TurnChange::AppendEvents(EventFlush {
                first: 1,
                events: step.show.clone(),
                at: new.at,
            }));
        }
        Self {
            new: Some((Box::new(new), first)),
            has_client: true,
            ..Self::taken_over(turn, fence, step, shown)
        }
    }

    pub fn taken_over(turn: Turn, fence: Fence, step: Step, events_stored: u64) -> Self {
        Self {
            turn,
            fence,
            new: None,
            log: Log {
                next: events_stored + 1,
                pending: Vec::new(),
            },
            step,
            composed: false,
            ready: VecDeque::new(),
            asking: None,
            running: Vec::new(),
            late: VecDeque::new(),
            has_client: false,
            end_written: false,
        }
    }

    /// Accepts the turn. As in the real driver, the model is asked, and its answer read, while the acceptance is under
    /// way: it comes before the first write, or before what is shown first. A turn that acts on answers begins with
    /// what it shows.
    pub fn accept(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        if !self.step.show.is_empty() {
            self.settle(world)?;
            self.composed = true;
            self.send(world);
        }
        self.start_all(world)?;
        self.drive(world)
    }

    /// Writes the acceptance, if it is not written yet.
    fn settle(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        let Some((new, first)) = &self.new else {
            return Ok(());
        };
        world.reach("before the acceptance")?;
        world.apply(&ChangeGroup::Accept(new.clone(), first.clone()))?;
        self.new = None;
        world.reach("after the acceptance")
    }

    /// Ends two calls from outside: the first before it starts, the second while it runs.
    fn complete(&self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        if world.config.mishap != Mishap::Completed || world.zombie {
            return Ok(());
        }
        let waits =
            |event: &Event| matches!(event, Event::SlotGranted { call } if call.position == 0);
        let position = if self.ready.iter().any(waits) {
            0
        } else if self
            .running
            .iter()
            .any(|running| running.call.position == 1)
        {
            1
        } else {
            return Ok(());
        };
        if world.completed.contains_key(&i64::from(position)) {
            return Ok(());
        }
        world.reach("before an end from outside")?;
        world.complete(position)?;
        world.reach("after an end from outside")
    }

    /// Deletes the turn's conversation once, before whoever did so asks the turn to stop.
    fn delete(&self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        let all_run = self.running.len() == world.config.order.len();
        if world.config.mishap != Mishap::Deleted || world.deleted || world.zombie || !all_run {
            return Ok(());
        }
        let delete = world.lab.delete(&world.setup);
        world.reach("before the decision to delete")?;
        world.apply(&ChangeGroup::Free(vec![delete]))?;
        world.deleted = true;
        world.reach("after the decision to delete")
    }

    /// Goes on with the step at hand, and then until the turn has ended.
    pub fn run(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        self.perform(world)?;
        self.drive(world)
    }

    fn drive(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        while !self.turn.is_ended() {
            world.step()?;
            self.delete(world)?;
            self.complete(world)?;
            let Some(happened) = self.next(world) else {
                if !world.zombie {
                    world.violate("I1", "nothing runs, and the turn has not ended".to_owned());
                }
                return Err(SweepStop::Broken);
            };
            self.on(happened, world)?;
        }
        Ok(())
    }

    fn next(&mut self, world: &mut SweepWorld<'_>) -> Option<Happened> {
        if let Some(event) = self.ready.pop_front() {
            return Some(Happened::Event(event));
        }
        if let Some(event) = self.late.pop_front() {
            return Some(Happened::Again(event));
        }
        if let Some(asking) = &mut self.asking {
            let ask = asking.ask;
            let coming = asking.coming.pop_front();
            return Some(match coming? {
                Coming::Read(events) => Happened::Read(events),
                Coming::Flush => Happened::Flush,
                Coming::Over(events) => {
                    let mut ends: Vec<Event> = events
                        .into_iter()
                        .map(|event| Event::Model { ask, event })
                        .collect();
                    ends.push(Event::ModelEnded { ask });
                    Happened::End(ends)
                }
                Coming::Failed => Happened::End(vec![Event::model_failed(
                    ask,
                    ModelFailureKind::Reset,
                    "connection reset",
                )]),
            });
        }
        if let Some(event) = self.event_of_world(world) {
            return Some(Happened::Event(event));
        }
        let rank = |position: u32| world.config.order.iter().position(|p| *p == position);
        let first =
            (0..self.running.len()).min_by_key(|at| rank(self.running[*at].call.position))?;
        let ended = self.running.remove(first);
        Some(Happened::End(vec![ended.end]))
    }

    fn event_of_world(&self, world: &mut SweepWorld<'_>) -> Option<Event> {
        let all_run = self.running.len() == world.config.order.len();
        if world.zombie || !all_run {
            return None;
        }
        let event = match world.config.mishap {
            Mishap::Stopped | Mishap::Deleted => Event::CancelRequested,
            Mishap::Late => Event::TimerFired(Timer::Deadline),
            Mishap::Drained => Event::Drained,
            Mishap::Nothing
            | Mishap::Reset
            | Mishap::TimedOut
            | Mishap::NotSent
            | Mishap::Invalid
            | Mishap::Mixed
            | Mishap::Asked
            | Mishap::Answered
            | Mishap::ModelFails
            | Mishap::Completed => return None,
        };
        world.act().then_some(event)
    }

    fn on(&mut self, happened: Happened, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        match happened {
            Happened::Event(event) => {
                self.decide(event, world);
                self.perform(world)
            }
            Happened::Again(event) => self.deliver_again(&event, world),
            Happened::Read(events) => {
                let ask = self
                    .asking
                    .as_ref()
                    .map_or(ModelRequestNumber { round: 0, n: 0 }, |asking| asking.ask);
                let events = events.into_iter().map(|event| Event::Model { ask, event });
                self.on_each(events.collect(), world)
            }
            Happened::Flush => self.flush(world),
            Happened::End(events) => {
                world.reach("before an end")?;
                world.reach("after an end")?;
                let last = events.last().cloned();
                let is_answer = matches!(
                    last,
                    Some(Event::ModelEnded { .. } | Event::ModelFailed { .. })
                );
                if is_answer {
                    self.asking = None;
                }
                self.on_each(events, world)?;
                if let Some(last) = last {
                    self.deliver_again(&last, world)?;
                    self.late.push_back(last);
                }
                Ok(())
            }
        }
    }

    /// What needs no write is shown in one batch, as the real driver does.
    fn on_each(&mut self, events: Vec<Event>, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        let mut batch = Vec::new();
        for event in events {
            self.decide(event, world);
            if self.step.write.is_empty() && self.step.then.is_empty() {
                batch.append(&mut self.step.show);
            } else {
                self.show(std::mem::take(&mut batch), world)?;
                self.perform(world)?;
            }
        }
        self.show(batch, world)
    }

    /// An end that comes twice changes nothing.
    fn deliver_again(
        &mut self,
        event: &Event,
        world: &mut SweepWorld<'_>,
    ) -> Result<(), SweepStop> {
        self.decide(event.clone(), world);
        let step = &self.step;
        if step.write.is_empty() && step.show.is_empty() && step.then.is_empty() {
            return Ok(());
        }
        world.violate("I5", format!("the second {event:?} led to {step:?}"));
        Err(SweepStop::Broken)
    }

    fn decide(&mut self, event: Event, world: &mut SweepWorld<'_>) {
        self.step.clear();
        self.composed = false;
        self.decide_beside(event, world);
    }

    /// Adds to the step at hand, which is not written.
    fn decide_beside(&mut self, event: Event, world: &mut SweepWorld<'_>) {
        world.note(|| format!("    {event:?}"));
        let at = world.lab.now();
        let mut now = Now {
            at,
            fresh_id: &mut || world.lab.id(),
        };
        self.turn.on(event, &mut now, &mut self.step);
    }

    fn perform(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        if world.has_fault(PlantedFault::DispatchBeforeWrite) {
            self.start_all(world)?;
        }
        if !self.step.write.is_empty() {
            self.write(world)?;
        } else if !self.composed {
            self.settle(world)?;
            self.composed = true;
            self.log.pending.extend_from_slice(&self.step.show);
        }
        self.send(world);
        self.start_all(world)
    }

    /// One transaction, the log's pending events included; without a call that somebody else has ended, if one of them
    /// has.
    fn write(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        while let Some(found) = self.write_unless_late(world)? {
            self.decompose();
            self.decide_beside(found, world);
        }
        self.end_written |= self
            .step
            .write
            .iter()
            .any(|change| matches!(change, TurnChange::EndTurn(_)));
        self.step.write.clear();
        world.reach("after a write")
    }

    /// The event of a call that has an end already; then nothing is written.
    fn write_unless_late(
        &mut self,
        world: &mut SweepWorld<'_>,
    ) -> Result<Option<Event>, SweepStop> {
        if !self.composed {
            self.composed = true;
            self.log.pending.extend_from_slice(&self.step.show);
            let flush = self.log.take(world);
            self.step.write.extend(flush.map(TurnChange::AppendEvents));
        }
        world.reach("before a write")?;
        self.settle(world)?;
        if world.has_fault(PlantedFault::ResultLater) {
            self.write_results_later(world)?;
            return Ok(None);
        }
        let outcomes = self.apply(self.step.write.clone(), world)?;
        Ok(match outcomes.into_iter().next() {
            Some(Outcome::CallEnded { call, end }) => Some(Event::EndFound { call, end }),
            Some(_) | None => None,
        })
    }

    /// Takes the log's events out of a step that was not written.
    fn decompose(&mut self) {
        self.composed = false;
        let is_flush = |change: &mut TurnChange| matches!(change, TurnChange::AppendEvents(_));
        if let Some(TurnChange::AppendEvents(mut flush)) = self.step.write.pop_if(is_flush) {
            flush
                .events
                .truncate(flush.events.len() - self.step.show.len());
            self.log.next = flush.first;
            self.log.pending = flush.events;
        }
    }

    fn write_results_later(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        let is_result = |change: &TurnChange| matches!(change, TurnChange::EndCall { .. });
        let (results, rest): (Vec<_>, Vec<_>) = self.step.write.drain(..).partition(is_result);
        self.step.write = rest;
        if !results.is_empty() && !self.step.write.is_empty() {
            self.apply(self.step.write.clone(), world)?;
            self.step.write = results;
            world.reach("between the parts of a write")?;
        }
        self.apply(self.step.write.clone(), world)?;
        Ok(())
    }

    fn apply(
        &mut self,
        changes: Vec<TurnChange>,
        world: &mut SweepWorld<'_>,
    ) -> Result<Vec<Outcome>, SweepStop> {
        world.apply(&ChangeGroup::OfTurn(self.fence, changes))
    }

    fn flush(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        self.step.clear();
        self.composed = true;
        let Some(flush) = self.log.take(world) else {
            return Ok(());
        };
        self.step.write.push(TurnChange::AppendEvents(flush));
        self.write(world)
    }

    /// Shows events that need no write of their own.
    fn show(&mut self, events: Vec<LogEvent>, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        if events.is_empty() {
            return Ok(());
        }
        self.settle(world)?;
        self.log.pending.extend_from_slice(&events);
        // What the step at hand holds is not shown here.
        let kept = std::mem::replace(&mut self.step.show, events);
        self.send(world);
        self.step.show = kept;
        world.reach("shown")
    }

    fn send(&mut self, world: &mut SweepWorld<'_>) {
        let events = std::mem::take(&mut self.step.show);
        for event in events {
            if !world.accepted {
                world.violate("I1", format!("shown before the turn is durable: {event:?}"));
            }
            if matches!(event, LogEvent::End(_)) && !self.end_written {
                world.violate("I8", "the end was shown before it was written".to_owned());
            }
            if self.has_client {
                world.show(event);
            }
        }
    }

    /// Starts what the step wants started; an effect stays in the step until it has started.
    fn start_all(&mut self, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        while let Some(effect) = self.step.then.first() {
            let leaves_the_driver = matches!(
                effect,
                Effect::Ask { .. } | Effect::Dispatch { .. } | Effect::LookUp { .. }
            );
            if leaves_the_driver {
                world.reach("before a start")?;
            }
            let effect = self.step.then.remove(0);
            world.note(|| format!("    start {effect:?}"));
            self.start(effect, world)?;
            if leaves_the_driver {
                world.reach("after a start")?;
            }
        }
        Ok(())
    }

    fn start(&mut self, effect: Effect, world: &mut SweepWorld<'_>) -> Result<(), SweepStop> {
        match effect {
            Effect::Ask { round, n } => self.ask(round, n, world),
            Effect::Dispatch { .. } if world.zombie && !world.zombie_may_dispatch() => {}
            Effect::Dispatch { call, n } => {
                if let Some(run) = self.turn.call_to_run(call) {
                    let outcome = world.run_tool(call, n, &run);
                    let end = Event::CallEnded {
                        call,
                        n,
                        outcome,
                        http_status: None,
                    };
                    self.running.push(Running { call, end });
                }
            }
            Effect::LookUp { call, n } => {
                if let Some(run) = self.turn.call_to_run(call) {
                    let found = world.look_up(&run);
                    let end = Event::LookedUp { call, n, found };
                    self.running.push(Running { call, end });
                }
            }
            Effect::AbortAsk => self.asking = None,
            Effect::AbortCall { call } => self.abort(call),
            Effect::RequestSlot { call } => self.ready.push_back(Event::SlotGranted { call }),
            Effect::ReleaseSlot { .. } => {}
            Effect::SetTimer { timer, .. } => self.ready.push_back(Event::TimerFired(timer)),
            Effect::HandOver => return Err(SweepStop::HandedOver),
        }
        Ok(())
    }

    fn ask(&mut self, round: u32, n: u32, world: &mut SweepWorld<'_>) {
        world.ask(round);
        let input = world.lab.input.clone();
        let history = approvals::history(&world.setup, &input.messages);
        let mut messages = history.iter().collect::<Vec<_>>();
        let settled = self.turn.settled(&messages);
        for (at, message) in &settled {
            messages[*at] = message;
        }
        let origin = self.turn.origin_of(n);
        let request = self.turn.model_request(&input, messages, &origin, false);
        check::request(
            &WireFormat::OpenAiChat.encode_request(&request, &Accepts::everything()),
            round,
            world,
        );
        debug_assert_eq!(&*origin.upstream, UPSTREAM);
        let fails = world.config.mishap == Mishap::ModelFails && n == 1;
        let mut coming = VecDeque::new();
        if fails {
            coming.push_back(Coming::Failed);
        } else if world.config.streamed {
            let mut first = lab::answer(round, world.config);
            let mut second = first.split_off(2);
            let over = second.split_off(1);
            coming.push_back(Coming::Read(first));
            coming.push_back(Coming::Flush);
            coming.push_back(Coming::Read(second));
            coming.push_back(Coming::Over(over));
        } else {
            coming.push_back(Coming::Over(lab::answer(round, world.config)));
        }
        self.asking = Some(Asking {
            ask: ModelRequestNumber { round, n },
            coming,
        });
    }

    /// The task still ends, and its end still comes.
    fn abort(&mut self, at: CallRef) {
        for running in self.running.iter_mut().filter(|running| running.call == at) {
            if let Event::CallEnded { outcome, .. } = &mut running.end {
                *outcome = ToolOutcome::Aborted;
            }
        }
    }
}

impl Log {
    fn take(&mut self, world: &mut SweepWorld<'_>) -> Option<EventFlush> {
        if self.pending.is_empty() {
            return None;
        }
        let events = std::mem::take(&mut self.pending);
        let first = self.next;
        self.next += events.len() as u64;
        Some(EventFlush {
            first,
            events,
            at: world.lab.now(),
        })
    }
}
