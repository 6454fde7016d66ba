//! What follows an attempt's end, for each effect class and each outcome.

use super::{Run, assert_same, check, lines_of, ours};
use crate::call::CallReason;
use crate::change::TurnChange;

const CLASSES: [(&str, &str); 4] = [
    ("read", "get_time"),
    ("idempotent", "put_row"),
    ("queryable", "pay"),
    ("once", "send_mail"),
];
const OUTCOMES: [&str; 11] = [
    "ok fine",
    "refused why",
    "unavailable why",
    "unclear why",
    "gateway why",
    "unsendable why",
    "not_sent why",
    "reset why",
    "timeout",
    "panicked",
    "aborted",
];

/// A call of `tool` whose attempt `n` runs; earlier ones were not sent.
fn running(tool: &str, n: u32) -> Run {
    let mut run = Run::after(ours(), &format!("call 0 {tool} {{}} ; done ; slot 1.0"));
    for earlier in 1..n {
        run.play(&format!("end 1.0#{earlier} not_sent why ; timer"));
    }
    run
}

/// The lines that say what becomes of the call.
fn told(trace: &[String]) -> String {
    let about_the_call = trace.iter().filter_map(|line| {
        line.strip_prefix("write ended 1.0 ").or_else(|| {
            line.strip_prefix("do ")
                .filter(|effect| effect.contains("1.0#"))
        })
    });
    about_the_call.collect::<Vec<_>>().join("; ")
}

/// One line for each class and outcome of attempt `n`.
fn table(n: u32, before: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (class, tool) in CLASSES {
        for outcome in OUTCOMES {
            let mut run = running(tool, n);
            run.play(before);
            if run.turn.is_ended() {
                continue;
            }
            let trace = run.play(&format!("end 1.0#{n} {outcome}"));
            lines.push(format!("{class}, {outcome}: {}", told(&trace)));
        }
    }
    lines
}

#[test]
fn after_a_first_attempt() {
    assert_same(
        &table(1, ""),
        &lines_of(
            r#"read, ok fine: completed "fine"
               read, refused why: failed tool_error "why"
               read, unavailable why: timer call 1.0#2 in 200ms
               read, unclear why: failed tool_error "why"
               read, gateway why: timer call 1.0#2 in 200ms
               read, unsendable why: failed not_sent "why"
               read, not_sent why: timer call 1.0#2 in 200ms
               read, reset why: timer call 1.0#2 in 200ms
               read, timeout: timer call 1.0#2 in 200ms
               read, panicked: failed panicked "The tool failed internally."
               read, aborted: timer call 1.0#2 in 200ms
               idempotent, ok fine: completed "fine"
               idempotent, refused why: failed tool_error "why"
               idempotent, unavailable why: timer call 1.0#2 in 200ms
               idempotent, unclear why: failed tool_error "why"
               idempotent, gateway why: timer call 1.0#2 in 200ms
               idempotent, unsendable why: failed not_sent "why"
               idempotent, not_sent why: timer call 1.0#2 in 200ms
               idempotent, reset why: timer call 1.0#2 in 200ms
               idempotent, timeout: timer call 1.0#2 in 200ms
               idempotent, panicked: failed panicked "The tool failed internally. The call may have taken effect a…"
               idempotent, aborted: timer call 1.0#2 in 200ms
               queryable, ok fine: completed "fine"
               queryable, refused why: failed tool_error "why"
               queryable, unavailable why: failed tool_error "why"
               queryable, unclear why: failed tool_error "why"
               queryable, gateway why: look up 1.0#1
               queryable, unsendable why: failed not_sent "why"
               queryable, not_sent why: timer call 1.0#2 in 200ms
               queryable, reset why: look up 1.0#1
               queryable, timeout: look up 1.0#1
               queryable, panicked: look up 1.0#1
               queryable, aborted: look up 1.0#1
               once, ok fine: completed "fine"
               once, refused why: failed tool_error "why"
               once, unavailable why: failed tool_error "why"
               once, unclear why: failed tool_error "why"
               once, gateway why: failed outcome_unknown "why"
               once, unsendable why: failed not_sent "why"
               once, not_sent why: timer call 1.0#2 in 200ms
               once, reset why: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, timeout: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, panicked: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, aborted: failed outcome_unknown "It is not known whether this call took effect. It must not s…""#,
        ),
    );
}

#[test]
fn after_the_last_attempt() {
    let table = table(3, "");
    let read = [
        r#"ok fine: completed "fine""#,
        r#"refused why: failed tool_error "why""#,
        r#"unavailable why: failed tool_error "why""#,
        r#"unclear why: failed tool_error "why""#,
        r#"gateway why: failed tool_error "why""#,
        r#"unsendable why: failed not_sent "why""#,
        r#"not_sent why: failed not_sent "why""#,
        r#"reset why: failed reset "why""#,
        r#"timeout: failed timeout "The tool did not answer within its time.""#,
        r#"panicked: failed panicked "The tool failed internally.""#,
        r#"aborted: failed interrupted "The call was interrupted.""#,
    ];
    let idempotent = [
        &read[..7],
        &[
            r#"reset why: failed reset "why. The call may have taken effect all the same. Made again…""#,
            r#"timeout: failed timeout "The tool did not answer within its time. The call may have t…""#,
            r#"panicked: failed panicked "The tool failed internally. The call may have taken effect a…""#,
            r#"aborted: failed interrupted "The call was interrupted. The call may have taken effect all…""#,
        ],
    ]
    .concat();
    for (n, (read, idempotent)) in read.iter().zip(idempotent).enumerate() {
        assert_eq!(table[n], format!("read, {read}"));
        assert_eq!(
            table[OUTCOMES.len() + n],
            format!("idempotent, {idempotent}")
        );
    }
    assert_same(
        &table[2 * OUTCOMES.len()..],
        &lines_of(
            r#"queryable, ok fine: completed "fine"
               queryable, refused why: failed tool_error "why"
               queryable, unavailable why: failed tool_error "why"
               queryable, unclear why: failed tool_error "why"
               queryable, gateway why: look up 1.0#3
               queryable, unsendable why: failed not_sent "why"
               queryable, not_sent why: failed not_sent "why"
               queryable, reset why: look up 1.0#3
               queryable, timeout: look up 1.0#3
               queryable, panicked: look up 1.0#3
               queryable, aborted: look up 1.0#3
               once, ok fine: completed "fine"
               once, refused why: failed tool_error "why"
               once, unavailable why: failed tool_error "why"
               once, unclear why: failed tool_error "why"
               once, gateway why: failed outcome_unknown "why"
               once, unsendable why: failed not_sent "why"
               once, not_sent why: failed not_sent "why"
               once, reset why: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, timeout: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, panicked: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, aborted: failed outcome_unknown "It is not known whether this call took effect. It must not s…""#,
        ),
    );
}

/// A running `read` is ended by the stop itself, so that nothing is left to come of it.
#[test]
fn after_stop_nothing_is_tried_again() {
    assert_same(
        &table(1, "cancel"),
        &lines_of(
            r#"idempotent, ok fine: completed "fine"
               idempotent, refused why: failed tool_error "why"
               idempotent, unavailable why: failed cancelled "The request was stopped before this call could be tried agai…"
               idempotent, unclear why: failed tool_error "why"
               idempotent, gateway why: failed cancelled "The request was stopped before this call could be tried agai…"
               idempotent, unsendable why: failed not_sent "why"
               idempotent, not_sent why: failed cancelled "The request was stopped before this call could be tried agai…"
               idempotent, reset why: failed cancelled "The request was stopped before this call could be tried agai…"
               idempotent, timeout: failed cancelled "The request was stopped before this call could be tried agai…"
               idempotent, panicked: failed panicked "The tool failed internally. The call may have taken effect a…"
               idempotent, aborted: failed cancelled "The request was stopped before this call could be tried agai…"
               queryable, ok fine: completed "fine"
               queryable, refused why: failed tool_error "why"
               queryable, unavailable why: failed tool_error "why"
               queryable, unclear why: failed tool_error "why"
               queryable, gateway why: look up 1.0#1
               queryable, unsendable why: failed not_sent "why"
               queryable, not_sent why: failed cancelled "The request was stopped before this call could be tried agai…"
               queryable, reset why: look up 1.0#1
               queryable, timeout: look up 1.0#1
               queryable, panicked: look up 1.0#1
               queryable, aborted: look up 1.0#1
               once, ok fine: completed "fine"
               once, refused why: failed tool_error "why"
               once, unavailable why: failed tool_error "why"
               once, unclear why: failed tool_error "why"
               once, gateway why: failed outcome_unknown "why"
               once, unsendable why: failed not_sent "why"
               once, not_sent why: failed cancelled "The request was stopped before this call could be tried agai…"
               once, reset why: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, timeout: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, panicked: failed outcome_unknown "It is not known whether this call took effect. It must not s…"
               once, aborted: failed outcome_unknown "It is not known whether this call took effect. It must not s…""#,
        ),
    );
}

#[test]
fn waits_between_attempts_double() {
    let mut run = running("get_time", 1);
    let trace =
        run.play("end 1.0#1 reset a ; timer ; end 1.0#2 reset b ; timer ; end 1.0#3 reset c");
    let waits: Vec<String> = trace
        .into_iter()
        .filter(|line| line.contains("timer"))
        .collect();
    assert_same(
        &waits,
        &lines_of("do timer call 1.0#2 in 200ms\ndo timer call 1.0#3 in 400ms"),
    );
}

#[test]
fn a_tool_that_says_when_is_asked_no_sooner() {
    for (asked_s, wait) in [
        (0, "200ms"),
        (3, "3000ms"),
        // No longer than any other wait.
        (11, "10000ms"),
        (4_000_000_000u32, "10000ms"),
    ] {
        for tool in ["get_time", "put_row"] {
            let trace = running(tool, 1).play(&format!("end 1.0#1 come_back {asked_s} busy"));
            assert_eq!(told(&trace), format!("timer call 1.0#2 in {wait}"));
        }
        for tool in ["pay", "send_mail"] {
            let trace = running(tool, 1).play(&format!("end 1.0#1 come_back {asked_s} busy"));
            assert_eq!(told(&trace), r#"failed tool_error "busy""#);
        }
    }
}

#[test]
fn a_look_up_that_finds_the_call_ends_it_with_its_answer() {
    check(
        ours(),
        "> call 0 pay {} ; done
           write close 1#1 ok
           write message 1 call c0 pay {}
           write call 1.0 pay pending
           show start m 1000
           show call 1.0 pay
           do slot 1.0
         > slot 1.0
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > end 1.0#1 timeout
           write close 1.0#1 timeout
           do look up 1.0#1
         > found 1.0#2 happened no ; end 1.0#1 ok late
         > found 1.0#1 happened paid
           write ended 1.0 completed \"paid\"
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1
         > found 1.0#1 absent",
    );
}

#[test]
fn a_look_up_that_finds_nothing_leads_to_another_attempt() {
    let mut run = running("pay", 1);
    run.play("end 1.0#1 reset gone");
    assert_same(
        &run.play("found 1.0#1 absent"),
        &lines_of("do timer call 1.0#2 in 0ms"),
    );
    assert_same(
        &run.play("timer"),
        &lines_of("write open 1.0#2\ndo dispatch 1.0#2"),
    );
    run.play("end 1.0#2 reset gone ; found 1.0#2 absent ; timer ; end 1.0#3 reset gone");
    let trace = run.play("found 1.0#3 absent");
    assert!(
        trace[0].starts_with("write ended 1.0 failed not_sent"),
        "{trace:?}"
    );
}

#[test]
fn a_look_up_without_an_answer_leaves_the_outcome_unknown() {
    for n in [1, 3] {
        let mut run = running("pay", n);
        run.play(&format!("end 1.0#{n} timeout"));
        let trace = run.play(&format!("found 1.0#{n} unknown"));
        assert!(
            trace[0].starts_with("write ended 1.0 failed outcome_unknown"),
            "{trace:?}"
        );
    }
}

#[test]
fn a_turn_that_fails_says_what_it_may_have_changed() {
    for (class, tool) in CLASSES {
        for (outcome, listed) in [
            ("ok fine", Some("completed")),
            ("refused why", Some("failed")),
            ("panicked ; found 1.0#1 unknown", Some("failed")),
            ("unsendable why", None),
            (
                "not_sent a ; timer ; end 1.0#2 not_sent b ; timer ; end 1.0#3 not_sent c",
                None,
            ),
        ] {
            let mut run = running(tool, 1);
            run.play(&format!("end 1.0#1 {outcome}"));
            let trace = run.play("failed status 400");
            let listed = match listed {
                Some(status) if class != "read" => format!("; ran {tool} {status}"),
                Some(_) | None => String::new(),
            };
            assert_eq!(
                trace.last(),
                Some(&format!(
                    "show end failed upstream (refused 400: upstream says no, code, kind, param){listed}"
                )),
                "{class}, {outcome}"
            );
        }
    }
}

#[test]
fn a_call_that_was_sent_counts_although_it_was_cut_short() {
    for lines in [
        "deadline",
        "end 1.0#1 reset gone ; deadline",
        "end 1.0#1 reset gone ; cancel",
        "cancel ; end 1.0#1 reset gone",
    ] {
        let mut run = running("put_row", 1);
        let trace = run.play(lines);
        let end = trace.iter().rfind(|line| line.starts_with("show end "));
        assert!(
            end.unwrap().ends_with("; ran put_row failed"),
            "{lines}: {trace:?}"
        );
    }
    // One that was certainly not sent does not.
    for lines in [
        "end 1.0#1 not_sent why ; deadline",
        "end 1.0#1 not_sent why ; cancel",
        "cancel ; end 1.0#1 not_sent why",
    ] {
        let mut run = running("send_mail", 1);
        let trace = run.play(lines);
        let end = trace.iter().rfind(|line| line.starts_with("show end "));
        assert!(!end.unwrap().contains("; ran"), "{lines}: {trace:?}");
    }
}

/// What the model reads of a call, whole.
fn read_by_the_model(run: &Run) -> (CallReason, String) {
    let mut ends = run.written.iter().filter_map(|change| match change {
        TurnChange::EndCall { end, .. } => Some((end.reason.unwrap(), end.shown.clone())),
        _ => None,
    });
    ends.next_back().unwrap()
}

const UNKNOWN: &str =
    "It is not known whether this call took effect. It must not simply be repeated.";
const MAY: &str = " The call may have taken effect all the same. Made again with the same arguments before the \
                   request is answered, it takes no second effect.";

/// Of each call that ended badly: what became of it, and whether the model reads that it may have acted.
#[test]
fn the_model_reads_of_each_call_that_was_sent_whether_it_may_have_acted() {
    let gone = "end 1.0#1 reset gone";
    for (tool, lines, reason, shown, may) in [
        ("put_row", "end 1.0#1 unsendable why", "not_sent", "why", ""),
        ("put_row", "end 1.0#1 refused why", "tool_error", "why", ""),
        (
            "put_row",
            &format!("{gone} ; timer ; end 1.0#2 refused why"),
            "tool_error",
            "why.",
            MAY,
        ),
        // Whatever was not sent in the end, something was sent before.
        (
            "put_row",
            &format!("{gone} ; timer ; end 1.0#2 not_sent why ; timer ; end 1.0#3 not_sent why"),
            "outcome_unknown",
            "why.",
            MAY,
        ),
        (
            "put_row",
            "end 1.0#1 not_sent why ; timer ; end 1.0#2 not_sent why ; timer ; end 1.0#3 not_sent why",
            "not_sent",
            "why",
            "",
        ),
        (
            "put_row",
            &format!("{gone} ; cancel"),
            "cancelled",
            "The request was stopped.",
            MAY,
        ),
        (
            "put_row",
            &format!("cancel ; {gone}"),
            "cancelled",
            "The request was stopped before this call could be tried again.",
            MAY,
        ),
        (
            "put_row",
            "deadline",
            "deadline",
            "The request's time was up.",
            MAY,
        ),
        (
            "put_row",
            &format!("{gone} ; deadline"),
            "deadline",
            "The request's time was up.",
            MAY,
        ),
        (
            "put_row",
            "end 1.0#1 not_sent why ; deadline",
            "deadline",
            "The request's time was up.",
            "",
        ),
        (
            "get_time",
            "deadline",
            "deadline",
            "The request's time was up.",
            "",
        ),
        ("send_mail", "deadline", "outcome_unknown", UNKNOWN, ""),
        (
            "send_mail",
            "end 1.0#1 timeout",
            "outcome_unknown",
            UNKNOWN,
            "",
        ),
        (
            "pay",
            "end 1.0#1 gateway why ; found 1.0#1 unknown",
            "outcome_unknown",
            UNKNOWN,
            "",
        ),
        (
            "pay",
            "end 1.0#1 gateway why ; found 1.0#1 absent ; deadline",
            "deadline",
            "The request's time was up.",
            "",
        ),
    ] {
        let mut run = running(tool, 1);
        run.play(lines);
        let (told, words) = read_by_the_model(&run);
        assert_eq!(
            (told.as_str(), words),
            (reason, format!("{shown}{may}")),
            "{tool}: {lines}"
        );
    }
}

/// The keys of all calls so far, in order, by the number of the first call that had it.
fn keys(run: &Run) -> Vec<usize> {
    let keys = run.written.iter().filter_map(|change| match change {
        TurnChange::AddCall(call) => Some(call.idempotency_key.clone()),
        _ => None,
    });
    let keys: Vec<_> = keys.collect();
    let first = |key| keys.iter().position(|known| known == key).unwrap();
    keys.iter().map(first).collect()
}

const AGAIN: &str = r#"call 0 put_row {"zone":"a"} ; done"#;

/// What became of the first call, what the model calls then, and which calls have which key.
#[test]
fn a_call_that_is_made_again_has_the_key_of_one_that_nobody_knows_to_have_acted() {
    let lost = "end 1.0#1 panicked";
    for (first, then, expected) in [
        (lost, AGAIN, [0, 0]),
        ("end 1.0#1 unclear why", AGAIN, [0, 0]),
        (
            "end 1.0#1 gateway a ; timer ; end 1.0#2 gateway b ; timer ; end 1.0#3 gateway c",
            AGAIN,
            [0, 0],
        ),
        (
            "end 1.0#1 timeout ; timer ; end 1.0#2 not_sent b ; timer ; end 1.0#3 not_sent c",
            AGAIN,
            [0, 0],
        ),
        (
            "end 1.0#1 timeout ; timer ; end 1.0#2 refused no",
            AGAIN,
            [0, 0],
        ),
        // The order of members and the spaces between them say nothing.
        (
            lost,
            r#"call 0 put_row { "zone" : "\u0061" } ; done"#,
            [0, 0],
        ),
        // It is known: to have been done, or not to have been.
        ("end 1.0#1 ok fine", AGAIN, [0, 1]),
        (
            "end 1.0#1 timeout ; timer ; end 1.0#2 ok fine",
            AGAIN,
            [0, 1],
        ),
        ("end 1.0#1 refused no", AGAIN, [0, 1]),
        ("end 1.0#1 unsendable no", AGAIN, [0, 1]),
        // Another call.
        (lost, r#"call 0 put_row {"zone":"b"} ; done"#, [0, 1]),
        (lost, "call 0 put_row {} ; done", [0, 1]),
        (lost, r#"call 0 pay {"zone":"a"} ; done"#, [0, 1]),
    ] {
        let setup = Run::after(ours(), &format!("{AGAIN} ; slot 1.0"));
        let mut run = setup;
        run.play(first);
        run.play(then);
        assert_eq!(keys(&run), expected, "{first}; {then}");
    }
    // Only of an `idempotent` tool.
    for (tool, lost) in [
        ("get_time", lost),
        ("send_mail", lost),
        ("pay", "end 1.0#1 unclear why"),
    ] {
        let call = format!(r#"call 0 {tool} {{"zone":"a"}} ; done"#);
        let mut run = Run::after(ours(), &format!("{call} ; slot 1.0 ; {lost}"));
        run.play(&call);
        assert_eq!(keys(&run), [0, 1], "{tool}");
    }
}

#[test]
fn two_equal_calls_that_are_made_again_have_both_their_keys() {
    let both = r#"call 0 put_row {"zone":"a"} ; call 1 put_row {"zone":"a"} ; done"#;
    let mut run = Run::after(ours(), both);
    run.play("slot 1.0 ; slot 1.1 ; end 1.0#1 panicked ; end 1.1#1 panicked");
    run.play(both);
    assert_eq!(keys(&run), [0, 1, 0, 1]);
    // Both were done now: what is called once more is new.
    run.play("slot 2.0 ; slot 2.1 ; end 2.0#1 ok a ; end 2.1#1 panicked");
    run.play(both);
    assert_eq!(keys(&run), [0, 1, 0, 1, 1, 5]);
}
