use serde_json::json;
use tw_core::json::shared::SharedText;
use tw_core::json::{Json, Literal};
use tw_core::limits::RequestLimits;
use tw_core::model::CallForm;
use tw_core::native::AnswerOrigin;
use tw_core::request::{
    Block, CallBlock, MessageEnds, ModelInput, ReasoningBlock, RequestTools, Role, ToolChoice,
};

use super::{RequestError, RequestErrorKind, decode, decode_shared};
use crate::openai_chat::content::part_block;
use crate::openai_chat::{FORMAT, REASONING_CONTENT};

/// An upstream that knows the model by this name.
pub(super) fn home(model: &str) -> &'static AnswerOrigin {
    Box::leak(Box::new(AnswerOrigin {
        format: FORMAT,
        upstream: "up".into(),
        model: model.into(),
    }))
}

fn limits() -> RequestLimits {
    RequestLimits {
        body_bytes_max: 4096,
        json_depth_max: 16,
        messages_max: 3,
        client_result_bytes_max: 40,
        tools_max: 2,
        schema_bytes_max: 100,
        schema_depth_max: 4,
    }
}

fn read(body: &str) -> ModelInput {
    decode(body.as_bytes(), &limits()).unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

fn refused(body: &str) -> RequestError {
    decode(body.as_bytes(), &limits()).expect_err(body)
}

/// A request with these fields behind a model and a message.
fn with(fields: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#)
}

#[test]
fn where_messages_end_in_the_body_is_known() {
    const USER: &str = r#"{"role":"user","content":"é"}"#;
    const ANSWER: &str = r#"{"role":"assistant","content":"a"}"#;
    // Up to and with the last message before the last answer, the rest of the messages, and what is behind.
    let cases = [
        (
            None,
            format!(r#"{{"messages":[{USER}"#),
            r#"],"model":"m"}"#,
        ),
        (
            None,
            format!(r#"{{"model":"m","messages":[{ANSWER}, {USER}"#),
            " ] } \n",
        ),
        (
            Some(format!(r#" {{"messages":[{USER}"#)),
            format!(" , {ANSWER},{USER}"),
            r#"],"model":"m"}"#,
        ),
        (
            Some(format!(r#"{{"model":"m","messages":[{ANSWER},{USER}"#)),
            format!(",{ANSWER}"),
            "]}",
        ),
    ];
    for (before, rest, behind) in cases {
        let start = format!("{}{rest}", before.as_deref().unwrap_or_default());
        let ends = MessageEnds {
            before_answer: before.map(|before| before.len()),
            last: start.len(),
        };
        assert_eq!(read(&format!("{start}{behind}")).ends, ends, "{start}");
    }
}

#[test]
fn a_message_keeps_its_text_whatever_stands_around_it() {
    let messages = [
        r#"{"role":"user","content":"a } b"}"#,
        "{ \n\t\"role\" : \"user\" , \"content\" : \"a\"\r }",
        r#"{"content":[{"type":"text","text":"a"}],"role":"user"}"#,
        // A name with an escape tells nothing of where it is.
        r#"{"\u0072ole":"user","content":"a"}"#,
        r#"{"role":"user","content":"a","name":null}"#,
        r#"{"role":"user","content":"a","":{}}"#,
    ];
    for first in messages {
        for second in messages {
            let input = read(&format!(
                "{{\"messages\": [ {first} ,\n{second}], \"model\":\"m\"}}"
            ));
            let texts: Vec<&str> = input
                .messages
                .iter()
                .map(|message| message.raw.as_ref().unwrap().as_str())
                .collect();
            assert_eq!(texts, [first, second]);
        }
    }
}

#[test]
fn a_request_is_read_as_written() {
    let input = read(&with(
        r#""stream":true,"stream_options":{"include_usage":true},"n":3,"store":true,"max_tokens":7,"user":"u","safety_identifier":"s",
        "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"custom","custom":{"name":"g"}}],
        "tool_choice":{"type":"function","function":{"name":"f"}}"#,
    ));
    assert!(input.stream && input.include_usage);
    assert_eq!(
        (input.choices, input.store, input.completion_tokens_max),
        (3, Some(true), Some(7))
    );
    assert_eq!(input.user.as_deref(), Some("s"));
    assert_eq!(input.tool_choice, ToolChoice::Named("f".to_owned()));
    let forms: Vec<CallForm> = input
        .tools
        .entries()
        .iter()
        .map(|entry| entry.form)
        .collect();
    assert_eq!(forms, [CallForm::Function, CallForm::Custom]);

    let plain = read(&with(
        r#""stream":null,"n":null,"tools":null,"stream_options":null"#,
    ));
    assert!(!plain.stream && plain.tools == RequestTools::Absent && plain.choices == 1);
}

#[test]
fn messages_become_blocks() {
    let body = r#"{"model":"m","messages":[
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]},
        {"role":"assistant","content":null,"reasoning_content":"hm","refusal":null,
         "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]},
        {"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"}]}]}"#;
    let input = read(body);
    let image = Json::parse(r#"{"type":"image_url","image_url":{"url":"x"}}"#).expect("JSON");
    assert_eq!(
        input.messages[0].blocks,
        [
            Block::Text(Literal::from_text("a")),
            Block::Part(part_block(image))
        ]
    );
    let reasoning = ReasoningBlock::of(REASONING_CONTENT, Literal::from_text("hm"));
    let call = CallBlock {
        id: "c".to_owned(),
        name: "f".to_owned(),
        form: CallForm::Function,
        arguments: Literal::from_text("{"),
        native: None,
    };
    assert_eq!(
        input.messages[1].blocks,
        [Block::Reasoning(reasoning), Block::Call(call)]
    );
    assert_eq!(
        input.messages[2]
            .result()
            .map(|result| result.call_id.as_str()),
        Some("c")
    );
    assert_eq!(input.messages[2].role, Role::Tool);
}

#[test]
fn the_old_form_is_read() {
    let input = read(
        r#"{"model":"m","functions":[{"name":"f"}],"function_call":{"name":"f"},"messages":[
        {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
        {"role":"function","name":"f","content":"7"}]}"#,
    );
    assert!(matches!(&input.tools, RequestTools::ByName(entries) if entries.len() == 1));
    assert_eq!(input.tool_choice, ToolChoice::Named("f".to_owned()));
    assert_eq!(
        input.messages[0]
            .calls()
            .map(|call| call.form)
            .collect::<Vec<_>>(),
        [CallForm::ByName]
    );
    assert_eq!(
        input.messages[1]
            .result()
            .map(|result| result.call_id.as_str()),
        Some("f")
    );
}

#[test]
fn what_is_wrong_is_named() {
    let user = r#"{"role":"user","content":"hi"}"#;
    let message = |message: &str| format!(r#"{{"model":"m","messages":[{user},{message}]}}"#);
    let function = |fields: &str| {
        with(&format!(
            r#""tools":[{{"type":"function","function":{{{fields}}}}}]"#
        ))
    };
    let long_name = "x".repeat(65);
    let rows = [
        (with(r#""n":0"#), "n"),
        (with(r#""n":129"#), "n"),
        (with(r#""n":1.5"#), "n"),
        (with(r#""stream":"yes""#), "stream"),
        (with(r#""stream_options":{}"#), "stream_options"),
        (
            with(r#""stream":true,"stream_options":[]"#),
            "stream_options",
        ),
        (
            with(r#""stream":true,"stream_options":{"include_usage":1}"#),
            "stream_options.include_usage",
        ),
        (with(r#""store":1"#), "store"),
        (with(r#""max_tokens":-2"#), "max_tokens"),
        (
            with(r#""max_completion_tokens":"9""#),
            "max_completion_tokens",
        ),
        (with(r#""user":{}"#), "user"),
        (with(r#""model":"again""#), "model"),
        (with(r#""tools":{}"#), "tools"),
        (with(r#""tools":[{},{},{}]"#), "tools"),
        (with(r#""tools":[7]"#), "tools[0]"),
        (with(r#""tools":[{"function":{}}]"#), "tools[0].type"),
        (with(r#""tools":[{"type":7}]"#), "tools[0].type"),
        (
            with(r#""tools":[{"type":"function"}]"#),
            "tools[0].function",
        ),
        (function(""), "tools[0].function.name"),
        (function(r#""name":"a b""#), "tools[0].function.name"),
        (function(r#""name":"""#), "tools[0].function.name"),
        (
            function(&format!(r#""name":"{long_name}""#)),
            "tools[0].function.name",
        ),
        (
            function(r#""name":"f","parameters":[]"#),
            "tools[0].function.parameters",
        ),
        (
            function(r#""name":"f","parameters":{"a":{"b":{"c":{"d":{}}}}}"#),
            "tools[0].function.parameters",
        ),
        (
            function(&format!(
                r#""name":"f","parameters":{{"a":"{}"}}"#,
                "x".repeat(100)
            )),
            "tools[0].function.parameters",
        ),
        (
            with(r#""functions":[{"name":"f"},{"name":"f"}]"#),
            "functions[1]",
        ),
        (with(r#""functions":[],"tools":[]"#), "functions"),
        (with(r#""tool_choice":7"#), "tool_choice"),
        (with(r#""tool_choice":{}"#), "tool_choice.type"),
        (with(r#""tool_choice":{"type":7}"#), "tool_choice.type"),
        (
            with(r#""tool_choice":{"type":"function"}"#),
            "tool_choice.function",
        ),
        (with(r#""function_call":"required""#), "function_call"),
        (r#"{"messages":[]}"#.to_owned(), "model"),
        (r#"{"model":7,"messages":[]}"#.to_owned(), "model"),
        (r#"{"model":"m"}"#.to_owned(), "messages"),
        (r#"{"model":"m","messages":"hi"}"#.to_owned(), "messages"),
        (r#"{"model":"m","messages":null}"#.to_owned(), "messages"),
        (r#"{"model":"m","messages":{}}"#.to_owned(), "messages"),
        (r#"{"model":"m","messages":1e999}"#.to_owned(), "messages"),
        (with(r#""messages":[]"#), "messages"),
        (with(r#""messages":null"#), "messages"),
        (r#"{"model":"m","messages":[]}"#.to_owned(), "messages"),
        (
            format!(r#"{{"model":"m","messages":[{user},{user},{user},{user}]}}"#),
            "messages",
        ),
        (message("7"), "messages[1]"),
        (message("{}"), "messages[1].role"),
        (
            message(r#"{"role":"robot","content":"x"}"#),
            "messages[1].role",
        ),
        (
            message(r#"{"role":"user","role":"user","content":"x"}"#),
            "messages[1].role",
        ),
        (message(r#"{"role":"user"}"#), "messages[1].content"),
        (
            message(r#"{"role":"user","content":null}"#),
            "messages[1].content",
        ),
        (
            message(r#"{"role":"user","content":7}"#),
            "messages[1].content",
        ),
        (
            message(r#"{"role":"user","content":["x"]}"#),
            "messages[1].content[0]",
        ),
        (
            message(r#"{"role":"user","content":[{"type":"text"}]}"#),
            "messages[1].content[0].text",
        ),
        (
            message(r#"{"role":"user","content":[{"text":"x"}]}"#),
            "messages[1].content[0].type",
        ),
        (
            message(r#"{"role":"tool","content":"x"}"#),
            "messages[1].tool_call_id",
        ),
        (
            message(r#"{"role":"tool","tool_call_id":7,"content":"x"}"#),
            "messages[1].tool_call_id",
        ),
        (
            message(r#"{"role":"tool","tool_call_id":"c"}"#),
            "messages[1].content",
        ),
        (
            message(r#"{"role":"function","content":"x"}"#),
            "messages[1].name",
        ),
        (
            message(r#"{"role":"assistant","tool_calls":{}}"#),
            "messages[1].tool_calls",
        ),
        (
            message(r#"{"role":"assistant","tool_calls":[{"id":"c"}]}"#),
            "messages[1].tool_calls[0].function",
        ),
        (
            message(
                r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}"#,
            ),
            "messages[1].tool_calls[0].function.arguments",
        ),
    ];
    for (body, param) in &rows {
        let error = refused(body);
        assert_eq!(
            (error.kind, error.param.as_deref()),
            (RequestErrorKind::Invalid, Some(*param)),
            "{body}: {error}"
        );
        assert!(!error.message.is_empty());
    }
}

#[test]
fn what_is_no_request_at_all_is_refused() {
    for body in [
        "",
        "[]",
        "7",
        "{",
        "{\"a\":1}{}",
        "\u{feff}{}",
        "nul",
        "{\"model\":\"m\",}",
    ] {
        assert_eq!(refused(body).param, None, "{body}");
    }
    assert!(refused(&"[".repeat(17)).message.contains("deeper than 16"));
    assert!(decode(b"\"\xff\"", &limits()).is_err());
    let long = with(&format!(r#""x":"{}""#, "x".repeat(4096)));
    assert_eq!(refused(&long).kind, RequestErrorKind::TooLarge);
    let role = refused(r#"{"model":"m","messages":[{"role":"robot","content":"x"}]}"#);
    assert_eq!(
        role.message,
        "Invalid value: 'robot'. Supported values are: 'system', 'developer', 'user', 'assistant', 'tool', and 'function'."
    );
    assert_eq!(role.code, Some("invalid_value"));
}

#[test]
fn results_that_a_client_brings_are_bounded() {
    let brought = |role: &str, id: &str, content: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"a text of any length"}},{{"role":"{role}","{id}":"c","content":{content}}}]}}"#
        )
    };
    let text = |chars: usize| format!("\"{}\"", "x".repeat(chars));
    let part = format!(r#"{{"type":"text","text":{}}}"#, text(1));
    let parts = format!("[{part},{part}]");
    for (role, id) in [("tool", "tool_call_id"), ("function", "name")] {
        read(&brought(role, id, &text(38)));
        for content in [&text(39), &parts] {
            let error = refused(&brought(role, id, content));
            assert_eq!(error.param.as_deref(), Some("messages[1].content"));
            assert_eq!(error.code, Some("string_above_max_length"));
        }
    }
}

/// Pairing calls with results looks at every call for every result, so their number is bounded.
#[test]
fn calls_in_the_history_are_bounded() {
    let with_calls = |count: usize| {
        let call = r#"{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}"#;
        let calls = vec![call; count].join(",");
        format!(r#"{{"model":"m","messages":[{{"role":"assistant","tool_calls":[{calls}]}}]}}"#)
    };
    let limits = RequestLimits::defaults();
    assert!(decode(with_calls(4096).as_bytes(), &limits).is_ok());
    let error = decode(with_calls(4097).as_bytes(), &limits).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("messages"));
    assert_eq!(error.code, Some("array_above_max_length"));
}

/// The text that a part is written in, if it is where the body has it.
fn is_in(whole: &SharedText, part: &str) -> bool {
    let range = whole.as_str().as_bytes().as_ptr_range();
    range.contains(&part.as_ptr())
}

#[test]
fn what_is_read_of_a_body_is_held_in_the_body() {
    let long = "x".repeat(5_000);
    let messages = json!([
        { "role": "user", "content": long },
        { "role": "user", "content": [
            { "type": "text", "text": long },
            { "type": "image_url", "image_url": { "url": long } },
        ]},
        { "role": "assistant", "reasoning_content": long, "refusal": long, "tool_calls": [
            { "id": "c", "type": "function", "function": { "name": "f", "arguments": long } },
        ]},
        { "role": "tool", "tool_call_id": "c", "content": long },
    ]);
    let body = json!({
        "model": "m", "messages": messages, "metadata": { "note": long },
        "tools": [{ "type": "function", "function": {
            "name": "f", "parameters": { "type": "object", "description": long },
        }}],
    });
    let whole = SharedText::new(body.to_string());
    let input = decode_shared(&whole, &RequestLimits::defaults()).unwrap();
    for message in &input.messages {
        assert!(is_in(&whole, message.raw.as_ref().unwrap().as_str()));
        for block in &message.blocks {
            let text = match block {
                Block::Text(text) | Block::Refusal(text) => text.as_str(),
                Block::Reasoning(reasoning) => reasoning.text.as_str(),
                Block::Part(part) => part.json.as_str(),
                // It is put together anew.
                Block::Native(_) => continue,
                Block::Call(call) => call.arguments.as_str(),
                Block::Result(result) => match &result.content[..] {
                    [Block::Text(text)] => text.as_str(),
                    other => panic!("{other:?}"),
                },
            };
            assert!(is_in(&whole, text), "{block:?}");
        }
    }
    let [tool] = input.tools.entries() else {
        panic!("one tool");
    };
    assert!(is_in(&whole, tool.raw.as_str()));
    assert!(is_in(&whole, tool.parameters.as_ref().unwrap().as_str()));
    for (name, value) in input
        .fields
        .iter()
        .filter(|(_, value)| value.as_str().len() > 500)
    {
        assert!(is_in(&whole, value.as_str()), "{name}");
    }
    // What is short does not keep the body.
    assert!(!is_in(&whole, input.fields[0].1.as_str()));
}
