//! Three formats of clients before three formats of upstreams: text, a call that this server runs, and a call of the
//! client's own, streamed and plain.

mod changed;
mod custom_tools;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_egress::upstream::Upstream;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, probe, upstream_body, upstream_stream};
use crate::surfaces;
use crate::upstreams::upstream;

/// What a model says: text, or a call under this id.
#[derive(Clone, Copy)]
pub enum Spoken {
    Text(&'static str),
    Call(&'static str, &'static str),
}

pub const UP_ID: &str = "up_1";
const ARGUMENTS: &str = r#"{"a":1}"#;

/// The bytes of an upstream's answer in a format.
pub fn answer(format: WireFormat, said: Spoken, streamed: bool) -> ListenerReply {
    match format {
        WireFormat::OpenAiChat => chat_answer(said, streamed),
        WireFormat::AnthropicMessages => messages_answer(said, streamed),
        WireFormat::OpenAiResponses => responses_answer(said, streamed),
    }
}

fn chat_answer(said: Spoken, streamed: bool) -> ListenerReply {
    let (text, call) = match said {
        Spoken::Text(text) => (text, None),
        Spoken::Call(id, name) => ("", Some((id, name, ARGUMENTS))),
    };
    let calls: Vec<_> = call.into_iter().collect();
    if streamed {
        ListenerReply::sse(upstream_stream(text, &calls))
    } else {
        ListenerReply::json(upstream_body(text, &calls))
    }
}

fn messages_answer(said: Spoken, streamed: bool) -> ListenerReply {
    let (block, delta, reason) = match said {
        Spoken::Text(text) => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
        ),
        Spoken::Call(id, name) => (
            json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": ARGUMENTS }),
            "tool_use",
        ),
    };
    let usage = json!({ "input_tokens": 3, "output_tokens": 2 });
    let head = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage });
    if streamed {
        return sse(&[
            ("message_start", json!({ "message": head })),
            (
                "content_block_start",
                json!({ "index": 0, "content_block": block }),
            ),
            ("content_block_delta", json!({ "index": 0, "delta": delta })),
            ("content_block_stop", json!({ "index": 0 })),
            (
                "message_delta",
                json!({ "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": usage }),
            ),
            ("message_stop", json!({})),
        ]);
    }
    let mut body = head;
    let mut block = block;
    match said {
        Spoken::Text(text) => block["text"] = json!(text),
        Spoken::Call(..) => block["input"] = serde_json::from_str(ARGUMENTS).unwrap(),
    }
    body["content"] = json!([block]);
    body["stop_reason"] = json!(reason);
    ListenerReply::json(body.to_string())
}

fn responses_answer(said: Spoken, streamed: bool) -> ListenerReply {
    let item = match said {
        Spoken::Text(text) => {
            json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
        }
        Spoken::Call(id, name) => {
            json!({ "type": "function_call", "id": "fc_1", "call_id": id, "name": name,
            "arguments": ARGUMENTS, "status": "completed" })
        }
    };
    let response = |status: &str, output: Value| {
        json!({ "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status,
            "output": output, "usage": { "input_tokens": 3, "output_tokens": 2, "total_tokens": 5 } })
    };
    if !streamed {
        return ListenerReply::json(response("completed", json!([item])).to_string());
    }
    let mut begun = item.clone();
    let mut events = vec![(
        "response.created",
        json!({ "response": response("in_progress", json!([])) }),
    )];
    match said {
        Spoken::Text(text) => {
            begun["content"] = json!([]);
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            events.extend([
                ("response.output_item.added", json!({ "output_index": 0, "item": begun })),
                ("response.content_part.added", json!({ "output_index": 0, "content_index": 0, "item_id": "msg_1", "part": part })),
                ("response.output_text.delta", json!({ "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": text })),
            ]);
        }
        Spoken::Call(..) => {
            begun["arguments"] = json!("");
            events.extend([
                (
                    "response.output_item.added",
                    json!({ "output_index": 0, "item": begun }),
                ),
                (
                    "response.function_call_arguments.delta",
                    json!({ "output_index": 0, "item_id": "fc_1", "delta": ARGUMENTS }),
                ),
            ]);
        }
    }
    events.extend([
        (
            "response.output_item.done",
            json!({ "output_index": 0, "item": item }),
        ),
        (
            "response.completed",
            json!({ "response": response("completed", json!([item])) }),
        ),
    ]);
    sse(&events)
}

/// Events whose data names their kind.
pub fn sse(events: &[(&str, Value)]) -> ListenerReply {
    let events = events.iter().map(|(kind, data)| {
        let mut data = data.clone();
        data["type"] = json!(kind);
        format!("event: {kind}\ndata: {data}\n\n")
    });
    ListenerReply::sse(events.collect::<String>())
}

/// The result that an upstream was sent: the id of its call, and the text.
pub fn result_sent(format: WireFormat, sent: &Value) -> (String, String) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    let (id, content) = match format {
        WireFormat::OpenAiChat => {
            let last = sent["messages"].as_array().unwrap().last().unwrap();
            (&last["tool_call_id"], &last["content"])
        }
        WireFormat::AnthropicMessages => {
            let last = &sent["messages"].as_array().unwrap().last().unwrap()["content"][0];
            (&last["tool_use_id"], &last["content"])
        }
        WireFormat::OpenAiResponses => {
            let last = sent["input"].as_array().unwrap().last().unwrap();
            (&last["call_id"], &last["output"])
        }
    };
    (id.as_str().unwrap_or_default().to_owned(), text(content))
}

/// The path and the body of a client's request on a surface.
pub fn request(surface: WireFormat, streamed: bool, tool: Option<&str>) -> (&'static str, Value) {
    let said = json!([{ "role": "user", "content": "go" }]);
    let mut chat = json!({ "model": "m", "stream": streamed, "messages": said });
    if let Some(name) = tool {
        let schema = json!({ "type": "object" });
        chat["tools"] =
            json!([{ "type": "function", "function": { "name": name, "parameters": schema } }]);
    }
    (surfaces::path(surface), surfaces::written(surface, &chat))
}

/// The request that brings the result of a call.
pub fn bring(surface: WireFormat, mut body: Value, call: &SeenCall) -> Value {
    let (id, name, arguments) = (&call.id, &call.name, &call.arguments);
    let made = json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": id, "type": "function", "function": { "name": name, "arguments": arguments } }] });
    let result = json!({ "role": "tool", "tool_call_id": id, "content": "r" });
    surfaces::append(surface, &mut body, &[made, result]);
    body
}

/// An answer with one call at most.
#[derive(Debug)]
pub struct Seen {
    pub text: String,
    pub call: SeenCall,
    pub ended: bool,
}

#[derive(Debug, Default)]
pub struct SeenCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

pub fn seen(surface: WireFormat, got: &ReadAnswer) -> Seen {
    let answer = surfaces::read(surface, got);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let call = answer.calls().first().map(|call| SeenCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]),
        arguments: text(&call["function"]["arguments"]),
    });
    Seen {
        text: text(&answer.message["content"]),
        call: call.unwrap_or_default(),
        ended: answer.finish.is_some(),
    }
}

/// A server before one upstream of a format, which says these things one after the other.
pub struct Pair {
    pub app: App,
    pub listener: Listener,
    said: Arc<Mutex<Vec<Spoken>>>,
    first: Arc<Mutex<Option<ListenerReply>>>,
}

impl Pair {
    pub async fn start(format: WireFormat, tool: Option<&Listener>) -> Self {
        let said = Arc::new(Mutex::new(Vec::new()));
        let first = Arc::new(Mutex::new(None));
        let (next, before) = (Arc::clone(&said), Arc::clone(&first));
        let listener = Listener::start(move |asked| {
            if let Some(reply) = before.lock().unwrap().take() {
                return reply;
            }
            let streamed = asked.json()["stream"] == json!(true);
            answer(format, next.lock().unwrap().remove(0), streamed)
        });
        let listener = listener.await.unwrap();
        let one = Upstream {
            format,
            ..upstream("one", listener.url("/v1"))
        };
        let wanted = match tool {
            Some(tool) => {
                AppOptions::with_tools(vec![probe("look", EffectClass::Once, tool.url("/"))])
            }
            None => AppOptions::plain(),
        };
        let wanted = AppOptions {
            config: Box::new(move |config| config.upstreams = vec![Arc::new(one)]),
            ..wanted
        };
        Self {
            app: App::start_at("http://127.0.0.1:1/v1".to_owned(), wanted).await,
            listener,
            said,
            first,
        }
    }

    /// Answers the next request with this, before all that is said.
    pub fn answers_first(&self, reply: ListenerReply) {
        *self.first.lock().unwrap() = Some(reply);
    }

    async fn ask(&self, path: &str, body: &Value, says: &[Spoken]) -> ReadAnswer {
        self.ask_with(path, &[], body, says).await
    }

    pub async fn ask_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
        says: &[Spoken],
    ) -> ReadAnswer {
        *self.said.lock().unwrap() = says.to_vec();
        let client = &self.app.client;
        let got = client.send("POST", path, headers, body.to_string()).await;
        got.unwrap()
    }
}

#[tokio::test]
async fn each_surface_gets_the_loop_over_each_upstream() {
    let tool = Listener::start(|_| ListenerReply::json(r#"{"seen":"noon"}"#))
        .await
        .unwrap();
    for up in WireFormat::ALL {
        let pair = Pair::start(up, Some(&tool)).await;
        for surface in WireFormat::ALL {
            for streamed in [false, true] {
                let place = format!("{surface:?} over {up:?}, streamed: {streamed}");
                let (ran, asked) = (tool.asked().len(), pair.listener.asked().len());
                let (path, body) = request(surface, streamed, None);
                let says = [Spoken::Call(UP_ID, "look"), Spoken::Text("ok")];
                let got = pair.ask(path, &body, &says).await;
                let seen = seen(surface, &got);
                assert_eq!((&*seen.text, &*seen.call.name), ("ok", ""), "{place}");
                assert!(seen.ended, "{place}: {}", got.text());
                assert_eq!(tool.asked().len() - ran, 1, "{place}");
                let sent = pair.listener.asked()[asked + 1].json();
                let (id, text) = result_sent(up, &sent);
                assert_eq!(id, UP_ID, "{place}: {sent}");
                assert!(text.contains("noon"), "{place}: {sent}");
                let turn = pair.app.turn_of(&got).await;
                assert_eq!(turn["status"], json!("completed"), "{place}");
            }
        }
    }
}

#[tokio::test]
async fn each_surface_runs_its_own_calls_over_each_upstream() {
    for up in WireFormat::ALL {
        let pair = Pair::start(up, None).await;
        for surface in WireFormat::ALL {
            for streamed in [false, true] {
                let place = format!("{surface:?} over {up:?}, streamed: {streamed}");
                let asked = pair.listener.asked().len();
                let (path, body) = request(surface, streamed, Some("mine"));
                let got = pair.ask(path, &body, &[Spoken::Call(UP_ID, "mine")]).await;
                let first = seen(surface, &got);
                assert_eq!(first.call.name, "mine", "{place}: {}", got.text());
                let given: Value = serde_json::from_str(&first.call.arguments).unwrap();
                assert_eq!(given, json!({ "a": 1 }), "{place}");
                assert_ne!(first.call.id, UP_ID, "{place}");
                assert!(first.ended, "{place}");
                let next = bring(surface, body, &first.call);
                let got = pair.ask(path, &next, &[Spoken::Text("done")]).await;
                let second = seen(surface, &got);
                assert_eq!(second.text, "done", "{place}: {}", got.text());
                let sent = pair.listener.asked()[asked + 1].json();
                let expected = (UP_ID.to_owned(), "r".to_owned());
                assert_eq!(result_sent(up, &sent), expected, "{place}: {sent}");
            }
        }
    }
}

/// A wrong request, and an upstream's refusal, in each surface's own shape.
#[tokio::test]
async fn each_surface_has_errors_of_its_own_shape() {
    let pair = Pair::start(WireFormat::OpenAiChat, None).await;
    for surface in WireFormat::ALL {
        let (path, mut body) = request(surface, false, None);
        body["model"] = json!(7);
        let got = pair.ask(path, &body, &[]).await;
        assert_eq!(got.status, 400, "{surface:?}");
        let error = got.json();
        match surface {
            WireFormat::AnthropicMessages => {
                assert_eq!(error["type"], json!("error"), "{error}");
                assert_eq!(error["error"]["type"], json!("invalid_request_error"));
            }
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses => {
                assert_eq!(error["error"]["param"], json!("model"), "{error}");
            }
        }
    }
    let (path, mut body) = request(WireFormat::AnthropicMessages, false, None);
    body["thread"] = json!({ "type": "create" });
    let got = pair.ask(path, &body, &[]).await;
    assert_eq!(got.header("request-id"), got.header("x-request-id"));
    // By this the official clients' tool runners go on with the whole history.
    assert_eq!(
        (got.status, &got.json()["error"]["details"]),
        (
            400,
            &json!({ "error_code": "thread_unsupported_request", "unsupported": ["thread"] })
        )
    );
    let (path, mut body) = request(WireFormat::OpenAiResponses, false, None);
    body["conversation"] = json!("conv_1");
    let got = pair.ask(path, &body, &[]).await;
    assert_eq!(
        (got.status, &got.json()["error"]["code"]),
        (404, &json!("conversation_not_found"))
    );
}
