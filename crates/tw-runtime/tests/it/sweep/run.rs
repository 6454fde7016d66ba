//! One run: a turn, its kills, the recoveries, and the checks at the end.

use tw_core::call::{CallEnd, CallReason};
use tw_core::change::{Change, ChangeGroup, ClaimTurn, EndTurn, Fence, Outcome, TurnChange};
use tw_core::id::TurnId;
use tw_core::tool::EffectClass;
use tw_core::turn::{FoundTurn, Now, Step, Turn, TurnSetup};
use tw_core::turn_status::TurnStatus;
use tw_runtime::recover::found_turn;
use tw_store::read::turn::RecoveredTurn;
use tw_store::system;

use super::check;
use super::config::{Kill, LossForm, Mishap, PlantedFault, SweepConfig};
use super::driver::SweepDriver;
use super::lab::SweepLab;
use super::world::{InvariantViolation, SweepStop, SweepWorld};

/// Drivers of one turn: the first, one after each of two kills and one after a hand-over.
const LIVES_MAX: u32 = 4;

pub struct Report {
    /// Boundaries passed since the last kill, as [`World::points`] has them.
    pub points: Vec<u32>,
    /// How the turn and its calls ended, and how often each effect happened.
    pub outcome: String,
    pub violations: Vec<InvariantViolation>,
    pub trace: Vec<String>,
}

/// Runs a turn with these kills. `traced` keeps a line for everything that happens.
pub fn run(lab: &mut SweepLab, config: &SweepConfig, kills: &[Kill], traced: bool) -> Report {
    let mut world = SweepWorld::new(lab, config, kills, traced);
    let mut zombies = Vec::new();
    if live(&mut world, &mut zombies) {
        world.zombie = true;
        for zombie in &mut zombies {
            // What was refused right after the claim is refused for ever.
            let _refused = zombie.run(&mut world);
        }
        world.zombie = false;
        check::end(&mut world);
        if kills.len() < 2 {
            write_again(&mut world);
            answer_again(&mut world);
        }
        check::erasure(&mut world);
    }
    Report {
        outcome: outcome(&world),
        points: world.points,
        violations: world.violations,
        trace: world.trace.unwrap_or_default(),
    }
}

fn outcome(world: &SweepWorld<'_>) -> String {
    let counts: Vec<u32> = world.ledger.values().map(|effects| effects.count).collect();
    let Some(rows) = &world.rows else {
        return format!("not accepted, {counts:?}");
    };
    let ends: Vec<_> = rows
        .calls
        .iter()
        .map(|row| row.call.end.as_ref().map(|end| end.reason))
        .collect();
    let (status, reason) = (rows.turn.status, rows.turn.reason);
    format!(
        "{status:?} {reason:?}, calls {ends:?}, effects {counts:?}, log {}",
        rows.events.len()
    )
}

/// Drives the turn until nobody has to; false if that cannot be.
fn live(world: &mut SweepWorld<'_>, zombies: &mut Vec<SweepDriver>) -> bool {
    world.begin_life();
    let mut driver = first(world);
    let mut stopped = driver.accept(world);
    loop {
        match stopped {
            Ok(()) => return true,
            // Nobody claims a turn that was never written, so its zombie would be a slow driver.
            Err(SweepStop::Killed(LossForm::Zombie)) if world.accepted => zombies.push(driver),
            Err(SweepStop::Killed(_) | SweepStop::HandedOver) => {}
            Err(SweepStop::Fenced | SweepStop::Broken) => return false,
        }
        loop {
            if world.lives == LIVES_MAX {
                world.violate("I1", format!("not ended by {LIVES_MAX} drivers"));
                return false;
            }
            world.begin_life();
            match take_over(world, zombies) {
                Ok(Some(next)) => {
                    driver = next;
                    break;
                }
                Ok(None) => return true,
                Err(SweepStop::Killed(_)) => {}
                Err(SweepStop::HandedOver | SweepStop::Fenced | SweepStop::Broken) => return false,
            }
        }
        stopped = driver.run(world);
    }
}

fn owner(world: &SweepWorld<'_>) -> String {
    format!("driver {}", world.lives)
}

fn first(world: &mut SweepWorld<'_>) -> SweepDriver {
    let setup = world.setup.clone();
    let owner = owner(world);
    let new = world.lab.new_turn(&setup, &owner);
    let at = setup.created;
    let mut step = Step::default();
    let mut now = Now {
        at,
        fresh_id: &mut || world.lab.id(),
    };
    let turn = Turn::start(setup, &mut now, &mut step);
    SweepDriver::first(turn, new, step)
}

/// Claims the turn and rebuilds it; `None` if there is nothing to claim.
fn take_over(
    world: &mut SweepWorld<'_>,
    zombies: &mut Vec<SweepDriver>,
) -> Result<Option<SweepDriver>, SweepStop> {
    let owner = owner(world);
    let unfinished = system::unfinished_turns_now(&world.lab.store, &owner, 10).unwrap();
    let (organization, turn) = (world.lab.organization, world.turn());
    if !unfinished.contains(&(organization, turn)) {
        return Ok(None);
    }
    world.reach("before the claim")?;
    let claim = ClaimTurn {
        organization,
        turn,
        owner,
        at: world.lab.now(),
    };
    let outcomes = world.apply(&ChangeGroup::Free(vec![Change::ClaimTurn(claim)]))?;
    let [Outcome::Claimed { fence, .. }] = outcomes[..] else {
        world.violate("I1", format!("the claim came to {outcomes:?}"));
        return Err(SweepStop::Broken);
    };
    let fence = Fence {
        organization,
        turn,
        fence,
    };
    let driver = rebuild(world, fence);
    match world.reach("after the claim") {
        Ok(()) => {}
        Err(SweepStop::Killed(LossForm::Zombie)) => {
            zombies.push(driver);
            return Err(SweepStop::Killed(LossForm::Zombie));
        }
        Err(stopped) => return Err(stopped),
    }
    world.zombie = true;
    for zombie in zombies {
        // It stops by itself when its write is refused, or when nothing of it runs any more.
        let _refused = zombie.run(world);
    }
    world.zombie = false;
    Ok(Some(driver))
}

fn rebuild(world: &mut SweepWorld<'_>, fence: Fence) -> SweepDriver {
    world.look_now();
    let rows = world.rows.clone().unwrap();
    let found = found(&rows, world);
    let setup = world.setup.clone();
    let at = world.lab.now();
    let mut step = Step::default();
    let mut now = Now {
        at,
        fresh_id: &mut || world.lab.id(),
    };
    let turn = Turn::recover(setup, &found, &mut now, &mut step);
    let stored = rows.events.last().map_or(0, |event| event.number);
    SweepDriver::taken_over(turn, fence, step, stored)
}

fn found(rows: &RecoveredTurn, world: &SweepWorld<'_>) -> FoundTurn {
    let mut found = found_turn(rows);
    if world.has_fault(PlantedFault::OpenUncounted) {
        found.attempts.retain(|attempt| attempt.outcome.is_some());
    }
    if world.has_fault(PlantedFault::OnceAgain) {
        for call in &mut found.calls {
            call.effect = Some(EffectClass::Idempotent);
        }
    }
    found
}

/// A second turn that answers for the same calls is refused by the store, once the first one is there.
fn answer_again(world: &mut SweepWorld<'_>) {
    if world.config.mishap != Mishap::Answered || !world.accepted {
        return;
    }
    let setup = TurnSetup {
        id: TurnId(world.lab.id()),
        ..world.setup.clone()
    };
    let again = Box::new(world.lab.new_turn(&setup, "another"));
    let group = ChangeGroup::Accept(again, Vec::new());
    let written = world.lab.store.apply_inline(&group);
    let asked = world.setup.answered[0].asked;
    if !matches!(&written, Ok(outcomes) if outcomes[..] == [Outcome::ApprovalClosed { asked }]) {
        world.violate("I5", format!("a second answer came to {written:?}"));
    }
}

/// A second result and a second end, from somebody who holds the fence and has not looked, must
/// be refused by the store itself.
fn write_again(world: &mut SweepWorld<'_>) {
    let Some(rows) = world.rows.clone() else {
        return;
    };
    let fence = Fence {
        organization: world.lab.organization,
        turn: world.turn(),
        fence: rows.turn.fence,
    };
    let at = world.lab.now();
    let mut writes = vec![TurnChange::EndTurn(EndTurn {
        status: TurnStatus::Failed,
        reason: None,
        usage: None,
        has_tool_calls: false,
        tool_count: 0,
        had_effects: false,
        remembered: None,
        erase_after: None,
        at,
    })];
    if let Some(row) = rows.calls.first() {
        let call = row.call.call;
        writes.push(TurnChange::StartCall { call, at });
        let end = CallEnd {
            reason: Some(CallReason::ToolError),
            result: None,
            shown: "another end".to_owned(),
            is_error: true,
            cached: false,
        };
        writes.push(TurnChange::EndCall { call, end, at });
    }
    for write in writes {
        let group = ChangeGroup::OfTurn(fence, vec![write]);
        let written = world.lab.store.apply_inline(&group);
        let is_refused = match &written {
            Ok(outcomes) => matches!(outcomes[..], [Outcome::CallEnded { .. }]),
            Err(_) => true,
        };
        if !is_refused {
            world.violate(
                "I5",
                format!("{group:?} over a final state came to {written:?}"),
            );
        }
    }
    world.look_now();
}
