//! What real upstreams do, one test for each oddity that reading decides; the numbers are those
//! of the list of quirks.

use serde_json::{Value, json};
use tw_core::json::Json;
use tw_core::limits::RequestLimits;
use tw_core::model::{CallForm, DeltaRest, Finish, ModelEvent};
use tw_core::native::NativePart;
use tw_core::request::{Block, CallBlock, ReasoningBlock, RoundSent};
use tw_wire::openai_chat::{FORMAT, request};

use crate::answer::{self, BuiltAnswer};
use crate::properties::untouched;

/// Reads chunks whose first choice has these deltas, and an end.
fn read(deltas: &[Value]) -> BuiltAnswer {
    answer::whole(&events(deltas, "tool_calls"))
}

fn events(deltas: &[Value], finish: &str) -> Vec<ModelEvent> {
    let mut bytes = Vec::new();
    for delta in deltas {
        push_chunk(
            &mut bytes,
            &json!({"index": 0, "delta": delta, "finish_reason": null}),
        );
    }
    push_chunk(
        &mut bytes,
        &json!({"index": 0, "delta": {}, "finish_reason": finish}),
    );
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    answer::events([bytes.as_slice()])
}

fn push_chunk(bytes: &mut Vec<u8>, choice: &Value) {
    let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
    bytes.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
}

/// The calls of choice 0 as `id name arguments`, with `-` for what is missing.
fn calls(answer: &BuiltAnswer) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let calls = answer
        .choices
        .get(&0)
        .map_or(&[][..], |choice| &choice.calls);
    calls
        .iter()
        .map(|call| format!("{} {} {}", text(&call.id), text(&call.name), call.arguments))
        .collect()
}

/// Each row is the `tool_calls` of one delta.
fn check(rows: &[Value], expected: &[&str]) {
    let deltas: Vec<Value> = rows.iter().map(|row| json!({"tool_calls": row})).collect();
    assert_eq!(calls(&read(&deltas)), expected);
}

#[test]
fn quirk_01_every_call_has_index_0() {
    check(
        &[
            json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\":"}}]),
            json!([{"index": 0, "function": {"arguments": "1}"}}]),
            json!([{"index": 0, "id": "b", "type": "function", "function": {"name": "f", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\":2}"}}]),
        ],
        &["a f {\"x\":1}", "b f {\"x\":2}"],
    );
}

#[test]
fn quirk_01_same_index_interleaved_by_id() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "g", "arguments": "{\"y\""}}]),
            json!([{"index": 0, "id": "a", "function": {"arguments": ":1}"}}]),
            json!([{"index": 0, "id": "b", "function": {"arguments": ":2}"}}]),
        ],
        &["a f {\"x\":1}", "b g {\"y\":2}"],
    );
}

#[test]
fn quirk_02_whole_calls_at_one_index() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}]),
            json!([{"index": 0, "id": "c", "function": {"name": "g", "arguments": "{}"}}]),
        ],
        &["a f {}", "b f {}", "c g {}"],
    );
}

#[test]
fn quirk_03_a_second_object_begins_a_call() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}]),
            json!([{"index": 0, "function": {"arguments": " {\"x\":2"}}]),
            json!([{"index": 0, "function": {"arguments": "}"}}]),
        ],
        &["a f {\"x\":1}", "- f  {\"x\":2}"],
    );
    // Another name begins one too, also where there is neither id nor index.
    check(
        &[
            json!([{"function": {"name": "f", "arguments": "{\"x\":"}}]),
            json!([{"function": {"name": "f", "arguments": "1}"}}]),
            json!([{"function": {"name": "g", "arguments": "{}"}}]),
        ],
        &["- f {\"x\":1}", "- g {}"],
    );
}

#[test]
fn quirk_03_the_same_id_and_name_again_begin_nothing() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1"}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]),
        ],
        &["a f {\"x\":1}"],
    );
}

#[test]
fn quirk_04_no_index() {
    check(
        &[
            json!([{"id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"function": {"arguments": ":1}"}}]),
            json!([{"id": "b", "function": {"name": "f", "arguments": ""}}]),
            json!([{"id": "b", "function": {"arguments": "{}"}}]),
        ],
        &["a f {\"x\":1}", "b f {}"],
    );
    check(
        &[
            json!([{"function": {"name": "f", "arguments": ""}}, {"function": {"name": "f", "arguments": ""}}]),
        ],
        &["- f ", "- f "],
    );
    // The index may come late, and the first one may be 1.
    check(
        &[
            json!([{"id": "a", "function": {"name": "f"}}]),
            json!([{"index": 1, "function": {"arguments": "{}"}}]),
            json!([{"index": 2, "id": "b", "function": {"name": "g", "arguments": "{}"}}]),
        ],
        &["a f {}", "b g {}"],
    );
}

#[test]
fn quirk_05_no_id() {
    check(
        &[
            json!([{"index": 0, "function": {"name": "f", "arguments": "{\"x\":1}"}}]),
            json!([{"index": 1, "id": "", "function": {"name": "g", "arguments": "{}"}}]),
        ],
        &["- f {\"x\":1}", "- g {}"],
    );
    // Our own stream has one for each, and never the same twice.
    let same = json!({"tool_calls": [
        {"index": 0, "id": "0", "function": {"name": "f", "arguments": "{}"}},
        {"index": 1, "id": "0", "function": {"name": "g", "arguments": "{}"}},
        {"index": 2, "function": {"name": "h", "arguments": "{}"}},
    ]});
    let log = answer::log(&events(&[same], "tool_calls"));
    let written = answer::write_stream(&log, tw_wire::openai_chat::outcome::ChatDialect::Tools);
    let read = answer::whole(&answer::events([written.as_slice()]));
    let turn = answer::turn().plain();
    assert_eq!(
        calls(&read),
        [
            "0 f {}".to_owned(),
            format!("call_{turn}_1_1 g {{}}"),
            format!("call_{turn}_1_2 h {{}}")
        ]
    );
}

#[test]
fn quirk_06_no_type() {
    let answer = read(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}),
    ]);
    assert_eq!(answer.choices[&0].calls[0].form, CallForm::Function);
}

#[test]
fn quirk_07_continuations_have_an_index_alone() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]),
            json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}}]),
            json!([{"index": 0, "function": {"arguments": "{}"}}]),
            json!([{"index": 1}]),
            json!([{"index": 1, "function": {}}]),
            json!([{"index": 1, "function": {"arguments": "{}"}}]),
        ],
        &["a f {}", "b g {}"],
    );
}

#[test]
fn quirk_08_pieces_interleave() {
    check(
        &[
            json!([{"index": 1, "id": "b", "function": {"name": "g", "arguments": "{\"y\""}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"index": 1, "function": {"arguments": ":2}"}}, {"index": 0, "function": {"arguments": ":1}"}}]),
        ],
        &["b g {\"y\":2}", "a f {\"x\":1}"],
    );
    check(
        &[
            json!([{"id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            json!([{"id": "b", "function": {"name": "g", "arguments": "{\"y\""}}]),
            json!([{"id": "a", "function": {"arguments": ":1}"}}, {"id": "b", "function": {"arguments": ":2}"}}]),
        ],
        &["a f {\"x\":1}", "b g {\"y\":2}"],
    );
}

#[test]
fn quirk_08_choices_share_an_id() {
    let mut bytes = Vec::new();
    for index in [0, 1] {
        let call = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": format!("{{\"n\":{index}")}}]);
        push_chunk(
            &mut bytes,
            &json!({"index": index, "delta": {"tool_calls": call}}),
        );
    }
    for index in [0, 1] {
        let call = json!([{"index": 0, "function": {"arguments": "}"}}]);
        push_chunk(
            &mut bytes,
            &json!({"index": index, "delta": {"tool_calls": call}, "finish_reason": "tool_calls"}),
        );
    }
    let answer = answer::whole(&answer::events([bytes.as_slice()]));
    let arguments: Vec<&str> = answer
        .choices
        .values()
        .map(|choice| choice.calls[0].arguments.as_str())
        .collect();
    assert_eq!(arguments, ["{\"n\":0}", "{\"n\":1}"]);
    assert_eq!(
        answer.finishes,
        [(0, Finish::ToolCalls), (1, Finish::ToolCalls)]
    );
}

#[test]
fn quirk_09_empty_names_and_ids_later() {
    check(
        &[
            json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}]),
            json!([{"index": 0, "id": "", "type": "", "function": {"name": "", "arguments": "}"}}]),
            json!([{"index": 0, "id": null, "type": null, "function": {"name": null, "arguments": null}}]),
        ],
        &["a f {}"],
    );
}

#[test]
fn quirk_10_null_arguments_first() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": null}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\":1}"}}]),
        ],
        &["a f {\"x\":1}"],
    );
}

#[test]
fn quirk_11_no_arguments() {
    check(
        &[json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}])],
        &["a f "],
    );
    check(
        &[json!([{"index": 0, "id": "a", "function": {"name": "f"}}])],
        &["a f "],
    );
    // Some write the object itself instead of its text.
    check(
        &[json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}])],
        &["a f {\"x\":1}"],
    );
}

#[test]
fn quirk_12_several_objects_in_one_piece_stay_there() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}{\"x\":"}}]),
            json!([{"index": 0, "function": {"arguments": "2}"}}]),
            json!([{"index": 0, "function": {"arguments": "{\"x\":3}"}}]),
        ],
        &["a f {\"x\":1}{\"x\":2}{\"x\":3}"],
    );
    // As do different objects under one and the same id; the same one is one call sent twice.
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":2}"}}]),
        ],
        &["a f {\"x\":1}{\"x\":2}"],
    );
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}}]),
        ],
        &["a f {\"x\":1}"],
    );
}

#[test]
fn quirk_18_characters_and_escapes_cut_anywhere() {
    let stream = concat!(
        "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"東京 \\\"\\ud83e\"}}]}\n\n",
        "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\udd8a\\n🦊\\u0041\"}}]}\n\n",
        "data: [DONE]\n\n",
    )
    .as_bytes();
    let whole = answer::events([stream]);
    assert_eq!(answer::whole(&whole).choices[&0].text, "東京 \"🦊\n🦊A");
    for cut in 0..=stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(answer::events([head, tail]), whole, "cut at {cut}");
    }
    assert_eq!(answer::events(stream.chunks(1)), whole);
}

#[test]
fn quirk_19_the_event_stream_standard() {
    let streams = [
        "\u{feff}data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\ndata: [DONE]\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\rdata: [DONE]\r\r",
        ": hello\n\ndata:{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n: again\ndata:[DONE]",
        "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]\ndata: }\n\ndata: [DONE]\n",
    ];
    for stream in streams {
        let answer = answer::whole(&answer::events([stream.as_bytes()]));
        assert_eq!(
            (answer.choices[&0].text.as_str(), answer.is_done),
            ("a", true),
            "{stream:?}"
        );
    }
    // An event that was cut in its middle is as good as not sent.
    let cut = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"de";
    let answer = answer::whole(&answer::events([cut.as_bytes()]));
    assert_eq!(
        (answer.choices[&0].text.as_str(), answer.is_done),
        ("a", false)
    );
}

#[test]
fn quirk_20_a_stop_with_calls_keeps_the_calls() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]});
    for (word, reason) in [
        ("stop", Finish::Stop),
        ("other", Finish::Stop),
        ("eos", Finish::Stop),
    ] {
        let answer = answer::whole(&events(std::slice::from_ref(&call), word));
        assert_eq!(calls(&answer), ["a f {}"]);
        assert_eq!(answer.finishes, [(0, reason)]);
    }
}

#[test]
fn quirk_27_reasoning_and_signatures_go_back_first_and_unchanged() {
    let details = r#"[{"type":"reasoning.text","text":"hm","signature":"c2ln/+==","index":0}]"#;
    let chunk = format!(
        "data: {{\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"reasoning\":\"hm\",\"reasoning_details\":{details}}}}}]}}\n\n"
    );
    let events = answer::events([chunk.as_bytes()]);
    let rest = events.iter().find_map(|event| match event {
        ModelEvent::Delta(delta) => delta.rest.as_deref(),
        _ => None,
    });
    let Some(DeltaRest {
        reasoning: Some(reasoning),
        extra,
        ..
    }) = rest
    else {
        panic!("reasoning is kept: {events:?}");
    };
    assert_eq!(extra.len(), 1);
    assert_eq!(extra[0].1.as_str(), details);

    let blocks = [
        Block::Reasoning(ReasoningBlock::of(reasoning.place, reasoning.text.clone())),
        Block::Native(NativePart {
            format: FORMAT,
            json: Json::of_fields(extra),
        }),
        Block::Call(CallBlock {
            id: "toolu_1".to_owned(),
            name: "f".to_owned(),
            form: CallForm::Function,
            arguments: tw_core::json::Literal::from_text("{}"),
            native: None,
        }),
    ];
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let input =
        request::decode(body.as_bytes(), &RequestLimits::defaults()).expect("a valid request");
    let mut next = untouched(&input);
    next.rounds = vec![RoundSent {
        assistant: &blocks,
        origin: None,
        results: vec![("toolu_1", "done")],
    }];
    let sent = String::from_utf8(request::encode(&next)).expect("UTF-8");
    let assistant = format!(
        r#"{{"role":"assistant","content":null,"reasoning":"hm","tool_calls":[{{"id":"toolu_1","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}],"reasoning_details":{details}}}"#
    );
    assert!(sent.contains(&assistant), "{sent}");
}
