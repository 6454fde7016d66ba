//! A server with stored tools, a model that calls them, and a service behind them.

use serde_json::{Map, Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_egress::client::host_port::AllowedDestination;
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_egress::client::{self, ClientOptions, PoolOptions, READ_BYTES_MAX_DEFAULT, web_roots};
use tw_egress::secret::Secret;
use tw_egress::secrets::{SecretGrant, Secrets};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest};

use crate::app::{App, AppOptions, CHAT, ask, upstream_body, upstream_stream};

/// What the model says when it has called all.
pub const SAID: &str = "So be it.";
/// The organizations that may reach the service.
pub const SLUGS: [&str; 2] = ["default", "other"];

pub struct ToolLab {
    pub app: App,
    pub model: Listener,
    pub service: Listener,
    /// May read and write the tools of `default`.
    pub editor: TestClient,
}

/// A turn, over.
#[derive(Debug)]
pub struct Ran {
    pub got: ReadAnswer,
    /// Its record, in full.
    pub turn: Value,
}

impl Ran {
    /// The only call of the first round, which the server itself ran.
    #[track_caller]
    pub fn call(&self) -> &Value {
        let calls = self.turn["rounds"][0]["calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{}", self.turn);
        assert_eq!(calls[0]["runs"], "server", "{}", self.turn);
        &calls[0]
    }

    /// How that call ended, in a line: `completed` or `failed REASON`.
    #[track_caller]
    pub fn ended(&self) -> String {
        let call = self.call();
        let status = call["status"].as_str().unwrap();
        match call["reason"].as_str() {
            Some(reason) => format!("{status} {reason}"),
            None => status.to_owned(),
        }
    }
}

impl ToolLab {
    /// With a service that gives every request this answer.
    pub async fn answering(reply: ListenerReply) -> Self {
        Self::of(Listener::in_turn(vec![reply]).await.unwrap()).await
    }

    pub async fn of(service: Listener) -> Self {
        let wanted = reaching(&[&service], Vec::new());
        Self::start(service, wanted).await
    }

    pub async fn start(service: Listener, wanted: AppOptions) -> Self {
        Self::behind(model().await, service, wanted).await
    }

    /// With a model of [`model`] that outlives the server.
    pub async fn behind(model: Listener, service: Listener, wanted: AppOptions) -> Self {
        let app = App::start(&model, wanted).await;
        let editor = editor(&app, "default").await;
        Self {
            app,
            model,
            service,
            editor,
        }
    }

    /// A definition of a GET to this path of the service, with these members over it.
    pub fn define(&self, name: &str, path: &str, members: Value) -> Value {
        definition(name, &self.service.url(path), members)
    }

    /// Makes a tool of [`Lab::define`] and returns its id.
    pub async fn make(&self, name: &str, path: &str, members: Value) -> String {
        let definition = self.define(name, path, members);
        made(&self.editor, "default", &definition).await
    }

    /// Changes a tool, which must work.
    pub async fn patch(&self, id: &str, patch: Value) -> Value {
        let path = format!("/api/default/tools/{id}");
        let got = self.editor.send("PATCH", &path, &[], patch.to_string());
        let got = got.await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        got.json()
    }

    pub async fn delete(&self, id: &str) {
        let path = format!("/api/default/tools/{id}");
        let got = self.editor.send("DELETE", &path, &[], "").await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
    }

    /// A turn in which the model makes these calls; see [`model`].
    pub async fn run(&self, calls: &str) -> Ran {
        self.run_with(&self.app.client, &[], &ask(calls)).await
    }

    /// A turn of another client, with headers.
    pub async fn run_with(
        &self,
        client: &TestClient,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Ran {
        let got = client.send("POST", CHAT, headers, body.to_string()).await;
        self.ran(client, got.unwrap()).await
    }

    pub async fn ran(&self, client: &TestClient, got: ReadAnswer) -> Ran {
        assert_eq!(got.status, 200, "{}", got.text());
        self.app.settled().await;
        let path = format!("/v1/turns/{}?full=1", got.header("turnwright-turn"));
        let turn = client.send("GET", &path, &[], "").await.unwrap().json();
        assert_eq!(turn["status"], "completed", "{turn}");
        Ran { got, turn }
    }

    /// The tools that the newest request to the model offers.
    pub fn offered(&self) -> Value {
        self.model.asked().last().unwrap().json()["tools"].clone()
    }
}

/// A definition of a GET with these members over it.
pub fn definition(name: &str, url: &str, members: Value) -> Value {
    let mut definition = json!({
        "name": name, "description": "A test's tool.", "type": "api_request", "url": url,
        "policy": { "backoff_ms": 0 },
    });
    let Value::Object(members) = members else {
        panic!("members are an object");
    };
    let of_definition: &mut Map<String, Value> = definition.as_object_mut().unwrap();
    of_definition.extend(members);
    definition
}

/// Makes a tool, which must work, and returns its id.
pub async fn made(editor: &TestClient, slug: &str, definition: &Value) -> String {
    let got = create(editor, slug, definition.to_string()).await;
    assert_eq!(got.status, 201, "{}", got.text());
    got.json()["id"].as_str().unwrap().to_owned()
}

pub async fn create(editor: &TestClient, slug: &str, definition: String) -> ReadAnswer {
    let path = format!("/api/{slug}/tools");
    editor.send("POST", &path, &[], definition).await.unwrap()
}

/// A client that may do everything with an organization's tools, and call them.
pub async fn editor(app: &App, slug: &str) -> TestClient {
    let scopes = vec![
        KeyScope::ToolsRead,
        KeyScope::ToolsWrite,
        KeyScope::Chat,
        KeyScope::TurnsReadAll,
    ];
    app.with_key(Some(app.key(slug, ToolGrant::All, scopes).await))
}

/// A server whose tools reach these listeners and nothing else, for [`SLUGS`].
pub fn reaching(services: &[&Listener], grants: Vec<SecretGrant>) -> AppOptions {
    let allowed = services.iter().map(|service| allowed(&place(service)));
    let options = ClientOptions {
        allowed: allowed.collect(),
        ..options()
    };
    leaving_by(options, grants)
}

/// A server whose tools leave by a client of these options.
pub fn leaving_by(options: ClientOptions, grants: Vec<SecretGrant>) -> AppOptions {
    AppOptions {
        config: Box::new(move |config| {
            config.tool_client = client::EgressClient::new(options);
            config.secrets = Secrets::new(grants).unwrap().into();
        }),
        ..AppOptions::plain()
    }
}

/// A client that reaches nothing private and knows no names.
pub fn options() -> ClientOptions {
    ClientOptions {
        resolver: Resolver::Fixed(FixedAnswers::default()),
        allowed: Vec::new(),
        denied: Vec::new(),
        trusted_roots: web_roots(),
        certificates: Vec::new(),
        proxy: None,
        pool: PoolOptions::defaults(),
        read_bytes_max: READ_BYTES_MAX_DEFAULT,
    }
}

pub fn allowed(place: &str) -> AllowedDestination {
    AllowedDestination::parse(place, Some(SLUGS.map(str::to_owned).to_vec())).unwrap()
}

/// `HOST:PORT` of a listener.
pub fn place(listener: &Listener) -> String {
    listener.url("").replace("http://", "")
}

pub fn grant(name: &str, value: &str, slugs: &[&str], hosts: &[&str]) -> SecretGrant {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    SecretGrant {
        name: name.to_owned(),
        value: Secret::new(value.to_owned()),
        organizations: owned(slugs),
        hosts: owned(hosts),
    }
}

/// A model that does what the user says: a round of calls for each paragraph, a call for each of
/// its lines, `NAME ARGUMENTS`; and then it has said all.
pub async fn model() -> Listener {
    Listener::start(answer).await.unwrap()
}

fn answer(asked: &ReceivedRequest) -> ListenerReply {
    let request = asked.json();
    let messages = request["messages"].as_array().unwrap();
    let is_user = |message: &Value| message["role"] == "user";
    let user = messages.iter().rposition(is_user).unwrap();
    let is_round = |message: &&Value| message["role"] == "assistant";
    let made = messages[user..].iter().filter(is_round).count();
    let text = messages[user]["content"].as_str().unwrap();
    let lines = text.split("\n\n").nth(made).map(str::lines);
    let calls: Vec<(String, &str, &str)> = lines
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(at, line)| {
            let (name, arguments) = line.split_once(' ').unwrap_or((line, "{}"));
            (format!("c{made}_{at}"), name, arguments)
        })
        .collect();
    let calls: Vec<(&str, &str, &str)> = calls
        .iter()
        .map(|(id, name, arguments)| (id.as_str(), *name, *arguments))
        .collect();
    let said = if calls.is_empty() { SAID } else { "" };
    if request["stream"] == true {
        ListenerReply::sse(upstream_stream(said, &calls))
    } else {
        ListenerReply::json(upstream_body(said, &calls))
    }
}
