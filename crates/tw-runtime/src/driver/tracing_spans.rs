//! The spans of a turn, by what its driver writes: they follow the GenAI conventions of OpenTelemetry, whose attributes
//! have names of their own, and are given away once what they tell of is on disk.
//!
//! The turn is `invoke_agent`; under it are its rounds, `chat`, and its calls, `execute_tool`; under each of these its
//! attempts. A driver that took a turn over does not know when what it found open began, and says so.

mod contents;

use std::collections::BTreeMap;

use http::Uri;
use tw_core::call::{CallEnd, CallRunner};
use tw_core::change::{AttemptOutcome, CloseAttempt, EndTurn, NewCall, NewMessage, TurnChange};
use tw_core::id::CallRef;
use tw_core::model::{Finish, ModelEvent, TokenUsage};
use tw_core::request::Role;
use tw_core::time::Timestamp;
use tw_core::tool::{Tool, ToolKind};
use tw_core::turn::Turn;
use tw_core::turn_policy::RecordPolicy;
use tw_core::turn_status::TurnStatus;
use tw_egress::upstream::{Upstream, UpstreamKind};
use tw_wire::format::WireFormat;
use tw_wire::otlp::{AttributeValue, TracedKind, TracedSpan};
use tw_wire::trace_context::TraceContext;

use super::calls::is_name;
use super::{TurnDriver, TurnWork};
use crate::telemetry::{SpanOf, TracedTurn};

/// Longest name of a model in a span, in characters: it is the client's to choose.
const MODEL_CHARS_MAX: usize = 256;

type Attributes = Vec<(&'static str, AttributeValue)>;

/// What is known of a turn's spans that have not ended.
pub(super) struct TurnTracing {
    turn: TracedTurn,
    round: Option<OpenRound>,
    calls: BTreeMap<CallRef, OpenCall>,
    /// The attempts of calls that run.
    attempts: BTreeMap<CallRef, Timestamp>,
}

struct OpenRound {
    round: u32,
    began: Option<Timestamp>,
    ended: Timestamp,
    /// The upstream that was asked last, by its name.
    upstream: Option<String>,
    /// The attempt that runs.
    attempt: Option<(u32, Timestamp)>,
    heard: HeardAnswer,
    usage: Option<TokenUsage>,
    error: Option<String>,
    is_answered: bool,
    output: Option<String>,
}

/// What an upstream said of its answer.
#[derive(Default)]
struct HeardAnswer {
    model: Option<String>,
    finishes: Vec<(u32, Finish)>,
    first_at: Option<Timestamp>,
}

struct OpenCall {
    name: String,
    tool_call_id: String,
    began: Timestamp,
    arguments: Option<String>,
}

impl TurnTracing {
    /// `None` for a turn of which nothing is recorded.
    pub(super) fn of(traced: Option<&TracedTurn>, turn: &Turn) -> Option<Box<Self>> {
        let mut traced = traced.filter(|traced| traced.is_sampled)?.clone();
        // What is not to be kept here is not kept elsewhere.
        traced.contents &= turn.setup().record == RecordPolicy::Full;
        Some(Box::new(Self {
            turn: traced,
            round: None,
            calls: BTreeMap::new(),
            attempts: BTreeMap::new(),
        }))
    }

    /// Notes what an upstream says of its answer.
    pub(super) fn hear(&mut self, events: &[ModelEvent], at: Timestamp) {
        let Some(round) = &mut self.round else {
            return;
        };
        let heard = &mut round.heard;
        for event in events {
            match event {
                ModelEvent::Start { model, .. } => heard.model.clone_from(model),
                ModelEvent::Finish { choice, reason } => heard.finishes.push((*choice, *reason)),
                ModelEvent::Delta(_)
                | ModelEvent::Call(_)
                | ModelEvent::Native { .. }
                | ModelEvent::BlockEnd(_) => heard.first_at = heard.first_at.or(Some(at)),
                ModelEvent::Extra { .. }
                | ModelEvent::Progress { .. }
                | ModelEvent::Usage(_)
                | ModelEvent::Error(_)
                | ModelEvent::Done => {}
            }
        }
    }

    /// The spans that end with these changes.
    pub(super) fn note(
        &mut self,
        turn: &Turn,
        work: &TurnWork,
        changes: &[TurnChange],
    ) -> Vec<TracedSpan> {
        let mut spans = Vec::new();
        let mut end = None;
        for change in changes {
            match change {
                TurnChange::OpenAttempt(open) => match open.position {
                    Some(position) => {
                        let call = CallRef {
                            round: open.round,
                            position,
                        };
                        self.attempts.insert(call, open.at);
                    }
                    None => {
                        let round = self.round_of(open.round, open.at);
                        round.began = round.began.or(Some(open.at));
                        round.upstream.clone_from(&open.upstream);
                        round.attempt = Some((open.n, open.at));
                        round.heard = HeardAnswer::default();
                    }
                },
                TurnChange::CloseAttempt(close) => spans.push(self.attempt_ended(work, close)),
                TurnChange::AddMessage(message) => self.answered(turn, message),
                TurnChange::AddCall(added) => spans.extend(self.call_added(turn, added)),
                TurnChange::StartCall { call, at } => {
                    if let Some(open) = self.calls.get_mut(call) {
                        open.began = *at;
                    }
                }
                TurnChange::EndCall { call, end, at } => {
                    spans.push(self.call_ended(turn, *call, end, *at));
                }
                TurnChange::DetachCall { call, told, at } => {
                    spans.push(self.call_detached(turn, *call, told, *at));
                }
                TurnChange::EndTurn(ended) => end = Some(ended),
                TurnChange::Charge(_)
                | TurnChange::CountTokens { .. }
                | TurnChange::AwaitCallback(_)
                | TurnChange::HandOverCall(_)
                | TurnChange::EndOutsideCall { .. }
                | TurnChange::TakeQueuedRow(_)
                | TurnChange::AskApproval { .. }
                | TurnChange::AppendEvents(_)
                | TurnChange::NoteStop { .. }
                | TurnChange::NoteResumed { .. } => {}
            }
        }
        let is_over = |round: &OpenRound| round.is_answered && round.attempt.is_none();
        if end.is_some() || self.round.as_ref().is_some_and(is_over) {
            let round = self.round.take();
            spans.extend(round.map(|round| self.round_ended(turn, work, round)));
        }
        spans.extend(end.map(|end| self.turn_ended(turn, work, end)));
        spans
    }

    fn round_of(&mut self, round: u32, at: Timestamp) -> &mut OpenRound {
        let open = self.round.take().filter(|open| open.round == round);
        self.round.insert(open.unwrap_or_else(|| OpenRound {
            round,
            began: None,
            ended: at,
            upstream: None,
            attempt: None,
            heard: HeardAnswer::default(),
            usage: None,
            error: None,
            is_answered: false,
            output: None,
        }))
    }

    fn attempt_ended(&mut self, work: &TurnWork, close: &CloseAttempt) -> TracedSpan {
        let error = match &close.outcome {
            AttemptOutcome::Ok => None,
            AttemptOutcome::Failed(_) | AttemptOutcome::Cancelled | AttemptOutcome::Interrupted => {
                Some(close.outcome.as_str().to_owned())
            }
        };
        let mut attributes: Attributes = vec![("turnwright.attempt", close.n.into())];
        let (of, parent, began) = match close.position {
            Some(position) => {
                let call = CallRef {
                    round: close.round,
                    position,
                };
                let of = SpanOf::CallAttempt { call, n: close.n };
                (of, SpanOf::Call(call), self.attempts.remove(&call))
            }
            None => {
                let (round, n) = (close.round, close.n);
                let open = self.round_of(round, close.at);
                let attempt = open.attempt.take().filter(|(open, _)| *open == n);
                open.ended = close.at;
                open.error.clone_from(&error);
                open.usage.clone_from(&close.usage);
                let upstream = open.upstream.as_deref();
                add_upstream(&mut attributes, upstream_of(work, upstream));
                let of = SpanOf::ModelAttempt { round, n };
                (of, SpanOf::Round(round), attempt.map(|(_, began)| began))
            }
        };
        if let Some(status) = close.http_status {
            let status = u32::from(status);
            attributes.push(("http.response.status_code", status.into()));
        }
        let name = "attempt".to_owned();
        let mut span = self.span((of, Some(parent)), name, (began, close.at), attributes);
        span.kind = TracedKind::Client;
        with_error(span, error)
    }

    fn answered(&mut self, turn: &Turn, message: &NewMessage) {
        if message.role != Role::Assistant || message.round == 0 {
            return;
        }
        let contents = self.turn.contents;
        let round = self.round_of(message.round, message.at);
        round.is_answered = true;
        round.ended = round.ended.max(message.at);
        round.output = contents.then(|| contents::answer(turn, &message.blocks));
    }

    fn round_ended(&self, turn: &Turn, work: &TurnWork, round: OpenRound) -> TracedSpan {
        let upstream = upstream_of(work, round.upstream.as_deref());
        let mut origins = turn.setup().upstreams.iter();
        let asked = round.upstream.as_deref();
        let origin = origins.find(|origin| Some(&*origin.upstream) == asked);
        let model = origin.map_or(&*turn.setup().model, |origin| &origin.model);
        let model = cut(model);
        let mut attributes: Attributes = vec![
            ("gen_ai.operation.name", "chat".into()),
            ("gen_ai.request.model", model.clone().into()),
            (
                "gen_ai.conversation.id",
                self.turn.conversation.clone().into(),
            ),
            ("turnwright.round", round.round.into()),
        ];
        if let Some(upstream) = upstream {
            attributes.push(("gen_ai.provider.name", provider(upstream).into()));
        }
        add_upstream(&mut attributes, upstream);
        let heard = round.heard;
        if let Some(model) = &heard.model {
            attributes.push(("gen_ai.response.model", cut(model).into()));
        }
        if !heard.finishes.is_empty() {
            let reasons = heard
                .finishes
                .iter()
                .map(|(_, reason)| finish_word(*reason));
            let reasons = AttributeValue::Texts(reasons.map(str::to_owned).collect());
            attributes.push(("gen_ai.response.finish_reasons", reasons));
        }
        if turn.setup().streamed {
            attributes.push(("gen_ai.request.stream", true.into()));
            if let (Some(began), Some(first)) = (round.began, heard.first_at) {
                let after = AttributeValue::Float(first.since(began).as_secs_f64());
                attributes.push(("gen_ai.response.time_to_first_chunk", after));
            }
        }
        add_usage(&mut attributes, round.usage.as_ref());
        if let Some(output) = round.output {
            attributes.push(("gen_ai.output.messages", output.into()));
        }
        let of = (SpanOf::Round(round.round), Some(SpanOf::Turn));
        let name = format!("chat {model}");
        let mut span = self.span(of, name, (round.began, round.ended), attributes);
        span.kind = TracedKind::Client;
        let error = round.error.filter(|_| !round.is_answered);
        with_error(span, error)
    }

    /// The span of a call that ends as it is added; a call that a client runs has none.
    fn call_added(&mut self, turn: &Turn, added: &NewCall) -> Option<TracedSpan> {
        if added.runs != CallRunner::Server {
            return None;
        }
        let open = OpenCall {
            name: added.tool_name.clone(),
            tool_call_id: added.tool_call_id.clone(),
            began: added.at,
            arguments: self.turn.contents.then(|| added.arguments.clone()),
        };
        self.calls.insert(added.call, open);
        let end = added.end.as_ref()?;
        Some(self.call_ended(turn, added.call, end, added.at))
    }

    /// The span of a call that has ended, by whomever.
    pub(super) fn call_ended(
        &mut self,
        turn: &Turn,
        call: CallRef,
        end: &CallEnd,
        at: Timestamp,
    ) -> TracedSpan {
        let mut span = self.call_span(turn, call, &end.shown, at);
        if end.cached {
            span.attributes.push(("turnwright.cached", true.into()));
        }
        with_error(span, end.reason.map(|reason| reason.as_str().to_owned()))
    }

    /// The span of a call without whose end the turn goes on; it says what the model was told.
    fn call_detached(
        &mut self,
        turn: &Turn,
        call: CallRef,
        told: &str,
        at: Timestamp,
    ) -> TracedSpan {
        let mut span = self.call_span(turn, call, told, at);
        span.attributes.push(("turnwright.detached", true.into()));
        span
    }

    fn call_span(&mut self, turn: &Turn, call: CallRef, shown: &str, at: Timestamp) -> TracedSpan {
        let open = self.calls.remove(&call);
        let tool = turn.tool_of(call);
        let told = open.as_ref().map(|open| open.name.as_str());
        let name = match (tool, told) {
            (Some(tool), _) => tool.name.as_str(),
            // It comes from the model.
            (None, Some(name)) if is_name(name) => name,
            (None, _) => "(not a name)",
        };
        let mut attributes: Attributes = vec![
            ("gen_ai.operation.name", "execute_tool".into()),
            ("gen_ai.tool.name", name.into()),
            ("gen_ai.tool.type", "function".into()),
            ("turnwright.round", call.round.into()),
            ("turnwright.position", call.position.into()),
        ];
        if let Some(open) = &open {
            attributes.push(("gen_ai.tool.call.id", open.tool_call_id.clone().into()));
        }
        let began = open.as_ref().map(|open| open.began);
        if let Some(arguments) = open.as_ref().and_then(|open| open.arguments.as_ref()) {
            let masked = contents::masked(tool.map(AsRef::as_ref), arguments, shown);
            attributes.push(("gen_ai.tool.call.arguments", masked.arguments.into()));
            attributes.push(("gen_ai.tool.call.result", masked.shown.into()));
        }
        let of = (SpanOf::Call(call), Some(SpanOf::Turn));
        let name = format!("execute_tool {name}");
        self.span(of, name, (began, at), attributes)
    }

    fn turn_ended(&self, turn: &Turn, work: &TurnWork, end: &EndTurn) -> TracedSpan {
        let setup = turn.setup();
        let mut attributes: Attributes = vec![
            ("gen_ai.operation.name", "invoke_agent".into()),
            ("gen_ai.provider.name", "turnwright".into()),
            ("gen_ai.request.model", cut(&setup.model).into()),
            (
                "gen_ai.conversation.id",
                self.turn.conversation.clone().into(),
            ),
            ("turnwright.turn.id", setup.id.to_string().into()),
            (
                "turnwright.organization",
                (&*work.logged.organization).into(),
            ),
            ("turnwright.key", (&*work.logged.key).into()),
            ("turnwright.status", end.status.as_str().into()),
            ("turnwright.calls", end.tool_count.into()),
        ];
        if let Some(reason) = end.reason {
            attributes.push(("turnwright.reason", reason.as_str().into()));
        }
        add_usage(&mut attributes, end.usage.as_ref());
        if self.turn.contents {
            let input = contents::history(turn, &work.input.messages);
            attributes.push(("gen_ai.input.messages", input.into()));
        }
        let name = "invoke_agent".to_owned();
        let when = (Some(setup.created), end.at);
        let mut span = self.span((SpanOf::Turn, None), name, when, attributes);
        span.kind = TracedKind::Server;
        span.parent = self.turn.parent.map(|parent| parent.span);
        span.parent_is_remote = true;
        let failed = (end.status == TurnStatus::Failed).then(|| {
            end.reason
                .map_or("failed", |reason| reason.as_str())
                .to_owned()
        });
        with_error(span, failed)
    }

    fn span(
        &self,
        (of, parent): (SpanOf, Option<SpanOf>),
        name: String,
        (began, ended): (Option<Timestamp>, Timestamp),
        mut attributes: Attributes,
    ) -> TracedSpan {
        if began.is_none() {
            attributes.push(("turnwright.taken_over", true.into()));
        }
        TracedSpan {
            trace: self.turn.trace,
            id: self.turn.span(of),
            parent: parent.map(|parent| self.turn.span(parent)),
            parent_is_remote: false,
            state: self.turn.state.clone(),
            name,
            kind: TracedKind::Internal,
            began: began.unwrap_or(ended),
            ended,
            attributes,
            error: None,
        }
    }
}

impl TurnDriver {
    /// The trace as the upstream of a model request is told it.
    pub(super) fn trace_of_request(&self, round: u32, n: u32) -> Option<TraceContext> {
        let traced = self.work.trace.as_ref()?;
        traced.for_upstream(SpanOf::ModelAttempt { round, n })
    }

    /// The trace as the tool of a call is told it.
    pub(super) fn trace_of_call(&self, call: CallRef, n: u32) -> Option<TraceContext> {
        let traced = self.work.trace.as_ref()?;
        traced.for_tool(SpanOf::CallAttempt { call, n })
    }
}

fn with_error(mut span: TracedSpan, error: Option<String>) -> TracedSpan {
    if let Some(error) = &error {
        span.attributes.push(("error.type", error.clone().into()));
    }
    span.error = error;
    span
}

fn upstream_of<'a>(work: &'a TurnWork, name: Option<&str>) -> Option<&'a Upstream> {
    let mut known = work.upstreams.iter();
    let found = known.find(|known| Some(known.name.as_str()) == name);
    found.map(AsRef::as_ref)
}

fn add_upstream(attributes: &mut Attributes, upstream: Option<&Upstream>) {
    let Some(upstream) = upstream else {
        return;
    };
    attributes.push(("turnwright.upstream", upstream.name.as_str().into()));
    let url = upstream.shown_url().and_then(|url| url.parse::<Uri>().ok());
    let Some((host, url)) = url.as_ref().and_then(|url| Some((url.host()?, url))) else {
        return;
    };
    let is_plain = url.scheme_str() == Some("http");
    let port = url.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    attributes.push(("server.address", host.into()));
    attributes.push(("server.port", u32::from(port).into()));
}

/// The provider by whose conventions the upstream is asked.
fn provider(upstream: &Upstream) -> &'static str {
    match (&upstream.kind, upstream.format) {
        (UpstreamKind::Azure { .. }, _) => "azure.ai.openai",
        (_, WireFormat::AnthropicMessages) => "anthropic",
        (_, WireFormat::OpenAiChat | WireFormat::OpenAiResponses) => "openai",
    }
}

fn add_usage(attributes: &mut Attributes, usage: Option<&TokenUsage>) {
    let Some(usage) = usage else {
        return;
    };
    attributes.push(("gen_ai.usage.input_tokens", usage.prompt_tokens.into()));
    attributes.push(("gen_ai.usage.output_tokens", usage.completion_tokens.into()));
    for (name, tokens) in [
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens),
        (
            "gen_ai.usage.cache_creation.input_tokens",
            usage.cache_write_tokens,
        ),
        (
            "gen_ai.usage.reasoning.output_tokens",
            usage.reasoning_tokens,
        ),
    ] {
        attributes.extend(tokens.map(|tokens| (name, tokens.into())));
    }
}

fn finish_word(reason: Finish) -> &'static str {
    match reason {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
        Finish::StopSequence => "stop_sequence",
        Finish::Refusal => "refusal",
        Finish::Pause => "pause",
    }
}

fn cut(model: &str) -> String {
    model.chars().take(MODEL_CHARS_MAX).collect()
}

/// The definition of a tool, if an organization made it.
fn definition_of(tool: &Tool) -> Option<&tw_core::definition::ToolDefinition> {
    match &tool.kind {
        ToolKind::ApiRequest(definition) => Some(definition),
        ToolKind::TimeNow | ToolKind::Calculate | ToolKind::Probe(_) => None,
    }
}
