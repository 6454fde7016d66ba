//! Spans as OTLP writes them: the body of `POST /v1/traces`, in protobuf.
//!
//! Follows the OpenTelemetry Protocol 1.x, whose messages are those of `opentelemetry-proto`.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, span, status,
};
use prost::Message;
use std::sync::Arc;
use tw_core::time::Timestamp;

use crate::trace_context::{SpanId, TraceId};

/// The name of this program among those that make spans.
const SCOPE: &str = "turnwright";
/// Bit of a span's flags that says that the bit behind it is known.
const HAS_IS_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;
const SAMPLED: u32 = 1;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedSpan {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    /// The parent is a span of the client's.
    pub parent_is_remote: bool,
    pub state: Option<Arc<str>>,
    pub name: String,
    pub kind: TracedKind,
    pub began: Timestamp,
    pub ended: Timestamp,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// Why it failed, in a word.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedKind {
    Internal,
    Server,
    Client,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    Text(String),
    Int(i64),
    Float(f64),
    Flag(bool),
    Texts(Vec<String>),
}

/// Whose spans these are: the attributes of the resource, such as `service.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedResource(pub Vec<(String, String)>);

/// The body that brings these spans to a collector.
pub fn encode_spans(resource: &TracedResource, spans: Vec<TracedSpan>) -> Vec<u8> {
    let attributes = resource.0.iter();
    let attributes =
        attributes.map(|(key, value)| attribute(key, Value::StringValue(value.clone())));
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: attributes.collect(),
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans: spans.into_iter().map(written).collect(),
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    };
    request.encode_to_vec()
}

/// How many of the spans a collector did not take, by the body of its answer.
pub fn spans_rejected(body: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |part| part.rejected_spans);
    u64::try_from(rejected).unwrap_or(0)
}

fn written(traced: TracedSpan) -> Span {
    let flags = match (traced.parent, traced.parent_is_remote) {
        (None, _) | (Some(_), false) => SAMPLED | HAS_IS_REMOTE,
        (Some(_), true) => SAMPLED | HAS_IS_REMOTE | IS_REMOTE,
    };
    let kind = match traced.kind {
        TracedKind::Internal => span::SpanKind::Internal,
        TracedKind::Server => span::SpanKind::Server,
        TracedKind::Client => span::SpanKind::Client,
    };
    let attributes = traced.attributes.into_iter();
    Span {
        trace_id: traced.trace.0.to_vec(),
        span_id: traced.id.0.to_vec(),
        trace_state: traced.state.as_deref().unwrap_or_default().to_owned(),
        parent_span_id: traced
            .parent
            .map_or_else(Vec::new, |parent| parent.0.to_vec()),
        flags,
        name: traced.name,
        kind: kind.into(),
        start_time_unix_nano: nanos(traced.began),
        end_time_unix_nano: nanos(traced.ended.max(traced.began)),
        attributes: attributes
            .map(|(key, value)| attribute(key, value_of(value)))
            .collect(),
        status: traced.error.map(|message| Status {
            message,
            code: status::StatusCode::Error.into(),
        }),
        ..Span::default()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn value_of(value: AttributeValue) -> Value {
    match value {
        AttributeValue::Text(text) => Value::StringValue(text),
        AttributeValue::Int(number) => Value::IntValue(number),
        AttributeValue::Float(number) => Value::DoubleValue(number),
        AttributeValue::Flag(flag) => Value::BoolValue(flag),
        AttributeValue::Texts(texts) => {
            let texts = texts.into_iter().map(|text| AnyValue {
                value: Some(Value::StringValue(text)),
            });
            Value::ArrayValue(ArrayValue {
                values: texts.collect(),
            })
        }
    }
}

fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000)
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}
