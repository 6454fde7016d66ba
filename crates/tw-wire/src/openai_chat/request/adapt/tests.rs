use tw_core::accepts::{Accepts, ReasoningSent, SystemRole, TokenLimit};
use tw_core::json::{Json, Literal};
use tw_core::limits::RequestLimits;
use tw_core::native::NativePart;
use tw_core::request::{
    Block, ChoiceSent, Message, ModelInput, ModelRequest, OfferedTools, ReasoningBlock, Role,
    RoundSent,
};

use crate::openai_chat::request::tests::home;
use crate::openai_chat::request::{decode, differences, encode_for};
use crate::openai_chat::{FORMAT, REASONING, REASONING_CONTENT, THINKING_PART};

fn read(body: &str) -> ModelInput {
    decode(body.as_bytes(), &RequestLimits::defaults())
        .unwrap_or_else(|error| panic!("{body}: {error:?}"))
}

fn request(input: &ModelInput) -> ModelRequest<'_> {
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

/// What goes out of `body`.
fn sent(body: &str, accepts: &Accepts) -> String {
    let input = read(body);
    String::from_utf8(encode_for(&request(&input), accepts)).unwrap()
}

fn with_messages(messages: &str) -> String {
    format!(r#"{{"messages":[{messages}],"model":"m"}}"#)
}

fn system_role(system_role: SystemRole) -> Accepts {
    Accepts {
        system_role,
        ..Accepts::everything()
    }
}

fn token_limit(token_limit: TokenLimit) -> Accepts {
    Accepts {
        token_limit,
        ..Accepts::everything()
    }
}

fn reasoning(reasoning: ReasoningSent) -> Accepts {
    Accepts {
        reasoning,
        ..Accepts::everything()
    }
}

fn no_images() -> Accepts {
    Accepts {
        images_in_results: false,
        ..Accepts::everything()
    }
}

fn no_usage() -> Accepts {
    Accepts {
        usage_in_streams: false,
        ..Accepts::everything()
    }
}

const ODD: &str = concat!(
    r#"{"messages":[{ "role":"user", "content":"\u0041" },{"z":1.50,"role":"assistant","content":"b"}],"#,
    r#""model":"m","x":[1, 2]}"#
);

#[test]
fn what_need_not_differ_keeps_its_bytes() {
    for accepts in [
        system_role(SystemRole::Developer),
        token_limit(TokenLimit::MaxTokens),
        reasoning(ReasoningSent::Never),
        reasoning(ReasoningSent::Field(THINKING_PART)),
        no_images(),
        no_usage(),
    ] {
        assert_eq!(sent(ODD, &accepts), ODD, "{accepts:?}");
    }
}

#[test]
fn the_role_of_the_operator_is_the_upstreams_word() {
    let both = r#"{"content":"a","role":"system","name":"n"},{"role":"developer","content":"b"}"#;
    for (role, expected) in [
        (SystemRole::AsSent, both),
        (
            SystemRole::System,
            r#"{"content":"a","role":"system","name":"n"},{"role":"system","content":"b"}"#,
        ),
        (
            SystemRole::Developer,
            r#"{"content":"a","role":"developer","name":"n"},{"role":"developer","content":"b"}"#,
        ),
    ] {
        let got = sent(&with_messages(both), &system_role(role));
        assert_eq!(got, with_messages(expected));
    }
    // One of ours, which was never written.
    let input = read(&with_messages(r#"{"role":"user","content":"u"}"#));
    let said = vec![Block::Text(Literal::from_text("s"))];
    let ours = [Message::made(Role::System, said)];
    let request = ModelRequest {
        messages: ours.iter().collect(),
        ..request(&input)
    };
    let body = encode_for(&request, &system_role(SystemRole::Developer));
    let expected = with_messages(r#"{"role":"developer","content":"s"}"#);
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn the_limit_of_tokens_has_the_upstreams_name() {
    let with = |fields: &str| {
        format!(r#"{{"messages":[{{"role":"user","content":"u"}}],"model":"m",{fields}}}"#)
    };
    let (old, new) = (TokenLimit::MaxTokens, TokenLimit::MaxCompletionTokens);
    for (name, written, expected) in [
        (old, r#""max_tokens":5,"a":1"#, r#""max_tokens":5,"a":1"#),
        (
            new,
            r#""max_tokens":5,"a":1"#,
            r#""max_completion_tokens":5,"a":1"#,
        ),
        (old, r#""max_completion_tokens":5"#, r#""max_tokens":5"#),
        // What counts is what would have counted.
        (
            old,
            r#""max_tokens":5,"a":1,"max_completion_tokens":7"#,
            r#""max_tokens":7,"a":1"#,
        ),
        (
            new,
            r#""max_tokens":5,"max_completion_tokens":7"#,
            r#""max_completion_tokens":7"#,
        ),
        (
            TokenLimit::AsSent,
            r#""max_tokens":5,"max_completion_tokens":7"#,
            r#""max_tokens":5,"max_completion_tokens":7"#,
        ),
    ] {
        assert_eq!(sent(&with(written), &token_limit(name)), with(expected));
    }
    let input = read(&with(r#""max_tokens":9"#));
    let later = ModelRequest {
        completion_tokens_left: Some(4),
        ..request(&input)
    };
    let body = encode_for(&later, &token_limit(new));
    let expected = with(r#""max_completion_tokens":4"#);
    assert_eq!(String::from_utf8(body).unwrap(), expected);
}

#[test]
fn usage_is_not_asked_of_an_upstream_that_refuses_the_question() {
    let with = |fields: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"u"}}],"model":"m","stream":true{fields}}}"#
        )
    };
    for (written, expected) in [
        (r#","stream_options":{"include_usage":true}"#, ""),
        (
            r#","stream_options":{"x":1.0,"include_usage":true},"a":1"#,
            r#","stream_options":{"x":1.0},"a":1"#,
        ),
        (r#","a":1"#, r#","a":1"#),
    ] {
        assert_eq!(sent(&with(written), &no_usage()), with(expected));
    }
}

#[test]
fn images_in_results_go_behind_all_results_and_are_counted() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:x" , "detail":"low"}}"#;
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let messages = format!(
        concat!(
            r#"{{"role":"user","content":"u"}},{calls},"#,
            r#"{{"role":"tool","tool_call_id":"a","content":[{{"type":"text","text":"seen"}},{image},{image}],"n":1.0}},"#,
            r#"{{"role":"tool","tool_call_id":"b","content":[{image}]}},"#,
            r#"{{"role":"tool","tool_call_id":"c","content":[{{"type":"text","text":"t"}}]}},"#,
            r#"{{"role":"user","content":[{image}]}}"#
        ),
        calls = calls,
        image = image
    );
    let expected = format!(
        concat!(
            r#"{{"role":"user","content":"u"}},{calls},"#,
            r#"{{"role":"tool","tool_call_id":"a","content":"seen","n":1.0}},"#,
            r#"{{"role":"tool","tool_call_id":"b","content":"The result is in the next message of the user."}},"#,
            r#"{{"role":"tool","tool_call_id":"c","content":"t"}},"#,
            r#"{{"role":"user","content":[{{"type":"text","text":"This belongs to the result of the tool call a:"}},{image},{image},"#,
            r#"{{"type":"text","text":"This belongs to the result of the tool call b:"}},{image}]}},"#,
            r#"{{"role":"user","content":[{image}]}}"#
        ),
        calls = calls,
        image = image
    );
    let body = with_messages(&messages);
    assert_eq!(sent(&body, &no_images()), with_messages(&expected));
    let input = read(&body);
    let felt = differences(&request(&input), &no_images());
    assert_eq!((felt.moved_parts, felt.joined_results), (3, 1));
    let none = differences(&request(&input), &Accepts::everything());
    assert_eq!((none.moved_parts, none.joined_results), (0, 0));
}

/// Quirk 27: thinking goes back as the upstream knows it.
#[test]
fn quirk_27_reasoning_in_the_history_goes_back_under_the_upstreams_name() {
    let content = ReasoningSent::Field(REASONING_CONTENT);
    let short = ReasoningSent::Field(REASONING);
    let part = ReasoningSent::Field(THINKING_PART);
    let thinking = r#"{"type":"thinking","thinking":[{"type":"text","text":"hm\n"}]}"#;
    let of = |members: &str| format!(r#"{{"role":"assistant",{members}}}"#);
    let rows = [
        (
            content,
            r#""content":"a","reasoning":"hm\n","x":1.0"#.to_owned(),
            r#""content":"a","x":1.0,"reasoning_content":"hm\n""#.to_owned(),
        ),
        (
            short,
            r#""content":"a","reasoning_content":"hm\n","reasoning_details":[ {"signature":"s"} ]"#
                .to_owned(),
            r#""content":"a","reasoning_details":[ {"signature":"s"} ],"reasoning":"hm\n""#
                .to_owned(),
        ),
        // Two names for one text.
        (
            short,
            r#""content":"a","reasoning_content":"hm","reasoning":"hm""#.to_owned(),
            r#""content":"a","reasoning":"hm""#.to_owned(),
        ),
        (
            part,
            r#""reasoning_content":"hm\n","content":"a""#.to_owned(),
            format!(r#""content":[{thinking},{{"type":"text","text":"a"}}]"#),
        ),
        (
            part,
            r#""reasoning_content":"hm\n","content":null"#.to_owned(),
            format!(r#""content":[{thinking}]"#),
        ),
        (
            part,
            r#""reasoning":"hm\n""#.to_owned(),
            format!(r#""content":[{thinking}]"#),
        ),
        (
            content,
            format!(r#""content":[{thinking},{{"type":"text","text" :"a"}}]"#),
            r#""content":[{"type":"text","text" :"a"}],"reasoning_content":"hm\n""#.to_owned(),
        ),
        (
            content,
            format!(r#""content":[{thinking}]"#),
            r#""content":"","reasoning_content":"hm\n""#.to_owned(),
        ),
        (
            ReasoningSent::Never,
            r#""content":"a","reasoning_content":"hm","reasoning_details":[]"#.to_owned(),
            r#""content":"a""#.to_owned(),
        ),
        (
            ReasoningSent::Never,
            format!(r#""content":[{thinking},{{"type":"text","text":"a"}}]"#),
            r#""content":[{"type":"text","text":"a"}]"#.to_owned(),
        ),
        (
            ReasoningSent::AsSent,
            r#""content":"a","reasoning":"hm""#.to_owned(),
            r#""content":"a","reasoning":"hm""#.to_owned(),
        ),
    ];
    for (wanted, written, expected) in rows {
        let got = sent(&with_messages(&of(&written)), &reasoning(wanted));
        assert_eq!(got, with_messages(&of(&expected)), "{wanted:?} {written}");
    }
}

#[test]
fn reasoning_of_this_turn_goes_back_under_the_upstreams_name() {
    let input = read(&with_messages(r#"{"role":"user","content":"u"}"#));
    let details = Json::parse(r#"[{"signature":"s"}]"#).unwrap();
    let blocks = [
        Block::Reasoning(ReasoningBlock::of(REASONING, Literal::from_text("hm"))),
        Block::Native(NativePart {
            format: FORMAT,
            json: Json::of_fields(&[("reasoning_details".into(), details)]),
        }),
        Block::Text(Literal::from_text("a")),
    ];
    let later = ModelRequest {
        rounds: vec![RoundSent {
            assistant: &blocks,
            origin: None,
            results: Vec::new(),
        }],
        ..request(&input)
    };
    let details = r#""reasoning_details":[{"signature":"s"}]"#;
    for (wanted, expected) in [
        (
            ReasoningSent::AsSent,
            format!(r#""content":"a","reasoning":"hm",{details}"#),
        ),
        (
            ReasoningSent::Field(REASONING_CONTENT),
            format!(r#""content":"a","reasoning_content":"hm",{details}"#),
        ),
        (
            ReasoningSent::Field(THINKING_PART),
            format!(
                r#""content":[{{"type":"thinking","thinking":[{{"type":"text","text":"hm"}}]}},{{"type":"text","text":"a"}}],{details}"#
            ),
        ),
        (ReasoningSent::Never, r#""content":"a""#.to_owned()),
    ] {
        let body = String::from_utf8(encode_for(&later, &reasoning(wanted))).unwrap();
        let messages =
            format!(r#"{{"role":"user","content":"u"}},{{"role":"assistant",{expected}}}"#);
        assert_eq!(body, with_messages(&messages), "{wanted:?}");
    }
}
