use tw_core::request_changes::RequestChanges;

use super::{ListedTool, OfferedTool, TurnContext, decode, encode};
use crate::format::Projection;
use crate::openai_chat::chunks::ChunkOptions;
use crate::openai_chat::outcome::ChatDialect;
use crate::passed_headers::PassedHeaders;
use crate::trace_context::{TraceContext, TraceParent};

fn context(tools: Option<&[(&str, Option<i64>)]>) -> TurnContext {
    TurnContext {
        tools: tools.map(|tools| {
            tools
                .iter()
                .map(|&(name, version)| {
                    ListedTool::Ours(OfferedTool {
                        name: name.to_owned(),
                        version,
                    })
                })
                .collect()
        }),
        withheld: Vec::new(),
        upstreams: vec!["u".to_owned()],
        projection: chat(false, ChatDialect::Tools),
        passed: PassedHeaders::default(),
        changes: RequestChanges::default(),
        trace: None,
    }
}

fn chat(include_usage: bool, dialect: ChatDialect) -> Projection {
    Projection::OpenAiChat(ChunkOptions {
        include_usage,
        dialect,
    })
}

#[test]
fn a_context_is_stored_so_and_comes_back() {
    for (tools, stored) in [
        (None, r#"{"tools":null,"upstream":"u"}"#),
        (Some(&[][..]), r#"{"tools":[],"upstream":"u"}"#),
        (
            Some(&[("time_now", None), ("mail", Some(7))][..]),
            r#"{"tools":["time_now",["mail",7]],"upstream":"u"}"#,
        ),
    ] {
        let context = context(tools);
        assert_eq!(encode(&context), stored);
        assert_eq!(decode(stored).unwrap(), context);
    }
}

#[test]
fn a_context_of_the_first_version_is_read() {
    let stored = r#"{"tools":["time_now","calculate"],"upstream":"u"}"#;
    let expected = context(Some(&[("time_now", None), ("calculate", None)]));
    assert_eq!(decode(stored).unwrap(), expected);
}

#[test]
fn several_upstreams_keep_their_order() {
    let context = TurnContext {
        upstreams: vec!["b".to_owned(), "a".to_owned()],
        ..context(None)
    };
    let stored = r#"{"tools":null,"upstream":["b","a"]}"#;
    assert_eq!(encode(&context), stored);
    assert_eq!(decode(stored).unwrap(), context);
}

#[test]
fn tools_of_the_client_and_withheld_ones_are_stored_so() {
    let mut context = context(Some(&[("mail", Some(7))]));
    let own = ListedTool::Client("pick".to_owned());
    context.tools.as_mut().unwrap().insert(0, own);
    context.withheld = vec!["mail".to_owned()];
    let stored = r#"{"tools":[{"client":"pick"},["mail",7]],"upstream":"u","withheld":["mail"]}"#;
    assert_eq!(encode(&context), stored);
    assert_eq!(decode(stored).unwrap(), context);
}

#[test]
fn what_the_upstream_did_not_get_is_stored_so() {
    let mut context = context(None);
    context.changes.add("seed");
    context.changes.add_times("image", 2);
    let stored = r#"{"tools":null,"upstream":"u","changed":[["seed",1],["image",2]]}"#;
    assert_eq!(encode(&context), stored);
    assert_eq!(decode(stored).unwrap(), context);
}

#[test]
fn the_form_of_the_answer_is_stored_so() {
    for (projection, stored) in [
        (
            chat(false, ChatDialect::Tools),
            r#"{"tools":null,"upstream":"u"}"#,
        ),
        (
            chat(true, ChatDialect::Tools),
            r#"{"tools":null,"upstream":"u","projection":{"chat_completions":{"include_usage":true}}}"#,
        ),
        (
            chat(true, ChatDialect::Functions),
            r#"{"tools":null,"upstream":"u","projection":{"chat_completions":{"include_usage":true,"functions":true}}}"#,
        ),
    ] {
        let context = TurnContext {
            projection,
            ..context(None)
        };
        assert_eq!(encode(&context), stored);
        assert_eq!(decode(stored).unwrap(), context);
    }
}

#[test]
fn the_clients_trace_is_stored_so() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (state, written) in [(None, "null"), (Some("a=1,b=2"), "\"a=1,b=2\"")] {
        let context = TurnContext {
            trace: Some(TraceContext {
                parent: TraceParent::parse(PARENT).unwrap(),
                state: state.map(Into::into),
            }),
            ..context(None)
        };
        let stored = format!(r#"{{"tools":null,"upstream":"u","trace":["{PARENT}",{written}]}}"#);
        assert_eq!(encode(&context), stored);
        assert_eq!(decode(&stored).unwrap(), context);
    }
}

#[test]
fn headers_for_upstreams_are_stored_so() {
    let value = |name| {
        (name == "anthropic-beta")
            .then_some(&b"a-1"[..])
            .into_iter()
    };
    let context = TurnContext {
        passed: PassedHeaders::read(value).unwrap(),
        ..context(None)
    };
    let stored = r#"{"tools":null,"upstream":"u","headers":{"anthropic-beta":"a-1"}}"#;
    assert_eq!(encode(&context), stored);
    assert_eq!(decode(stored).unwrap(), context);
}

#[test]
fn a_damaged_context_is_an_error() {
    for stored in [
        r#"{"tools":null,"upstream":"u","headers":{"authorization":"a"}}"#,
        "",
        "[]",
        r#"{"tools":null}"#,
        r#"{"tools":"time_now","upstream":"u"}"#,
        r#"{"tools":[7],"upstream":"u"}"#,
        r#"{"tools":[["mail"]],"upstream":"u"}"#,
        r#"{"tools":[["mail",1,2]],"upstream":"u"}"#,
        r#"{"tools":[["mail","1"]],"upstream":"u"}"#,
        r#"{"tools":[["mail",1.5]],"upstream":"u"}"#,
        r#"{"tools":[],"upstream":"u","more":1}"#,
        r#"{"tools":[],"upstream":7}"#,
        r#"{"tools":[],"upstream":["u",7]}"#,
        r#"{"tools":[{"client":7}],"upstream":"u"}"#,
        r#"{"tools":[{"client":"a","more":1}],"upstream":"u"}"#,
        r#"{"tools":[],"upstream":"u","withheld":null}"#,
        r#"{"tools":[],"upstream":"u","changed":[["seed"]]}"#,
        r#"{"tools":[],"upstream":"u","changed":[["seed",-1]]}"#,
        r#"{"tools":[],"upstream":"u","projection":"chat_completions"}"#,
        r#"{"tools":[],"upstream":"u","projection":{"xml":{}}}"#,
        r#"{"tools":[],"upstream":"u","projection":{"chat_completions":{"more":true}}}"#,
    ] {
        assert!(decode(stored).is_err(), "{stored}");
    }
}
