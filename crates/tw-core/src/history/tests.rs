use std::collections::HashMap;

use proptest::prelude::*;

use super::{HistoryRepairs, repair, repaired};
use crate::json::{Json, Literal};
use crate::model::CallForm;
use crate::request::{Block, CallBlock, Message, ResultBlock, Role};

/// `u` a user message, `a:x,y` an assistant message with calls, `r:x` a result.
fn history(words: &str) -> Vec<Message> {
    words
        .split_whitespace()
        .map(|word| {
            let (kind, ids) = word.split_once(':').unwrap_or((word, ""));
            let ids = ids.split(',').filter(|id| !id.is_empty());
            let raw = Some(Json::from_value(&word.into()));
            match kind {
                "u" => Message {
                    raw,
                    ..Message::made(Role::User, vec![])
                },
                "a" => {
                    let blocks = ids.map(|id| {
                        Block::Call(CallBlock {
                            id: id.to_owned(),
                            name: "f".to_owned(),
                            form: CallForm::Function,
                            arguments: Literal::from_text("{}"),
                            native: None,
                        })
                    });
                    Message {
                        raw,
                        ..Message::made(Role::Assistant, blocks.collect())
                    }
                }
                "r" => {
                    let ok = |id| Block::Result(ResultBlock::of_text(id, Literal::from_text("ok")));
                    Message {
                        raw,
                        ..Message::made(Role::Tool, ids.map(ok).collect())
                    }
                }
                other => panic!("{other}"),
            }
        })
        .collect()
}

fn words(messages: &[Message]) -> String {
    let words: Vec<String> = messages
        .iter()
        .map(|message| match &message.raw {
            Some(raw) => raw.to_value().as_str().unwrap().to_owned(),
            None => format!("missing:{}", message.result().unwrap().call_id),
        })
        .collect();
    words.join(" ")
}

fn check(given: &str, expected: &str, header: &str) {
    let (repaired, repairs) = repair(history(given));
    assert_eq!(words(&repaired), expected, "{given}");
    assert_eq!(repairs.to_string(), header, "{given}");
    let (again, nothing) = repair(repaired.clone());
    assert_eq!(again, repaired, "repairing twice changes nothing");
    assert_eq!(nothing, HistoryRepairs::default());
}

#[test]
fn quirk_24_history_always_has_both_halves() {
    check("u a:x", "u a:x missing:x", "missing_result=1");
    check("u a:x u", "u a:x missing:x u", "missing_result=1");
    check("u r:x", "u", "orphan_result=1");
}

#[test]
fn quirk_25_completeness_and_order_are_repaired_and_reported() {
    check(
        "u a:x,y r:x u",
        "u a:x,y r:x missing:y u",
        "missing_result=1",
    );
    check("u a:x u r:x", "u a:x r:x u", "moved_result=1");
    check("u a:x,y r:x u r:y", "u a:x,y r:x r:y u", "moved_result=1");
    check("u a:x r:x r:x", "u a:x r:x", "repeated_result=1");
    check("r:z a:x r:x r:q", "a:x r:x", "orphan_result=2");
}

#[test]
fn what_is_in_order_stays_as_it_is() {
    for given in ["u", "u a:x,y r:y r:x a", "u a:x r:x u a:x r:x", ""] {
        check(given, given, "");
    }
}

#[test]
fn an_id_that_comes_again_is_answered_by_its_own_result() {
    check(
        "a:x u a:x r:x",
        "a:x missing:x u a:x r:x",
        "missing_result=1",
    );
}

/// What the upstream gets: `name#id` for calls and `#id content` for results.
fn sent(messages: &[Message]) -> Vec<String> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks
        .map(|block| match block {
            Block::Call(call) => format!("{}#{}", call.name, call.id),
            Block::Result(result) => format!("#{} {:?}", result.call_id, said(result)),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn said(result: &ResultBlock) -> String {
    match &result.content[..] {
        [Block::Text(text)] => text.to_text(),
        other => panic!("{other:?}"),
    }
}

/// Calls as name and id, then results as id and content.
fn round(calls: &[(&str, &str)], results: &[(&str, &str)]) -> Vec<Message> {
    let blocks = calls.iter().map(|(name, id)| {
        Block::Call(CallBlock {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            form: CallForm::Function,
            arguments: Literal::from_text("{}"),
            native: None,
        })
    });
    let mut messages = vec![Message::made(Role::Assistant, blocks.collect())];
    messages.extend(results.iter().map(|(id, content)| {
        let result = ResultBlock::of_text(*id, Literal::from_text(content));
        Message::made(Role::Tool, vec![Block::Result(result)])
    }));
    messages
}

#[test]
fn two_calls_with_one_id_are_told_apart_with_their_results() {
    for (calls, results, expected, header) in [
        (
            vec![("f", "x1"), ("g", "x1")],
            vec![("x1", "1"), ("x1", "2")],
            vec!["f#x1", "g#x2", "#x1 \"1\"", "#x2 \"2\""],
            "repeated_id=1",
        ),
        // The new id is nobody's else, of the same length, and cut at a letter.
        (
            vec![("f", "aé"), ("g", "aé"), ("h", "a2"), ("i", "aé")],
            vec![("aé", "1"), ("a2", "2"), ("aé", "3"), ("aé", "4")],
            vec![
                "f#aé",
                "g#a3",
                "h#a2",
                "i#a4",
                "#aé \"1\"",
                "#a2 \"2\"",
                "#a3 \"3\"",
                "#a4 \"4\"",
            ],
            "repeated_id=2",
        ),
        (
            vec![("f", "x"), ("g", "x")],
            vec![("x", "1"), ("x", "2"), ("x", "3")],
            vec!["f#x", "g#2", "#x \"1\"", "#2 \"2\""],
            "repeated_result=1, repeated_id=1",
        ),
    ] {
        let (repaired, repairs) = repair(round(&calls, &results));
        assert_eq!(sent(&repaired), expected);
        assert_eq!(repairs.to_string(), header);
    }
}

#[test]
fn of_two_calls_with_one_id_and_one_result_the_first_is_answered() {
    let (repaired, repairs) = repair(round(&[("f", "x"), ("g", "x")], &[("x", "1")]));
    let told = sent(&repaired);
    assert_eq!(told[..3], ["f#x", "g#2", "#x \"1\""]);
    assert!(
        told[3].starts_with("#2 ") && told[3].contains("not known"),
        "{told:?}"
    );
    assert_eq!(repairs.to_string(), "missing_result=1, repeated_id=1");
}

#[test]
fn messages_whose_ids_change_are_marked() {
    let written = |text: &str| Some(Json::parse(text).unwrap());
    let mut messages = round(&[("f", "x"), ("g", "x")], &[("x", "1"), ("x", "2")]);
    for (message, text) in messages.iter_mut().zip(["1", "2", "3"]) {
        message.raw = written(text);
    }
    let (repaired, _) = repair(messages.clone());
    let changed: Vec<bool> = repaired.iter().map(|message| message.is_changed).collect();
    assert_eq!(changed, [true, false, true]);
    let raw = |messages: &[Message]| -> Vec<_> {
        let raw = messages.iter().map(|message| message.raw.clone());
        raw.collect()
    };
    assert_eq!(raw(&repaired), raw(&messages));
}

#[test]
fn a_call_of_the_old_form_keeps_its_name() {
    let mut messages = round(&[("f", "f"), ("f", "f")], &[("f", "1"), ("f", "2")]);
    if let Block::Call(call) = &mut messages[0].blocks[1] {
        call.form = CallForm::ByName;
    }
    let (repaired, _) = repair(messages);
    assert_eq!(sent(&repaired), ["f#2", "f#f", "#2 \"1\"", "#f \"2\""]);
}

#[test]
fn ids_that_come_again_in_another_message_stay() {
    let mut messages = round(&[("f", "x")], &[("x", "1")]);
    messages.extend(round(&[("f", "x")], &[("x", "2")]));
    let (untouched, repairs) = repaired(&messages);
    assert!(untouched.is_none() && repairs.is_none());
}

/// Many equal ids beside many that look like their successors.
#[test]
fn a_message_of_nothing_but_repeated_ids_takes_no_longer_than_another() {
    const CALLS: usize = 40_000;
    let ids: Vec<String> = (0..CALLS).map(|n| format!("x{:06}", n / 4)).collect();
    let calls: Vec<(&str, &str)> = ids.iter().map(|id| ("f", id.as_str())).collect();
    let mut messages = round(&calls, &[]);
    assert_eq!(
        super::ids::tell_apart(&mut messages) as usize,
        CALLS - CALLS / 4
    );
}

proptest! {
    #[test]
    fn whatever_ids_repeat_each_call_has_its_own_and_its_own_result(
        rounds in prop::collection::vec(
            (
                prop::collection::vec("[ab][12]?|é", 0..6),
                prop::collection::vec("[ab][12]?|é", 0..6),
            ),
            0..4,
        ),
    ) {
        let mut number = 0;
        let mut names = Vec::new();
        let mut written: HashMap<String, String> = HashMap::new();
        let mut messages = Vec::new();
        for (calls, results) in &rounds {
            let numbered = |number: &mut usize| {
                *number += 1;
                number.to_string()
            };
            let calls: Vec<(String, &String)> =
                calls.iter().map(|id| (numbered(&mut number), id)).collect();
            let results: Vec<(&String, String)> =
                results.iter().map(|id| (id, numbered(&mut number))).collect();
            let borrowed: Vec<(&str, &str)> =
                calls.iter().map(|(name, id)| (name.as_str(), id.as_str())).collect();
            let given: Vec<(&str, &str)> =
                results.iter().map(|(id, content)| (id.as_str(), content.as_str())).collect();
            written.extend(calls.iter().map(|(name, id)| (name.clone(), (*id).clone())));
            names.push(calls.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
            messages.extend(round(&borrowed, &given));
        }
        let (repaired, _) = repair(messages);
        let made: Vec<Vec<String>> = repaired
            .iter()
            .filter(|message| message.role == Role::Assistant)
            .map(|message| message.calls().map(|call| call.name.clone()).collect())
            .collect();
        prop_assert_eq!(made, names);
        let mut at = 0;
        while let Some(message) = repaired.get(at) {
            let ids: Vec<&str> = message.calls().map(|call| call.id.as_str()).collect();
            let results: Vec<&ResultBlock> =
                repaired[at + 1..].iter().map_while(Message::result).collect();
            at += 1 + results.len();
            let mut answered: Vec<&str> =
                results.iter().map(|result| result.call_id.as_str()).collect();
            // Results were numbered as they came; calls without one come last.
            let mut last: HashMap<&str, usize> = HashMap::new();
            for call in message.calls() {
                let result = results.iter().find(|result| result.call_id == call.id).unwrap();
                let number = said(result).parse();
                let number = number.unwrap_or(usize::MAX);
                let before = last.insert(&written[&call.name], number);
                prop_assert!(before.is_none_or(|before| before <= number));
            }
            answered.sort_unstable();
            let mut wanted = ids.clone();
            wanted.sort_unstable();
            prop_assert_eq!(&answered, &wanted);
            wanted.dedup();
            prop_assert_eq!(ids.len(), wanted.len());
        }
        let (again, nothing) = repair(repaired.clone());
        prop_assert_eq!(again, repaired);
        prop_assert_eq!(nothing, HistoryRepairs::default());
    }
}
