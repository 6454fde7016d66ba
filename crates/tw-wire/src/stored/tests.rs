use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::event::{EffectRan, LogEvent, TurnEnd};
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::{CallId, CallRef};
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, CallNative, DeltaRest, Finish, ReasoningText,
    TokenUsage,
};
use tw_core::native::{AnswerOrigin, NativePart};
use tw_core::request::{Block, CallBlock, PartBlock, ReasoningBlock, ResultBlock};
use tw_core::time::Timestamp;
use tw_core::turn_status::{TurnReason, TurnStatus};

use super::blocks::StoredBlocks;
use super::events::lines::FlushReader;
use super::{blocks, events};
use crate::openai_chat::{self, FORMAT};

fn literal(inner: &str) -> Literal {
    Literal::checked(inner).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn call_id() -> CallId {
    CallId::parse("0194f2a0-0000-4000-8000-00000000abcd").unwrap()
}

fn fault(class: FaultClass) -> TurnFault {
    TurnFault {
        class,
        message: "a \"quoted\"\nline".to_owned(),
        code: Some("c".to_owned()),
        kind: None,
        param: Some("messages".to_owned()),
        retry_after_s: Some(7),
    }
}

fn native(json_text: &str) -> NativePart {
    NativePart {
        format: FORMAT,
        json: json(json_text),
    }
}

fn call_native() -> Box<CallNative> {
    let fields = |key: &str| vec![(Box::from(key), json("{\"s\":1.0}"))];
    Box::new(CallNative {
        beside: fields("extra\"content"),
        inside: fields("x"),
    })
}

fn part(json_text: &str) -> PartBlock {
    openai_chat::part(json(json_text))
}

pub(super) fn every_event() -> Vec<LogEvent> {
    let rest = DeltaRest {
        refusal: Some(literal("no")),
        reasoning: Some(ReasoningText {
            place: openai_chat::REASONING,
            text: literal(r"\ud83d"),
        }),
        logprobs: Some(json(r#"{"content":[]}"#)),
        beside: vec![("stop_reason".into(), json("7"))],
        extra: vec![("audio".into(), json(r#"{"id":12345678901234567890}"#))],
    };
    let call = CallRef {
        round: 2,
        position: 1,
    };
    let end = CallEnd {
        reason: Some(CallReason::OutcomeUnknown),
        result: Some("{\"a\": 1}\n".to_owned()),
        shown: "s".to_owned(),
        is_error: true,
        cached: false,
    };
    let usage = TokenUsage {
        prompt_tokens: 1,
        completion_tokens: 2,
        total_tokens: 3,
        native: Some(NativePart {
            format: FORMAT,
            json: json(r#"{"total_tokens":3,"x":1.50}"#),
        }),
        cached_tokens: Some(4),
        ..TokenUsage::default()
    };
    let turn_end = |fault| {
        LogEvent::End(Box::new(TurnEnd {
            status: TurnStatus::Failed,
            reason: Some(TurnReason::Upstream),
            fault,
            effects: vec![EffectRan {
                id: call_id(),
                name: "mail".into(),
                status: CallStatus::Completed,
            }],
            at: None,
        }))
    };
    vec![
        LogEvent::Start {
            model: "m\"x".to_owned(),
            created_s: -1,
        },
        LogEvent::Round {
            round: 1,
            format: FORMAT,
        },
        LogEvent::Delta(AnswerDelta {
            choice: 0,
            text: Some(literal(r"a\nb\u00e9")),
            rest: None,
        }),
        LogEvent::Delta(AnswerDelta {
            choice: 3,
            text: None,
            rest: Some(Box::new(rest)),
        }),
        LogEvent::Delta(AnswerDelta {
            choice: 0,
            text: None,
            rest: Some(Box::default()),
        }),
        LogEvent::ClientCall(CallDelta {
            choice: 0,
            call: 1,
            id: Some("call_1".into()),
            name: None,
            form: CallForm::Custom,
            arguments: Some(literal(r#"{\"a"#)),
            native: None,
        }),
        LogEvent::ClientCall(CallDelta {
            choice: 0,
            call: 2,
            id: None,
            name: None,
            form: CallForm::Function,
            arguments: None,
            native: Some(call_native()),
        }),
        LogEvent::Round {
            round: 2,
            format: FORMAT,
        },
        LogEvent::BlockEnd(Box::default()),
        LogEvent::BlockEnd(Box::new(BlockEnd {
            choice: 1,
            signature: Some(literal("c2ln")),
            native: Some(native(r#"{"type":"x"}"#)),
        })),
        LogEvent::Native {
            choice: 0,
            part: Box::new(native("[1.50]")),
        },
        LogEvent::Extra {
            key: "service_tier".into(),
            value: json("\"x\""),
        },
        LogEvent::Progress {
            key: "prompt_progress".into(),
            value: json(r#"{"total":20,"processed":10}"#),
        },
        LogEvent::CallStarted {
            call,
            id: call_id(),
            name: "mail".to_owned(),
            arguments: literal(r#"{\"to\":1}"#),
            approves: None,
        },
        LogEvent::CallEnded {
            call,
            id: call_id(),
            end: Box::new(end),
        },
        LogEvent::Finish {
            choice: 0,
            reason: Finish::ContentFilter,
        },
        LogEvent::Usage(Box::new(usage)),
        turn_end(None),
        turn_end(Some(fault(FaultClass::Refused { status: 422 }))),
        turn_end(Some(fault(FaultClass::UpstreamSilent))),
    ]
}

/// A call that is asked about, and one that acts on an answer.
pub fn approval_events() -> [LogEvent; 2] {
    let call = CallRef {
        round: 0,
        position: 3,
    };
    [
        LogEvent::ApprovalAsked {
            call,
            id: call_id(),
            name: "pay".to_owned(),
            arguments: literal(r#"{\"to\":1}"#),
        },
        LogEvent::CallStarted {
            call,
            id: call_id(),
            name: "pay".to_owned(),
            arguments: literal(""),
            approves: Some(call_id()),
        },
    ]
}

#[test]
fn events_come_back_as_they_were_each_on_its_own_line() {
    let mut all = every_event();
    all.extend(approval_events());
    all.push(LogEvent::End(Box::new(TurnEnd {
        status: TurnStatus::Completed,
        reason: None,
        fault: None,
        effects: Vec::new(),
        at: Some(Timestamp(1_790_000_000_000_001)),
    })));
    let text = events::encode(&all);
    assert_eq!(text.lines().count(), all.len());
    assert_eq!(events::decode(&text).unwrap(), all);
    assert_eq!(events::decode("").unwrap(), Vec::new());
}

#[test]
fn foreign_json_keeps_its_line_breaks() {
    let extra = LogEvent::Extra {
        key: "x".into(),
        value: json("{\n  \"a\": [\r\n1]\n}"),
    };
    let text = LogEvent::Delta(AnswerDelta {
        choice: 12,
        text: Some(literal("b")),
        rest: None,
    });
    let all = vec![extra.clone(), text.clone(), extra, text];
    assert_eq!(events::decode(&events::encode(&all)).unwrap(), all);
}

#[test]
fn what_is_passed_over_changes_nothing_of_the_rest() {
    let all = every_event();
    let flush = events::encode(&all);
    for passed in 0..=all.len() {
        let mut stored = FlushReader::new(&flush);
        for _ in 0..passed {
            stored.pass_over().unwrap().unwrap();
        }
        let rest: Result<Vec<LogEvent>, _> = stored.collect();
        assert_eq!(rest.unwrap(), all[passed..]);
    }
    let mut stored = FlushReader::new("");
    assert!(stored.pass_over().is_none() && stored.next().is_none());
}

#[test]
fn blocks_come_back_as_they_were() {
    let all = vec![
        Block::Text(literal(r"x\ud83d\ude00")),
        Block::Refusal(literal("no")),
        Block::Reasoning(ReasoningBlock::of(openai_chat::THINKING_PART, literal("t"))),
        Block::Reasoning(ReasoningBlock {
            signature: Some(literal("c2ln")),
            native: Some(native(r#"{"id":"rs_1"}"#)),
            ..ReasoningBlock::of(openai_chat::REASONING, literal(""))
        }),
        Block::Native(native(r#"{"reasoning_details":[1]}"#)),
        Block::Call(CallBlock {
            id: "call\"1".to_owned(),
            name: "f".to_owned(),
            form: CallForm::Function,
            arguments: literal("{}"),
            native: Some(call_native()),
        }),
        Block::Result(ResultBlock {
            call_id: "c".to_owned(),
            content: vec![
                Block::Text(literal("r")),
                Block::Part(part(
                    r#"{"type":"image_url","image_url":{"url":"https://x"}}"#,
                )),
            ],
            is_error: true,
        }),
        Block::Part(part(r#"{"type":"image_url"}"#)),
    ];
    let origin = AnswerOrigin {
        format: FORMAT,
        upstream: "up\"1".into(),
        model: "m".into(),
    };
    for origin in [None, Some(origin)] {
        let read = blocks::decode(&blocks::encode(&all, origin.as_ref())).unwrap();
        assert_eq!(read.blocks, all);
        assert_eq!(read.origin.as_deref(), origin.as_ref());
    }
    assert_eq!(blocks::decode("[]").unwrap(), StoredBlocks::default());
}

#[test]
fn a_damaged_record_is_an_error_and_no_panic() {
    for text in [
        "x",
        "[]",
        "[\"d\"]",
        "[\"nope\",1]",
        "[\"end\",\"completed\"]",
        "{}",
        "[\"d\",0,1]",
        "[\"d\",0,\"a\"][\"d\",0,\"b\"]\n",
        "[\"d\",,\"a\"]\n",
        "[\"d\",0,\"a\nb\"]\n",
        "[\"round\",1] [\"round\",2]\n",
        "[\"round\",1]\n\n",
    ] {
        assert!(events::decode(text).is_err(), "{text}");
    }
    for text in ["", "{}", "[{\"text\":1}]", "[{\"new\":\"x\"}]"] {
        assert!(blocks::decode(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_stored_is_written_as_it_always_was() {
    let mut all = every_event();
    all.push(LogEvent::Start {
        model: "a \"b\" \\ \n \u{1} \u{7f} \u{e9} \u{1f600}".to_owned(),
        created_s: -1,
    });
    insta::assert_snapshot!(events::encode(&all));
}
