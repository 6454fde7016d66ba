use serde_json::{Value, json};

use super::MixedRound;

fn mixed() -> MixedRound {
    MixedRound {
        key: "key".to_owned(),
        model: "mock-t1-c2".to_owned(),
        ours: "ours".to_owned(),
        theirs: "theirs".to_owned(),
    }
}

fn call(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}})
}

fn answer(calls: &[Value], finish: &str) -> Vec<u8> {
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let body = json!({"choices": [{"message": message, "finish_reason": finish}]});
    body.to_string().into_bytes()
}

fn body_of(request: &[u8]) -> Value {
    let text = std::str::from_utf8(request).unwrap();
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn the_second_request_answers_the_call_by_its_id() {
    let first = body_of(&mixed().first());
    let answer = answer(&[call("call_7", "theirs")], "tool_calls");
    let second = body_of(&mixed().second(200, &answer).unwrap());
    let messages = second["messages"].as_array().unwrap();
    let before = first["messages"].as_array().unwrap();
    assert_eq!(messages[..before.len()], before[..]);
    assert_eq!(messages[before.len()]["tool_calls"][0]["id"], "call_7");
    assert_eq!(messages[before.len() + 1]["tool_call_id"], "call_7");
    assert_eq!(messages.len(), before.len() + 2);
    assert_eq!(second["tools"], first["tools"]);
}

#[test]
fn any_other_answer_is_wrong() {
    let theirs = || call("call_7", "theirs");
    for (status, answer) in [
        (500, answer(&[theirs()], "tool_calls")),
        (200, answer(&[theirs()], "stop")),
        (200, answer(&[], "tool_calls")),
        (200, answer(&[call("call_7", "ours")], "tool_calls")),
        (
            200,
            answer(&[call("call_6", "ours"), theirs()], "tool_calls"),
        ),
        (200, b"{".to_vec()),
    ] {
        let shown = String::from_utf8_lossy(&answer).into_owned();
        assert!(mixed().second(status, &answer).is_err(), "{status} {shown}");
    }
}
