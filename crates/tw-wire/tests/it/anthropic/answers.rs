//! Answers of upstreams, event by event, hostile ones among them.

use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, BlockEnd, CallDelta, CallForm, CallNative, DeltaRest, Finish, ModelEvent,
    ReasoningText,
};
use tw_core::native::NativePart;
use tw_wire::anthropic_messages::stream::MessageDecoder;
use tw_wire::anthropic_messages::{FORMAT, THINKING, body};
use tw_wire::upstream_answer::{DecodeError, StreamLimits};

use super::log::{body_events, events};

fn literal(text: &str) -> Literal {
    Literal::checked(text).expect("the inside of a literal")
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

fn said(text: &str) -> ModelEvent {
    ModelEvent::Delta(AnswerDelta {
        choice: 0,
        text: Some(literal(text)),
        rest: None,
    })
}

fn thought(text: &str) -> ModelEvent {
    let reasoning = Some(ReasoningText {
        place: THINKING,
        text: literal(text),
    });
    ModelEvent::Delta(AnswerDelta {
        choice: 0,
        text: None,
        rest: Some(Box::new(DeltaRest {
            reasoning,
            ..DeltaRest::default()
        })),
    })
}

fn ended(signature: Option<&str>, native: Option<&str>) -> ModelEvent {
    ModelEvent::BlockEnd(Box::new(BlockEnd {
        choice: 0,
        signature: signature.map(literal),
        native: native.map(part),
    }))
}

fn part(text: &str) -> NativePart {
    NativePart {
        format: FORMAT,
        json: json(text),
    }
}

fn native(text: &str) -> ModelEvent {
    ModelEvent::Native {
        choice: 0,
        part: Box::new(part(text)),
    }
}

fn piece(call: u32, named: Option<(&str, &str)>, arguments: Option<&str>) -> ModelEvent {
    ModelEvent::Call(CallDelta {
        choice: 0,
        call,
        id: named.map(|(id, _)| id.into()),
        name: named.map(|(_, name)| name.into()),
        form: CallForm::Function,
        arguments: arguments.map(literal),
        native: None,
    })
}

fn finish(reason: Finish) -> ModelEvent {
    ModelEvent::Finish { choice: 0, reason }
}

/// Events of a stream, each of which is the JSON of its data.
fn stream(data: &[&str]) -> Vec<u8> {
    let events = data.iter().map(|data| {
        let value: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
        format!(
            "event: {}\ndata: {data}\n\n",
            value["type"].as_str().unwrap_or_default()
        )
    });
    events.collect::<String>().into_bytes()
}

fn begin(index: u32, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn more(index: u32, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn stop(index: u32) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

const LAST: &str = r#"{"type":"message_stop"}"#;

fn read(data: &[String]) -> Vec<ModelEvent> {
    let data: Vec<&str> = data.iter().map(String::as_str).chain([LAST]).collect();
    let mut read = events([stream(&data).as_slice()]);
    assert_eq!(read.pop(), Some(ModelEvent::Done));
    read
}

#[test]
fn blocks_become_events_in_their_order() {
    let text = |text: &str| format!(r#"{{"type":"text_delta","text":"{text}"}}"#);
    let rows: Vec<(&str, Vec<String>, Vec<ModelEvent>)> = vec![
        (
            "two texts",
            vec![
                begin(0, r#"{"type":"text","text":"a"}"#),
                more(0, &text("b")),
                stop(0),
                begin(1, r#"{"type":"text","text":""}"#),
                more(1, &text("c")),
                stop(1),
            ],
            vec![
                said("a"),
                said("b"),
                ended(None, None),
                said("c"),
                ended(None, None),
            ],
        ),
        (
            "an empty text says nothing",
            vec![begin(0, r#"{"type":"text","text":""}"#), stop(0)],
            vec![],
        ),
        (
            "halves of a character, and one that stays alone",
            vec![
                begin(0, r#"{"type":"text","text":""}"#),
                more(0, &text(r"a\ud83d")),
                more(0, &text(r"\ude00b\ud83d")),
                stop(0),
            ],
            vec![
                said("a"),
                said(r"\ud83d\ude00b"),
                said(r"\ufffd"),
                ended(None, None),
            ],
        ),
        (
            "a thought with its signature, in pieces",
            vec![
                begin(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
                more(0, r#"{"type":"thinking_delta","thinking":"hm"}"#),
                more(0, r#"{"type":"signature_delta","signature":"ab"}"#),
                more(0, r#"{"type":"signature_delta","signature":"c"}"#),
                stop(0),
            ],
            vec![thought("hm"), ended(Some("abc"), None)],
        ),
        (
            "a thought that is not shown",
            vec![
                begin(0, r#"{"type":"thinking","thinking":"","signature":"s"}"#),
                stop(0),
            ],
            vec![thought(""), ended(Some("s"), None)],
        ),
        (
            "a redacted thought",
            vec![
                begin(0, r#"{"type":"redacted_thinking","data":"x"}"#),
                stop(0),
            ],
            vec![native(r#"{"type":"redacted_thinking","data":"x"}"#)],
        ),
        (
            "citations go with their text",
            vec![
                begin(0, r#"{"type":"text","text":"","citations":[]}"#),
                more(0, r#"{"type":"citations_delta","citation":{"a":1}}"#),
                more(0, &text("t")),
                more(0, r#"{"type":"citations_delta","citation":{"b":2}}"#),
                stop(0),
            ],
            vec![
                said("t"),
                ended(None, Some(r#"{"citations":[{"a":1},{"b":2}]}"#)),
            ],
        ),
        (
            "calls are numbered, whatever stands between them",
            vec![
                begin(0, r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#),
                more(0, r#"{"type":"input_json_delta","partial_json":""}"#),
                more(0, r#"{"type":"input_json_delta","partial_json":"{\"x\":"}"#),
                more(0, r#"{"type":"input_json_delta","partial_json":"1}"}"#),
                stop(0),
                begin(2, r#"{"type":"text","text":"t"}"#),
                stop(2),
                begin(3, r#"{"type":"tool_use","id":"b","name":"g","input":{}}"#),
                stop(3),
            ],
            vec![
                piece(0, Some(("a", "f")), None),
                piece(0, None, Some(r#"{\"x\":"#)),
                piece(0, None, Some("1}")),
                said("t"),
                ended(None, None),
                piece(1, Some(("b", "g")), None),
            ],
        ),
        (
            "an input that stands in the first event counts where no pieces come",
            vec![
                begin(
                    0,
                    r#"{"type":"tool_use","id":"a","name":"f","input":{"x":1}}"#,
                ),
                stop(0),
                begin(
                    1,
                    r#"{"type":"tool_use","id":"b","name":"f","input":{"x":1}}"#,
                ),
                more(1, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
                stop(1),
                begin(2, r#"{"type":"tool_use","id":"c","name":"f","input":"{}"}"#),
                stop(2),
            ],
            vec![
                piece(0, Some(("a", "f")), None),
                piece(0, None, Some(r#"{\"x\":1}"#)),
                piece(1, Some(("b", "f")), None),
                piece(1, None, Some("{}")),
                piece(2, Some(("c", "f")), None),
                piece(2, None, Some("{}")),
            ],
        ),
        (
            "a tool of the provider, whole",
            vec![
                begin(
                    0,
                    r#"{"type":"server_tool_use","id":"s","name":"w","input":{}}"#,
                ),
                more(0, r#"{"type":"input_json_delta","partial_json":"{\"q\""}"#),
                more(0, r#"{"type":"input_json_delta","partial_json":":2}"}"#),
                stop(0),
                begin(
                    1,
                    r#"{"type":"web_search_tool_result","content":[{"a": 1}]}"#,
                ),
                stop(1),
            ],
            vec![
                native(r#"{"type":"server_tool_use","id":"s","name":"w","input":{"q":2}}"#),
                native(r#"{"type":"web_search_tool_result","content":[{"a": 1}]}"#),
            ],
        ),
        (
            "blocks that nobody began or ended",
            vec![
                more(0, &text("a")),
                more(1, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
                more(2, r#"{"type":"thinking_delta","thinking":"t"}"#),
            ],
            vec![
                said("a"),
                thought("t"),
                ended(None, None),
                ended(None, None),
            ],
        ),
        (
            "what is not known is passed over",
            vec![
                r#"{"type":"new_event","x":1}"#.to_owned(),
                r#"{"type":"ping"}"#.to_owned(),
                begin(0, r#"{"type":"text","text":"a"}"#),
                more(0, r#"{"type":"new_delta","x":1}"#),
                more(0, "7"),
                stop(0),
                stop(9),
            ],
            vec![said("a"), ended(None, None)],
        ),
    ];
    for (what, data, expected) in rows {
        assert_eq!(read(&data), expected, "{what}");
    }
}

#[test]
fn fields_of_a_call_go_with_it() {
    let block = r#"{"type":"tool_use","id":"a","name":"f","input":{},"caller":{"type":"direct"}}"#;
    let mut expected = piece(0, Some(("a", "f")), None);
    let ModelEvent::Call(call) = &mut expected else {
        panic!("a call")
    };
    call.native = Some(Box::new(CallNative {
        beside: vec![("caller".into(), json(r#"{"type":"direct"}"#))],
        inside: Vec::new(),
    }));
    assert_eq!(read(&[begin(0, block), stop(0)]), [expected]);
}

#[test]
fn stop_reasons_are_finishes() {
    let rows = [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::StopSequence),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("tool_use", Finish::ToolCalls),
        ("pause_turn", Finish::Pause),
        ("refusal", Finish::Refusal),
        ("content_filter", Finish::ContentFilter),
        ("something_new", Finish::Stop),
    ];
    for (word, reason) in rows {
        let data = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}"}}}}"#);
        assert_eq!(read(&[data]), [finish(reason)], "{word}");
    }
}

#[test]
fn usage_is_told_as_it_grows() {
    let data = [
        r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"output_tokens":30,"output_tokens_details":{"thinking_tokens":8}}}"#,
        LAST,
    ];
    let read = events([stream(&data).as_slice()]);
    let usages = read.iter().filter_map(|event| match event {
        ModelEvent::Usage(usage) => Some(usage),
        _ => None,
    });
    let [first, last] = usages.collect::<Vec<_>>()[..] else {
        panic!("{read:?}")
    };
    assert_eq!((first.prompt_tokens, first.completion_tokens), (17, 1));
    assert_eq!((last.prompt_tokens, last.completion_tokens), (17, 30));
    assert_eq!(last.total_tokens, 47);
    assert_eq!(last.cached_tokens, Some(5));
    assert_eq!(last.cache_write_tokens, Some(2));
    assert_eq!(last.reasoning_tokens, Some(8));
    let native = last.native.as_ref().expect("the upstream's own");
    assert_eq!(native.format, FORMAT);
    assert_eq!(
        native.json.as_str(),
        r#"{"input_tokens":10,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":30,"output_tokens_details":{"thinking_tokens":8}}"#
    );
}

#[test]
fn fields_beside_the_content_go_on_once() {
    let read = read(&[
        r#"{"type":"message_start","message":{"id":"x","model":"m","content":[],"stop_reason":null,"container":{"id":"c"}}}"#.to_owned(),
        r#"{"type":"message_delta","delta":{"stop_reason":"stop_sequence","stop_sequence":"END","container":{"id":"c"}},"context_management":{"a":1}}"#.to_owned(),
    ]);
    let extra = |key: &str, value: &str| ModelEvent::Extra {
        key: key.into(),
        value: json(value),
    };
    assert_eq!(
        read,
        [
            ModelEvent::Start {
                model: Some("m".to_owned()),
                created_s: None
            },
            extra("container", r#"{"id":"c"}"#),
            extra("stop_sequence", "\"END\""),
            extra("context_management", r#"{"a":1}"#),
            finish(Finish::StopSequence),
        ]
    );
}

#[test]
fn an_error_inside_a_stream_has_its_kind_and_status() {
    let rows = [
        (
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
            "Overloaded",
            Some("overloaded_error"),
            Some(529),
        ),
        (
            "data: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}\n\n",
            "slow",
            Some("rate_limit_error"),
            Some(429),
        ),
        (
            "data: {\"error\":{\"message\":\"m\",\"code\":503}}\n\n",
            "m",
            None,
            Some(503),
        ),
        ("data: {\"detail\":\"gone\"}\n\n", "gone", None, None),
        ("event: error\ndata: busy\n\n", "busy", None, None),
    ];
    for (bytes, message, kind, status) in rows {
        let read = events([bytes.as_bytes()]);
        let [ModelEvent::Error(error)] = read.as_slice() else {
            panic!("{bytes}: {read:?}")
        };
        assert_eq!(error.message, message, "{bytes}");
        assert_eq!(error.kind.as_deref(), kind, "{bytes}");
        assert_eq!(error.status, status, "{bytes}");
    }
}

#[test]
fn an_end_mark_alone_is_no_answer() {
    for bytes in [
        "data: [DONE]\n\n",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ] {
        let read = events([bytes.as_bytes()]);
        let [ModelEvent::Error(error), ModelEvent::Done] = read.as_slice() else {
            panic!("{read:?}")
        };
        assert!(error.broke_off);
    }
}

#[test]
fn a_plain_answer_gives_what_its_stream_would() {
    let body = r#"{"id":"x","type":"message","role":"assistant","model":"m","content":[
        {"type":"thinking","thinking":"hm","signature":"s"},
        {"type":"text","text":"t","citations":[{"a":1}]},
        {"type":"tool_use","id":"a","name":"f","input":{"x": 1}},
        {"type":"server_tool_use","id":"s","name":"w","input":{"q":2}}
    ],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":2}}"#;
    let read = body_events(body.as_bytes());
    assert_eq!(
        &read[1..8],
        [
            thought("hm"),
            ended(Some("s"), None),
            said("t"),
            ended(None, Some(r#"{"citations":[{"a":1}]}"#)),
            piece(0, Some(("a", "f")), None),
            piece(0, None, Some(r#"{\"x\": 1}"#)),
            native(r#"{"type":"server_tool_use","id":"s","name":"w","input":{"q":2}}"#),
        ]
    );
    assert_eq!(read[9..], [finish(Finish::ToolCalls), ModelEvent::Done]);
}

#[test]
fn bodies_that_are_no_answers_are_refused_or_errors() {
    let mut out = Vec::new();
    assert!(matches!(
        body::decode(b"", &mut out),
        Err(DecodeError::Empty)
    ));
    assert!(matches!(
        body::decode(b"{}", &mut out),
        Err(DecodeError::NoChoices)
    ));
    assert!(matches!(
        body::decode(b"<html>", &mut out),
        Err(DecodeError::NotAnAnswer(_))
    ));
    assert!(matches!(
        body::decode(b"\xff", &mut out),
        Err(DecodeError::NotUtf8)
    ));
    assert!(out.is_empty());
    let error = br#"{"type":"error","error":{"type":"api_error","message":"m"}}"#;
    let read = body_events(error);
    assert!(
        matches!(read.as_slice(), [ModelEvent::Error(error), ModelEvent::Done] if error.status == Some(500)),
        "{read:?}"
    );
}

#[test]
fn nothing_that_an_upstream_sends_is_endless() {
    let limits = StreamLimits {
        event_bytes_max: 1000,
        empty_bytes_max: 1000,
    };
    let feed = |event: &[u8]| {
        let mut decoder = MessageDecoder::new(&limits);
        (0..100_000).find_map(|_| decoder.feed(event, &mut Vec::new()).err())
    };
    let ping = feed(b"event: ping\ndata: {\"type\":\"ping\"}\n\n");
    assert!(matches!(ping, Some(DecodeError::TooMuchEmpty { .. })));
    let call = begin(0, r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#);
    let calls = feed(format!("data: {call}\n\n").as_bytes());
    assert!(calls.is_some());

    let mut decoder = MessageDecoder::new(&StreamLimits::defaults());
    let long = "s".repeat(1 << 20);
    let signature = more(
        0,
        &format!(r#"{{"type":"signature_delta","signature":"{long}"}}"#),
    );
    let begin = begin(0, r#"{"type":"thinking","thinking":""}"#);
    let data: Vec<&str> = std::iter::once(begin.as_str())
        .chain(std::iter::repeat_n(signature.as_str(), 17))
        .collect();
    let read = decoder.feed(&stream(&data), &mut Vec::new());
    assert!(matches!(read, Err(DecodeError::Sse(_))), "{read:?}");
}

#[test]
fn hostile_events_do_no_harm() {
    let pieces = [
        "{}",
        "7",
        "null",
        "[]",
        "\"x\"",
        r#"{"type":7}"#,
        r#"{"type":null}"#,
        r#"{"type":"message_start"}"#,
        r#"{"type":"message_start","message":7}"#,
        r#"{"type":"message_start","message":{"usage":[],"content":7,"model":7}}"#,
        r#"{"type":"content_block_start"}"#,
        r#"{"type":"content_block_start","index":-1,"content_block":{}}"#,
        r#"{"type":"content_block_start","index":"a","content_block":[]}"#,
        r#"{"type":"content_block_start","index":18446744073709551615,"content_block":{"type":"text","text":7}}"#,
        r#"{"type":"content_block_start","content_block":{"type":"tool_use","id":7,"name":[],"input":"\u0000"}}"#,
        r#"{"type":"content_block_start","content_block":{"type":"x","type":"text","text":"a","text":"b"}}"#,
        r#"{"type":"content_block_delta"}"#,
        r#"{"type":"content_block_delta","delta":[]}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":null}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83d"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"},"x":"\"}}"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":{}}}"#,
        r#"{"type":"content_block_stop","index":{}}"#,
        r#"{"type":"message_delta"}"#,
        r#"{"type":"message_delta","delta":7,"usage":7}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":[]},"usage":{"input_tokens":-1,"output_tokens":"x"}}"#,
        r#"{"type":"error","error":null}"#,
    ];
    for first in pieces {
        for second in pieces {
            let bytes = stream(&[first, second]);
            let mut decoder = MessageDecoder::new(&StreamLimits::defaults());
            let mut out = Vec::new();
            let _ = decoder.feed(&bytes, &mut out);
            let _ = decoder.finish(&mut out);
            let _ = body::decode(first.as_bytes(), &mut out);
        }
    }
}

#[test]
fn the_usual_event_is_read_as_any_other() {
    let usual = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\"b}"}       }"#;
    let other =
        r#"{"index":0,"type":"content_block_delta","delta":{"text":"a\"b}","type":"text_delta"}}"#;
    // What looks like the end of the text is another field.
    let tricky = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","x":"b"}}"#;
    let first = begin(0, r#"{"type":"text","text":""}"#);
    for (event, text) in [(usual, r#"a\"b}"#), (other, r#"a\"b}"#), (tricky, "a")] {
        let read = read(&[first.clone(), event.to_owned(), stop(0)]);
        assert_eq!(read, [said(text), ended(None, None)], "{event}");
    }
}
