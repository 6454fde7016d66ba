//! `turnwright demo`: a whole tool loop on a fresh machine, shown in the terminal.

mod client;
mod picture;
mod report;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tw_core::accepts::Accepts;
use tw_core::limits::ANSWER_BYTES_DEFAULT;
use tw_core::model_names::ModelNames;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_egress::scripted::Script;
use tw_egress::upstream::{Upstream, UpstreamAccess, UpstreamKind, UpstreamTimeouts};
use tw_http::server::SurfaceOptions;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_runtime::runtime::RuntimeConfig;

use crate::cli::DemoArgs;
use crate::database::DatabasePlace;
use crate::listen::{self, ConnectionLimits};
use crate::printed;
use crate::registry;
use crate::serve::{ListeningServer, StopReason, log_to_stderr, stop_signal};
use tw_runtime::metrics::DroppedLogLines;

use client::DemoClient;
use picture::ImageService;
use tw_wire::format::WireFormat;

const SCRIPT: &str = include_str!("demo/script.toml");
const QUESTION: &str = "What time is it in Tokyo and in New York, and what is 19.99 * 3?";
const MODEL: &str = "demo";
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections_max: 1024,
    head_timeout: Duration::from_secs(75),
    write_stall_max: Duration::from_secs(120),
};

pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let env = Env::system();
    let folder = tempfile::tempdir().context("making a folder for the demo's database")?;
    let store = DatabasePlace::Folder(folder.path().to_owned());
    let store = store.open(&env).await?;
    let key = create_key(&store, &env, demo_key())
        .await
        .context("making the demo's key")?;
    let upstream = Upstream {
        name: "scripted".to_owned(),
        kind: UpstreamKind::Scripted(Arc::new(
            Script::parse(SCRIPT).context("the demo's script")?,
        )),
        format: WireFormat::OpenAiChat,
        models: ModelNames::all(),
        timeouts: UpstreamTimeouts::defaults(),
        accepts: Accepts::everything(),
        answer_bytes_max: ANSWER_BYTES_DEFAULT,
        access: UpstreamAccess::direct(),
    };
    let listener = listen::bind(args.listen).await?;
    let base = format!("http://{}", listener.local_addr()?);
    let service = ImageService::start().await?;
    let config = service.reached_by(RuntimeConfig {
        callback_base: Some(base),
        ..RuntimeConfig::with_upstream(upstream, registry::tools(&[])?)
    })?;
    let server = ListeningServer::start(
        config,
        store,
        env,
        listener,
        SurfaceOptions::defaults(),
        LIMITS,
    )?;
    let address = server.address;
    printed::say(format_args!("listening on http://{address}\n"));
    let stop = stop_signal()?;
    let stopped = async move {
        stop.await;
        StopReason::Quit
    };
    let serving = tokio::spawn(server.until(stopped));
    let client = DemoClient::new(address, key.clone());
    show(&client).await?;
    picture::show(&client, &service).await?;
    printed::say(format_args!("{}\n", report::try_it(address, &key, MODEL)));
    printed::say(format_args!(
        "demo finished: the server goes on until you press Ctrl-C; nothing of it is kept.\n"
    ));
    serving.await.context("the server's task")
}

fn demo_key() -> KeyWanted {
    KeyWanted {
        organization: "default".to_owned(),
        name: "demo".to_owned(),
        scopes: vec![
            KeyScope::Chat,
            KeyScope::TurnsRead,
            KeyScope::ToolsRead,
            KeyScope::ToolsWrite,
        ],
        tools: ToolGrant::All,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: tw_core::rate::RateLimits::default(),
        expires: None,
    }
}

/// Asks as any client would, then reads the record as any client could.
async fn show(client: &DemoClient) -> anyhow::Result<()> {
    printed::say(format_args!(
        "\nA client asks, in one streamed request: {QUESTION}\n\n"
    ));
    let request = json!({
        "model": MODEL,
        "stream": true,
        "messages": [{ "role": "user", "content": QUESTION }],
    });
    printed::say(format_args!("What the client sees:\n\n"));
    let answered = client
        .stream("/v1/chat/completions", &request, report::print_delta)
        .await?;
    printed::say(format_args!("\n\n"));
    let Some(turn) = answered.turn else {
        bail!("the answer named no turn");
    };
    let record: Value = client.get(&format!("/v1/turns/{turn}?full=1")).await?;
    printed::say(format_args!("{}", report::rounds(&record)?));
    leave_and_resume(client, &request).await
}

/// Asks again, leaves in the middle, and reads on from where it was.
async fn leave_and_resume(client: &DemoClient, request: &Value) -> anyhow::Result<()> {
    printed::say(format_args!(
        "\nThe same again, and the client's connection breaks in the middle:\n\n"
    ));
    let answered = client
        .start_and_leave("/v1/chat/completions", request)
        .await?;
    let Some(turn) = answered.turn else {
        bail!("the answer named no turn");
    };
    let log = format!("/v1/turns/{turn}/events");
    let mut events = 0;
    let seen = client
        .follow(&log, None, |event| {
            report::print_event(event);
            events += 1;
            let in_the_middle = event["type"] == "call_ended";
            if in_the_middle {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .await?;
    let Some(seen) = seen else {
        bail!("the log of the turn holds nothing");
    };
    printed::say(format_args!(
        "\n\n  -- disconnected after event {seen}; the turn goes on without its client --\n\n  \
         GET {log} with Last-Event-ID: {seen}\n\n"
    ));
    let mut ended = false;
    let last = client
        .follow(&log, Some(&seen), |event| {
            report::print_event(event);
            events += 1;
            ended = event["type"] == "end";
            ControlFlow::Continue(())
        })
        .await?;
    let last = last.unwrap_or_default();
    // Events of one claim are numbered from 1 without gaps, so the count shows that none is
    // missing and none came twice.
    if !ended || last != format!("1.{events}") {
        bail!(
            "the log did not go on where the client had left it: {events} events, the last is {last}"
        );
    }
    printed::say(format_args!(
        "\n\n  resumed: {events} events in all, none missing, none twice\n\n"
    ));
    Ok(())
}
