//! What real upstreams do with arguments, finish reasons and ids, by the numbers of the list
//! that names them.

use super::{Run, assert_same, check, lines_of, ours, relay};
use crate::change::{NewCall, TurnChange};

/// The calls that were written, in order.
fn calls_written(run: &Run) -> Vec<&NewCall> {
    let calls = run.written.iter().filter_map(|change| {
        if let TurnChange::AddCall(call) = change {
            Some(&**call)
        } else {
            None
        }
    });
    calls.collect()
}

/// Nothing of `lines` asks for a slot or is dispatched, and the only call fails so.
fn never_runs(arguments: &str, end: &str) {
    let mut run = Run::start(ours());
    let trace = run.play(&format!(
        "call 0 get_time {arguments} ; finish tool_calls ; done"
    ));
    let written = format!("write call 1.0 get_time {end}");
    assert!(
        trace.iter().any(|line| line.starts_with(&written)),
        "{arguments}: {trace:?}"
    );
    assert!(
        !trace.iter().any(|line| line.starts_with("do slot")),
        "{arguments}: {trace:?}"
    );
    assert!(run.play("slot 1.0").is_empty(), "{arguments}");
}

#[test]
fn quirk_13_truncated_arguments_do_not_run() {
    for arguments in [
        "{",
        "{\"zone",
        "{\"zone\":",
        "{\"zone\":\"UTC\"",
        "{\"zone\":\"UTC",
        "{}{",
    ] {
        never_runs(arguments, "failed invalid_arguments");
    }
}

#[test]
fn quirk_14_arguments_that_are_no_object_do_not_run() {
    for arguments in ["[]", "\"x\"", "3", "null", "true", "[{}]"] {
        never_runs(
            arguments,
            "failed invalid_arguments \"The arguments must be one JSON object.",
        );
    }
}

#[test]
fn quirk_15_a_repeated_broken_shape_is_told_where_and_ends() {
    let mut run = Run::start(ours());
    for round in 1..=3 {
        run.play("call 0 get_time {\"zone\":5} ; done");
        let ends = calls_written(&run);
        let shown = &ends.last().unwrap().end.as_ref().unwrap().shown;
        assert!(shown.contains("arguments/zone"), "the path: {shown}");
        assert!(shown.contains(super::PARAMETERS), "the schema: {shown}");
        let offered = &run.play("request")[0];
        assert_eq!(
            offered.contains("get_time"),
            round < 3,
            "after {round} rounds: {offered}"
        );
    }
}

#[test]
fn quirk_16_a_validation_failure_is_a_result_that_the_model_reads() {
    let mut run = Run::after(
        ours(),
        "call 0 get_time {\"zone\":5} ; finish tool_calls ; done",
    );
    assert!(!run.turn.is_ended());
    let request = run.play("request");
    assert_eq!(request[1], "sent call c0 get_time {\"zone\":5}");
    assert!(request[2].starts_with("result c0 \"The arguments do not fit the tool's schema"));
}

#[test]
fn quirk_17_calls_that_the_length_limit_cut_are_failed_not_run() {
    // Even one whose arguments look whole.
    for arguments in ["{\"zone\":\"U", "{}", ""] {
        let mut run = Run::start(ours());
        let trace = run.play(&format!(
            "call 0 get_time {arguments} ; finish length ; done"
        ));
        assert_same(
            &trace,
            &lines_of(&format!(
                "write close 1#1 ok
                 write message 1 call c0 get_time {arguments}
                 write call 1.0 get_time failed invalid_arguments \"The call was cut off because the answer reached its length l…\"
                 write turn incomplete length calls 1
                 show start m 1000
                 show finish length
                 show end incomplete length"
            ))
            .iter()
            .map(|line| if arguments.is_empty() && line.starts_with("write message") { format!("{line} ") } else { line.clone() })
            .collect::<Vec<_>>(),
        );
    }
}

#[test]
fn quirk_20_the_presence_of_calls_decides_not_the_finish_reason() {
    for finish in ["stop", "content_filter", "stop_sequence", "tool_calls"] {
        let mut run = Run::start(ours());
        let trace = run.play(&format!(
            "call 0 get_time {{}} ; call 1 put_row {{}} ; call 2 send_mail {{}} ; finish {finish} ; done"
        ));
        for call in ["1.0", "1.1", "1.2"] {
            assert!(
                trace.contains(&format!("do slot {call}")),
                "{finish}: {trace:?}"
            );
        }
        assert!(!run.turn.is_ended(), "{finish}");
    }
    // A client's own calls are handed over as calls.
    let trace = Run::start(relay()).play("call 0 theirs {} ; finish stop ; done");
    assert!(
        trace.contains(&"show finish tool_calls".to_owned()),
        "{trace:?}"
    );
}

#[test]
fn quirk_21_tool_calls_without_a_call_ends_like_stop() {
    for setup in [ours(), relay()] {
        check(
            setup,
            "> text Hi
               show start m 1000
               show round 1
               show text Hi
             > finish tool_calls ; done
               write close 1#1 ok
               write message 1 text \"Hi\"
               write turn completed
               show finish stop
               show end completed",
        );
    }
}

#[test]
fn quirk_22_our_id_is_ours_and_the_upstreams_is_data() {
    // The upstream numbers its calls anew in each round, and twice in the second.
    let run = Run::after(
        ours(),
        "call 0 put_row@call_0 {} ; done ; slot 1.0 ; end 1.0#1 ok a
         call 0 put_row@call_0 {} ; call 1 put_row@call_0 {} ; done ; slot 2.0 ; slot 2.1",
    );
    let calls = calls_written(&run);
    let mut seen: Vec<String> = Vec::new();
    for call in &calls {
        for unique in [call.id.to_string(), call.idempotency_key.clone()] {
            assert!(!unique.contains("call_0"), "{unique}");
            assert!(!seen.contains(&unique), "{unique} came twice");
            seen.push(unique);
        }
    }
    assert_eq!(seen.len(), 6);
}

#[test]
fn quirk_23_the_upstreams_own_id_goes_back_to_it() {
    let mut run = Run::after(
        ours(),
        "call 0 get_time@functions.get_time:0 {} ; call 1 get_time@ {} ; done
         slot 1.0 ; slot 1.1 ; end 1.1#1 ok b ; end 1.0#1 ok a",
    );
    assert_same(
        &run.play("request")[1..],
        &lines_of(
            "sent call functions.get_time:0 get_time {} call call_T_1_1 get_time {}
             result functions.get_time:0 \"a\"
             result call_T_1_1 \"b\"",
        ),
    );
}

#[test]
fn quirk_26_equal_upstream_ids_are_two_calls() {
    let mut run = Run::after(
        ours(),
        "call 0 get_time@same {\"zone\":\"a\"} ; call 1 get_time@same {\"zone\":\"b\"} ; done
         slot 1.0 ; slot 1.1 ; end 1.1#1 ok b ; end 1.0#1 ok a",
    );
    assert_same(
        &run.play("request")[1..],
        &lines_of(
            "sent call same get_time {\"zone\":\"a\"} call call_T_1_1 get_time {\"zone\":\"b\"}
             result same \"a\"
             result call_T_1_1 \"b\"",
        ),
    );
    // The same id in the next round is another call again.
    run.play("call 0 get_time@same {\"zone\":\"c\"} ; done ; slot 2.0 ; end 2.0#1 ok c");
    assert_eq!(run.play("request").last().unwrap(), "result same \"c\"");
}
