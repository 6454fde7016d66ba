//! The crash sweep: the real machine over the real store, killed at every boundary.
//!
//! A turn makes calls in its first round and answers in its second. The driver here does what the
//! real one does, in the same order, without a runtime: decide; apply the writes together with
//! the pending log under the fence; show; start. The acceptance comes with the first write or the
//! first thing shown, behind the model's answer. The driver is killed at every numbered boundary (each
//! side of every write, of every effect's start and of every effect's end), and its successor at
//! every boundary of the recovery. Each kill comes in two forms: the driver is gone, or it lives
//! on as a zombie whose writes come after the claim.
//! Everything is deterministic: a run is its configuration and its kills.

mod approvals;
mod check;
mod config;
mod driver;
mod lab;
mod run;
mod world;

use tw_core::tool::EffectClass;
use tw_testkit::postgres::PostgresSchema;

use config::{Kill, LossForm, Mishap, PlantedFault, SweepConfig, orders};
use lab::{SweepLab, SweepPlace};
use run::{Report, run};
use world::InvariantViolation;

/// How deep kills nest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// One kill, once for each kind of boundary.
    Kinds,
    Singles,
    Pairs,
}

#[derive(Default)]
struct Tally {
    runs: u32,
    /// Pairs of boundaries that these runs stand for, in both forms each.
    pairs: usize,
    /// The first run with a violation, told in full.
    failure: Option<(InvariantViolation, String)>,
}

impl Tally {
    fn assert_nothing_found(&self) {
        if let Some((_, told)) = &self.failure {
            panic!("{told}");
        }
    }
}

/// Every single kill, and every pair of kills.
///
/// Between some boundaries nothing leaves the driver: being killed at either is the same, for the
/// dead and for the zombie. Single kills run at all of them, and it is checked that they come to
/// the same; of pairs one of each kind runs.
fn sweep(lab: &mut SweepLab, config: &SweepConfig, depth: Depth, tally: &mut Tally) {
    let Some(whole) = one(lab, config, &[], tally) else {
        return;
    };
    for form in LossForm::ALL {
        let mut before: Option<(u32, String)> = None;
        for (at, done) in whole.points.iter().enumerate() {
            let first = Kill { at, form };
            let is_known = before
                .as_ref()
                .is_some_and(|(done_before, _)| done_before == done);
            if depth == Depth::Kinds && is_known {
                continue;
            }
            let Some(report) = one(lab, config, &[first], tally) else {
                return;
            };
            let same = before
                .as_ref()
                .filter(|(done_before, _)| done_before == done);
            if depth == Depth::Pairs {
                tally.pairs += report.points.len() * LossForm::ALL.len();
            }
            if let Some((_, outcome)) = same {
                assert_eq!(
                    *outcome, report.outcome,
                    "{config}, {first:?} and the boundary before"
                );
                continue;
            }
            before = Some((*done, report.outcome));
            if depth == Depth::Pairs && !pairs(lab, config, first, &report.points, tally) {
                return;
            }
        }
    }
}

/// All second kills after a first one; false if something was found.
fn pairs(
    lab: &mut SweepLab,
    config: &SweepConfig,
    first: Kill,
    points: &[u32],
    tally: &mut Tally,
) -> bool {
    let kinds = (0..points.len()).filter(|at| *at == 0 || points[*at] != points[*at - 1]);
    for at in kinds {
        for form in LossForm::ALL {
            let second = Kill { at, form };
            if one(lab, config, &[first, second], tally).is_none() {
                return false;
            }
        }
    }
    true
}

/// One run; `None` if something was found.
fn one(
    lab: &mut SweepLab,
    config: &SweepConfig,
    kills: &[Kill],
    tally: &mut Tally,
) -> Option<Report> {
    tally.runs += 1;
    let report = run(lab, config, kills, false);
    let Some(violation) = report.violations.first() else {
        return Some(report);
    };
    // The same again, and this time it is written down.
    let trace = run(lab, config, kills, true).trace.join("\n");
    let InvariantViolation { invariant, what } = violation;
    let told = format!("{invariant}: {what}\n{config}\nkills {kills:?}\n{trace}");
    tally.failure = Some((violation.clone(), told));
    None
}

/// `TURNWRIGHT_SWEEP=all` takes every pair; without it the sweep fits into minutes.
const DEPTH_VARIABLE: &str = "TURNWRIGHT_SWEEP";

/// While calls run, a plain turn is like a streamed one, so its pairs stop at two calls. Of the orders in which three
/// calls end, two have pairs: as they were made, and the other way round. Singles have all; the planted faults are all
/// found by singles.
fn depth(order: &[u32], streamed: bool) -> Depth {
    let is_all = std::env::var(DEPTH_VARIABLE).is_ok_and(|depth| depth == "all");
    let is_sorted = order.is_sorted() || order.is_sorted_by(|a, b| a > b);
    if is_all || order.len() < 3 || streamed && is_sorted {
        Depth::Pairs
    } else {
        Depth::Singles
    }
}

/// All of one effect class: one to three calls in all orders, streamed and plain.
fn sweep_class(class: EffectClass) {
    let mut lab = SweepLab::new(SweepPlace::Memory(None));
    for calls in 1..=3 {
        for streamed in [true, false] {
            let config = |order| SweepConfig {
                class,
                order,
                streamed,
                mishap: Mishap::Nothing,
            };
            let in_order = config((0..calls).collect());
            let counted = run(&mut lab, &in_order, &[], false).points.len();
            let kind = if streamed { "streamed" } else { "plain" };
            let name = format!("{}, {calls} calls, {kind}", class.as_str());
            println!("{name}: {counted} boundaries");
            let mut tally = Tally::default();
            for order in orders(calls) {
                let depth = depth(&order, streamed);
                sweep(&mut lab, &config(order), depth, &mut tally);
                tally.assert_nothing_found();
            }
            let Tally { runs, pairs, .. } = tally;
            println!("{name}: {pairs} pairs of kills, by {runs} runs");
        }
    }
}

#[test]
fn read_calls_survive_every_pair_of_kills() {
    sweep_class(EffectClass::Read);
}

#[test]
fn idempotent_calls_survive_every_pair_of_kills() {
    sweep_class(EffectClass::Idempotent);
}

#[test]
fn queryable_calls_survive_every_pair_of_kills() {
    sweep_class(EffectClass::Queryable);
}

#[test]
fn once_calls_survive_every_pair_of_kills() {
    sweep_class(EffectClass::Once);
}

/// Two calls and a mishap, in all classes, beside every kill, and in plain turns every pair.
fn sweep_mishap(mishap: Mishap) {
    let mut lab = SweepLab::new(SweepPlace::Memory(None));
    for class in EffectClass::ALL {
        for streamed in [true, false] {
            let config = SweepConfig {
                class,
                order: vec![1, 0],
                streamed,
                mishap,
            };
            let mut tally = Tally::default();
            // After a crash a streamed turn differs only in open model rounds.
            let depth = if streamed {
                Depth::Singles
            } else {
                Depth::Pairs
            };
            sweep(&mut lab, &config, depth, &mut tally);
            tally.assert_nothing_found();
        }
    }
}

#[test]
fn attempts_that_are_reset_after_their_effect() {
    sweep_mishap(Mishap::Reset);
}

#[test]
fn attempts_that_time_out_after_their_effect() {
    sweep_mishap(Mishap::TimedOut);
}

#[test]
fn attempts_that_are_not_sent() {
    sweep_mishap(Mishap::NotSent);
}

#[test]
fn calls_whose_arguments_do_not_fit() {
    sweep_mishap(Mishap::Invalid);
}

#[test]
fn rounds_that_mix_ours_with_the_clients() {
    sweep_mishap(Mishap::Mixed);
}

#[test]
fn turns_that_end_by_asking_for_an_approval() {
    sweep_mishap(Mishap::Asked);
}

#[test]
fn turns_that_act_on_approvals_first() {
    sweep_mishap(Mishap::Answered);
}

#[test]
fn model_requests_that_fail_before_anything_is_shown() {
    sweep_mishap(Mishap::ModelFails);
}

#[test]
fn turns_that_are_stopped_while_calls_run() {
    sweep_mishap(Mishap::Stopped);
}

#[test]
fn turns_whose_conversation_is_deleted_while_calls_run() {
    sweep_mishap(Mishap::Deleted);
}

#[test]
fn turns_whose_time_is_up_while_calls_run() {
    sweep_mishap(Mishap::Late);
}

#[test]
fn processes_that_end_while_calls_run() {
    sweep_mishap(Mishap::Drained);
}

#[test]
fn calls_that_somebody_else_ends() {
    sweep_mishap(Mishap::Completed);
}

/// On a PostgreSQL server each write is a way there and back, so that here a turn is killed once for each kind of
/// boundary, and only one without a mishap in both forms.
fn sweep_on_postgres(class: EffectClass, mishaps: &[Mishap]) {
    let waiting = tokio::runtime::Runtime::new().unwrap();
    let Some(schema) = waiting.block_on(PostgresSchema::create()) else {
        return;
    };
    let mut lab = SweepLab::new(SweepPlace::Postgres(schema));
    let mut tally = Tally::default();
    for mishap in mishaps {
        let forms: &[bool] = if *mishap == Mishap::Nothing {
            &[true, false]
        } else {
            &[true]
        };
        for streamed in forms {
            let config = SweepConfig {
                class,
                order: vec![1, 0],
                streamed: *streamed,
                mishap: *mishap,
            };
            sweep(&mut lab, &config, Depth::Kinds, &mut tally);
            tally.assert_nothing_found();
        }
    }
    println!("{}: {} runs", class.as_str(), tally.runs);
}

#[test]
fn read_calls_survive_a_kill_on_postgres() {
    sweep_on_postgres(EffectClass::Read, &[Mishap::Nothing, Mishap::Reset]);
}

#[test]
fn idempotent_calls_survive_a_kill_on_postgres() {
    sweep_on_postgres(EffectClass::Idempotent, &[Mishap::Nothing, Mishap::Reset]);
}

#[test]
fn queryable_calls_survive_a_kill_on_postgres() {
    sweep_on_postgres(EffectClass::Queryable, &[Mishap::Nothing, Mishap::Reset]);
}

#[test]
fn once_calls_survive_a_kill_on_postgres() {
    sweep_on_postgres(EffectClass::Once, &[Mishap::Nothing, Mishap::Reset]);
}

#[test]
fn what_goes_wrong_in_a_turn_that_is_killed_on_postgres() {
    sweep_on_postgres(EffectClass::Once, &Mishap::ALL[2..8]);
}

#[test]
fn what_happens_to_a_turn_that_is_killed_on_postgres() {
    sweep_on_postgres(EffectClass::Once, &Mishap::ALL[8..]);
}

/// A planted fault is found, and by an invariant that it breaks.
fn finds(fault: PlantedFault, class: EffectClass, invariants: &[&str]) {
    let mut lab = SweepLab::new(SweepPlace::Memory(Some(fault)));
    let mut tally = Tally::default();
    for calls in 1..=2 {
        for streamed in [true, false] {
            for order in orders(calls) {
                let config = SweepConfig {
                    class,
                    order,
                    streamed,
                    mishap: Mishap::Nothing,
                };
                sweep(&mut lab, &config, Depth::Singles, &mut tally);
                if let Some((violation, told)) = &tally.failure {
                    println!("{fault:?} found in run {}: {told}", tally.runs);
                    let found = violation.invariant;
                    assert!(invariants.contains(&found), "{found} for {fault:?}: {told}");
                    return;
                }
            }
        }
    }
    panic!("{fault:?} was not found in {} runs", tally.runs);
}

#[test]
fn dispatch_before_the_write_is_found() {
    finds(
        PlantedFault::DispatchBeforeWrite,
        EffectClass::Once,
        &["I4"],
    );
}

#[test]
fn a_missing_status_guard_is_found() {
    finds(PlantedFault::NoStatusGuard, EffectClass::Once, &["I5"]);
}

#[test]
fn a_missing_fence_is_found() {
    finds(PlantedFault::NoFence, EffectClass::Read, &["I6"]);
}

#[test]
fn a_result_written_later_is_found() {
    finds(PlantedFault::ResultLater, EffectClass::Read, &["I1", "I3"]);
}

#[test]
fn a_once_call_that_recovery_repeats_is_found() {
    finds(PlantedFault::OnceAgain, EffectClass::Once, &["I4"]);
}

#[test]
fn open_attempts_that_recovery_does_not_count_are_found() {
    finds(PlantedFault::OpenUncounted, EffectClass::Read, &["I1"]);
}
