use uuid::Uuid;

use super::{WrittenId, written_ids};
use crate::id::CallId;
use crate::json::Literal;
use crate::model::CallForm;
use crate::request::{Block, CallBlock, Message, ResultBlock, Role};

const PLENTY: usize = 100;

fn id(n: u128) -> CallId {
    CallId(Uuid::from_u128(n))
}

/// `1`, `2` and so on in braces are ids of ours.
fn with_ids(text: &str) -> String {
    (1..10).fold(text.to_owned(), |text, n| {
        text.replace(&format!("{{{n}}}"), &id(n).handed())
    })
}

fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message::made(role, blocks)
}

fn said(role: Role, text: &str) -> Message {
    message(role, vec![Block::Text(Literal::from_text(&with_ids(text)))])
}

fn found(messages: &[Message], max: usize) -> Vec<(usize, u128)> {
    let written = written_ids(messages, max).into_iter();
    let written = written.map(|WrittenId { at, id }| (at, id.0.as_u128()));
    written.collect()
}

#[test]
fn ids_of_our_shape_alone_are_found_in_a_text() {
    let cases: [(&str, &[u128]); 16] = [
        ("{1}", &[1]),
        (
            "[{'id': '{1}', 'type': 'function'}, {'id': '{2}'}]",
            &[1, 2],
        ),
        ("\"{1}\",\"{1}\"", &[1]),
        // In the JSON that it came in, this is a letter before it.
        ("Call id:\n{1}\nError", &[1]),
        ("\t{1}.", &[1]),
        ("\u{e9}{1}\u{e9}", &[1]),
        ("{1}{2}", &[]),
        ("my_{1}", &[]),
        ("x{1}", &[]),
        ("{1}0", &[]),
        ("{1}-2", &[]),
        ("call_{1}", &[]),
        ("call_ call_1 call_call_", &[]),
        ("call_0000000000000000000000000000000A", &[]),
        ("call_00000000-0000-0000-0000-000000000001", &[]),
        ("call_0000000000000000000000000000000\u{e9}", &[]),
    ];
    for (text, ids) in cases {
        let expected: Vec<_> = ids.iter().map(|id| (0, *id)).collect();
        let messages = [said(Role::Assistant, text)];
        assert_eq!(found(&messages, PLENTY), expected, "{text}");
    }
}

#[test]
fn what_the_assistant_said_is_looked_through_and_what_the_user_says_now() {
    let call = CallBlock {
        id: id(7).handed(),
        name: "f".to_owned(),
        form: CallForm::Function,
        arguments: Literal::from_text(&with_ids("{\"of\": \"{8}\"}")),
        native: None,
    };
    let result = ResultBlock::of_text(id(7).handed(), Literal::from_text(&with_ids("{8}")));
    let messages = [
        said(Role::System, "{1}"),
        said(Role::User, "{2}"),
        said(Role::Assistant, "{3} {4} {3}"),
        said(Role::User, "{5}"),
        message(Role::Assistant, vec![Block::Call(call)]),
        message(Role::Tool, vec![Block::Result(result)]),
        said(Role::User, "{3}"),
        said(Role::Developer, "{1}"),
        said(Role::User, "{6}"),
    ];
    let all = [(8, 6), (6, 3), (2, 3), (2, 4)];
    assert_eq!(found(&messages, PLENTY), all);
    // One that was found before is none more.
    assert_eq!(found(&messages, 2), all[..3]);
    assert_eq!(found(&messages, 1), all[..1]);
    assert_eq!(found(&messages[..2], PLENTY), [(1, 2)]);
    assert_eq!(found(&[], PLENTY), []);
}
