use super::{Run, assert_same, ours};
use crate::turn::TurnSetup;

#[test]
fn a_call_beyond_a_quota_ends_without_having_been_started() {
    let mut run = Run::after(ours(), "call 0 send_mail {} ; done");
    let trace = run.play("quota 1.0 no room");
    assert!(
        trace[0].starts_with("write ended 1.0 failed quota"),
        "{trace:?}"
    );
    let started = |line: &String| line.contains("start 1.0") || line.contains("dispatch");
    assert!(!trace.iter().any(started), "{trace:?}");
    // The model is asked again, and nothing that is said of the call later changes its end.
    assert!(
        trace.iter().any(|line| line.contains("open 2#1")),
        "{trace:?}"
    );
    assert_same(&run.play("slot 1.0 ; quota 1.0 again"), &[]);
}

#[test]
fn a_call_that_runs_already_is_not_ended_by_a_quota() {
    let mut run = Run::after(ours(), "call 0 send_mail {} ; done ; slot 1.0");
    assert_same(&run.play("quota 1.0 no room"), &[]);
}

#[test]
fn tokens_are_counted_with_the_end_of_their_request_where_there_are_quotas() {
    let counting = TurnSetup {
        counts_tokens: true,
        ..ours()
    };
    for (setup, script, expected) in [
        (counting.clone(), "text hi ; usage 5 7 ; done", 1),
        (counting.clone(), "text hi ; usage 5 7 ; failed cut", 1),
        (counting, "text hi ; done", 0),
        (ours(), "text hi ; usage 5 7 ; done", 0),
    ] {
        let trace = Run::start(setup).play(script);
        let counted = trace.iter().filter(|line| *line == "write count 12 tokens");
        assert_eq!(counted.count(), expected, "{trace:?}");
    }
}
