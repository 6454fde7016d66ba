//! A whole server in this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tw_core::accepts::Accepts;
use tw_core::arguments::ArgumentsSchema;
use tw_core::json::Json;
use tw_core::limits;
use tw_core::model_names::ModelNames;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::tool::{CallPolicy, EffectClass, StatusProbe, Tool, ToolKind};
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_egress::upstream::{Upstream, UpstreamAccess, UpstreamKind, UpstreamTimeouts};
use tw_http::server::{AppState, SurfaceOptions, router};
use tw_runtime::admin::{KeyWanted, create_key};
use tw_runtime::runtime::{Runtime, RuntimeConfig};
use tw_store::read::requests::{KeySent, RepeatRow};
use tw_store::store::{self, Store};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::polling::poll_until;
use tw_wire::format::WireFormat;

use crate::surfaces;

pub const CHAT: &str = "/v1/chat/completions";

/// How a test wants its server.
pub struct AppOptions {
    pub tools: Vec<Arc<Tool>>,
    pub config: Box<dyn FnOnce(&mut RuntimeConfig) + Send>,
    pub options: SurfaceOptions,
    pub timeouts: UpstreamTimeouts,
    pub env: Env,
}

impl AppOptions {
    pub fn plain() -> Self {
        Self {
            tools: Vec::new(),
            config: Box::new(|_| {}),
            options: SurfaceOptions::defaults(),
            timeouts: UpstreamTimeouts::defaults(),
            env: Env::system(),
        }
    }

    pub fn with_tools(tools: Vec<Tool>) -> Self {
        Self {
            tools: tools.into_iter().map(Arc::new).collect(),
            ..Self::plain()
        }
    }
}

const DATABASE: &str = "t.db";

/// A server that listens on loopback; everything is gone when it is dropped.
pub struct App {
    pub client: TestClient,
    pub runtime: Runtime,
    pub surfaces: AppState,
    pub store: Store,
    folder: Arc<TempDir>,
}

/// A probe tool that sends to `url`.
pub fn probe(name: &str, effect: EffectClass, url: String) -> Tool {
    let parameters = Json::parse(r#"{"type":"object"}"#).unwrap();
    let mut policy = CallPolicy::new(effect);
    policy.backoff = Duration::ZERO;
    Tool {
        name: name.to_owned(),
        description: "A test's tool.".to_owned(),
        schema: ArgumentsSchema::compile(&parameters).unwrap(),
        parameters,
        policy,
        kind: ToolKind::Probe(StatusProbe { url, panics: false }),
        version: None,
    }
}

/// A server with the `read` tool `act`, in front of an upstream that gives these answers; the upstream and the tool.
pub async fn acting_app(replies: Vec<ListenerReply>) -> (App, Listener, Listener) {
    let tool = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let upstream = Listener::in_turn(replies).await.unwrap();
    let tools = vec![probe("act", EffectClass::Read, tool.url("/"))];
    let app = App::start(&upstream, AppOptions::with_tools(tools)).await;
    (app, upstream, tool)
}

impl App {
    /// A server in front of `upstream`, with one key that is granted all tools.
    pub async fn start(upstream: &Listener, wanted: AppOptions) -> Self {
        Self::start_at(upstream.url("/v1"), wanted).await
    }

    pub async fn start_at(base_url: String, wanted: AppOptions) -> Self {
        let folder = Arc::new(TempDir::new().unwrap());
        let mut app = Self::serve(folder, base_url, wanted).await;
        app.client.key = Some(
            app.key(
                "default",
                ToolGrant::All,
                vec![KeyScope::Chat, KeyScope::TurnsReadAll],
            )
            .await,
        );
        app
    }

    /// Where its database is.
    pub fn database(&self) -> PathBuf {
        self.folder.path().join(DATABASE)
    }

    /// A second server on the same database and with the same key, as after a restart.
    pub async fn again(&self, upstream: &Listener, wanted: AppOptions) -> Self {
        let folder = Arc::clone(&self.folder);
        let mut app = Self::serve(folder, upstream.url("/v1"), wanted).await;
        app.client.key.clone_from(&self.client.key);
        app
    }

    /// A client of a second server on the same database, whose upstream is not there.
    pub async fn restarted(&self) -> TestClient {
        let folder = Arc::clone(&self.folder);
        let app = Self::serve(
            folder,
            "http://127.0.0.1:1/v1".to_owned(),
            AppOptions::plain(),
        )
        .await;
        app.with_key(self.client.key.clone())
    }

    async fn serve(folder: Arc<TempDir>, base_url: String, wanted: AppOptions) -> Self {
        let env = wanted.env;
        let store = Store::open(
            &folder.path().join(DATABASE),
            store::StoreOptions::defaults(env.now()),
        )
        .unwrap();
        let upstream = Upstream {
            name: "test".to_owned(),
            kind: UpstreamKind::Http {
                base_url,
                api_key: None,
            },
            format: WireFormat::OpenAiChat,
            models: ModelNames::all(),
            timeouts: wanted.timeouts,
            accepts: Accepts::everything(),
            answer_bytes_max: limits::ANSWER_BYTES_DEFAULT,
            access: UpstreamAccess::direct(),
        };
        let mut config = RuntimeConfig::with_upstream(upstream, wanted.tools);
        config.turn.model_backoff = Duration::ZERO;
        (wanted.config)(&mut config);
        let runtime = Runtime::new(config, store.clone(), env).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let surfaces = AppState::new(runtime.clone(), wanted.options);
        let routes = router(surfaces.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self {
            client: TestClient { address, key: None },
            runtime,
            surfaces,
            store,
            folder,
        }
    }

    /// A key of an organization, which is made if it does not exist.
    pub async fn key(&self, organization: &str, tools: ToolGrant, scopes: Vec<KeyScope>) -> String {
        let wanted = KeyWanted {
            tools,
            scopes,
            ..wanted_key(organization)
        };
        self.key_as(wanted).await
    }

    /// A key whose turns are recorded minimally, and read.
    pub async fn minimal_key(&self) -> String {
        let wanted = KeyWanted {
            record: RecordPolicy::Minimal,
            scopes: vec![KeyScope::Chat, KeyScope::TurnsReadAll],
            ..wanted_key("default")
        };
        self.key_as(wanted).await
    }

    async fn key_as(&self, wanted: KeyWanted) -> String {
        let made = create_key(&self.store, &Env::system(), wanted).await;
        made.unwrap()
    }

    /// The same server with another key.
    pub fn with_key(&self, key: Option<String>) -> TestClient {
        TestClient {
            address: self.client.address,
            key,
        }
    }

    /// Waits until no turn runs and all that was to be noted of them is written.
    pub async fn settled(&self) {
        self.runtime.idle().await;
        // Writes are made in order, so that this one is behind them all.
        self.runtime.check_store().await.unwrap();
    }

    /// Posts a chat completion with headers.
    pub async fn post(&self, headers: &[(&str, &str)], body: &Value) -> ReadAnswer {
        self.client
            .send("POST", CHAT, headers, body.to_string())
            .await
            .unwrap()
    }

    /// Sends a request that is written as a chat completion to a surface.
    pub async fn ask_on(
        &self,
        surface: WireFormat,
        headers: &[(&str, &str)],
        chat: &Value,
    ) -> ReadAnswer {
        surfaces::send(&self.client, surface, headers, chat).await
    }

    /// What the store knows of the turn that runs or ran under an idempotency key of a surface; waits until there is
    /// one.
    pub async fn repeat_row(&self, surface: WireFormat, idempotency_key: &str) -> RepeatRow {
        let key = self.client.key.as_deref().unwrap();
        let caller = self.runtime.authenticate(key).await.unwrap();
        poll_until("a turn under the key", async || {
            let sent = KeySent {
                api_key: caller.api_key,
                end_user: None,
                surface: surfaces::recorded(surface),
                key: idempotency_key.to_owned(),
            };
            let found = self.store.request_key(caller.organization, sent).await;
            let turn = found.unwrap()?.turn;
            let state = self.store.repeat_state(caller.organization, turn).await;
            Some(state.unwrap().unwrap())
        })
        .await
    }

    /// The id of that turn.
    pub async fn running_turn(&self, surface: WireFormat, idempotency_key: &str) -> String {
        self.repeat_row(surface, idempotency_key)
            .await
            .turn
            .to_string()
    }

    /// Every byte of the database's files.
    pub fn files(&self) -> Vec<u8> {
        let folder = std::fs::read_dir(self.folder.path()).unwrap();
        folder
            .flat_map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
            .collect()
    }

    /// The record of the turn that an answer names.
    pub async fn turn_of(&self, got: &ReadAnswer) -> Value {
        self.turn(got.header("turnwright-turn")).await
    }

    pub async fn turn(&self, id: &str) -> Value {
        self.runtime.idle().await;
        self.client
            .send("GET", &format!("/v1/turns/{id}?full=1"), &[], "")
            .await
            .unwrap()
            .json()
    }
}

fn wanted_key(organization: &str) -> KeyWanted {
    KeyWanted {
        organization: organization.to_owned(),
        name: "test".to_owned(),
        scopes: Vec::new(),
        tools: ToolGrant::All,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: tw_core::rate::RateLimits::default(),
        expires: None,
    }
}

/// A request with one user message.
pub fn ask(text: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }] })
}

pub fn ask_streamed(text: &str) -> Value {
    let mut request = ask(text);
    request["stream"] = json!(true);
    request
}

/// A streamed answer of an upstream: text, then calls as (id, name, arguments), then its finish.
pub fn upstream_stream(text: &str, calls: &[(&str, &str, &str)]) -> String {
    let mut out = String::new();
    let mut chunk = |delta: Value, finish: Value| {
        let chunk = json!({
            "id": "u", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        });
        out.push_str(&format!("data: {chunk}\n\n"));
    };
    chunk(json!({ "role": "assistant", "content": "" }), Value::Null);
    if !text.is_empty() {
        chunk(json!({ "content": text }), Value::Null);
    }
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let call = json!({
            "index": index, "id": id, "type": "function",
            "function": { "name": name, "arguments": arguments },
        });
        chunk(json!({ "tool_calls": [call] }), Value::Null);
    }
    chunk(
        json!({}),
        if calls.is_empty() {
            json!("stop")
        } else {
            json!("tool_calls")
        },
    );
    out.push_str("data: [DONE]\n\n");
    out
}

/// The same as a plain body.
pub fn upstream_body(text: &str, calls: &[(&str, &str, &str)]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        })
        .collect();
    let finish = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": "u", "object": "chat.completion", "created": 1, "model": "m-1",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 },
    })
    .to_string()
}
