//! Compaction: what is sealed, what it stands for later, and what is not opened.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_egress::upstream::Upstream;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, probe, upstream_body};
use crate::upstreams::{in_front_of, serves, upstream};

const COMPACT: &str = "/v1/responses/compact";
const RESPONSES: &str = "/v1/responses";

async fn says(text: &'static str) -> Listener {
    let reply = ListenerReply::json(upstream_body(text, &[]));
    Listener::in_turn(vec![reply]).await.unwrap()
}

async fn post(client: &TestClient, path: &str, body: &Value) -> ReadAnswer {
    client
        .send("POST", path, &[], body.to_string())
        .await
        .unwrap()
}

/// The compaction of an input: its only item.
async fn compacted(client: &TestClient, input: &Value) -> Value {
    let got = post(client, COMPACT, &json!({ "model": "m", "input": input })).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let made = got.json();
    assert_eq!(made["object"], json!("response.compaction"));
    assert!(made["id"].as_str().unwrap().starts_with("resp_"));
    assert!(made["created_at"].is_u64());
    for name in ["input_tokens", "output_tokens", "total_tokens"] {
        assert!(made["usage"][name].is_u64(), "{made}");
    }
    for details in ["input_tokens_details", "output_tokens_details"] {
        assert!(made["usage"][details].is_object(), "{made}");
    }
    let [item] = made["output"].as_array().unwrap().as_slice() else {
        panic!("{made}");
    };
    assert_eq!(item["type"], json!("compaction"));
    item.clone()
}

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": text })
}

/// A conversation of this many bytes, more or less.
fn conversation(bytes: usize) -> Value {
    json!([
        user(&format!("The code word is slate. {}", "x".repeat(bytes))),
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Noted." }] },
    ])
}

const LONG: usize = 20_000;

#[tokio::test]
async fn a_short_conversation_stands_for_itself_again_before_every_upstream() {
    for format in WireFormat::ALL {
        let listener = Listener::start(|_| ListenerReply::status(400, "{}"))
            .await
            .unwrap();
        let one = Upstream {
            format,
            ..upstream("one", listener.url("/v1"))
        };
        let app = in_front_of(vec![one]).await;
        let item = compacted(&app.client, &conversation(0)).await;
        assert_eq!(listener.asked().len(), 0, "no model is asked");
        let sealed = item["encrypted_content"].as_str().unwrap();
        assert!(!sealed.contains("slate"));
        for stream in [false, true] {
            let written = json!({
                "model": "m", "stream": stream,
                "input": [conversation(0)[0], conversation(0)[1], user("Go on.")],
            });
            let folded = json!({ "model": "m", "stream": stream, "input": [item, user("Go on.")] });
            post(&app.client, RESPONSES, &written).await;
            post(&app.client, RESPONSES, &folded).await;
            let mut asked = listener.asked();
            let (folded, written) = (asked.pop().unwrap(), asked.pop().unwrap());
            assert_eq!(folded.json(), written.json(), "{format:?}");
            assert!(written.json().to_string().contains("slate"));
        }
    }
}

#[tokio::test]
async fn a_long_conversation_is_summarized_by_the_model_without_tools() {
    let service = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let listener = says("It is about a code word: slate.").await;
    let tools = vec![probe("look", EffectClass::Read, service.url("/"))];
    let app = App::start(&listener, AppOptions::with_tools(tools)).await;
    let mut input = conversation(LONG);
    let items = input.as_array_mut().unwrap();
    items.push(
        json!({ "type": "function_call", "call_id": "c1", "name": "own", "arguments": "{}" }),
    );
    let request = json!({
        "model": "m", "instructions": "Be kind.", "input": input,
        "tools": [{ "type": "function", "name": "own", "parameters": {} }],
    });
    let got = post(&app.client, COMPACT, &request).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let asked = listener.asked().pop().unwrap().json();
    assert_eq!(asked.get("tools"), None, "{asked}");
    let said = asked.to_string();
    assert!(said.contains("slate") && said.contains("Be kind."));
    let made = got.json();
    assert_eq!(
        (
            &made["usage"]["input_tokens"],
            &made["usage"]["total_tokens"]
        ),
        (&json!(3), &json!(5))
    );
    assert!(got.text().len() < LONG / 4);
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["status"], json!("completed"));
    // The call that waited for its result can be answered behind the summary.
    let output = json!({ "type": "function_call_output", "call_id": "c1", "output": "done" });
    let next = json!({ "model": "m", "input": [made["output"][0], output] });
    let got = post(&app.client, RESPONSES, &next).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let messages = listener.asked().pop().unwrap().json()["messages"].clone();
    let roles: Vec<&str> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert!(
        messages[0]
            .to_string()
            .contains("It is about a code word: slate.")
    );
    assert!(!messages.to_string().contains("xxxx"));
}

#[tokio::test]
async fn a_model_that_gives_no_summary_is_an_error() {
    let refusal = r#"{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    for (reply, status, code) in [
        (
            ListenerReply::json(upstream_body("", &[])),
            502,
            "no_summary",
        ),
        (
            ListenerReply::status(400, refusal),
            400,
            "context_length_exceeded",
        ),
        (ListenerReply::status(503, "{}"), 502, "upstream_failed"),
    ] {
        let listener = Listener::in_turn(vec![reply]).await.unwrap();
        let app = App::start(&listener, AppOptions::plain()).await;
        let request = json!({ "model": "m", "input": conversation(LONG) });
        let got = post(&app.client, COMPACT, &request).await;
        assert_eq!(got.status, status, "{}", got.text());
        assert_eq!(got.json()["error"]["code"], json!(code));
    }
}

#[tokio::test]
async fn a_compaction_may_be_compacted_again_and_survives_a_restart() {
    let listener = says("Yes.").await;
    let app = App::start(&listener, AppOptions::plain()).await;
    let item = compacted(&app.client, &conversation(0)).await;
    let again = app.again(&listener, AppOptions::plain()).await;
    let item = compacted(&again.client, &json!([item, user("And then?")])).await;
    let got = post(
        &again.client,
        RESPONSES,
        &json!({ "model": "m", "input": [item] }),
    )
    .await;
    assert_eq!(got.status, 200, "{}", got.text());
    let messages = listener.asked().pop().unwrap().json()["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 3);
    assert!(messages.to_string().contains("slate"));
    // What is recorded of the turn is what was said.
    let turn = again.turn_of(&got).await;
    assert!(turn.to_string().contains("And then?"));
}

#[tokio::test]
async fn what_was_changed_or_sealed_for_others_is_refused() {
    let listener = says("Yes.").await;
    let app = App::start(&listener, AppOptions::plain()).await;
    let other_server = App::start(&listener, AppOptions::plain()).await;
    let item = compacted(&app.client, &conversation(0)).await;
    let sealed = item["encrypted_content"].as_str().unwrap().to_owned();
    let elsewhere = compacted(&other_server.client, &conversation(0)).await;
    let scopes = vec![KeyScope::Chat];
    let stranger = app.with_key(Some(app.key("other", ToolGrant::All, scopes).await));
    let with = |content: &str| json!({ "type": "compaction", "encrypted_content": content });
    let cut = &sealed[..sealed.len() - 3];
    for (client, item) in [
        (&app.client, with(cut)),
        (&app.client, with(&format!("{sealed}AAAA"))),
        (&app.client, elsewhere),
        (&stranger, item.clone()),
        // Of a provider, and no upstream of that format is there.
        (&app.client, with("gAAAAABpM0Yj")),
        (&app.client, with("")),
    ] {
        for path in [RESPONSES, COMPACT, "/v1/responses/input_tokens"] {
            let request = json!({ "model": "m", "input": [user("Hi"), item, user("Ho")] });
            let got = post(client, path, &request).await;
            let error = &got.json()["error"];
            assert_eq!(got.status, 400, "{}", got.text());
            assert_eq!(error["code"], json!("invalid_encrypted_content"), "{error}");
            assert_eq!(error["param"], json!("input[1].encrypted_content"));
        }
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn a_providers_own_compaction_goes_to_upstreams_of_its_format() {
    let listener = Listener::start(|_| ListenerReply::status(400, "{}"))
        .await
        .unwrap();
    let one = Upstream {
        format: WireFormat::OpenAiResponses,
        ..upstream("one", listener.url("/v1"))
    };
    let app = in_front_of(vec![one]).await;
    let item = json!({ "type": "compaction", "encrypted_content": "gAAAAABpM0Yj" });
    post(
        &app.client,
        RESPONSES,
        &json!({ "model": "m", "input": [item, user("Hi")] }),
    )
    .await;
    let asked = listener.asked().pop().unwrap().json();
    assert_eq!(
        asked["input"][0]["encrypted_content"],
        json!("gAAAAABpM0Yj")
    );
}

#[tokio::test]
async fn a_request_that_is_not_compacted_is_refused_as_others_are() {
    let listener = says("Yes.").await;
    let only = Upstream {
        models: serves(&["m"], &[]),
        ..upstream("only", listener.url("/v1"))
    };
    let app = in_front_of(vec![only]).await;
    let reads = app
        .key("default", ToolGrant::All, vec![KeyScope::TurnsRead])
        .await;
    let own = app.client.key.clone();
    let good = json!({ "model": "m", "input": conversation(0) });
    for (key, body, status, code) in [
        (None, good.clone(), 401, json!("missing_api_key")),
        (Some(reads), good.clone(), 403, json!("insufficient_scope")),
        (
            own.clone(),
            json!({ "input": conversation(0) }),
            400,
            json!("missing_required_parameter"),
        ),
        (
            own.clone(),
            json!({ "model": "m" }),
            400,
            json!("missing_required_parameter"),
        ),
        (
            own.clone(),
            json!({ "model": "m", "input": 7 }),
            400,
            json!("invalid_type"),
        ),
        (
            own.clone(),
            json!({ "model": "x", "input": "Hi" }),
            404,
            json!("model_not_found"),
        ),
        (own, json!([]), 400, Value::Null),
    ] {
        let client = app.with_key(key);
        let got = post(&client, COMPACT, &body).await;
        assert_eq!(got.status, status, "{}", got.text());
        assert_eq!(got.json()["error"]["code"], code);
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn what_a_request_continues_is_summarized_with_it() {
    let listener = says("Slate, it was.").await;
    let app = App::start(&listener, AppOptions::plain()).await;
    let first = json!({ "model": "m", "input": "The word is slate." });
    let first = post(&app.client, RESPONSES, &first).await.json();
    let request = json!({ "model": "m", "previous_response_id": first["id"] });
    let got = post(&app.client, COMPACT, &request).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let asked = listener.asked().pop().unwrap().json();
    let asked = asked["messages"].as_array().unwrap();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0]["content"], json!("The word is slate."));
    let next = json!({ "model": "m", "input": [got.json()["output"][0], user("Which?")] });
    post(&app.client, RESPONSES, &next).await;
    let asked = listener.asked().pop().unwrap().json();
    assert_eq!(asked["messages"].as_array().unwrap().len(), 2);
    assert!(asked["messages"][0].to_string().contains("Slate, it was."));
}
