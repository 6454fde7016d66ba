//! Clients that keep the history themselves: which turn a request continues, and what of it is
//! put back.

mod attach;
mod person;
mod restore;

use serde_json::{Value, json};
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::tool::EffectClass;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, probe, upstream_body, upstream_stream};
use crate::surfaces;

/// A model that calls `look` when the user's last words begin so, twice for `look twice`, and
/// the client's own tool `mine` for `mine`; all else it answers at once.
pub async fn model() -> Listener {
    Listener::start(|asked| answer(&asked.json()))
        .await
        .unwrap()
}

/// The model's answer to one request.
pub fn answer(request: &Value) -> ListenerReply {
    let messages = request["messages"].as_array().unwrap();
    let asked_at = messages
        .iter()
        .rposition(|message| message["role"] == "user");
    let asked = asked_at.map_or("", |at| {
        messages[at]["content"].as_str().unwrap_or_default()
    });
    let rounds = asked_at.map_or(0, |at| {
        let behind = messages[at..].iter();
        behind
            .filter(|message| message["role"] == "assistant")
            .count()
    });
    let (text, calls): (&str, &[(&str, &str, &str)]) = match (asked, rounds) {
        (asked, 0) if asked.starts_with("look") => ("Let me see.", &[("up_1", "look", "{}")]),
        (asked, 1) if asked.starts_with("look twice") => ("", &[("up_2", "look", "{}")]),
        (asked, 0) if asked.starts_with("peek") => ("", &[("up_1", "peek", "{}")]),
        (asked, 0) if asked.starts_with("mine") => ("", &[("up_1", "mine", "{}")]),
        (_, 0) => ("Hello.", &[]),
        (_, _) => ("Done. \n", &[]),
    };
    if request["stream"] == true {
        ListenerReply::sse(upstream_stream(text, calls))
    } else {
        ListenerReply::json(upstream_body(text, calls))
    }
}

/// A service that says these, one after the other, and the last again and again.
pub async fn service(says: &[&str]) -> Listener {
    let replies = says
        .iter()
        .map(|said| ListenerReply::json(json!(said).to_string()));
    Listener::in_turn(replies.collect()).await.unwrap()
}

/// A server that offers `look` and `peek`, which ask the service.
pub async fn start(model: &Listener, service: &Listener) -> App {
    App::start(model, offering(service)).await
}

pub fn offering(service: &Listener) -> AppOptions {
    let tool = |name| probe(name, EffectClass::Read, service.url("/"));
    AppOptions::with_tools(vec![tool("look"), tool("peek")])
}

/// A key that was made for one person.
pub async fn own_key(app: &App, tools: ToolGrant) -> TestClient {
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "one person's".to_owned(),
        scopes: vec![KeyScope::Chat, KeyScope::TurnsRead],
        tools,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Key,
        expires: None,
        limits: tw_core::rate::RateLimits::default(),
    };
    let key = create_key(&app.store, &Env::system(), wanted).await;
    app.with_key(Some(key.unwrap()))
}

/// What a client keeps of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// What was said, and calls of its own.
    WhatWasSaid,
    /// Also what Responses shows of calls of the server.
    All,
}

/// A client that keeps the history, as chat clients do.
#[derive(Clone)]
pub struct Chatter {
    pub client: TestClient,
    pub surface: WireFormat,
    pub headers: Vec<(String, String)>,
    pub streams: bool,
    pub keeps: Keeps,
    /// Fields of the request beside those that every request has.
    pub fields: Value,
    pub messages: Vec<Value>,
    /// The last request's body.
    pub sent: String,
}

/// What came back.
pub struct Said {
    pub memory: String,
    pub turn: String,
    pub conversation: String,
    pub message: Value,
}

impl Chatter {
    pub fn new(client: &TestClient, surface: WireFormat, headers: &[(&str, &str)]) -> Self {
        Self {
            client: client.clone(),
            surface,
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            streams: false,
            keeps: Keeps::WhatWasSaid,
            fields: json!({}),
            messages: Vec::new(),
            sent: String::new(),
        }
    }

    pub fn with(mut self, fields: Value) -> Self {
        self.fields = fields;
        self
    }

    /// Says something, and keeps the answer.
    pub async fn say(&mut self, text: &str) -> Said {
        self.bring(json!({ "role": "user", "content": text })).await
    }

    /// Adds a message, sends the history, and keeps the answer.
    pub async fn bring(&mut self, message: Value) -> Said {
        self.messages.push(message);
        let mut body = self.fields.clone();
        body["model"] = json!("m");
        body["messages"] = json!(self.messages);
        body["stream"] = json!(self.streams);
        self.sent = surfaces::written(self.surface, &body).to_string();
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let path = surfaces::path(self.surface);
        let sent = self.client.send("POST", path, &headers, self.sent.clone());
        let got = sent.await.unwrap();
        let message = surfaces::read(self.surface, &got).message;
        let message = match self.keeps {
            Keeps::WhatWasSaid => surfaces::without_our_calls(message),
            Keeps::All => message,
        };
        self.messages.push(message.clone());
        Said {
            memory: got.header("turnwright-memory").to_owned(),
            turn: got.header("turnwright-turn").to_owned(),
            conversation: got.header("turnwright-conversation").to_owned(),
            message,
        }
    }
}

/// Whether a request to the model holds a text anywhere.
pub fn holds(asked: &ReceivedRequest, text: &str) -> bool {
    String::from_utf8_lossy(&asked.body).contains(text)
}
