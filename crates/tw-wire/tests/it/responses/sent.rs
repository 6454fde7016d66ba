//! Requests as an upstream is sent them.

use serde_json::{Value, json};
use tw_core::accepts::{Accepts, FieldRule, StrictTools};
use tw_core::json::shared::SharedText;
use tw_core::json::{Json, Literal};
use tw_core::limits::RequestLimits;
use tw_core::model::{CallForm, CallNative};
use tw_core::native::{AnswerOrigin, FormatName, NativePart};
use tw_core::request::{
    Block, CallBlock, ChoiceSent, Message, ModelInput, ModelRequest, OfferedTools, ReasoningBlock,
    RoundSent,
};
use tw_wire::openai_chat;
use tw_wire::openai_responses::request::{changes, decode, encode};
use tw_wire::openai_responses::{FORMAT, SUMMARY};

fn origin(upstream: &str, format: FormatName) -> AnswerOrigin {
    AnswerOrigin {
        format,
        upstream: upstream.into(),
        model: "gpt-5".into(),
    }
}

fn request<'a>(input: &'a ModelInput, to: &'a AnswerOrigin) -> ModelRequest<'a> {
    ModelRequest {
        input,
        messages: input.messages.iter().collect(),
        to,
        tools: OfferedTools::AsSent,
        tool_choice: ChoiceSent::AsSent,
        rounds: Vec::new(),
        completion_tokens_left: None,
        ask_usage: false,
    }
}

fn own(body: &str) -> ModelInput {
    decode(&SharedText::from(body), &RequestLimits::defaults())
        .expect("a request")
        .input
}

fn chat(body: &Value) -> ModelInput {
    openai_chat::request::decode(body.to_string().as_bytes(), &RequestLimits::defaults())
        .expect("a request")
}

fn sent(request: &ModelRequest<'_>) -> Value {
    let body = encode(request, &Accepts::everything());
    serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&body)))
}

#[test]
fn a_request_of_the_format_keeps_its_bytes() {
    let to = origin("u", FORMAT);
    let items = r#"[ {"role":"user","content":"q"},{"id":"rs_u","type":"reasoning","summary":[ ],"encrypted_content":"E"},{"content":[{"type":"output_text","text":"w\u00e9","annotations":[]}],"type":"message","role":"assistant","phase":"commentary"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{ \"a\": 1.0 }","id":"fc_u"},{"type":"web_search_call","id":"ws","status":"completed"},{"output":"1","type":"function_call_output","call_id":"c1"}]"#;
    let body = format!(
        r#"{{"model":"gpt-5","temperature":0.50,"input":{items},"text":{{"format":{{ "type":"text" }}}},"instructions":"b\u00e9","tools":[ {{"type":"function","name":"f","parameters":{{"type":"object"}}}},{{"type":"web_search"}}],"tool_choice":{{"type":"allowed_tools","mode":"auto","tools":[{{"type":"function","name":"f"}}]}},"previous_response_id":"resp_x","store":true,"background":true,"new_field":{{"x":1.00}}}}"#
    );
    let input = own(&body);
    let out =
        String::from_utf8(encode(&request(&input, &to), &Accepts::everything())).expect("text");
    let expected = format!(
        r#"{{"model":"gpt-5","input":{},"instructions":"b\u00e9","temperature":0.50,"text":{{"format":{{ "type":"text" }}}},"tools":[ {{"type":"function","name":"f","parameters":{{"type":"object"}}}},{{"type":"web_search"}}],"tool_choice":{{"type":"allowed_tools","mode":"auto","tools":[{{"type":"function","name":"f"}}]}},"new_field":{{"x":1.00}},"store":false,"include":["reasoning.encrypted_content"]}}"#,
        items.replacen("[ ", "[", 1)
    );
    assert_eq!(out, expected);
    assert!(changes(&request(&input, &to), &Accepts::everything()).is_empty());
    let plain = own(r#"{"model":"gpt-4o","input":"h\u00e9"}"#);
    let body = encode(&request(&plain, &to), &Accepts::everything());
    assert!(body.starts_with(br#"{"model":"gpt-5","input":"h\u00e9","#));
}

#[test]
fn ids_of_ours_and_reasoning_that_says_nothing_do_not_go_out() {
    let turn = "0192f0aa000070008000000000000001";
    let to = origin("u", FORMAT);
    let body = json!({"model": "gpt-5", "input": [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "id": format!("rs_{turn}_1_0"), "summary": [{"type": "summary_text", "text": "s"}]},
        {"type": "reasoning", "id": format!("rs_{turn}_1_1"), "summary": [], "encrypted_content": "E"},
        {"type": "message", "id": format!("msg_{turn}_1_2"), "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
        {"type": "mcp_call", "id": format!("mcp_{turn}"), "server_label": "turnwright", "name": "t", "arguments": "{}", "output": "5", "error": null},
        {"role": "user", "content": "r"},
    ]});
    let input = own(&body.to_string());
    assert_eq!(
        sent(&request(&input, &to))["input"],
        json!([
            {"role": "user", "content": "q"},
            {"type": "reasoning", "summary": [], "encrypted_content": "E"},
            {"type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
            {"type": "function_call", "call_id": format!("call_{turn}"), "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": format!("call_{turn}"), "output": "5"},
            {"role": "user", "content": "r"},
        ])
    );
}

fn native(item: Value) -> NativePart {
    NativePart {
        format: FORMAT,
        json: Json::from_value(&item),
    }
}

/// The blocks of an answer of an upstream of this format.
fn answer() -> Vec<Block> {
    vec![
        Block::Reasoning(ReasoningBlock {
            native: Some(native(
                json!({"type": "reasoning", "id": "rs_u", "summary": [], "encrypted_content": "E"}),
            )),
            ..ReasoningBlock::of(SUMMARY, Literal::from_text("thought"))
        }),
        Block::Text(Literal::from_text("see")),
        Block::Native(native(
            json!({"type": "message", "id": "msg_u", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "see", "annotations": []}]}),
        )),
        Block::Native(native(json!({"type": "web_search_call", "id": "ws_u"}))),
        Block::Call(CallBlock {
            id: "toolu.1".to_owned(),
            name: "f".to_owned(),
            form: CallForm::Function,
            arguments: Literal::from_text("{}"),
            native: Some(Box::new(CallNative {
                beside: vec![("id".into(), Json::of_read("\"fc_u\""))],
                inside: Vec::new(),
            })),
        }),
        Block::Native(native(json!({"annotations": []}))),
    ]
}

#[test]
fn an_answer_goes_back_whole_to_where_it_came_from() {
    let input = own(r#"{"model":"gpt-5","input":"q"}"#);
    let to = origin("u", FORMAT);
    let blocks = answer();
    let mut wanted = request(&input, &to);
    wanted.rounds.push(RoundSent {
        assistant: &blocks,
        origin: Some(&to),
        results: vec![("toolu.1", "5")],
    });
    assert_eq!(
        sent(&wanted)["input"],
        json!([
            {"type": "message", "role": "user", "content": "q"},
            {"type": "reasoning", "id": "rs_u", "summary": [], "encrypted_content": "E"},
            {"type": "message", "id": "msg_u", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "see", "annotations": []}]},
            {"type": "web_search_call", "id": "ws_u"},
            {"type": "function_call", "call_id": "toolu.1", "name": "f", "arguments": "{}", "id": "fc_u"},
            {"type": "function_call_output", "call_id": "toolu.1", "output": "5"},
        ])
    );
    let other = origin("other", FORMAT);
    let mut wanted = request(&input, &to);
    wanted.rounds.push(RoundSent {
        assistant: &blocks,
        origin: Some(&other),
        results: vec![("toolu.1", "5")],
    });
    let items = sent(&wanted)["input"].clone();
    let id = items[2]["call_id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("call_"), "{id}");
    assert_eq!(
        items,
        json!([
            {"type": "message", "role": "user", "content": "q"},
            {"type": "message", "role": "assistant", "content": "see"},
            {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": id, "output": "5"},
        ])
    );
}

#[test]
fn a_chat_request_becomes_items_and_settings() {
    let to = origin("u", FORMAT);
    let input = chat(&json!({
        "model": "m", "stream": true, "max_completion_tokens": 5, "temperature": 0.5, "stop": ["x"], "seed": 3,
        "reasoning_effort": "low", "verbosity": "low", "user": "ann", "parallel_tool_calls": false, "logit_bias": {},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}},
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
                  {"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}}}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}},
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}]},
            {"role": "assistant", "content": "w", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}, {"id": "c2", "type": "custom", "custom": {"name": "c", "input": "x"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "2"}]},
            {"role": "assistant", "content": "no", "refusal": "r"},
        ],
    }));
    assert_eq!(
        sent(&request(&input, &to)),
        json!({
            "model": "gpt-5",
            "input": [
                {"type": "message", "role": "system", "content": "s"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}]},
                {"type": "message", "role": "assistant", "content": "w"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                {"type": "custom_tool_call", "call_id": "c2", "name": "c", "input": "x"},
                {"type": "function_call_output", "call_id": "c1", "output": "1"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "2"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "no"}, {"type": "refusal", "refusal": "r"}]},
            ],
            "stream": true,
            "temperature": 0.5,
            "parallel_tool_calls": false,
            "reasoning": {"effort": "low"},
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}, "verbosity": "low"},
            "safety_identifier": "ann",
            "tools": [
                {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false},
                {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            ],
            "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            "max_output_tokens": 16,
            "store": false,
            "include": ["reasoning.encrypted_content"],
        })
    );
    let changed = changes(&request(&input, &to), &Accepts::everything());
    assert_eq!(
        changed.to_string(),
        "seed=1, stop=1, logit_bias=1, max_tokens=1"
    );
}

#[test]
fn choices_and_limits_are_the_turns() {
    let to = origin("u", FORMAT);
    let rows: Vec<(Value, ChoiceSent, Value)> = vec![
        (json!("auto"), ChoiceSent::AsSent, json!("auto")),
        (json!("required"), ChoiceSent::Auto, json!("auto")),
        (
            json!({"type": "function", "name": "f"}),
            ChoiceSent::None,
            json!("none"),
        ),
        (
            json!({"type": "custom", "name": "f"}),
            ChoiceSent::AsSent,
            json!({"type": "custom", "name": "f"}),
        ),
        (Value::Null, ChoiceSent::None, json!("none")),
    ];
    for (written, choice, expected) in rows {
        let mut body = json!({"model": "m", "input": "x", "tools": [{"type": "function", "name": "f"}], "max_output_tokens": 100});
        if !written.is_null() {
            body["tool_choice"] = written.clone();
        }
        let input = own(&body.to_string());
        let wanted = ModelRequest {
            tool_choice: choice,
            completion_tokens_left: Some(7),
            ..request(&input, &to)
        };
        let body = sent(&wanted);
        assert_eq!(body["tool_choice"], expected, "{written}");
        assert_eq!(body["max_output_tokens"], 7, "{written}");
    }
    let input = own(
        r#"{"model":"m","input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":"required","parallel_tool_calls":true}"#,
    );
    let none = ModelRequest {
        tools: OfferedTools::Ours(Vec::new()),
        ..request(&input, &to)
    };
    let body = sent(&none);
    for name in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert!(body.get(name).is_none(), "{name}");
    }
}

#[test]
fn an_upstream_gets_what_it_is_said_to_accept() {
    let to = AnswerOrigin {
        model: "gpt-4o".into(),
        ..origin("u", FORMAT)
    };
    let input = own(
        r#"{"model":"m","input":"x","tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{}}}}],"service_tier":"flex"}"#,
    );
    let mut accepts = Accepts::everything();
    accepts.strict = StrictTools::WhereItFits;
    accepts
        .fields
        .insert("service_tier".into(), FieldRule::LeftOut);
    let wanted = request(&input, &to);
    let body: Value = serde_json::from_slice(&encode(&wanted, &accepts)).expect("JSON");
    assert_eq!(body["tools"][0]["strict"], false);
    assert!(body.get("service_tier").is_none());
    // A model that does not think refuses to be asked for its reasoning.
    assert!(body.get("include").is_none());
    assert_eq!(changes(&wanted, &accepts).to_string(), "service_tier=1");
}

#[test]
fn results_of_other_formats_are_texts_or_parts() {
    let to = origin("u", FORMAT);
    let input = own(r#"{"model":"m","input":[{"role":"user","content":"q"}]}"#);
    let result = |content: Vec<Block>, is_error| {
        Message::made(
            tw_core::request::Role::Tool,
            vec![Block::Result(tw_core::request::ResultBlock {
                call_id: "c".to_owned(),
                content,
                is_error,
            })],
        )
    };
    let text = |text: &str| Block::Text(Literal::from_text(text));
    let rows = [
        (result(vec![text("5")], false), json!("5")),
        (result(vec![text("no")], true), json!("Error: no")),
        (
            result(vec![text("{\"error\":\"no\"}")], true),
            json!("{\"error\":\"no\"}"),
        ),
        (result(vec![], false), json!("")),
        (
            result(vec![text("a"), text("b")], false),
            json!([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]),
        ),
    ];
    for (message, expected) in rows {
        let mut wanted = request(&input, &to);
        wanted.messages.push(&message);
        assert_eq!(sent(&wanted)["input"][1]["output"], expected);
    }
}
