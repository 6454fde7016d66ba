//! Requests of chat completions as the API gets them.

use std::sync::Arc;

use serde_json::{Value, json};
use tw_core::accepts::{Accepts, StrictTools};
use tw_core::json::Literal;
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::model::{CallForm, CallNative};
use tw_core::native::{AnswerOrigin, NativePart};
use tw_core::request::{
    Block, CallBlock, ChoiceSent, Message, ModelInput, ModelRequest, OfferedTools, ReasoningBlock,
    Role, RoundSent,
};
use tw_wire::anthropic_messages::{FORMAT, THINKING, request};
use tw_wire::openai_chat;

use super::requests::{elsewhere, home, plain};

fn chat(fields: &Value) -> ModelInput {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let (body_fields, more) = (body.as_object_mut(), fields.as_object());
    let (Some(body_fields), Some(more)) = (body_fields, more) else {
        panic!("objects")
    };
    body_fields.extend(more.clone());
    let source = SharedText::new(body.to_string());
    openai_chat::request::decode_shared(&source, &RequestLimits::defaults()).expect("a request")
}

fn to(model: &str) -> AnswerOrigin {
    AnswerOrigin {
        model: model.into(),
        ..home()
    }
}

fn value(request: &ModelRequest<'_>) -> Value {
    value_for(request, &Accepts::everything())
}

fn value_for(request: &ModelRequest<'_>, accepts: &Accepts) -> Value {
    serde_json::from_slice(&request::encode(request, accepts)).expect("JSON")
}

/// The messages that the API gets of these.
fn messages(messages: Value) -> Value {
    let input = chat(&json!({ "messages": messages }));
    value(&plain(&input, &home()))["messages"].take()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn a_whole_request_is_said_in_the_words_of_the_api() {
    let input = chat(&json!({
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hi"},
            {"role": "developer", "content": [{"type": "text", "text": "briefly", "cache_control": {"type": "ephemeral"}}]},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}, "cache_control": {"type": "ephemeral"}}],
        "tool_choice": "required", "parallel_tool_calls": false,
        "stop": ["END", " "], "temperature": 1.5, "top_p": 0.5, "max_tokens": 100,
        "user": "u", "seed": 1, "stream": true, "service_tier": "default", "logit_bias": {"1": 1},
    }));
    let to = home();
    let request = plain(&input, &to);
    let mut marked = text("briefly");
    marked["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(
        value(&request),
        json!({
            "model": "claude-sonnet-4-5", "max_tokens": 100,
            "system": [text("be kind"), marked],
            "messages": [{"role": "user", "content": [text("hi")]}],
            "tools": [{"name": "f", "description": "d",
                "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}},
                "cache_control": {"type": "ephemeral"}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "temperature": 1, "stop_sequences": ["END"], "metadata": {"user_id": "u"},
            "service_tier": "standard_only", "stream": true,
        })
    );
    let changes = request::changes(&request, &Accepts::everything());
    assert_eq!(
        changes.to_string(),
        "temperature=1, top_p=1, stop=1, seed=1, logit_bias=1, moved_system=1"
    );
}

#[test]
fn roles_take_turns_and_results_stand_together() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let sent = messages(json!([
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": "t", "tool_calls": [call("1"), call("2")]},
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "", "tool_calls": [call("1")]},
        {"role": "tool", "tool_call_id": "1", "content": ""},
    ]));
    let tool_use = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {"x": 1}});
    let result = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    assert_eq!(
        sent,
        json!([
            {"role": "user", "content": [text("a"), text("b")]},
            {"role": "assistant", "content": [text("t"), tool_use("1"), tool_use("2")]},
            {"role": "user", "content": [
                result("1", json!("one")),
                result("2", json!([text("two"), text("three")])),
                text("c"),
            ]},
            {"role": "assistant", "content": [tool_use("1_2")]},
            {"role": "user", "content": [result("1_2", json!(""))]},
        ])
    );
}

#[test]
fn messages_have_the_form_that_the_api_demands() {
    let opening = json!({"role": "user", "content": [text("(The conversation begins.)")]});
    let user = |said: &str| json!({"role": "user", "content": [text(said)]});
    let assistant = |said: &str| json!({"role": "assistant", "content": [text(said)]});
    let rows = [
        (
            json!([{"role": "system", "content": "s"}]),
            json!([opening]),
        ),
        (
            json!([{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]),
            json!([opening, assistant("a"), user("b")]),
        ),
        (
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b \n"}]),
            json!([user("a"), assistant("b")]),
        ),
        (
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": " "}, {"role": "user", "content": "b"}]),
            json!([{"role": "user", "content": [text("a"), text("b")]}]),
        ),
        (
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": " "}]),
            json!([user("a"), assistant("b"), user("(An empty message.)")]),
        ),
        (json!([{"role": "user", "content": ""}]), json!([opening])),
        (
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "refusal": "no"}, {"role": "user", "content": "b"}]),
            json!([user("a"), assistant("no"), user("b")]),
        ),
    ];
    for (from, expected) in rows {
        assert_eq!(messages(from.clone()), expected, "{from}");
    }
}

#[test]
fn images_and_files_are_said_as_the_api_takes_them() {
    let rows = [
        (
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}),
            "detail=1",
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "https://x/y.png"}, "cache_control": {"type": "ephemeral"}}),
            json!({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "cache_control": {"type": "ephemeral"}}),
            "",
        ),
        (
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}),
            json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "a.pdf"}),
            "",
        ),
        (
            json!({"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aMOpIQ=="}}),
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hé!"}, "title": "a.txt"}),
            "",
        ),
        (
            json!({"type": "file", "file": {"file_id": "file-1"}}),
            text("(Something that cannot be shown here was left out.)"),
            "file=1",
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
            text("(Something that cannot be shown here was left out.)"),
            "audio=1",
        ),
    ];
    for (part, expected, changed) in rows {
        let input = chat(&json!({"messages": [{"role": "user", "content": [part]}]}));
        let to = home();
        let request = plain(&input, &to);
        assert_eq!(
            value(&request)["messages"][0]["content"][0],
            expected,
            "{part}"
        );
        let changes = request::changes(&request, &Accepts::everything());
        assert_eq!(changes.to_string(), changed, "{part}");
    }
}

#[test]
fn the_choice_is_said_in_every_form() {
    let tools = json!([
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "function": {"name": "g", "parameters": {"anyOf": [{}]}}},
        {"type": "function", "function": {"name": "h", "parameters": {"properties": {}}}},
        {"type": "custom", "custom": {"name": "c"}},
        {"type": "browser_search"},
    ]);
    let all = ["f", "h", "c"];
    let rows = [
        (json!(null), ChoiceSent::AsSent, &all[..], json!(null)),
        (
            json!("auto"),
            ChoiceSent::AsSent,
            &all,
            json!({"type": "auto"}),
        ),
        (
            json!("required"),
            ChoiceSent::AsSent,
            &all,
            json!({"type": "any"}),
        ),
        (
            json!("any"),
            ChoiceSent::AsSent,
            &all,
            json!({"type": "any"}),
        ),
        (
            json!("none"),
            ChoiceSent::AsSent,
            &all,
            json!({"type": "none"}),
        ),
        (
            json!("required"),
            ChoiceSent::Auto,
            &all,
            json!({"type": "auto"}),
        ),
        (
            json!("required"),
            ChoiceSent::None,
            &all,
            json!({"type": "none"}),
        ),
        (
            json!({"type": "function", "function": {"name": "f"}}),
            ChoiceSent::AsSent,
            &all,
            json!({"type": "tool", "name": "f"}),
        ),
        (
            json!({"type": "function", "function": {"name": "g"}}),
            ChoiceSent::AsSent,
            &all,
            json!({"type": "auto"}),
        ),
        (
            json!({"type": "custom", "custom": {"name": "c"}}),
            ChoiceSent::AsSent,
            &all,
            json!({"type": "tool", "name": "c"}),
        ),
        (
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required",
                "tools": [{"type": "function", "function": {"name": "h"}}]}}),
            ChoiceSent::AsSent,
            &["h"],
            json!({"type": "any"}),
        ),
        (
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto",
                "tools": [{"type": "function", "function": {"name": "h"}}]}}),
            ChoiceSent::Auto,
            &["h"],
            json!({"type": "auto"}),
        ),
    ];
    for (choice, round, names, expected) in rows {
        let input = chat(&json!({"tools": tools, "tool_choice": choice}));
        let to = home();
        let request = ModelRequest {
            tool_choice: round,
            ..plain(&input, &to)
        };
        let body = value(&request);
        assert_eq!(body["tool_choice"], expected, "{choice}");
        let sent = body["tools"].as_array().expect("a list");
        let sent: Vec<&str> = sent
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        assert_eq!(sent, names, "{choice}");
        let schemas = body["tools"].as_array().into_iter().flatten();
        assert!(
            schemas
                .into_iter()
                .all(|tool| tool["input_schema"]["type"] == "object")
        );
        let lost = request::differences(&request, &Accepts::everything()).tools_left_out;
        assert_eq!(lost, if names.len() == 3 { 2 } else { 0 }, "{choice}");
    }
}

#[test]
fn strict_tools_are_strict_where_that_can_be() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": false});
    let rows = [
        (
            schema.clone(),
            "claude-sonnet-4-5",
            StrictTools::AsSent,
            true,
            0,
        ),
        (
            schema.clone(),
            "claude-3-7-sonnet",
            StrictTools::AsSent,
            false,
            1,
        ),
        (schema, "claude-sonnet-4-5", StrictTools::Never, false, 1),
        (
            json!({"type": "object"}),
            "claude-sonnet-4-5",
            StrictTools::AsSent,
            false,
            1,
        ),
    ];
    for (schema, model, strict, is_strict, lost) in rows {
        let input = chat(
            &json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": schema, "strict": true}}]}),
        );
        let to = to(model);
        let request = plain(&input, &to);
        let accepts = Accepts {
            strict,
            ..Accepts::everything()
        };
        let body = value_for(&request, &accepts);
        assert_eq!(
            body["tools"][0]["strict"] == true,
            is_strict,
            "{model} {schema}"
        );
        assert_eq!(request::differences(&request, &accepts).not_strict, lost);
    }
}

#[test]
fn thoughts_are_asked_for_as_the_model_takes_it() {
    let enabled = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    let rows = [
        ("claude-sonnet-4-5", json!({}), json!(null), 8192),
        ("claude-3-haiku", json!({}), json!(null), 4096),
        (
            "claude-sonnet-4-5",
            json!({"reasoning_effort": "low"}),
            enabled(2048),
            8192 + 2048,
        ),
        (
            "claude-sonnet-4-5",
            json!({"reasoning_effort": "high", "max_tokens": 4000}),
            enabled(3000),
            4000,
        ),
        (
            "claude-sonnet-4-5",
            json!({"reasoning_effort": "low", "max_tokens": 1000}),
            json!(null),
            1000,
        ),
        (
            "claude-sonnet-4-5",
            json!({"reasoning": {"max_tokens": 500}}),
            enabled(1024),
            8192 + 1024,
        ),
        (
            "claude-sonnet-4-5",
            json!({"reasoning_effort": "none"}),
            json!({"type": "disabled"}),
            8192,
        ),
        (
            "claude-3-5-sonnet",
            json!({"reasoning_effort": "low"}),
            json!(null),
            8192,
        ),
        (
            "kimi-k2",
            json!({"reasoning_effort": "low"}),
            enabled(2048),
            8192 + 2048,
        ),
        (
            "claude-opus-4-8",
            json!({"reasoning_effort": "low", "max_tokens": 500}),
            json!({"type": "adaptive"}),
            500,
        ),
    ];
    for (model, fields, thinking, max_tokens) in rows {
        let input = chat(&fields);
        let to = to(model);
        let body = value(&plain(&input, &to));
        assert_eq!(body["thinking"], thinking, "{model} {fields}");
        assert_eq!(body["max_tokens"], max_tokens, "{model} {fields}");
        let effort = &body["output_config"]["effort"];
        assert_eq!(
            !effort.is_null(),
            model == "claude-opus-4-8",
            "{model} {fields}"
        );
    }
    // A call that must be made forbids thoughts, and thoughts forbid a temperature.
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let forced = chat(
        &json!({"reasoning_effort": "low", "tools": tools, "tool_choice": "required", "temperature": 0.5}),
    );
    let to = home();
    let body = value(&plain(&forced, &to));
    assert_eq!(
        (&body["thinking"], &body["temperature"]),
        (&json!(null), &json!(0.5))
    );
    let free = chat(&json!({"reasoning_effort": "low", "tools": tools, "temperature": 0.5}));
    let body = value(&plain(&free, &to));
    assert_eq!(
        (&body["thinking"], &body["temperature"]),
        (&enabled(2048), &json!(null))
    );
}

#[test]
fn one_json_text_is_asked_for_by_schema_or_in_words() {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": false});
    let format = |strict: bool| {
        json!({"response_format": {"type": "json_schema",
        "json_schema": {"name": "n", "schema": schema, "strict": strict}}})
    };
    let rows = [
        ("claude-sonnet-4-5", format(true), true),
        ("claude-sonnet-4-5", format(false), false),
        ("claude-3-7-sonnet", format(true), false),
        (
            "claude-sonnet-4-5",
            json!({"response_format": {"type": "json_object"}}),
            false,
        ),
    ];
    for (model, fields, by_schema) in rows {
        let input = chat(&fields);
        let to = to(model);
        let body = value(&plain(&input, &to));
        let format = &body["output_config"]["format"];
        let words = body["system"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(format["schema"] == schema, by_schema, "{model} {fields}");
        assert_eq!(words.contains("JSON"), !by_schema, "{model} {fields}");
    }
}

fn call(id: &str, native: Option<&str>) -> Block {
    Block::Call(CallBlock {
        id: id.to_owned(),
        name: "f".to_owned(),
        form: CallForm::Function,
        arguments: Literal::from_text("{}"),
        native: native.map(|json| {
            Box::new(CallNative {
                beside: vec![("caller".into(), tw_core::json::Json::of_read(json))],
                inside: Vec::new(),
            })
        }),
    })
}

fn answer() -> Vec<Block> {
    let native = |json: &str| {
        Block::Native(NativePart {
            format: FORMAT,
            json: tw_core::json::Json::of_read(json),
        })
    };
    vec![
        Block::Reasoning(ReasoningBlock {
            signature: Some(Literal::from_text("s")),
            ..ReasoningBlock::of(THINKING, Literal::from_text("hm"))
        }),
        native(r#"{"type":"redacted_thinking","data":"d"}"#),
        Block::Text(Literal::from_text("t")),
        native(r#"{"citations":[{"a":1}]}"#),
        call("a.1", Some(r#"{"type":"direct"}"#)),
    ]
}

#[test]
fn what_is_the_answers_own_goes_back_to_its_maker_alone() {
    let input = chat(
        &json!({"reasoning_effort": "low", "tools": [{"type": "function", "function": {"name": "f"}}]}),
    );
    let blocks = answer();
    let to = home();
    let (own, other) = (home(), elsewhere());
    let sent = |origin: Option<&AnswerOrigin>| {
        let request = ModelRequest {
            rounds: vec![RoundSent {
                assistant: &blocks,
                origin,
                results: vec![("a.1", "noon")],
            }],
            ..plain(&input, &to)
        };
        value(&request)
    };
    let body = sent(Some(&own));
    let content = body["messages"][1]["content"].clone();
    // Its maker knows its own id, whatever it is.
    let id = "a.1";
    assert_eq!(
        content,
        json!([
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "t", "citations": [{"a": 1}]},
            {"type": "tool_use", "id": id, "name": "f", "input": {}, "caller": {"type": "direct"}},
        ])
    );
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], id);
    assert_eq!(body["thinking"]["type"], "enabled");
    for origin in [Some(&other), None] {
        let body = sent(origin);
        let content = &body["messages"][1]["content"];
        let other = content[1]["id"].as_str().expect("an id");
        assert!(other.starts_with("call_"), "{other}");
        assert_eq!(
            content,
            &json!([text("t"), {"type": "tool_use", "id": other, "name": "f", "input": {}}])
        );
        assert_eq!(body["thinking"], json!(null), "it would be refused");
    }
    // The same in the history, where it is known from the record.
    for (origin, parts) in [(Some(home()), 4), (Some(elsewhere()), 2), (None, 2)] {
        let message = Message {
            origin: origin.map(Arc::new),
            ..Message::made(Role::Assistant, answer())
        };
        let request = ModelRequest {
            messages: input.messages.iter().chain([&message]).collect(),
            ..plain(&input, &to)
        };
        let body = value(&request);
        let content = body["messages"][1]["content"].as_array().expect("a list");
        assert_eq!(content.len(), parts);
    }
}

#[test]
fn names_and_tools_of_the_past_fit_the_api() {
    let input = chat(&json!({"messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a.b", "arguments": ""}}]},
        {"role": "tool", "tool_call_id": "1", "content": "r"},
    ]}));
    let to = home();
    let body = value(&plain(&input, &to));
    assert_eq!(body["messages"][1]["content"][0]["name"], "a_b");
    assert_eq!(body["tools"][0]["name"], "a_b");
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    let none = ModelRequest {
        tools: OfferedTools::Ours(Vec::new()),
        ..plain(&input, &to)
    };
    assert_eq!(value(&none)["tools"][0]["name"], "a_b");
}
