//! The rules themselves: each refuses what its provider does.

use serde_json::{Value, json};
use tw_wire::format::WireFormat;

use super::check;

fn refused(format: WireFormat, whole: &Value, rows: Vec<(&str, Value)>) {
    assert_eq!(check(format, whole), Ok(()));
    assert!(rows.len() >= 12);
    for (why, changes) in rows {
        let mut body = whole.clone();
        for (name, value) in changes.as_object().unwrap() {
            body[name] = value.clone();
        }
        let refusal = check(format, &body).expect_err(why);
        assert!(refusal.contains(why), "{why}: {refusal}");
    }
}

#[test]
fn chat_completions_that_openai_refuses() {
    let user = json!({ "role": "user", "content": "q" });
    let called = |id: &str| {
        json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } }] })
    };
    let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "r" });
    let two = json!({ "role": "assistant", "tool_calls": [called("a")["tool_calls"][0], called("a")["tool_calls"][0]] });
    let said = |content: Value| json!({ "role": "user", "content": content });
    let tools = json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let whole = json!({ "model": "m", "tools": tools, "tool_choice": "auto",
        "messages": [user, called("a"), result("a"), user] });
    let rows = vec![
        ("an empty list", json!({ "messages": [] })),
        (
            "calls without results",
            json!({ "messages": [user, called("a")] }),
        ),
        (
            "calls without results",
            json!({ "messages": [user, called("a"), user, result("a")] }),
        ),
        (
            "a result of no call",
            json!({ "messages": [user, result("a")] }),
        ),
        (
            "a result of no call",
            json!({ "messages": [user, called("a"), result("a"), result("a")] }),
        ),
        (
            "twice: a",
            json!({ "messages": [user, two, result("a"), result("a")] }),
        ),
        (
            "an answer of nothing",
            json!({ "messages": [user, { "role": "assistant", "content": null }] }),
        ),
        (
            "an empty list",
            json!({ "messages": [user, { "role": "assistant", "content": "t", "tool_calls": [] }] }),
        ),
        ("no list", json!({ "messages": [said(Value::Null)] })),
        ("an empty list", json!({ "messages": [said(json!([]))] })),
        (
            "is none of",
            json!({ "messages": [said(json!([{ "type": "image" }]))] }),
        ),
        (
            "no URL",
            json!({ "messages": [said(json!([{ "type": "image_url", "image_url": { "url": "x" } }]))] }),
        ),
        (
            "is none of",
            json!({ "messages": [user, called("a"), { "role": "tool", "tool_call_id": "a",
            "content": [{ "type": "image_url", "image_url": { "url": "https://x" } }] }] }),
        ),
        (
            "a long id",
            json!({ "messages": [user, called(&"x".repeat(41)), result(&"x".repeat(41))] }),
        ),
        ("tool_choice without tools", json!({ "tools": null })),
        (
            "no such tool",
            json!({ "tool_choice": { "type": "function", "function": { "name": "g" } } }),
        ),
        (
            "no plain name",
            json!({ "tools": [{ "type": "function", "function": { "name": "x".repeat(65) } }] }),
        ),
        (
            "too many stops",
            json!({ "stop": ["a", "b", "c", "d", "e"] }),
        ),
        ("an unknown field: top_k", json!({ "top_k": 1 })),
    ];
    refused(WireFormat::OpenAiChat, &whole, rows);
}

#[test]
fn responses_that_openai_refuses() {
    let user = json!({ "role": "user", "content": "q" });
    let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{}" });
    let output = |id: &str| json!({ "type": "function_call_output", "call_id": id, "output": "r" });
    let thought = json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" });
    let part = |role: &str, kind: &str| json!({ "role": role, "content": [{ "type": kind, "text": "t" }] });
    let tools = json!([{ "type": "function", "name": "f", "parameters": { "type": "object" }, "strict": false }]);
    let whole = json!({ "model": "m", "tools": tools, "tool_choice": "required", "store": false,
        "input": [user, thought, call("a"), call("b"), output("b"), output("a")] });
    let rows = vec![
        ("an empty list", json!({ "input": [] })),
        (
            "calls without outputs",
            json!({ "input": [user, call("a")] }),
        ),
        (
            "an output of no call",
            json!({ "input": [user, output("a")] }),
        ),
        (
            "an output of no call",
            json!({ "input": [user, call("a"), output("a"), output("a")] }),
        ),
        (
            "an output of no call",
            json!({ "input": [user, call("a"),
            { "type": "custom_tool_call_output", "call_id": "a", "output": "r" }] }),
        ),
        (
            "twice: a",
            json!({ "input": [user, call("a"), call("a"), output("a"), output("a")] }),
        ),
        (
            "a long id",
            json!({ "input": [user, call(&"x".repeat(65))] }),
        ),
        (
            "is none of",
            json!({ "input": [part("user", "output_text")] }),
        ),
        (
            "is none of",
            json!({ "input": [part("assistant", "input_text")] }),
        ),
        (
            "an item of no known type",
            json!({ "input": [{ "type": "tool_use" }] }),
        ),
        ("nothing behind it", json!({ "input": [user, thought] })),
        ("without its answer", json!({ "input": [thought, user] })),
        (
            "nobody keeps",
            json!({ "input": [{ "type": "reasoning", "id": "rs_1", "summary": [] }, user] }),
        ),
        ("max_output_tokens", json!({ "max_output_tokens": 15 })),
        ("an unknown field: seed", json!({ "seed": 1 })),
        (
            "no such tool",
            json!({ "tool_choice": { "type": "function", "name": "g" } }),
        ),
        (
            "an open schema",
            json!({ "tools": [{ "type": "function", "name": "f", "parameters": {} }] }),
        ),
        (
            "an id of another item",
            json!({ "input": [{ "role": "user", "id": "fc_1", "content": "q" }] }),
        ),
    ];
    refused(WireFormat::OpenAiResponses, &whole, rows);
}

#[test]
fn messages_that_anthropic_refuses() {
    let user = json!({ "role": "user", "content": "q" });
    let called = |ids: &[&str]| {
        let calls = ids
            .iter()
            .map(|id| json!({ "type": "tool_use", "id": id, "name": "f", "input": {} }));
        json!({ "role": "assistant", "content": calls.collect::<Vec<_>>() })
    };
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "r" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let said = |blocks: Value| json!({ "role": "user", "content": blocks });
    let answered = |content: Value| json!({ "role": "assistant", "content": content });
    let tools = json!([{ "name": "f", "input_schema": { "type": "object" } }]);
    let marked = json!({ "type": "text", "text": "t", "cache_control": { "type": "ephemeral" } });
    let whole = json!({ "model": "m", "max_tokens": 2000, "tools": tools,
        "messages": [user, called(&["a", "b"]), said(json!([result("b"), result("a"), text("go")]))] });
    let rows = vec![
        ("no max_tokens", json!({ "max_tokens": 0 })),
        (
            "not the user's",
            json!({ "messages": [answered(json!([text("t")]))] }),
        ),
        (
            "calls without results",
            json!({ "messages": [user, called(&["a"])] }),
        ),
        (
            "calls without results",
            json!({ "messages": [user, called(&["a", "b"]), said(json!([result("a")]))] }),
        ),
        (
            "a result of no call",
            json!({ "messages": [said(json!([result("a")]))] }),
        ),
        (
            "a result behind",
            json!({ "messages": [user, called(&["a"]), said(json!([text("t"), result("a")]))] }),
        ),
        (
            "twice: a",
            json!({ "messages": [user, called(&["a"]), said(json!([result("a")])), called(&["a"]),
            said(json!([result("a")]))] }),
        ),
        ("without tools", json!({ "tools": [] })),
        (
            "a text of nothing",
            json!({ "messages": [said(json!([text(" ")]))] }),
        ),
        ("a text of nothing", json!({ "system": [text("")] })),
        (
            "is none of",
            json!({ "messages": [{ "role": "system", "content": "s" }] }),
        ),
        (
            "an empty text",
            json!({ "messages": [user, answered(json!([{ "type": "thinking", "thinking": "t",
            "signature": "" }]))] }),
        ),
        (
            "no plain name",
            json!({ "messages": [user, called(&["a.b"])] }),
        ),
        (
            "is no object",
            json!({ "messages": [user, answered(json!([{ "type": "tool_use", "id": "a", "name": "f",
            "input": "x" }]))] }),
        ),
        (
            "is none of",
            json!({ "messages": [said(json!([{ "type": "image", "source": { "type": "base64",
            "media_type": "image/svg+xml", "data": "AA" } }]))] }),
        ),
        (
            "too many marks",
            json!({ "messages": [said(json!([marked, marked, marked, marked, marked]))] }),
        ),
        (
            "a budget of",
            json!({ "thinking": { "type": "enabled", "budget_tokens": 2000 } }),
        ),
        (
            "without its thought",
            json!({ "thinking": { "type": "adaptive" },
            "messages": [user, called(&["a"]), said(json!([result("a")]))] }),
        ),
        ("an unknown field: seed", json!({ "seed": 1 })),
        ("temperature", json!({ "temperature": 1.5 })),
    ];
    refused(WireFormat::AnthropicMessages, &whole, rows);
}
