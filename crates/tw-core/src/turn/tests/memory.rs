//! What an ended turn is found by, and forgetting what a model finds too long.

use super::{Run, ours, relay};
use crate::change::TurnChange;
use crate::json::{Json, Literal};
use crate::memory::{
    HiddenCall, HiddenHash, HistoryHasher, MemoryScope, RememberedHash, TurnMemory,
};
use crate::model::CallForm;
use crate::request::{Block, CallBlock, Message, ROUND_GAP, Role};
use crate::turn::{Effect, FoundAttempt, FoundTurn, TurnSetup};

fn memory() -> TurnMemory {
    TurnMemory {
        history: HistoryHasher::new(&MemoryScope::User("ann".to_owned())),
        hidden: None,
        restores: true,
        round_gap: ROUND_GAP,
    }
}

fn remembering(setup: TurnSetup) -> TurnSetup {
    TurnSetup {
        memory: Some(memory()),
        ..setup
    }
}

fn found_by(run: &Run) -> Option<RememberedHash> {
    let mut ends = run.written.iter().filter_map(|change| {
        if let TurnChange::EndTurn(end) = change {
            Some(end.remembered)
        } else {
            None
        }
    });
    ends.next_back().flatten()
}

/// What a client sends back of an answer.
fn answer(text: &str, calls: &[&str]) -> Message {
    let mut blocks = vec![Block::Text(Literal::from_text(text))];
    blocks.extend(calls.iter().map(|id| {
        Block::Call(CallBlock {
            id: (*id).to_owned(),
            name: "f".to_owned(),
            form: CallForm::Function,
            arguments: Literal::default(),
            native: None,
        })
    }));
    Message {
        raw: Some(Json::from_value(&"".into())),
        ..Message::made(Role::Assistant, blocks)
    }
}

#[test]
fn a_turn_is_found_by_the_text_of_all_its_rounds() {
    let run = Run::after(
        remembering(ours()),
        "text Let me see. ; call 0 get_time {} ; finish tool_calls ; done
         slot 1.0 ; end 1.0#1 ok noon
         call 0 get_time {\"zone\":\"x\"} ; done
         slot 2.0 ; end 2.0#1 ok one
         text It is ; text  noon. ; done",
    );
    let found_by = found_by(&run).unwrap();
    let seen = answer("Let me see.\n\nIt is noon.", &[]);
    assert_eq!(found_by.history, memory().history.then(&seen).hash());
    let hidden = [("{}", "noon"), ("{\\\"zone\\\":\\\"x\\\"}", "one")];
    let hidden = hidden.iter().map(|(arguments, shown)| HiddenCall {
        name: "get_time",
        arguments,
        shown,
    });
    assert_eq!(
        found_by.hidden,
        HiddenHash::of(None, found_by.history, hidden)
    );
}

/// A client whose format has blocks has one for each round, in whatever order with the calls that it was handed.
#[test]
fn a_turn_is_found_by_the_blocks_of_all_its_rounds() {
    let setup = TurnSetup {
        memory: Some(TurnMemory {
            round_gap: "",
            ..memory()
        }),
        ..ours()
    };
    let run = Run::after(
        setup,
        "text Let me see. ; call 0 get_time {} ; finish tool_calls ; done
         slot 1.0 ; end 1.0#1 ok noon
         text It is noon. ; done",
    );
    let mut seen = answer("Let me see.", &["call_x"]);
    let [_, call] = &seen.blocks[..] else {
        panic!()
    };
    let call = call.clone();
    seen.blocks.remove(1);
    seen.blocks
        .push(Block::Text(Literal::from_text("It is noon.")));
    let history = found_by(&run).unwrap().history;
    assert_eq!(history, memory().history.then(&seen).hash());
    let [first, second] = &seen.blocks[..] else {
        panic!()
    };
    let of = |blocks: [&Block; 3]| {
        let blocks = blocks.into_iter().cloned().collect();
        memory()
            .history
            .then(&Message::made(Role::Assistant, blocks))
            .hash()
    };
    assert_eq!(of([first, &call, second]), of([first, second, &call]));
    assert_ne!(of([first, &call, second]), history);
}

#[test]
fn what_was_hidden_before_stays_with_a_turn_that_hides_nothing() {
    let before = Some(HiddenHash([3; 32]));
    let setup = TurnSetup {
        memory: Some(TurnMemory {
            hidden: before,
            ..memory()
        }),
        ..ours()
    };
    let run = Run::after(setup, "text Hi ; done");
    assert_eq!(found_by(&run).unwrap().hidden, before);
}

#[test]
fn only_an_answer_is_found_again() {
    for (lines, is_found) in [
        ("text Hi ; done", true),
        ("text Hi ; finish length ; done", true),
        ("text Hi ; closed", false),
        ("failed status 400", false),
        ("text Hi ; cancel", false),
        ("text Hi ; deadline", false),
    ] {
        let run = Run::after(remembering(ours()), lines);
        assert!(run.turn.is_ended(), "{lines}");
        assert_eq!(found_by(&run).is_some(), is_found, "{lines}");
        let run = Run::after(ours(), lines);
        assert_eq!(found_by(&run), None, "{lines}");
    }
}

/// Plays a failure with these words and says whether the next request goes without memory.
fn forgets(run: &mut Run, message: &str) -> bool {
    run.play(&format!("error 400 {message} ; closed"));
    !run.turn.is_restoring()
}

#[test]
fn a_request_that_is_too_long_is_made_once_more_without_what_was_put_back() {
    let mut run = Run::start(remembering(ours()));
    assert!(run.turn.is_restoring());
    assert!(forgets(
        &mut run,
        "This model's maximum context length is 8 tokens"
    ));
    assert!(run.step.then.contains(&Effect::Ask { round: 1, n: 2 }));
    let words: Vec<&str> = run
        .written
        .iter()
        .filter_map(|change| {
            if let TurnChange::CloseAttempt(close) = change {
                Some(close.outcome.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(words, ["context_length"]);
    // The second time it is the client's own history that is too long.
    run.play("error 400 maximum context length ; closed");
    assert!(run.turn.is_ended());
}

#[test]
fn the_upstream_that_found_it_too_long_is_the_one_that_is_asked_again() {
    let setup = TurnSetup {
        upstreams: super::upstreams_named(&["up", "next"]),
        ..remembering(ours())
    };
    let mut run = Run::start(setup);
    assert!(forgets(&mut run, "prompt is too long"));
    // After that the chain goes on.
    run.play("failed connect");
    let asked: Vec<Option<&str>> = run
        .written
        .iter()
        .filter_map(|change| {
            if let TurnChange::OpenAttempt(open) = change {
                Some(open.upstream.as_deref())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(asked[..2], [Some("up"), Some("up")]);
    assert_eq!(run.turn.upstream_of(3), 1);
}

#[test]
fn other_failures_forget_nothing_and_nothing_is_forgotten_behind_what_was_shown() {
    let mut run = Run::start(remembering(ours()));
    assert!(!forgets(&mut run, "no such model"));
    assert!(run.turn.is_ended());
    let mut run = Run::after(remembering(ours()), "text Hi");
    assert!(!forgets(&mut run, "maximum context length"));
    assert!(run.turn.is_ended());
    let mut run = Run::start(ours());
    assert!(!run.turn.is_restoring());
    run.play("error 400 maximum context length ; closed");
    assert!(run.turn.is_ended());
}

#[test]
fn a_later_round_may_be_what_is_too_long() {
    let mut run = Run::after(
        remembering(ours()),
        "text One. ; call 0 get_time {} ; done
         slot 1.0 ; end 1.0#1 ok noon",
    );
    assert!(forgets(&mut run, "prompt is too long"));
    assert!(run.step.then.contains(&Effect::Ask { round: 2, n: 2 }));
}

#[test]
fn what_was_forgotten_is_not_put_back_after_a_crash() {
    let attempt = |n, outcome: Option<&str>| FoundAttempt {
        upstream: None,
        round: 1,
        position: None,
        n,
        outcome: outcome.map(str::to_owned),
        usage: None,
    };
    let plain = TurnSetup {
        streamed: false,
        ..remembering(relay())
    };
    for (outcome, restores) in [("context_length", false), ("status", true)] {
        let found = FoundTurn {
            attempts: vec![attempt(1, Some(outcome)), attempt(2, None)],
            ..FoundTurn::default()
        };
        let run = Run::recover(plain.clone(), &found);
        assert_eq!(run.turn.is_restoring(), restores, "{outcome}");
    }
}
