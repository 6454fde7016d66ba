//! Random writes to one turn, beside a model that says what each must do and what is left afterwards.

use std::collections::BTreeMap;

use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;
use tw_core::call::{CallReason, CallRunner, CallStatus};
use tw_core::change::{
    AttemptOutcome, Change, ChangeGroup, ClaimTurn, CloseAttempt, HandedCall, NewCall,
    NewOrganization, Outcome, TurnChange,
};
use tw_core::id::TurnId;
use tw_core::turn_status::TurnStatus;
use tw_store::store::Store;

use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, failed, flush, message, model_attempt,
    pending_call,
};

#[derive(Clone, Debug)]
enum Op {
    OpenAttempt { n: u32 },
    CloseAttempt { n: u32 },
    AddMessage { seq: u32 },
    AddCall { position: u32 },
    HandOver { position: u32 },
    StartCall { position: u32 },
    EndCall { position: u32, failed: bool },
    AppendEvents { first: u64, count: u64 },
    NoteResumed,
    EndTurn(TurnStatus),
}

/// Writes of one group under a fence, or the claim by one of two owners.
/// The call that the client runs; the others are ours.
const OF_THE_CLIENT: u32 = 2;

#[derive(Clone, Debug)]
enum Step {
    Group { fence: i64, ops: Vec<Op> },
    Claim { owner: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let ends = [
        TurnStatus::Completed,
        TurnStatus::Incomplete,
        TurnStatus::Failed,
        TurnStatus::Cancelled,
    ];
    prop_oneof![
        (1..4u32).prop_map(|n| Op::OpenAttempt { n }),
        (1..4u32).prop_map(|n| Op::CloseAttempt { n }),
        (0..3u32).prop_map(|seq| Op::AddMessage { seq }),
        (0..3u32).prop_map(|position| Op::AddCall { position }),
        (0..3u32).prop_map(|position| Op::HandOver { position }),
        (0..3u32).prop_map(|position| Op::StartCall { position }),
        (0..3u32, any::<bool>()).prop_map(|(position, failed)| Op::EndCall { position, failed }),
        (1..8u64, 1..3u64).prop_map(|(first, count)| Op::AppendEvents { first, count }),
        proptest::strategy::Just(Op::NoteResumed),
        (0..ends.len()).prop_map(move |end| Op::EndTurn(ends[end])),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let group = (1..3i64, proptest::collection::vec(op(), 0..4))
        .prop_map(|(fence, ops)| Step::Group { fence, ops });
    prop_oneof![8 => group, 1 => any::<bool>().prop_map(|owner| Step::Claim { owner })]
}

/// What the store must hold.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    fence: i64,
    owner: String,
    claims_open: u32,
    status: TurnStatus,
    /// By number: closed or not.
    attempts: BTreeMap<u32, bool>,
    messages: Vec<u32>,
    calls: BTreeMap<u32, CallStatus>,
    events: u64,
}

impl Model {
    /// Whether the write is allowed; then it has happened.
    fn apply(&mut self, op: &Op) -> bool {
        match *op {
            Op::OpenAttempt { n } => self.attempts.insert(n, false).is_none(),
            Op::CloseAttempt { n } => self.attempts.insert(n, true) == Some(false),
            Op::AddMessage { seq } => {
                let is_new = !self.messages.contains(&seq);
                self.messages.push(seq);
                self.messages.sort_unstable();
                is_new
            }
            Op::AddCall { position } => self.calls.insert(position, CallStatus::Pending).is_none(),
            Op::HandOver { position } => {
                let before = self.calls.insert(position, CallStatus::Completed);
                position == OF_THE_CLIENT && before == Some(CallStatus::Pending)
            }
            Op::StartCall { position } => {
                self.calls.insert(position, CallStatus::Processing) == Some(CallStatus::Pending)
            }
            Op::EndCall { position, failed } => {
                let end = if failed {
                    CallStatus::Failed
                } else {
                    CallStatus::Completed
                };
                self.calls
                    .insert(position, end)
                    .is_some_and(|before| !before.is_final())
            }
            Op::AppendEvents { first, count } => {
                let follows = first == self.events + 1;
                self.events += count;
                follows
            }
            Op::NoteResumed => {
                self.claims_open = 0;
                true
            }
            Op::EndTurn(status) => {
                let was_running = !self.status.is_final();
                self.status = status;
                was_running
            }
        }
    }

    /// A group happens whole or not at all.
    fn apply_group(&mut self, fence: i64, ops: &[Op]) -> bool {
        let mut after = self.clone();
        let allowed = fence == self.fence && ops.iter().all(|op| after.apply(op));
        if allowed {
            *self = after;
        }
        allowed
    }

    fn claim(&mut self, owner: &str) -> Outcome {
        if self.status.is_final() || self.owner == owner {
            return Outcome::Already;
        }
        self.fence += 1;
        self.owner = owner.to_owned();
        let open = self.claims_open;
        self.claims_open += 1;
        Outcome::Claimed {
            fence: self.fence,
            open,
        }
    }

    fn stored(world: &StoreWorld, turn: TurnId) -> Self {
        let found = world
            .store
            .turn_for_recovery_now(world.organization, turn)
            .unwrap()
            .unwrap();
        Self {
            fence: found.turn.fence,
            owner: found.turn.owner,
            // The next claim tells.
            claims_open: 0,
            status: found.turn.status,
            attempts: found
                .attempts
                .iter()
                .map(|attempt| (attempt.n, attempt.end.is_some()))
                .collect(),
            messages: found
                .messages
                .iter()
                .filter(|one| one.round == 1)
                .map(|one| one.seq)
                .collect(),
            calls: found
                .calls
                .iter()
                .map(|row| (row.call.call.position, row.call.status))
                .collect(),
            events: u64::try_from(found.events.len()).unwrap(),
        }
    }
}

fn change(turn: TurnId, op: &Op) -> TurnChange {
    match *op {
        Op::OpenAttempt { n } => TurnChange::OpenAttempt(model_attempt(1, n)),
        Op::CloseAttempt { n } => TurnChange::CloseAttempt(CloseAttempt {
            round: 1,
            position: None,
            n,
            outcome: AttemptOutcome::Ok,
            http_status: None,
            usage: None,
            at: at(8),
        }),
        Op::AddMessage { seq } => TurnChange::AddMessage(message(1, seq)),
        Op::AddCall { position } => {
            let runs = if position == OF_THE_CLIENT {
                CallRunner::Client
            } else {
                CallRunner::Server
            };
            TurnChange::AddCall(Box::new(NewCall {
                runs,
                ..pending_call(turn, call_ref(1, position))
            }))
        }
        Op::HandOver { position } => TurnChange::HandOverCall(Box::new(HandedCall {
            call: call_ref(1, position),
            tool_name: "pick".to_owned(),
            tool_call_id: "up".to_owned(),
            arguments: "{}".to_owned(),
            at: at(7),
        })),
        Op::StartCall { position } => TurnChange::StartCall {
            call: call_ref(1, position),
            at: at(6),
        },
        Op::EndCall {
            position,
            failed: is_failed,
        } => {
            let end = if is_failed {
                failed(CallReason::Timeout)
            } else {
                completed()
            };
            TurnChange::EndCall {
                call: call_ref(1, position),
                end,
                at: at(7),
            }
        }
        Op::AppendEvents { first, count } => TurnChange::AppendEvents(flush(first, count)),
        Op::NoteResumed => TurnChange::NoteResumed { at: at(7) },
        Op::EndTurn(status) => TurnChange::EndTurn(end_turn(status)),
    }
}

#[test]
fn the_store_does_what_the_model_does() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let store = Store::in_memory_inline().unwrap();
    let world = runtime.block_on(StoreWorld::fill(store, None, None));
    compare(&runtime, &world, 256);
}

/// Fewer, since each write waits for the server's disk.
#[test]
fn a_server_does_what_the_model_does() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    if let Some(world) = runtime.block_on(StoreWorld::on_postgres_inline()) {
        compare(&runtime, &world, 24);
    }
}

fn compare(runtime: &Runtime, world: &StoreWorld, cases: u32) {
    let mut n = 0;
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let turn = std::cell::RefCell::new(&mut n);
    let result = runner.run(&proptest::collection::vec(step(), 1..24), |steps| {
        let n = {
            let mut n = turn.borrow_mut();
            **n += 1;
            **n
        };
        check(world, n, &steps);
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
    let other = NewOrganization {
        slug: "last".to_owned(),
        name: String::new(),
        at: at(9),
    };
    world
        .store
        .apply_inline(&ChangeGroup::Free(vec![Change::CreateOrganization(other)]))
        .unwrap();
    assert_eq!(
        runtime.block_on(world.store.integrity_check()).unwrap(),
        Vec::<String>::new()
    );
}

fn check(world: &StoreWorld, n: u128, steps: &[Step]) {
    let new = world.new_turn(n);
    let turn = new.id;
    let mut model = Model {
        fence: 1,
        owner: new.owner.clone(),
        claims_open: 0,
        status: TurnStatus::Running,
        attempts: BTreeMap::new(),
        messages: Vec::new(),
        calls: BTreeMap::new(),
        events: 0,
    };
    world
        .store
        .apply_inline(&ChangeGroup::Accept(Box::new(new), Vec::new()))
        .unwrap();
    for step in steps {
        match step {
            Step::Group { fence, ops } => {
                let changes = ops.iter().map(|op| change(turn, op)).collect();
                let written = world
                    .store
                    .apply_inline(&ChangeGroup::OfTurn(world.fence(turn, *fence), changes));
                let is_written = match &written {
                    Ok(outcomes) => outcomes.iter().all(|outcome| *outcome == Outcome::Done),
                    Err(_) => false,
                };
                assert_eq!(
                    is_written,
                    model.apply_group(*fence, ops),
                    "{step:?}: {written:?}"
                );
            }
            Step::Claim { owner } => {
                let owner = if *owner { "boot 1" } else { "boot 2" };
                let (organization, name) = (world.organization, owner.to_owned());
                let claim = Change::ClaimTurn(ClaimTurn {
                    organization,
                    turn,
                    owner: name,
                    at: at(9),
                });
                let outcomes = world
                    .store
                    .apply_inline(&ChangeGroup::Free(vec![claim]))
                    .unwrap();
                assert_eq!(outcomes, [model.claim(owner)]);
            }
        }
        let stored = Model {
            claims_open: model.claims_open,
            ..Model::stored(world, turn)
        };
        assert_eq!(stored, model, "after {step:?}");
    }
}
