use tw_core::event::LogEvent;
use tw_core::id::TurnId;
use tw_core::json::{Json, Literal};
use tw_core::model::{
    AnswerDelta, CallDelta, CallForm, CallNative, DeltaRest, Finish, ReasoningText, TokenUsage,
};
use tw_core::native::NativePart;

use super::CompletionBuilder;
use crate::openai_chat::outcome::ChatDialect;
use crate::openai_chat::{FORMAT, REASONING};

fn body(dialect: ChatDialect, events: &[LogEvent]) -> String {
    let turn = TurnId::parse("0190aaaabbbb7ccc8dddeeeeffff0001").expect("a UUID");
    let mut builder = CompletionBuilder::new(turn, dialect);
    builder.push(&LogEvent::Start {
        model: "m".to_owned(),
        created_s: 7,
    });
    builder.push(&LogEvent::Round {
        round: 1,
        format: FORMAT,
    });
    events.iter().for_each(|event| builder.push(event));
    String::from_utf8(builder.into_body()).expect("UTF-8")
}

fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

fn text(text: &str) -> LogEvent {
    LogEvent::Delta(AnswerDelta {
        choice: 0,
        text: Some(Literal::from_text(text)),
        rest: None,
    })
}

fn rest(rest: DeltaRest) -> LogEvent {
    LogEvent::Delta(AnswerDelta {
        choice: 0,
        text: None,
        rest: Some(Box::new(rest)),
    })
}

fn call(call: u32, id: Option<&str>, arguments: &str) -> LogEvent {
    LogEvent::ClientCall(CallDelta {
        choice: 0,
        call,
        id: id.map(Into::into),
        name: Some("f".into()),
        form: CallForm::Function,
        arguments: Some(Literal::from_text(arguments)),
        native: None,
    })
}

const HEAD: &str = r#"{"id":"chatcmpl-0190aaaabbbb7ccc8dddeeeeffff0001","object":"chat.completion","created":7,"model":"m","#;

#[test]
fn text_of_all_rounds_is_joined() {
    let usage = TokenUsage {
        prompt_tokens: 1,
        completion_tokens: 2,
        total_tokens: 3,
        native: Some(NativePart {
            format: FORMAT,
            json: json(r#"{"total_tokens":3}"#),
        }),
        ..TokenUsage::default()
    };
    let logprobs = |token: &str| {
        rest(DeltaRest {
            logprobs: Some(json(&format!(
                r#"{{"content":[{{"token":"{token}"}}],"refusal":null}}"#
            ))),
            ..DeltaRest::default()
        })
    };
    let events = [
        text("a\""),
        logprobs("a"),
        LogEvent::Round {
            round: 2,
            format: FORMAT,
        },
        text("b"),
        logprobs("b"),
        rest(DeltaRest {
            extra: vec![("annotations".into(), json("[1]"))],
            ..DeltaRest::default()
        }),
        LogEvent::Extra {
            key: "service_tier".into(),
            value: json("\"default\""),
        },
        LogEvent::Finish {
            choice: 0,
            reason: Finish::Length,
        },
        LogEvent::Usage(Box::new(usage)),
    ];
    let rest = concat!(
        r#""choices":[{"index":0,"message":{"role":"assistant","content":"a\"\n\nb","refusal":null,"annotations":[1]},"#,
        r#""logprobs":{"content":[{"token":"a"},{"token":"b"}],"refusal":null},"finish_reason":"length"}],"#,
        r#""usage":{"total_tokens":3},"service_tier":"default"}"#
    );
    assert_eq!(body(ChatDialect::Tools, &events), format!("{HEAD}{rest}"));
}

#[test]
fn calls_are_whole() {
    let events = [
        call(0, Some("a"), "{"),
        call(1, None, "{}"),
        call(0, None, "}"),
    ];
    let message = concat!(
        r#"{"role":"assistant","content":null,"refusal":null,"tool_calls":["#,
        r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},"#,
        r#"{"id":"call_0190aaaabbbb7ccc8dddeeeeffff0001_1_1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#
    );
    assert!(
        body(ChatDialect::Tools, &events).contains(message),
        "{}",
        body(ChatDialect::Tools, &events)
    );
    let old = r#""function_call":{"name":"f","arguments":"{}"}}"#;
    assert!(
        body(ChatDialect::Functions, &events).contains(old),
        "{}",
        body(ChatDialect::Functions, &events)
    );
}

#[test]
fn what_was_there_and_empty_is_there_and_empty() {
    let blank = rest(DeltaRest {
        reasoning: Some(ReasoningText {
            place: REASONING,
            text: Literal::default(),
        }),
        ..DeltaRest::default()
    });
    let said = |events: &[LogEvent]| {
        let body: serde_json::Value =
            serde_json::from_str(&body(ChatDialect::Tools, events)).expect("JSON");
        let message = body["choices"][0]["message"].clone();
        (
            message["content"].clone(),
            message["reasoning_content"].clone(),
        )
    };
    let call = || call(0, Some("a"), "{}");
    assert_eq!(
        said(&[call()]),
        (serde_json::Value::Null, serde_json::Value::Null)
    );
    assert_eq!(said(&[text(""), blank, call()]), ("".into(), "".into()));
}

#[test]
fn what_only_its_format_knows_of_a_call_stands_with_it() {
    let field = |key: &str| vec![(Box::from(key), json("[1]"))];
    let native = LogEvent::ClientCall(CallDelta {
        choice: 0,
        call: 0,
        id: None,
        name: None,
        form: CallForm::Function,
        arguments: None,
        native: Some(Box::new(CallNative {
            beside: field("extra_content"),
            inside: field("x"),
        })),
    });
    let events = [call(0, Some("a"), "{}"), native.clone(), native];
    let written = body(ChatDialect::Tools, &events);
    let expected = r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}","x":[1,1]},"extra_content":[1,1]}"#;
    assert!(written.contains(expected), "{written}");
}
