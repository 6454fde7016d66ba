//! `turnwright model`: a scripted model over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, StatusCode};
use tw_core::limits::BODY_BYTES_DEFAULT;
use tw_egress::scripted::{Script, ScriptedPiece};
use tw_wire::model_list::{ListedModel, encode};

use crate::cli::ModelArgs;
use crate::config::read_script;
use crate::listen;
use crate::printed;
use crate::serve::{log_to_stderr, stop_signal};
use tw_runtime::metrics::DroppedLogLines;

struct Model {
    script: Script,
    serial: AtomicU64,
}

pub async fn run(args: ModelArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let script =
        read_script(&args.file).with_context(|| format!("reading {}", args.file.display()))?;
    let listener = listen::bind(args.listen).await?;
    printed::say(format_args!(
        "listening on http://{}\n",
        listener.local_addr()?
    ));
    let listener = listener.tap_io(|tcp| {
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(error = %error, "a connection without nodelay");
        }
    });
    let routes = Router::new()
        .route("/v1/chat/completions", post(answer))
        .route("/v1/models", get(models))
        .route("/healthz", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(BODY_BYTES_DEFAULT))
        .with_state(Arc::new(Model {
            script,
            serial: AtomicU64::new(1),
        }));
    let stop = stop_signal()?;
    tokio::select! {
        served = axum::serve(listener, routes).into_future() => served.context("serving"),
        // A test's model has nothing to finish.
        () = stop => Ok(()),
    }
}

async fn models(State(model): State<Arc<Model>>) -> Response {
    let names = model.script.models();
    let listed: Vec<_> = names.map(|name| ListedModel::new(name, "script")).collect();
    let mut response = Response::new(Body::from(encode(&listed)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

async fn answer(State(model): State<Arc<Model>>, request: Bytes) -> Response {
    let serial = model.serial.fetch_add(1, Ordering::Relaxed);
    let answer = model.script.answer(&request, serial);
    tokio::time::sleep(answer.head_delay).await;
    let pieces = answer.body.into_iter();
    let body = Body::from_stream(futures_util::stream::unfold(
        pieces,
        |mut pieces| async move {
            loop {
                match pieces.next()? {
                    ScriptedPiece::Bytes(bytes) => {
                        return Some((Ok::<_, std::io::Error>(bytes), pieces));
                    }
                    ScriptedPiece::Wait(pause) => tokio::time::sleep(pause).await,
                    ScriptedPiece::Cut => {
                        // An error of the body closes the connection without the body's end.
                        let cut = std::io::Error::other("the script cuts here");
                        return Some((Err(cut), pieces));
                    }
                    ScriptedPiece::Silence => std::future::pending::<()>().await,
                };
            }
        },
    ));
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    for (name, value) in &answer.headers {
        let (Ok(name), Ok(value)) = (
            HeaderName::try_from(name.as_str()),
            HeaderValue::try_from(value.as_str()),
        ) else {
            continue;
        };
        response.headers_mut().append(name, value);
    }
    response
}
