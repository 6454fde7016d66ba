//! Limits end a turn in an ordinary way.

use super::{Run, assert_same, check, lines_of, ours};
use crate::turn::TurnSetup;

#[test]
fn at_the_round_limit_the_model_must_answer() {
    let mut setup = ours();
    setup.limits.rounds_max = 2;
    check(
        setup,
        "> request
           tools get_time,pay,put_row,send_mail; choice as sent
         > call 0 rm {} ; done
           write close 1#1 ok
           write message 1 call c0 rm {}
           write call 1.0 rm failed unknown_tool \"There is no tool named \\\"rm\\\". The tools are: get_time, pay, p…\"
           write open 2#1
           show start m 1000
           show call 1.0 rm
           show ended 1.0 failed unknown_tool
           do ask 2#1
         > request
           tools get_time,pay,put_row,send_mail; choice none
           sent call c0 rm {}
           result c0 \"There is no tool named \\\"rm\\\". The tools are: get_time, pay, p…\"
         > text I will not.
           show round 2
           show text I will not.
         > call 0 get_time {} ; done
           write close 2#1 ok
           write message 2 text \"I will not.\" call c0 get_time {}
           write call 2.0 get_time failed denied \"At most 2 rounds run for one request.\"
           write turn incomplete rounds calls 2
           show finish length
           show end incomplete rounds",
    );
}

#[test]
fn a_single_round_offers_nothing_to_choose() {
    let mut setup = ours();
    setup.limits.rounds_max = 1;
    setup.choice_is_forced = true;
    assert_eq!(
        Run::start(setup.clone()).play("request"),
        ["tools get_time,pay,put_row,send_mail; choice none"]
    );
    setup.offer = super::relay().offer;
    assert_eq!(
        Run::start(setup).play("request"),
        ["tools as sent; choice as sent"]
    );
}

#[test]
fn at_the_call_limit_the_model_must_answer() {
    let mut setup = ours();
    setup.limits.calls_per_turn_max = 2;
    let mut run = Run::after(setup, "call 0 get_time {}");
    let trace = run.play("call 1 get_time {} ; call 2 get_time {} ; done");
    assert_eq!(
        trace[4],
        "write call 1.2 get_time failed denied \"At most 2 calls run for one request.\""
    );
    run.play("slot 1.0 ; slot 1.1 ; end 1.0#1 ok a ; end 1.1#1 ok b");
    assert_eq!(
        run.play("request")[0],
        "tools get_time,pay,put_row,send_mail; choice none"
    );
    assert_same(
        &run.play("call 0 get_time {} ; done"),
        &lines_of(
            "write close 2#1 ok
             write message 2 call c0 get_time {}
             write call 2.0 get_time failed denied \"At most 2 calls run for one request.\"
             write turn incomplete calls calls 4
             show finish length
             show end incomplete calls",
        ),
    );
}

#[test]
fn calls_beyond_a_rounds_limit_are_refused_and_the_others_run() {
    let mut setup = ours();
    setup.limits.calls_per_round_max = 1;
    let mut run = Run::start(setup);
    let trace = run.play("call 0 get_time {} ; call 1 get_time {} ; done");
    assert_eq!(trace[2], "write call 1.0 get_time pending");
    assert_eq!(
        trace[3],
        "write call 1.1 get_time failed denied \"At most 1 calls run at once; make this call again.\""
    );
    run.play("slot 1.0 ; end 1.0#1 ok a");
    assert_eq!(run.play("request").len(), 4, "both calls have a result");
}

#[test]
fn arguments_beyond_their_limit_never_run() {
    let mut setup = ours();
    setup.limits.argument_bytes_max = 12;
    // The last piece would fit, and make the whole valid again.
    let mut run = Run::after(
        setup,
        "call 0 get_time {\"zone\": ; more 0 \"aaaaaaaa\" ; more 0 1}",
    );
    assert_same(
        &run.play("done"),
        &lines_of(
            "write close 1#1 ok
             write message 1 call c0 get_time {\"zone\":
             write call 1.0 get_time failed invalid_arguments \"The arguments are longer than 12 bytes.\"
             write open 2#1
             show start m 1000
             show call 1.0 get_time
             show ended 1.0 failed invalid_arguments
             do ask 2#1",
        ),
    );
}

#[test]
fn an_answer_beyond_its_limit_ends_by_length() {
    let mut setup = ours();
    setup.limits.answer_bytes_max = 5;
    check(
        setup,
        "> text Hello
           show start m 1000
           show round 1
           show text Hello
         > text !
           write close 1#1 ok
           write message 1 text \"Hello!\"
           write turn incomplete length
           show text !
           show finish length
           show end incomplete length
           do abort ask
         > text more ; done",
    );
    let mut setup = ours();
    setup.limits.answer_bytes_max = 5;
    let mut run = Run::start(setup);
    let trace = run.play("call 0 get_time {}");
    assert!(run.turn.is_ended());
    assert!(
        !trace.iter().any(|line| line.starts_with("do slot")),
        "{trace:?}"
    );
}

#[test]
fn the_token_budget_is_of_the_whole_turn() {
    let budget = TurnSetup {
        completion_tokens_max: Some(10),
        ..ours()
    };
    let mut run = Run::after(
        budget.clone(),
        "call 0 get_time {} ; usage 5 7 ; done ; slot 1.0",
    );
    run.play("end 1.0#1 ok a");
    assert_eq!(
        run.play("request")[0],
        "tools get_time,pay,put_row,send_mail; choice as sent; left 3"
    );
    assert_eq!(
        Run::start(budget.clone()).play("request")[0],
        "tools get_time,pay,put_row,send_mail; choice as sent",
        "the client's own field goes out untouched in the first round"
    );
    let mut run = Run::after(budget, "call 0 get_time {} ; usage 5 12 ; done ; slot 1.0");
    assert_same(
        &run.play("end 1.0#1 ok a"),
        &lines_of(
            "write close 1.0#1 ok
             write ended 1.0 completed \"a\"
             write turn incomplete length calls 1 usage 5+12
             show ended 1.0 completed
             show finish length
             show usage 5+12
             show end incomplete length
             do release 1.0",
        ),
    );
}

#[test]
fn calls_that_say_nothing_count_for_the_answers_limit() {
    let mut setup = ours();
    setup.limits.answer_bytes_max = 1_000;
    let mut run = Run::start(setup);
    for place in 0..1_000 {
        run.play(&format!("call {place} x@"));
    }
    assert!(run.turn.is_ended());
}
