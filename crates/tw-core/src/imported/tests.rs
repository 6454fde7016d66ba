use std::collections::BTreeSet;

use uuid::Uuid;

use super::*;

/// What somebody says, in the words of a case: `user hi`, `calls a b` (with ids), `mislabelled a` (calls in a
/// row that is taken for a user's), `result a`, `error a`, `pending a`; a result of `?` is the next call's, one of `@tool`
/// that of the next call of a tool.
fn message(place: usize, said: &str) -> ForeignMessage {
    let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
    let result = |status| {
        vec![ForeignPart::Result(ForeignResult {
            answers: match rest {
                "?" => ForeignCallRef::Next,
                _ => match rest.strip_prefix('@') {
                    Some(name) => ForeignCallRef::OfTool(name.to_owned()),
                    None => ForeignCallRef::Id(rest.to_owned()),
                },
            },
            content: format!("content {place}"),
            status,
        })]
    };
    let text = || ForeignPart::Text(Literal::from_text(rest));
    let (role, parts) = match word {
        "user" => (ForeignRole::User, vec![text()]),
        "system" => (ForeignRole::System, vec![text()]),
        "says" => (ForeignRole::Assistant, vec![text()]),
        "calls" | "mislabelled" => {
            let call = |id: &str| {
                ForeignPart::Call(ForeignCall {
                    id: id.to_owned(),
                    name: "tool".to_owned(),
                    arguments: "{\"n\":9007199254740993}".to_owned(),
                })
            };
            // Rows of a role that nobody knows are read as a user's.
            let role = match word {
                "calls" => ForeignRole::Assistant,
                _ => ForeignRole::User,
            };
            (role, rest.split(' ').map(call).collect())
        }
        "result" => (ForeignRole::Tool, result(ForeignStatus::Success)),
        "error" => (ForeignRole::Tool, result(ForeignStatus::Error)),
        "pending" => (ForeignRole::Tool, result(ForeignStatus::Pending)),
        _ => panic!("{word}"),
    };
    ForeignMessage {
        id: format!("row {place}"),
        role,
        parts,
        at: Timestamp(i64::try_from(place).unwrap()),
        rows: vec![ForeignRow {
            table: "messages",
            name: None,
            json: Json::from_value(&place.into()),
        }],
    }
}

/// The turns as `status: rounds of messages; calls as id=status`, and the repairs as `row: word`.
fn assembled(said: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut assembler = TurnAssembler::of(ForeignConversation {
        id: "c".to_owned(),
        end_user: None,
        row: None,
    });
    let turn_id = |row: &str| TurnId(Uuid::from_u128(row.len() as u128));
    let mut last = 0;
    let mut new_id = || {
        last += 1;
        Uuid::from_u128(last)
    };
    let mut turns = Vec::new();
    for (place, said) in said.iter().enumerate() {
        turns.extend(assembler.push(message(place, said), &turn_id, &mut new_id));
    }
    turns.extend(assembler.end());
    for turn in &turns {
        let places: BTreeSet<_> = turn.calls.iter().map(|call| call.call).collect();
        assert_eq!(places.len(), turn.calls.len(), "{said:?}: one place each");
    }
    let shown = turns.iter().map(|turn| {
        let places = turn.messages.iter();
        let places = places.map(|message| format!("{}.{}", message.round, message.seq));
        let calls = turn.calls.iter();
        let calls = calls.map(|call| format!("{}={}", call.tool_call_id, call.status().as_str()));
        let places: Vec<String> = places.collect();
        let calls: Vec<String> = calls.collect();
        let (status, rows) = (turn.status.as_str(), turn.rows.len());
        format!(
            "{status} of {rows}: {}; {}",
            places.join(" "),
            calls.join(" ")
        )
    });
    let repairs = assembler.repairs.iter();
    let repairs = repairs.map(|row| format!("{}: {}", row.row, row.repair.as_str()));
    (shown.collect(), repairs.collect())
}

/// What is said; the turns that it makes; the repairs.
type AssemblyCase = (
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const CASES: &[AssemblyCase] = &[
    (
        &["user hi", "says hello", "user and", "says yes"],
        &["completed of 2: 0.0 1.0; ", "completed of 2: 0.0 1.0; "],
        &[],
    ),
    (
        &[
            "system s",
            "user hi",
            "calls a b",
            "result b",
            "error a",
            "says done",
        ],
        &["completed of 6: 0.0 0.1 1.0 2.0; a=failed b=completed"],
        &[],
    ),
    // The model was never asked again.
    (
        &["user hi", "calls a", "result a"],
        &["incomplete of 3: 0.0 1.0; a=completed"],
        &[],
    ),
    (
        &["user hi", "calls a", "user still there?", "says yes"],
        &[
            "incomplete of 2: 0.0 1.0; a=pending",
            "completed of 2: 0.0 1.0; ",
        ],
        &["row 1: call_without_result"],
    ),
    (
        &["user hi", "calls a", "pending a"],
        &["incomplete of 3: 0.0 1.0; a=pending"],
        &[],
    ),
    (
        &["user hi", "calls a", "pending a", "result a", "says done"],
        &["completed of 5: 0.0 1.0 2.0; a=completed"],
        &[],
    ),
    (
        &[
            "user hi",
            "calls a",
            "result a",
            "result a",
            "result z",
            "says done",
        ],
        &["completed of 6: 0.0 1.0 1.1 1.2 2.0; a=completed"],
        &["row 3: second_result", "row 4: result_without_call"],
    ),
    (
        &["user hi", "calls a a", "result a", "error a", "says done"],
        &["completed of 5: 0.0 1.0 2.0; a=completed a=failed"],
        &["row 1: call_id_taken"],
    ),
    (
        &["mislabelled a", "mislabelled b", "result b", "says done"],
        &["incomplete of 4: 0.0 0.1 1.0; a=pending b=completed"],
        &["row 0: call_without_result"],
    ),
    (
        &[
            "user hi",
            "calls a b",
            "result ?",
            "result @tool",
            "error @other",
            "says done",
        ],
        &["completed of 6: 0.0 1.0 1.1 2.0; a=completed b=completed"],
        &["row 4: result_without_call"],
    ),
    (&["says welcome"], &["completed of 1: 1.0; "], &[]),
    (&["user hi"], &["incomplete of 1: 0.0; "], &[]),
    (
        &["result a"],
        &["incomplete of 1: 0.0; "],
        &["row 0: result_without_call"],
    ),
    (&[], &[], &[]),
];

#[test]
fn messages_become_turns_and_halves_that_are_alone_are_told() {
    for &(said, turns, repairs) in CASES {
        let (found, told) = assembled(said);
        assert_eq!(found, turns, "{said:?}");
        assert_eq!(told, repairs, "{said:?}");
    }
}

#[test]
fn a_turn_that_is_too_long_goes_on_as_another_one() {
    let mut said = vec!["user hi"];
    said.resize(IMPORTED_MESSAGES_MAX + 1, "says on");
    let (turns, repairs) = assembled(&said);
    assert_eq!(turns.len(), 2);
    assert_eq!(
        repairs,
        [format!("row {IMPORTED_MESSAGES_MAX}: turn_split")]
    );
    // One that would have begun there anyhow is no part of it.
    said[IMPORTED_MESSAGES_MAX] = "user and";
    let (turns, repairs) = assembled(&said);
    assert_eq!((turns.len(), repairs.len()), (2, 0), "{repairs:?}");
}
