//! Calls whose end a callback tells.

use std::time::Duration;

use super::recovery::found_after;
use super::{PARAMETERS, check, check_recovered, ours, tool, tool_with};
use crate::tool::{CallCompletion, CallPolicy, EffectClass, JobCompletion, JobPolls};
use crate::turn::{ToolOffer, TurnSetup};

/// A turn that is offered a tool whose jobs it does not wait for, one whose jobs it waits for, and a plain one.
fn jobs() -> TurnSetup {
    let job = |name, waits| {
        let policy = CallPolicy {
            completion: CallCompletion::Job(JobCompletion {
                waits,
                deadline: Duration::from_secs(900),
                calls_back: true,
                polls: None,
            }),
            ..CallPolicy::new(EffectClass::Once)
        };
        tool_with(name, PARAMETERS, policy)
    };
    TurnSetup {
        offer: ToolOffer::Ours(vec![
            job("draw", false),
            tool("get_time", EffectClass::Read),
            job("paint", true),
        ]),
        ..ours()
    }
}

const DRAWING: &str = "> call 0 draw {} ; done ; slot 1.0
   write close 1#1 ok
   write message 1 call c0 draw {}
   write call 1.0 draw pending
   show start m 1000
   show call 1.0 draw
   do slot 1.0
   write start 1.0
   write open 1.0#1
   do dispatch 1.0#1
";

const PAINTING: &str = "> call 0 paint {} ; done ; slot 1.0
   write close 1#1 ok
   write message 1 call c0 paint {}
   write call 1.0 paint pending
   show start m 1000
   show call 1.0 paint
   do slot 1.0
   write start 1.0
   write open 1.0#1
   do dispatch 1.0#1
 > end 1.0#1 accepted job-7
   write close 1.0#1 ok
   write await 1.0 job-7 for 900s
   do release 1.0
   do timer callback 1.0 in 60000ms
";

const STARTED: &str = "The job has started; its result is not there yet and comes l…";
const UNSURE: &str = "The job was asked for, but it is not known whether it has st…";

/// The transcript with the texts of the model in it.
fn with_texts(parts: &[&str]) -> String {
    let whole = parts.concat();
    whole.replace("STARTED", STARTED).replace("UNSURE", UNSURE)
}

#[test]
fn a_detached_call_is_told_as_started_and_the_turn_goes_on() {
    check(
        jobs(),
        &with_texts(&[
            DRAWING,
            "> end 1.0#1 accepted job-7
               write close 1.0#1 ok
               write await 1.0 job-7 for 900s
               write detach 1.0 \"STARTED\"
               write open 2#1
               show detached 1.0
               do release 1.0
               do ask 2#1
             > request
               tools draw,get_time,paint; choice as sent
               sent call c0 draw {}
               result c0 \"STARTED\"
             > record 1.0 completed too late for the turn
             > text So. ; done
               show round 2
               show text So.
               write close 2#1 ok
               write message 2 text \"So.\"
               write turn completed calls 1
               show finish stop
               show end completed; ran draw processing",
        ]),
    );
}

#[test]
fn a_callback_that_outruns_the_answer_counts() {
    for answer in ["accepted job-7", "timeout"] {
        let word = answer.split(' ').next().unwrap();
        let (closed, id, told) = match word {
            "timeout" => ("timeout", "-", UNSURE),
            _ => ("ok", "job-7", STARTED),
        };
        check(
            jobs(),
            &with_texts(&[
                DRAWING,
                &format!(
                    "> end 1.0#1 {answer}
                       write close 1.0#1 {closed}
                       write await 1.0 {id} for 900s
                       write detach 1.0 \"{told}\"
                       write open 2#1
                       show detached 1.0
                       do release 1.0
                       do ask 2#1
                     > refused record 1.0 completed a picture
                       write close 1.0#1 {closed}
                       write open 2#1
                       show ended 1.0 completed
                       do release 1.0
                       do ask 2#1
                     > request
                       tools draw,get_time,paint; choice as sent
                       sent call c0 draw {{}}
                       result c0 \"a picture\""
                ),
            ]),
        );
    }
}

#[test]
fn a_job_that_may_have_started_has_its_callback() {
    check(
        jobs(),
        &with_texts(&[
            DRAWING,
            "> end 1.0#1 reset why
               write close 1.0#1 reset
               write await 1.0 - for 900s
               write detach 1.0 \"UNSURE\"
               write open 2#1
               show detached 1.0
               do release 1.0
               do ask 2#1",
        ]),
    );
}

#[test]
fn a_job_whose_request_is_under_way_when_time_is_up_has_its_callback() {
    check(
        jobs(),
        &with_texts(&[
            DRAWING,
            "> deadline
               write close 1.0#1 cancelled
               write await 1.0 - for 900s
               write detach 1.0 \"UNSURE\"
               write turn incomplete deadline calls 1
               show detached 1.0
               show end incomplete deadline (deadline: the request took longer than it may); ran draw processing
               do abort 1.0
               do release 1.0",
        ]),
    );
}

#[test]
fn a_job_that_was_refused_is_none() {
    check(
        jobs(),
        &with_texts(&[
            DRAWING,
            "> end 1.0#1 refused no credits
               write close 1.0#1 refused
               write ended 1.0 failed tool_error \"no credits\"
               write open 2#1
               show ended 1.0 failed tool_error
               do release 1.0
               do ask 2#1",
        ]),
    );
}

#[test]
fn a_turn_waits_for_the_callback() {
    check(
        jobs(),
        &with_texts(&[
            PAINTING,
            "> record 1.0 completed a picture
               write open 2#1
               show ended 1.0 completed
               do release 1.0
               do ask 2#1
             > timer callback 1.0
             > request
               tools draw,get_time,paint; choice as sent
               sent call c0 paint {}
               result c0 \"a picture\"",
        ]),
    );
}

#[test]
fn a_turn_that_waited_long_enough_goes_on_without() {
    check(
        jobs(),
        &with_texts(&[
            PAINTING,
            "> timer callback 1.0
               write detach 1.0 \"STARTED\"
               write open 2#1
               show detached 1.0
               do release 1.0
               do ask 2#1
             > refused record 1.0 tool_error no picture
               write open 2#1
               show ended 1.0 failed tool_error
               do release 1.0
               do ask 2#1
             > request
               tools draw,get_time,paint; choice as sent
               sent call c0 paint {}
               result c0 \"no picture\"",
        ]),
    );
}

#[test]
fn stop_and_the_deadline_leave_the_job_to_itself() {
    for (event, written, end) in [
        ("cancel", "stopping requested", "cancelled requested"),
        ("leave", "stopping client_left", "cancelled client_left"),
    ] {
        check(
            jobs(),
            &with_texts(&[
                PAINTING,
                &format!(
                    "> {event}
                       write {written}
                       write detach 1.0 \"STARTED\"
                       write turn {end} calls 1
                       show detached 1.0
                       show end {end} (cancelled: the request was stopped); ran paint processing
                       do release 1.0"
                ),
            ]),
        );
    }
    check(
        jobs(),
        &with_texts(&[
            PAINTING,
            "> deadline
               write detach 1.0 \"STARTED\"
               write turn incomplete deadline calls 1
               show detached 1.0
               show end incomplete deadline (deadline: the request took longer than it may); ran paint processing
               do release 1.0",
        ]),
    );
}

#[test]
fn another_process_waits_on() {
    let found = found_after(
        jobs(),
        "call 0 paint {} ; done ; slot 1.0 ; end 1.0#1 accepted job-7",
    );
    check_recovered(
        jobs(),
        &found,
        "> recover
           do timer callback 1.0 in 60000ms
         > record 1.0 completed a picture
           write open 2#1
           show ended 1.0 completed
           do release 1.0
           do ask 2#1",
    );
}

#[test]
fn a_job_whose_request_was_under_way_when_the_process_ended_has_its_callback() {
    let found = found_after(jobs(), "call 0 draw {} ; done ; slot 1.0");
    check_recovered(
        jobs(),
        &found,
        &with_texts(&["> recover
           write close 1.0#1 interrupted
           write await 1.0 - for 900s
           write detach 1.0 \"UNSURE\"
           write open 2#1
           show detached 1.0
           do release 1.0
           do ask 2#1"]),
    );
}

/// A turn that is offered a tool whose jobs are polled, by their ids or not.
fn polled(by_id: bool) -> TurnSetup {
    let policy = CallPolicy {
        completion: CallCompletion::Job(JobCompletion {
            waits: false,
            deadline: Duration::from_secs(900),
            calls_back: false,
            polls: Some(JobPolls {
                first: Duration::from_secs(30),
                by_id,
            }),
        }),
        ..CallPolicy::new(EffectClass::Once)
    };
    TurnSetup {
        offer: ToolOffer::Ours(vec![tool_with("draw", PARAMETERS, policy)]),
        ..ours()
    }
}

#[test]
fn a_job_that_is_polled_has_its_first_poll() {
    check(
        polled(true),
        &with_texts(&[
            DRAWING,
            "> end 1.0#1 accepted job-7
               write close 1.0#1 ok
               write await 1.0 job-7 for 900s, poll in 30s
               write detach 1.0 \"STARTED\"
               write open 2#1
               show detached 1.0
               do release 1.0
               do ask 2#1",
        ]),
    );
}

#[test]
fn a_job_whose_id_nobody_knows_cannot_be_asked_about_by_it() {
    check(
        polled(true),
        &with_texts(&[
            DRAWING,
            "> end 1.0#1 reset why
               write close 1.0#1 reset
               write ended 1.0 failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"
               write open 2#1
               show ended 1.0 failed outcome_unknown
               do release 1.0
               do ask 2#1",
        ]),
    );
    check(
        polled(false),
        &with_texts(&[
            DRAWING,
            "> end 1.0#1 reset why
               write close 1.0#1 reset
               write await 1.0 - for 900s, poll in 30s
               write detach 1.0 \"UNSURE\"
               write open 2#1
               show detached 1.0
               do release 1.0
               do ask 2#1",
        ]),
    );
}

/// The tool says that it has started nothing, so that no class of calls is kept from another attempt.
#[test]
fn a_job_that_was_not_started_may_be_asked_for_again() {
    check(
        polled(true),
        &with_texts(&[
            DRAWING,
            "> end 1.0#1 not_started too many
               write close 1.0#1 not_started
               do timer call 1.0#2 in 200ms
             > timer call 1.0#2
               write open 1.0#2
               do dispatch 1.0#2",
        ]),
    );
}
