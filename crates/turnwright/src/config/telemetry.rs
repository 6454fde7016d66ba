//! `[telemetry]`: traces of turns, and the collector that gets them. The standard variables of OpenTelemetry count more
//! than the table.

use std::time::Duration;

use anyhow::{Context, bail};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use tw_egress::client::EgressClient;
use tw_egress::client::host_port::{AllowedDestination, HostPort};
use tw_egress::otlp_sender::{COLLECTOR_ORGANIZATION, OtlpCollector};
use tw_runtime::telemetry::{TelemetryConfig, TraceSampler};
use tw_wire::otlp::TracedResource;
use url::Url;

use super::environment::Environment;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    endpoint: String,
    service_name: String,
    sampler: String,
    sampler_ratio: f64,
    contents: bool,
    to_upstreams: bool,
    to_tools: bool,
    queue_spans_max: usize,
    batch_spans_max: usize,
    batch_delay_ms: u64,
    timeout_ms: u64,
}

/// The path of traces behind a base URL.
const TRACES_PATH: &str = "v1/traces";

/// The collector as it is written, before anybody connects to it.
#[derive(Debug)]
pub struct WrittenTelemetry {
    /// The collector's place, which may be private.
    pub place: AllowedDestination,
    url: String,
    headers: Vec<(String, String)>,
    timeout: Duration,
    config: TelemetryParts,
}

#[derive(Debug)]
struct TelemetryParts {
    resource: TracedResource,
    sampler: TraceSampler,
    contents: bool,
    to_upstreams: bool,
    to_tools: bool,
    queue_spans_max: usize,
    batch_spans_max: usize,
    batch_delay: Duration,
}

impl TelemetrySettings {
    /// What is to be traced; `None` if nothing is.
    ///
    /// # Errors
    /// Names the setting or the variable that is wrong.
    pub fn read(&self, environment: &Environment) -> anyhow::Result<Option<WrittenTelemetry>> {
        let is_off = flag(environment, "OTEL_SDK_DISABLED")?.unwrap_or(false);
        let exporter = environment.get("OTEL_TRACES_EXPORTER")?;
        match exporter.as_deref() {
            Some("none") => return Ok(None),
            None | Some("otlp") => {}
            Some(_) => bail!("the variable OTEL_TRACES_EXPORTER may be otlp or none"),
        }
        let url = self.url(environment)?;
        let Some((named, url)) = url.filter(|_| !is_off) else {
            return Ok(None);
        };
        let place = place(&url).with_context(|| format!("{named} is no http or https URL"))?;
        let protocol = either(
            environment,
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        )?;
        if let Some((name, protocol)) = protocol
            && protocol != "http/protobuf"
        {
            bail!("the variable {name} may be http/protobuf");
        }
        let timeout = either(
            environment,
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        )?;
        let timeout_ms = match timeout {
            Some((name, text)) => whole(name, &text)?,
            None => self.timeout_ms,
        };
        Ok(Some(WrittenTelemetry {
            place: AllowedDestination {
                place,
                organizations: vec![COLLECTOR_ORGANIZATION.to_owned()],
            },
            url: url.into(),
            headers: headers(environment)?,
            timeout: Duration::from_millis(timeout_ms),
            config: self.parts(environment)?,
        }))
    }

    /// The URL of traces, and what it comes from.
    fn url(&self, environment: &Environment) -> anyhow::Result<Option<(&'static str, Url)>> {
        const WHOLE: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        const BASE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let parse = |name: &str, text: &str| {
            let url = Url::parse(text).ok();
            url.with_context(|| format!("{name} is no URL"))
        };
        if let Some(whole) = environment.get_sendable(WHOLE)? {
            return Ok(Some((WHOLE, parse(WHOLE, &whole)?)));
        }
        let (name, base) = match environment.get_sendable(BASE)? {
            Some(base) => (BASE, base),
            None if self.endpoint.is_empty() => return Ok(None),
            None => ("telemetry.endpoint", self.endpoint.clone()),
        };
        let slash = if base.ends_with('/') { "" } else { "/" };
        Ok(Some((
            name,
            parse(name, &format!("{base}{slash}{TRACES_PATH}"))?,
        )))
    }

    fn parts(&self, environment: &Environment) -> anyhow::Result<TelemetryParts> {
        let number = |name: &str, written: u64| match environment.get(name)? {
            Some(text) => whole(name, &text),
            None => Ok(written),
        };
        let count = |name: &str, written: usize| {
            let counted = number(name, written as u64)?;
            usize::try_from(counted).with_context(|| format!("the variable {name}"))
        };
        let contents = flag(
            environment,
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        )?;
        let queue_spans_max = count("OTEL_BSP_MAX_QUEUE_SIZE", self.queue_spans_max)?;
        let batch_spans_max = count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", self.batch_spans_max)?;
        if queue_spans_max == 0 || batch_spans_max == 0 {
            bail!("telemetry.queue_spans_max and telemetry.batch_spans_max are at least 1");
        }
        let batch_delay_ms = number("OTEL_BSP_SCHEDULE_DELAY", self.batch_delay_ms)?;
        Ok(TelemetryParts {
            resource: self.resource(environment)?,
            sampler: self.sampler(environment)?,
            contents: contents.unwrap_or(self.contents),
            to_upstreams: self.to_upstreams,
            to_tools: self.to_tools,
            queue_spans_max,
            batch_spans_max,
            batch_delay: Duration::from_millis(batch_delay_ms),
        })
    }

    fn sampler(&self, environment: &Environment) -> anyhow::Result<TraceSampler> {
        let written = environment.get("OTEL_TRACES_SAMPLER")?;
        let (named, name) = match &written {
            Some(name) => ("the variable OTEL_TRACES_SAMPLER", name),
            None => ("telemetry.sampler", &self.sampler),
        };
        let ratio = match environment.get("OTEL_TRACES_SAMPLER_ARG")? {
            Some(text) => text.trim().parse().ok(),
            None => Some(self.sampler_ratio),
        };
        let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
        let ratio = ratio.context("the ratio of the sampler is a number from 0 to 1")?;
        TraceSampler::parse(name, ratio)
            .with_context(|| format!("{named} may be always_on, always_off or traceidratio, with parentbased_ before it or without"))
    }

    fn resource(&self, environment: &Environment) -> anyhow::Result<TracedResource> {
        const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let mut attributes = pairs(environment, ATTRIBUTES)?;
        let service = environment.get("OTEL_SERVICE_NAME")?;
        // As the specification has it: the variable, then the attributes, then what is there without either.
        let given = attributes.iter().any(|(key, _)| key == SERVICE_NAME);
        if service.is_some() || !given {
            attributes.retain(|(key, _)| key != SERVICE_NAME);
            let name = service.unwrap_or_else(|| self.service_name.clone());
            attributes.insert(0, (SERVICE_NAME.to_owned(), name));
        }
        if !attributes.iter().any(|(key, _)| key == SERVICE_VERSION) {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            attributes.push((SERVICE_VERSION.to_owned(), version));
        }
        Ok(TracedResource(attributes))
    }
}

const SERVICE_NAME: &str = "service.name";
const SERVICE_VERSION: &str = "service.version";

impl WrittenTelemetry {
    pub fn config(self, client: EgressClient) -> TelemetryConfig {
        let parts = self.config;
        TelemetryConfig {
            collector: OtlpCollector {
                client,
                url: self.url,
                headers: self.headers,
                timeout: self.timeout,
            },
            resource: parts.resource,
            sampler: parts.sampler,
            contents: parts.contents,
            to_upstreams: parts.to_upstreams,
            to_tools: parts.to_tools,
            queue_spans_max: parts.queue_spans_max,
            batch_spans_max: parts.batch_spans_max,
            batch_delay: parts.batch_delay,
        }
    }
}

fn place(url: &Url) -> Option<HostPort> {
    let is_http = matches!(url.scheme(), "http" | "https");
    let host = url.host_str().filter(|_| is_http)?;
    let port = url.port_or_known_default()?;
    HostPort::parse(&format!("{host}:{port}")).ok()
}

/// The headers of the environment, which may hold a key, so that no error shows one.
fn headers(environment: &Environment) -> anyhow::Result<Vec<(String, String)>> {
    const ALL: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
    let of_traces = pairs(environment, OF_TRACES)?;
    let mut headers = pairs(environment, ALL)?;
    headers.retain(|(name, _)| {
        !of_traces
            .iter()
            .any(|(own, _)| own.eq_ignore_ascii_case(name))
    });
    headers.extend(of_traces);
    for (place, (name, value)) in headers.iter().enumerate() {
        let is_header =
            HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok();
        if !is_header {
            bail!("{ALL}: entry {} is no header", place + 1);
        }
    }
    Ok(headers)
}

/// `name=value,name=value`, with `%2C` and the like in the values.
fn pairs(environment: &Environment, name: &str) -> anyhow::Result<Vec<(String, String)>> {
    let text = environment.get(name)?.unwrap_or_default();
    let written = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    let read = written.enumerate().map(|(place, pair)| {
        let pair = pair.split_once('=').and_then(|(key, value)| {
            let value = percent_decoded(value.trim())?;
            Some((key.trim().to_owned(), value))
        });
        let pair = pair.filter(|(key, _)| !key.is_empty());
        pair.with_context(|| {
            format!(
                "the variable {name}: entry {} is not written KEY=VALUE",
                place + 1
            )
        })
    });
    read.collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    let decoded = percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .ok()?;
    Some(decoded.into_owned())
}

fn either(
    environment: &Environment,
    first: &'static str,
    second: &'static str,
) -> anyhow::Result<Option<(&'static str, String)>> {
    if let Some(value) = environment.get(first)? {
        return Ok(Some((first, value)));
    }
    Ok(environment.get(second)?.map(|value| (second, value)))
}

fn whole(name: &str, text: &str) -> anyhow::Result<u64> {
    let number = text.trim().parse().ok();
    number.with_context(|| format!("the variable {name} is a whole number"))
}

fn flag(environment: &Environment, name: &str) -> anyhow::Result<Option<bool>> {
    let Some(text) = environment.get(name)? else {
        return Ok(None);
    };
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(Some(true)),
        "false" | "0" => Ok(Some(false)),
        _ => bail!("the variable {name} may be true or false"),
    }
}

#[cfg(test)]
mod tests;
