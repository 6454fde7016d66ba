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

use crate::app::{App, AppOptions, probe, upstream_body, upstream_stream};

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

/// A client that keeps the history, as chat clients do.
#[derive(Clone)]
pub struct Chatter {
    pub client: TestClient,
    pub headers: Vec<(String, String)>,
    pub streams: bool,
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
    pub fn new(client: &TestClient, headers: &[(&str, &str)]) -> Self {
        Self {
            client: client.clone(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            streams: false,
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
        self.sent = body.to_string();
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let sent = self
            .client
            .send("POST", crate::app::CHAT, &headers, self.sent.clone());
        let got = sent.await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        let message = if self.streams {
            assembled(&got.events())
        } else {
            got.json()["choices"][0]["message"].clone()
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

/// The message that a client makes of a stream.
fn assembled(events: &[String]) -> Value {
    let (mut text, mut calls) = (String::new(), Vec::<Value>::new());
    for event in events {
        let Ok(chunk) = serde_json::from_str::<Value>(event) else {
            continue;
        };
        let delta = &chunk["choices"][0]["delta"];
        text.push_str(delta["content"].as_str().unwrap_or_default());
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(piece["index"].as_u64().unwrap()).unwrap();
            if at == calls.len() {
                calls.push(piece.clone());
                continue;
            }
            let more = piece["function"]["arguments"].as_str().unwrap_or_default();
            let so_far = calls[at]["function"]["arguments"].as_str().unwrap();
            calls[at]["function"]["arguments"] = json!(format!("{so_far}{more}"));
        }
    }
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}

/// Whether a request to the model holds a text anywhere.
pub fn holds(asked: &ReceivedRequest, text: &str) -> bool {
    String::from_utf8_lossy(&asked.body).contains(text)
}
