//! What holds whatever happens, in whatever order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::{Just, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{Run, ours};
use crate::change::{AttemptOutcome, TurnChange};
use crate::event::LogEvent;
use crate::id::CallRef;
use crate::tool::{EffectClass, ToolOutcome};
use crate::turn::{Effect, Event, Timer, TurnSetup};
use crate::turn_policy::OnLeave;
use crate::turn_status::TurnStatus;

/// One step of the world: which of the likely events happens, or any other line.
#[derive(Clone, Debug)]
enum Choice {
    /// An end of something that is under way, by its place among them, and which end.
    Likely(usize, usize),
    Line(String),
}

const TOOLS: [&str; 5] = ["get_time", "put_row", "pay", "send_mail", "unknown"];
const ENDS: [&str; 8] = [
    "ok fine",
    "refused no",
    "unavailable no",
    "not_sent no",
    "reset no",
    "timeout",
    "panicked",
    "aborted",
];
const FINDINGS: [&str; 3] = ["happened yes", "absent", "unknown"];
/// Weighted so that most answers hold calls: only then is there much to go wrong.
const ANSWERS: [&str; 16] = [
    "call 0 get_time {}",
    "call 0 get_time {}",
    "call 1 send_mail {}",
    "call 1 send_mail {}",
    "call 2 pay {}",
    "call 2 pay {}",
    "call 3 put_row {}",
    "call 3 put_row {}",
    "call 4 get_time {}",
    "call 5 unknown {",
    "text a",
    "usage 1 1",
    "finish stop",
    "done",
    "failed connect",
    "closed",
];

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let rare = [
        "cancel",
        "leave",
        "deadline",
        "finish length",
        "error - no",
        "error 503 no",
        "failed silent",
    ];
    let stale = (1..4u32, 0..3u32, 1..4u32, 0..5usize, 0..ENDS.len()).prop_map(
        |(round, position, n, what, end)| match what {
            0 => format!("end {round}.{position}#{n} {}", ENDS[end]),
            1 => format!("slot {round}.{position}"),
            2 => format!("timer call {round}.{position}#{n}"),
            3 => format!("record {round}.{position} completed by somebody"),
            _ => format!(
                "found {round}.{position}#{n} {}",
                FINDINGS[end % FINDINGS.len()]
            ),
        },
    );
    let call = (0..6u32, prop::sample::select(&TOOLS[..]), any::<bool>()).prop_map(
        |(place, tool, valid)| format!("call {place} {tool} {}", if valid { "{}" } else { "[" }),
    );
    let choice = proptest::prop_oneof![
        30 => (any::<usize>(), any::<usize>()).prop_map(|(which, end)| Choice::Likely(which, end)),
        4 => stale.prop_map(Choice::Line),
        4 => call.prop_map(Choice::Line),
        1 => prop::sample::select(rare.to_vec()).prop_map(|line| Choice::Line(line.to_owned())),
        1 => Just(Choice::Line("timer ask 1#2".to_owned())),
    ];
    prop::collection::vec(choice, 1..120)
}

/// What is under way, and all that was started so far.
#[derive(Default)]
struct World {
    asking: bool,
    slots: BTreeSet<CallRef>,
    running: BTreeMap<CallRef, u32>,
    looking_up: BTreeMap<CallRef, u32>,
    dispatched: BTreeMap<CallRef, u32>,
    /// Ends of attempts, as reported.
    ends: BTreeMap<(CallRef, u32), ToolOutcome>,
    /// Calls that somebody else ended, if they had not ended before.
    found: BTreeSet<CallRef>,
    running_most: usize,
}

impl World {
    fn start(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Ask { .. } => self.asking = true,
                Effect::AbortAsk => self.asking = false,
                Effect::RequestSlot { call } => {
                    self.slots.insert(*call);
                }
                Effect::ReleaseSlot { call } => {
                    self.slots.remove(call);
                }
                Effect::Dispatch { call, n } => {
                    self.running.insert(*call, *n);
                    *self.dispatched.entry(*call).or_default() += 1;
                }
                Effect::AbortCall { call } => {
                    self.running.remove(call);
                    self.looking_up.remove(call);
                }
                Effect::LookUp { call, n } => {
                    self.looking_up.insert(*call, *n);
                }
                Effect::SetTimer { .. } | Effect::HandOver => {}
            }
        }
        self.running_most = self.running_most.max(self.running.len());
    }

    /// The lines of what may happen now.
    fn likely(&self, timers: &[(Timer, std::time::Duration)], end: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let at = |call: &CallRef| format!("{}.{}", call.round, call.position);
        if self.asking {
            lines.push(ANSWERS[end % ANSWERS.len()].to_owned());
        }
        lines.extend(self.slots.iter().map(|call| format!("slot {}", at(call))));
        for (call, n) in &self.running {
            lines.push(format!("end {}#{n} {}", at(call), ENDS[end % ENDS.len()]));
        }
        for (call, n) in &self.looking_up {
            lines.push(format!(
                "found {}#{n} {}",
                at(call),
                FINDINGS[end % FINDINGS.len()]
            ));
        }
        if !timers.is_empty() {
            lines.push("timer".to_owned());
        }
        lines
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::CallEnded {
                call, n, outcome, ..
            } if self.running.get(call) == Some(n) => {
                self.running.remove(call);
                self.ends.insert((*call, *n), outcome.clone());
            }
            Event::LookedUp { call, n, .. } if self.looking_up.get(call) == Some(n) => {
                self.looking_up.remove(call);
            }
            Event::EndFound { call, .. } => {
                self.found.insert(*call);
            }
            Event::CallEnded { .. }
            | Event::LookedUp { .. }
            | Event::SlotGranted { .. }
            | Event::Cached { .. }
            | Event::QuotaReached { .. }
            | Event::Model { .. }
            | Event::ModelEnded { .. }
            | Event::ModelFailed { .. }
            | Event::TimerFired(_)
            | Event::ClientLeft
            | Event::CancelRequested
            | Event::Drained => {}
        }
    }
}

fn setup(parallel: u32, on_leave: OnLeave) -> TurnSetup {
    let mut setup = ours();
    setup.on_leave = on_leave;
    setup.limits.rounds_max = 3;
    setup.limits.calls_per_turn_max = 8;
    setup.limits.calls_parallel_max = parallel;
    setup
}

/// Plays the choices and then, unless the turn has ended, its deadline.
fn play(setup: TurnSetup, choices: &[Choice]) -> (Run, World) {
    let mut run = Run::start(setup);
    let mut world = World {
        asking: true,
        ..World::default()
    };
    for choice in choices {
        let line = match choice {
            Choice::Line(line) => line.clone(),
            Choice::Likely(which, end) => {
                let likely = world.likely(&run.timers, *end);
                if likely.is_empty() {
                    continue;
                }
                likely[which % likely.len()].clone()
            }
        };
        step(&mut run, &mut world, &line);
    }
    step(&mut run, &mut world, "deadline");
    (run, world)
}

fn step(run: &mut Run, world: &mut World, line: &str) {
    let (written, was_ended) = (run.written.len(), run.turn.is_ended());
    run.line(line);
    if let Some(event) = run.played.last() {
        world.note(&event.clone());
    }
    let effects = std::mem::take(&mut run.step.then);
    for effect in &effects {
        if let Effect::Dispatch { call, n } = effect {
            assert!(
                is_open(&run.written, *call, *n),
                "{call:?}#{n} was not written"
            );
        }
    }
    world.start(&effects);
    assert!(
        !was_ended || (run.written.len() == written && effects.is_empty()),
        "{line} changed an ended turn"
    );
}

/// The writes so far start the call and open this attempt, and have not closed it.
fn is_open(written: &[TurnChange], at: CallRef, attempt: u32) -> bool {
    let started = written
        .iter()
        .any(|change| matches!(change, TurnChange::StartCall { call, .. } if *call == at));
    let opened = written.iter().any(|change| {
        matches!(change, TurnChange::OpenAttempt(open)
            if open.round == at.round && open.position == Some(at.position) && open.n == attempt)
    });
    let closed = written.iter().any(|change| {
        matches!(change, TurnChange::CloseAttempt(close)
            if close.round == at.round && close.position == Some(at.position) && close.n == attempt)
    });
    started && opened && !closed
}

fn leaving() -> impl Strategy<Value = OnLeave> {
    proptest::prop_oneof![Just(OnLeave::Stop), Just(OnLeave::Finish)]
}

proptest! {
    /// A terminal state stays terminal: [`step`] checks it after each event.
    #[test]
    fn a_turn_ends_once(choices in choices(), on_leave in leaving()) {
        let (run, _) = play(setup(2, on_leave), &choices);
        prop_assert!(run.turn.is_ended());
        let ends = run.written.iter().filter(|change| matches!(change, TurnChange::EndTurn(_)));
        prop_assert_eq!(ends.count(), 1);
        let ends = run.shown.iter().filter(|event| matches!(event, LogEvent::End(_)));
        prop_assert_eq!(ends.count(), 1);
        prop_assert!(matches!(run.shown.last(), Some(LogEvent::End(_))));
        let starts = run.shown.iter().filter(|event| matches!(event, LogEvent::Start { .. }));
        prop_assert!(starts.count() <= 1);
    }

    #[test]
    fn every_call_and_attempt_ends_once(choices in choices(), on_leave in leaving()) {
        let (run, world) = play(setup(2, on_leave), &choices);
        let mut calls: BTreeMap<CallRef, u32> = BTreeMap::new();
        let mut attempts = BTreeMap::new();
        for change in &run.written {
            match change {
                TurnChange::AddCall(call) => {
                    calls.insert(call.call, u32::from(call.end.is_some()));
                }
                TurnChange::EndCall { call, .. } => *calls.get_mut(call).unwrap() += 1,
                TurnChange::OpenAttempt(open) => {
                    let before = attempts.insert((open.round, open.position, open.n), 0);
                    prop_assert_eq!(before, None, "attempt {:?} was opened twice", open);
                }
                TurnChange::CloseAttempt(close) => {
                    *attempts.get_mut(&(close.round, close.position, close.n)).unwrap() += 1;
                }
                _ => {}
            }
        }
        for (call, ends) in &calls {
            // The end that somebody else wrote is in the record already.
            let fits = *ends == 1 || (*ends == 0 && world.found.contains(call));
            prop_assert!(fits, "{call:?} in {calls:?}");
        }
        prop_assert!(attempts.values().all(|ends| *ends == 1), "{attempts:?}");
    }

    #[test]
    fn effects_never_exceed_their_limits(choices in choices(), parallel in 1..4u32) {
        let (run, world) = play(setup(parallel, OnLeave::Stop), &choices);
        prop_assert!(world.running_most <= parallel as usize);
        for (call, dispatched) in &world.dispatched {
            let policy = &run.turn.tool_of(*call).unwrap().policy;
            prop_assert!(*dispatched <= policy.attempts_max);
        }
        prop_assert!(world.dispatched.len() <= 8, "the turn's call limit");
        for change in &run.written {
            if let TurnChange::OpenAttempt(open) = change {
                prop_assert!(open.round <= 3 && open.n <= 3, "{open:?}");
            }
        }
    }

    /// After an attempt that may have changed the world, a call whose repetition changes it
    /// again is not dispatched.
    #[test]
    fn once_is_once(choices in choices(), parallel in 1..4u32) {
        let (run, world) = play(setup(parallel, OnLeave::Stop), &choices);
        for (call, dispatched) in &world.dispatched {
            if run.turn.tool_of(*call).unwrap().policy.effect != EffectClass::Once {
                continue;
            }
            for n in 1..*dispatched {
                let end = world.ends.get(&(*call, n));
                prop_assert!(matches!(end, Some(ToolOutcome::NotSent { .. })), "{call:?}#{n}: {end:?}");
            }
        }
    }

    /// What has to be approved is asked about at the turn's end, or ends with it, and never runs.
    #[test]
    fn what_needs_approval_never_runs(choices in choices(), on_leave in leaving()) {
        let mut guarding = setup(2, on_leave);
        guarding.offer = guarding.offer.map_ours(|tool| {
            let mut tool = (*tool).clone();
            tool.policy.requires_approval = tool.policy.effect != EffectClass::Read;
            Arc::new(tool)
        });
        let (run, world) = play(guarding, &choices);
        for call in world.dispatched.keys() {
            prop_assert!(!run.turn.tool_of(*call).unwrap().policy.requires_approval, "{call:?} ran");
        }
        let mut held: BTreeMap<CallRef, u32> = BTreeMap::new();
        let mut asked = 0;
        for change in &run.written {
            match change {
                TurnChange::AddCall(call) if call.approval.is_some() => {
                    held.insert(call.call, 0);
                }
                TurnChange::EndCall { call, .. } => {
                    held.entry(*call).and_modify(|ends| *ends += 1);
                }
                TurnChange::AskApproval { call, .. } => {
                    *held.get_mut(call).unwrap() += 1;
                    asked += 1;
                }
                TurnChange::EndTurn(end) if asked > 0 => {
                    prop_assert_eq!(end.status, TurnStatus::Completed);
                }
                _ => {}
            }
        }
        prop_assert!(held.values().all(|ends| *ends == 1), "{held:?}");
        let shown = run.shown.iter().filter(|event| matches!(event, LogEvent::ApprovalAsked { .. }));
        prop_assert_eq!(shown.count(), asked);
    }

    /// Whatever is asked next has an answer to each call, in order.
    #[test]
    fn each_request_answers_every_call(choices in choices()) {
        let (run, _) = play(setup(2, OnLeave::Stop), &choices);
        let whole = run.written.iter().filter(|change| matches!(change,
            TurnChange::CloseAttempt(close) if close.position.is_none() && close.outcome == AttemptOutcome::Ok));
        let request = super::trace::of_request(&run.turn);
        let sent: Vec<&String> = request.iter().filter(|line| line.starts_with("sent")).collect();
        prop_assert_eq!(sent.len(), whole.count());
        let calls: usize = sent.iter().map(|line| line.matches(" call ").count()).sum();
        let results = request.iter().filter(|line| line.starts_with("result")).count();
        prop_assert_eq!(calls, results);
    }
}
