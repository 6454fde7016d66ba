//! An answer as a whole, put together from its events.

use std::collections::BTreeMap;

use serde_json::Value;
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::TurnId;
use tw_core::json::{Json, LiteralBuf};
use tw_core::model::{AnswerDelta, CallDelta, CallForm, Finish, ModelEvent, ReportedError};
use tw_core::turn_status::TurnStatus;
use tw_wire::openai_chat::FORMAT;
use tw_wire::openai_chat::body;
use tw_wire::openai_chat::chunks::{ChunkOptions, ChunkWriter};
use tw_wire::openai_chat::outcome::ChatDialect;
use tw_wire::openai_chat::stream::StreamDecoder;
use tw_wire::upstream_answer::StreamLimits;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltAnswer {
    pub choices: BTreeMap<u32, BuiltChoice>,
    pub finishes: Vec<(u32, Finish)>,
    /// The upstream's object.
    pub usage: Option<Value>,
    pub errors: Vec<ReportedError>,
    pub extra: BTreeMap<String, Value>,
    pub is_done: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BuiltChoice {
    pub text: String,
    pub refusal: String,
    pub reasoning: String,
    pub details: Vec<Value>,
    pub logprobs: Vec<Value>,
    pub extra: Vec<(String, Value)>,
    pub calls: Vec<BuiltCall>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BuiltCall {
    pub id: Option<String>,
    pub name: Option<String>,
    pub arguments: String,
    pub form: CallForm,
}

#[derive(Default)]
struct Literals {
    text: LiteralBuf,
    refusal: LiteralBuf,
    reasoning: LiteralBuf,
    calls: Vec<LiteralBuf>,
}

/// Puts an answer together; halves of surrogate pairs meet before they are decoded.
pub fn whole(events: &[ModelEvent]) -> BuiltAnswer {
    let mut answer = BuiltAnswer::default();
    let mut literals: BTreeMap<u32, Literals> = BTreeMap::new();
    for event in events {
        match event {
            ModelEvent::Start { .. } => {}
            ModelEvent::Delta(delta) => {
                let written = literals.entry(delta.choice).or_default();
                answer
                    .choices
                    .entry(delta.choice)
                    .or_default()
                    .add_delta(delta, written);
            }
            ModelEvent::Call(piece) => {
                let written = literals.entry(piece.choice).or_default();
                answer
                    .choices
                    .entry(piece.choice)
                    .or_default()
                    .add_call(piece, written);
            }
            ModelEvent::Extra { key, value } | ModelEvent::Progress { key, value } => {
                answer.extra.insert(key.to_string(), value.to_value());
            }
            ModelEvent::BlockEnd(_) | ModelEvent::Native { .. } => {
                panic!("this format has none: {event:?}")
            }
            ModelEvent::Finish { choice, reason } => answer.finishes.push((*choice, *reason)),
            ModelEvent::Usage(usage) => {
                answer.usage = Some(usage.native.as_ref().unwrap().json.to_value())
            }
            ModelEvent::Error(error) => answer.errors.push((**error).clone()),
            ModelEvent::Done => answer.is_done = true,
        }
    }
    for (index, written) in literals {
        let choice = answer.choices.entry(index).or_default();
        choice.text = written.text.to_text();
        choice.refusal = written.refusal.to_text();
        choice.reasoning = written.reasoning.to_text();
        for (call, text) in choice.calls.iter_mut().zip(&written.calls) {
            call.arguments = text.to_text();
        }
    }
    answer
}

impl BuiltChoice {
    fn add_delta(&mut self, delta: &AnswerDelta, written: &mut Literals) {
        delta.text.iter().for_each(|text| written.text.push(text));
        if let Some(rest) = &delta.rest {
            rest.refusal
                .iter()
                .for_each(|text| written.refusal.push(text));
            rest.reasoning
                .iter()
                .for_each(|reasoning| written.reasoning.push(&reasoning.text));
            self.logprobs
                .extend(rest.logprobs.as_ref().map(Json::to_value));
            for (key, value) in &rest.extra {
                match &**key {
                    "reasoning_details" => self.details.push(value.to_value()),
                    _ => {
                        self.extra.push((key.to_string(), value.to_value()));
                    }
                }
            }
        }
    }

    fn add_call(&mut self, piece: &CallDelta, written: &mut Literals) {
        let at = piece.call as usize;
        if at == self.calls.len() {
            self.calls.push(BuiltCall {
                id: None,
                name: None,
                arguments: String::new(),
                form: piece.form,
            });
            written.calls.push(LiteralBuf::default());
        }
        let call = self
            .calls
            .get_mut(at)
            .expect("calls are numbered without gaps");
        assert!(
            piece.id.is_none() || call.id.is_none(),
            "an id is given once"
        );
        assert!(
            piece.name.is_none() || call.name.is_none(),
            "a name is given once"
        );
        call.id = call.id.take().or(piece.id.as_deref().map(str::to_owned));
        call.name = call
            .name
            .take()
            .or(piece.name.as_deref().map(str::to_owned));
        piece
            .arguments
            .iter()
            .for_each(|text| written.calls[at].push(text));
    }
}

/// Decodes a stream given in pieces.
pub fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ModelEvent> {
    let mut decoder = StreamDecoder::new(&StreamLimits::defaults());
    let mut events = Vec::new();
    for piece in pieces {
        decoder
            .feed(piece, &mut events)
            .expect("the stream can be read");
    }
    decoder.finish(&mut events).expect("the stream can be read");
    events
}

pub fn body_events(body: &[u8]) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    body::decode(body, Default::default(), &mut events).expect("the body can be read");
    events
}

pub fn turn() -> TurnId {
    TurnId::parse("0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001").expect("a UUID")
}

/// The log of a turn of one round whose calls are all the client's.
pub fn log(events: &[ModelEvent]) -> Vec<LogEvent> {
    let mut log = vec![
        LogEvent::Start {
            model: "m".to_owned(),
            created_s: 7,
        },
        LogEvent::Round {
            round: 1,
            format: FORMAT,
        },
    ];
    let mut finishes = Vec::new();
    let mut usage = None;
    let mut error = None;
    for event in events {
        match event {
            ModelEvent::Start { .. } | ModelEvent::Done => {}
            ModelEvent::Delta(delta) => log.push(LogEvent::Delta(delta.clone())),
            ModelEvent::Call(piece) => log.push(LogEvent::ClientCall(piece.clone())),
            ModelEvent::Extra { key, value } => {
                log.push(LogEvent::Extra {
                    key: key.clone(),
                    value: value.clone(),
                });
            }
            ModelEvent::Progress { key, value } => {
                log.push(LogEvent::Progress {
                    key: key.clone(),
                    value: value.clone(),
                });
            }
            ModelEvent::BlockEnd(_) | ModelEvent::Native { .. } => {
                panic!("this format has none: {event:?}")
            }
            ModelEvent::Finish { choice, reason } => {
                finishes.push(LogEvent::Finish {
                    choice: *choice,
                    reason: *reason,
                });
            }
            ModelEvent::Usage(newer) => usage = Some(LogEvent::Usage(newer.clone())),
            ModelEvent::Error(reported) => error = Some(reported.clone()),
        }
    }
    let (status, fault) = match error {
        None => (TurnStatus::Completed, None),
        Some(error) => (
            TurnStatus::Failed,
            Some(TurnFault::new(FaultClass::UpstreamReported, error.message)),
        ),
    };
    if fault.is_none() {
        log.extend(finishes);
    }
    log.extend(usage);
    log.push(LogEvent::End(Box::new(TurnEnd {
        status,
        reason: None,
        fault,
        effects: Vec::new(),
        at: None,
    })));
    log
}

pub fn write_stream(log: &[LogEvent], dialect: ChatDialect) -> Vec<u8> {
    let mut writer = ChunkWriter::new(
        turn(),
        ChunkOptions {
            include_usage: true,
            dialect,
        },
    );
    let mut out = Vec::new();
    for event in log {
        writer.push(event, &mut out);
    }
    out
}
