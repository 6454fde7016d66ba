use tw_core::accepts::{Accepts, FieldRule};
use tw_core::arguments::ArgumentsSchema;
use tw_core::json::{Json, Literal};
use tw_core::limits::RequestLimits;
use tw_core::model::CallForm;
use tw_core::request::{
    Block, CallBlock, ChoiceSent, Message, ModelInput, ModelRequest, OfferedTools, ReasoningBlock,
    Role, RoundSent,
};
use tw_core::tool::{CallPolicy, EffectClass, Tool, ToolKind};

use crate::openai_chat::content::part_block;
use crate::openai_chat::request::tests::home;
use crate::openai_chat::request::{decode, encode, encode_for};
use crate::openai_chat::{REASONING_CONTENT, THINKING_PART};

fn read(body: &str) -> ModelInput {
    decode(body.as_bytes(), &RequestLimits::defaults())
        .unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

/// A request with these fields behind a model and a message.
fn with(fields: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#)
}

fn request<'a>(input: &'a ModelInput) -> ModelRequest<'a> {
    ModelRequest {
        input,
        messages: input.messages.iter().collect(),
        to: home(&input.model),
        tools: OfferedTools::AsSent,
        tool_choice: ChoiceSent::AsSent,
        rounds: Vec::new(),
        completion_tokens_left: None,
        ask_usage: false,
    }
}

fn sent(request: &ModelRequest<'_>) -> String {
    String::from_utf8(encode(request)).expect("UTF-8 is sent")
}

fn tool(name: &str) -> Tool {
    let parameters =
        Json::parse(r#"{"type":"object","properties":{"zone":{"type":"string"}}}"#).expect("JSON");
    Tool {
        name: name.to_owned(),
        description: "Says the time.".to_owned(),
        schema: ArgumentsSchema::compile(&parameters).expect("a schema"),
        parameters,
        policy: CallPolicy::new(EffectClass::Read),
        kind: ToolKind::TimeNow,
        version: None,
    }
}

#[test]
fn untouched_fields_are_the_clients_bytes() {
    let body = concat!(
        r#"{"messages":[{"role":"user",  "content":"\u0041\/\ud83d\ude00", "z":1, "a":1.50}],"#,
        r#""zeta":123456789012345678901234567890.10,"model":"\u006d","alpha":{"b" : 1e400,"a":[ ]},"n":1,"#,
        r#""stream":true,"stream_options":{ "include_usage":false,"x":"\u00e9" },"temperature":0.70,"tools":null,"store":false}"#,
    );
    let input = read(body);
    assert_eq!(sent(&request(&input)), body);
}

#[test]
fn what_the_turn_decides_replaces_the_clients_fields_in_their_places() {
    let input = read(&with(
        r#""tools":[{"type":"function","function":{"name":"time_now"}}],"a":1,"tool_choice":"required","max_tokens":10,"stream":true,"stream_options":{"x":1,"include_usage":false}"#,
    ));
    let time = tool("time_now");
    let request = ModelRequest {
        to: home("upstream/m"),
        tools: OfferedTools::Ours(vec![&time]),
        tool_choice: ChoiceSent::Auto,
        completion_tokens_left: Some(4),
        ask_usage: true,
        ..request(&input)
    };
    assert_eq!(
        sent(&request),
        concat!(
            r#"{"messages":[{"role":"user","content":"hi"}],"model":"upstream/m","#,
            r#""tools":[{"type":"function","function":{"name":"time_now","description":"Says the time.","#,
            r#""parameters":{"type":"object","properties":{"zone":{"type":"string"}}}}}],"a":1,"tool_choice":"auto","#,
            r#""max_tokens":4,"stream":true,"stream_options":{"x":1,"include_usage":true}}"#
        )
    );
}

#[test]
fn what_the_client_left_out_is_added_once() {
    let input = read(&with(r#""stream":true,"tools":null,"stream_options":null"#));
    let time = tool("time_now");
    let request = ModelRequest {
        tools: OfferedTools::Ours(vec![&time]),
        tool_choice: ChoiceSent::None,
        ask_usage: true,
        ..request(&input)
    };
    let sent = sent(&request);
    for field in [
        "\"tools\":",
        "\"tool_choice\":\"none\"",
        "\"stream_options\":{\"include_usage\":true}",
    ] {
        assert_eq!(sent.matches(field).count(), 1, "{field} in {sent}");
    }
    assert!(serde_json::from_str::<serde_json::Value>(&sent).is_ok());
}

/// The rules, the fields that a client wrote, and those that are sent where this server's tools are offered and where
/// none are.
#[test]
fn fields_go_out_as_the_upstream_takes_them() {
    let rules = |rules: &[(&str, FieldRule)]| Accepts {
        fields: rules
            .iter()
            .map(|(name, rule)| ((*name).into(), rule.clone()))
            .collect(),
        ..Accepts::everything()
    };
    let renamed = FieldRule::Renamed("random_seed".into());
    for (accepts, written, with_tools, without) in [
        // Meant for the variables of this server's tools.
        (
            rules(&[]),
            r#""metadata":{"a":"b"}"#,
            "",
            r#""metadata":{"a":"b"}"#,
        ),
        (
            rules(&[]),
            r#""metadata":{"a":"b"},"store":false"#,
            r#""store":false"#,
            r#""metadata":{"a":"b"},"store":false"#,
        ),
        // Meant for the upstream to keep.
        (
            rules(&[]),
            r#""metadata":{"a":"b"},"store":true"#,
            r#""metadata":{"a":"b"},"store":true"#,
            r#""metadata":{"a":"b"},"store":true"#,
        ),
        (
            rules(&[("metadata", FieldRule::Sent)]),
            r#""metadata":{"a":"b"}"#,
            r#""metadata":{"a":"b"}"#,
            r#""metadata":{"a":"b"}"#,
        ),
        (
            rules(&[("metadata", FieldRule::LeftOut)]),
            r#""metadata":{"a":"b"},"store":true"#,
            r#""store":true"#,
            r#""store":true"#,
        ),
        (
            rules(&[("user", FieldRule::LeftOut)]),
            r#""user":"u","seed":1"#,
            r#""seed":1"#,
            r#""seed":1"#,
        ),
        (
            rules(&[("seed", renamed.clone())]),
            r#""seed":1.0"#,
            r#""random_seed":1.0"#,
            r#""random_seed":1.0"#,
        ),
        // What the client wrote under that name counts.
        (
            rules(&[("seed", renamed.clone())]),
            r#""seed":1,"random_seed":2"#,
            r#""random_seed":2"#,
            r#""random_seed":2"#,
        ),
    ] {
        let input = read(&with(written));
        let time = tool("time_now");
        let ours = ModelRequest {
            tools: OfferedTools::Ours(vec![&time]),
            ..request(&input)
        };
        for (request, expected) in [(ours, with_tools), (request(&input), without)] {
            let sent = String::from_utf8(encode_for(&request, &accepts)).unwrap();
            let whole = sent.strip_suffix('}').unwrap();
            let (_, fields) = whole.split_once(r#""model":"m""#).unwrap();
            let fields = fields.split(r#","tools":"#).next().unwrap();
            let expected = if expected.is_empty() {
                String::new()
            } else {
                format!(",{expected}")
            };
            assert_eq!(fields, expected, "{written}: {sent}");
        }
    }
}

#[test]
fn no_tools_means_no_choice_either() {
    let input = read(&with(
        r#""tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required","parallel_tool_calls":true,"a":1"#,
    ));
    let request = ModelRequest {
        tools: OfferedTools::Ours(Vec::new()),
        ..request(&input)
    };
    assert_eq!(
        sent(&request),
        r#"{"messages":[{"role":"user","content":"hi"}],"model":"m","a":1}"#
    );
}

#[test]
fn the_old_form_is_answered_in_the_old_form() {
    let input = read(&with(
        r#""functions":[{"name":"time_now"}],"function_call":"auto""#,
    ));
    let time = tool("time_now");
    let blocks = [Block::Call(CallBlock {
        id: "call_1".to_owned(),
        name: "time_now".to_owned(),
        form: CallForm::ByName,
        arguments: Literal::default(),
        native: None,
    })];
    let request = ModelRequest {
        tools: OfferedTools::Ours(vec![&time]),
        tool_choice: ChoiceSent::None,
        rounds: vec![RoundSent {
            assistant: &blocks,
            origin: None,
            results: vec![("call_1", "noon")],
        }],
        ..request(&input)
    };
    assert_eq!(
        sent(&request),
        concat!(
            r#"{"messages":[{"role":"user","content":"hi"},"#,
            r#"{"role":"assistant","content":null,"function_call":{"name":"time_now","arguments":"{}"}},"#,
            r#"{"role":"function","name":"time_now","content":"noon"}],"model":"m","#,
            r#""functions":[{"name":"time_now","description":"Says the time.","parameters":{"type":"object","properties":{"zone":{"type":"string"}}}}],"#,
            r#""function_call":"none"}"#
        )
    );
}

#[test]
fn rounds_go_back_with_their_own_ids() {
    let input = read(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let call = |id: &str, form, arguments: &str| {
        Block::Call(CallBlock {
            id: id.to_owned(),
            name: "f".to_owned(),
            form,
            arguments: Literal::from_text(arguments),
            native: None,
        })
    };
    let thought =
        |place, text: &str| Block::Reasoning(ReasoningBlock::of(place, Literal::from_text(text)));
    let first = [
        thought(REASONING_CONTENT, "h"),
        thought(REASONING_CONTENT, "m"),
        Block::Text(Literal::from_text("a\n")),
        Block::Text(Literal::from_text("b")),
        Block::Refusal(Literal::from_text("no")),
        call("c:0", CallForm::Function, "{\"x\":1}"),
        call("c:0", CallForm::Function, "{\"x\":"),
        call("c:1", CallForm::Function, " "),
        call("c:2", CallForm::Function, "[]"),
        call("c:3", CallForm::Custom, "4 + 4"),
    ];
    let second = [
        thought(THINKING_PART, "h"),
        thought(THINKING_PART, "m"),
        Block::Text(Literal::from_text("c")),
    ];
    let results = vec![
        ("c:0", "1"),
        ("c:0", "\"2\""),
        ("c:1", ""),
        ("c:2", "é"),
        ("c:3", "8"),
    ];
    let request = ModelRequest {
        rounds: vec![
            RoundSent {
                assistant: &first,
                origin: None,
                results,
            },
            RoundSent {
                assistant: &second,
                origin: None,
                results: Vec::new(),
            },
        ],
        ..request(&input)
    };
    assert_eq!(
        sent(&request),
        concat!(
            r#"{"messages":[{"role":"user","content":"hi"},"#,
            r#"{"role":"assistant","content":"a\nb","refusal":"no","reasoning_content":"hm","tool_calls":["#,
            r#"{"id":"c:0","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},"#,
            r#"{"id":"c:0","type":"function","function":{"name":"f","arguments":"{\"invalid_arguments\":\"{\\\"x\\\":\"}"}},"#,
            r#"{"id":"c:1","type":"function","function":{"name":"f","arguments":"{}"}},"#,
            r#"{"id":"c:2","type":"function","function":{"name":"f","arguments":"{\"invalid_arguments\":\"[]\"}"}},"#,
            r#"{"id":"c:3","type":"custom","custom":{"name":"f","input":"4 + 4"}}]},"#,
            r#"{"role":"tool","tool_call_id":"c:0","content":"1"},"#,
            r#"{"role":"tool","tool_call_id":"c:0","content":"\"2\""},"#,
            r#"{"role":"tool","tool_call_id":"c:1","content":""},"#,
            r#"{"role":"tool","tool_call_id":"c:2","content":"é"},"#,
            r#"{"role":"tool","tool_call_id":"c:3","content":"8"},"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"c"}]}],"#,
            r#""model":"m"}"#
        )
    );
}

#[test]
fn messages_of_ours_are_rendered() {
    let input = read(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let part = Json::parse(r#"{"type":"image_url","image_url":{"url":"x"}}"#).expect("JSON");
    let messages = [
        Message::made(Role::System, vec![Block::Text(Literal::from_text("s"))]),
        Message::made(
            Role::User,
            vec![
                Block::Text(Literal::from_text("u")),
                Block::Part(part_block(part)),
            ],
        ),
        input.messages[0].clone(),
    ];
    let request = ModelRequest {
        messages: messages.iter().collect(),
        ..request(&input)
    };
    assert_eq!(
        sent(&request),
        concat!(
            r#"{"messages":[{"role":"system","content":"s"},"#,
            r#"{"role":"user","content":[{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"x"}}]},"#,
            r#"{"role":"user","content":"hi"}],"model":"m"}"#
        )
    );
}
