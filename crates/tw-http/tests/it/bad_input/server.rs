//! The server of a row, and its keys.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpSocket;
use tw_core::accepts::Accepts;
use tw_core::arguments::ArgumentsSchema;
use tw_core::json::Json;
use tw_core::model_names::ModelNames;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::tool::{CallPolicy, EffectClass, Tool, ToolKind};
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_egress::secret::Secret;
use tw_egress::upstream::{Upstream, UpstreamAccess, UpstreamKind, UpstreamTimeouts};
use tw_runtime::admin::{KeyWanted, create_key};
use tw_runtime::runtime::RuntimeConfig;
use tw_testkit::client::TestClient;
use tw_testkit::listener::Listener;
use tw_wire::format::WireFormat;

use super::row::{BadInputRow, Head, KeyKind, Manner, Then};
use super::upstream::UPSTREAM_KEY;
use crate::app::{App, AppOptions};

/// How long the upstream may be silent where a row is about its silence.
const SILENCE_MAX: Duration = Duration::from_millis(300);
/// How long the client may take nothing where a row is about that.
const STALL_MAX: Duration = Duration::from_millis(300);

/// An address that nobody listens on and nobody else gets, while it is kept.
pub struct Closed(TcpSocket);

impl Closed {
    pub fn bind() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.0.local_addr().unwrap())
    }
}

/// Starts the server in front of the row's upstream.
pub async fn start(row: &BadInputRow, upstream: &Listener, closed: &Closed) -> App {
    let base_url = match row.upstream.head {
        Some(Head::Refused) => closed.url(),
        Some(Head::HangUp | Head::Silence) | None => upstream.url("/v1"),
    };
    let timeouts = timeouts(row);
    let stalls = matches!(row.client, Some(Manner::ReadsNothing));
    let never_answers = row.upstream.head == Some(Head::Silence);
    let configure = {
        let (base_url, timeouts) = (base_url.clone(), timeouts.clone());
        move |config: &mut RuntimeConfig| {
            // What would be waited for is not what these rows are about.
            config.turn.retry_after_max = Duration::ZERO;
            config.upstreams = vec![Arc::new(of(base_url, timeouts))];
            if never_answers {
                config.turn.plain_max = SILENCE_MAX;
            }
            if stalls {
                config.client_stall_max = STALL_MAX;
            }
        }
    };
    let wanted = AppOptions {
        config: Box::new(configure),
        timeouts,
        ..AppOptions::with_tools(vec![clock()])
    };
    App::start_at(base_url, wanted).await
}

/// A client with the row's key.
pub async fn client(row: &BadInputRow, app: &App) -> TestClient {
    let chat = vec![KeyScope::Chat];
    let key = match row.key {
        KeyKind::Missing => None,
        KeyKind::Wrong => Some("tw-0000000000000000".to_owned()),
        KeyKind::Plain => Some(app.key("default", ToolGrant::None, chat).await),
        KeyKind::Tools => Some(app.key("default", ToolGrant::All, chat).await),
        KeyKind::Unscoped => Some(
            app.key("default", ToolGrant::None, vec![KeyScope::TurnsRead])
                .await,
        ),
        KeyKind::Expired => Some(expired(app).await),
    };
    app.with_key(key)
}

fn timeouts(row: &BadInputRow) -> UpstreamTimeouts {
    let falls_silent =
        row.upstream.head == Some(Head::Silence) || matches!(row.upstream.then, Then::Silence);
    let mut timeouts = UpstreamTimeouts::defaults();
    if falls_silent && row.client.is_none() {
        timeouts.first_byte = SILENCE_MAX;
        timeouts.idle = SILENCE_MAX;
    }
    timeouts
}

fn of(base_url: String, timeouts: UpstreamTimeouts) -> Upstream {
    Upstream {
        name: "test".to_owned(),
        kind: UpstreamKind::Http {
            base_url,
            api_key: Some(Secret::new(UPSTREAM_KEY.to_owned())),
        },
        format: WireFormat::OpenAiChat,
        models: ModelNames::all(),
        timeouts,
        accepts: Accepts::everything(),
        answer_bytes_max: tw_core::limits::ANSWER_BYTES_DEFAULT,
        access: UpstreamAccess::direct(),
    }
}

fn clock() -> Tool {
    let parameters = Json::parse(r#"{"type":"object"}"#).unwrap();
    Tool {
        name: "time_now".to_owned(),
        description: "Tells the time.".to_owned(),
        schema: ArgumentsSchema::compile(&parameters).unwrap(),
        parameters,
        policy: CallPolicy::new(EffectClass::Read),
        kind: ToolKind::TimeNow,
        version: None,
    }
}

async fn expired(app: &App) -> String {
    let env = Env::system();
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "expired".to_owned(),
        scopes: vec![KeyScope::Chat],
        tools: ToolGrant::None,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: tw_core::rate::RateLimits::default(),
        expires: Some(env.now()),
    };
    create_key(&app.store, &env, wanted).await.unwrap()
}
