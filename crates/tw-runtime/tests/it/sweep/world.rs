//! The world of one run: boundaries and kills, the tool's ledger, the client, and what was found.

use std::collections::BTreeMap;

use tw_core::change::{ChangeGroup, Outcome};
use tw_core::event::LogEvent;
use tw_core::id::{CallRef, TurnId};
use tw_core::tool::{EffectClass, LookUp, ToolOutcome, ToolOutput};
use tw_core::turn::{CallToRun, TurnSetup};
use tw_store::apply::StoreApplyError;
use tw_store::read::turn::RecoveredTurn;

use super::check;
use super::config::{Kill, LossForm, Mishap, PlantedFault, SweepConfig};
use super::lab::{self, SweepLab};

/// Events that one driver may take; a turn needs a fraction of it.
const STEPS_MAX: u32 = 300;

/// Something that must not be, and the invariant that it breaks.
#[derive(Clone, Debug)]
pub struct InvariantViolation {
    pub invariant: &'static str,
    pub what: String,
}

/// Why a driver stopped before the turn's end.
#[derive(Debug)]
pub enum SweepStop {
    Killed(LossForm),
    HandedOver,
    /// Another driver has claimed the turn.
    Fenced,
    /// Something is wrong that ends the run; it is noted.
    Broken,
}

/// Effects of one intended action, as the tool's provider sees them.
#[derive(Debug, Default)]
pub struct Effects {
    pub count: u32,
    pub keys: Vec<String>,
}

pub struct SweepWorld<'a> {
    pub lab: &'a mut SweepLab,
    pub config: &'a SweepConfig,
    pub setup: TurnSetup,
    kills: &'a [Kill],
    /// How many of them have happened.
    killed: usize,
    /// Drivers so far.
    pub lives: u32,
    /// How much the drivers have done to the world, or asked of it.
    done: u32,
    /// Boundaries passed since the last kill: for each, what had been done by then. Between two
    /// with the same number nothing left the driver, so being killed at either is the same.
    pub points: Vec<u32>,
    steps: u32,
    /// A zombie drives now: it is not killed again.
    pub zombie: bool,
    /// The accepting write is durable, so the client may have been told so.
    pub accepted: bool,
    /// What happens once beside the turn has happened.
    acted: bool,
    /// The conversation was deleted.
    pub deleted: bool,
    /// What was said of calls by somebody else who ended them, by the argument that the model wrote.
    pub completed: BTreeMap<i64, String>,
    /// By the argument that the model wrote.
    pub ledger: BTreeMap<i64, Effects>,
    /// Model requests by round, and attempts by call.
    pub asked: BTreeMap<u32, u32>,
    pub dispatched: BTreeMap<CallRef, u32>,
    /// What the client that waits has been shown.
    pub shown: Vec<LogEvent>,
    /// The turn's rows as they were last seen.
    pub rows: Option<RecoveredTurn>,
    pub violations: Vec<InvariantViolation>,
    /// Filled only when a run is repeated to be looked at.
    pub trace: Option<Vec<String>>,
}

impl<'a> SweepWorld<'a> {
    pub fn new(
        lab: &'a mut SweepLab,
        config: &'a SweepConfig,
        kills: &'a [Kill],
        traced: bool,
    ) -> Self {
        let setup = lab.setup(config);
        Self {
            lab,
            config,
            setup,
            kills,
            killed: 0,
            lives: 0,
            done: 0,
            points: Vec::new(),
            steps: 0,
            zombie: false,
            accepted: false,
            acted: false,
            deleted: false,
            completed: BTreeMap::new(),
            ledger: BTreeMap::new(),
            asked: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            shown: Vec::new(),
            rows: None,
            violations: Vec::new(),
            trace: traced.then(Vec::new),
        }
    }

    pub fn turn(&self) -> TurnId {
        self.setup.id
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    pub fn violate(&mut self, invariant: &'static str, what: String) {
        self.note(|| format!("!! {invariant}: {what}"));
        self.violations.push(InvariantViolation { invariant, what });
    }

    /// Begins the life of the next driver.
    pub fn begin_life(&mut self) {
        self.lives += 1;
        self.steps = 0;
        let life = self.lives;
        self.note(|| format!("driver {life}"));
    }

    /// The kill that comes next.
    fn kill(&self) -> Option<Kill> {
        self.kills.get(self.killed).copied()
    }

    pub fn was_killed(&self) -> bool {
        !self.kills.is_empty()
    }

    /// A numbered boundary.
    pub fn reach(&mut self, name: &str) -> Result<(), SweepStop> {
        if self.zombie {
            return Ok(());
        }
        let here = self.points.len();
        self.points.push(self.done);
        self.note(|| format!("{here:3} {name}"));
        if let Some(kill) = self.kill()
            && kill.at == here
        {
            self.note(|| format!("    killed, {:?}", kill.form));
            self.killed += 1;
            self.points.clear();
            return Err(SweepStop::Killed(kill.form));
        }
        Ok(())
    }

    /// Counts an event; a driver that takes too many of them goes round in a circle.
    pub fn step(&mut self) -> Result<(), SweepStop> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.violate("I1", format!("no end after {STEPS_MAX} events"));
            return Err(SweepStop::Broken);
        }
        Ok(())
    }

    /// The model gets a request.
    pub fn ask(&mut self, round: u32) {
        self.done += 1;
        *self.asked.entry(round).or_default() += 1;
    }

    /// The client that waits is shown an event.
    pub fn show(&mut self, event: LogEvent) {
        self.done += 1;
        self.note(|| format!("    shown {event:?}"));
        self.shown.push(event);
    }

    /// What happens beside the turn happens now, if it has not yet.
    pub fn act(&mut self) -> bool {
        self.done += u32::from(!self.acted);
        !std::mem::replace(&mut self.acted, true)
    }

    /// Applies a group as one transaction, and looks at what it changed.
    pub fn apply(&mut self, group: &ChangeGroup) -> Result<Vec<Outcome>, SweepStop> {
        self.done += 1;
        let applied = self.lab.store.apply_inline(group);
        self.note(|| format!("    {} -> {applied:?}", names(group)));
        match applied {
            Ok(outcomes) => {
                self.accepted |= matches!(group, ChangeGroup::Accept(..));
                let is_late = matches!(outcomes[..], [Outcome::CallEnded { .. }]);
                if self.zombie && self.is_fenced(group) && !is_late {
                    let names = names(group);
                    self.violate(
                        "I6",
                        format!("after the claim, the old driver wrote {names}"),
                    );
                }
                self.look();
                Ok(outcomes)
            }
            Err(StoreApplyError::Fenced { .. }) if self.zombie => Err(SweepStop::Fenced),
            Err(error) => {
                let names = names(group);
                self.violate("I1", format!("the turn cannot go on: {error} ({names})"));
                Err(SweepStop::Broken)
            }
        }
    }

    /// Whether a claim came after the group's fence.
    fn is_fenced(&self, group: &ChangeGroup) -> bool {
        let stored = self.rows.as_ref().map(|rows| rows.turn.fence);
        let fence = match group {
            ChangeGroup::Accept(new, _) => new.fence(),
            ChangeGroup::OfTurn(fence, _) => *fence,
            ChangeGroup::Free(_) => return false,
        };
        stored.is_some_and(|stored| stored > fence.fence)
    }

    /// Compares the rows with how they were before. What happens before the last kill was looked
    /// at in the run that has one kill less.
    fn look(&mut self) {
        if self.kill().is_none() || self.zombie {
            self.look_now();
        }
    }

    pub fn look_now(&mut self) {
        let found = self.read();
        let mut violations = Vec::new();
        check::rows(self.rows.as_ref(), found.as_ref(), &mut violations);
        for InvariantViolation { invariant, what } in violations {
            self.violate(invariant, what);
        }
        self.rows = found;
    }

    pub fn read(&self) -> Option<RecoveredTurn> {
        let (organization, turn) = (self.lab.organization, self.turn());
        self.lab
            .store
            .turn_for_recovery_now(organization, turn)
            .unwrap()
    }

    /// The tool gets a call: now the effect happens. Returns how the attempt will end.
    pub fn run_tool(&mut self, call: CallRef, n: u32, run: &CallToRun) -> ToolOutcome {
        self.done += 1;
        *self.dispatched.entry(call).or_default() += 1;
        if self.config.mishap == Mishap::NotSent && n == 1 {
            return ToolOutcome::NotSent {
                message: "refused".to_owned(),
            };
        }
        let argument = argument(run);
        if self.completed.contains_key(&argument) && !self.zombie {
            self.violate("I4", format!("call {argument} was sent after its end"));
        }
        let effects = self.ledger.entry(argument).or_default();
        effects.count += 1;
        effects.keys.push(run.idempotency_key.clone());
        match self.config.mishap {
            Mishap::Reset if n == 1 => ToolOutcome::Reset {
                message: "connection reset".to_owned(),
            },
            Mishap::TimedOut if n == 1 => ToolOutcome::TimedOut,
            Mishap::Nothing
            | Mishap::Reset
            | Mishap::TimedOut
            | Mishap::NotSent
            | Mishap::Invalid
            | Mishap::Mixed
            | Mishap::Asked
            | Mishap::Answered
            | Mishap::ModelFails
            | Mishap::Stopped
            | Mishap::Deleted
            | Mishap::Late
            | Mishap::Drained
            | Mishap::Completed => ToolOutcome::Answered(output(argument)),
        }
    }

    /// Somebody else ends a call of the first round.
    pub fn complete(&mut self, position: u32) -> Result<(), SweepStop> {
        let rows = self.read().unwrap();
        let at = CallRef { round: 1, position };
        let row = rows.calls.iter().find(|row| row.call.call == at).unwrap();
        let argument = i64::from(position);
        let shown = format!("{argument} by another");
        let complete = self.lab.complete(row.call.id, &shown);
        let outcomes = self.apply(&ChangeGroup::Free(vec![complete]))?;
        if outcomes != [Outcome::Done] {
            self.violate("I5", format!("ending call {argument} came to {outcomes:?}"));
        }
        self.completed.insert(argument, shown);
        Ok(())
    }

    pub fn look_up(&mut self, run: &CallToRun) -> LookUp {
        self.done += 1;
        let argument = argument(run);
        match self.ledger.get(&argument) {
            Some(effects) if effects.keys.contains(&run.idempotency_key) => {
                LookUp::Happened(output(argument))
            }
            Some(_) | None => LookUp::Absent,
        }
    }

    /// Whether a driver that is paused between a write and the start of what it allows may go on
    /// to start it, after another has claimed the turn.
    ///
    /// A `queryable` call is not fit for that: the new driver has asked, and heard that nothing
    /// happened. It needs two live drivers, which the lock on the data directory rules out.
    pub fn zombie_may_dispatch(&self) -> bool {
        self.config.class != EffectClass::Queryable
    }

    pub fn has_fault(&self, fault: PlantedFault) -> bool {
        self.lab.fault() == Some(fault)
    }
}

fn argument(run: &CallToRun) -> i64 {
    run.args.json().to_value()["i"].as_i64().unwrap()
}

fn output(argument: i64) -> ToolOutput {
    ToolOutput::Text {
        text: lab::tool_answer(argument),
        cut: false,
        selected: None,
    }
}

/// The changes' names, for people.
fn names(group: &ChangeGroup) -> String {
    let names: Vec<String> = match group {
        ChangeGroup::Accept(_, first) => std::iter::once("Accept".to_owned())
            .chain(first.iter().map(name))
            .collect(),
        ChangeGroup::OfTurn(_, changes) => changes.iter().map(name).collect(),
        ChangeGroup::Free(changes) => changes.iter().map(name).collect(),
    };
    names.join("+")
}

fn name(change: &impl std::fmt::Debug) -> String {
    let text = format!("{change:?}");
    let end = text.find(['(', ' ', '{']).unwrap_or(text.len());
    text[..end].to_owned()
}
