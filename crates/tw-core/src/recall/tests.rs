//! Histories as short lines of text: what the client sent, and what the upstream gets.

use std::fmt::Write;
use std::sync::Arc;

use uuid::Uuid;

use super::{Recalled, RecalledCall, RecalledRound, RecalledTurn, SentCall, SentMessage, splice};
use crate::call::CallRunner;
use crate::history;
use crate::id::CallId;
use crate::json::{Json, Literal};
use crate::model::{CallForm, CallNative};
use crate::native::{AnswerOrigin, FormatName, NativeLabel};
use crate::request::{Block, CallBlock, Message, ReasoningBlock, ResultBlock, Role};

fn id(n: u128) -> CallId {
    CallId(Uuid::from_u128(n))
}

fn handed(n: u128) -> String {
    id(n).handed()
}

fn text(text: &str) -> Block {
    Block::Text(Literal::from_text(text))
}

fn call(id: &str, name: &str) -> Block {
    Block::Call(CallBlock {
        id: id.to_owned(),
        name: name.to_owned(),
        form: CallForm::Function,
        arguments: Literal::from_text("{}"),
        native: None,
    })
}

fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message::made(role, blocks)
}

fn user(said: &str) -> Message {
    message(Role::User, vec![text(said)])
}

fn answer(id: &str, content: &str) -> Message {
    let result = ResultBlock::of_text(id, Literal::from_text(content));
    message(Role::Tool, vec![Block::Result(result)])
}

/// A round that says `said` and makes calls: (who runs it, number, name, result).
fn round(said: &str, calls: &[(CallRunner, u128, &str, &str)]) -> RecalledRound {
    let thought = ReasoningBlock::of(NativeLabel::new("thought"), Literal::from_text("hm"));
    let mut blocks = vec![Block::Reasoning(thought)];
    if !said.is_empty() {
        blocks.push(text(said));
    }
    blocks.extend(
        calls
            .iter()
            .map(|(_, n, name, _)| call(&format!("up{n}"), name)),
    );
    let calls = calls.iter().map(|(runs, n, name, shown)| RecalledCall {
        runs: *runs,
        id: id(*n),
        sent_id: format!("up{n}"),
        tool_name: (*name).to_owned(),
        shown: (*shown).to_owned(),
    });
    RecalledRound {
        blocks,
        origin: None,
        calls: calls.collect(),
    }
}

/// A turn whose message stands at 1: a hidden round, then a mixed one.
fn mixed() -> Recalled {
    let rounds = vec![
        round("Let me see.", &[(CallRunner::Server, 1, "clock", "noon")]),
        round(
            "And now?",
            &[
                (CallRunner::Client, 2, "pick", ""),
                (CallRunner::Server, 3, "mail", "sent"),
                (CallRunner::Client, 4, "pick", ""),
            ],
        ),
    ];
    recalled(rounds)
}

fn recalled(rounds: Vec<RecalledRound>) -> Recalled {
    let calls = rounds.iter().flat_map(|round| &round.calls);
    Recalled {
        sent: calls
            .filter(|call| call.runs == CallRunner::Client)
            .map(|call| (call.id, sent_call(&call.sent_id)))
            .collect(),
        turns: vec![RecalledTurn { at: 1, rounds }],
    }
}

fn sent_call(id: &str) -> SentCall {
    SentCall {
        id: id.to_owned(),
        native: None,
        behind: Vec::new(),
        message: None,
    }
}

/// What a client sends back that was handed calls 2 and 4.
fn history() -> Vec<Message> {
    vec![
        user("Go."),
        message(
            Role::Assistant,
            vec![
                text("Let me see.\n\nAnd now?"),
                call(&handed(2), "pick"),
                call(&handed(4), "pick"),
            ],
        ),
        answer(&handed(4), "blue"),
        answer(&handed(2), "red"),
    ]
}

fn told(messages: &[Message]) -> String {
    let mut told = String::new();
    for message in messages {
        let _ = write!(told, "{:?}:", message.role);
        for block in &message.blocks {
            let _ = match block {
                Block::Text(text) => write!(told, " {:?}", text.to_text()),
                Block::Reasoning(reasoning) => write!(told, " ({})", reasoning.text.to_text()),
                Block::Call(call) => write!(told, " {}#{}", call.name, call.id),
                Block::Result(result) => {
                    let [Block::Text(text)] = &result.content[..] else {
                        panic!("{result:?}");
                    };
                    write!(told, " #{} {:?}", result.call_id, text.to_text())
                }
                Block::Refusal(_) | Block::Native(_) | Block::Part(_) => {
                    write!(told, " ?")
                }
            };
        }
        told.push('\n');
    }
    told
}

/// The history that comes of it.
fn spliced(
    messages: &[Message],
    recalled: &Recalled,
    offered: &dyn Fn(&str) -> bool,
) -> Vec<Message> {
    let spliced = splice(messages, recalled, offered);
    spliced.messages(messages).into_iter().cloned().collect()
}

#[track_caller]
fn check(messages: &[Message], recalled: &Recalled, offered: &[&str], expected: &str) {
    let spliced = spliced(messages, recalled, &|name| offered.contains(&name));
    let expected: String = expected
        .trim()
        .lines()
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    assert_eq!(told(&spliced), expected);
    assert!(
        history::repaired(&spliced).1.is_none(),
        "whatever comes out needs no repair"
    );
}

#[test]
fn hidden_rounds_and_held_results_go_back() {
    check(
        &history(),
        &mixed(),
        &["clock", "mail"],
        r#"User: "Go."
        Assistant: (hm) "Let me see." clock#up1
        Tool: #up1 "noon"
        Assistant: (hm) "And now?" pick#up2 mail#up3 pick#up4
        Tool: #up2 "red"
        Tool: #up3 "sent"
        Tool: #up4 "blue""#,
    );
}

/// Responses shows the calls that we ran, so its clients bring them back.
#[test]
fn calls_that_the_client_brings_back_are_there_once() {
    let brings = |calls: &[(u128, &str)]| {
        let calls = calls.iter().map(|(n, name)| call(&handed(*n), name));
        message(Role::Assistant, calls.collect())
    };
    let own = [(2, "pick"), (4, "pick")];
    let answers = [answer(&handed(4), "blue"), answer(&handed(2), "red")];
    let hidden = vec![
        user("Go."),
        brings(&[(1, "clock")]),
        answer(&handed(1), "noon"),
        brings(&own),
    ];
    let mut recalled = mixed();
    recalled.turns[0].at = 3;
    let clock = handed(1);
    check(
        &[hidden, answers.to_vec()].concat(),
        &recalled,
        &["clock", "mail"],
        &format!(
            r##"User: "Go."
            Assistant: clock#{clock}
            Tool: #{clock} "noon"
            Assistant: (hm) pick#up2 mail#up3 pick#up4
            Tool: #up2 "red"
            Tool: #up3 "sent"
            Tool: #up4 "blue""##
        ),
    );
    let beside = vec![
        user("Go."),
        brings(&[(3, "mail"), own[0], own[1]]),
        answer(&handed(3), "as shown"),
    ];
    check(
        &[beside, answers.to_vec()].concat(),
        &mixed(),
        &["clock", "mail"],
        r#"User: "Go."
        Assistant: (hm) clock#up1
        Tool: #up1 "noon"
        Assistant: (hm) pick#up2 mail#up3 pick#up4
        Tool: #up2 "red"
        Tool: #up3 "sent"
        Tool: #up4 "blue""#,
    );
}

#[test]
fn of_tools_that_are_not_offered_nothing_goes_back() {
    check(
        &history(),
        &mixed(),
        &[],
        r#"User: "Go."
        Assistant: "Let me see.\n\nAnd now?" pick#up2 pick#up4
        Tool: #up4 "blue"
        Tool: #up2 "red""#,
    );
    // The text of a round that does not go back stays in the client's message.
    check(
        &history(),
        &mixed(),
        &["mail"],
        r#"User: "Go."
        Assistant: (hm) "Let me see.\n\nAnd now?" pick#up2 mail#up3 pick#up4
        Tool: #up2 "red"
        Tool: #up3 "sent"
        Tool: #up4 "blue""#,
    );
    check(
        &history(),
        &mixed(),
        &["clock"],
        r#"User: "Go."
        Assistant: (hm) "Let me see." clock#up1
        Tool: #up1 "noon"
        Assistant: (hm) "And now?" pick#up2 pick#up4
        Tool: #up2 "red"
        Tool: #up4 "blue""#,
    );
}

#[test]
fn a_round_goes_back_call_by_call() {
    let both = [
        (CallRunner::Server, 1, "clock", "noon"),
        (CallRunner::Server, 5, "secret", "hush"),
    ];
    let rounds = vec![
        round("", &both),
        round("", &[(CallRunner::Client, 2, "pick", "")]),
    ];
    let history = [
        user("Go."),
        message(Role::Assistant, vec![call(&handed(2), "pick")]),
        answer(&handed(2), "red"),
    ];
    check(
        &history,
        &recalled(rounds),
        &["clock"],
        r#"User: "Go."
        Assistant: (hm) clock#up1
        Tool: #up1 "noon"
        Assistant: (hm) pick#up2
        Tool: #up2 "red""#,
    );
}

#[test]
fn what_the_client_says_of_its_half_counts() {
    // Other text, one call gone, one of somebody else's added, another result.
    let changed = [
        user("Go."),
        message(
            Role::Assistant,
            vec![
                text("Pick one."),
                call("theirs", "draw"),
                call(&handed(4), "pick_one"),
            ],
        ),
        answer("theirs", "a line"),
        answer(&handed(4), "green"),
    ];
    check(
        &changed,
        &mixed(),
        &["clock", "mail"],
        r#"User: "Go."
        Assistant: (hm) clock#up1
        Tool: #up1 "noon"
        Assistant: (hm) "Pick one." mail#up3 pick_one#up4 draw#theirs
        Tool: #up3 "sent"
        Tool: #up4 "green"
        Tool: #theirs "a line""#,
    );
}

#[test]
fn line_ends_and_white_space_at_the_end_are_no_change() {
    let mut messages = history();
    messages[1].blocks[0] = text("Let me see.\r\n\r\nAnd now? \n");
    let spliced = spliced(&messages, &mixed(), &|_| true);
    assert_eq!(spliced[3].blocks[1], text("And now?"));
}

#[test]
fn an_answer_without_calls_gets_its_hidden_rounds() {
    let rounds = vec![
        round("Let me see.", &[(CallRunner::Server, 1, "clock", "noon")]),
        round("It is noon.", &[]),
    ];
    let history = [
        user("Go."),
        message(Role::Assistant, vec![text("Let me see.\n\nIt is noon.")]),
        user("Thanks."),
    ];
    check(
        &history,
        &recalled(rounds.clone()),
        &["clock"],
        r#"User: "Go."
        Assistant: (hm) "Let me see." clock#up1
        Tool: #up1 "noon"
        Assistant: (hm) "It is noon."
        User: "Thanks.""#,
    );
    let mut changed = history;
    changed[1].blocks = vec![text("It was noon.")];
    check(
        &changed,
        &recalled(rounds),
        &["clock"],
        r#"User: "Go."
        Assistant: (hm) clock#up1
        Tool: #up1 "noon"
        Assistant: "It was noon."
        User: "Thanks.""#,
    );
}

/// A message as a client wrote it.
fn written(role: Role, block: Block, raw: &str) -> Message {
    Message {
        raw: Some(Json::parse(raw).unwrap()),
        ..Message::made(role, vec![block])
    }
}

#[test]
fn a_message_that_is_passed_on_has_the_ids_that_its_upstream_knows() {
    let ours = handed(2);
    let history = [
        written(Role::Assistant, call(&ours, "pick"), r#"{"a":1}"#),
        written(
            Role::Tool,
            answer(&ours, &ours).blocks.remove(0),
            r#"{"b":2}"#,
        ),
    ];
    let recalled = Recalled {
        turns: Vec::new(),
        sent: [(id(2), sent_call("u\"p"))].into(),
    };
    let spliced = spliced(&history, &recalled, &|_| true);
    for (now, before) in spliced.iter().zip(&history) {
        assert!(now.is_changed);
        assert_eq!(now.raw, before.raw, "it is changed where it is written");
    }
    assert_eq!(spliced[0].calls().next().unwrap().id, "u\"p");
    assert_eq!(spliced[1].result().unwrap().call_id, "u\"p");
}

/// What the model's own message held, and what of it its client brings back.
#[test]
fn what_a_client_left_out_of_the_models_message_comes_from_the_record() {
    let native = |value: &str| {
        let field = ("sign".into(), Json::parse(value).unwrap());
        Some(Box::new(CallNative {
            beside: vec![field],
            ..CallNative::default()
        }))
    };
    let thought = || {
        let text = Literal::from_text("hm");
        Block::Reasoning(ReasoningBlock::of(NativeLabel::new("thought"), text))
    };
    let origin = Arc::new(AnswerOrigin {
        format: FormatName::new("any"),
        upstream: "up".into(),
        model: "m".into(),
    });
    let made = [thought(), text("not said twice"), call("up2", "pick")];
    let sent = SentCall {
        native: native("1"),
        message: Some(Arc::new(SentMessage::of(Arc::clone(&origin), &made))),
        ..sent_call("up2")
    };
    let recalled = Recalled {
        turns: Vec::new(),
        sent: [(id(2), sent)].into(),
    };
    let signed = |native| match call(&handed(2), "pick") {
        Block::Call(call) => Block::Call(CallBlock { native, ..call }),
        other => other,
    };
    let cases = [
        (vec![signed(None)], "1"),
        (vec![signed(native("2"))], "2"),
        (vec![thought(), signed(None)], "1"),
    ];
    for (blocks, sign) in cases {
        let history = [message(Role::Assistant, blocks), answer(&handed(2), "red")];
        let spliced = spliced(&history, &recalled, &|_| true);
        let said = &spliced[0];
        assert_eq!(said.origin.as_ref(), Some(&origin));
        assert_eq!(said.blocks[0], thought());
        assert_eq!(said.blocks.len(), 2);
        assert_eq!(said.calls().next().unwrap().native, native(sign));
    }
}

/// A client may put the calls of two turns into one message, and upstreams count from the start
/// in each answer.
#[test]
fn ids_that_the_upstream_gave_in_two_turns_are_told_apart_in_one_message() {
    let history = [
        message(
            Role::Assistant,
            vec![
                call(&handed(2), "pick"),
                call(&handed(4), "draw"),
                call("up2", "own"),
            ],
        ),
        answer("up2", "mine"),
        answer(&handed(4), "a line"),
        answer(&handed(2), "red"),
    ];
    let recalled = Recalled {
        turns: Vec::new(),
        sent: [(id(2), sent_call("up2")), (id(4), sent_call("up2"))].into(),
    };
    let spliced = splice(&history, &recalled, &|_| true);
    assert_eq!(spliced.repeated_ids, 2);
    let spliced: Vec<Message> = spliced.messages(&history).into_iter().cloned().collect();
    let text = told(&spliced);
    let expected = "Assistant: pick#up2 draw#up3 own#up4\n\
                    Tool: #up2 \"red\"\nTool: #up3 \"a line\"\nTool: #up4 \"mine\"\n";
    assert_eq!(text, expected);
}

#[test]
fn ids_that_nobody_was_handed_stay() {
    let raw = format!(
        r#"{{"role":"assistant","tool_calls":[{{"id":"{}"}}]}}"#,
        handed(99)
    );
    let history = [
        written(Role::Assistant, call(&handed(99), "pick"), &raw),
        answer(&handed(99), "red"),
    ];
    let spliced = spliced(&history, &mixed(), &|_| true);
    assert_eq!(spliced, history);
}

#[test]
fn only_what_we_wrote_is_an_id_of_ours() {
    let ours = handed(u128::MAX / 3);
    assert_eq!(CallId::parse_handed(&ours), Some(id(u128::MAX / 3)));
    for other in [
        "",
        "call_",
        "call_1",
        &ours[5..],
        &ours.to_uppercase(),
        &ours.replace('5', "g"),
        &format!("{ours}0"),
        &format!("call_{}", id(7)),
    ] {
        assert_eq!(CallId::parse_handed(other), None, "{other}");
    }
}

#[test]
fn what_stays_as_it_was_is_not_copied() {
    let rounds = vec![
        round("", &[(CallRunner::Server, 1, "clock", "noon")]),
        round("It is noon.", &[]),
    ];
    let history = [
        user("Go."),
        message(Role::Assistant, vec![text("It is noon.")]),
        user("Thanks."),
        message(Role::Assistant, vec![text("Welcome.")]),
    ];
    let spliced = splice(&history, &recalled(rounds), &|_| true);
    let is_of_history = |message: &&Message| {
        let mut of_history = history.iter();
        of_history.any(|of_history| std::ptr::eq(of_history, *message))
    };
    let messages = spliced.messages(&history);
    assert_eq!(messages.len(), 6);
    assert_eq!(
        messages
            .iter()
            .filter(|message| is_of_history(message))
            .count(),
        3
    );
}
