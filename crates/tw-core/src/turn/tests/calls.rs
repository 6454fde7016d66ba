//! Calls of a round: which may run, and what is given back.

use super::{Run, assert_same, check, lines_of, ours};
use crate::change::TurnChange;
use crate::id::CallRef;
use crate::tool::{ToolOutcome, ToolOutput};
use crate::turn::{Event, ModelRequestNumber, ToolOffer};

#[test]
fn a_call_runs_only_after_its_slot_and_goes_back_to_the_model() {
    check(
        ours(),
        "> call 0 get_time {\"zone\": ; more 0  \"UTC\"}
         > finish tool_calls ; usage 10 5
         > done
           write close 1#1 ok usage 10+5
           write message 1 call c0 get_time {\"zone\": \"UTC\"}
           write call 1.0 get_time pending
           show start m 1000
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
         > request
           tools get_time,pay,put_row,send_mail; choice as sent
           sent call c0 get_time {\"zone\": \"UTC\"}
           result c0 \"12:00\"
         > text Noon. ; usage 20 3 ; finish stop ; done
           show round 2
           show text Noon.
           write close 2#1 ok usage 20+3
           write message 2 text \"Noon.\"
           write turn completed calls 1 usage 30+8
           show finish stop
           show usage 30+8
           show end completed",
    );
}

#[test]
fn results_go_back_in_call_order_whatever_the_order_of_ends() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut run = Run::after(
            ours(),
            "call 0 get_time {} ; call 1 pay {} ; call 2 send_mail {} ; done
             slot 1.2 ; slot 1.0 ; slot 1.1",
        );
        for position in order {
            run.play(&format!("end 1.{position}#1 ok answer {position}"));
        }
        assert_same(
            &run.play("request"),
            &lines_of(
                "tools get_time,pay,put_row,send_mail; choice as sent
                 sent call c0 get_time {} call c1 pay {} call c2 send_mail {}
                 result c0 \"answer 0\"
                 result c1 \"answer 1\"
                 result c2 \"answer 2\"",
            ),
        );
    }
}

#[test]
fn the_next_round_waits_for_the_last_call() {
    let mut run = Run::after(
        ours(),
        "call 0 get_time {} ; call 1 pay {} ; done ; slot 1.0 ; slot 1.1",
    );
    assert!(
        !run.play("end 1.1#1 ok 1")
            .contains(&"do ask 2#1".to_owned())
    );
    assert!(
        run.play("end 1.0#1 ok 0")
            .contains(&"do ask 2#1".to_owned())
    );
}

#[test]
fn only_some_calls_run_at_once_and_the_others_follow() {
    let mut setup = ours();
    setup.limits.calls_parallel_max = 2;
    check(
        setup,
        "> call 0 get_time {} ; call 1 get_time {} ; call 2 get_time {} ; done
           write close 1#1 ok
           write message 1 call c0 get_time {} call c1 get_time {} call c2 get_time {}
           write call 1.0 get_time pending
           write call 1.1 get_time pending
           write call 1.2 get_time pending
           show start m 1000
           show call 1.0 get_time
           show call 1.1 get_time
           show call 1.2 get_time
           do slot 1.0
           do slot 1.1
         > slot 1.2
         > slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > end 1.1#1 reset gone
           write close 1.1#1 reset
           do timer call 1.1#2 in 200ms
         > timer
           write open 1.1#2
           do dispatch 1.1#2
         > end 1.1#2 ok b
           write close 1.1#2 ok
           write ended 1.1 completed \"b\"
           show ended 1.1 completed
           do release 1.1
           do slot 1.2",
    );
}

#[test]
fn a_call_that_waits_for_another_attempt_keeps_its_place() {
    let mut setup = ours();
    setup.limits.calls_parallel_max = 2;
    let mut run = Run::after(
        setup,
        "call 0 get_time {} ; call 1 get_time {} ; call 2 get_time {} ; call 3 get_time {} ; done
         slot 1.0 ; slot 1.1 ; end 1.1#1 reset gone",
    );
    let trace = run.play("end 1.0#1 ok a");
    assert_eq!(trace.last().unwrap(), "do slot 1.2");
    assert_eq!(
        trace
            .iter()
            .filter(|line| line.starts_with("do slot"))
            .count(),
        1
    );
}

#[test]
fn an_unknown_tool_is_an_error_that_names_the_tools() {
    check(
        ours(),
        "> call 0 rm {} ; finish tool_calls ; done
           write close 1#1 ok
           write message 1 call c0 rm {}
           write call 1.0 rm failed unknown_tool \"There is no tool named \\\"rm\\\". The tools are: get_time, pay, p…\"
           write open 2#1
           show start m 1000
           show call 1.0 rm
           show ended 1.0 failed unknown_tool
           do ask 2#1",
    );
}

#[test]
fn the_third_invalid_call_of_a_tool_ends_its_being_offered() {
    check(
        ours(),
        "> call 0 pay {\"x\":1} ; call 1 get_time [] ; done
           write close 1#1 ok
           write message 1 call c0 pay {\"x\":1} call c1 get_time []
           write call 1.0 pay failed invalid_arguments \"The arguments do not fit the tool's schema: arguments: Addit…\"
           write call 1.1 get_time failed invalid_arguments \"The arguments must be one JSON object. The tool takes: {\\\"typ…\"
           write open 2#1
           show start m 1000
           show call 1.0 pay
           show ended 1.0 failed invalid_arguments
           show call 1.1 get_time
           show ended 1.1 failed invalid_arguments
           do ask 2#1
         > call 0 pay {\"x\":1} ; done
           write close 2#1 ok
           write message 2 call c0 pay {\"x\":1}
           write call 2.0 pay failed invalid_arguments \"The arguments do not fit the tool's schema: arguments: Addit…\"
           write open 3#1
           show call 2.0 pay
           show ended 2.0 failed invalid_arguments
           do ask 3#1
         > call 0 pay {\"x\":1} ; done
           write close 3#1 ok
           write message 3 call c0 pay {\"x\":1}
           write call 3.0 pay failed invalid_arguments \"The arguments do not fit the tool's schema: arguments: Addit…\"
           write open 4#1
           show call 3.0 pay
           show ended 3.0 failed invalid_arguments
           do ask 4#1
         > call 0 pay {} ; done
           write close 4#1 ok
           write message 4 call c0 pay {}
           write call 4.0 pay failed unknown_tool \"There is no tool named \\\"pay\\\". The tools are: get_time, put_r…\"
           write open 5#1
           show call 4.0 pay
           show ended 4.0 failed unknown_tool
           do ask 5#1",
    );
}

#[test]
fn what_was_offered_when_the_model_was_asked_holds_for_its_whole_answer() {
    let mut run = Run::after(
        ours(),
        "call 0 pay [] ; call 1 pay [] ; call 2 pay [] ; call 3 pay {} ; call 4 pay [] ; done",
    );
    assert_same(
        &run.play("slot 1.3"),
        &lines_of("write start 1.3\nwrite open 1.3#1\ndo dispatch 1.3#1"),
    );
    run.play("end 1.3#1 ok paid");
    assert_eq!(
        run.play("request")[0],
        "tools get_time,put_row,send_mail; choice as sent"
    );
}

#[test]
fn without_any_tool_left_the_model_is_told_to_answer() {
    let mut setup = ours();
    setup.offer = ToolOffer::Ours(vec![super::tool("pay", crate::tool::EffectClass::Once)]);
    let mut run = Run::after(
        setup,
        "call 0 pay [] ; call 1 pay [] ; call 2 pay [] ; done",
    );
    assert_eq!(run.play("request")[0], "tools ; choice as sent");
    let trace = run.play("call 0 pay {} ; done");
    assert!(
        trace
            .iter()
            .any(|line| line.contains("answer without tools")),
        "{trace:?}"
    );
}

#[test]
fn a_result_is_kept_and_shown_up_to_their_caps() {
    let mut setup = ours();
    setup.limits.result_kept_bytes_max = 7;
    let mut policy = crate::tool::CallPolicy::new(crate::tool::EffectClass::Read);
    policy.shown_bytes_max = 4;
    setup.offer = ToolOffer::Ours(vec![super::tool_with(
        "get_time",
        super::PARAMETERS,
        policy,
    )]);
    let mut run = Run::after(setup, "call 0 get_time {} ; done ; slot 1.0");
    run.play("end 1.0#1 ok abcäöü");
    let [_, TurnChange::EndCall { end, .. }, ..] = run.step.write.as_slice() else {
        panic!("{:?}", run.step.write);
    };
    assert_eq!(end.result.as_deref(), Some("abcäö"));
    let request = run.play("request");
    assert_eq!(request[2], "result c0 \"abc …[cut: the result is longer]\"");
}

#[test]
fn an_answer_that_is_no_text_is_completed_with_a_note() {
    let mut run = Run::after(ours(), "call 0 get_time {} ; done ; slot 1.0");
    let call = CallRef {
        round: 1,
        position: 0,
    };
    let trace = run.deliver(Event::CallEnded {
        call,
        n: 1,
        outcome: ToolOutcome::Answered(ToolOutput::Opaque {
            content_type: "image/png".to_owned(),
            bytes: 3,
            sha256: "ab".to_owned(),
        }),
        http_status: Some(206),
    });
    assert!(
        trace[0].starts_with("write close 1.0#1 ok 206"),
        "{trace:?}"
    );
    assert!(
        trace[1].starts_with("write ended 1.0 completed \"{\\\"content_type"),
        "{trace:?}"
    );
}

#[test]
fn ends_of_another_attempt_or_call_change_nothing() {
    check(
        ours(),
        "> slot 1.0 ; end 1.0#1 ok early ; found 1.0#1 absent ; timer call 1.0#2
         > call 0 get_time {} ; done
           write close 1#1 ok
           write message 1 call c0 get_time {}
           write call 1.0 get_time pending
           show start m 1000
           show call 1.0 get_time
           do slot 1.0
         > end 1.0#1 ok early ; slot 1.1 ; slot 0.0 ; slot 2.0
         > slot 1.0
           write start 1.0
           write open 1.0#1
           do dispatch 1.0#1
         > end 1.0#2 ok no ; end 1.1#1 ok no ; end 0.0#0 aborted ; found 1.0#1 absent
         > timer call 1.0#1 ; timer call 1.0#2 ; timer ask 1#1 ; timer ask 2#1
         > text late ; finish stop ; done ; closed ; failed connect",
    );
}

#[test]
fn what_runs_is_known_only_while_it_runs() {
    let call = CallRef {
        round: 1,
        position: 0,
    };
    let mut run = Run::after(ours(), "call 0 put_row {\"zone\":\"a\"} ; done");
    assert!(run.turn.call_to_run(call).is_none());
    run.play("slot 1.0");
    let first = run.turn.call_to_run(call).unwrap();
    assert_eq!(first.args.json().as_str(), "{\"zone\":\"a\"}");
    run.play("end 1.0#1 timeout");
    assert!(run.turn.call_to_run(call).is_none());
    run.play("timer");
    let second = run.turn.call_to_run(call).unwrap();
    assert_eq!(first.idempotency_key, second.idempotency_key);
    run.play("end 1.0#2 ok done");
    assert!(run.turn.call_to_run(call).is_none());
    assert_eq!(run.turn.tool_of(call).unwrap().name, "put_row");
}

#[test]
fn the_models_own_message_goes_back_whole_and_in_its_order() {
    let ran = "done ; slot 1.0 ; end 1.0#1 ok 12:00";
    for (said, sent) in [
        (
            "text So. ; reasoning Hm ; call 0 get_time {}",
            "text \"So.\" reasoning \"Hm\" call c0 get_time {}",
        ),
        (
            "reasoning Hm ; reasoning m ; sealed s1 ; reasoning Ah ; sealed s2 ; call 0 get_time {}",
            "reasoning \"Hmm\"!s1 reasoning \"Ah\"!s2 call c0 get_time {}",
        ),
        (
            "text a ; sealed ; text b ; native {\"t\":1} ; text c ; call 0 get_time {}",
            "text \"a\" text \"b\" native {\"t\":1} text \"c\" call c0 get_time {}",
        ),
        (
            "call 0 get_time { ; signed 0 \"x\" ; more 0 } ; text late",
            "call c0 get_time {} {\"sign\":\"x\"} text \"late\"",
        ),
        (
            "details [1] ; call 0 get_time {} ; details [2]",
            "native {\"details\":[1,2]} call c0 get_time {}",
        ),
        (
            "reasoning  ; text  ; call 0 get_time {}",
            "reasoning \"\" text \"\" call c0 get_time {}",
        ),
    ] {
        let mut run = Run::after(ours(), &format!("{said} ; {ran}"));
        assert_eq!(run.play("request")[1], format!("sent {sent}"), "{said}");
    }
}

#[test]
fn calls_of_a_choice_that_was_not_asked_for_are_no_calls() {
    use crate::model::{CallDelta, CallForm, ModelEvent};
    let stray = Event::Model {
        ask: ModelRequestNumber { round: 1, n: 1 },
        event: ModelEvent::Call(CallDelta {
            choice: 1,
            call: 0,
            id: None,
            name: Some("send_mail".into()),
            form: CallForm::Function,
            arguments: None,
            native: None,
        }),
    };
    let mut run = Run::after(ours(), "text Hi");
    run.deliver(stray.clone());
    run.play("done");
    assert!(run.turn.is_ended());

    let mut run = Run::start(ours());
    run.deliver(stray);
    let trace = run.play("call 0 get_time {} ; done");
    assert_eq!(trace[1], "write message 1 call c0 get_time {}");
    assert_eq!(trace[2], "write call 1.0 get_time pending");
}
