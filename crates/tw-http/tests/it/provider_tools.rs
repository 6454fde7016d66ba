//! Tools of a provider's own, which it runs itself or calls by a name that only it knows.

use serde_json::{Value, json};
use tw_core::tenant::ToolGrant;
use tw_testkit::listener::ListenerReply;

use crate::app::{acting_app, ask, upstream_body};

fn lists() -> Vec<Value> {
    let function = json!({ "type": "function", "function": { "name": "theirs", "parameters": { "type": "object" } } });
    vec![
        json!([{ "type": "browser_search" }]),
        json!([{ "type": "builtin_function", "function": { "name": "$web_search" } }]),
        json!([{ "type": "web_search", "web_search": { "search_context_size": "low", "a": [1, null] } }]),
        json!([{ "type": "web_search_20250305", "name": "web_search", "max_uses": 5 }]),
        json!([{ "type": "code_interpreter", "container": { "type": "auto" } }, function]),
        // Two of one kind are two.
        json!([{ "type": "mcp", "server_label": "a" }, { "type": "mcp", "server_label": "b" }]),
        // A kind that is called like a tool of this server is none.
        json!([{ "type": "act" }]),
    ]
}

fn ask_with(tools: &Value) -> Value {
    let mut request = ask("Hi");
    request["tools"] = tools.clone();
    request
}

#[tokio::test]
async fn they_pass_as_they_are_written() {
    for tools in lists() {
        let (app, upstream, _tool) =
            acting_app(vec![ListenerReply::json(upstream_body("Done", &[]))]).await;
        let none = app.key(
            "default",
            ToolGrant::None,
            vec![tw_core::tenant::KeyScope::Chat],
        );
        let client = app.with_key(Some(none.await));
        let got = client.chat(&ask_with(&tools)).await.unwrap();
        assert_eq!(got.status, 200, "{tools}: {}", got.text());
        assert_eq!(upstream.asked()[0].json()["tools"], tools);
    }
}

/// The server's own run, in the loop, and the provider's stay in each round's list.
#[tokio::test]
async fn they_stand_beside_this_servers() {
    for tools in lists() {
        let (app, upstream, tool) = acting_app(vec![
            ListenerReply::json(upstream_body("", &[("c1", "act", "{}")])),
            ListenerReply::json(upstream_body("Done", &[])),
        ])
        .await;
        let add = [("turnwright-tools", "add")];
        let got = app.post(&add, &ask_with(&tools)).await;
        assert_eq!(got.status, 200, "{tools}: {}", got.text());
        assert_eq!(tool.asked().len(), 1, "{tools}");
        for asked in upstream.asked() {
            let sent = asked.json()["tools"].as_array().unwrap().clone();
            let (theirs, ours) = sent.split_at(sent.len() - 1);
            assert_eq!(theirs, tools.as_array().unwrap().as_slice());
            assert_eq!(ours[0]["function"]["name"], "act");
        }
    }
}

/// Kimi's search is called like a function, and the client gives the arguments back.
#[tokio::test]
async fn a_call_of_one_goes_to_the_client() {
    let (app, upstream, tool) = acting_app(vec![
        ListenerReply::json(upstream_body(
            "",
            &[("c1", "act", "{}"), ("c2", "$web_search", r#"{"q":"x"}"#)],
        )),
        ListenerReply::json(upstream_body("Done", &[])),
    ])
    .await;
    let tools = json!([{ "type": "builtin_function", "function": { "name": "$web_search" } }]);
    let add = [("turnwright-tools", "add")];
    let mut request = ask_with(&tools);
    let got = app.post(&add, &request).await.json();
    let message = got["choices"][0]["message"].clone();
    let calls = message["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{got}");
    assert_eq!(
        calls[0]["function"],
        json!({ "name": "$web_search", "arguments": r#"{"q":"x"}"# })
    );
    let result =
        json!({ "role": "tool", "tool_call_id": calls[0]["id"], "content": r#"{"q":"x"}"# });
    let messages = request["messages"].as_array_mut().unwrap();
    messages.extend([message, result]);
    let got = app.post(&add, &request).await;
    assert_eq!(got.json()["choices"][0]["message"]["content"], "Done");
    assert_eq!(tool.asked().len(), 1);
    let sent = upstream.asked()[1].json();
    let roles: Vec<&Value> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
}

#[tokio::test]
async fn a_choice_of_one_passes() {
    let (app, upstream, _tool) =
        acting_app(vec![ListenerReply::json(upstream_body("Done", &[]))]).await;
    let mut request = ask_with(&json!([{ "type": "web_search", "name": "web_search" }]));
    request["tool_choice"] = json!({ "type": "web_search" });
    assert_eq!(app.post(&[], &request).await.status, 200);
    assert_eq!(
        upstream.asked()[0].json()["tool_choice"],
        request["tool_choice"]
    );
}
