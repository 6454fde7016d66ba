//! The tools of this server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tw_core::arguments::ArgumentsSchema;
use tw_core::json::Json;
use tw_core::limits::TOOL_TIMEOUT_MAX;
use tw_core::tool::{CallPolicy, EffectClass, StatusProbe, Tool, ToolKind};
use tw_egress::builtin::{BuiltinDefinition, CALCULATE, TIME_NOW};

/// A probe as a config file of a debug build describes it.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProbeSettings {
    name: String,
    effect: String,
    url: String,
    /// JSON Schema text.
    parameters: Option<String>,
    timeout_ms: Option<u64>,
    attempts_max: Option<u32>,
    #[serde(default)]
    panics: bool,
    #[serde(default)]
    requires_approval: bool,
}

const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// The built-in tools, and the probes of a debug build.
pub fn tools(probes: &[ProbeSettings]) -> anyhow::Result<Vec<Arc<Tool>>> {
    if !probes.is_empty() && !cfg!(debug_assertions) {
        bail!("probes exist in debug builds only");
    }
    let mut tools = vec![
        builtin(&TIME_NOW, ToolKind::TimeNow)?,
        builtin(&CALCULATE, ToolKind::Calculate)?,
    ];
    for (place, settings) in probes.iter().enumerate() {
        tools.push(probe(settings).with_context(|| format!("probe[{place}]"))?);
    }
    Ok(tools.into_iter().map(Arc::new).collect())
}

fn builtin(definition: &BuiltinDefinition, kind: ToolKind) -> anyhow::Result<Tool> {
    let parameters = Json::parse(definition.parameters)?;
    Ok(Tool {
        name: definition.name.to_owned(),
        description: definition.description.to_owned(),
        schema: ArgumentsSchema::compile(&parameters)?,
        parameters,
        policy: CallPolicy::new(EffectClass::Read),
        kind,
        version: None,
    })
}

fn probe(settings: &ProbeSettings) -> anyhow::Result<Tool> {
    let Some(effect) = EffectClass::parse(&settings.effect) else {
        bail!("'effect' is none of read, idempotent, queryable, once");
    };
    let url: http::Uri = settings.url.parse().context("url")?;
    if !matches!(url.host(), Some("127.0.0.1" | "localhost" | "[::1]")) {
        bail!("url must be on loopback");
    }
    let parameters =
        Json::parse(settings.parameters.as_deref().unwrap_or(ANY_OBJECT)).context("parameters")?;
    let mut policy = CallPolicy::new(effect);
    if let Some(timeout_ms) = settings.timeout_ms {
        policy.timeout = Duration::from_millis(timeout_ms).min(TOOL_TIMEOUT_MAX);
    }
    if let Some(attempts_max) = settings.attempts_max {
        policy.attempts_max = attempts_max.max(1);
    }
    policy.requires_approval = settings.requires_approval;
    Ok(Tool {
        name: settings.name.clone(),
        description: "Sends its arguments to a listener.".to_owned(),
        schema: ArgumentsSchema::compile(&parameters)?,
        parameters,
        policy,
        kind: ToolKind::Probe(StatusProbe {
            url: settings.url.clone(),
            panics: settings.panics,
        }),
        version: None,
    })
}
