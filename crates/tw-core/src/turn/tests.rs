//! The turn machine, tested through transcripts.
//!
//! A transcript holds events (lines that begin with `>`, several of them apart by ` ; `) and,
//! below each line, all that the machine writes, shows and starts because of it, in order.
//! [`check`] plays the events and compares. Every event that can come twice is delivered twice
//! on the way, and the second time must change nothing.

mod script;
mod trace;

mod approvals;
mod asking;
mod callbacks;
mod calls;
mod charges;
mod deadline;
mod effects;
mod end_found;
mod handing;
mod limits;
mod memory;
mod offering;
mod properties;
mod quirks;
mod quirks_of_the_loop;
mod quotas;
mod recovery;
mod stopping;
mod upstreams;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{
    Effect, Event, FoundTurn, MixedListEntry, ModelRequestNumber, Now, Step, Timer, ToolOffer,
    Turn, TurnSetup,
};
use crate::arguments::ArgumentsSchema;
use crate::change::TurnChange;
use crate::event::LogEvent;
use crate::id::TurnId;
use crate::json::Json;
use crate::limits::{TURN_STREAMED_DEFAULT, TurnLimits};
use crate::model::ModelEvent;
use crate::native::{AnswerOrigin, FormatName};
use crate::time::Timestamp;
use crate::tool::{CallPolicy, EffectClass, Tool, ToolKind};
use crate::turn_policy::{OnLeave, RecordPolicy};

const CREATED: Timestamp = Timestamp(1_000_000_000);
const PARAMETERS: &str =
    r#"{"type":"object","properties":{"zone":{"type":"string"}},"additionalProperties":false}"#;

/// Plays a transcript from a new turn and compares.
fn check(setup: TurnSetup, transcript: &str) {
    let mut run = Run::start(setup);
    run.compare(transcript);
}

/// The same from a turn that was found in the store; `> recover` shows the first step.
fn check_recovered(setup: TurnSetup, found: &FoundTurn, transcript: &str) {
    let mut run = Run::recover(setup, found);
    run.compare(transcript);
}

/// The format of the answers here.
const FORMAT: FormatName = FormatName::new("any");

fn upstreams_named(names: &[&str]) -> Vec<Arc<AnswerOrigin>> {
    let origin = |name: &&str| {
        Arc::new(AnswerOrigin {
            format: FORMAT,
            upstream: (*name).into(),
            model: "m".into(),
        })
    };
    names.iter().map(origin).collect()
}

/// A turn that is offered one tool of each effect class.
fn ours() -> TurnSetup {
    let tools = vec![
        tool("get_time", EffectClass::Read),
        tool("pay", EffectClass::Queryable),
        tool("put_row", EffectClass::Idempotent),
        tool("send_mail", EffectClass::Once),
    ];
    TurnSetup {
        id: TurnId(Uuid::from_u128(7)),
        created: CREATED,
        deadline: CREATED.after(TURN_STREAMED_DEFAULT),
        streamed: true,
        on_leave: OnLeave::Stop,
        record: RecordPolicy::Full,
        model: "m".to_owned(),
        choices: 1,
        choice_is_forced: false,
        is_structured: false,
        completion_tokens_max: None,
        offer: ToolOffer::Ours(tools),
        answered: Vec::new(),
        withheld: Vec::new(),
        limits: TurnLimits::defaults(),
        upstreams: upstreams_named(&["up"]),
        prices: Arc::default(),
        counts_tokens: false,
        memory: None,
    }
}

/// A turn whose client brings two tools of its own beside two of ours.
fn mixed() -> TurnSetup {
    TurnSetup {
        offer: ToolOffer::Mixed(vec![
            MixedListEntry::Client("pick".to_owned()),
            MixedListEntry::Ours(tool("get_time", EffectClass::Read)),
            MixedListEntry::Ours(tool("send_mail", EffectClass::Once)),
            MixedListEntry::Client("draw".to_owned()),
        ]),
        ..ours()
    }
}

/// A turn that is offered no tool of ours.
fn relay() -> TurnSetup {
    TurnSetup {
        offer: ToolOffer::Relay,
        ..ours()
    }
}

fn tool(name: &str, effect: EffectClass) -> Arc<Tool> {
    tool_with(name, PARAMETERS, CallPolicy::new(effect))
}

fn tool_with(name: &str, parameters: &str, policy: CallPolicy) -> Arc<Tool> {
    let parameters = Json::parse(parameters).unwrap();
    Arc::new(Tool {
        name: name.to_owned(),
        description: String::new(),
        schema: ArgumentsSchema::compile(&parameters).unwrap(),
        parameters,
        policy,
        kind: ToolKind::TimeNow,
        version: None,
    })
}

/// One turn being played.
struct Run {
    turn: Turn,
    at: Timestamp,
    ids_given: u128,
    step: Step,
    /// The number of the newest model request.
    asked: ModelRequestNumber,
    timers: Vec<(Timer, Duration)>,
    played: Vec<Event>,
    first: Vec<String>,
    /// All that was written and shown so far.
    written: Vec<TurnChange>,
    shown: Vec<LogEvent>,
}

impl Run {
    fn start(setup: TurnSetup) -> Self {
        Self::begin(|now, step| Turn::start(setup, now, step))
    }

    fn recover(setup: TurnSetup, found: &FoundTurn) -> Self {
        Self::begin(|now, step| Turn::recover(setup, found, now, step))
    }

    fn begin(turn: impl FnOnce(&mut Now<'_>, &mut Step) -> Turn) -> Self {
        let mut step = Step::default();
        let mut ids_given = 0;
        let turn = turn(
            &mut Now {
                at: CREATED,
                fresh_id: &mut || next_id(&mut ids_given),
            },
            &mut step,
        );
        let mut run = Self {
            turn,
            at: CREATED,
            ids_given,
            step,
            asked: ModelRequestNumber { round: 1, n: 0 },
            timers: Vec::new(),
            played: Vec::new(),
            first: Vec::new(),
            written: Vec::new(),
            shown: Vec::new(),
        };
        run.note_step();
        run.first = trace::of_step(&run.step);
        run
    }

    /// A run after some lines whose trace does not matter.
    fn after(setup: TurnSetup, lines: &str) -> Self {
        let mut run = Self::start(setup);
        run.play(lines);
        run
    }

    /// Plays script lines (without `>`) and gives the trace.
    fn play(&mut self, lines: &str) -> Vec<String> {
        let mut trace = Vec::new();
        for line in lines.lines().flat_map(|line| line.split(" ; ")) {
            trace.extend(self.line(line.trim()));
        }
        trace
    }

    fn line(&mut self, line: &str) -> Vec<String> {
        match line {
            "" => Vec::new(),
            "start" | "recover" => std::mem::take(&mut self.first),
            "request" => trace::of_request(&self.turn),
            "timer" => {
                let (timer, after) = self.timers.remove(0);
                self.at = self.at.after(after);
                self.deliver(Event::TimerFired(timer))
            }
            _ => match line.strip_prefix("refused ") {
                Some(line) => {
                    let event = script::event(line, self.asked);
                    self.refuse(event)
                }
                None => {
                    let event = script::event(line, self.asked);
                    self.deliver(event)
                }
            },
        }
    }

    fn deliver(&mut self, event: Event) -> Vec<String> {
        self.on(event.clone());
        let trace = trace::of_step(&self.step);
        self.note_step();
        if self.may_come_twice(&event) {
            let step = std::mem::take(&mut self.step);
            self.on(event.clone());
            let again = trace::of_step(&self.step);
            assert!(again.is_empty(), "{event:?} again led to {again:?}");
            self.step = step;
        }
        self.played.push(event);
        trace
    }

    /// The step before was not written; the trace is all of it as it is after the event.
    fn refuse(&mut self, event: Event) -> Vec<String> {
        let (written, shown) = (self.step.write.len(), self.step.show.len());
        self.written.truncate(self.written.len() - written);
        self.shown.truncate(self.shown.len() - shown);
        self.on_beside(event.clone());
        let trace = trace::of_step(&self.step);
        self.note_step();
        self.played.push(event);
        trace
    }

    fn on(&mut self, event: Event) {
        self.step.clear();
        self.on_beside(event);
    }

    /// Gives an event with the step at hand.
    fn on_beside(&mut self, event: Event) {
        let ids_given = &mut self.ids_given;
        let mut now = Now {
            at: self.at,
            fresh_id: &mut || next_id(ids_given),
        };
        self.turn.on(event, &mut now, &mut self.step);
    }

    fn note_step(&mut self) {
        self.written.extend_from_slice(&self.step.write);
        self.shown.extend_from_slice(&self.step.show);
        for effect in &self.step.then {
            match effect {
                Effect::Ask { round, n } => {
                    self.asked = ModelRequestNumber {
                        round: *round,
                        n: *n,
                    };
                }
                Effect::SetTimer { timer, after } => self.timers.push((*timer, *after)),
                Effect::AbortAsk
                | Effect::RequestSlot { .. }
                | Effect::ReleaseSlot { .. }
                | Effect::Dispatch { .. }
                | Effect::AbortCall { .. }
                | Effect::LookUp { .. }
                | Effect::HandOver => {}
            }
        }
    }

    /// Pieces of an answer add up, and a driver that handed over is gone; everything else may
    /// be reported twice.
    fn may_come_twice(&self, event: &Event) -> bool {
        match event {
            Event::Model { event, .. } => match event {
                ModelEvent::Delta(_)
                | ModelEvent::Call(_)
                | ModelEvent::BlockEnd(_)
                | ModelEvent::Native { .. }
                | ModelEvent::Extra { .. }
                | ModelEvent::Progress { .. } => false,
                ModelEvent::Start { .. }
                | ModelEvent::Finish { .. }
                | ModelEvent::Usage(_)
                | ModelEvent::Error(_)
                | ModelEvent::Done => true,
            },
            Event::Drained => false,
            Event::ModelEnded { .. }
            | Event::ModelFailed { .. }
            | Event::SlotGranted { .. }
            | Event::Cached { .. }
            | Event::QuotaReached { .. }
            | Event::CallEnded { .. }
            | Event::LookedUp { .. }
            | Event::EndFound { .. }
            | Event::TimerFired(_)
            | Event::ClientLeft
            | Event::CancelRequested => true,
        }
    }

    fn compare(&mut self, transcript: &str) {
        let expected: Vec<String> = lines_of(transcript);
        let mut actual = Vec::new();
        for line in &expected {
            if let Some(events) = line.strip_prefix('>') {
                actual.push(line.clone());
                actual.extend(self.play(events));
            }
        }
        assert_same(&actual, &expected);
        if self.turn.is_ended() {
            for event in std::mem::take(&mut self.played) {
                self.on(event.clone());
                assert!(self.step_is_empty(), "{event:?} changed an ended turn");
            }
        }
    }

    fn step_is_empty(&self) -> bool {
        self.step.write.is_empty() && self.step.show.is_empty() && self.step.then.is_empty()
    }
}

fn next_id(given: &mut u128) -> Uuid {
    *given += 1;
    Uuid::from_u128(*given)
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

fn assert_same(actual: &[String], expected: &[String]) {
    assert!(
        actual == expected,
        "the trace is\n{}\n\nand should be\n{}\n",
        actual.join("\n"),
        expected.join("\n")
    );
}
