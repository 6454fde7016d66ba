//! Recovery from each state: the process dies, and the turn goes on from its record.

use super::{Run, assert_same, check_recovered, lines_of, ours};
use crate::call::CallStatus;
use crate::change::TurnChange;
use crate::id::CallRef;
use crate::turn::{FoundAttempt, FoundCall, FoundRound, FoundTurn, ToolOffer, TurnSetup};

/// What the store holds after these lines: all that was written, all that was shown.
pub(super) fn found_after(setup: TurnSetup, lines: &str) -> FoundTurn {
    let run = Run::after(setup, lines);
    assert!(
        !run.turn.is_ended(),
        "an ended turn is not taken over: {lines}"
    );
    let mut found = FoundTurn {
        events: run.shown.clone(),
        ..FoundTurn::default()
    };
    for change in &run.written {
        record(&mut found, change);
    }
    found
        .attempts
        .sort_by_key(|attempt| (attempt.round, attempt.position, attempt.n));
    found
}

fn record(found: &mut FoundTurn, change: &TurnChange) {
    match change {
        TurnChange::OpenAttempt(open) => found.attempts.push(FoundAttempt {
            round: open.round,
            position: open.position,
            n: open.n,
            upstream: open.upstream.clone(),
            outcome: None,
            usage: None,
        }),
        TurnChange::CloseAttempt(close) => {
            let attempt = found
                .attempts
                .iter_mut()
                .find(|open| {
                    (open.round, open.position, open.n) == (close.round, close.position, close.n)
                })
                .unwrap();
            attempt.outcome = Some(close.outcome.as_str().to_owned());
            attempt.usage = close.usage.clone();
        }
        TurnChange::AddMessage(message) => found.rounds.push(FoundRound {
            round: message.round,
            blocks: message.blocks.clone(),
            origin: message.origin.clone(),
        }),
        TurnChange::AddCall(call) => found.calls.push(FoundCall {
            call: call.call,
            id: call.id,
            runs: call.runs,
            tool_name: call.tool_name.clone(),
            sent_id: call.tool_call_id.clone(),
            effect: call.effect,
            arguments: call.arguments.clone(),
            idempotency_key: call.idempotency_key.clone(),
            callback_token: call.callback_token.clone(),
            awaits_callback: false,
            told: None,
            approval: call.approval,
            approves: call.approves,
            status: call.status,
            end: call.end.clone(),
        }),
        TurnChange::StartCall { call, .. } => {
            found_call(found, *call).status = CallStatus::Processing
        }
        TurnChange::EndCall { call, end, .. } => {
            let call = found_call(found, *call);
            call.status = end.status();
            call.end = Some(end.clone());
        }
        TurnChange::AwaitCallback(awaited) => {
            found_call(found, awaited.call).awaits_callback = true
        }
        TurnChange::DetachCall { call, told, .. } => {
            found_call(found, *call).told = Some(told.clone());
        }
        TurnChange::NoteStop { reason, .. } => found.stopping = Some(*reason),
        other => panic!("not written before a turn's end: {other:?}"),
    }
}

fn found_call(found: &mut FoundTurn, at: CallRef) -> &mut FoundCall {
    found.calls.iter_mut().find(|call| call.call == at).unwrap()
}

/// The process dies after `lines`; the transcript is what the next one does.
fn check_after(lines: &str, transcript: &str) {
    check_recovered(ours(), &found_after(ours(), lines), transcript);
}

fn plain() -> TurnSetup {
    TurnSetup {
        streamed: false,
        ..ours()
    }
}

#[test]
fn a_streamed_round_that_was_open_counts_as_shown() {
    check_after(
        "usage 9 9 ; text Hel ; text lo",
        "> recover
           write close 1#1 interrupted
           write message 1 text \"Hello\"
           write turn incomplete interrupted
           show end incomplete interrupted (interrupted: the server was restarted while it answered)",
    );
    check_after(
        "",
        "> recover
           write close 1#1 interrupted
           write turn incomplete interrupted
           show end incomplete interrupted (interrupted: the server was restarted while it answered)",
    );
}

#[test]
fn only_the_text_of_the_open_round_is_kept() {
    check_after(
        "text One. ; call 0 get_time {} ; usage 5 5 ; done ; slot 1.0 ; end 1.0#1 ok a ; text Two.",
        "> recover
           write close 2#1 interrupted
           write message 2 text \"Two.\"
           write turn incomplete interrupted calls 1 usage 5+5
           show usage 5+5
           show end incomplete interrupted (interrupted: the server was restarted while it answered)",
    );
}

#[test]
fn an_unstreamed_round_is_asked_again_until_the_limit() {
    let found = found_after(plain(), "text Hel");
    check_recovered(
        plain(),
        &found,
        "> recover
           write close 1#1 interrupted
           write open 1#2
           do ask 1#2
         > text Hi ; done
           show round 1
           show text Hi
           write close 1#2 ok
           write message 1 text \"Hi\"
           write turn completed
           show finish stop
           show end completed",
    );
    let found = found_after(plain(), "failed connect ; timer ; failed connect ; timer");
    check_recovered(
        plain(),
        &found,
        "> recover
           write close 1#3 interrupted
           write turn failed internal
           show end failed internal (internal: the request could not be finished after a restart)",
    );
}

#[test]
fn a_request_that_waited_to_be_repeated_is_repeated() {
    check_after(
        "failed connect",
        "> recover
           write open 1#2
           do ask 1#2",
    );
}

#[test]
fn pending_calls_ask_for_their_slots_again() {
    check_after(
        "call 0 get_time {} ; call 1 send_mail {} ; done",
        "> recover
           do slot 1.0
           do slot 1.1
         > slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1",
    );
}

#[test]
fn a_running_call_is_treated_by_its_effect_class() {
    for tool in ["get_time", "put_row"] {
        check_after(
            &format!("call 0 {tool} {{}} ; done ; slot 1.0"),
            "> recover
               write close 1.0#1 interrupted
               do slot 1.0
             > slot 1.0
               write open 1.0#2
               do dispatch 1.0#2",
        );
    }
    check_after(
        "call 0 pay {} ; done ; slot 1.0",
        "> recover
           write close 1.0#1 interrupted
           do look up 1.0#1
         > found 1.0#1 absent
           do timer call 1.0#2 in 0ms",
    );
    check_after(
        "call 0 send_mail {} ; done ; slot 1.0",
        "> recover
           write close 1.0#1 interrupted
           write ended 1.0 failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"
           write open 2#1
           show ended 1.0 failed outcome_unknown
           do release 1.0
           do ask 2#1
         > failed status 400
           write close 2#1 status 400
           write turn failed upstream calls 1
           show end failed upstream (refused 400: upstream says no, code, kind, param); ran send_mail failed",
    );
}

#[test]
fn an_attempt_that_was_found_open_counts_as_used() {
    let mut used = "call 0 get_time {} ; done ; slot 1.0".to_owned();
    for n in 1..3 {
        used.push_str(&format!(" ; end 1.0#{n} reset gone ; timer"));
    }
    check_after(
        &used,
        "> recover
           write close 1.0#3 interrupted
           write ended 1.0 failed interrupted \"The call was interrupted too often.\"
           write open 2#1
           show ended 1.0 failed interrupted
           do release 1.0
           do ask 2#1",
    );
}

#[test]
fn a_call_that_was_certainly_not_sent_is_tried_again_whatever_its_class() {
    for tool in ["get_time", "put_row", "pay", "send_mail"] {
        check_after(
            &format!("call 0 {tool} {{}} ; done ; slot 1.0 ; end 1.0#1 not_sent why"),
            "> recover
               do slot 1.0
             > slot 1.0
               write open 1.0#2
               do dispatch 1.0#2",
        );
    }
}

#[test]
fn a_look_up_is_made_again() {
    check_after(
        "call 0 pay {} ; done ; slot 1.0 ; end 1.0#1 timeout",
        "> recover
           do look up 1.0#1
         > found 1.0#1 happened paid
           write ended 1.0 completed \"paid\"
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1",
    );
}

#[test]
fn ended_calls_stay_and_limits_go_on_counting() {
    let lines = "call 0 pay [] ; call 1 pay [] ; call 2 get_time {} ; done ; slot 1.2";
    let mut run = Run::recover(ours(), &found_after(ours(), lines));
    run.play("slot 1.2 ; end 1.2#2 ok a");
    assert_eq!(run.play("request").len(), 5, "all results are there");
    run.play("call 0 pay [] ; done");
    assert_eq!(
        run.play("request")[0],
        "tools get_time,put_row,send_mail; choice as sent"
    );
}

#[test]
fn what_a_call_is_known_by_survives() {
    let lines = "call 0 put_row@ {\"zone\":\"a\"} ; done ; slot 1.0";
    let before = Run::after(ours(), lines);
    let mut after = Run::recover(ours(), &found_after(ours(), lines));
    after.play("slot 1.0");
    let at = CallRef {
        round: 1,
        position: 0,
    };
    let (before, after) = (
        before.turn.call_to_run(at).unwrap(),
        after.turn.call_to_run(at).unwrap(),
    );
    assert_eq!(before.id, after.id);
    assert_eq!(before.idempotency_key, after.idempotency_key);
    assert_eq!(before.args, after.args);
}

#[test]
fn a_turn_that_was_stopping_goes_on_stopping() {
    check_after(
        "call 0 get_time {} ; call 1 send_mail {} ; call 2 pay {} ; done ; slot 1.1 ; slot 1.2 ; leave",
        "> recover
           write close 1.1#1 interrupted
           write ended 1.1 failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"
           write close 1.2#1 interrupted
           show ended 1.1 failed outcome_unknown
           do release 1.1
           do look up 1.2#1
         > found 1.2#1 absent
           write ended 1.2 failed not_sent \"The tool did not answer, and the provider says that nothing …\"
           write turn cancelled client_left calls 3
           show ended 1.2 failed not_sent
           show end cancelled client_left (cancelled: the request was stopped); ran send_mail failed
           do release 1.2",
    );
}

#[test]
fn a_call_that_did_nothing_is_not_listed_afterwards() {
    let absent = "call 0 pay {} ; done ; slot 1.0
        end 1.0#1 reset gone ; found 1.0#1 absent ; timer
        end 1.0#2 reset gone ; found 1.0#2 absent ; timer
        end 1.0#3 reset gone ; found 1.0#3 absent";
    let unknown = "call 0 pay {} ; done ; slot 1.0 ; end 1.0#1 reset gone ; found 1.0#1 unknown";
    for (lines, listed) in [(absent, false), (unknown, true)] {
        let mut run = Run::recover(ours(), &found_after(ours(), lines));
        let trace = run.play("recover");
        let end = trace.last().unwrap();
        assert!(
            end.starts_with("show end incomplete interrupted"),
            "{trace:?}"
        );
        assert_eq!(end.ends_with("; ran pay failed"), listed, "{trace:?}");
    }
}

#[test]
fn a_call_whose_tool_is_gone_does_not_run() {
    let found = found_after(ours(), "call 0 get_time {} ; call 1 pay {} ; done");
    let mut setup = ours();
    setup.offer = ToolOffer::Ours(vec![super::tool(
        "pay",
        crate::tool::EffectClass::Queryable,
    )]);
    let mut run = Run::recover(setup, &found);
    assert_same(
        &run.play("recover"),
        &lines_of(
            "write ended 1.0 failed denied \"This tool is no longer available.\"
             show ended 1.0 failed denied
             do release 1.0
             do slot 1.1",
        ),
    );
}

#[test]
fn a_damaged_record_ends_the_turn() {
    check_recovered(
        ours(),
        &FoundTurn::default(),
        "> recover
           write turn failed internal
           show end failed internal (internal: the request could not be finished after a restart)
         > done ; cancel ; deadline",
    );
}

#[test]
fn usage_of_earlier_attempts_is_kept() {
    let lines = "usage 10 1 ; failed connect ; timer ; usage 20 2 ; call 0 get_time {} ; done";
    let mut run = Run::recover(ours(), &found_after(ours(), lines));
    let trace = run.play("slot 1.0 ; end 1.0#1 ok a ; usage 40 4 ; done");
    assert!(trace.contains(&"show usage 70+7".to_owned()), "{trace:?}");
}

/// The turn of `found_after`, taken up when its time is over.
fn check_late(lines: &str, transcript: &str) {
    let mut setup = ours();
    let found = found_after(setup.clone(), lines);
    setup.deadline = setup.created;
    let mut run = Run::recover(setup, &found);
    run.compare(transcript);
}

#[test]
fn a_turn_found_after_its_deadline_starts_nothing() {
    check_late(
        "call 0 pay {} ; call 1 get_time {} ; call 2 put_row {} ; done ; slot 1.0 ; slot 1.1",
        "> recover
           write close 1.0#1 interrupted
           write close 1.1#1 interrupted
           write ended 1.0 failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"
           write ended 1.1 failed deadline \"The request's time was up.\"
           write ended 1.2 failed deadline \"The request's time was up.\"
           write turn incomplete deadline calls 3
           show ended 1.0 failed outcome_unknown
           show ended 1.1 failed deadline
           show ended 1.2 failed deadline
           show end incomplete deadline (deadline: the request took longer than it may); ran pay failed
           do abort 1.0
           do release 1.0
           do release 1.1
           do release 1.2",
    );
}

/// Wherever the process dies, the call that the model makes again has the key of the one before.
#[test]
fn a_call_made_again_after_a_crash_has_the_key_of_the_one_before() {
    let call = r#"call 0 put_row {"zone":"a"} ; done"#;
    for (before, then, same) in [
        ("slot 1.0 ; end 1.0#1 panicked", "", true),
        ("slot 1.0 ; end 1.0#1 unclear why", "", true),
        ("slot 1.0 ; end 1.0#1 refused why", "", false),
        ("slot 1.0 ; end 1.0#1 ok fine", "", false),
        // The attempt that is found open may have been sent, and the next one says nothing of it.
        ("slot 1.0", "slot 1.0 ; end 1.0#2 unsendable why", true),
        ("slot 1.0", "slot 1.0 ; end 1.0#2 ok fine", false),
    ] {
        let setup = TurnSetup {
            streamed: false,
            ..ours()
        };
        let found = found_after(setup.clone(), &format!("{call} ; {before}"));
        let first = found.calls[0].idempotency_key.clone();
        let mut run = Run::recover(setup, &found);
        // Ids are given from the first again; the calls' own are told apart by their place.
        run.ids_given = 100;
        run.play(then);
        run.play(call);
        let again = run.written.iter().rev().find_map(|change| match change {
            TurnChange::AddCall(call) => Some(call.idempotency_key.clone()),
            _ => None,
        });
        assert_eq!(again.unwrap() == first, same, "{before}; {then}");
    }
}
