use std::time::Duration;

use super::answers::of_model;
use super::profile::Profile;
use super::{Form, Question, Says, question};

#[test]
fn names_of_models() {
    let profile = Profile::parse("mock-t50-d20-b16").unwrap();
    let expected = Profile {
        deltas: 50,
        pause: Duration::from_millis(20),
        events_per_write: 16,
    };
    assert_eq!(profile, expected);
    assert_eq!(Profile::parse("mock-t2").unwrap().text(), "w00000 w00001 ");
    for bad in ["gpt", "mock-", "mock-t", "mock-z1", "mock-t1-é"] {
        assert!(Profile::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_tool_is_called_until_its_result_is_there() {
    let tools = r#""tools":[{"type":"function","function":{"name":"look","parameters":{}}}]"#;
    let user = r#"{"role":"user","content":"hi"}"#;
    let result = r#"{"role":"tool","tool_call_id":"x","content":"1"}"#;
    let cases = [
        (
            format!(r#"{{"model":"m","messages":[{user}]}}"#),
            Form::Plain,
            Says::Text,
        ),
        (
            format!(r#"{{"model":"m","stream":true,"messages":[{user}],{tools}}}"#),
            Form::Streamed,
            Says::Call("look".to_owned()),
        ),
        (
            format!(
                r#"{{"model":"m","stream":true,"stream_options":{{"include_usage":true}},"messages":[{user},{result}],{tools}}}"#
            ),
            Form::StreamedWithUsage,
            Says::Text,
        ),
    ];
    for (body, form, says) in cases {
        let expected = Question {
            model: "m".to_owned(),
            form,
            says,
        };
        assert_eq!(question(body.as_bytes()).unwrap(), expected, "{body}");
    }
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
