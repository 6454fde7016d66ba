use super::{Repairs, repair};
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
                    role: Role::User,
                    blocks: vec![],
                    raw,
                },
                "a" => Message {
                    role: Role::Assistant,
                    blocks: ids
                        .map(|id| {
                            Block::Call(CallBlock {
                                id: id.to_owned(),
                                name: "f".to_owned(),
                                form: CallForm::Function,
                                arguments: Literal::default(),
                            })
                        })
                        .collect(),
                    raw,
                },
                "r" => Message {
                    role: Role::Tool,
                    blocks: ids
                        .map(|id| {
                            Block::Result(ResultBlock {
                                call_id: id.to_owned(),
                                content: Json::from_value(&"ok".into()),
                            })
                        })
                        .collect(),
                    raw,
                },
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
    assert_eq!(nothing, Repairs::default());
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
