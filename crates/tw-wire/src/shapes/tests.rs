use std::collections::{BTreeMap, BTreeSet};

use tw_core::approval::ApprovalState;
use tw_core::call::{CallReason, CallRunner, CallStatus};
use tw_core::change::NewMessage;
use tw_core::id::{CallId, CallRef, TurnId};
use tw_core::request::Role;
use tw_core::time::Timestamp;

use super::{KnownAnswer, SaidCall, SaidTurn, TurnRecord, rows_of};
use crate::stored::blocks;
use tw_core::shape::Shape;

fn at(n: i64) -> Timestamp {
    Timestamp(1_700_000_000_000_000 + n)
}

fn id(n: u128) -> String {
    format!("0194f2a0-0000-7000-8000-{n:012}")
}

fn said(round: u32, seq: u32, role: Role, blocks: &str) -> NewMessage {
    NewMessage {
        round,
        seq,
        role,
        blocks: blocks::decode(blocks).unwrap().blocks,
        origin: None,
        at: at(i64::from(round * 10 + seq)),
    }
}

/// A call of the server's that has ended.
fn call(round: u32, position: u32, name: &str, shown: &str) -> SaidCall {
    SaidCall {
        call: CallRef { round, position },
        id: CallId::parse(&id(u128::from(100 + round * 10 + position))).unwrap(),
        runs: CallRunner::Server,
        tool_name: name.to_owned(),
        tool_call_id: format!("call_{round}{position}"),
        arguments: r#"{"city":"Rome","n":9007199254740993}"#.to_owned(),
        status: CallStatus::Completed,
        reason: None,
        is_error: false,
        shown: Some(shown.to_owned()),
        result: Some(shown.to_owned()),
        approval: None,
        approves: false,
        external_id: None,
        cost_microusd: None,
        created: at(20),
        updated: at(30),
    }
}

fn record(messages: Vec<NewMessage>, calls: Vec<SaidCall>) -> TurnRecord {
    TurnRecord {
        id: TurnId::parse(&id(1)).unwrap(),
        conversation: "c1".to_owned(),
        end_user: None,
        model: "m".to_owned(),
        created: at(0),
        updated: at(99),
        messages,
        calls,
        answered: BTreeMap::new(),
        answers: BTreeSet::new(),
        answers_over: false,
    }
}

fn handed() -> SaidCall {
    SaidCall {
        runs: CallRunner::Client,
        shown: Some(String::new()),
        result: None,
        ..call(1, 0, "ask", "")
    }
}

/// A call that an import brought, whose result stands with it.
fn imported(position: u32, name: &str, shown: Option<&str>) -> SaidCall {
    SaidCall {
        runs: CallRunner::Outside,
        status: shown.map_or(CallStatus::Pending, |_| CallStatus::Completed),
        shown: shown.map(str::to_owned),
        result: shown.map(str::to_owned),
        ..call(1, position, name, "")
    }
}

const ASKS: &str = r#"[{"call":{"id":"call_10","n":"ask","m":"function","a":"{}"}}]"#;

fn cases() -> Vec<(&'static str, TurnRecord)> {
    let hello = || said(0, 0, Role::User, r#"[{"text":"Hello"}]"#);
    let two_calls = r#"[{"reasoning":{"f":"reasoning_content","t":"Two, then."}},{"text":"I look \"there\"."},
        {"call":{"id":"call_10","n":"weather","m":"function","a":"{\"city\":\"Rome\",\"n\":9007199254740993}"}},
        {"call":{"id":"call_11","n":"mail","m":"function","a":"{\"to\":"}}]"#;
    let failed = SaidCall {
        status: CallStatus::Failed,
        reason: Some(CallReason::InvalidArguments),
        is_error: true,
        arguments: r#"{"to":"#.to_owned(),
        result: None,
        ..call(1, 1, "mail", "not JSON")
    };
    let asked = |approval| SaidCall {
        status: CallStatus::Pending,
        approval: Some(approval),
        shown: None,
        result: None,
        ..call(1, 0, "ask", "")
    };
    let image = r#"[{"text":"What is this?"},{"part":{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}}]"#;
    let answers = r#"[{"result":{"id":"call_0194f2a0000070008000000000000110","b":[{"text":"[1, 2]"}]}},
        {"result":{"id":"call_x","b":[{"text":"no"}],"e":true}},{"text":"And?"}]"#;
    let known = KnownAnswer {
        tool_call_id: "call_10".to_owned(),
        tool_name: "ask".to_owned(),
        is_error: false,
    };
    let call_id = "call_0194f2a0000070008000000000000110".to_owned();
    vec![
        (
            "several_calls",
            record(
                vec![
                    said(0, 0, Role::System, r#"[{"text":"Be kind."}]"#),
                    said(0, 1, Role::User, r#"[{"text":"Hello"}]"#),
                    said(1, 0, Role::Assistant, two_calls),
                    said(2, 0, Role::Assistant, r#"[{"text":"It rains."}]"#),
                ],
                vec![
                    call(1, 0, "weather", r#"{"rain": true, "mm": 1.50}"#),
                    failed,
                ],
            ),
        ),
        (
            "a_call_of_the_client",
            record(
                vec![hello(), said(1, 0, Role::Assistant, ASKS)],
                vec![handed()],
            ),
        ),
        (
            "a_call_that_was_left",
            TurnRecord {
                answers_over: true,
                ..record(
                    vec![hello(), said(1, 0, Role::Assistant, ASKS)],
                    vec![handed()],
                )
            },
        ),
        (
            "a_call_that_was_answered_later",
            TurnRecord {
                answers: BTreeSet::from(["call_10".to_owned()]),
                answers_over: true,
                ..record(
                    vec![hello(), said(1, 0, Role::Assistant, ASKS)],
                    vec![handed()],
                )
            },
        ),
        (
            "results_of_the_client",
            TurnRecord {
                answered: BTreeMap::from([(call_id, known)]),
                ..record(
                    vec![
                        said(0, 0, Role::User, answers),
                        said(1, 0, Role::Assistant, r#"[{"text":"Done."}]"#),
                    ],
                    vec![],
                )
            },
        ),
        (
            "an_image",
            record(
                vec![
                    said(0, 0, Role::User, image),
                    said(1, 0, Role::Assistant, r#"[{"refusal":"I cannot say."}]"#),
                ],
                vec![],
            ),
        ),
        (
            "a_question_that_is_open",
            record(
                vec![hello(), said(1, 0, Role::Assistant, ASKS)],
                vec![asked(ApprovalState::Asked)],
            ),
        ),
        (
            "a_question_that_another_turn_acts_on",
            record(
                vec![hello(), said(1, 0, Role::Assistant, ASKS)],
                vec![SaidCall {
                    status: CallStatus::Completed,
                    shown: Some(String::new()),
                    ..asked(ApprovalState::Approved)
                }],
            ),
        ),
        (
            "a_history_in_pieces",
            record(
                vec![
                    said(0, 0, Role::Assistant, r#"[{"text":"I look."}]"#),
                    said(0, 1, Role::Assistant, ASKS),
                    said(
                        0,
                        2,
                        Role::User,
                        r#"[{"result":{"id":"call_10","b":[{"text":"21"}]}}]"#,
                    ),
                ],
                vec![],
            ),
        ),
        (
            "an_appended_history",
            record(
                vec![
                    said(0, 0, Role::User, r#"[{"text":"Hello"}]"#),
                    said(0, 1, Role::Assistant, two_calls),
                    said(
                        0,
                        2,
                        Role::User,
                        r#"[{"result":{"id":"call_11","b":[{"text":"no"}],"e":true}}]"#,
                    ),
                    said(
                        0,
                        3,
                        Role::User,
                        r#"[{"result":{"id":"call_10","b":[{"text":"21"}]}}]"#,
                    ),
                    said(0, 4, Role::Assistant, r#"[{"text":"It rains."}]"#),
                ],
                vec![],
            ),
        ),
        (
            "an_imported_turn",
            record(
                vec![
                    hello(),
                    said(1, 0, Role::Assistant, two_calls),
                    // The application gave a second result.
                    said(
                        1,
                        1,
                        Role::Tool,
                        r#"[{"result":{"id":"call_10","b":[{"text":"22"}]}}]"#,
                    ),
                    said(2, 0, Role::Assistant, r#"[{"text":"It rains."}]"#),
                ],
                vec![
                    imported(0, "weather", Some("21")),
                    imported(1, "mail", Some("")),
                ],
            ),
        ),
        (
            "an_imported_call_that_waits",
            record(
                vec![hello(), said(1, 0, Role::Assistant, ASKS)],
                vec![imported(0, "ask", None)],
            ),
        ),
        (
            "an_imported_call_that_was_answered_later",
            TurnRecord {
                answers: BTreeSet::from(["call_10".to_owned()]),
                ..record(
                    vec![hello(), said(1, 0, Role::Assistant, ASKS)],
                    vec![imported(0, "ask", Some(""))],
                )
            },
        ),
    ]
}

#[test]
fn turns_are_written_in_each_shape() {
    for (name, record) in cases() {
        let turn = SaidTurn::of(record);
        let mut shown = String::new();
        for shape in Shape::ALL {
            shown += shape.as_str();
            shown += "\n";
            for row in rows_of(shape, &turn) {
                // What is written is JSON, and its id is the row's.
                assert_eq!(row.json.to_value()["id"], row.id);
                shown += row.json.as_str();
                shown += "\n";
            }
        }
        let open: Vec<&str> = turn.open.iter().map(|call| &*call.tool_call_id).collect();
        shown += &format!("open {open:?}\n");
        insta::assert_snapshot!(name, shown);
    }
}

/// In each history a call has its result, but for those that the client is still to give.
#[test]
fn no_history_has_a_call_without_its_result() {
    for (name, record) in cases() {
        let turn = SaidTurn::of(record);
        let rows = rows_of(Shape::OpenAi, &turn);
        let rows: Vec<_> = rows.iter().map(|row| row.json.to_value()).collect();
        let mut called: Vec<String> = Vec::new();
        let mut answered: Vec<String> = turn
            .open
            .iter()
            .map(|call| call.tool_call_id.clone())
            .collect();
        for row in &rows {
            let calls = row["tool_calls"].as_array().into_iter().flatten();
            called.extend(calls.map(|call| call["id"].as_str().unwrap().to_owned()));
            answered.extend(row["tool_call_id"].as_str().map(str::to_owned));
        }
        called.sort();
        answered.sort();
        match name {
            // The other half stands in another turn.
            "results_of_the_client"
            | "a_call_that_was_answered_later"
            | "an_imported_call_that_was_answered_later"
            | "an_imported_turn"
            | "a_question_that_another_turn_acts_on" => {}
            _ => assert_eq!(called, answered, "{name}"),
        }
    }
}
