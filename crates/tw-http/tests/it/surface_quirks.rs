//! Oddities of the loop, on each surface over each upstream; the numbers are those of the list of quirks.

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::nine_pairs::{Pair, Spoken, UP_ID, request, seen};

/// The choice of one tool, in a format.
fn forced(format: WireFormat) -> Value {
    match format {
        WireFormat::OpenAiChat => json!({ "type": "function", "function": { "name": "look" } }),
        WireFormat::AnthropicMessages => json!({ "type": "tool", "name": "look" }),
        WireFormat::OpenAiResponses => json!({ "type": "function", "name": "look" }),
    }
}

#[tokio::test]
async fn quirk_28_a_forced_choice_is_for_the_first_round() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    for up in WireFormat::ALL {
        let pair = Pair::start(up, Some(&tool)).await;
        for surface in WireFormat::ALL {
            let place = format!("{surface:?} over {up:?}");
            let (path, mut body) = request(surface, true, Some("look"));
            body["tool_choice"] = forced(surface);
            let asked = pair.listener.asked().len();
            let says = [Spoken::Call(UP_ID, "look"), Spoken::Text("ok")];
            let got = pair.ask_with(path, &[], &body, &says).await;
            assert_eq!(
                seen(surface, &got, true).text,
                "ok",
                "{place}: {}",
                got.text()
            );
            let sent = |n: usize| pair.listener.asked()[asked + n].json()["tool_choice"].clone();
            assert_eq!(sent(0), forced(up), "{place}");
            let free = [Value::Null, json!("auto"), json!({ "type": "auto" })];
            assert!(free.contains(&sent(1)), "{place}: {}", sent(1));
        }
    }
}

/// How often each word stands at the beginning and the end of a surface's stream.
fn lifecycle(surface: WireFormat) -> [&'static str; 2] {
    match surface {
        WireFormat::OpenAiChat => ["\"role\":\"assistant\"", "data: [DONE]"],
        WireFormat::AnthropicMessages => ["event: message_start", "event: message_stop"],
        WireFormat::OpenAiResponses => ["event: response.created", "event: response.completed"],
    }
}

#[tokio::test]
async fn quirk_29_rounds_are_one_lifecycle_and_their_usage_is_summed() {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    // The chat upstream of these tests does not tell of usage.
    for up in [WireFormat::AnthropicMessages, WireFormat::OpenAiResponses] {
        let pair = Pair::start(up, Some(&tool)).await;
        for surface in WireFormat::ALL {
            let place = format!("{surface:?} over {up:?}");
            let (path, mut body) = request(surface, true, None);
            if surface == WireFormat::OpenAiChat {
                body["stream_options"] = json!({ "include_usage": true });
            }
            let says = [Spoken::Call(UP_ID, "look"), Spoken::Text("ok")];
            let got = pair.ask_with(path, &[], &body, &says).await.text();
            for word in lifecycle(surface) {
                assert_eq!(got.matches(word).count(), 1, "{place}: {word} in {got}");
            }
            let told = got.lines().filter_map(|line| line.strip_prefix("data: "));
            let told = told.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            let used = told.filter_map(|event| {
                let places = [&event["usage"], &event["response"]["usage"]];
                places.into_iter().find(|it| it.is_object()).cloned()
            });
            let used = used.last().unwrap();
            let count = |names: [&str; 2]| names.iter().find_map(|name| used[name].as_u64());
            let counts = [
                ["prompt_tokens", "input_tokens"],
                ["completion_tokens", "output_tokens"],
            ];
            assert_eq!(counts.map(count), [Some(6), Some(4)], "{place}: {used}");
        }
    }
}
