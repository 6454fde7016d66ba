//! Several upstreams: which one answers which model, and who answers when one fails.

mod azure;
mod differences;
mod empty_events;
mod models;
mod not_http;
mod routing;

use std::sync::Arc;

use serde_json::{Value, json};
use tw_core::accepts::Accepts;
use tw_core::limits;
use tw_core::model_names::{ModelNames, NamePattern};
use tw_egress::upstream::{Upstream, UpstreamAccess, UpstreamKind, UpstreamTimeouts};
use tw_runtime::runtime::RuntimeConfig;
use tw_testkit::listener::{Listener, ListenerReply};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, upstream_body, upstream_stream};

/// An upstream that serves all models.
pub fn upstream(name: &str, base_url: String) -> Upstream {
    Upstream {
        name: name.to_owned(),
        kind: UpstreamKind::Http {
            base_url,
            api_key: None,
        },
        format: WireFormat::OpenAiChat,
        models: ModelNames::all(),
        timeouts: UpstreamTimeouts::defaults(),
        accepts: Accepts::everything(),
        answer_bytes_max: limits::ANSWER_BYTES_DEFAULT,
        access: UpstreamAccess::direct(),
    }
}

pub fn serves(patterns: &[&str], aliases: &[(&str, &str)]) -> ModelNames {
    let pattern = |text: &str| NamePattern::new(text).unwrap();
    ModelNames::new(
        patterns.iter().map(|text| pattern(text)).collect(),
        aliases
            .iter()
            .map(|(alias, sent)| (pattern(alias), (*sent).to_owned()))
            .collect(),
    )
}

/// A server in front of these, in this order.
pub async fn in_front_of(upstreams: Vec<Upstream>) -> App {
    in_front_of_with(upstreams, |_| {}).await
}

pub async fn in_front_of_with(
    upstreams: Vec<Upstream>,
    change: impl FnOnce(&mut RuntimeConfig) + Send + 'static,
) -> App {
    let wanted = AppOptions {
        config: Box::new(move |config| {
            config.upstreams = upstreams.into_iter().map(Arc::new).collect();
            change(config);
        }),
        ..AppOptions::plain()
    };
    App::start_at("http://127.0.0.1:1/v1".to_owned(), wanted).await
}

/// A listener that answers each request with its own name, streamed or not.
pub async fn says(name: &'static str) -> Listener {
    Listener::start(move |asked| {
        if asked.json()["stream"] == json!(true) {
            ListenerReply::sse(upstream_stream(name, &[]))
        } else {
            ListenerReply::json(upstream_body(name, &[]))
        }
    })
    .await
    .unwrap()
}

pub fn ask_of(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Hi" }] })
}

/// Upstream and outcome of each attempt of the first round.
pub fn attempts(turn: &Value) -> Vec<(String, String)> {
    let attempts = turn["rounds"][0]["attempts"].as_array().unwrap();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    attempts
        .iter()
        .map(|attempt| (word(&attempt["upstream"]), word(&attempt["outcome"])))
        .collect()
}
