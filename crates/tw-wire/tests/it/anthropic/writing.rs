//! Turns as clients of Messages are told them.

use serde_json::{Value, json};
use tw_core::call::CallEnd;
use tw_core::event::LogEvent;
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::{CallId, CallRef};
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, DeltaRest, Finish, ReasoningText, TokenUsage,
};
use tw_core::native::{FormatName, NativePart};
use tw_core::turn_status::TurnStatus;
use tw_wire::anthropic_messages::error;
use tw_wire::anthropic_messages::events::RanCalls;
use tw_wire::anthropic_messages::{FORMAT, THINKING};
use tw_wire::client_error::{ClientError, ErrorKind};
use tw_wire::openai_chat;

use super::log::{body_of, end, start, stream_of};

const CHAT: FormatName = openai_chat::FORMAT;

fn round(round: u32, format: FormatName) -> LogEvent {
    LogEvent::Round { round, format }
}

fn text(text: &str) -> LogEvent {
    LogEvent::Delta(AnswerDelta {
        choice: 0,
        text: Some(Literal::from_text(text)),
        rest: None,
    })
}

fn rest(rest: DeltaRest) -> LogEvent {
    LogEvent::Delta(AnswerDelta {
        choice: 0,
        text: None,
        rest: Some(Box::new(rest)),
    })
}

fn thought(text: &str, place: tw_core::native::NativeLabel) -> LogEvent {
    rest(DeltaRest {
        reasoning: Some(ReasoningText {
            place,
            text: Literal::from_text(text),
        }),
        ..DeltaRest::default()
    })
}

fn signed(signature: &str) -> LogEvent {
    LogEvent::BlockEnd(Box::new(BlockEnd {
        choice: 0,
        signature: Some(Literal::from_text(signature)),
        native: None,
    }))
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

fn custom(call: u32, name: Option<&str>, input: &str) -> LogEvent {
    LogEvent::ClientCall(CallDelta {
        choice: 0,
        call,
        id: name.map(|_| "c".into()),
        name: name.map(Into::into),
        form: CallForm::Custom,
        arguments: Some(Literal::from_text(input)),
        native: None,
    })
}

fn finish(reason: Finish) -> LogEvent {
    LogEvent::Finish { choice: 0, reason }
}

fn completed() -> LogEvent {
    end(TurnStatus::Completed, None)
}

const OURS: &str = "0190aaaabbbb7ccc8dddeeeeffff0009";

fn our_call() -> [LogEvent; 2] {
    let id = CallId::parse(OURS).expect("a UUID");
    let call = CallRef {
        round: 1,
        position: 0,
    };
    [
        LogEvent::CallStarted {
            call,
            id,
            name: "time_now".to_owned(),
            arguments: Literal::from_text(r#"{"a": 1}"#),
            approves: None,
        },
        LogEvent::CallEnded {
            call,
            id,
            end: Box::new(CallEnd {
                reason: None,
                result: None,
                shown: "noon".to_owned(),
                is_error: false,
                cached: false,
            }),
        },
    ]
}

fn log(events: &[LogEvent]) -> Vec<LogEvent> {
    std::iter::once(start())
        .chain(events.iter().cloned())
        .collect()
}

/// Each event in short: its kind, with what it says.
fn short(stream: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(stream).expect("UTF-8");
    let events = text.strip_suffix("\n\n").expect("the last event is whole");
    let told = events.split("\n\n").map(|event| {
        let (name, data) = event.split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("a name");
        let data = data.strip_prefix("data: ").expect("one data line");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(data["type"], name);
        let index = &data["index"];
        match name {
            "content_block_start" => format!("{index} {}", data["content_block"]),
            "content_block_delta" => {
                let mut delta = data["delta"].clone();
                let fields = delta.as_object_mut().expect("an object");
                fields.remove("type");
                format!("{index} + {delta}")
            }
            "content_block_stop" => format!("{index} ."),
            "message_delta" => data["delta"]["stop_reason"].to_string(),
            "message_start" => "start".to_owned(),
            "message_stop" => "stop".to_owned(),
            "error" => data["error"].to_string(),
            other => panic!("{other}"),
        }
    });
    told.collect()
}

#[test]
fn turns_are_told_as_one_message() {
    let rows: Vec<(&str, Vec<LogEvent>, &[&str])> = vec![
        (
            "rounds and kinds have blocks of their own",
            vec![
                round(1, CHAT),
                thought("hm", openai_chat::REASONING_CONTENT),
                text("a"),
                text("b"),
                round(2, CHAT),
                text("c"),
                finish(Finish::Stop),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"thinking","thinking":"","signature":""}"#,
                r#"0 + {"thinking":"hm"}"#,
                "0 .",
                r#"1 {"type":"text","text":""}"#,
                r#"1 + {"text":"a"}"#,
                r#"1 + {"text":"b"}"#,
                "1 .",
                r#"2 {"type":"text","text":""}"#,
                r#"2 + {"text":"c"}"#,
                "2 .",
                "\"end_turn\"",
                "stop",
            ],
        ),
        (
            "a thought and its signature",
            vec![
                round(1, FORMAT),
                thought("", THINKING),
                signed("s"),
                finish(Finish::Length),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"thinking","thinking":"","signature":""}"#,
                r#"0 + {"signature":"s"}"#,
                "0 .",
                "\"max_tokens\"",
                "stop",
            ],
        ),
        (
            "what only another format knows is left out",
            vec![
                round(1, CHAT),
                thought("", openai_chat::REASONING_CONTENT),
                thought("hm", openai_chat::REASONING_CONTENT),
                signed("foreign"),
                LogEvent::Native {
                    choice: 0,
                    part: Box::new(NativePart {
                        format: CHAT,
                        json: Json::of_read("{}"),
                    }),
                },
                LogEvent::Extra {
                    key: "service_tier".into(),
                    value: Json::of_read("1"),
                },
                finish(Finish::Stop),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"thinking","thinking":"","signature":""}"#,
                r#"0 + {"thinking":"hm"}"#,
                "0 .",
                "\"end_turn\"",
                "stop",
            ],
        ),
        (
            "calls whose pieces are mixed come one after the other",
            vec![
                round(1, CHAT),
                piece(0, Some("a"), Some("f"), None),
                piece(1, Some("b"), Some("g"), Some(r#"{"y""#)),
                piece(0, None, None, Some(r#"{"x":"}"#)),
                piece(1, None, None, Some(":2}")),
                piece(0, None, None, Some(r#"{"}"#)),
                finish(Finish::ToolCalls),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"tool_use","id":"a","name":"f","input":{}}"#,
                r#"0 + {"partial_json":"{\"x\":\"}"}"#,
                r#"0 + {"partial_json":"{\"}"}"#,
                "0 .",
                r#"1 {"type":"tool_use","id":"b","name":"g","input":{}}"#,
                r#"1 + {"partial_json":"{\"y\":2}"}"#,
                "1 .",
                "\"tool_use\"",
                "stop",
            ],
        ),
        (
            "a call without arguments or an id",
            vec![
                round(1, CHAT),
                piece(0, None, Some("f"), None),
                finish(Finish::Stop),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"tool_use","id":"call_0190aaaabbbb7ccc8dddeeeeffff0001_1_0","name":"f","input":{}}"#,
                "0 .",
                "\"tool_use\"",
                "stop",
            ],
        ),
        (
            "an input is an object, also that of a custom tool and one that is none",
            vec![
                round(1, CHAT),
                custom(0, Some("sql"), "say \"a"),
                custom(0, None, "\u{1F600}\n\""),
                piece(1, Some("f"), Some("f"), Some("")),
                piece(1, None, None, Some(" ")),
                piece(1, None, None, Some("[1")),
                piece(1, None, None, Some(",\"x\"]")),
                piece(2, Some("g"), Some("g"), Some(" ")),
                piece(2, None, None, Some("{}")),
                finish(Finish::ToolCalls),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"tool_use","id":"c","name":"sql","input":{}}"#,
                r#"0 + {"partial_json":"{\"input\":\""}"#,
                r#"0 + {"partial_json":"say \\\"a"}"#,
                r#"0 + {"partial_json":"😀\\n\\\""}"#,
                r#"0 + {"partial_json":"\"}"}"#,
                "0 .",
                r#"1 {"type":"tool_use","id":"f","name":"f","input":{}}"#,
                r#"1 + {"partial_json":"{\"invalid_arguments\":\""}"#,
                r#"1 + {"partial_json":" [1,\\\"x\\\"]"}"#,
                r#"1 + {"partial_json":"\"}"}"#,
                "1 .",
                r#"2 {"type":"tool_use","id":"g","name":"g","input":{}}"#,
                r#"2 + {"partial_json":" {}"}"#,
                "2 .",
                "\"tool_use\"",
                "stop",
            ],
        ),
        (
            "a block that only this format knows, with its input as it is streamed",
            vec![
                round(1, FORMAT),
                text("a"),
                LogEvent::Native {
                    choice: 0,
                    part: Box::new(NativePart {
                        format: FORMAT,
                        json: Json::of_read(
                            r#"{"type":"server_tool_use","id":"s","name":"w","input":{"q": 2}}"#,
                        ),
                    }),
                },
                finish(Finish::Pause),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"text","text":""}"#,
                r#"0 + {"text":"a"}"#,
                "0 .",
                r#"1 {"type":"server_tool_use","id":"s","name":"w","input":{}}"#,
                r#"1 + {"partial_json":"{\"q\": 2}"}"#,
                "1 .",
                "\"pause_turn\"",
                "stop",
            ],
        ),
        (
            "a refusal is text, and the reason says what it is",
            vec![
                round(1, CHAT),
                rest(DeltaRest {
                    refusal: Some(Literal::from_text("no")),
                    ..DeltaRest::default()
                }),
                finish(Finish::Stop),
                completed(),
            ],
            &[
                "start",
                r#"0 {"type":"text","text":""}"#,
                r#"0 + {"text":"no"}"#,
                "0 .",
                "\"refusal\"",
                "stop",
            ],
        ),
        (
            "an answer of nothing",
            vec![round(1, CHAT), finish(Finish::Stop), completed()],
            &["start", "\"end_turn\"", "stop"],
        ),
        (
            "a failure ends with its error",
            vec![
                round(1, CHAT),
                text("a"),
                end(
                    TurnStatus::Failed,
                    Some(TurnFault::new(FaultClass::UpstreamSilent, "silent")),
                ),
            ],
            &[
                "start",
                r#"0 {"type":"text","text":""}"#,
                r#"0 + {"text":"a"}"#,
                r#"{"type":"timeout_error","message":"silent"}"#,
            ],
        ),
    ];
    for (what, events, expected) in rows {
        let written = short(&stream_of(&log(&events), RanCalls::Shown));
        assert_eq!(written, expected, "{what}");
    }
}

#[test]
fn calls_that_the_server_ran_are_shown_or_hidden() {
    let [started, ended] = our_call();
    let events = log(&[
        round(1, CHAT),
        text("a"),
        started,
        ended,
        round(2, CHAT),
        text("b"),
        finish(Finish::Stop),
        completed(),
    ]);
    let block = |text: &str| json!({"type": "text", "text": text});
    let call = json!({
        "type": "mcp_tool_use",
        "id": format!("mcptoolu_{OURS}"),
        "name": "time_now",
        "server_name": "turnwright",
        "input": {"a": 1},
    });
    let result = json!({
        "type": "mcp_tool_result",
        "tool_use_id": format!("mcptoolu_{OURS}"),
        "is_error": false,
        "content": [{"type": "text", "text": "noon"}],
    });
    let content = |ran| {
        let body: Value = serde_json::from_slice(&body_of(&events, ran)).expect("JSON");
        body["content"].clone()
    };
    assert_eq!(
        content(RanCalls::Shown),
        json!([block("a"), call, result, block("b")])
    );
    assert_eq!(content(RanCalls::Hidden), json!([block("a"), block("b")]));
    let streamed = short(&stream_of(&events, RanCalls::Shown));
    assert_eq!(streamed[4], format!("1 {call}"));
    assert_eq!(streamed[6], format!("2 {result}"));
}

#[test]
fn the_whole_message_has_every_field() {
    let usage = LogEvent::Usage(Box::new(TokenUsage {
        prompt_tokens: 20,
        completion_tokens: 3,
        total_tokens: 23,
        cached_tokens: Some(4),
        cache_write_tokens: Some(1),
        reasoning_tokens: Some(2),
        native: None,
    }));
    let events = log(&[
        round(1, FORMAT),
        thought("hm", THINKING),
        signed("s"),
        text("a"),
        piece(0, Some("x"), Some("f"), Some(r#"{"b":1,"a":2}"#)),
        piece(1, Some("y"), Some("g"), None),
        LogEvent::Extra {
            key: "stop_sequence".into(),
            value: Json::of_read("\"END\""),
        },
        finish(Finish::ToolCalls),
        usage,
        completed(),
    ]);
    let body = body_of(&events, RanCalls::Shown);
    assert_eq!(
        String::from_utf8(body).expect("UTF-8"),
        concat!(
            r#"{"id":"msg_0190aaaabbbb7ccc8dddeeeeffff0001","type":"message","role":"assistant","model":"m","#,
            r#""content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"},"#,
            r#"{"type":"tool_use","id":"x","name":"f","input":{"b":1,"a":2}},"#,
            r#"{"type":"tool_use","id":"y","name":"g","input":{}}],"#,
            r#""stop_reason":"tool_use","stop_sequence":"END","#,
            r#""usage":{"input_tokens":15,"cache_creation_input_tokens":1,"cache_read_input_tokens":4,"output_tokens":3,"#,
            r#""output_tokens_details":{"thinking_tokens":2}}}"#
        )
    );
}

#[test]
fn errors_have_a_word_of_the_format() {
    use ErrorKind::{
        Invalid, Limited, NotFound, Overloaded, Refused, TooLarge, Unauthenticated, UpstreamFailed,
        UpstreamReported, UpstreamSilent,
    };
    let rows = [
        (Invalid, None, "invalid_request_error"),
        (Unauthenticated, None, "authentication_error"),
        (NotFound, None, "not_found_error"),
        (TooLarge, None, "request_too_large"),
        (Limited, None, "rate_limit_error"),
        (Overloaded, None, "overloaded_error"),
        (UpstreamFailed, None, "api_error"),
        (
            UpstreamReported,
            Some("overloaded_error"),
            "overloaded_error",
        ),
        (UpstreamReported, Some("server_error"), "api_error"),
        (UpstreamSilent, None, "timeout_error"),
        (Refused { status: 413 }, None, "request_too_large"),
        (Refused { status: 422 }, None, "invalid_request_error"),
    ];
    for (kind, upstream_kind, word) in rows {
        let error = ClientError {
            upstream_kind: upstream_kind.map(str::to_owned),
            ..ClientError::new(kind, None, "m\"")
        };
        let expected = format!(
            r#"{{"type":"error","error":{{"type":"{word}","message":"m\""}},"request_id":"r"}}"#
        );
        let rendered = error::render(&error, Some("r"));
        assert_eq!(String::from_utf8(rendered).expect("UTF-8"), expected);
    }
}
