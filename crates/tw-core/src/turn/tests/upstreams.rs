//! Several upstreams: who is asked after whom, and how long after.

use super::recovery::found_after;
use super::{Run, check, check_recovered, ours, upstreams_named};
use crate::turn::TurnSetup;

fn chain(names: &[&str]) -> TurnSetup {
    TurnSetup {
        upstreams: upstreams_named(names),
        ..ours()
    }
}

/// Which upstreams a turn asks when they fail so, and the waits before, until it ends.
fn asked(setup: TurnSetup, failures: &[&str]) -> Vec<String> {
    let mut run = Run::start(setup);
    let mut asked = Vec::new();
    for failure in failures {
        for line in run.play(failure) {
            if let Some((_, wait)) = line.split_once(" in ") {
                asked.push(wait.to_owned());
            }
        }
        if run.turn.is_ended() {
            asked.push("end".to_owned());
            break;
        }
        for line in run.play("timer") {
            if let Some(open) = line.strip_prefix("write open ") {
                asked.push(open.to_owned());
            }
        }
    }
    asked
}

#[test]
fn a_failure_is_followed_by_the_next_upstream_at_once() {
    check(
        chain(&["up", "b"]),
        "> failed status 503
           write close 1#1 status 503
           do timer ask 1#2 in 0ms
         > timer
           write open 1#2 of b
           do ask 1#2
         > text Hi
           show start m 1000
           show round 1
           show text Hi
         > done
           write close 1#2 ok
           write message 1 text \"Hi\"
           write turn completed
           show finish stop
           show end completed",
    );
}

#[test]
fn attempts_go_round_the_chain_and_are_counted_over_all_of_it() {
    let always = ["failed connect"; 6];
    assert_eq!(
        asked(chain(&["up"]), &always),
        ["500ms", "1#2", "1000ms", "1#3", "end"]
    );
    assert_eq!(
        asked(chain(&["up", "b"]), &always),
        ["0ms", "1#2 of b", "500ms", "1#3", "end"]
    );
    assert_eq!(
        asked(chain(&["up", "b", "c", "d"]), &always),
        ["0ms", "1#2 of b", "0ms", "1#3 of c", "end"]
    );
    let mut patient = chain(&["up", "b"]);
    patient.limits.model_attempts_max = 6;
    assert_eq!(
        asked(patient, &always),
        [
            "0ms", "1#2 of b", "500ms", "1#3", "500ms", "1#4 of b", "1000ms", "1#5", "1000ms",
            "1#6 of b", "end"
        ]
    );
}

#[test]
fn what_only_this_upstream_does_is_asked_of_another_one_and_of_none_twice() {
    for failure in [
        "failed silent",
        "failed nonsense",
        "failed status 401",
        "failed status 402",
        "failed status 403",
    ] {
        let failures = [failure; 4];
        assert_eq!(asked(chain(&["up"]), &failures), ["end"], "{failure}");
        assert_eq!(
            asked(chain(&["up", "b"]), &failures),
            ["0ms", "1#2 of b", "end"],
            "{failure}"
        );
    }
}

#[test]
fn a_request_that_is_refused_is_not_asked_again_anywhere() {
    for failure in [
        "failed status 400",
        "failed status 404",
        "failed status 409",
        "failed status 413",
        "failed status 422",
        "error - bad ; done",
    ] {
        assert_eq!(asked(chain(&["up", "b"]), &[failure]), ["end"], "{failure}");
    }
}

#[test]
fn nothing_goes_to_another_upstream_after_something_was_shown() {
    let mut run = Run::after(chain(&["up", "b"]), "text Hel");
    let trace = run.play("failed reset");
    assert!(
        !trace.iter().any(|line| line.starts_with("do")),
        "{trace:?}"
    );
    assert!(run.turn.is_ended());
}

#[test]
fn an_upstream_that_says_when_is_left_alone_until_then() {
    let mut patient = chain(&["up", "b"]);
    patient.limits.model_attempts_max = 5;
    let failures = [
        "failed status 429 retry 12",
        "failed status 500",
        "failed status 500",
        "failed status 429 retry 3600",
    ];
    assert_eq!(
        asked(patient, &failures),
        [
            "0ms", "1#2 of b", "12000ms", "1#3", "500ms", "1#4 of b", "1000ms", "1#5"
        ]
    );
    let mut patient = chain(&["up", "b"]);
    patient.limits.model_attempts_max = 4;
    let failures = [
        "failed connect",
        "failed status 429 retry 3600",
        "failed connect",
    ];
    assert_eq!(
        asked(patient, &failures),
        ["0ms", "1#2 of b", "500ms", "1#3", "29500ms", "1#4 of b"]
    );
}

#[test]
fn a_later_round_begins_with_the_upstream_that_answered() {
    let mut run = Run::start(chain(&["up", "b", "c"]));
    run.play("failed connect ; timer");
    let trace = run.play("call 0 unknown {} ; done");
    assert!(
        trace.contains(&"write open 2#1 of b".to_owned()),
        "{trace:?}"
    );
    let trace = run.play("failed connect ; timer");
    assert!(
        trace.contains(&"write open 2#2 of c".to_owned()),
        "{trace:?}"
    );
    let trace = run.play("failed connect ; timer");
    assert!(trace.contains(&"write open 2#3".to_owned()), "{trace:?}");
}

#[test]
fn a_turn_that_is_taken_over_goes_on_with_its_chain() {
    let setup = TurnSetup {
        streamed: false,
        ..chain(&["up", "b", "c"])
    };
    let found = found_after(
        setup.clone(),
        "failed connect ; timer ; call 0 unknown {} ; done",
    );
    check_recovered(
        setup.clone(),
        &found,
        "> recover
           write close 2#1 interrupted
           write open 2#2 of c
           do ask 2#2",
    );
    // The config has changed meanwhile, and the upstream that answered stands elsewhere.
    let changed = TurnSetup {
        upstreams: upstreams_named(&["b", "d"]),
        ..setup
    };
    check_recovered(
        changed,
        &found,
        "> recover
           write close 2#1 interrupted
           write open 2#2 of d
           do ask 2#2",
    );
}
