//! Calls that run only once they are approved: asking at a turn's end, and acting on the answers in the next turn.

use std::sync::Arc;

use uuid::Uuid;

use super::recovery::found_after;
use super::{PARAMETERS, check, check_recovered, mixed, ours, tool, tool_with};
use crate::approval::{AnsweredCall, ApprovalVerdict, ApprovalWords};
use crate::id::CallId;
use crate::request::RequestTools;
use crate::tenant::{ToolGrant, ToolsMode};
use crate::tool::{CallPolicy, EffectClass, Tool};
use crate::turn::{MixedListEntry, OfferRules, ToolOffer, TurnSetup, offer};
use crate::turn_policy::RecordPolicy;

fn guarded(name: &str) -> Arc<Tool> {
    let policy = CallPolicy {
        requires_approval: true,
        ..CallPolicy::new(EffectClass::Once)
    };
    tool_with(name, PARAMETERS, policy)
}

/// A tool of ours that runs at once, and one that has to be approved.
fn guarding() -> TurnSetup {
    TurnSetup {
        offer: ToolOffer::Ours(vec![tool("get_time", EffectClass::Read), guarded("pay")]),
        ..ours()
    }
}

fn answer(verdict: ApprovalVerdict) -> AnsweredCall {
    let tool = guarded("pay");
    AnsweredCall {
        asked: CallId(Uuid::from_u128(900)),
        verdict,
        tool_name: "pay".to_owned(),
        effect: Some(tool.policy.effect),
        tool: Some(tool),
        sent_id: "up".to_owned(),
        arguments: "{}".to_owned(),
    }
}

/// A turn whose request answers these.
fn answering(answered: Vec<AnsweredCall>) -> TurnSetup {
    TurnSetup {
        answered,
        ..guarding()
    }
}

#[test]
fn a_call_that_needs_approval_is_asked_about_and_not_run() {
    check(
        guarding(),
        "> call 0 pay@up {} ; finish tool_calls ; done
           write close 1#1 ok
           write message 1 call up pay {}
           write call 1.0 pay pending
           write ask approval 1.0 for 86400s
           write turn completed calls 1
           show start m 1000
           show ask approval 1.0 pay {}
           show finish stop
           show end completed",
    );
}

#[test]
fn ours_of_the_same_round_runs_first() {
    check(
        guarding(),
        "> text Let me see. ; call 0 pay@p {} ; call 1 get_time@t {} ; finish tool_calls ; done
           show start m 1000
           show round 1
           show text Let me see.
           write close 1#1 ok
           write message 1 text \"Let me see.\" call p pay {} call t get_time {}
           write call 1.0 pay pending
           write call 1.1 get_time pending
           show call 1.1 get_time
           do slot 1.1
         > slot 1.1
           write start 1.1
           write open 1.1#1
           do dispatch 1.1#1
         > end 1.1#1 ok noon
           write close 1.1#1 ok
           write ended 1.1 completed \"noon\"
           write ask approval 1.0 for 86400s
           write turn completed calls 2
           show ended 1.1 completed
           show ask approval 1.0 pay {}
           show finish stop
           show end completed
           do release 1.1",
    );
}

#[test]
fn what_was_not_asked_about_ends_with_a_turn_that_is_stopped() {
    for (event, reason) in [("cancel", "cancelled"), ("deadline", "deadline")] {
        let calls = "call 0 pay@p {} ; call 1 get_time@t {} ; finish tool_calls ; done";
        let mut run = super::Run::after(guarding(), calls);
        run.play(event);
        let written: Vec<String> = run.written.iter().map(super::trace::of_change).collect();
        let ended = format!("ended 1.0 failed {reason} ");
        assert!(
            written.iter().any(|line| line.starts_with(&ended)),
            "{event}: {written:?}"
        );
        assert!(!written.iter().any(|line| line.starts_with("ask approval")));
    }
}

#[test]
fn wrong_arguments_are_nobodys_question() {
    let mut run = super::Run::after(guarding(), "call 0 pay@p [] ; finish tool_calls ; done");
    let written: Vec<String> = run.written.iter().map(super::trace::of_change).collect();
    assert!(
        written
            .iter()
            .any(|line| line.contains("invalid_arguments"))
    );
    assert!(!run.turn.is_ended());
    run.play("text Sorry.");
}

#[test]
fn the_clients_calls_are_handed_over_beside_the_question() {
    let setup = TurnSetup {
        offer: ToolOffer::Mixed(vec![
            MixedListEntry::Client("pick".to_owned()),
            MixedListEntry::Ours(guarded("pay")),
        ]),
        ..mixed()
    };
    check(
        setup,
        "> call 0 pay@p {} ; call 1 pick@q {} ; finish tool_calls ; done
           write close 1#1 ok
           write message 1 call p pay {} call q pick {}
           write call 1.0 pay pending
           write client call 1.1 pick q {}
           write ask approval 1.0 for 86400s
           write hand over 1.1 pick q {}
           write turn completed calls 2
           show start m 1000
           show ask approval 1.0 pay {}
           show client call 0 pick@2 {}
           show finish tool_calls
           show end completed",
    );
}

#[test]
fn what_is_not_stored_is_asked_about_for_an_hour() {
    let minimal = TurnSetup {
        record: RecordPolicy::Minimal,
        ..guarding()
    };
    let run = super::Run::after(minimal, "call 0 pay@up {} ; finish tool_calls ; done");
    let written: Vec<String> = run.written.iter().map(super::trace::of_change).collect();
    assert!(
        written.contains(&"ask approval 1.0 for 3600s".to_owned()),
        "{written:?}"
    );
    assert_eq!(
        written.last().map(String::as_str),
        Some("turn completed calls 1 erase 3600s")
    );
}

#[test]
fn an_approved_call_runs_before_the_model_is_asked() {
    check(
        answering(vec![answer(ApprovalVerdict::Approved)]),
        "> slot 0.0
           write start 0.0
           write open 0.0#1
           do dispatch 0.0#1
         > end 0.0#1 ok paid
           write close 0.0#1 ok
           write ended 0.0 completed \"paid\"
           write open 1#1
           show ended 0.0 completed
           do release 0.0
           do ask 1#1
         > text Done. ; finish stop ; done
           show round 1
           show text Done.
           write close 1#1 ok
           write message 1 text \"Done.\"
           write turn completed calls 1
           show finish stop
           show end completed; ran pay completed",
    );
}

/// What the first step writes and shows.
#[test]
fn what_may_not_run_is_told_to_the_model_at_once() {
    let gone = AnsweredCall {
        tool: None,
        ..answer(ApprovalVerdict::Approved)
    };
    let reason = Some("too much".to_owned());
    for (answered, end) in [
        (
            answer(ApprovalVerdict::Denied { reason: None }),
            "failed denied \"This call was denied, so it was not run.\"",
        ),
        (
            answer(ApprovalVerdict::Denied { reason }),
            "failed denied \"This call was denied, so it was not run: too much\"",
        ),
        (
            answer(ApprovalVerdict::Expired),
            "failed approval_expired \"This call was approved too late, so it was not run.\"",
        ),
        (gone, "failed denied \"This tool is no longer available.\""),
    ] {
        let run = super::Run::start(answering(vec![answered]));
        let written: Vec<String> = run.written.iter().map(super::trace::of_change).collect();
        assert_eq!(
            written,
            [format!("call 0.0 pay {end}"), "open 1#1".to_owned()]
        );
    }
}

#[test]
fn an_approved_call_is_taken_up_where_it_stood() {
    let setup = || answering(vec![answer(ApprovalVerdict::Approved)]);
    let waiting = found_after(setup(), "");
    check_recovered(
        setup(),
        &waiting,
        "> recover
           do slot 0.0",
    );
    let running = found_after(setup(), "slot 0.0");
    check_recovered(
        setup(),
        &running,
        "> recover
           write close 0.0#1 interrupted
           write ended 0.0 failed outcome_unknown \"It is not known whether this call took effect. It must not s…\"
           write open 1#1
           show ended 0.0 failed outcome_unknown
           do release 0.0
           do ask 1#1",
    );
    let done = found_after(setup(), "slot 0.0 ; end 0.0#1 ok paid");
    assert!(done.calls[0].end.is_some());
}

#[test]
fn a_question_that_was_not_asked_yet_is_asked_after_a_restart() {
    let found = found_after(
        guarding(),
        "call 0 pay@p {} ; call 1 get_time@t {} ; finish tool_calls ; done ; slot 1.1",
    );
    let run = super::Run::recover(guarding(), &found);
    let written: Vec<String> = run.written.iter().map(super::trace::of_change).collect();
    assert_eq!(
        written,
        ["close 1.1#1 interrupted"],
        "the read call runs again"
    );
}

#[test]
fn formats_without_words_for_it_are_not_offered_such_tools() {
    let registry = [guarded("pay"), tool("get_time", EffectClass::Read)];
    let offered = |tools: RequestTools, approvals| {
        let input = match tools {
            RequestTools::Absent => super::trace::input(RequestTools::Absent),
            RequestTools::List(_) | RequestTools::ByName(_) => {
                super::offering::listing(&["pay", "own"])
            }
        };
        let rules = OfferRules {
            grant: &ToolGrant::All,
            mode: ToolsMode::Replace,
            approvals,
            tools_max: 128,
        };
        let offered = offer(&input, &rules, &registry).unwrap();
        let names = offered.offer.ours().map(|tool| tool.name.clone());
        (
            names.collect::<Vec<_>>(),
            offered.left_out,
            offered.offer.is_relay(),
        )
    };
    let list = || RequestTools::List(Vec::new());
    let words = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    for (tools, approvals, expected) in [
        (
            RequestTools::Absent,
            ApprovalWords::Known,
            (words(&["get_time", "pay"]), words(&[]), false),
        ),
        (
            RequestTools::Absent,
            ApprovalWords::Missing,
            (words(&["get_time"]), words(&["pay"]), false),
        ),
        (
            list(),
            ApprovalWords::Known,
            (words(&["pay"]), words(&[]), false),
        ),
        // The client's own list is not sent as it came: it names the tool.
        (
            list(),
            ApprovalWords::Missing,
            (words(&[]), words(&["pay"]), false),
        ),
    ] {
        assert_eq!(offered(tools, approvals), expected);
    }
}
