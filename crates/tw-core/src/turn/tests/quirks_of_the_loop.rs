//! What real clients and servers do around the loop of rounds, by the numbers of the list that
//! names them.

use std::time::Duration;

use super::offering::{listing, offered, registry};
use super::{CREATED, Run, check, ours, relay, tool_with, trace};
use crate::id::CallRef;
use crate::limits::{TURN_STREAMED_DEFAULT, TurnLimits};
use crate::request::{OfferedTools, RequestTools};
use crate::tenant::ToolGrant;
use crate::tool::{CallPolicy, EffectClass};
use crate::turn::{ToolOffer, TurnSetup};
use crate::turn_policy::OnLeave;

const ROUND: &str = "call 0 get_time {} ; done";

#[test]
fn quirk_28_a_forced_choice_holds_for_the_first_round_only() {
    let mut setup = ours();
    setup.choice_is_forced = true;
    setup.limits.rounds_max = 3;
    let mut run = Run::start(setup);
    let mut choices = Vec::new();
    for round in 1..=3 {
        let head = run.play("request").swap_remove(0);
        choices.push(head.rsplit_once("choice ").unwrap().1.to_owned());
        run.play(&format!("{ROUND} ; slot {round}.0 ; end {round}.0#1 ok a"));
    }
    assert_eq!(choices, ["as sent", "auto", "none"]);
    assert!(run.turn.is_ended());
}

#[test]
fn quirk_30_the_list_is_exact_and_all_parallel_calls_run() {
    // One tool is asked for: nothing else is offered, whatever the key may use.
    assert_eq!(
        offered(&listing(&["mid"]), &ToolGrant::All).unwrap(),
        ["mid"]
    );
    let mut setup = ours();
    setup.offer = ToolOffer::Ours(vec![super::tool("get_time", EffectClass::Read)]);
    let mut run = Run::start(setup);
    assert_eq!(run.play("request"), ["tools get_time; choice as sent"]);
    let trace = run.play(
        "call 0 send_mail {} ; call 1 get_time {} ; call 2 get_time {} ; call 3 get_time {} ; done",
    );
    assert!(
        trace[2].starts_with("write call 1.0 send_mail failed unknown_tool"),
        "{trace:?}"
    );
    for call in ["1.1", "1.2", "1.3"] {
        assert!(trace.contains(&format!("do slot {call}")));
        let started = run.play(&format!("slot {call}"));
        assert!(started.contains(&format!("do dispatch {call}#1")));
    }
}

#[test]
fn quirk_31_tools_keep_their_order_and_schemas_their_keys() {
    // Ours by name, whatever the order of the registry; a client's list as sent.
    let absent = trace::input(RequestTools::Absent);
    assert_eq!(
        offered(&absent, &ToolGrant::All).unwrap(),
        ["alpha", "mid", "zeta"]
    );
    let list = listing(&["mid", "zeta", "alpha"]);
    assert_eq!(
        offered(&list, &ToolGrant::All).unwrap(),
        ["mid", "zeta", "alpha"]
    );
    assert_eq!(registry()[0].name, "zeta");

    let written = r#"{"type":"object","required":["b"],"properties":{"b":{"type":"string"},"a":{"maximum":1.50}}}"#;
    let mut setup = ours();
    setup.offer = ToolOffer::Ours(vec![
        tool_with("z", written, CallPolicy::new(EffectClass::Read)),
        tool_with("a", written, CallPolicy::new(EffectClass::Read)),
    ]);
    let mut run = Run::start(setup);
    for _round in 1..=3 {
        let origin = run.turn.origin_of(1);
        let request = run.turn.model_request(&absent, Vec::new(), &origin, true);
        let OfferedTools::Ours(tools) = request.tools else {
            panic!("tools of ours are offered");
        };
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["z", "a"]);
        assert!(tools.iter().all(|tool| tool.parameters.as_str() == written));
        run.play("call 0 unknown {} ; done");
    }
}

#[test]
fn quirk_33_what_happens_when_the_client_leaves_is_chosen_and_usage_is_kept() {
    check(
        ours(),
        "> usage 10 4 ; leave
           write close 1#1 cancelled usage 10+4
           write turn cancelled client_left usage 10+4
           show usage 10+4
           show end cancelled client_left (cancelled: the request was stopped)
           do abort ask",
    );
    let finish = TurnSetup {
        on_leave: OnLeave::Finish,
        ..ours()
    };
    check(
        finish,
        "> usage 10 4 ; leave
         > usage 10 9 ; done
           write close 1#1 ok usage 10+9
           write message 1
           write turn completed usage 10+9
           show start m 1000
           show finish stop
           show usage 10+9
           show end completed",
    );
}

#[test]
fn quirk_34_a_retry_doubles_neither_text_nor_arguments() {
    // Once text was shown there is no second try.
    let mut run = Run::after(ours(), "text Hel");
    let trace = run.play("failed reset");
    assert!(
        !trace.iter().any(|line| line.starts_with("do")),
        "{trace:?}"
    );
    // Before, everything that had come is forgotten.
    check(
        ours(),
        "> logprobs [1] ; call 0 get_time {\"zone\": ; usage 1 1 ; failed reset
           write close 1#1 reset usage 1+1
           do timer ask 1#2 in 500ms
         > timer
           write open 1#2
           do ask 1#2
         > @1 more 0 \"late\"
         > call 0 get_time {\"zone\":\"UTC\"} ; done
           write close 1#2 ok
           write message 1 call c0 get_time {\"zone\":\"UTC\"}
           write call 1.0 get_time pending
           show start m 1000
           show call 1.0 get_time
           do slot 1.0",
    );
}

#[test]
fn quirk_35_the_effect_class_and_its_key_decide_what_is_repeated() {
    let at = CallRef {
        round: 1,
        position: 0,
    };
    // Whatever comes of it, a mail that may have been sent is not sent again.
    for end in [
        "reset gone",
        "timeout",
        "panicked",
        "aborted",
        "refused no",
        "ok sent",
    ] {
        let mut run = Run::after(ours(), "call 0 send_mail {} ; done ; slot 1.0");
        let trace = run.play(&format!("end 1.0#1 {end}"));
        assert!(
            !trace
                .iter()
                .any(|line| line.contains("1.0#2") || line.contains("look up")),
            "{end}: {trace:?}"
        );
    }
    // An idempotent call is repeated with the same key.
    let mut run = Run::after(ours(), "call 0 put_row {} ; done ; slot 1.0");
    let mut keys = Vec::new();
    for n in 1..=3 {
        keys.push(run.turn.call_to_run(at).unwrap().idempotency_key);
        run.play(&format!("end 1.0#{n} timeout"));
        if n < 3 {
            assert_eq!(
                run.play("timer").last().unwrap(),
                &format!("do dispatch 1.0#{}", n + 1)
            );
        }
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
    // A payment is asked for first.
    let mut run = Run::after(ours(), "call 0 pay {} ; done ; slot 1.0");
    assert_eq!(
        run.play("end 1.0#1 timeout").last().unwrap(),
        "do look up 1.0#1"
    );
}

#[test]
fn quirk_36_only_a_generous_total_ends_a_live_stream() {
    assert!(TurnLimits::defaults().streamed_max >= Duration::from_secs(30 * 60));
    // Idle time is watched where the bytes are read; the machine sets no clock on an answer.
    let mut run = Run::start(relay());
    let mut minutes = 0;
    while run.at.after(Duration::from_secs(60)) < CREATED.after(TURN_STREAMED_DEFAULT) {
        run.at = run.at.after(Duration::from_secs(60));
        minutes += 1;
        let trace = run.play("text .");
        assert_eq!(trace.last().unwrap(), "show text .");
        assert!(run.timers.is_empty() && !run.turn.is_ended());
    }
    assert_eq!(minutes, 29);
    let trace = run.play("deadline");
    assert_eq!(
        trace[1..3],
        [
            format!("write message 1 text {:?}", ".".repeat(minutes)),
            "write turn incomplete deadline".to_owned(),
        ]
    );
}

#[test]
fn quirk_37_stop_stops_and_the_record_says_so() {
    for lines in [
        "",
        "text Hel",
        "failed connect",
        ROUND,
        "call 0 get_time {} ; done ; slot 1.0",
        "call 0 put_row {} ; done ; slot 1.0 ; end 1.0#1 reset gone",
        "call 0 get_time {} ; done ; slot 1.0 ; end 1.0#1 ok a",
    ] {
        let mut run = Run::after(ours(), lines);
        let trace = run.play("cancel");
        assert!(
            trace
                .iter()
                .any(|line| line.starts_with("write turn cancelled requested")),
            "{lines}: {trace:?}"
        );
        assert!(run.turn.is_ended());
        let after = run.play(
            "text more ; done ; slot 1.0 ; end 1.0#1 ok late ; timer ask 1#2 ; timer call 1.0#2",
        );
        assert!(after.is_empty(), "{lines}: {after:?}");
    }
    // A call that changes the world may end; nothing follows it.
    let mut run = Run::after(
        ours(),
        "call 0 send_mail {} ; call 1 pay {} ; done ; slot 1.0 ; cancel",
    );
    assert!(run.turn.is_stopping() && !run.turn.is_ended());
    let trace = run.play("end 1.0#1 ok sent");
    assert!(
        trace.contains(&"write turn cancelled requested calls 2".to_owned()),
        "{trace:?}"
    );
    assert!(
        !trace
            .iter()
            .any(|line| line.starts_with("do ask") || line.contains("dispatch"))
    );
}
