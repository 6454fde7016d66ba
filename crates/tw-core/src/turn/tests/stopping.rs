//! Stop and leaving, in each phase.

use super::{Run, check, ours, relay};
use crate::turn::TurnSetup;
use crate::turn_policy::OnLeave;

fn finishing() -> TurnSetup {
    TurnSetup {
        on_leave: OnLeave::Finish,
        ..ours()
    }
}

#[test]
fn while_nothing_has_come() {
    check(
        ours(),
        "> cancel
           write close 1#1 cancelled
           write turn cancelled requested
           show end cancelled requested (cancelled: the request was stopped)
           do abort ask",
    );
}

#[test]
fn while_the_model_answers() {
    check(
        relay(),
        "> text Hel
           show start m 1000
           show round 1
           show text Hel
         > usage 10 1 ; leave
           write close 1#1 cancelled usage 10+1
           write message 1 text \"Hel\"
           write turn cancelled client_left usage 10+1
           show usage 10+1
           show end cancelled client_left (cancelled: the request was stopped)
           do abort ask
         > text lo ; done ; closed ; failed reset ; deadline ; cancel ; drain",
    );
}

#[test]
fn while_a_request_waits_to_be_repeated() {
    check(
        ours(),
        "> failed connect
           write close 1#1 connect
           do timer ask 1#2 in 500ms
         > cancel
           write turn cancelled requested
           show end cancelled requested (cancelled: the request was stopped)
         > timer",
    );
}

#[test]
fn while_calls_run() {
    check(
        ours(),
        "> call 0 get_time {} ; call 1 put_row {} ; call 2 send_mail {} ; call 3 get_time {} ; done
           write close 1#1 ok
           write message 1 call c0 get_time {} call c1 put_row {} call c2 send_mail {} call c3 get_time {}
           write call 1.0 get_time pending
           write call 1.1 put_row pending
           write call 1.2 send_mail pending
           write call 1.3 get_time pending
           show start m 1000
           show call 1.0 get_time
           show call 1.1 put_row
           show call 1.2 send_mail
           show call 1.3 get_time
           do slot 1.0
           do slot 1.1
           do slot 1.2
           do slot 1.3
         > slot 1.0
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > slot 1.2
           write start 1.2
           write open 1.2#1
           do dispatch 1.2#1
         > cancel
           write stopping requested
           write close 1.0#1 cancelled
           write ended 1.0 failed cancelled \"The request was stopped.\"
           write ended 1.3 failed cancelled \"The request was stopped.\"
           show ended 1.0 failed cancelled
           show ended 1.3 failed cancelled
           do abort 1.0
           do release 1.0
           do release 1.3
         > slot 1.3 ; end 1.0#1 ok late ; leave ; cancel
         > end 1.2#1 ok sent
           write close 1.2#1 ok
           write ended 1.2 completed \"sent\"
           show ended 1.2 completed
           do release 1.2
         > end 1.1#1 timeout
           write close 1.1#1 timeout
           write ended 1.1 failed cancelled \"The request was stopped before this call could be tried agai…\"
           write turn cancelled requested calls 4
           show ended 1.1 failed cancelled
           show end cancelled requested (cancelled: the request was stopped); ran put_row failed; ran send_mail completed
           do release 1.1",
    );
}

#[test]
fn pending_calls_are_never_dispatched() {
    let mut run = Run::after(ours(), "call 0 send_mail {} ; call 1 get_time {} ; done");
    let trace = run.play("leave");
    assert!(run.turn.is_ended());
    assert!(
        !trace.iter().any(|line| line.contains("dispatch")),
        "{trace:?}"
    );
    assert!(
        trace.contains(&"write ended 1.0 failed cancelled \"The request was stopped.\"".to_owned())
    );
    assert!(
        trace.contains(&"write ended 1.1 failed cancelled \"The request was stopped.\"".to_owned())
    );
    assert!(run.play("slot 1.0 ; slot 1.1").is_empty());
}

#[test]
fn a_call_between_two_attempts_is_not_tried_again() {
    for tool in ["get_time", "put_row"] {
        let mut run = Run::after(
            ours(),
            &format!("call 0 {tool} {{}} ; done ; slot 1.0 ; end 1.0#1 reset gone"),
        );
        run.play("cancel");
        assert!(run.turn.is_ended());
        assert!(run.play("timer").is_empty());
    }
}

#[test]
fn a_look_up_may_end_and_leads_to_no_other_attempt() {
    for (found, end) in [
        ("happened paid", "completed \"paid\""),
        ("unknown", "failed outcome_unknown"),
        ("absent", "failed not_sent"),
    ] {
        let mut run = Run::after(
            ours(),
            "call 0 pay {} ; done ; slot 1.0 ; end 1.0#1 reset gone",
        );
        assert_eq!(run.play("cancel"), ["write stopping requested"]);
        assert!(run.turn.is_stopping());
        assert!(!run.turn.is_ended());
        let trace = run.play(&format!("found 1.0#1 {found}"));
        assert!(
            trace[0].starts_with(&format!("write ended 1.0 {end}")),
            "{trace:?}"
        );
        assert!(run.turn.is_ended());
    }
}

#[test]
fn a_running_call_is_looked_up_after_stop_too() {
    let mut run = Run::after(ours(), "call 0 pay {} ; done ; slot 1.0 ; cancel");
    assert_eq!(
        run.play("end 1.0#1 timeout"),
        ["write close 1.0#1 timeout", "do look up 1.0#1"]
    );
}

#[test]
fn leaving_a_turn_that_finishes_changes_nothing() {
    for lines in [
        "text Hel",
        "failed connect",
        "call 0 get_time {} ; done",
        "call 0 get_time {} ; done ; slot 1.0",
    ] {
        let mut run = Run::after(finishing(), lines);
        assert!(run.play("leave").is_empty(), "{lines}");
        assert!(!run.turn.is_stopping());
        run.play("cancel");
        assert!(
            run.turn.is_ended(),
            "asking for it stops it all the same: {lines}"
        );
    }
}
