//! Calls that the client is to run: passed on in a relay, held beside calls of ours.

use super::recovery::found_after;
use super::{check, check_recovered, mixed, ours, relay};
use crate::turn::TurnSetup;
use crate::turn_policy::RecordPolicy;

#[test]
fn a_first_piece_waits_for_its_row_and_carries_our_id() {
    check(
        relay(),
        "> text Well.
           show start m 1000
           show round 1
           show text Well.
         > call 0 pick@up {\"a
           write client call 1.0 pick up
           show client call 0 pick@1 {\"a
         > more 0 \":1}
           show client call 0 - \":1}
         > call 1 draw@ []
           write client call 1.1 draw call_00000000000000000000000000000002
           show client call 1 draw@2 []
         > finish tool_calls ; done
           write close 1#1 ok
           write message 1 text \"Well.\" call up pick {\"a\":1} call call_T_1_1 draw []
           write hand over 1.0 pick up {\"a\":1}
           write hand over 1.1 draw call_T_1_1 []
           write turn completed calls 2
           show finish tool_calls
           show end completed",
    );
}

#[test]
fn a_plain_answer_is_written_with_its_calls() {
    let plain = TurnSetup {
        streamed: false,
        ..relay()
    };
    check(
        plain,
        "> call 0 pick@up {} ; call 1 draw@up []
         > finish tool_calls ; done
           write close 1#1 ok
           write message 1 call up pick {} call call_T_1_1 draw []
           write client call 1.0 pick up {}
           write client call 1.1 draw call_T_1_1 []
           write turn completed calls 2
           show start m 1000
           show client call 0 pick@1 {}
           show client call 1 draw@2 []
           show finish tool_calls
           show end completed",
    );
}

#[test]
fn a_call_that_breaks_off_ends_with_its_turn() {
    for (event, reason, end) in [
        ("closed", "interrupted", "failed upstream"),
        ("cancel", "cancelled", "cancelled requested"),
        ("deadline", "deadline", "incomplete deadline"),
        ("drain", "interrupted", "incomplete interrupted"),
    ] {
        let mut run = super::Run::after(relay(), "call 0 pick@up {");
        run.play(event);
        let written: Vec<String> = run.written.iter().map(super::trace::of_change).collect();
        let ended = format!(
            "ended 1.0 failed {reason} \"The answer broke off before this call was whole.\""
        );
        assert!(written.contains(&ended), "{event}: {written:?}");
        let turn = format!("turn {end} calls 1");
        assert_eq!(written.last(), Some(&turn), "{event}");
    }
}

#[test]
fn ours_run_first_and_then_the_clients_calls_are_handed_over() {
    check(
        mixed(),
        "> request
           tools \"pick\",get_time,send_mail,\"draw\"; choice as sent
         > text Hm. ; call 0 pick@a {\"n\":1} ; call 1 get_time@b {} ; call 2 draw@a [
           show start m 1000
           show round 1
           show text Hm.
         > finish tool_calls ; usage 3 2 ; done
           write close 1#1 ok usage 3+2
           write message 1 text \"Hm.\" call a pick {\"n\":1} call b get_time {} call call_T_1_2 draw [
           write client call 1.0 pick a {\"n\":1}
           write call 1.1 get_time pending
           write client call 1.2 draw call_T_1_2 [
           show call 1.1 get_time
           do slot 1.1
         > slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > end 1.1#1 ok noon
           write close 1.1#1 ok
           write ended 1.1 completed \"noon\"
           write hand over 1.0 pick a {\"n\":1}
           write hand over 1.2 draw call_T_1_2 [
           write turn completed calls 3 usage 3+2
           show ended 1.1 completed
           show client call 0 pick@1 {\"n\":1}
           show client call 1 draw@3 [
           show finish tool_calls
           show usage 3+2
           show end completed
           do release 1.1",
    );
}

#[test]
fn with_nothing_of_ours_to_run_calls_are_handed_over_at_once() {
    check(
        mixed(),
        "> call 0 pick@a {} ; call 1 get_time@b [ ; call 2 nobody@c {}
         > done
           write close 1#1 ok
           write message 1 call a pick {} call b get_time [ call c nobody {}
           write client call 1.0 pick a {}
           write call 1.1 get_time failed invalid_arguments \"The arguments are not complete, valid JSON: EOF while parsin…\"
           write call 1.2 nobody failed unknown_tool \"There is no tool named \\\"nobody\\\". The tools are: pick, get_ti…\"
           write hand over 1.0 pick a {}
           write turn completed calls 3
           show start m 1000
           show call 1.1 get_time
           show ended 1.1 failed invalid_arguments
           show call 1.2 nobody
           show ended 1.2 failed unknown_tool
           show client call 0 pick@1 {}
           show finish tool_calls
           show end completed",
    );
}

#[test]
fn a_round_of_ours_before_a_mixed_one_stays_hidden() {
    check(
        mixed(),
        "> call 0 get_time@b {} ; done
           write close 1#1 ok
           write message 1 call b get_time {}
           write call 1.0 get_time pending
           show start m 1000
           show call 1.0 get_time
           do slot 1.0
         > slot 1.0
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > end 1.0#1 ok noon
           write close 1.0#1 ok
           write ended 1.0 completed \"noon\"
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1
         > call 0 pick@b {} ; done
           write close 2#1 ok
           write message 2 call b pick {}
           write client call 2.0 pick b {}
           write hand over 2.0 pick b {}
           write turn completed calls 2
           show client call 0 pick@2 {}
           show finish tool_calls
           show end completed",
    );
}

#[test]
fn nothing_that_was_cut_by_length_is_handed_over() {
    check(
        mixed(),
        "> call 0 pick@a {} ; call 1 get_time@b {\"zo ; finish length ; done
           write close 1#1 ok
           write message 1 call a pick {} call b get_time {\"zo
           write client call 1.0 pick a {} failed interrupted
           write call 1.1 get_time failed invalid_arguments \"The call was cut off because the answer reached its length l…\"
           write turn incomplete length calls 2
           show start m 1000
           show finish length
           show end incomplete length",
    );
}

#[test]
fn a_stopped_mixed_round_hands_nothing_over() {
    check(
        mixed(),
        "> call 0 pick@a {} ; call 1 send_mail@b {} ; done
           write close 1#1 ok
           write message 1 call a pick {} call b send_mail {}
           write client call 1.0 pick a {}
           write call 1.1 send_mail pending
           show start m 1000
           show call 1.1 send_mail
           do slot 1.1
         > slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > cancel
           write stopping requested
           write ended 1.0 failed cancelled \"The request was stopped.\"
         > end 1.1#1 ok sent
           write close 1.1#1 ok
           write ended 1.1 completed \"sent\"
           write turn cancelled requested calls 2
           show ended 1.1 completed
           show end cancelled requested (cancelled: the request was stopped); ran send_mail completed
           do release 1.1",
    );
}

#[test]
fn held_results_are_kept_for_an_hour() {
    let minimal = |setup: TurnSetup| TurnSetup {
        record: RecordPolicy::Minimal,
        ..setup
    };
    let lines = "call 0 pick@a {} ; call 1 nobody@b {} ; done";
    for (setup, kept) in [
        (minimal(mixed()), Some(3600)),
        (minimal(relay()), Some(600)),
        (mixed(), None),
    ] {
        let run = super::Run::after(setup, lines);
        let erase = run.written.iter().find_map(|change| match change {
            crate::change::TurnChange::EndTurn(end) => {
                Some(end.erase_after.map(|at| at.since(end.at).as_secs()))
            }
            _ => None,
        });
        assert_eq!(erase, Some(kept));
    }
}

#[test]
fn a_withheld_tool_is_offered_from_the_second_round_on() {
    let withholding = TurnSetup {
        withheld: vec!["send_mail".to_owned()],
        choice_is_forced: true,
        ..ours()
    };
    check(
        withholding,
        "> request
           tools get_time,pay,put_row; choice auto
         > call 0 send_mail@b {} ; done
           write close 1#1 ok
           write message 1 call b send_mail {}
           write call 1.0 send_mail failed unknown_tool \"There is no tool named \\\"send_mail\\\". The tools are: get_time,…\"
           write open 2#1
           show start m 1000
           show call 1.0 send_mail
           show ended 1.0 failed unknown_tool
           do ask 2#1
         > request
           tools get_time,pay,put_row,send_mail; choice auto
           sent call b send_mail {}
           result b \"There is no tool named \\\"send_mail\\\". The tools are: get_time,…\"",
    );
}

#[test]
fn a_mixed_round_goes_on_after_a_crash() {
    let lines = "call 0 pick@a {\"n\":1} ; call 1 get_time@b {} ; done";
    let found = found_after(mixed(), lines);
    check_recovered(
        mixed(),
        &found,
        "> recover
           do slot 1.1
         > slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > end 1.1#1 ok noon
           write close 1.1#1 ok
           write ended 1.1 completed \"noon\"
           write hand over 1.0 pick a {\"n\":1}
           write turn completed calls 2
           show ended 1.1 completed
           show client call 0 pick@1 {\"n\":1}
           show finish tool_calls
           show end completed
           do release 1.1",
    );
}

#[test]
fn calls_that_were_passed_on_in_part_end_with_the_crash() {
    let found = found_after(relay(), "call 0 pick@a {\"n ; call 1 draw@b {");
    check_recovered(
        relay(),
        &found,
        "> recover
           write ended 1.0 failed interrupted \"The answer broke off before this call was whole.\"
           write ended 1.1 failed interrupted \"The answer broke off before this call was whole.\"
           write close 1#1 interrupted
           write turn incomplete interrupted calls 2
           show end incomplete interrupted (interrupted: the server was restarted while it answered)",
    );
}
