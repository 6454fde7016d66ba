use std::collections::BTreeSet;

use proptest::prelude::{Just, Strategy, any, prop};
use proptest::{prop_assert_eq, prop_assert_ne, prop_oneof, proptest};
use serde_json::{Value, json};

use super::{HiddenCall, HiddenHash, History, HistoryHash, HistoryHasher, KeyHolder, MemoryScope};
use crate::json::{Json, Literal};
use crate::model::CallForm;
use crate::native::{FormatName, NativeLabel, NativePart};
use crate::request::{
    Block, CallBlock, Message, PartBlock, PartKind, ReasoningBlock, ResultBlock, Role,
};

const FORMAT: FormatName = FormatName::new("any");

fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message::made(role, blocks)
}

fn text(text: &str) -> Block {
    Block::Text(Literal::from_text(text))
}

fn part(part: Value) -> Block {
    let kind = match part["type"].as_str() {
        Some("image_url") => PartKind::Image,
        _ => PartKind::Other,
    };
    Block::Part(PartBlock {
        kind,
        url: part["image_url"]["url"].as_str().map(Literal::from_text),
        format: FORMAT,
        json: Json::from_value(&part),
    })
}

fn call(id: &str, form: CallForm, arguments: &str) -> Block {
    Block::Call(CallBlock {
        id: id.to_owned(),
        name: "f".to_owned(),
        form,
        arguments: Literal::from_text(arguments),
        native: None,
    })
}

fn result(call_id: &str, content: Value) -> Block {
    let block = |written: &Value| match written["text"].as_str() {
        Some(said) => text(said),
        None => part(written.clone()),
    };
    Block::Result(ResultBlock {
        call_id: call_id.to_owned(),
        content: match &content {
            Value::String(said) => vec![text(said)],
            parts => parts.as_array().unwrap().iter().map(block).collect(),
        },
        is_error: false,
    })
}

/// The hash of one message in the widest scope.
fn hash(role: Role, blocks: Vec<Block>) -> HistoryHash {
    HistoryHasher::new(&MemoryScope::Key)
        .then(&message(role, blocks))
        .hash()
}

fn user(blocks: Vec<Block>) -> HistoryHash {
    hash(Role::User, blocks)
}

#[test]
fn what_does_not_count() {
    let plain = user(vec![text("a\nb")]);
    for same in [
        vec![text("a\r\nb")],
        vec![text("a\rb")],
        vec![text("a\nb \t\r\n\u{a0}")],
        vec![text("a\r"), text("\nb")],
        vec![text(""), text("a\n"), text(""), text("b"), text("  ")],
        vec![Block::Refusal(Literal::from_text("a\nb"))],
        vec![
            Block::Reasoning(ReasoningBlock::of(
                NativeLabel::new("thought"),
                Literal::from_text("hm"),
            )),
            Block::Native(NativePart {
                format: FORMAT,
                json: Json::from_value(&json!({ "a": 1 })),
            }),
            text("a\nb"),
        ],
        vec![Block::Text(Literal::checked("a\\u000a\\u0062").unwrap())],
    ] {
        assert_eq!(user(same.clone()), plain, "{same:?}");
    }
    let chain = HistoryHasher::new(&MemoryScope::Key);
    for role in [Role::System, Role::Developer] {
        assert_eq!(chain.then(&message(role, vec![text("be kind")])), chain);
    }
}

#[test]
fn what_counts_of_text() {
    let plain = user(vec![text("a\nb")]);
    for other in [
        vec![text("a b")],
        vec![text(" a\nb")],
        vec![text("a\n\nb")],
        vec![text("A\nb")],
        vec![],
        vec![text("a"), part(json!({ "type": "x" })), text("\nb")],
    ] {
        assert_ne!(user(other.clone()), plain, "{other:?}");
    }
    assert_ne!(hash(Role::Assistant, vec![text("a\nb")]), plain);
    assert_ne!(hash(Role::Tool, vec![text("a\nb")]), plain);
}

#[test]
fn an_image_counts_by_its_url() {
    let image = |image: Value| user(vec![text("see"), part(image)]);
    let plain = image(json!({ "type": "image_url", "image_url": { "url": "https://x/1" } }));
    assert_eq!(
        image(
            json!({ "image_url": { "detail": "low", "url": "https://x/1" }, "type": "image_url" })
        ),
        plain
    );
    for other in [
        json!({ "type": "image_url", "image_url": { "url": "https://x/2" } }),
        json!({ "type": "input_image", "image_url": { "url": "https://x/1" } }),
        json!({ "type": "image_url", "image_url": { "file": "https://x/1" } }),
    ] {
        assert_ne!(image(other.clone()), plain, "{other}");
    }
    let before = vec![
        part(json!({ "type": "image_url", "image_url": { "url": "https://x/1" } })),
        text("see"),
    ];
    assert_ne!(user(before), plain);
}

#[test]
fn another_part_counts_as_written_but_for_gaps() {
    let written = |written: &str| {
        let json = Json::parse(written).unwrap();
        user(vec![Block::Part(PartBlock {
            kind: PartKind::File,
            url: None,
            format: FORMAT,
            json,
        })])
    };
    let plain = written(r#"{"type":"file","file":{"name":"a \" b"}}"#);
    assert_eq!(
        written("{ \"type\" : \"file\",\n\"file\":{\"name\":\"a \\\" b\"} }"),
        plain
    );
    for other in [
        r#"{"type":"file","file":{"name":"a \"  b"}}"#,
        r#"{"file":{"name":"a \" b"},"type":"file"}"#,
    ] {
        assert_ne!(written(other), plain, "{other}");
    }
}

#[test]
fn a_call_counts_by_its_id_and_one_of_the_old_form_by_what_it_says() {
    let said = |block: Block| hash(Role::Assistant, vec![block]);
    let plain = said(call("call_1", CallForm::Function, "{}"));
    assert_eq!(said(call("call_1", CallForm::Function, "{ }")), plain);
    assert_eq!(said(call("call_1", CallForm::Custom, "x")), plain);
    assert_ne!(said(call("call_2", CallForm::Function, "{}")), plain);
    let old = said(call("f", CallForm::ByName, "{}"));
    assert_ne!(said(call("f", CallForm::ByName, "{ }")), old);
    assert_ne!(said(call("f", CallForm::Function, "{}")), old);
}

#[test]
fn a_result_counts_by_its_call_and_its_content() {
    let brought = |id: &str, content: Value| hash(Role::Tool, vec![result(id, content)]);
    let plain = brought("c1", json!("sunny"));
    assert_eq!(brought("c1", json!("sunny\r\n")), plain);
    assert_eq!(
        brought(
            "c1",
            json!([{ "type": "text", "text": "sun" }, { "type": "text", "text": "ny" }])
        ),
        plain
    );
    assert_ne!(brought("c2", json!("sunny")), plain);
    assert_ne!(brought("c1", json!("rainy")), plain);
    assert_ne!(
        brought(
            "c1",
            json!([{ "type": "text", "text": "sunny" }, { "type": "file" }])
        ),
        plain
    );
}

#[test]
fn scopes_have_no_history_in_common() {
    let said = [message(Role::User, vec![text("Hi")])];
    let scopes = [
        MemoryScope::User(String::new()),
        MemoryScope::User("a".to_owned()),
        MemoryScope::User("b".to_owned()),
        MemoryScope::Conversation(String::new()),
        MemoryScope::Conversation("a".to_owned()),
        MemoryScope::Key,
    ];
    let mut ends: Vec<HistoryHash> = scopes
        .iter()
        .map(|scope| History::read(scope, &said, &BTreeSet::new()).end.hash())
        .collect();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), scopes.len());
}

#[test]
fn a_named_user_is_the_scope_whatever_else_is_named() {
    let user = Some(MemoryScope::User("u".to_owned()));
    for key in [KeyHolder::OnePerson, KeyHolder::Many] {
        assert_eq!(MemoryScope::of(Some("u"), Some("c"), key), user);
        assert_eq!(MemoryScope::of(Some("u"), None, key), user);
        assert_eq!(
            MemoryScope::of(None, Some("c"), key),
            Some(MemoryScope::Conversation("c".to_owned()))
        );
    }
    assert_eq!(
        MemoryScope::of(None, None, KeyHolder::OnePerson),
        Some(MemoryScope::Key)
    );
    assert_eq!(MemoryScope::of(None, None, KeyHolder::Many), None);
}

#[test]
fn a_conversation_is_preferred_among_the_turns_of_a_named_user_alone() {
    let user = || MemoryScope::User("u".to_owned());
    for (scope, named, preferred) in [
        (user(), Some("c"), Some("c")),
        (user(), None, None),
        (MemoryScope::Conversation("c".to_owned()), Some("c"), None),
        (MemoryScope::Key, None, None),
    ] {
        assert_eq!(scope.preferred(named), preferred, "{scope:?} {named:?}");
    }
}

/// Whoever changes what counts has to change [`super::FORM`] too: these are in databases.
#[test]
fn stored_hashes_stay_what_they_are() {
    let scope = MemoryScope::User("ann".to_owned());
    let history = History::read(
        &scope,
        &[
            message(Role::System, vec![text("be kind")]),
            message(
                Role::User,
                vec![
                    text("Hi\r\n"),
                    part(json!({ "type": "image_url", "image_url": { "url": "u" } })),
                ],
            ),
            message(
                Role::Assistant,
                vec![text("x"), call("c1", CallForm::Function, "{}")],
            ),
            message(Role::Tool, vec![result("c1", json!("ok"))]),
            message(Role::Assistant, vec![call("f", CallForm::ByName, "{}")]),
        ],
        &BTreeSet::new(),
    );
    let hidden = HiddenHash::of(
        None,
        history.end.hash(),
        [hidden_call("a", "b", "c")].into_iter(),
    );
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    };
    assert_eq!(hex(&history.end.hash().0), HISTORY);
    assert_eq!(hidden.map(|hash| hex(&hash.0)).as_deref(), Some(HIDDEN));
}

const HISTORY: &str = "2a231d16d0a5c2a00284f56504a793a27902b28540b9601f832746e6cc17845d";
const HIDDEN: &str = "46475bce997b5e9d0d5429dc63fcd3704b6b554931da25219d3988ca8928827a";

fn hidden_call<'a>(name: &'a str, arguments: &'a str, shown: &'a str) -> HiddenCall<'a> {
    HiddenCall {
        name,
        arguments,
        shown,
    }
}

#[test]
fn hidden_halves_differ_by_what_the_model_saw_and_where() {
    let (here, there) = (HistoryHash([1; 32]), HistoryHash([2; 32]));
    let of =
        |before, at, calls: &[HiddenCall<'_>]| HiddenHash::of(before, at, calls.iter().copied());
    let plain = of(None, here, &[hidden_call("f", "{}", "ok")]);
    assert_eq!(plain, of(None, here, &[hidden_call("f", "{}", "ok")]));
    assert_eq!(of(None, here, &[]), None);
    assert_eq!(of(plain, there, &[]), plain);
    let mut others = vec![
        plain,
        of(None, there, &[hidden_call("f", "{}", "ok")]),
        of(None, here, &[hidden_call("g", "{}", "ok")]),
        of(None, here, &[hidden_call("f", "{ }", "ok")]),
        of(None, here, &[hidden_call("f", "{}", "no")]),
        of(None, here, &[hidden_call("f", "{}ok", "")]),
        of(plain, here, &[hidden_call("f", "{}", "ok")]),
        of(
            None,
            here,
            &[hidden_call("f", "{}", "ok"), hidden_call("f", "{}", "ok")],
        ),
    ];
    let count = others.len();
    others.sort_unstable();
    others.dedup();
    assert_eq!(others.len(), count);
}

#[test]
fn every_answer_has_the_hash_of_the_history_that_ends_with_it() {
    let messages: Vec<Message> = (0..20)
        .map(|at| {
            let role = if at % 3 == 1 {
                Role::Assistant
            } else {
                Role::User
            };
            message(role, vec![text(&format!("m{at}"))])
        })
        .collect();
    let whole = History::read(&MemoryScope::Key, &messages, &BTreeSet::new());
    let places: Vec<usize> = whole.answers.iter().map(|(at, _)| *at).collect();
    assert_eq!(places, [1, 4, 7, 10, 13, 16, 19]);
    for (at, hash) in &whole.answers {
        let prefix = History::read(&MemoryScope::Key, &messages[..=*at], &BTreeSet::new());
        assert_eq!(prefix.end.hash(), *hash);
    }
}

fn said() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\r\n".to_owned()),
        Just("\r".to_owned()),
        Just("\n".to_owned()),
        Just(" ".to_owned()),
        Just("\"\\".to_owned()),
        any::<char>().prop_map(String::from),
        "[a-c]{1,3}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn with_unix_lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

proptest! {
    #[test]
    fn any_split_into_parts_is_the_same(
        said in said(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        blanks in "[ \t\r\n]{0,4}",
    ) {
        let mut places: Vec<usize> = cuts
            .iter()
            .map(|cut| cut.index(said.len() + 1))
            .filter(|at| said.is_char_boundary(*at))
            .collect();
        places.extend([0, said.len()]);
        places.sort_unstable();
        let mut parts: Vec<Block> = places
            .windows(2)
            .map(|pair| text(&said[pair[0]..pair[1]]))
            .collect();
        parts.push(text(&blanks));
        prop_assert_eq!(user(parts.clone()), user(vec![text(&said)]));
        prop_assert_eq!(user(parts), user(vec![text(&with_unix_lines(&said))]));
    }

    #[test]
    fn another_text_is_another_history(one in said(), other in said()) {
        let same = with_unix_lines(&one).trim_end() == with_unix_lines(&other).trim_end();
        let hashes = (user(vec![text(&one)]), user(vec![text(&other)]));
        if same {
            prop_assert_eq!(hashes.0, hashes.1);
        } else {
            prop_assert_ne!(hashes.0, hashes.1);
        }
    }

    /// Where one message ends and the next begins counts.
    #[test]
    fn messages_are_not_mistaken_for_one(one in "[a-c]{0,3}", other in "[a-c]{0,3}") {
        let apart = [
            message(Role::User, vec![text(&one)]),
            message(Role::User, vec![text(&other)]),
        ];
        let joined = [message(Role::User, vec![text(&one), text(&other)])];
        prop_assert_ne!(
            History::read(&MemoryScope::Key, &apart, &BTreeSet::new()).end,
            History::read(&MemoryScope::Key, &joined, &BTreeSet::new()).end
        );
    }
}

/// Responses shows calls of this server; whoever sends them back has the same history as who does not.
#[test]
fn calls_that_are_shown_do_not_count() {
    let said = |words: &str| message(Role::User, vec![text(words)]);
    let own = |id: &str| {
        Block::Call(CallBlock {
            id: id.to_owned(),
            name: "look".to_owned(),
            form: CallForm::Function,
            arguments: Literal::default(),
            native: None,
        })
    };
    let result = |id: &str| {
        let result = ResultBlock::of_text(id, Literal::from_text("sunny"));
        message(Role::Tool, vec![Block::Result(result)])
    };
    let shown: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
    let nothing = BTreeSet::new();
    let hashes = |messages: &[Message], shown: &BTreeSet<String>| {
        let history = History::read(&MemoryScope::Key, messages, shown);
        let answers = history.answers.into_iter();
        (history.end, answers.collect::<Vec<_>>())
    };
    // Of a turn: two rounds of ours, and one that hands a call over beside one of ours.
    let seen = [
        said("Hi"),
        message(
            Role::Assistant,
            vec![text("One."), text("Two."), own("theirs")],
        ),
        result("theirs"),
        message(Role::Assistant, vec![text("Three.")]),
        said("Bye"),
    ];
    let whole = [
        said("Hi"),
        message(Role::Assistant, vec![text("One."), own("a"), own("b")]),
        result("a"),
        result("b"),
        message(Role::Assistant, vec![text("Two."), own("theirs"), own("c")]),
        result("c"),
        result("theirs"),
        message(Role::Assistant, vec![text("Three.")]),
        said("Bye"),
    ];
    let (end, answers) = hashes(&seen, &nothing);
    let (end_shown, answers_shown) = hashes(&whole, &shown);
    assert_eq!(end_shown, end);
    let pairs = answers.iter().zip(&answers_shown);
    assert!(pairs.clone().all(|((_, one), (_, other))| one == other));
    let places: Vec<usize> = answers_shown.iter().map(|(at, _)| *at).collect();
    assert_eq!(places, [4, 7]);
    // Somebody else's calls count, wherever they came from.
    assert_ne!(hashes(&whole, &nothing).0, end);
    // An answer that ended with calls of ours is one, too.
    let cut = [
        said("Hi"),
        message(Role::Assistant, vec![text("One."), own("a")]),
        result("a"),
        said("Bye"),
    ];
    let plain = [
        said("Hi"),
        message(Role::Assistant, vec![text("One.")]),
        said("Bye"),
    ];
    assert_eq!(hashes(&cut, &shown), hashes(&plain, &nothing));
    assert_eq!(hashes(&cut[..3], &shown), hashes(&plain[..2], &nothing));
}
