use std::time::Duration;

use super::answers::of_model;
use super::profile::{AnswerFault, Profile};
use super::{Form, Question, Results, Says, question};
use crate::http::Afterwards;

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
            model: model.to_owned(),
            form,
            says,
        };
        let asked = question(body.as_bytes()).unwrap();
        assert_eq!(asked, (expected, Results { at_end, earlier }), "{body}");
    }
}

#[test]
fn a_cut_answer_is_the_beginning_of_a_whole_one() {
    let question = |model: &str| Question {
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
    let question = Question {
        model: "mock-t5-b2".to_owned(),
        form: Form::StreamedWithUsage,
        says: Says::Text,
    };
    let answer = of_model(&question, Profile::parse(&question.model).unwrap());
    let mut from = 0;
    let mut events = Vec::new();
    for &to in &answer.ends {
        let part = std::str::from_utf8(&answer.bytes[from..to]).unwrap();
        events.push(part.matches("data: ").count());
        from = to;
    }
    assert_eq!(from, answer.bytes.len());
    assert_eq!(events, [1, 2, 2, 1, 3]);
}
