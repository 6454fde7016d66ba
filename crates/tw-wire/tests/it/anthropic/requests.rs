//! Requests of clients: what is read, what is refused, and what goes to an upstream of the same format.

use std::sync::Arc;

use tw_core::accepts::{Accepts, FieldRule};
use tw_core::history;
use tw_core::json::shared::SharedText;
use tw_core::json::{Json, Literal};
use tw_core::limits::RequestLimits;
use tw_core::native::AnswerOrigin;
use tw_core::request::{
    Block, CallBlock, ChoiceSent, Message, ModelInput, ModelRequest, OfferedTools, ReasoningBlock,
    ResultBlock, Role, RoundSent, ToolChoice,
};
use tw_core::request_settings::{ReasoningSettings, StructuredOutput};
use tw_wire::anthropic_messages::{FORMAT, THINKING, request};
use tw_wire::crossing;
use tw_wire::openai_chat;

pub fn decode(body: &str) -> ModelInput {
    let source = SharedText::from(body);
    request::decode(&source, &RequestLimits::defaults()).expect("a request")
}

pub fn home() -> AnswerOrigin {
    AnswerOrigin {
        format: FORMAT,
        upstream: "a".into(),
        model: "claude-sonnet-4-5".into(),
    }
}

pub fn elsewhere() -> AnswerOrigin {
    AnswerOrigin {
        upstream: "b".into(),
        ..home()
    }
}

/// The request of a turn's first round, with the history as it came.
pub fn plain<'a>(input: &'a ModelInput, to: &'a AnswerOrigin) -> ModelRequest<'a> {
    ModelRequest {
        input,
        messages: input.messages.iter().collect(),
        to,
        tools: OfferedTools::AsSent,
        tool_choice: ChoiceSent::AsSent,
        rounds: Vec::new(),
        completion_tokens_left: None,
        ask_usage: true,
    }
}

pub fn sent(request: &ModelRequest<'_>) -> String {
    let body = request::encode(request, &Accepts::everything());
    String::from_utf8(body).expect("UTF-8")
}

/// A request with these messages and nothing else that is not needed.
fn with_messages(messages: &str) -> String {
    format!(r#"{{"messages":[{messages}],"model":"claude-sonnet-4-5","max_tokens":9}}"#)
}

#[test]
fn every_field_is_read() {
    let input = decode(
        r#"{"model":"m","max_tokens":100,"stream":true,
        "system":[{"type":"text","text":"be kind","cache_control":{"type":"ephemeral"}}],
        "messages":[{"role":"user","content":"hi"}],
        "tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true},
                 {"type":"web_search_20250305","name":"web_search","max_uses":2},
                 {"type":"mcp_toolset","mcp_server_name":"x"}],
        "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},
        "metadata":{"user_id":"u"},"stop_sequences":["END"],"temperature":0.5,"top_p":0.9,"top_k":5,
        "thinking":{"type":"enabled","budget_tokens":2000},
        "output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object"}}},
        "service_tier":"auto","container":"c"}"#,
    );
    assert_eq!(input.format, FORMAT);
    assert_eq!((input.model.as_str(), input.stream), ("m", true));
    assert_eq!(input.completion_tokens_max, Some(100));
    assert_eq!(
        input.instructions,
        [Block::Text(Literal::from_text("be kind"))]
    );
    assert_eq!(input.user.as_deref(), Some("u"));
    assert_eq!(input.tool_choice, ToolChoice::Named("f".to_owned()));
    assert!(input.is_structured && input.include_usage);
    let tools: Vec<(&str, bool, Option<bool>)> = input
        .tools
        .entries()
        .iter()
        .map(|entry| (entry.name.as_str(), entry.is_of_provider, entry.strict))
        .collect();
    assert_eq!(
        tools,
        [
            ("f", false, Some(true)),
            ("web_search", true, None),
            ("mcp_toolset tools[2]", true, None)
        ]
    );
    let settings = crossing::settings(&input);
    assert_eq!(settings.stop, ["END"]);
    assert_eq!(settings.parallel_calls, Some(false));
    assert_eq!(
        settings.reasoning,
        ReasoningSettings {
            effort: Some("high".to_owned()),
            budget_tokens: Some(2000),
            summary: None
        }
    );
    assert!(matches!(
        settings.structured,
        Some(StructuredOutput::Schema {
            strict: Some(true),
            ..
        })
    ));
    assert_eq!(settings.service_tier.as_deref(), Some("auto"));
    assert_eq!(settings.without_equal, ["container"]);
    let numbers = [settings.temperature, settings.top_p, settings.top_k];
    let numbers = numbers.map(|json| json.map(|json| json.as_str().to_owned()));
    assert_eq!(
        numbers,
        ["0.5", "0.9", "5"].map(|text| Some(text.to_owned()))
    );
}

#[test]
fn the_choice_is_read_in_every_form() {
    let rows = [
        (r#"{"type":"auto"}"#, ToolChoice::Auto),
        (r#"{"type":"any"}"#, ToolChoice::Required),
        (r#"{"type":"none"}"#, ToolChoice::None),
        (
            r#"{"type":"tool","name":"f"}"#,
            ToolChoice::Named("f".to_owned()),
        ),
        (
            r#"{"type":"new"}"#,
            ToolChoice::Other(Json::of_read(r#"{"type":"new"}"#)),
        ),
        ("null", ToolChoice::Absent),
    ];
    for (choice, read) in rows {
        let body = format!(
            r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"a"}}],"tool_choice":{choice}}}"#
        );
        assert_eq!(decode(&body).tool_choice, read, "{choice}");
    }
}

#[test]
fn messages_are_read_as_blocks() {
    let input = decode(&with_messages(
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"http://x"}}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},
            {"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"f","input":{"x": 1}},{"type":"tool_use","id":"2","name":"g","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","is_error":true},
            {"type":"tool_result","tool_use_id":"2","content":[{"type":"text","text":"q"}]},{"type":"text","text":"and"}]}"#,
    ));
    let roles: Vec<Role> = input.messages.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [
            Role::User,
            Role::Assistant,
            Role::Tool,
            Role::Tool,
            Role::User
        ]
    );
    let [user, assistant, first, second, rest] = input.messages.as_slice() else {
        panic!("five messages")
    };
    assert!(matches!(&user.blocks[1], Block::Part(part) if part.url.is_some()));
    let text = Literal::from_text;
    let call = |id: &str, name: &str, arguments: &str| {
        Block::Call(CallBlock {
            id: id.to_owned(),
            name: name.to_owned(),
            form: tw_core::model::CallForm::Function,
            arguments: text(arguments),
            native: None,
        })
    };
    assert_eq!(
        assistant.blocks[0],
        Block::Reasoning(ReasoningBlock {
            signature: Some(text("s")),
            ..ReasoningBlock::of(THINKING, text("hm"))
        })
    );
    assert!(matches!(&assistant.blocks[1], Block::Native(part) if part.format == FORMAT));
    assert_eq!(
        assistant.blocks[2..],
        [
            Block::Text(text("t")),
            call("1", "f", r#"{"x": 1}"#),
            call("2", "g", "{}")
        ]
    );
    let result = |id: &str, said: &str, is_error| {
        [Block::Result(ResultBlock {
            is_error,
            ..ResultBlock::of_text(id, text(said))
        })]
    };
    assert_eq!(first.blocks, result("1", "r", true));
    assert_eq!(second.blocks, result("2", "q", false));
    assert_eq!(rest.blocks, [Block::Text(text("and"))]);
    assert!(
        history::repaired(&input.messages).0.is_none(),
        "it is in order"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let user = r#"{"role":"user","content":"a"}"#;
    let rows = [
        (r#"{"max_tokens":1,"messages":[]}"#.to_owned(), "model"),
        (
            format!(r#"{{"model":"","max_tokens":1,"messages":[{user}]}}"#),
            "model",
        ),
        (
            format!(r#"{{"model":"m","messages":[{user}]}}"#),
            "max_tokens",
        ),
        (
            format!(r#"{{"model":"m","max_tokens":0,"messages":[{user}]}}"#),
            "max_tokens",
        ),
        (
            format!(r#"{{"model":"m","max_tokens":"1","messages":[{user}]}}"#),
            "max_tokens",
        ),
        (
            format!(
                r#"{{"model":"m","max_tokens":1,"thread":{{"type":"create"}},"messages":[{user}]}}"#
            ),
            "thread",
        ),
        (
            r#"{"model":"m","max_tokens":1,"messages":[]}"#.to_owned(),
            "messages",
        ),
        (
            r#"{"model":"m","max_tokens":1,"messages":7}"#.to_owned(),
            "messages",
        ),
        (
            with_messages(r#"{"role":"tool","content":"a"}"#),
            "messages[0].role",
        ),
        (with_messages(r#"{"content":"a"}"#), "messages[0].role"),
        (with_messages(r#"{"role":"user"}"#), "messages[0].content"),
        (
            with_messages(r#"{"role":"user","content":7}"#),
            "messages[0].content",
        ),
        (
            with_messages(r#"{"role":"user","content":[7]}"#),
            "messages[0].content[0]",
        ),
        (
            with_messages(r#"{"role":"user","content":[{"text":"a"}]}"#),
            "messages[0].content[0].type",
        ),
        (
            with_messages(r#"{"role":"user","content":[{"type":"text"}]}"#),
            "messages[0].content[0].text",
        ),
        (
            with_messages(r#"{"role":"user","content":[{"type":"tool_result","content":"a"}]}"#),
            "messages[0].content[0].tool_use_id",
        ),
        (
            with_messages(
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":1}]}]}"#,
            ),
            "messages[0].content[0].content[0].text",
        ),
        (
            with_messages(
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":1}]}"#,
            ),
            "messages[0].content[0].is_error",
        ),
        (
            with_messages(
                r#"{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}"#,
            ),
            "messages[0].content[0].id",
        ),
        (
            with_messages(r#"{"role":"user","role":"user","content":"a"}"#),
            "messages[0].role",
        ),
        (
            format!(
                r#"{{"model":"m","max_tokens":1,"messages":[{user}],"system":[{{"type":"text"}}]}}"#
            ),
            "system[0].text",
        ),
        (
            format!(
                r#"{{"model":"m","max_tokens":1,"messages":[{user}],"tools":[{{"name":"f"}}]}}"#
            ),
            "tools[0].input_schema",
        ),
        (
            format!(
                r#"{{"model":"m","max_tokens":1,"messages":[{user}],"tools":[{{"name":"a b","input_schema":{{}}}}]}}"#
            ),
            "tools[0].name",
        ),
        (
            format!(
                r#"{{"model":"m","max_tokens":1,"messages":[{user}],"tools":[{{"name":"f","input_schema":[]}}]}}"#
            ),
            "tools[0].input_schema",
        ),
        (
            format!(r#"{{"model":"m","max_tokens":1,"messages":[{user}],"tool_choice":"auto"}}"#),
            "tool_choice",
        ),
        (
            format!(
                r#"{{"model":"m","max_tokens":1,"messages":[{user}],"metadata":{{"user_id":1}}}}"#
            ),
            "metadata.user_id",
        ),
        (
            format!(r#"{{"model":"m","max_tokens":1,"messages":[{user}],"stream":1}}"#),
            "stream",
        ),
    ];
    for (body, param) in rows {
        let source = SharedText::from(body.as_str());
        let error = request::decode(&source, &RequestLimits::defaults()).expect_err(&body);
        assert_eq!(error.param.as_deref(), Some(param), "{body}");
        assert!(error.message.contains(param), "{} of {body}", error.message);
    }
}

#[test]
fn a_request_in_order_goes_on_byte_for_byte() {
    let rows = [
        r#"{"role":"user","content":"hi"}"#,
        r#"{"content": "hi" , "role":"user"},{"role":"assistant","content":"a "},{"role":"user","content":[ {"type":"text","text":"b","cache_control":{"type":"ephemeral"}} ]}"#,
        r#"{"role":"user","content":"a"},{"role":"user","content":"b"}"#,
        r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"new","x": 1},{"type":"tool_use","id":"1","name":"f","input":{"b":1.0,"a":2}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","cache_control":{"type":"ephemeral"}},{"type":"text","text":"and","x":1}]}"#,
        r#"{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"f"}}]},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"},{"type":"tool_result","tool_use_id":"2","content":[ ]}]},{"role":"user","content":"c"}"#,
    ];
    for messages in rows {
        let body = format!(
            r#"{{"messages":[{messages}],"model":"claude-sonnet-4-5","max_tokens":9,"tools":[{{"name":"f","input_schema":{{ }}}}],"tool_choice":{{"type":"auto"}},"thinking":{{"type":"enabled","budget_tokens":1}},"new":{{"x" : 1}}}}"#
        );
        let input = decode(&body);
        assert_eq!(sent(&plain(&input, &home())), body);
    }
}

#[test]
fn what_a_turn_changes_is_changed_and_nothing_else() {
    let body = r#"{"messages":[{"role":"user","content":"a"}],"max_tokens":5000,"model":"m","metadata":{"user_id":"u"},"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_tokens":3000,"display":"x"}}"#;
    let input = decode(body);
    let to = home();
    let blocks = [
        Block::Reasoning(ReasoningBlock {
            signature: Some(Literal::from_text("s")),
            ..ReasoningBlock::of(THINKING, Literal::from_text("hm"))
        }),
        Block::Call(CallBlock {
            id: "toolu_1".to_owned(),
            name: "f".to_owned(),
            form: tw_core::model::CallForm::Function,
            arguments: Literal::from_text(""),
            native: None,
        }),
    ];
    let mut request = ModelRequest {
        tool_choice: ChoiceSent::Auto,
        rounds: vec![RoundSent {
            assistant: &blocks,
            origin: Some(&to),
            results: vec![("toolu_1", "noon")],
        }],
        completion_tokens_left: Some(2000),
        ..plain(&input, &to)
    };
    let rest = r#""max_tokens":2000,"model":"claude-sonnet-4-5","metadata":{"user_id":"u"},"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true}"#;
    let thought = r#"{"type":"thinking","thinking":"hm","signature":"s"},"#;
    let messages = |thought: &str| {
        format!(
            r#""messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":[{thought}{{"type":"tool_use","id":"toolu_1","name":"f","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_1","content":"noon"}}]}}]"#
        )
    };
    assert_eq!(
        sent(&request),
        format!(
            r#"{{{},{rest},"thinking":{{"type":"enabled","budget_tokens":1999,"display":"x"}}}}"#,
            messages(thought)
        )
    );
    // Another upstream's thought goes to nobody, and without it the API takes no `thinking`.
    let other = elsewhere();
    request.rounds[0].origin = Some(&other);
    assert_eq!(sent(&request), format!("{{{},{rest}}}", messages("")));
    assert_eq!(
        request::changes(&request, &Accepts::everything()).to_string(),
        "thinking=1"
    );
    request.tool_choice = ChoiceSent::None;
    assert!(sent(&request).contains(r#""tool_choice":{"type":"none"}"#));
}

#[test]
fn changed_messages_keep_what_need_not_change() {
    let input = decode(&with_messages(
        r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"t","cache_control":{"x":1}},{"type":"tool_use","id":"old","name":"f","input":{"b":1.0},"caller":{"type":"direct"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"old","content":"r","y":2}]}"#,
    ));
    let to = home();
    let changed = |origin: Option<AnswerOrigin>| {
        let mut messages = input.messages.clone();
        for message in &mut messages[1..] {
            message.is_changed = true;
            for block in &mut message.blocks {
                match block {
                    Block::Call(call) => call.id = "new".to_owned(),
                    Block::Result(result) => result.call_id = "new".to_owned(),
                    _ => {}
                }
            }
        }
        messages[1].blocks.insert(
            0,
            Block::Reasoning(ReasoningBlock {
                signature: Some(Literal::from_text("s")),
                ..ReasoningBlock::of(THINKING, Literal::from_text("hm"))
            }),
        );
        messages[1].origin = origin.map(Arc::new);
        let request = ModelRequest {
            messages: messages.iter().collect(),
            ..plain(&input, &to)
        };
        sent(&request)
    };
    let expected = |thought: &str| {
        with_messages(&format!(
            r#"{{"role":"user","content":"a"}},{{"role":"assistant","content":[{thought}{{"type":"text","text":"t","cache_control":{{"x":1}}}},{{"type":"tool_use","id":"new","name":"f","input":{{"b":1.0}},"caller":{{"type":"direct"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"new","content":"r","y":2}}]}}"#
        ))
        .replace(
            r#""max_tokens":9}"#,
            r#""max_tokens":9,"tools":[{"name":"f","description":"This tool cannot be called now.","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"}}"#,
        )
    };
    let thought = r#"{"type":"thinking","thinking":"hm","signature":"s"},"#;
    assert_eq!(changed(Some(home())), expected(thought));
    assert_eq!(changed(Some(elsewhere())), expected(""));
}

#[test]
fn a_history_with_calls_has_tools() {
    let history = r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}"#;
    let past = r#""tools":[{"name":"f","description":"This tool cannot be called now.","input_schema":{"type":"object"}}]"#;
    let none = r#""tool_choice":{"type":"none"}"#;
    let rows = [
        ("", ",".to_owned() + past + "," + none),
        (",\"tools\":[]", ",".to_owned() + past + "," + none),
        (
            ",\"tools\":[],\"tool_choice\":{\"type\":\"any\"}",
            ",".to_owned() + past + "," + none,
        ),
        (
            ",\"tools\":[{\"name\":\"g\",\"input_schema\":{}}]",
            ",\"tools\":[{\"name\":\"g\",\"input_schema\":{}}]".to_owned(),
        ),
    ];
    for (fields, expected) in rows {
        let with = |fields: &str| with_messages(history).replace(":9}", &format!(":9{fields}}}"));
        let input = decode(&with(fields));
        assert_eq!(sent(&plain(&input, &home())), with(&expected), "{fields}");
    }
    let input = decode(&with_messages(r#"{"role":"user","content":"a"}"#));
    let to = home();
    let ours = ModelRequest {
        tools: OfferedTools::Ours(Vec::new()),
        ..plain(&input, &to)
    };
    assert!(!sent(&ours).contains("tool"));
}

#[test]
fn calls_that_this_server_ran_go_back_as_what_they_were() {
    let id = "mcptoolu_0190aaaabbbb7ccc8dddeeeeffff0009";
    let input = decode(&with_messages(&format!(
        r#"{{"role":"user","content":"a"}},{{"role":"assistant","content":[{{"type":"text","text":"t"}},{{"type":"mcp_tool_use","id":"{id}","name":"time_now","server_name":"turnwright","input":{{"a": 1}}}},{{"type":"mcp_tool_result","tool_use_id":"{id}","is_error":false,"content":[{{"type":"text","text":"noon"}}]}},{{"type":"text","text":"u"}}]}},{{"role":"user","content":"b"}}"#
    )));
    let sent = sent(&plain(&input, &home()));
    let messages = format!(
        r#"{{"role":"user","content":"a"}},{{"role":"assistant","content":[{{"type":"text","text":"t"}},{{"type":"tool_use","id":"{id}","name":"time_now","input":{{"a": 1}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","is_error":false,"content":[{{"type":"text","text":"noon"}}]}}]}},{{"role":"assistant","content":[{{"type":"text","text":"u"}}]}},{{"role":"user","content":"b"}}"#
    );
    assert!(sent.contains(&messages), "{sent}");
    assert!(
        sent.contains(r#""name":"time_now","description""#),
        "{sent}"
    );
}

#[test]
fn thoughts_of_other_formats_do_not_go_to_the_api() {
    let input = decode(&with_messages(
        r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"t"}]},{"role":"user","content":"b"}"#,
    ));
    assert_eq!(
        sent(&plain(&input, &home())),
        with_messages(
            r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"t"}]},{"role":"user","content":"b"}"#
        )
    );
}

#[test]
fn results_that_were_moved_or_added_stand_behind_their_calls() {
    let input = decode(&with_messages(
        r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]},{"role":"user","content":"b"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"two"},{"type":"tool_result","tool_use_id":"9","content":"orphan"},{"type":"text","text":"c"}]}"#,
    ));
    let (repaired, repairs) = history::repair(input.messages.clone());
    assert_eq!(
        (
            repairs.moved_results,
            repairs.missing_results,
            repairs.orphan_results
        ),
        (1, 1, 1)
    );
    let to = home();
    let request = ModelRequest {
        messages: repaired.iter().collect(),
        ..plain(&input, &to)
    };
    let body: serde_json::Value = serde_json::from_str(&sent(&request)).expect("JSON");
    let results = &body["messages"][2]["content"];
    assert_eq!(results[0]["tool_use_id"], "1");
    assert_eq!(results[1]["content"], "two");
    assert_eq!(results.as_array().map(Vec::len), Some(2));
    assert_eq!(body["messages"][3]["content"], "b");
    assert_eq!(body["messages"][4]["content"][0]["text"], "c");
    assert_eq!(
        body["messages"][4]["content"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn fields_are_left_out_or_renamed_as_the_upstream_says() {
    let mut accepts = Accepts::everything();
    accepts.fields.insert("top_k".into(), FieldRule::LeftOut);
    accepts
        .fields
        .insert("effort".into(), FieldRule::Renamed("strength".into()));
    let body = with_messages(r#"{"role":"user","content":"a"}"#)
        .replace(":9}", r#":9,"top_k":1,"effort":2}"#);
    let input = decode(&body);
    let to = home();
    let sent = request::encode(&plain(&input, &to), &accepts);
    let expected = body.replace(r#""top_k":1,"effort""#, r#""strength""#);
    assert_eq!(String::from_utf8(sent).expect("UTF-8"), expected);
}

#[test]
fn an_input_that_is_no_object_becomes_one() {
    let input = decode(&with_messages(
        r#"{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":"{\"x\":1}"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"}]}"#,
    ));
    assert!(sent(&plain(&input, &home())).contains(r#""input":{"x":1}"#));
}

#[test]
fn requests_of_chat_completions_say_the_same_settings() {
    let source = SharedText::from(
        r#"{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":1.5,"stop":"x","seed":1,"reasoning_effort":"low",
        "parallel_tool_calls":false,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}},
        "logit_bias":{"1":1},"logprobs":true,"n":1,"user":"u","top_p":null}"#,
    );
    let input = openai_chat::request::decode_shared(&source, &RequestLimits::defaults())
        .expect("a request");
    let settings = crossing::settings(&input);
    assert_eq!(settings.temperature, Some(Json::of_read("1.5")));
    assert_eq!(settings.top_p, None);
    assert_eq!(settings.stop, ["x"]);
    assert_eq!(settings.parallel_calls, Some(false));
    assert_eq!(settings.reasoning.effort.as_deref(), Some("low"));
    assert_eq!(settings.top_logprobs, Some(Json::of_read("0")));
    assert_eq!(settings.without_equal, ["logit_bias"]);
    let expected = StructuredOutput::Schema {
        name: "n".to_owned(),
        description: None,
        schema: Json::of_read(r#"{"type":"object"}"#),
        strict: Some(true),
    };
    assert_eq!(settings.structured, Some(expected));
}

#[test]
fn hostile_requests_do_no_harm() {
    let values = [
        "7",
        "[]",
        "{}",
        "\"\\ud800\"",
        "[[]]",
        "[{\"type\":\"tool_use\"}]",
        "true",
    ];
    for name in [
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "metadata",
        "output_config",
        "stop_sequences",
        "max_tokens",
        "temperature",
        "cache_control",
    ] {
        for value in values {
            let body = format!(
                r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"a"}}],"{name}":{value}}}"#
            );
            let body = body.replacen(
                r#""messages":[{"role":"user","content":"a"}],"messages""#,
                r#""messages""#,
                1,
            );
            let source = SharedText::from(body.as_str());
            if let Ok(input) = request::decode(&source, &RequestLimits::defaults()) {
                let to = home();
                sent(&plain(&input, &to));
                crossing::settings(&input);
            }
        }
    }
    let message =
        |content: &str| with_messages(&format!(r#"{{"role":"assistant","content":{content}}}"#));
    for content in values {
        let source = SharedText::from(message(content).as_str());
        let _ = request::decode(&source, &RequestLimits::defaults());
    }
}

#[test]
fn the_ends_of_messages_are_those_of_the_body() {
    let body = with_messages(
        r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1"},{"type":"text","text":"c"}]}"#,
    );
    let ends = decode(&body).ends;
    assert_eq!(
        &body[..ends.before_answer.expect("one")],
        r#"{"messages":[{"role":"user","content":"a"}"#
    );
    assert!(body[..ends.last].ends_with(r#""text":"c"}]}"#));
}

#[test]
fn a_message_of_ours_is_no_message_of_the_client() {
    let input = decode(&with_messages(r#"{"role":"user","content":"a"}"#));
    let made = Message::made(Role::User, vec![Block::Text(Literal::from_text("b"))]);
    let to = home();
    let request = ModelRequest {
        messages: input.messages.iter().chain([&made]).collect(),
        ..plain(&input, &to)
    };
    assert!(sent(&request).contains(
        r#"[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}]"#
    ));
}
