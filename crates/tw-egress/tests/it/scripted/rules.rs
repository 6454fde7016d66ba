//! Which rule answers, and what it fills in.

use super::{ask, body_json, streamed, user};
use serde_json::{Value, json};
use tw_egress::scripted::{Script, ScriptedAnswer};

/// The demo's own script.
const DEMO: &str = include_str!("../../../../turnwright/src/demo/script.toml");

fn content(answer: &ScriptedAnswer) -> String {
    let body = body_json(answer);
    let text = body["choices"][0]["message"]["content"].as_str();
    text.unwrap_or_else(|| panic!("no content in {body}"))
        .to_owned()
}

/// Whether a rule with `when` answers `request`.
fn check(when: &str, request: &Value, applies: bool) {
    let script = format!("[[rule]]\nwhen = {{ {when} }}\ntext = 'yes'\n[[rule]]\ntext = 'no'");
    let script = Script::parse(&script).unwrap();
    let expected = if applies { "yes" } else { "no" };
    assert_eq!(content(&ask(&script, request)), expected, "{when}");
}

fn after_two_results() -> Value {
    json!({
        "model": "gpt-x",
        "tools": [{ "type": "function", "function": { "name": "clock" } }, { "type": "custom", "custom": { "name": "free" } }],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "What " }, { "type": "text", "text": "time?" }] },
            { "role": "assistant", "content": null, "tool_calls": [] },
            { "role": "tool", "tool_call_id": "a", "content": "ten" },
            { "role": "tool", "tool_call_id": "b", "content": "eleven" },
        ],
    })
}

#[test]
fn conditions() {
    let request = after_two_results();
    for (when, applies) in [
        ("", true),
        ("last_role = 'tool'", true),
        ("last_role = 'user'", false),
        ("last_contains = 'lev'", true),
        ("last_contains = 'ten'", false),
        ("user_contains = 'What time'", true),
        ("user_contains = 'what time'", false),
        ("messages = 4", true),
        ("messages = 3", false),
        ("messages_min = 4", true),
        ("messages_min = 5", false),
        ("tool_results = 2", true),
        ("tool_results = 0", false),
        ("has_tool = 'clock'", true),
        ("has_tool = 'free'", true),
        ("has_tool = 'other'", false),
        ("model = 'gpt-x'", true),
        ("model = 'gpt'", false),
        ("stream = false", true),
        ("stream = true", false),
        ("last_role = 'tool', messages = 4, model = 'gpt-x'", true),
        ("last_role = 'tool', messages = 4, model = 'other'", false),
    ] {
        check(when, &request, applies);
    }
}

#[test]
fn times_counts_only_the_answers_of_its_rule() {
    let script = "[[rule]]\nwhen = { times = 2, last_contains = 'go' }\ntext = 'one of two'\n[[rule]]\ntext = 'after'";
    let script = Script::parse(script).unwrap();
    let answers = ["stay", "go", "go", "go"].map(|text| content(&ask(&script, &user(text))));
    assert_eq!(answers, ["after", "one of two", "one of two", "after"]);
}

#[test]
fn placeholders_are_filled_in_once() {
    let script = "[[rule]]\ntext = '{{last_user}}|{{last_result}}|{{result_1}}|{{result_3}}|{{other}}|{{{last_result}}}'";
    let script = Script::parse(script).unwrap();
    let mut request = after_two_results();
    request["messages"][3]["content"] = json!("{{last_user}}");
    assert_eq!(
        content(&ask(&script, &request)),
        "What time?|{{last_user}}|ten||{{other}}|{{{last_user}}}"
    );
}

#[test]
fn a_field_of_a_result_is_picked_where_there_is_one() {
    let script =
        "[[rule]]\ntext = '{{result_1.a}} {{result_1.b}} {{result_1.c}} {{last_result.a}}'";
    let script = Script::parse(script).unwrap();
    let mut request = after_two_results();
    request["messages"][2]["content"] = json!(r#"{"a":"x","b":[1]}"#);
    assert_eq!(
        content(&ask(&script, &request)),
        r#"x [1] {"a":"x","b":[1]} eleven"#
    );
}

#[test]
fn a_filled_in_text_is_bounded() {
    let script =
        Script::parse("[[rule]]\ntext = '{{last_user}}{{last_user}}{{last_user}}'").unwrap();
    let answer = ask(&script, &user(&"é".repeat(60_000)));
    assert_eq!(content(&answer).len(), 256 * 1024);
}

#[test]
fn what_no_rule_matches_is_refused() {
    let script = Script::parse("[[rule]]\nwhen = { model = 'x' }\ntext = 'yes'").unwrap();
    let answer = ask(&script, &streamed(user("my secret")));
    assert_eq!(answer.status, 400);
    let error = &body_json(&answer)["error"];
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("scripted model: no rule of the script matches"),
        "{message}"
    );
    assert!(
        message.contains("last_role = \"user\"") && !message.contains("secret"),
        "{message}"
    );
    assert_eq!(error["type"], "invalid_request_error");
}

#[test]
fn what_is_no_completion_request_is_refused() {
    let script = Script::parse("[[rule]]\ntext = 'yes'").unwrap();
    for (body, says, param) in [
        ("", "not a JSON object", Value::Null),
        ("[]", "not a JSON object", Value::Null),
        ("{}", "`messages` is missing", json!("messages")),
        (
            r#"{"messages":"x"}"#,
            "`messages` is missing or no array",
            json!("messages"),
        ),
        (
            r#"{"messages":[]}"#,
            "`messages` is empty",
            json!("messages"),
        ),
        (r#"{"messages":[1],"n":0}"#, "`n` is not", json!("n")),
        (r#"{"messages":[1],"n":9}"#, "`n` is not", json!("n")),
    ] {
        let answer = script.answer(body.as_bytes(), 1);
        let error = &body_json(&answer)["error"];
        assert_eq!((answer.status, &error["param"]), (400, &param), "{body}");
        assert!(
            error["message"].as_str().unwrap().contains(says),
            "{body}: {error}"
        );
    }
    assert_eq!(script.answer(br#"{"messages":[1]}"#, 1).status, 200);
}

#[test]
fn the_same_serial_gives_the_same_bytes() {
    let script = Script::parse("[[rule]]\ncalls = [{ name = 'f' }]").unwrap();
    let request = streamed(user("hi")).to_string();
    let answer = |serial| script.answer(request.as_bytes(), serial);
    assert_eq!(answer(1), answer(1));
    assert_ne!(answer(1).body, answer(2).body);
    assert_eq!(answer(u64::MAX).status, 200);
}

/// Adds the answer's message to the conversation and returns its calls.
fn take_turn(script: &Script, request: &mut Value, serial: u64) -> Vec<(String, String)> {
    let body = body_json(&script.answer(request.to_string().as_bytes(), serial));
    let message = body["choices"][0]["message"].clone();
    let calls = message["tool_calls"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    request["messages"].as_array_mut().unwrap().push(message);
    let part = |call: &Value, part: &str| call["function"][part].as_str().unwrap().to_owned();
    calls
        .iter()
        .map(|call| (part(call, "name"), part(call, "arguments")))
        .collect()
}

fn push(request: &mut Value, message: Value) {
    request["messages"].as_array_mut().unwrap().push(message);
}

#[test]
fn the_demo_runs_through_its_rounds_every_time_it_is_asked() {
    let script = Script::parse(DEMO).unwrap();
    let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let mut request = json!({ "model": "demo", "tools": [function("time_now"), function("calculate")], "messages": [] });
    let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
    let result = |text: &str| json!({ "role": "tool", "tool_call_id": "x", "content": text });
    for turn in 0..2 {
        let question = "What time is it in Tokyo and in New York, and what is 19.99 * 3?";
        push(&mut request, json!({ "role": "user", "content": question }));
        let times = [
            call("time_now", r#"{"zone":"Asia/Tokyo"}"#),
            call("time_now", r#"{"zone":"America/New_York"}"#),
        ];
        assert_eq!(take_turn(&script, &mut request, turn * 4), times);
        push(
            &mut request,
            result(r#"{"time":"01:00:00","weekday":"Tuesday"}"#),
        );
        push(
            &mut request,
            result(r#"{"time":"12:00:00","weekday":"Monday"}"#),
        );
        let broken = [call("calculate", r#"{"expr":"19.99 * 3"}"#)];
        assert_eq!(take_turn(&script, &mut request, turn * 4 + 1), broken);
        push(
            &mut request,
            result("error: `expression` is missing, `expr` is unknown"),
        );
        let repaired = [call("calculate", r#"{"expression":"19.99 * 3"}"#)];
        assert_eq!(take_turn(&script, &mut request, turn * 4 + 2), repaired);
        push(&mut request, result(r#"{"result":"59.97"}"#));
        assert_eq!(take_turn(&script, &mut request, turn * 4 + 3), []);
        let last = request["messages"].as_array().unwrap().last().unwrap();
        let text = last["content"].as_str().unwrap();
        assert_eq!(
            text,
            "In Tokyo it is 01:00:00 on Tuesday, in New York it is 12:00:00 on Monday.\n19.99 * 3 is 59.97.\n"
        );
    }
    assert!(content(&ask(&script, &user("something else"))).contains("What time is it in Tokyo"));
}
