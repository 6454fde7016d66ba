use tw_core::event::{LogEvent, TurnEnd};
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::TurnId;
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, CallDelta, CallForm, CallNative, DeltaRest, Finish, ReasoningText, TokenUsage,
};
use tw_core::native::{FormatName, NativePart};
use tw_core::turn_status::{TurnReason, TurnStatus};

use super::{ChunkOptions, ChunkWriter};
use crate::openai_chat::outcome::ChatDialect;
use crate::openai_chat::{FORMAT, REASONING};

const PLAIN: ChunkOptions = ChunkOptions {
    include_usage: false,
    dialect: ChatDialect::Tools,
};

fn turn() -> TurnId {
    TurnId::parse("0190aaaabbbb7ccc8dddeeeeffff0001").expect("a UUID")
}

fn start() -> [LogEvent; 2] {
    [
        LogEvent::Start {
            model: "m\"".to_owned(),
            created_s: 7,
        },
        LogEvent::Round {
            round: 1,
            format: FORMAT,
        },
    ]
}

fn text(text: &str) -> LogEvent {
    LogEvent::Delta(AnswerDelta {
        choice: 0,
        text: Some(Literal::from_text(text)),
        rest: None,
    })
}

fn piece(call: u32, id: Option<&str>, name: Option<&str>, arguments: Option<&str>) -> LogEvent {
    LogEvent::ClientCall(CallDelta {
        choice: 0,
        call,
        id: id.map(Into::into),
        name: name.map(Into::into),
        form: CallForm::Function,
        arguments: arguments.map(Literal::from_text),
        native: None,
    })
}

fn finish(reason: Finish) -> LogEvent {
    LogEvent::Finish { choice: 0, reason }
}

fn end(status: TurnStatus, reason: Option<TurnReason>, fault: Option<TurnFault>) -> LogEvent {
    LogEvent::End(Box::new(TurnEnd {
        status,
        reason,
        fault,
        effects: Vec::new(),
        at: None,
    }))
}

fn completed() -> LogEvent {
    end(TurnStatus::Completed, None, None)
}

/// The events written, without the fields that every chunk begins with.
fn written(options: ChunkOptions, events: &[LogEvent]) -> Vec<String> {
    let mut writer = ChunkWriter::new(turn(), options);
    let mut out = Vec::new();
    start()
        .iter()
        .chain(events)
        .for_each(|event| writer.push(event, &mut out));
    let out = String::from_utf8(out).expect("UTF-8");
    let head = concat!(
        r#"{"id":"chatcmpl-0190aaaabbbb7ccc8dddeeeeffff0001","object":"chat.completion.chunk","#,
        r#""created":7,"model":"m\"","#
    );
    let events = out
        .strip_suffix("\n\n")
        .expect("the last event is whole")
        .split("\n\n");
    events
        .map(|event| event.strip_prefix("data: ").expect("one data line"))
        .map(|data| data.strip_prefix(head).unwrap_or(data).to_owned())
        .collect()
}

const ROLE: &str =
    r#""choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;

fn delta(inside: &str) -> String {
    format!(r#""choices":[{{"index":0,"delta":{{{inside}}},"finish_reason":null}}]}}"#)
}

fn last(word: &str) -> String {
    format!(r#""choices":[{{"index":0,"delta":{{}},"finish_reason":"{word}"}}]}}"#)
}

#[test]
fn text_comes_between_one_role_and_one_finish() {
    let events = [text("a\n"), text("b"), finish(Finish::Stop), completed()];
    assert_eq!(
        written(PLAIN, &events),
        [
            ROLE,
            &delta(r#""content":"a\n""#),
            &delta(r#""content":"b""#),
            &last("stop"),
            "[DONE]"
        ]
    );
}

#[test]
fn an_empty_answer_has_a_role_and_a_finish_too() {
    assert_eq!(
        written(PLAIN, &[finish(Finish::Stop), completed()]),
        [ROLE, &last("stop"), "[DONE]"]
    );
}

#[test]
fn texts_of_two_rounds_are_kept_apart_by_a_blank_line() {
    let events = [
        text("a"),
        LogEvent::Round {
            round: 2,
            format: FORMAT,
        },
        LogEvent::Round {
            round: 3,
            format: FORMAT,
        },
        text("b"),
        text("c"),
        finish(Finish::Stop),
        completed(),
    ];
    assert_eq!(
        written(PLAIN, &events),
        [
            ROLE,
            &delta(r#""content":"a""#),
            &delta(r#""content":"\n\nb""#),
            &delta(r#""content":"c""#),
            &last("stop"),
            "[DONE]"
        ]
    );
}

#[test]
fn client_calls_are_numbered_from_0_and_have_an_id() {
    let events = [
        piece(2, Some("a"), Some("f"), None),
        piece(2, None, None, Some("{\"x\":1}")),
        piece(4, None, Some("g"), Some("{}")),
        piece(5, Some("a"), Some("h"), None),
        finish(Finish::ToolCalls),
        completed(),
    ];
    let minted = "call_0190aaaabbbb7ccc8dddeeeeffff0001_1_";
    let second = format!(
        r#""tool_calls":[{{"index":1,"id":"{minted}1","type":"function","function":{{"name":"g","arguments":"{{}}"}}}}]"#
    );
    let third = format!(
        r#""tool_calls":[{{"index":2,"id":"{minted}2","type":"function","function":{{"name":"h","arguments":""}}}}]"#
    );
    assert_eq!(
        written(PLAIN, &events),
        [
            ROLE,
            &delta(
                r#""tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#
            ),
            &delta(r#""tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]"#),
            &delta(&second),
            &delta(&third),
            &last("tool_calls"),
            "[DONE]"
        ]
    );
}

#[test]
fn the_old_form_has_one_function_call() {
    let options = ChunkOptions {
        include_usage: false,
        dialect: ChatDialect::Functions,
    };
    let events = [
        piece(0, None, Some("f"), None),
        piece(0, None, None, Some("{}")),
        piece(1, None, Some("g"), None),
        finish(Finish::ToolCalls),
        completed(),
    ];
    assert_eq!(
        written(options, &events),
        [
            ROLE,
            &delta(r#""function_call":{"name":"f","arguments":""}"#),
            &delta(r#""function_call":{"arguments":"{}"}"#),
            &last("function_call"),
            "[DONE]"
        ]
    );
}

#[test]
fn usage_comes_last_if_it_was_asked_for() {
    let options = ChunkOptions {
        include_usage: true,
        dialect: ChatDialect::Tools,
    };
    let usage = LogEvent::Usage(Box::new(TokenUsage {
        prompt_tokens: 1,
        completion_tokens: 2,
        total_tokens: 3,
        native: Some(NativePart {
            format: FORMAT,
            json: Json::parse("{\n\"prompt_tokens\": 1}").expect("JSON"),
        }),
        ..TokenUsage::default()
    }));
    let events = [
        finish(Finish::Length),
        usage,
        end(TurnStatus::Incomplete, Some(TurnReason::Rounds), None),
    ];
    let with_null = |chunk: &str| {
        format!(
            "{},\"usage\":null}}",
            chunk.strip_suffix('}').expect("a chunk")
        )
    };
    assert_eq!(
        written(options, &events),
        [
            &with_null(ROLE),
            &with_null(&last("length")),
            r#""choices":[],"usage":{ "prompt_tokens": 1}}"#,
            "[DONE]"
        ]
    );
    assert_eq!(written(PLAIN, &events), [ROLE, &last("length"), "[DONE]"]);
}

#[test]
fn the_rest_of_a_delta_goes_on() {
    let json = |text: &str| Json::parse(text).expect("JSON");
    let rest = DeltaRest {
        refusal: Some(Literal::from_text("no")),
        reasoning: Some(ReasoningText {
            place: REASONING,
            text: Literal::from_text("hm"),
        }),
        logprobs: Some(json(r#"{"content":[]}"#)),
        beside: Vec::new(),
        extra: vec![
            ("reasoning_details".into(), json(r#"[{"a":1}]"#)),
            ("channel".into(), json("\"x\"")),
        ],
    };
    let events = [
        LogEvent::Extra {
            key: "service_tier".into(),
            value: json("\"default\""),
        },
        LogEvent::Delta(AnswerDelta {
            choice: 0,
            text: None,
            rest: Some(Box::new(rest)),
        }),
        finish(Finish::ContentFilter),
        completed(),
    ];
    let first = format!(r#""service_tier":"default",{ROLE}"#);
    let second = concat!(
        r#""choices":[{"index":0,"delta":{"refusal":"no","reasoning_content":"hm","reasoning_details":[{"a":1}],"#,
        r#""channel":"x"},"logprobs":{"content":[]},"finish_reason":null}]}"#
    );
    assert_eq!(
        written(PLAIN, &events),
        [&first, second, &last("content_filter"), "[DONE]"]
    );
}

#[test]
fn a_failure_is_an_error_without_a_finish() {
    let fault = TurnFault::new(FaultClass::UpstreamSilent, "the model was silent for 60 s");
    let rows = [
        (
            end(TurnStatus::Failed, Some(TurnReason::Upstream), Some(fault)),
            r#"{"error":{"message":"the model was silent for 60 s","type":"upstream_error","param":null,"code":"upstream_timeout"}}"#,
        ),
        (
            end(TurnStatus::Incomplete, Some(TurnReason::Interrupted), None),
            r#"{"error":{"message":"the answer was cut by a restart of the server","type":"server_error","param":null,"code":"interrupted"}}"#,
        ),
        (
            end(TurnStatus::Cancelled, Some(TurnReason::Requested), None),
            r#"{"error":{"message":"the turn was stopped","type":"conflict_error","param":null,"code":"cancelled"}}"#,
        ),
    ];
    for (end, error) in rows {
        assert_eq!(
            written(PLAIN, &[text("a"), end]),
            [ROLE, &delta(r#""content":"a""#), error]
        );
    }
}

/// A piece of a call with fields that only one format knows.
fn native_piece() -> LogEvent {
    let field = |key: &str| vec![(Box::from(key), Json::parse("[1]").expect("JSON"))];
    LogEvent::ClientCall(CallDelta {
        choice: 0,
        call: 0,
        id: Some("a".into()),
        name: Some("f".into()),
        form: CallForm::Function,
        arguments: Some(Literal::from_text("{}")),
        native: Some(Box::new(CallNative {
            beside: field("extra_content"),
            inside: field("x"),
        })),
    })
}

#[test]
fn what_only_its_format_knows_goes_to_clients_of_that_format() {
    let extra = LogEvent::Delta(AnswerDelta {
        rest: Some(Box::new(DeltaRest {
            extra: vec![("images".into(), Json::parse("[2]").expect("JSON"))],
            ..DeltaRest::default()
        })),
        ..AnswerDelta::default()
    });
    let other = LogEvent::Round {
        round: 1,
        format: FormatName::new("other"),
    };
    let call = |inside: &str, beside: &str| {
        delta(&format!(
            r#""tool_calls":[{{"index":0,"id":"a","type":"function","function":{{"name":"f","arguments":"{{}}"{inside}}}{beside}}}]"#
        ))
    };
    assert_eq!(
        written(PLAIN, &[native_piece(), extra.clone()]),
        [
            ROLE,
            &call(r#","x":[1]"#, r#","extra_content":[1]"#),
            &delta(r#""images":[2]"#)
        ]
    );
    assert_eq!(
        written(PLAIN, &[other, native_piece(), extra]),
        [ROLE, &call("", ""), &delta("")]
    );
}
