//! What of a request its upstream does not get is told to the client, and stands in the record.

use serde_json::{Value, json};
use tw_wire::format::WireFormat;

use super::{Pair, Spoken, request};

const CHANGED: &str = "turnwright-changed";

#[tokio::test]
async fn a_client_hears_what_its_upstream_does_not_get() {
    use WireFormat::{AnthropicMessages, OpenAiChat, OpenAiResponses};
    let image = json!([{ "role": "user", "content": [
        { "type": "input_text", "text": "look" }, { "type": "input_image", "file_id": "file-1" }] }]);
    let thought = json!([{ "role": "user", "content": [
        { "type": "text", "text": "go", "cache_control": { "type": "ephemeral" } }] },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "t", "signature": "s" }, { "type": "text", "text": "a" }] },
        { "role": "user", "content": "go on" }]);
    let rows = [
        (
            OpenAiChat,
            AnthropicMessages,
            json!({ "seed": 1, "n": 2 }),
            json!({ "seed": 1, "n": 1 }),
        ),
        (
            OpenAiChat,
            OpenAiResponses,
            json!({ "stop": "END" }),
            json!({ "stop": 1 }),
        ),
        (
            OpenAiResponses,
            OpenAiChat,
            json!({ "input": image }),
            json!({ "image": 1 }),
        ),
        (
            OpenAiResponses,
            AnthropicMessages,
            json!({ "text": { "verbosity": "low" } }),
            json!({ "verbosity": 1 }),
        ),
        (
            AnthropicMessages,
            OpenAiChat,
            json!({ "messages": thought }),
            json!({ "reasoning": 1, "cache_control": 1 }),
        ),
        (
            AnthropicMessages,
            OpenAiResponses,
            json!({ "top_k": 5, "x_\r\n": 1 }),
            json!({ "top_k": 1, "other": 1 }),
        ),
        (
            AnthropicMessages,
            AnthropicMessages,
            json!({ "top_k": 5, "x_\r\n": 1 }),
            json!({}),
        ),
        (
            OpenAiChat,
            OpenAiChat,
            json!({ "seed": 1, "x": 1 }),
            json!({}),
        ),
        (
            OpenAiResponses,
            OpenAiResponses,
            json!({ "input": image }),
            json!({}),
        ),
        (OpenAiChat, AnthropicMessages, json!({}), json!({})),
    ];
    for (surface, up, more, expected) in rows {
        let pair = Pair::start(up, None).await;
        for streamed in [false, true] {
            let place = format!("{surface:?} over {up:?}: {more}");
            let (path, mut body) = request(surface, streamed, None);
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            let got = pair.ask(path, &body, &[Spoken::Text("ok")]).await;
            assert_eq!(got.status, 200, "{place}: {}", got.text());
            assert_eq!(in_header(got.header(CHANGED)), expected, "{place}");
            assert_eq!(pair.app.turn_of(&got).await["changed"], expected, "{place}");
        }
    }
}

/// The header's names with their counts.
fn in_header(header: &str) -> Value {
    let pairs = header.split(", ").filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, count)| (name.to_owned(), json!(count.parse::<u32>().unwrap())));
    Value::Object(pairs.collect())
}

/// Tools that no upstream of another format knows are left out, and counted.
#[tokio::test]
async fn a_client_hears_which_tools_were_left_out() {
    let rows = [
        (
            WireFormat::OpenAiResponses,
            json!([{ "type": "web_search" }]),
        ),
        (
            WireFormat::AnthropicMessages,
            json!([{ "type": "web_search_20250305", "name": "web_search" }]),
        ),
        (
            WireFormat::OpenAiChat,
            json!([{ "type": "browser_search" }]),
        ),
    ];
    for (surface, tools) in rows {
        for up in WireFormat::ALL {
            let pair = Pair::start(up, None).await;
            let (path, mut body) = request(surface, false, None);
            body["tools"] = tools.clone();
            let got = pair.ask(path, &body, &[Spoken::Text("ok")]).await;
            let expected = if surface == up { "" } else { "tool_left_out=1" };
            assert_eq!(
                got.header("turnwright-repaired"),
                expected,
                "{surface:?} over {up:?}: {}",
                got.text()
            );
        }
    }
}
