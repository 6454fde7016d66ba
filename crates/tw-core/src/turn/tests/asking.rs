//! Asking the model: whole answers, failures, retries and faults.

use super::{Run, assert_same, check, lines_of, ours, relay};

#[test]
fn a_plain_answer_is_shown_as_it_comes_and_recorded() {
    check(
        ours(),
        "> start
           write open 1#1
           do ask 1#1
         > named m-2026 5
         > text Hel
           show start m-2026 5
           show round 1
           show text Hel
         > text lo
           show text lo
         > finish stop ; usage 10 5
         > done
           write close 1#1 ok usage 10+5
           write message 1 text \"Hello\"
           write turn completed usage 10+5
           show finish stop
           show usage 10+5
           show end completed",
    );
}

#[test]
fn an_answer_without_a_name_or_text_is_an_answer() {
    check(
        relay(),
        "> finish stop ; done
           write close 1#1 ok
           write message 1
           write turn completed
           show start m 1000
           show finish stop
           show end completed",
    );
}

#[test]
fn a_finish_or_the_end_mark_makes_an_answer_whole() {
    for lines in ["text Hi ; finish stop ; closed", "text Hi ; done"] {
        let mut run = Run::start(ours());
        let trace = run.play(lines);
        assert!(
            trace.contains(&"show end completed".to_owned()),
            "{lines}: {trace:?}"
        );
        assert!(
            trace.contains(&"show finish stop".to_owned()),
            "{lines}: {trace:?}"
        );
    }
}

#[test]
fn with_neither_the_answer_was_cut_and_its_calls_do_not_run() {
    check(
        ours(),
        "> call 0 get_time {}
         > closed
           write close 1#1 cut
           do timer ask 1#2 in 500ms
         > timer
           write open 1#2
           do ask 1#2",
    );
    check(
        ours(),
        "> text Hel
           show start m 1000
           show round 1
           show text Hel
         > call 0 get_time {} ; usage 10 2 ; closed
           write close 1#1 cut usage 10+2
           write message 1 text \"Hel\"
           write turn failed upstream usage 10+2
           show usage 10+2
           show end failed upstream (upstream_failed: the upstream's answer broke off)",
    );
}

#[test]
fn an_error_object_fails_the_round_whatever_else_comes() {
    check(
        ours(),
        "> text Hel
           show start m 1000
           show round 1
           show text Hel
         > error - overloaded ; finish stop ; done
           write close 1#1 reported
           write message 1 text \"Hel\"
           write turn failed upstream
           show end failed upstream (upstream_reported: overloaded)",
    );
    // One that names a status is treated like that status.
    check(
        ours(),
        "> error 429 slow down ; done
           write close 1#1 status 429
           do timer ask 1#2 in 500ms",
    );
}

const REPEATED: [&str; 9] = [
    "failed connect",
    "failed reset",
    "failed cut",
    "failed status 408",
    "failed status 429",
    "failed status 500",
    "failed status 502",
    "failed status 503",
    "failed status 529",
];

#[test]
fn a_failure_that_may_pass_is_repeated_while_nothing_was_shown() {
    for failure in REPEATED {
        let mut run = Run::start(ours());
        let trace = run.play(&format!(
            "named m 5 ; logprobs [] ; call 0 get_time {{}} ; {failure}"
        ));
        assert_eq!(
            trace.last().map(String::as_str),
            Some("do timer ask 1#2 in 500ms"),
            "{failure}: {trace:?}"
        );
        assert!(
            !trace.iter().any(|line| line.starts_with("show")),
            "{failure}: {trace:?}"
        );
    }
}

#[test]
fn nothing_is_repeated_after_something_was_shown() {
    for shown in ["text H", "reasoning Hm", "details [1]"] {
        for failure in REPEATED {
            let mut run = Run::after(ours(), shown);
            let trace = run.play(failure);
            assert!(
                !trace.iter().any(|line| line.starts_with("do")),
                "{failure}: {trace:?}"
            );
            assert!(run.turn.is_ended(), "{failure}");
        }
    }
    // A relayed call is shown as it comes.
    let mut run = Run::after(relay(), "call 0 theirs {");
    run.play("failed reset");
    assert!(run.turn.is_ended());
}

#[test]
fn what_would_fail_again_is_not_repeated_and_each_has_its_fault() {
    let all = "code, kind, param";
    for (failure, fault) in [
        (
            "failed status 400",
            format!("refused 400: upstream says no, {all}"),
        ),
        (
            "failed status 404",
            format!("refused 404: upstream says no, {all}"),
        ),
        (
            "failed status 413",
            format!("refused 413: upstream says no, {all}"),
        ),
        (
            "failed status 422",
            format!("refused 422: upstream says no, {all}"),
        ),
        (
            "failed status 401",
            "upstream_failed: the upstream refused this server's credentials".to_owned(),
        ),
        (
            "failed status 403",
            "upstream_failed: the upstream refused this server's credentials".to_owned(),
        ),
        (
            "failed status 409",
            format!("upstream_failed: upstream says no, {all}"),
        ),
        (
            "failed status 302",
            format!("upstream_failed: upstream says no, {all}"),
        ),
        (
            "failed silent",
            format!("upstream_silent: upstream says no, {all}"),
        ),
        (
            "failed nonsense",
            format!("upstream_failed: upstream says no, {all}"),
        ),
    ] {
        let mut run = Run::start(ours());
        let trace = run.play(failure);
        assert_eq!(
            trace.last(),
            Some(&format!("show end failed upstream ({fault})")),
            "{failure}"
        );
        assert!(run.turn.is_ended());
    }
}

#[test]
fn after_the_last_attempt_the_failure_is_told() {
    for (failure, fault) in [
        ("failed connect", "upstream_failed: upstream says no"),
        ("failed reset", "upstream_failed: upstream says no"),
        ("failed status 408", "upstream_limited: upstream says no"),
        (
            "failed status 429 retry 7",
            "upstream_limited: upstream says no, retry 7s",
        ),
        ("failed status 500", "upstream_failed: upstream says no"),
        ("failed status 529", "upstream_failed: upstream says no"),
    ] {
        let mut run = Run::start(ours());
        let trace = run.play(&format!("{failure}\ntimer\n{failure}\ntimer\n{failure}"));
        let asked = trace
            .iter()
            .filter(|line| line.starts_with("do ask"))
            .count();
        assert_eq!(asked, 2, "three attempts in all, the first at the start");
        assert_eq!(
            trace.last(),
            Some(&format!(
                "show end failed upstream ({fault}, code, kind, param)"
            )),
        );
    }
}

#[test]
fn the_wait_doubles_unless_the_upstream_says_how_long() {
    let mut setup = ours();
    setup.limits.model_attempts_max = 5;
    let mut run = Run::start(setup);
    let trace = run.play(
        "failed connect ; timer ; failed status 500 ; timer
         failed status 429 retry 12 ; timer ; failed status 503 retry 3600",
    );
    let waits: Vec<String> = trace
        .into_iter()
        .filter(|line| line.contains("timer"))
        .collect();
    assert_same(
        &waits,
        &lines_of(
            "do timer ask 1#2 in 500ms
             do timer ask 1#3 in 1000ms
             do timer ask 1#4 in 12000ms
             do timer ask 1#5 in 30000ms",
        ),
    );
}

#[test]
fn no_wait_goes_beyond_the_deadline() {
    let mut setup = ours();
    setup.deadline = super::CREATED.after(std::time::Duration::from_secs(10));
    let mut run = Run::start(setup.clone());
    assert!(
        run.play("failed status 429 retry 9")
            .contains(&"do timer ask 1#2 in 9000ms".to_owned())
    );
    let mut run = Run::start(setup);
    run.play("failed status 429 retry 10");
    assert!(run.turn.is_ended());
}

#[test]
fn a_later_round_is_repeated_although_an_earlier_one_was_shown() {
    check(
        ours(),
        "> text Let me see.
           show start m 1000
           show round 1
           show text Let me see.
         > call 0 get_time {} ; finish tool_calls ; done
           write close 1#1 ok
           write message 1 text \"Let me see.\" call c0 get_time {}
           write call 1.0 get_time pending
           show call 1.0 get_time
           do slot 1.0
         > slot 1.0
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > end 1.0#1 ok 12:00
           write close 1.0#1 ok
           write ended 1.0 completed \"12:00\"
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1
         > failed status 503
           write close 2#1 status 503
           do timer ask 2#2 in 500ms
         > timer
           write open 2#2
           do ask 2#2
         > text Noon.
           show round 2
           show text Noon.
         > done
           write close 2#2 ok
           write message 2 text \"Noon.\"
           write turn completed calls 1
           show finish stop
           show end completed",
    );
}

#[test]
fn an_end_of_an_earlier_attempt_changes_nothing() {
    check(
        ours(),
        "> failed connect
           write close 1#1 connect
           do timer ask 1#2 in 500ms
         > done ; closed ; text late ; timer ask 1#3 ; timer ask 2#2 ; timer ask 1#1
         > timer
           write open 1#2
           do ask 1#2
         > @1 text late ; @1 done ; @1 closed ; @1 failed connect ; @3 closed
         > text Hi
           show start m 1000
           show round 1
           show text Hi",
    );
}

#[test]
fn an_end_of_an_earlier_round_changes_nothing() {
    // The bytes behind the end mark, when the next round was asked in the same step.
    check(
        ours(),
        "> call 0 unknown {} ; done
           write close 1#1 ok
           write message 1 call c0 unknown {}
           write call 1.0 unknown failed unknown_tool \"There is no tool named \\\"unknown\\\". The tools are: get_time, p…\"
           write open 2#1
           show start m 1000
           show call 1.0 unknown
           show ended 1.0 failed unknown_tool
           do ask 2#1
         > @1#1 closed ; @1#1 done ; @1#1 text late ; @1#1 failed reset ; @3#1 done
         > text Hi
           show round 2
           show text Hi",
    );
}

#[test]
fn usage_is_summed_over_failed_attempts_too() {
    check(
        ours(),
        "> usage 10 1 ; usage 10 2 ; failed reset
           write close 1#1 reset usage 10+2
           do timer ask 1#2 in 500ms
         > timer
           write open 1#2
           do ask 1#2
         > usage 10 5 ; done
           write close 1#2 ok usage 10+5
           write message 1
           write turn completed usage 20+7
           show start m 1000
           show finish stop
           show usage 20+7
           show end completed",
    );
}

#[test]
fn what_nobody_sees_waits_for_something_to_show() {
    check(
        relay(),
        "> extra fingerprint \"a\" ; logprobs [1]
         > text Hi
           show start m 1000
           show round 1
           show extra fingerprint \"a\"
           show logprobs [1]
           show text Hi
         > extra tier \"b\"
           show extra tier \"b\"",
    );
    // An attempt that is repeated takes with it what was held.
    check(
        relay(),
        "> extra fingerprint \"a\" ; failed connect
           write close 1#1 connect
           do timer ask 1#2 in 500ms
         > timer
           write open 1#2
           do ask 1#2
         > extra fingerprint \"b\" ; done
           write close 1#2 ok
           write message 1
           write turn completed
           show start m 1000
           show extra fingerprint \"b\"
           show finish stop
           show end completed",
    );
}

#[test]
fn finish_reasons_fit_what_the_model_did() {
    for (lines, finish) in [
        ("text Hi ; finish stop ; done", "stop"),
        ("text Hi ; finish content_filter ; done", "content_filter"),
        ("text Hi ; finish tool_calls ; done", "stop"),
        ("text Hi ; finish stop_sequence ; done", "stop_sequence"),
        ("text Hi ; finish pause ; done", "pause"),
        ("text Hi ; finish refusal ; done", "refusal"),
        ("call 0 theirs {} ; finish stop ; done", "tool_calls"),
        ("call 0 theirs {} ; done", "tool_calls"),
        ("legacy 0 theirs {} ; finish stop ; done", "tool_calls"),
        ("call 0 theirs { ; finish length ; done", "length"),
    ] {
        let mut run = Run::start(relay());
        let trace = run.play(lines);
        assert!(
            trace.contains(&format!("show finish {finish}")),
            "{lines}: {trace:?}"
        );
    }
}

#[test]
fn a_clients_own_calls_pass_and_are_recorded_as_written() {
    check(
        relay(),
        "> call 0 theirs {\"a
           write client call 1.0 theirs c0
           show start m 1000
           show round 1
           show client call 0 theirs@1 {\"a
         > more 0 \":1
           show client call 0 - \":1
         > call 1 other@ []
           write client call 1.1 other call_00000000000000000000000000000002
           show client call 1 other@2 []
         > finish tool_calls ; done
           write close 1#1 ok
           write message 1 call c0 theirs {\"a\":1 call call_T_1_1 other []
           write hand over 1.0 theirs c0 {\"a\":1
           write hand over 1.1 other call_T_1_1 []
           write turn completed calls 2
           show finish tool_calls
           show end completed",
    );
}
