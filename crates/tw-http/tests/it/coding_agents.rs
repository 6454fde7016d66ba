//! What coding agents send, over an upstream of each kind: a call of one of their tools there and back.

use std::path::Path;

use serde_json::{Value, json};
use tw_wire::format::WireFormat;

use crate::nine_pairs::{Pair, Spoken, UP_ID, bring, result_sent, seen, sse};

/// An agent's request.
struct Case {
    name: &'static str,
    surface: WireFormat,
    /// The tool of the client's that the model calls.
    calls: &'static str,
    /// Fields that have no equal in other formats.
    own_fields: &'static [&'static str],
}

const CASES: [Case; 4] = [
    Case {
        name: "claude_code",
        surface: WireFormat::AnthropicMessages,
        calls: "Bash",
        own_fields: &["system", "thinking", "context_management", "output_config"],
    },
    Case {
        name: "claude_code_budget",
        surface: WireFormat::AnthropicMessages,
        calls: "Edit",
        own_fields: &["system", "thinking"],
    },
    Case {
        name: "codex",
        surface: WireFormat::OpenAiResponses,
        calls: "exec_command",
        own_fields: &[
            "instructions",
            "input",
            "include",
            "client_metadata",
            "text",
        ],
    },
    Case {
        name: "codex_local_shell",
        surface: WireFormat::OpenAiResponses,
        calls: "update_plan",
        own_fields: &["instructions", "input", "include"],
    },
];
/// What each agent is told to be.
const INSTRUCTIONS: &str = "You are an agent of these tests.";

fn file(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/coding_agents");
    let text = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The names of tools, in the forms of all formats.
fn names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().unwrap().iter();
    let named = tools.filter_map(|tool| {
        let body = [&tool["function"], &tool["custom"], tool];
        let name = body.into_iter().find_map(|body| body["name"].as_str());
        name.map(str::to_owned)
    });
    named.collect()
}

/// The tools that every format has: functions, and those whose input is a text.
fn is_common(tool: &Value) -> bool {
    match tool["type"].as_str() {
        None | Some("function" | "custom") => true,
        Some(_) => false,
    }
}

#[tokio::test]
async fn agents_get_their_calls_over_each_upstream() {
    for up in WireFormat::ALL {
        let pair = Pair::start(up, None).await;
        for case in &CASES {
            let place = format!("{} over {up:?}", case.name);
            let of = file(case.name);
            let (path, body) = (of["path"].as_str().unwrap(), &of["body"]);
            let headers = of["headers"].as_object().unwrap().iter();
            let headers: Vec<(&str, &str)> = headers
                .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
                .collect();
            let asked = pair.listener.asked().len();

            let says = [Spoken::Call(UP_ID, case.calls)];
            let got = pair.ask_with(path, &headers, body, &says).await;
            let first = seen(case.surface, &got);
            assert_eq!(first.call.name, case.calls, "{place}: {}", got.text());
            assert_ne!(first.call.id, UP_ID, "{place}");
            assert!(first.ended, "{place}");
            let next = bring(case.surface, body.clone(), &first.call);
            let got = pair
                .ask_with(path, &headers, &next, &[Spoken::Text("done")])
                .await;
            let second = seen(case.surface, &got);
            assert_eq!((&*second.text, second.ended), ("done", true), "{place}");

            let sent = &pair.listener.asked()[asked];
            let beta = of["headers"]["anthropic-beta"].as_str();
            assert_eq!(
                sent.header("anthropic-beta"),
                beta.filter(|_| up == case.surface).unwrap_or_default(),
                "{place}"
            );
            let sent = sent.json();
            check_sent(case, up, body, &sent, &place);
            let sent = pair.listener.asked()[asked + 1].json();
            let expected = (UP_ID.to_owned(), "r".to_owned());
            assert_eq!(result_sent(up, &sent), expected, "{place}: {sent}");
        }
    }
}

fn check_sent(case: &Case, up: WireFormat, body: &Value, sent: &Value, place: &str) {
    if up == case.surface {
        assert_eq!(sent, body, "{place}: the request goes on as it is");
        return;
    }
    assert!(sent.to_string().contains(INSTRUCTIONS), "{place}: {sent}");
    let common: Vec<Value> = body["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| is_common(tool))
        .cloned()
        .collect();
    assert_eq!(
        names(&sent["tools"]),
        names(&Value::from(common)),
        "{place}: the tools that both formats have, in their order"
    );
    let foreign: Vec<&&str> = case
        .own_fields
        .iter()
        .filter(|name| !is_field_of(up, name) && sent.get(**name).is_some())
        .collect();
    assert!(foreign.is_empty(), "{place}: {foreign:?} in {sent}");
}

/// Whether the upstream's format has a field of this name as well.
fn is_field_of(up: WireFormat, name: &str) -> bool {
    match up {
        WireFormat::OpenAiChat => false,
        WireFormat::AnthropicMessages => {
            matches!(name, "system" | "thinking" | "output_config")
        }
        WireFormat::OpenAiResponses => {
            matches!(name, "instructions" | "input" | "include" | "text")
        }
    }
}

/// Codex edits files by a tool whose input is a text, which Anthropic's format does not have.
#[tokio::test]
async fn a_custom_tool_is_one_over_an_upstream_that_has_none() {
    let patch = "*** Begin Patch\n*** Add File: a\n+\"b\"\n*** End Patch\n";
    let pair = Pair::start(WireFormat::AnthropicMessages, None).await;
    let of = file("codex");
    let (path, body) = (of["path"].as_str().unwrap(), &of["body"]);
    let input = json!({ "input": patch }).to_string();
    let (head, tail) = input.split_at(input.len() / 2);
    let more = |text: &str| {
        let delta = json!({ "type": "input_json_delta", "partial_json": text });
        ("content_block_delta", json!({ "index": 0, "delta": delta }))
    };
    let usage = json!({ "input_tokens": 3, "output_tokens": 2 });
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage });
    let block = json!({ "type": "tool_use", "id": UP_ID, "name": "apply_patch", "input": {} });
    pair.answers_first(sse(&[
        ("message_start", json!({ "message": message })),
        (
            "content_block_start",
            json!({ "index": 0, "content_block": block }),
        ),
        more(head),
        more(tail),
        ("content_block_stop", json!({ "index": 0 })),
        (
            "message_delta",
            json!({ "delta": { "stop_reason": "tool_use" }, "usage": usage }),
        ),
        ("message_stop", json!({})),
    ]));
    let got = pair.ask_with(path, &[], body, &[]).await.text();
    let told = got.lines().filter_map(|line| line.strip_prefix("data: "));
    let told = told.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let done = told.filter(|event| event["type"] == "response.output_item.done");
    let items: Vec<Value> = done.map(|event| event["item"].clone()).collect();
    assert_eq!(items.len(), 1, "{got}");
    assert_eq!(
        (&items[0]["type"], &items[0]["name"], &items[0]["input"]),
        (
            &json!("custom_tool_call"),
            &json!("apply_patch"),
            &json!(patch)
        ),
        "{got}"
    );
    let mut next = body.clone();
    let history = next["input"].as_array_mut().unwrap();
    let id = items[0]["call_id"].clone();
    history.extend(items);
    history.push(json!({ "type": "custom_tool_call_output", "call_id": id, "output": "Done." }));
    let asked = pair.listener.asked().len();
    let got = pair.ask_with(path, &[], &next, &[Spoken::Text("ok")]).await;
    assert_eq!(seen(WireFormat::OpenAiResponses, &got).text, "ok");
    let sent = pair.listener.asked()[asked].json();
    let messages = sent["messages"].as_array().unwrap();
    let made = messages
        .iter()
        .rfind(|it| it["role"] == "assistant")
        .unwrap();
    assert_eq!(made["content"][0]["id"], UP_ID, "{sent}");
    assert_eq!(
        made["content"][0]["input"],
        json!({ "input": patch }),
        "{sent}"
    );
    let expected = (UP_ID.to_owned(), "Done.".to_owned());
    assert_eq!(
        result_sent(WireFormat::AnthropicMessages, &sent),
        expected,
        "{sent}"
    );
}
