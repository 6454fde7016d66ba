//! The log of a turn that is one answer.

use tw_core::event::{LogEvent, TurnEnd};
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::TurnId;
use tw_core::model::ModelEvent;
use tw_core::native::FormatName;
use tw_core::turn_status::TurnStatus;
use tw_wire::anthropic_messages::body;
use tw_wire::anthropic_messages::events::{EventWriter, RanCalls};
use tw_wire::anthropic_messages::stream::MessageDecoder;
use tw_wire::anthropic_messages::whole::MessageBuilder;
use tw_wire::upstream_answer::StreamLimits;

/// Decodes a stream given in pieces.
pub fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ModelEvent> {
    let mut decoder = MessageDecoder::new(&StreamLimits::defaults());
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
    body::decode(body, &mut events).expect("the body can be read");
    events
}

pub fn turn() -> TurnId {
    TurnId::parse("0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001").expect("a UUID")
}

pub fn start() -> LogEvent {
    LogEvent::Start {
        model: "m".to_owned(),
        created_s: 7,
    }
}

pub fn end(status: TurnStatus, fault: Option<TurnFault>) -> LogEvent {
    LogEvent::End(Box::new(TurnEnd {
        status,
        reason: None,
        fault,
        effects: Vec::new(),
        at: None,
    }))
}

/// The log of a turn of one round whose calls are all the client's.
pub fn log(events: &[ModelEvent], format: FormatName) -> Vec<LogEvent> {
    let mut log = vec![start(), LogEvent::Round { round: 1, format }];
    let mut last = Vec::new();
    let mut error = None;
    for event in events.iter().cloned() {
        match event {
            ModelEvent::Start { .. } | ModelEvent::Done => {}
            ModelEvent::Delta(delta) => log.push(LogEvent::Delta(delta)),
            ModelEvent::Call(piece) => log.push(LogEvent::ClientCall(piece)),
            ModelEvent::BlockEnd(end) => log.push(LogEvent::BlockEnd(end)),
            ModelEvent::Native { choice, part } => {
                log.push(LogEvent::Native { choice, part });
            }
            ModelEvent::Extra { key, value } => log.push(LogEvent::Extra { key, value }),
            ModelEvent::Progress { key, value } => log.push(LogEvent::Progress { key, value }),
            ModelEvent::Finish { choice, reason } => {
                last.push(LogEvent::Finish { choice, reason });
            }
            ModelEvent::Usage(usage) => last.push(LogEvent::Usage(usage)),
            ModelEvent::Error(reported) => error = Some(reported),
        }
    }
    match error {
        None => {
            log.extend(last);
            log.push(end(TurnStatus::Completed, None));
        }
        Some(error) => {
            let fault = TurnFault::new(FaultClass::UpstreamReported, error.message);
            log.push(end(TurnStatus::Failed, Some(fault)));
        }
    }
    log
}

pub fn stream_of(log: &[LogEvent], ran: RanCalls) -> Vec<u8> {
    let mut writer = EventWriter::new(turn(), ran);
    let mut out = Vec::new();
    for event in log {
        writer.push(event, &mut out);
    }
    out
}

pub fn body_of(log: &[LogEvent], ran: RanCalls) -> Vec<u8> {
    let mut builder = MessageBuilder::new(turn(), ran);
    for event in log {
        builder.push(event);
    }
    builder.into_body()
}
