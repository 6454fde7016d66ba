//! Calls that a callback ends: awaiting it, going on without, what each callback comes to, and the deadline.

use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::callback::{CallbackMeaning, CallbackOutcome, CallbackVerdict, TakenCallback};
use tw_core::change::{AwaitedCallback, Change, NewCall, NewTurn, Outcome, TurnChange};
use tw_core::id::{OrgId, TurnId};
use tw_core::turn_policy::RecordPolicy;
use tw_core::turn_status::TurnStatus;
use tw_store::read::turn::CallRow;
use tw_store::system::callbacks::callback_target;
use tw_store::system::ended_calls::{EndedCall, ended_calls};

use crate::tools::new_tool;
use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, failed, on_each_store, pending_call, turn_id,
};

/// A turn with a call that runs.
pub async fn turn_with_call(world: &StoreWorld, n: u128) -> (TurnId, NewCall) {
    let turn = world.accept(n).await;
    let call = NewCall {
        status: CallStatus::Processing,
        ..pending_call(turn, call_ref(1, 0))
    };
    let add = TurnChange::AddCall(Box::new(call.clone()));
    world.write_turn(turn, vec![add]).await.unwrap();
    (turn, call)
}

pub fn awaits(call: &NewCall) -> TurnChange {
    TurnChange::AwaitCallback(AwaitedCallback {
        call: call.call,
        external_id: Some("job-7".to_owned()),
        until: at(1000),
        poll_at: None,
        at: at(10),
    })
}

fn detaches(call: &NewCall) -> TurnChange {
    TurnChange::DetachCall {
        call: call.call,
        told: "started".to_owned(),
        at: at(10),
    }
}

pub async fn row(world: &StoreWorld, turn: TurnId) -> CallRow {
    world.recovered(turn).await.calls.remove(0)
}

pub fn taken(call: Option<(OrgId, &NewCall)>, n: u8, meaning: CallbackMeaning) -> TakenCallback {
    TakenCallback {
        id: format!("cb_{n}"),
        call: call.map(|(organization, call)| (organization, call.id)),
        tool: "draw".to_owned(),
        sender_id: format!("sent {n}"),
        source: "192.0.2.1".to_owned(),
        verdict: match meaning {
            CallbackMeaning::Refused => CallbackVerdict::Forged,
            _ => CallbackVerdict::Genuine,
        },
        fault: None,
        meaning,
        external_id: None,
        body: b"{}".to_vec(),
        body_hash: [n; 32],
        at: at(20),
    }
}

pub async fn take(world: &StoreWorld, taken: TakenCallback) -> CallbackOutcome {
    match world.write(Change::TakeCallback(Box::new(taken))).await {
        Ok(Outcome::CallbackTaken(outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

fn by_callback() -> CallEnd {
    CallEnd {
        shown: "a picture".to_owned(),
        ..completed()
    }
}

#[tokio::test]
async fn what_the_model_was_told_stays_beside_the_end() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_call(&world, 1).await;
        world
            .write_turn(turn, vec![awaits(&call), detaches(&call)])
            .await
            .unwrap();
        let open = row(&world, turn).await;
        assert!(open.awaits_callback());
        assert_eq!(open.external_id.as_deref(), Some("job-7"));
        assert_eq!(open.seen(), Some("started"));
        world
            .write_turn(
                turn,
                vec![TurnChange::EndTurn(end_turn(TurnStatus::Completed))],
            )
            .await
            .unwrap();
        let end = CallbackMeaning::Ended(by_callback());
        let of = Some((world.organization, &call));
        assert_eq!(
            take(&world, taken(of, 1, end)).await,
            CallbackOutcome::Completed
        );
        let ended = row(&world, turn).await;
        assert_eq!(ended.call.end, Some(by_callback()));
        assert_eq!(ended.seen(), Some("started"));
    })
    .await;
}

#[tokio::test]
async fn a_driver_that_comes_after_the_callback_is_told_its_end() {
    on_each_store(async |world| {
        let changes = [awaits as fn(&NewCall) -> TurnChange, detaches];
        for (late, n) in changes.into_iter().zip(1_u8..) {
            let (turn, call) = turn_with_call(&world, n.into()).await;
            let of = Some((world.organization, &call));
            let end = CallbackMeaning::Ended(by_callback());
            let outcome = take(&world, taken(of, n, end)).await;
            assert_eq!(outcome, CallbackOutcome::Completed);
            let written = world.write_turn(turn, vec![late(&call)]).await.unwrap();
            let ended = Outcome::CallEnded {
                call: call.call,
                end: by_callback(),
            };
            assert_eq!(written, [ended]);
        }
    })
    .await;
}

#[tokio::test]
async fn each_callback_comes_to_one_thing() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_call(&world, 1).await;
        world.write_turn(turn, vec![awaits(&call)]).await.unwrap();
        let of = Some((world.organization, &call));
        let strange = Some((world.stranger, &call));
        let failure = failed(CallReason::ToolError);
        for (of, sent, n, meaning, outcome) in [
            (
                None,
                1,
                1,
                CallbackMeaning::Refused,
                CallbackOutcome::Refused,
            ),
            (of, 1, 2, CallbackMeaning::Refused, CallbackOutcome::Refused),
            (
                strange,
                1,
                3,
                CallbackMeaning::Progress,
                CallbackOutcome::Refused,
            ),
            (
                of,
                1,
                4,
                CallbackMeaning::Malformed,
                CallbackOutcome::Malformed,
            ),
            (
                of,
                1,
                5,
                CallbackMeaning::Progress,
                CallbackOutcome::Progress,
            ),
            (
                of,
                1,
                6,
                CallbackMeaning::Progress,
                CallbackOutcome::Duplicate,
            ),
            (
                of,
                2,
                7,
                CallbackMeaning::Ended(failure.clone()),
                CallbackOutcome::Failed,
            ),
            (
                of,
                2,
                8,
                CallbackMeaning::Ended(failure.clone()),
                CallbackOutcome::Duplicate,
            ),
            (
                of,
                3,
                9,
                CallbackMeaning::Ended(by_callback()),
                CallbackOutcome::Late,
            ),
            (of, 4, 10, CallbackMeaning::Progress, CallbackOutcome::Late),
        ] {
            let sent = TakenCallback {
                sender_id: format!("sent {sent}"),
                ..taken(of, n, meaning)
            };
            assert_eq!(take(&world, sent).await, outcome, "{n}");
        }
        assert_eq!(row(&world, turn).await.call.end, Some(failure));
        for (before, deleted) in [(at(20), 0), (at(21), 10)] {
            let expire = Change::ExpireCallbackDeliveries {
                before,
                deliveries_max: 100,
            };
            assert_eq!(world.write(expire).await.unwrap(), Outcome::Count(deleted));
        }
    })
    .await;
}

#[tokio::test]
async fn calls_that_nobody_calls_back_fail_at_their_deadline() {
    on_each_store(async |world| {
        let (awaited, first) = turn_with_call(&world, 1).await;
        let (running, _) = turn_with_call(&world, 2).await;
        world
            .write_turn(awaited, vec![awaits(&first)])
            .await
            .unwrap();
        for (now, ended) in [(at(1000), 0), (at(1001), 1), (at(1002), 0)] {
            let expire = Change::ExpireCallbacks { now, calls_max: 10 };
            assert_eq!(world.write(expire).await.unwrap(), Outcome::Count(ended));
        }
        let end = row(&world, awaited).await.call.end.unwrap();
        assert_eq!(end.reason, Some(CallReason::Deadline));
        assert_eq!(row(&world, running).await.call.end, None);
    })
    .await;
}

#[tokio::test]
async fn nothing_is_kept_of_what_is_told_of_an_erased_turn() {
    on_each_store(async |world| {
        let new = NewTurn {
            record: RecordPolicy::Minimal,
            ..world.new_turn(1)
        };
        let turn = new.id;
        assert_eq!(world.accept_new(new).await.unwrap(), Outcome::Done);
        let call = NewCall {
            status: CallStatus::Processing,
            ..pending_call(turn, call_ref(1, 0))
        };
        let add = TurnChange::AddCall(Box::new(call.clone()));
        world.write_turn(turn, vec![add]).await.unwrap();
        let mut end = end_turn(TurnStatus::Completed);
        end.erase_after = Some(at(30));
        world
            .write_turn(
                turn,
                vec![awaits(&call), detaches(&call), TurnChange::EndTurn(end)],
            )
            .await
            .unwrap();
        let erase = Change::EraseDue {
            now: at(40),
            turns_max: 10,
        };
        assert_eq!(world.write(erase).await.unwrap(), Outcome::Count(1));
        let of = Some((world.organization, &call));
        let meaning = CallbackMeaning::Ended(by_callback());
        assert_eq!(
            take(&world, taken(of, 1, meaning)).await,
            CallbackOutcome::Completed
        );
        let ended = row(&world, turn).await;
        assert_eq!(ended.told.as_deref(), Some(""));
        let kept = ended.call.end.unwrap();
        assert_eq!((kept.result, kept.shown.as_str()), (None, ""));
    })
    .await;
}

#[tokio::test]
async fn a_token_finds_its_call_with_the_tool_that_it_runs() {
    on_each_store(async |world| {
        let save = Change::SaveTool(Box::new(new_tool(world.organization, 1, "draw")));
        let Outcome::ToolSaved(version) = world.write(save).await.unwrap() else {
            panic!("the tool is saved");
        };
        let turn = world.accept(1).await;
        let call = NewCall {
            tool_version: Some(version.key),
            ..pending_call(turn, call_ref(1, 0))
        };
        let add = TurnChange::AddCall(Box::new(call.clone()));
        world.write_turn(turn, vec![add]).await.unwrap();
        let token = call.callback_token.as_deref().unwrap();
        let found = callback_target(&world.store, token).await;
        let found = found.unwrap().unwrap();
        assert_eq!((found.organization, found.turn), (world.organization, turn));
        assert_eq!((found.call, found.id), (call.call, call.id));
        let none = callback_target(&world.store, "other").await.unwrap();
        assert_eq!(none, None);
    })
    .await;
}

/// A turn of this owner with a call that awaits its callback.
async fn awaiting(world: &StoreWorld, n: u128, owner: &str) -> (TurnId, NewCall) {
    let new = NewTurn {
        owner: owner.to_owned(),
        ..world.new_turn(n)
    };
    let turn = new.id;
    world.accept_new(new).await.unwrap();
    let call = NewCall {
        status: CallStatus::Processing,
        ..pending_call(turn, call_ref(1, 0))
    };
    let add = TurnChange::AddCall(Box::new(call.clone()));
    world
        .write_turn(turn, vec![add, awaits(&call)])
        .await
        .unwrap();
    (turn, call)
}

/// What a process that drives turns looks for beside other servers, whose callbacks and sweeps end its calls.
#[tokio::test]
async fn ends_that_others_wrote_are_found_by_whoever_drives_the_turn() {
    on_each_store(async |world| {
        let found = async |owner: &str| {
            let mut found = ended_calls(&world.store, owner).await.unwrap();
            found.sort_by_key(|ended| ended.turn);
            found
        };
        let end_by_callback = async |n: u8, call: &NewCall| {
            let end = CallbackMeaning::Ended(by_callback());
            let taken = taken(Some((world.organization, call)), n, end);
            assert_eq!(take(&world, taken).await, CallbackOutcome::Completed);
        };
        let (own, waited_for) = awaiting(&world, 1, "boot 1").await;
        let (of_task, its) = awaiting(&world, 2, "boot 1:7").await;
        let (of_other, theirs) = awaiting(&world, 3, "boot 12").await;
        let (_, detached) = awaiting(&world, 4, "boot 1").await;
        let (over, last) = awaiting(&world, 5, "boot 1").await;
        awaiting(&world, 6, "boot 1").await;
        let (ran, plain) = turn_with_call(&world, 7).await;
        world
            .write_turn(turn_id(4), vec![detaches(&detached)])
            .await
            .unwrap();
        assert_eq!(found("boot 1").await, []);
        for (n, call) in (1..).zip([&waited_for, &its, &theirs, &detached, &last]) {
            end_by_callback(n, call).await;
        }
        let end = TurnChange::EndTurn(end_turn(TurnStatus::Completed));
        world.write_turn(over, vec![end]).await.unwrap();
        let end = TurnChange::EndCall {
            call: plain.call,
            end: completed(),
            at: at(30),
        };
        world.write_turn(ran, vec![end]).await.unwrap();
        let expected = |turn, call: &NewCall| EndedCall {
            turn,
            call: call.call,
            end: CallEnd {
                result: None,
                ..by_callback()
            },
        };
        assert_eq!(
            found("boot 1").await,
            [expected(own, &waited_for), expected(of_task, &its)]
        );
        assert_eq!(found("boot 12").await, [expected(of_other, &theirs)]);
        assert_eq!(found("boot").await, []);
        // Of no name of an owner is anything a pattern.
        assert_eq!(found("boot _").await, []);
    })
    .await;
}
