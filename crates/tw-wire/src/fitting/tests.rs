//! The model's own message at home and elsewhere.

use std::sync::Arc;

use tw_core::accepts::Accepts;
use tw_core::call_ids::CallIdRule;
use tw_core::json::{Json, Literal};
use tw_core::limits::RequestLimits;
use tw_core::model::{CallForm, CallNative};
use tw_core::native::{AnswerOrigin, NativePart};
use tw_core::request::{
    Block, CallBlock, ChoiceSent, Message, ModelInput, ModelRequest, OfferedTools, ReasoningBlock,
    ResultBlock, Role, RoundSent,
};

use crate::openai_chat::request::{decode, encode_for};
use crate::openai_chat::{FORMAT, REASONING_CONTENT};

fn origin(upstream: &str, model: &str) -> AnswerOrigin {
    AnswerOrigin {
        format: FORMAT,
        upstream: upstream.into(),
        model: model.into(),
    }
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// A message with everything that is its model's own, whose call has this id.
fn own(id: &str) -> Vec<Block> {
    vec![
        Block::Reasoning(ReasoningBlock::of(
            REASONING_CONTENT,
            Literal::from_text("hm"),
        )),
        Block::Text(Literal::from_text("a")),
        Block::Native(NativePart {
            format: FORMAT,
            json: json(r#"{"reasoning_details":[{"signature":"s"}],"annotations":[1]}"#),
        }),
        Block::Call(CallBlock {
            id: id.to_owned(),
            name: "f".to_owned(),
            form: CallForm::Function,
            arguments: Literal::from_text("{}"),
            native: Some(Box::new(CallNative {
                beside: vec![("extra_content".into(), json(r#"{"google":{"t":"S"}}"#))],
                inside: vec![("x".into(), json("1"))],
            })),
        }),
    ]
}

const WHOLE: &str = concat!(
    r#"{"role":"assistant","content":"a","reasoning_content":"hm","tool_calls":[{"id":"ID","type":"function","#,
    r#""function":{"name":"f","arguments":"{}","x":1},"extra_content":{"google":{"t":"S"}}}],"#,
    r#""reasoning_details":[{"signature":"s"}],"annotations":[1]},{"role":"tool","tool_call_id":"ID","content":"r"}"#,
);
const NEUTRAL: &str = concat!(
    r#"{"role":"assistant","content":"a","tool_calls":[{"id":"ID","type":"function","#,
    r#""function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"ID","content":"r"}"#,
);

fn input() -> ModelInput {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"u"}]}"#;
    decode(body.as_bytes(), &RequestLimits::defaults()).unwrap()
}

fn sent(request: &ModelRequest<'_>, rule: CallIdRule) -> String {
    let accepts = Accepts {
        call_ids: rule,
        ..Accepts::everything()
    };
    let body = String::from_utf8(encode_for(request, &accepts)).unwrap();
    let messages = body.strip_prefix(r#"{"messages":["#).unwrap();
    messages.split_once(r#"],"model""#).unwrap().0.to_owned()
}

fn request<'a>(input: &'a ModelInput, to: &'a AnswerOrigin) -> ModelRequest<'a> {
    ModelRequest {
        input,
        messages: Vec::new(),
        to,
        tools: OfferedTools::AsSent,
        tool_choice: ChoiceSent::AsSent,
        rounds: Vec::new(),
        completion_tokens_left: None,
        ask_usage: false,
    }
}

#[test]
fn what_is_an_upstreams_own_goes_to_no_other() {
    use CallIdRule::{AsSent, NineLetters, Plain};
    let input = input();
    let made = "functions.time_now:0";
    let plain = Plain.fitted(made).into_owned();
    let nine = NineLetters.fitted(made).into_owned();
    let home = Some(origin("kimi", "k2"));
    let rows = [
        // Where it came from, the upstream that is asked, its rule, the message, the id.
        (&home, origin("kimi", "k2"), AsSent, WHOLE, made),
        (&None, origin("kimi", "k2"), AsSent, WHOLE, made),
        (&home, origin("kimi", "k1"), AsSent, NEUTRAL, made),
        (&home, origin("claude", "k2"), AsSent, NEUTRAL, &*plain),
        (&home, origin("claude", "c"), Plain, NEUTRAL, &*plain),
        (&home, origin("mistral", "c"), NineLetters, NEUTRAL, &*nine),
        (&None, origin("claude", "c"), Plain, WHOLE, &*plain),
    ];
    for (from, to, rule, message, id) in rows {
        let expected = message.replace("ID", id);
        let blocks = own(made);
        let of_turn = ModelRequest {
            rounds: vec![RoundSent {
                assistant: &blocks,
                origin: from.as_ref(),
                results: vec![(made, "r")],
            }],
            ..request(&input, &to)
        };
        assert_eq!(sent(&of_turn, rule), expected, "this turn: {from:?} {to:?}");
        let result = ResultBlock::of_text(made, Literal::from_text("r"));
        let history = [
            Message {
                origin: from.clone().map(Arc::new),
                ..Message::made(Role::Assistant, own(made))
            },
            Message::made(Role::Tool, vec![Block::Result(result)]),
        ];
        let of_history = ModelRequest {
            messages: history.iter().collect(),
            ..request(&input, &to)
        };
        assert_eq!(
            sent(&of_history, rule),
            expected,
            "history: {from:?} {to:?}"
        );
    }
}

/// A client's own bytes, of whose maker nothing is known.
#[test]
fn a_clients_history_keeps_its_bytes_but_for_ids_that_the_upstream_refuses() {
    let history = concat!(
        r#"{"role":"assistant","content":null,"k":1.50,"tool_calls":[{"id":"a.1","z":[],"type":"function","#,
        r#""function":{"arguments":"{ }","name":"f"}}]},{"content":"r","role":"tool","tool_call_id":"a.1","k":1e5}"#,
    );
    let body = format!(r#"{{"model":"m","messages":[{history}]}}"#);
    let input = decode(body.as_bytes(), &RequestLimits::defaults()).unwrap();
    let to = origin("up", "m");
    let request = ModelRequest {
        messages: input.messages.iter().collect(),
        ..request(&input, &to)
    };
    for rule in [
        CallIdRule::AsSent,
        CallIdRule::Plain,
        CallIdRule::NineLetters,
    ] {
        let expected = history.replace("a.1", &rule.fitted("a.1"));
        assert_eq!(sent(&request, rule), expected, "{rule:?}");
    }
}
