use std::time::Duration;

use tw_core::model::{Finish, ModelEvent};
use tw_wire::format::{AnswerDecoder, WireFormat};
use tw_wire::upstream_answer::StreamLimits;

use super::answers::of_model;
use super::profile::{AnswerFault, Profile, word};
use super::{Form, Question, Results, Says, question};
use crate::http::{self, Afterwards, Chunked};
use crate::spoken::SpokenFormat;

const CHAT: WireFormat = WireFormat::OpenAiChat;

#[test]
fn names_of_models() {
    let profile = Profile::parse("mock-t50-f30-d20-b16-c2-s503").unwrap();
    let expected = Profile {
        deltas: 50,
        first: Duration::from_millis(30),
        pause: Duration::from_millis(20),
        events_per_write: 16,
        calls: 2,
        fault: Some(AnswerFault::Status(503)),
    };
    assert_eq!(profile, expected);
    assert_eq!(Profile::parse("mock-t2").unwrap().text(), "w00000 w00001 ");
    let elsewhere = Profile::parse("responses-mock-t2");
    assert_eq!(elsewhere.unwrap(), Profile::parse("mock-t2").unwrap());
    for bad in ["gpt", "mock-", "mock-t", "mock-z1", "mock-t1-é"] {
        assert!(Profile::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn tools_are_called_until_their_results_are_there() {
    let tools = r#""tools":[{"type":"function","function":{"name":"look","parameters":{}}},
        {"type":"function","function":{"name":"ask"}}]"#;
    let user = r#"{"role":"user","content":"hi"}"#;
    let result = r#"{"role":"tool","tool_call_id":"x","content":"1"}"#;
    let look = || Says::Calls(vec!["look".to_owned()]);
    let both = || Says::Calls(vec!["look".to_owned(), "ask".to_owned()]);
    let none = (0, 0);
    let cases = [
        (
            "mock-t1",
            format!(r#""messages":[{user}]"#),
            Form::Plain,
            Says::Text,
            none,
        ),
        (
            "mock-t1",
            format!(r#""stream":true,"messages":[{user}],{tools}"#),
            Form::Streamed,
            look(),
            none,
        ),
        (
            "mock-t1-c2",
            format!(r#""messages":[{user},{result},{user}],{tools}"#),
            Form::Plain,
            both(),
            (0, 1),
        ),
        (
            "mock-t1-c0",
            format!(r#""messages":[{user}],{tools}"#),
            Form::Plain,
            Says::Text,
            none,
        ),
        (
            "mock-t1-c2",
            format!(
                r#""stream":true,"stream_options":{{"include_usage":true}},"messages":[{user},{result},{user},{result},{result}],{tools}"#
            ),
            Form::StreamedWithUsage,
            Says::Text,
            (2, 1),
        ),
    ];
    for (model, rest, form, says, (at_end, earlier)) in cases {
        let body = format!(r#"{{"model":"{model}",{rest}}}"#);
        let expected = Question {
            format: CHAT,
            model: model.to_owned(),
            form,
            says,
        };
        let asked = question(CHAT, body.as_bytes()).unwrap();
        assert_eq!(asked, (expected, Results { at_end, earlier }), "{body}");
    }
}

#[test]
fn a_cut_answer_is_the_beginning_of_a_whole_one() {
    let question = |model: &str| Question {
        format: CHAT,
        model: model.to_owned(),
        form: Form::Streamed,
        says: Says::Text,
    };
    let of = |model: &str| of_model(&question(model), Profile::parse(model).unwrap());
    let (whole, cut) = (of("mock-t9"), of("mock-t9-x1"));
    // The name of the model is in each event.
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).matches("data: ").count();
    assert!(shown(&cut.bytes) < shown(&whole.bytes));
    assert!(!String::from_utf8_lossy(&cut.bytes).contains("[DONE]"));
    assert_eq!(cut.ends.last(), Some(&cut.bytes.len()));
    assert_eq!(cut.afterwards, Afterwards::Close);
    assert_eq!(whole.afterwards, Afterwards::Keep);
}

#[test]
fn writes_hold_as_many_events_as_asked() {
    for (format, expected) in [
        (CHAT, [1, 2, 2, 1, 3]),
        (WireFormat::AnthropicMessages, [3, 2, 2, 1, 3]),
        (WireFormat::OpenAiResponses, [4, 2, 2, 1, 5]),
    ] {
        let question = text_of(format, "mock-t5-b2");
        let answer = of_model(&question, Profile::parse(&question.model).unwrap());
        let mut from = 0;
        let mut events = Vec::new();
        for &to in &answer.ends {
            let part = std::str::from_utf8(&answer.bytes[from..to]).unwrap();
            events.push(part.matches("data: ").count());
            from = to;
        }
        assert_eq!(from, answer.bytes.len(), "{format:?}");
        assert_eq!(events, expected, "{format:?}");
    }
}

fn text_of(format: WireFormat, model: &str) -> Question {
    Question {
        format,
        model: model.to_owned(),
        form: Form::StreamedWithUsage,
        says: Says::Text,
    }
}

#[test]
fn the_other_formats_stream_texts() {
    let user = r#"{"role":"user","content":"hi"}"#;
    let tool = r#""tools":[{"name":"look","type":"function"}]"#;
    let messages = WireFormat::AnthropicMessages;
    let responses = WireFormat::OpenAiResponses;
    for (format, rest, is_answered) in [
        (
            messages,
            format!(r#""stream":true,"messages":[{user}]"#),
            true,
        ),
        (
            responses,
            format!(r#""stream":true,"input":[{user}]"#),
            true,
        ),
        (responses, r#""stream":true,"input":"hi""#.to_owned(), true),
        (messages, format!(r#""messages":[{user}]"#), false),
        (responses, r#""input":"hi""#.to_owned(), false),
        (
            messages,
            format!(r#""stream":true,"messages":[{user}],{tool}"#),
            false,
        ),
        (
            responses,
            format!(r#""stream":true,"input":"hi",{tool}"#),
            false,
        ),
    ] {
        let body = format!(r#"{{"model":"mock-t1",{rest}}}"#);
        let asked = question(format, body.as_bytes());
        assert_eq!(asked.is_ok(), is_answered, "{format:?} {body}: {asked:?}");
        if let Ok((question, results)) = asked {
            let form = Form::Streamed;
            let expected = Question {
                form,
                ..text_of(format, "mock-t1")
            };
            assert_eq!(question, expected, "{body}");
            assert_eq!(
                results,
                Results {
                    at_end: 0,
                    earlier: 0
                },
                "{body}"
            );
        }
    }
}

/// What the server reads in a fake answer.
fn read(format: WireFormat, bytes: &[u8]) -> Vec<ModelEvent> {
    let head = http::response(bytes).unwrap().unwrap();
    let mut body = Vec::new();
    let mut chunked = Chunked::new();
    let rest = &bytes[head.bytes..];
    let used = chunked
        .feed(rest, |data| body.extend_from_slice(data))
        .unwrap();
    assert_eq!((used, chunked.is_whole()), (rest.len(), true));
    let mut decoder = AnswerDecoder::new(
        format,
        &StreamLimits::defaults(),
        tw_core::request::ToolNames::default(),
    );
    let mut events = Vec::new();
    decoder.feed(&body, &mut events).unwrap();
    decoder.finish(&mut events).unwrap();
    events
}

#[test]
fn the_server_reads_each_format() {
    for spoken in SpokenFormat::ALL {
        let question = text_of(spoken.format, "mock-t5-b2");
        let answer = of_model(&question, Profile::parse(&question.model).unwrap());
        let (mut texts, mut finishes, mut tokens, mut ends) = (Vec::new(), Vec::new(), 0, 0);
        for event in read(spoken.format, &answer.bytes) {
            match event {
                ModelEvent::Delta(delta) => {
                    texts.extend(delta.text.filter(|text| !text.is_empty()))
                }
                ModelEvent::Finish { reason, .. } => finishes.push(reason),
                ModelEvent::Usage(usage) => tokens = usage.completion_tokens,
                ModelEvent::Done => ends += 1,
                ModelEvent::Start { model, .. } => assert_eq!(model.as_deref(), Some("mock-t5-b2")),
                ModelEvent::BlockEnd(_) | ModelEvent::Extra { .. } => {}
                ModelEvent::Call(_)
                | ModelEvent::Native { .. }
                | ModelEvent::Progress { .. }
                | ModelEvent::Error(_) => panic!("{event:?} in {spoken:?}"),
            }
        }
        let texts: Vec<&str> = texts.iter().map(|text| text.as_str()).collect();
        let words: Vec<String> = (0..5).map(word).collect();
        assert_eq!(texts, words, "{spoken:?}");
        assert_eq!(
            (finishes, tokens, ends),
            (vec![Finish::Stop], 5, 1),
            "{spoken:?}"
        );
    }
}
