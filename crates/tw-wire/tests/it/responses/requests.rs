//! Requests of clients.

use serde_json::{Value, json};
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::request::{Block, Message, Role, ToolChoice};
use tw_wire::client_request::RequestError;
use tw_wire::format::KeptItems;
use tw_wire::openai_responses::request::{ResponsesRequest, decode, item_references, with_items};
use tw_wire::stored::responses_options;

pub fn read(body: &Value) -> Result<ResponsesRequest, RequestError> {
    decode(
        &SharedText::new(body.to_string()),
        &RequestLimits::defaults(),
    )
}

fn with_input(input: Value) -> Value {
    json!({"model": "m", "input": input})
}

/// A message in few words.
fn shown(message: &Message) -> String {
    let role = match message.role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let blocks: Vec<String> = message.blocks.iter().map(shown_block).collect();
    format!("{role}: {}", blocks.join(" "))
}

fn shown_block(block: &Block) -> String {
    match block {
        Block::Text(text) => format!("{:?}", text.to_text()),
        Block::Refusal(text) => format!("refusal({})", text.to_text()),
        Block::Reasoning(thought) => {
            format!("{}({})", thought.place.as_str(), thought.text.to_text())
        }
        Block::Call(call) => format!("{}({}={})", call.name, call.id, call.arguments.to_text()),
        Block::Result(result) => {
            let content: Vec<String> = result.content.iter().map(shown_block).collect();
            let mark = if result.is_error { "!" } else { "" };
            format!("{}{mark}=>{}", result.call_id, content.join("+"))
        }
        Block::Part(part) => format!("{:?}", part.kind),
        Block::Native(part) => {
            format!("<{}>", part.json.to_value()["type"].as_str().unwrap_or(""))
        }
    }
}

const CALL: &str = "0192f0aa-0000-7000-8000-00000000000a";

#[test]
fn items_become_messages() {
    let plain = CALL.replace('-', "");
    let own = format!("mcp_{plain}");
    let own_call = json!({"type": "mcp_call", "id": own, "server_label": "turnwright", "name": "t",
        "arguments": "{}", "output": "5", "error": null, "status": "completed"});
    let failed = json!({"type": "mcp_call", "id": "mcp_x", "server_label": "turnwright", "name": "t",
        "arguments": "{}", "output": null, "error": "no"});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"});
    let rows: Vec<(Value, Vec<String>)> = vec![
        (json!("hi"), vec!["user: \"hi\"".into()]),
        (
            json!([{"role": "system", "content": "s"}, {"role": "developer", "content": "d"},
                   {"type": "message", "role": "user", "content": [
                        {"type": "input_text", "text": "t"},
                        {"type": "input_image", "image_url": "https://a/b.png", "detail": "auto"},
                        {"type": "input_file", "file_id": "f"}]}]),
            vec![
                "system: \"s\"".into(),
                "developer: \"d\"".into(),
                "user: \"t\" Image File".into(),
            ],
        ),
        (
            json!([{"role": "user", "content": "q"},
                   {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}], "encrypted_content": "E"},
                   {"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "w", "annotations": []}]},
                   call,
                   {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "free"},
                   {"type": "function_call_output", "call_id": "c1", "output": "1"},
                   {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "x"}, {"type": "input_image", "file_id": "i"}]},
                   {"role": "assistant", "content": "done"}]),
            vec![
                "user: \"q\"".into(),
                "assistant: reasoning_summary(a\n\nb) \"w\" <message> f(c1={}) <function_call> g(c2=free) <custom_tool_call>".into(),
                "tool: c1=>\"1\"".into(),
                "tool: c2=>\"x\"+Image".into(),
                "assistant: \"done\" <>".into(),
            ],
        ),
        (
            json!([{"role": "user", "content": "q"}, own_call, failed, {"role": "assistant", "content": "a"}, call]),
            vec![
                "user: \"q\"".into(),
                format!("assistant: t(call_{plain}={{}}) t(mcp_x={{}})"),
                format!("tool: call_{plain}=>\"5\""),
                "tool: mcp_x!=>\"no\"".into(),
                "assistant: \"a\" <> f(c1={}) <function_call>".into(),
            ],
        ),
        (
            json!([{"type": "mcp_list_tools", "server_label": "turnwright", "tools": []},
                   {"type": "mcp_call", "id": "x", "server_label": "other", "name": "t", "arguments": "{}", "output": "5"},
                   {"type": "web_search_call", "id": "ws", "status": "completed"},
                   {"type": "computer_call", "call_id": "c", "action": {}},
                   {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "data:"}},
                   {"type": "mcp_approval_response", "approval_request_id": "mcpr_theirs", "approve": true},
                   {"type": "compaction", "encrypted_content": "E"},
                   {"role": "user", "content": []}]),
            vec![
                "assistant: <mcp_call> <web_search_call> <computer_call>".into(),
                "user: <computer_call_output>".into(),
                "user: <mcp_approval_response>".into(),
                "assistant: <compaction>".into(),
                "user: ".into(),
            ],
        ),
        (
            json!([{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]),
            vec!["assistant: refusal(no) <>".into()],
        ),
    ];
    for (input, expected) in rows {
        let request = read(&with_input(input.clone())).expect("a request");
        let messages: Vec<String> = request.input.messages.iter().map(shown).collect();
        assert_eq!(messages, expected, "{input}");
    }
}

/// What a history with a question of ours becomes, and which answers are to be acted on.
#[test]
fn answers_to_questions_of_ours_are_told() {
    let plain = CALL.replace('-', "");
    let id = format!("mcpr_{plain}");
    let asked = json!({"type": "mcp_approval_request", "id": id, "server_label": "turnwright", "name": "t", "arguments": "{}"});
    let answer = json!({"type": "mcp_approval_response", "approval_request_id": id, "approve": false, "reason": "no"});
    let ran = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "turnwright", "name": "t", "arguments": "{}",
                     "approval_request_id": id, "output": "5"});
    let (user, said) = (
        json!({"role": "user", "content": "q"}),
        json!({"role": "assistant", "content": "a"}),
    );
    let call = format!("assistant: t(call_{plain}={{}})");
    let open = format!("tool: call_{plain}=>\"Nobody approved this call, so it was not run.\"");
    let done = format!("tool: call_{plain}=>\"5\"");
    let (q, a) = ("user: \"q\"".to_owned(), "assistant: \"a\" <>".to_owned());
    for (input, messages, answers, awaits) in [
        (
            json!([asked, answer]),
            vec![call.clone(), open.clone()],
            1,
            1,
        ),
        (
            json!([asked, answer, user]),
            vec![call.clone(), open.clone(), q.clone()],
            1,
            1,
        ),
        (
            json!([asked, user]),
            vec![call.clone(), open.clone(), q.clone()],
            0,
            1,
        ),
        // What the model said behind it shows that it was acted on.
        (
            json!([asked, answer, said]),
            vec![call.clone(), open, a.clone()],
            0,
            1,
        ),
        (
            json!([asked, answer, ran]),
            vec![call.clone(), done.clone()],
            0,
            0,
        ),
        (
            json!([asked, answer, ran, said, user]),
            vec![call, done, a, q],
            0,
            0,
        ),
        // A call that ran by a question which is not there is a call like any other.
        (
            json!([ran]),
            vec!["assistant: t(mcp_1={})".into(), "tool: mcp_1=>\"5\"".into()],
            0,
            0,
        ),
        (json!([answer]), vec![], 1, 0),
    ] {
        let request = read(&with_input(input.clone())).expect("a request");
        let got: Vec<String> = request.input.messages.iter().map(shown).collect();
        assert_eq!(got, messages, "{input}");
        let of_calls = request
            .input
            .messages
            .iter()
            .filter(|message| message.awaits.is_some());
        let told = (request.options.approvals.len(), of_calls.count());
        assert_eq!(told, (answers, awaits), "{input}");
        for answer in &request.options.approvals {
            assert_eq!(
                (answer.request_id.as_str(), answer.approve),
                (id.as_str(), false)
            );
            assert_eq!(answer.reason.as_deref(), Some("no"));
        }
    }
    for (wrong, code) in [
        (json!([asked, answer, answer]), "invalid_value"),
        (
            json!([asked, {"type": "mcp_approval_response", "approval_request_id": id}]),
            "missing_required_parameter",
        ),
        (
            json!([asked, {"type": "mcp_approval_response", "approval_request_id": id, "approve": 1}]),
            "invalid_type",
        ),
        (
            json!([asked, {"type": "mcp_approval_response", "approval_request_id": id, "approve": true, "reason": 1}]),
            "invalid_type",
        ),
    ] {
        let error = read(&with_input(wrong.clone())).expect_err("no request");
        assert_eq!(error.code, Some(code), "{wrong}");
    }
}

#[test]
fn references_stand_for_their_items() {
    let body = with_input(json!([
        {"role": "user", "content": "q"},
        {"type": "item_reference", "id": "msg_1"},
        {"id": "msg_2"},
        {"role": "user", "content": "r"},
    ]));
    let source = SharedText::new(body.to_string());
    assert_eq!(item_references(&source), ["msg_1", "msg_2"]);
    let limits = RequestLimits::defaults();
    let error = decode(&source, &limits).expect_err("nothing is known");
    assert_eq!(error.message, "Item with id 'msg_1' not found.");
    let item = |json: Value| tw_core::json::Json::from_value(&json);
    let known = KeptItems::from([
        (
            "msg_1".to_owned(),
            item(json!({"type": "message", "role": "assistant", "content": "a"})),
        ),
        (
            "msg_2".to_owned(),
            item(json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})),
        ),
    ]);
    let whole = with_items(&source, &known);
    assert_eq!(item_references(&whole), [""; 0]);
    let request = decode(&whole, &limits).expect("a request");
    let messages: Vec<String> = request.input.messages.iter().map(shown).collect();
    assert_eq!(
        messages,
        [
            "user: \"q\"",
            "assistant: \"a\" <message> f(c={}) <function_call>",
            "user: \"r\"",
        ]
    );
}

#[test]
fn ends_of_messages_are_places_in_the_body() {
    let body = r#"{"model":"m","input":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":""},{"type":"function_call_output","call_id":"c","output":"1"}],"store":true}"#;
    let request = decode(&SharedText::from(body), &RequestLimits::defaults()).expect("a request");
    let ends = request.input.ends;
    let before = ends.before_answer.expect("a message before the answer");
    assert!(body[..before].ends_with(r#""content":"q"}"#));
    assert!(body[..ends.last].ends_with(r#""output":"1"}"#));
}

#[test]
fn bad_requests_are_told_where_they_are_wrong() {
    let item = |item: Value| with_input(json!([item]));
    let rows: Vec<(Value, &str, &str)> = vec![
        (json!({"input": "x"}), "model", "missing_required_parameter"),
        (json!({"model": 5, "input": "x"}), "model", "invalid_type"),
        (json!({"model": "m"}), "input", "missing_required_parameter"),
        (with_input(json!(5)), "input", "invalid_type"),
        (with_input(json!([])), "input", "empty_array"),
        (with_input(json!(["x"])), "input[0]", "invalid_type"),
        (
            item(json!({"role": "robot", "content": "x"})),
            "input[0].role",
            "invalid_value",
        ),
        (
            item(json!({"role": "user"})),
            "input[0].content",
            "missing_required_parameter",
        ),
        (
            item(json!({"role": "user", "content": 7})),
            "input[0].content",
            "invalid_type",
        ),
        (
            item(json!({"role": "user", "content": [{"text": "x"}]})),
            "input[0].content[0].type",
            "missing_required_parameter",
        ),
        (
            item(json!({"role": "user", "content": [{"type": "input_text"}]})),
            "input[0].content[0].text",
            "missing_required_parameter",
        ),
        (
            item(json!({"role": "user", "content": [{"type": "input_image"}]})),
            "input[0].content[0].image_url",
            "missing_required_parameter",
        ),
        (item(json!({"type": 5})), "input[0].type", "invalid_type"),
        (
            item(json!({"x": 5})),
            "input[0].type",
            "missing_required_parameter",
        ),
        (
            item(json!({"type": "function_call", "name": "f"})),
            "input[0].call_id",
            "missing_required_parameter",
        ),
        (
            item(json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}})),
            "input[0].arguments",
            "invalid_type",
        ),
        (
            item(json!({"type": "function_call_output", "call_id": "c"})),
            "input[0].output",
            "missing_required_parameter",
        ),
        (
            json!({"model": "m", "input": "x", "tools": 5}),
            "tools",
            "invalid_type",
        ),
        (
            json!({"model": "m", "input": "x", "tools": [{"name": "f"}]}),
            "tools[0].type",
            "missing_required_parameter",
        ),
        (
            json!({"model": "m", "input": "x", "tools": [{"type": "function"}]}),
            "tools[0].name",
            "missing_required_parameter",
        ),
        (
            json!({"model": "m", "input": "x", "tools": [{"type": "function", "name": "a b"}]}),
            "tools[0].name",
            "invalid_value",
        ),
        (
            json!({"model": "m", "input": "x", "tools": [{"type": "function", "name": "a", "parameters": 3}]}),
            "tools[0].parameters",
            "invalid_type",
        ),
        (
            json!({"model": "m", "input": "x", "tool_choice": "any"}),
            "tool_choice",
            "invalid_value",
        ),
        (
            json!({"model": "m", "input": "x", "tool_choice": {"name": "f"}}),
            "tool_choice.type",
            "missing_required_parameter",
        ),
        (
            json!({"model": "m", "input": "x", "tool_choice": {"type": "allowed_tools", "mode": "auto"}}),
            "tool_choice.tools",
            "missing_required_parameter",
        ),
        (
            json!({"model": "m", "input": "x", "stream": "yes"}),
            "stream",
            "invalid_type",
        ),
        (
            json!({"model": "m", "input": "x", "temperature": "hot"}),
            "temperature",
            "invalid_type",
        ),
        (
            json!({"model": "m", "input": "x", "truncation": "some"}),
            "truncation",
            "invalid_value",
        ),
        (
            json!({"model": "m", "input": "x", "metadata": {"a": 1}}),
            "metadata.a",
            "invalid_type",
        ),
        (
            json!({"model": "m", "input": "x", "max_tool_calls": 0}),
            "max_tool_calls",
            "invalid_value",
        ),
        (
            json!({"model": "m", "input": "x", "max_output_tokens": -5}),
            "max_output_tokens",
            "invalid_type",
        ),
        (
            json!({"model": "m", "input": "x", "text": {"format": {}}}),
            "text.format.type",
            "missing_required_parameter",
        ),
        (
            json!({"model": "m", "input": "x", "include": "all"}),
            "include",
            "invalid_type",
        ),
        (
            json!({"model": "m", "input": "x", "instructions": ["x"]}),
            "instructions",
            "invalid_type",
        ),
        (
            json!({"model": "m", "previous_response_id": "resp_1", "conversation": "conv_1"}),
            "previous_response_id",
            "mutually_exclusive_parameters",
        ),
    ];
    for (body, param, code) in rows {
        let error = read(&body).expect_err("a bad request");
        assert_eq!(error.param.as_deref(), Some(param), "{body}: {error}");
        assert_eq!(error.code, Some(code), "{body}: {error}");
    }
}

#[test]
fn limits_of_a_request_hold() {
    let limits = RequestLimits {
        messages_max: 2,
        ..RequestLimits::defaults()
    };
    let many = with_input(
        json!([{"role": "user", "content": "1"}, {"role": "user", "content": "2"}, {"role": "user", "content": "3"}]),
    );
    let error = decode(&SharedText::new(many.to_string()), &limits).expect_err("too many");
    assert_eq!(error.code, Some("array_above_max_length"));
    let deep = format!(
        "{{\"model\":\"m\",\"input\":{}{}}}",
        "[".repeat(100),
        "]".repeat(100)
    );
    let error = decode(&SharedText::new(deep), &RequestLimits::defaults()).expect_err("too deep");
    assert!(error.message.contains("nested deeper"), "{error}");
    let broken = [
        "",
        "[]",
        "5",
        "{\"model\"",
        "{\"model\":\"m\",\"model\":\"m\"}",
    ];
    for body in broken {
        decode(&SharedText::from(body), &RequestLimits::defaults()).expect_err(body);
    }
}

#[test]
fn settings_of_a_response_are_read() {
    let body = json!({
        "model": "m", "input": "x", "instructions": "be", "stream": true, "store": false, "user": "u",
        "safety_identifier": "s", "max_output_tokens": 50, "max_tool_calls": 3, "background": true,
        "previous_response_id": "resp_1", "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}, {"type": "custom", "name": "c"}],
        "tool_choice": {"type": "function", "name": "f"}, "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        "temperature": 0.50, "metadata": {"k": "v"},
    });
    let ResponsesRequest { input, options } = read(&body).expect("a request");
    assert!(input.stream && input.is_structured && input.store == Some(false));
    assert_eq!(input.user.as_deref(), Some("s"));
    assert_eq!(input.completion_tokens_max, Some(50));
    assert_eq!(input.instructions.len(), 1);
    assert_eq!(input.tool_choice, ToolChoice::Named("f".to_owned()));
    let tools: Vec<(&str, bool)> = input
        .tools
        .entries()
        .iter()
        .map(|entry| (entry.name.as_str(), entry.is_of_provider))
        .collect();
    assert_eq!(
        tools,
        [("f", false), ("web_search tools[1]", true), ("c", false)]
    );
    assert!(options.background);
    assert_eq!(options.max_tool_calls, Some(3));
    assert_eq!(options.previous_response_id.as_deref(), Some("resp_1"));
    let echo = |name: &str| {
        let found = options.echo.iter().find(|(have, _)| **have == *name);
        found.map(|(_, value)| value.as_str().to_owned())
    };
    assert_eq!(echo("temperature").as_deref(), Some("0.5"));
    assert_eq!(echo("top_p").as_deref(), Some("1.0"));
    let tools: Value = serde_json::from_str(&echo("tools").expect("tools")).expect("JSON");
    assert_eq!(
        tools[0],
        json!({"type": "function", "name": "f", "description": null, "parameters": null, "strict": null})
    );
    let text: Value = serde_json::from_str(&echo("text").expect("text")).expect("JSON");
    assert_eq!(
        text["format"],
        json!({"type": "json_schema", "name": "n", "schema": {}, "description": null, "strict": false})
    );
    let stored = responses_options::encode(&options);
    assert_eq!(responses_options::decode(&stored).expect("stored"), options);
}
