//! Jobs that are asked about: who claims them, what a callback does to a claim, what ends them, and their files.

use std::sync::Arc;

use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::call_file::{CallFile, FileContent, FileFault};
use tw_core::callback::{CallbackMeaning, CallbackOutcome, TakenCallback};
use tw_core::change::{AwaitedCallback, Change, NewCall, NewTurn, Outcome, TurnChange};
use tw_core::id::{FileId, OrgId, TurnId};
use tw_core::job::{
    JobChange, JobClaim, JobEnding, LAST_POLL_MAX, PollFault, PolledJob, SettleJob,
};
use tw_core::time::Timestamp;
use tw_core::turn_status::TurnStatus;
use tw_store::read::open_calls::OpenCallsWanted;
use tw_store::read::view::ResultDetail;
use tw_store::system::files::file;
use tw_store::system::jobs::{DueJobs, JobToAsk, due, job_to_ask};
use uuid::Uuid;

use crate::blobs::key_of_stranger;
use crate::callbacks::{row, take, taken, turn_with_call};
use crate::world::{
    StoreWorld, at, call_ref, completed, end_turn, failed, on_each_store, pending_call,
};

const NO_LIMIT: u64 = u64::MAX;

fn polled(call: &NewCall, external_id: Option<&str>) -> TurnChange {
    TurnChange::AwaitCallback(AwaitedCallback {
        call: call.call,
        external_id: external_id.map(str::to_owned),
        until: at(1000),
        poll_at: Some(at(100)),
        at: at(10),
    })
}

async fn turn_with_job(world: &StoreWorld, n: u128) -> (TurnId, NewCall) {
    let (turn, call) = turn_with_call(world, n).await;
    let await_it = polled(&call, Some("job-7"));
    world.write_turn(turn, vec![await_it]).await.unwrap();
    (turn, call)
}

async fn claim(world: &StoreWorld, owner: &str, now: Timestamp, until: Timestamp) -> Vec<JobClaim> {
    claim_of(world, world.organization, owner, (now, until), 10).await
}

async fn claim_of(
    world: &StoreWorld,
    organization: OrgId,
    owner: &str,
    (at, until): (Timestamp, Timestamp),
    jobs_max: u32,
) -> Vec<JobClaim> {
    let claim = JobChange::Claim {
        organization,
        owner: owner.to_owned(),
        jobs_max,
        at,
        until,
    };
    match world.write(claim.into()).await {
        Ok(Outcome::Jobs(claimed)) => claimed,
        other => panic!("{other:?}"),
    }
}

async fn next_due(world: &StoreWorld) -> Option<Timestamp> {
    let due = due(&world.store).await.unwrap();
    due.iter().map(|of| of.due).min()
}

async fn settle(world: &StoreWorld, claim: &JobClaim, end: JobEnding) -> Outcome {
    let settle = SettleJob {
        claim: claim.clone(),
        end,
        at: at(150),
    };
    world.write(JobChange::Settle(settle).into()).await.unwrap()
}

fn again(due: i64, fault: Option<PollFault>) -> JobEnding {
    JobEnding::Again {
        due: at(due),
        poll: PolledJob {
            http_status: Some(200),
            fault,
        },
    }
}

fn ended(world: &StoreWorld, call: &NewCall, files: Vec<CallFile>, room: u64) -> JobEnding {
    JobEnding::Ended {
        organization: world.organization,
        call: call.id,
        end: completed(),
        files,
        files_bytes_max: room,
    }
}

async fn to_ask(world: &StoreWorld, claim: &JobClaim) -> Option<JobToAsk> {
    job_to_ask(&world.store, claim.job).await.unwrap()
}

fn over(external_id: Option<&str>, n: u8, world: &StoreWorld, call: &NewCall) -> TakenCallback {
    TakenCallback {
        external_id: external_id.map(str::to_owned),
        ..taken(
            Some((world.organization, call)),
            n,
            CallbackMeaning::Over { answer: None },
        )
    }
}

#[tokio::test]
async fn a_job_is_claimed_by_one_and_settled_by_its_claim_alone() {
    on_each_store(async |world| {
        let (_, call) = turn_with_job(&world, 1).await;
        assert_eq!(next_due(&world).await, Some(at(100)));
        assert_eq!(claim(&world, "a", at(99), at(300)).await, []);
        let first = claim(&world, "a", at(100), at(300)).await.remove(0);
        assert_eq!(claim(&world, "b", at(100), at(300)).await, []);
        let job = to_ask(&world, &first).await.unwrap();
        assert_eq!(
            (job.id, job.external_id.as_deref()),
            (call.id, Some("job-7"))
        );
        assert_eq!(
            (job.polls, job.called_back, job.deadline),
            (0, false, Some(at(1000)))
        );
        // It was not settled in time, and somebody else has it now.
        let second = claim(&world, "b", at(301), at(500)).await.remove(0);
        let late = settle(&world, &first, again(400, None)).await;
        assert_eq!(late, Outcome::Already);
        let noted = settle(&world, &second, again(400, Some(PollFault::Status))).await;
        assert_eq!(noted, Outcome::Done);
        assert_eq!(next_due(&world).await, Some(at(400)));
        let third = claim(&world, "a", at(400), at(600)).await.remove(0);
        let job = to_ask(&world, &third).await.unwrap();
        assert_eq!((job.polls, job.faults), (1, 1));
        let done = settle(&world, &third, ended(&world, &call, Vec::new(), 0)).await;
        assert_eq!(done, Outcome::Done);
        assert_eq!(to_ask(&world, &third).await, None);
        assert_eq!(next_due(&world).await, None);
    })
    .await;
}

#[tokio::test]
async fn jobs_of_a_process_that_is_gone_are_due_at_once() {
    on_each_store(async |world| {
        turn_with_job(&world, 1).await;
        let claimed = claim(&world, "gone", at(100), at(900)).await;
        assert_eq!(claimed.len(), 1);
        for (owner, freed) in [("gone", 0), ("next", 1), ("next", 0)] {
            let free = JobChange::FreeClaims {
                owner: owner.to_owned(),
                at: at(200),
            };
            let outcome = world.write(free.into()).await.unwrap();
            assert_eq!(outcome, Outcome::Count(freed), "{owner}");
        }
        assert_eq!(next_due(&world).await, Some(at(200)));
    })
    .await;
}

#[tokio::test]
async fn a_callback_has_its_job_asked_about_whoever_is_asking() {
    on_each_store(async |world| {
        let (_, call) = turn_with_job(&world, 1).await;
        let asking = claim(&world, "a", at(100), at(300)).await.remove(0);
        let outcome = take(&world, over(Some("job-7"), 1, &world, &call)).await;
        assert_eq!(outcome, CallbackOutcome::Kept);
        // What was heard before the callback came says nothing about it.
        let heard = settle(&world, &asking, again(400, None)).await;
        assert_eq!(heard, Outcome::Already);
        assert_eq!(next_due(&world).await, Some(at(20)));
        let twice = TakenCallback {
            sender_id: "sent 1".to_owned(),
            ..over(Some("job-7"), 3, &world, &call)
        };
        let twice = take(&world, twice).await;
        assert_eq!(twice, CallbackOutcome::Duplicate);
        let other = take(&world, over(Some("job-8"), 2, &world, &call)).await;
        assert_eq!(other, CallbackOutcome::Malformed, "it is of another job");
        let claimed = claim(&world, "a", at(100), at(300)).await.remove(0);
        let job = to_ask(&world, &claimed).await.unwrap();
        assert!(job.called_back);
    })
    .await;
}

#[tokio::test]
async fn a_callback_that_comes_before_the_answer_waits_for_it() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_call(&world, 1).await;
        let outcome = take(&world, over(None, 1, &world, &call)).await;
        assert_eq!(outcome, CallbackOutcome::Kept);
        let claimed = claim(&world, "a", at(20), at(30)).await.remove(0);
        assert_eq!(to_ask(&world, &claimed).await.unwrap().external_id, None);
        settle(&world, &claimed, again(40, Some(PollFault::NoId))).await;
        let await_it = polled(&call, Some("job-7"));
        world.write_turn(turn, vec![await_it]).await.unwrap();
        // Due as the callback had it, and with the id.
        assert_eq!(next_due(&world).await, Some(at(40)));
        let claimed = claim(&world, "a", at(40), at(60)).await.remove(0);
        let job = to_ask(&world, &claimed).await.unwrap();
        assert_eq!(job.external_id.as_deref(), Some("job-7"));
        assert!(job.called_back);
    })
    .await;
}

#[tokio::test]
async fn a_callback_tells_an_id_that_nobody_knew() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_call(&world, 1).await;
        let mut unknown = polled(&call, None);
        if let TurnChange::AwaitCallback(awaited) = &mut unknown {
            awaited.poll_at = None;
        }
        world.write_turn(turn, vec![unknown]).await.unwrap();
        assert_eq!(next_due(&world).await, None);
        take(&world, over(Some("job-9"), 1, &world, &call)).await;
        assert_eq!(
            row(&world, turn).await.external_id.as_deref(),
            Some("job-9")
        );
        let claimed = claim(&world, "a", at(100), at(200)).await.remove(0);
        let job = to_ask(&world, &claimed).await.unwrap();
        assert_eq!(job.external_id.as_deref(), Some("job-9"));
    })
    .await;
}

#[tokio::test]
async fn whatever_ends_a_call_ends_its_job() {
    on_each_store(async |world| {
        let (_, by_callback) = turn_with_job(&world, 1).await;
        let (_, by_hand) = turn_with_job(&world, 2).await;
        let (late, _) = turn_with_job(&world, 3).await;
        let meaning = CallbackMeaning::Ended(completed());
        take(
            &world,
            taken(Some((world.organization, &by_callback)), 1, meaning),
        )
        .await;
        let complete = tw_core::change::CompleteCall {
            organization: world.organization,
            call: by_hand.id,
            end: completed(),
            at: at(200),
        };
        world
            .write(Change::CompleteCall(Box::new(complete)))
            .await
            .unwrap();
        assert_eq!(claim(&world, "a", at(900), at(901)).await.len(), 1);
        // The one that is left is asked about at its deadline; the sweep comes for it only when nobody has.
        let grace = i64::try_from(LAST_POLL_MAX.as_micros()).unwrap();
        for (now, failed) in [(1001, 0), (1000 + grace, 0), (1001 + grace, 1)] {
            let expire = Change::ExpireCallbacks {
                now: at(now),
                calls_max: 10,
            };
            assert_eq!(
                world.write(expire).await.unwrap(),
                Outcome::Count(failed),
                "{now}"
            );
        }
        let end = row(&world, late).await.call.end.unwrap();
        assert_eq!(end.reason, Some(CallReason::Deadline));
        assert_eq!(next_due(&world).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_job_whose_call_has_ended_is_over() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_call(&world, 1).await;
        take(&world, over(None, 1, &world, &call)).await;
        // The answer to the request has said that there is no job.
        let end = TurnChange::EndCall {
            call: call.call,
            end: CallEnd {
                reason: Some(CallReason::ToolError),
                is_error: true,
                ..completed()
            },
            at: at(30),
        };
        world.write_turn(turn, vec![end]).await.unwrap();
        let claimed = claim(&world, "a", at(100), at(200)).await.remove(0);
        assert!(to_ask(&world, &claimed).await.unwrap().has_ended);
        let late = settle(&world, &claimed, ended(&world, &call, Vec::new(), 0)).await;
        assert_eq!(late, Outcome::Already);
        assert_eq!(
            settle(&world, &claimed, JobEnding::Over).await,
            Outcome::Done
        );
        assert_eq!(next_due(&world).await, None);
    })
    .await;
}

fn picture(n: u32, bytes: &[u8]) -> CallFile {
    CallFile {
        id: FileId(Uuid::from_u128(u128::from(n) + 1)),
        n,
        content: FileContent::Kept {
            bytes: Arc::from(bytes),
            hash: [bytes[0]; 32],
            content_type: "image/png".to_owned(),
        },
    }
}

#[tokio::test]
async fn files_are_kept_until_the_contents_of_their_turn_go() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_job(&world, 1).await;
        let claimed = claim(&world, "a", at(100), at(200)).await.remove(0);
        let gone = CallFile {
            id: FileId(Uuid::from_u128(9)),
            n: 2,
            content: FileContent::Missing(FileFault::Gone),
        };
        // Two of the same content.
        let files = vec![picture(0, b"picture"), picture(1, b"picture"), gone];
        let ids: Vec<FileId> = files.iter().map(|file| file.id).collect();
        let outcome = settle(&world, &claimed, ended(&world, &call, files, 14)).await;
        assert_eq!(outcome, Outcome::Done);
        let view = world
            .store
            .turn_view(world.organization, turn, ResultDetail::Shown)
            .await;
        let view = view.unwrap().unwrap();
        let seen = &view.rounds[0].calls[0].files;
        assert_eq!(seen.iter().map(|file| file.id).collect::<Vec<_>>(), ids);
        assert_eq!((seen[0].bytes, seen[0].fault), (7, None));
        assert_eq!((seen[2].bytes, seen[2].fault), (0, Some(FileFault::Gone)));
        let found = file(&world.store, ids[1]).await.unwrap().unwrap();
        assert_eq!(found.content, b"picture");
        assert_eq!(file(&world.store, ids[2]).await.unwrap(), None);
        let end = TurnChange::EndTurn(end_turn(TurnStatus::Completed));
        world.write_turn(turn, vec![end]).await.unwrap();
        let expire = Change::ExpireContents {
            organization: world.organization,
            before: at(1_000),
            now: at(400),
            turns_max: 10,
        };
        assert_eq!(world.write(expire).await.unwrap(), Outcome::Count(1));
        let erase = Change::EraseDue {
            now: at(400),
            turns_max: 10,
        };
        world.write(erase).await.unwrap();
        assert_eq!(file(&world.store, ids[0]).await.unwrap(), None);
        // Their room is free again.
        let (_, next) = turn_with_job(&world, 2).await;
        let claimed = claim(&world, "a", at(500), at(600)).await.remove(0);
        let files = vec![picture(10, b"picture2picture")];
        let outcome = settle(&world, &claimed, ended(&world, &next, files, 15)).await;
        assert_eq!(outcome, Outcome::Done);
    })
    .await;
}

#[tokio::test]
async fn files_beyond_the_room_of_an_organization_end_nothing() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_job(&world, 1).await;
        let claimed = claim(&world, "a", at(100), at(200)).await.remove(0);
        let files = vec![picture(0, b"picture")];
        let full = settle(&world, &claimed, ended(&world, &call, files.clone(), 6)).await;
        assert_eq!(full, Outcome::TooMany);
        assert_eq!(row(&world, turn).await.call.end, None);
        assert_eq!(file(&world.store, files[0].id).await.unwrap(), None);
        let fits = settle(&world, &claimed, ended(&world, &call, files.clone(), 7)).await;
        assert_eq!(fits, Outcome::Done);
        // An end that comes too late takes no room.
        let late = ended(&world, &call, vec![picture(5, b"other")], NO_LIMIT);
        assert_eq!(settle(&world, &claimed, late).await, Outcome::Already);
        let (_, other) = turn_with_job(&world, 2).await;
        let claimed = claim(&world, "a", at(100), at(200)).await.remove(0);
        let files = vec![picture(6, b"seven77")];
        let outcome = settle(&world, &claimed, ended(&world, &other, files, 14)).await;
        assert_eq!(outcome, Outcome::Done);
    })
    .await;
}

#[tokio::test]
async fn open_calls_are_listed_by_what_holds_them_up() {
    on_each_store(async |world| {
        let (_, first) = turn_with_job(&world, 1).await;
        let (_, second) = turn_with_job(&world, 2).await;
        turn_with_call(&world, 3).await;
        for claimed in claim(&world, "a", at(100), at(200)).await {
            let job = to_ask(&world, &claimed).await.unwrap();
            if job.id == second.id {
                settle(&world, &claimed, again(400, Some(PollFault::Unanswered))).await;
            }
        }
        let stuck = |now, faults_min| OpenCallsWanted::Stuck {
            now: at(now),
            faults_min,
            outside_before: at(0),
        };
        for (wanted, expected) in [
            (OpenCallsWanted::All, vec![first.id, second.id]),
            (stuck(500, 1), vec![second.id]),
            (stuck(500, 2), vec![]),
            (stuck(1001, 2), vec![first.id, second.id]),
        ] {
            let page = world.store.open_calls(world.organization, wanted, None, 10);
            let page = page.await.unwrap();
            let mut ids: Vec<_> = page.items.iter().map(|call| call.id).collect();
            ids.sort();
            let mut expected = expected;
            expected.sort();
            assert_eq!(ids, expected, "{wanted:?}");
        }
        let all = OpenCallsWanted::All;
        let page = world
            .store
            .open_calls(world.organization, all, None, 1)
            .await
            .unwrap();
        assert!(page.has_more);
        let after = Some(page.items[0].id);
        let rest = world
            .store
            .open_calls(world.organization, all, after, 1)
            .await
            .unwrap();
        assert!(!rest.has_more && rest.items[0].id != page.items[0].id);
        let foreign = world
            .store
            .open_calls(world.stranger, all, None, 10)
            .await
            .unwrap();
        assert_eq!(foreign.items, []);
        assert_eq!(
            world
                .store
                .open_call(world.stranger, first.id)
                .await
                .unwrap(),
            None
        );
        let ask = JobChange::AskNow {
            organization: world.organization,
            call: second.id,
            at: at(50),
        };
        assert_eq!(world.write(ask.into()).await.unwrap(), Outcome::Done);
        assert_eq!(next_due(&world).await, Some(at(50)));
    })
    .await;
}

fn too_late(world: &StoreWorld, call: &NewCall) -> JobEnding {
    JobEnding::Ended {
        organization: world.organization,
        call: call.id,
        end: failed(CallReason::Deadline),
        files: Vec::new(),
        files_bytes_max: NO_LIMIT,
    }
}

/// Whoever asks past the deadline says that nobody told the end; a callback that came meanwhile says otherwise, and is
/// to be asked about.
#[tokio::test]
async fn a_deadline_holds_only_while_nobody_has_taken_the_job() {
    on_each_store(async |world| {
        let (turn, call) = turn_with_job(&world, 1).await;
        let stale = claim(&world, "a", at(1000), at(1100)).await.remove(0);
        assert_eq!(
            take(&world, over(Some("job-7"), 1, &world, &call)).await,
            CallbackOutcome::Kept
        );
        let told = settle(&world, &stale, too_late(&world, &call)).await;
        assert_eq!(told, Outcome::Already);
        assert_eq!(row(&world, turn).await.call.end, None);
        let next = claim(&world, "a", at(1000), at(1200)).await.remove(0);
        assert!(to_ask(&world, &next).await.unwrap().called_back);
        // Under the name of the same process, and still not its claim.
        let told = settle(&world, &stale, too_late(&world, &call)).await;
        assert_eq!(told, Outcome::Already);
        assert_eq!(row(&world, turn).await.call.end, None);
        let told = settle(&world, &next, too_late(&world, &call)).await;
        assert_eq!(told, Outcome::Done);
        let end = row(&world, turn).await.call.end.unwrap();
        assert_eq!(end.reason, Some(CallReason::Deadline));

        // What the tool said is true, whoever has the job.
        let (turn, call) = turn_with_job(&world, 2).await;
        let stale = claim(&world, "a", at(1000), at(1100)).await.remove(0);
        claim(&world, "b", at(1100), at(1300)).await.remove(0);
        let told = settle(&world, &stale, ended(&world, &call, Vec::new(), 0)).await;
        assert_eq!(told, Outcome::Done);
        assert_eq!(row(&world, turn).await.call.end, Some(completed()));
    })
    .await;
}

/// That a job is over was seen under a claim, and may be older than what made it due again.
#[tokio::test]
async fn a_job_is_over_only_for_whoever_has_it() {
    on_each_store(async |world| {
        turn_with_job(&world, 1).await;
        let first = claim(&world, "a", at(100), at(200)).await.remove(0);
        let second = claim(&world, "a", at(200), at(300)).await.remove(0);
        let third = claim(&world, "b", at(300), at(400)).await.remove(0);
        for stale in [&first, &second] {
            let told = settle(&world, stale, JobEnding::Over).await;
            assert_eq!(told, Outcome::Already, "{stale:?}");
            assert!(to_ask(&world, &third).await.is_some(), "{stale:?}");
        }
        let other = JobClaim {
            owner: "a".to_owned(),
            ..third.clone()
        };
        assert_eq!(
            settle(&world, &other, JobEnding::Over).await,
            Outcome::Already
        );
        assert_eq!(settle(&world, &third, JobEnding::Over).await, Outcome::Done);
        assert_eq!(to_ask(&world, &third).await, None);
    })
    .await;
}

async fn job_of_stranger(world: &StoreWorld, n: u128) -> TurnId {
    let new = NewTurn {
        organization: world.stranger,
        api_key: key_of_stranger(world).await,
        ..world.new_turn(n)
    };
    let turn = new.id;
    let call = NewCall {
        status: CallStatus::Processing,
        ..pending_call(turn, call_ref(1, 0))
    };
    let add = TurnChange::AddCall(Box::new(call.clone()));
    let first = vec![add, polled(&call, Some("job-8"))];
    world.accept_with(new, first).await.unwrap();
    turn
}

/// Whoever asks gives each organization its part.
#[tokio::test]
async fn jobs_are_due_and_claimed_by_organization() {
    on_each_store(async |world| {
        assert_eq!(due(&world.store).await.unwrap(), []);
        for n in 1..=3 {
            turn_with_job(&world, n).await;
        }
        let of = |organization, due| DueJobs { organization, due };
        let own = world.organization;
        assert_eq!(due(&world.store).await.unwrap(), [of(own, at(100))]);
        let times = (at(100), at(300));
        assert_eq!(claim_of(&world, world.stranger, "a", times, 10).await, []);
        assert_eq!(claim_of(&world, own, "a", times, 2).await.len(), 2);
        assert_eq!(due(&world.store).await.unwrap(), [of(own, at(100))]);
        assert_eq!(claim_of(&world, own, "a", times, 2).await.len(), 1);
        assert_eq!(due(&world.store).await.unwrap(), [of(own, at(300))]);
        let theirs = job_of_stranger(&world, 4).await;
        let mut found = due(&world.store).await.unwrap();
        found.sort_by_key(|of| of.due);
        assert_eq!(found, [of(world.stranger, at(100)), of(own, at(300))]);
        let claimed = claim_of(&world, world.stranger, "a", times, 10).await;
        let job = to_ask(&world, &claimed[0]).await.unwrap();
        assert_eq!((claimed.len(), job.turn), (1, theirs));
    })
    .await;
}
