//! Responses that are kept: continued by name, read again, and made in the background.

mod approvals;
mod background;
mod chain;
mod deleted;
mod foreign;
mod in_conversation;
mod input_items;
mod references;
mod retrieved;
mod taken_over;

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::polling::poll_until;

use crate::app::{App, AppOptions, probe, upstream_body, upstream_stream};

pub const RESPONSES: &str = "/v1/responses";

/// What a model says: a text, and calls as id, name and arguments.
type Said = (
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

/// What the service behind `act` says.
const DID: &str = r#"{"did":"it"}"#;

/// A server with the tool `act`, before an upstream that gives these answers in the form in which it is asked.
struct Lab {
    app: App,
    upstream: Listener,
    tool: Listener,
}

impl Lab {
    async fn start(answers: &[Said]) -> Self {
        Self::with(answers, options).await
    }

    async fn with(answers: &[Said], wanted: impl FnOnce(&Listener) -> AppOptions) -> Self {
        let tool = Listener::in_turn(vec![ListenerReply::json(DID)]).await;
        let (upstream, tool) = (upstream(answers).await, tool.unwrap());
        let app = App::start(&upstream, wanted(&tool)).await;
        Self {
            app,
            upstream,
            tool,
        }
    }

    /// The same server after a restart, with further answers of the upstream.
    async fn again(&self, answers: &[Said]) -> Self {
        self.again_with(answers, options).await
    }

    async fn again_with(
        &self,
        answers: &[Said],
        wanted: impl FnOnce(&Listener) -> AppOptions,
    ) -> Self {
        let upstream = upstream(answers).await;
        Self {
            app: self.app.again(&upstream, wanted(&self.tool)).await,
            upstream,
            tool: self.tool.clone(),
        }
    }

    async fn create(&self, body: Value) -> ReadAnswer {
        create(&self.app.client, &[], body).await
    }

    /// The messages of the newest request that the upstream got.
    fn sent(&self) -> Value {
        self.upstream.asked().last().unwrap().json()["messages"].clone()
    }
}

fn options(tool: &Listener) -> AppOptions {
    AppOptions::with_tools(vec![probe("act", EffectClass::Read, tool.url("/"))])
}

async fn upstream(answers: &[Said]) -> Listener {
    let answers: Vec<_> = answers
        .iter()
        .map(|(text, calls)| (*text, calls.to_vec()))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    Listener::start(move |asked| {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (text, calls) = &answers[at.min(answers.len() - 1)];
        if asked.json()["stream"] == true {
            ListenerReply::sse(upstream_stream(text, calls))
        } else {
            ListenerReply::json(upstream_body(text, calls))
        }
    })
    .await
    .unwrap()
}

async fn create(client: &TestClient, headers: &[(&str, &str)], mut body: Value) -> ReadAnswer {
    body["model"] = json!("m");
    let sent = client.send("POST", RESPONSES, headers, body.to_string());
    sent.await.unwrap()
}

/// The response of an answer that went well.
fn response(got: &ReadAnswer) -> Value {
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()
}

fn id(response: &Value) -> &str {
    response["id"].as_str().unwrap()
}

/// The items of a response of a type.
fn items<'a>(response: &'a Value, kind: &str) -> Vec<&'a Value> {
    let items = response["output"].as_array().unwrap().iter();
    items.filter(|item| item["type"] == kind).collect()
}

/// The newest turn of a conversation, once it is written down: its model is asked before that.
async fn turn_of(client: &TestClient, conversation: &str) -> Value {
    let path = format!("/v1/conversations/{conversation}/turns?order=desc");
    poll_until("a turn of the conversation", async || {
        let turns = client.send("GET", &path, &[], "").await.unwrap().json();
        let turn = turns["data"].get(0)?;
        Some(turn.clone())
    })
    .await
}

/// The events of a stream, as their JSON; the end mark is left out.
fn events(got: &ReadAnswer) -> Vec<Value> {
    let text = got.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let data = data.filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}
