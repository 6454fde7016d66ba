//! The deadline and the end of the process, in each phase.

use super::{Run, check, ours};
use crate::turn::TurnSetup;
use crate::turn_policy::RecordPolicy;

#[test]
fn while_the_model_answers() {
    check(
        ours(),
        "> text Hel
           show start m 1000
           show round 1
           show text Hel
         > call 0 get_time {} ; usage 10 1 ; deadline
           write close 1#1 cancelled usage 10+1
           write message 1 text \"Hel\"
           write turn incomplete deadline usage 10+1
           show usage 10+1
           show end incomplete deadline (deadline: the request took longer than it may)
           do abort ask
         > text lo ; done ; closed",
    );
}

#[test]
fn while_a_request_waits_to_be_repeated() {
    check(
        ours(),
        "> failed connect
           write close 1#1 connect
           do timer ask 1#2 in 500ms
         > deadline
           write turn incomplete deadline
           show end incomplete deadline (deadline: the request took longer than it may)
         > timer",
    );
}

#[test]
fn while_calls_are_in_all_their_states() {
    let mut run = Run::after(
        ours(),
        "call 0 get_time {} ; call 1 put_row {} ; call 2 pay {} ; call 3 send_mail {}
         call 4 pay {} ; call 5 get_time {} ; call 6 get_time {} ; call 7 send_mail {} ; done
         slot 1.0 ; slot 1.1 ; slot 1.2 ; slot 1.3
         slot 1.4 ; end 1.4#1 timeout
         slot 1.5 ; end 1.5#1 timeout
         slot 1.7 ; end 1.7#1 ok sent",
    );
    const UNKNOWN: &str =
        "failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"";
    const DEADLINE: &str = "failed deadline \"The request's time was up.\"";
    const MAY: &str =
        "failed deadline \"The request's time was up. The call may have taken effect al…\"";
    let trace = run.play("deadline");
    let kept: Vec<String> = trace
        .into_iter()
        .filter(|line| !line.starts_with("show ended"))
        .collect();
    super::assert_same(
        &kept,
        &super::lines_of(&format!(
            "write close 1.0#1 cancelled
             write ended 1.0 {DEADLINE}
             write close 1.1#1 cancelled
             write ended 1.1 {MAY}
             write close 1.2#1 cancelled
             write ended 1.2 {UNKNOWN}
             write close 1.3#1 cancelled
             write ended 1.3 {UNKNOWN}
             write ended 1.4 {UNKNOWN}
             write ended 1.5 {DEADLINE}
             write ended 1.6 {DEADLINE}
             write turn incomplete deadline calls 8
             show end incomplete deadline (deadline: the request took longer than it may); ran put_row failed; ran pay failed; ran send_mail failed; ran pay failed; ran send_mail completed
             do abort 1.0
             do release 1.0
             do abort 1.1
             do release 1.1
             do abort 1.2
             do release 1.2
             do abort 1.3
             do release 1.3
             do abort 1.4
             do release 1.4
             do release 1.5
             do release 1.6"
        )),
    );
    for late in [
        "end 1.3#1 ok sent",
        "found 1.4#1 happened paid",
        "slot 1.6",
        "timer",
    ] {
        assert!(run.play(late).is_empty(), "{late}");
    }
}

#[test]
fn while_a_stop_waits_for_a_call() {
    let mut run = Run::after(ours(), "call 0 send_mail {} ; done ; slot 1.0 ; cancel");
    assert!(!run.turn.is_ended());
    let trace = run.play("deadline");
    assert_eq!(
        trace.iter().rfind(|line| line.starts_with("show")).unwrap(),
        "show end cancelled requested (cancelled: the request was stopped); ran send_mail failed"
    );
}

#[test]
fn a_streamed_answer_ends_with_the_process() {
    check(
        ours(),
        "> text Hel
           show start m 1000
           show round 1
           show text Hel
         > drain
           write close 1#1 cancelled
           write message 1 text \"Hel\"
           write turn incomplete interrupted
           show end incomplete interrupted (interrupted: the server was restarted while it answered)
           do abort ask
         > drain ; done",
    );
}

#[test]
fn everything_else_is_handed_over_untouched() {
    let plain = TurnSetup {
        streamed: false,
        ..ours()
    };
    for (setup, lines) in [
        (plain, "text Hel"),
        (ours(), "failed connect"),
        (ours(), "call 0 get_time {} ; done"),
        (ours(), "call 0 send_mail {} ; done ; slot 1.0"),
        (ours(), "call 0 send_mail {} ; done ; slot 1.0 ; cancel"),
    ] {
        let mut run = Run::after(setup, lines);
        assert_eq!(run.play("drain"), ["do hand over"], "{lines}");
        assert!(!run.turn.is_ended());
    }
}

#[test]
fn a_minimal_record_is_erased_ten_minutes_after_any_end() {
    for lines in ["done", "failed status 400", "cancel", "deadline", "drain"] {
        let setup = TurnSetup {
            record: RecordPolicy::Minimal,
            ..ours()
        };
        let mut run = Run::start(setup);
        let trace = run.play(lines);
        assert!(
            trace
                .iter()
                .any(|line| line.starts_with("write turn") && line.ends_with("erase 600s")),
            "{lines}: {trace:?}"
        );
    }
}
