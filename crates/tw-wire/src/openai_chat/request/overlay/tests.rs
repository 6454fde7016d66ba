use tw_core::json::{Json, Literal};
use tw_core::limits::RequestLimits;
use tw_core::model::CallNative;
use tw_core::native::NativePart;
use tw_core::request::{Block, ReasoningBlock};

use super::written;
use crate::openai_chat::request::decode;
use crate::openai_chat::{FORMAT, REASONING_CONTENT};

/// What becomes of a message when its blocks are changed.
#[track_caller]
fn check(message: &str, change: impl FnOnce(&mut Vec<Block>), expected: Option<&str>) {
    let body = format!(r#"{{"model":"m","messages":[{message}]}}"#);
    let input = decode(body.as_bytes(), &RequestLimits::defaults()).unwrap();
    let raw = input.messages[0].raw.clone().unwrap();
    let mut blocks = input.messages[0].blocks.clone();
    change(&mut blocks);
    let written = written(&raw, &blocks);
    assert_eq!(written.as_ref().map(Json::as_str), expected, "{message}");
}

/// Gives the message's call, or its result, this id.
fn id(id: &str) -> impl FnOnce(&mut Vec<Block>) {
    move |blocks| {
        for block in blocks {
            match block {
                Block::Call(call) => id.clone_into(&mut call.id),
                Block::Result(result) => id.clone_into(&mut result.call_id),
                _ => {}
            }
        }
    }
}

#[test]
fn only_the_ids_change() {
    check(
        r#"{ "role":"assistant", "content" : "say \"id\":\"c\"", "x":[1.50,"c"],
        "tool_calls":[{"id" : "c","type":"function","s":[],"function":{"name":"f","arguments":"{\"id\":\"c\"}"}}] }"#,
        id("u\"p"),
        Some(concat!(
            r#"{"role":"assistant","content":"say \"id\":\"c\"","x":[1.50,"c"],"tool_calls":[{"id":"u\"p","type":"function","#,
            r#""s":[],"function":{"name":"f","arguments":"{\"id\":\"c\"}"}}]}"#
        )),
    );
    check(
        r#"{"role":"tool","tool_call_id":"\u0063","content":"c","k":1e5}"#,
        id("up"),
        Some(r#"{"role":"tool","tool_call_id":"up","content":"c","k":1e5}"#),
    );
    // The old form has none.
    check(
        r#"{"role":"function","name":"f","content":"c"}"#,
        |_| {},
        Some(r#"{"role":"function","name":"f","content":"c"}"#),
    );
}

#[test]
fn arguments_change_in_their_places() {
    let arguments = |blocks: &mut Vec<Block>| {
        for block in blocks {
            if let Block::Call(call) = block {
                call.arguments = Literal::from_text("{}");
            }
        }
    };
    check(
        r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"arguments":"","name":"f"}},{"id":"b","function":{"name":"g"}}]}"#,
        arguments,
        Some(
            r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"arguments":"{}","name":"f"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]}"#,
        ),
    );
    check(
        r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"x"}}"#,
        arguments,
        Some(
            r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
        ),
    );
}

#[test]
fn an_empty_list_of_calls_is_left_out() {
    check(
        r#"{"role":"assistant","content":"a","tool_calls":[ ],"k":1}"#,
        |_| {},
        Some(r#"{"role":"assistant","content":"a","k":1}"#),
    );
}

#[test]
fn what_the_client_left_out_is_added_and_what_it_brought_stays() {
    let from_record = |blocks: &mut Vec<Block>| {
        let field = |key: &str| vec![(Box::from(key), Json::parse("1").unwrap())];
        for block in blocks.iter_mut() {
            if let Block::Call(call) = block {
                call.native = Some(Box::new(CallNative {
                    beside: field("extra_content"),
                    inside: field("x"),
                }));
            }
        }
        let thought = ReasoningBlock::of(REASONING_CONTENT, Literal::default());
        blocks.insert(0, Block::Reasoning(thought));
        blocks.push(Block::Native(NativePart {
            format: FORMAT,
            json: Json::parse(r#"{"thinking_blocks":[2]}"#).unwrap(),
        }));
    };
    check(
        r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
        from_record,
        Some(concat!(
            r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}","x":1},"extra_content":1}],"#,
            r#""reasoning_content":"","thinking_blocks":[2]}"#
        )),
    );
    let brought = concat!(
        r#"{"role":"assistant","thinking_blocks":null,"reasoning":"own","tool_calls":[{"id":"a","extra_content":7,"#,
        r#""function":{"name":"f","arguments":"{}","x":7}}]}"#
    );
    check(brought, from_record, Some(brought));
}

#[test]
fn a_message_of_other_calls_is_written_anew() {
    check(
        r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
        |blocks| blocks.clear(),
        None,
    );
}
