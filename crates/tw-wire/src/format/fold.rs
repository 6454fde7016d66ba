//! From a turn's log to the bytes that its client gets.

use tw_core::event::LogEvent;
use tw_core::fault::TurnFault;
use tw_core::id::TurnId;
use tw_core::json::Json;

use super::Projection;
use crate::anthropic_messages::events::EventWriter;
use crate::anthropic_messages::whole::MessageBuilder;
use crate::client_error::ClientError;
use crate::openai_chat;
use crate::openai_chat::chunks::ChunkWriter;
use crate::openai_chat::completion::CompletionBuilder;
use crate::openai_responses::fold::ResponseFold;
use crate::sse;

/// The fold of a turn's log, from its start, into whole server-sent events.
#[derive(Clone, Debug)]
pub enum StreamFold {
    OpenAiChat(Box<ChunkWriter>),
    AnthropicMessages(Box<EventWriter>),
    OpenAiResponses(Box<ResponseFold>),
}

impl StreamFold {
    pub fn new(turn: TurnId, projection: Projection) -> Self {
        Self::behind(turn, projection, None)
    }

    /// A fold that leaves out the events up to number `after`, in a format that numbers its events.
    pub fn behind(turn: TurnId, projection: Projection, after: Option<u64>) -> Self {
        match projection {
            Projection::OpenAiChat(options) => {
                Self::OpenAiChat(Box::new(ChunkWriter::new(turn, options)))
            }
            Projection::AnthropicMessages(ran) => {
                Self::AnthropicMessages(Box::new(EventWriter::new(turn, ran)))
            }
            Projection::OpenAiResponses(of) => {
                let fold = ResponseFold::stream(of.facts(turn), of.options, after);
                Self::OpenAiResponses(Box::new(fold))
            }
        }
    }

    /// Whether a client sees something of the event that is more than the stream's own beginning. What comes before it
    /// may still be told by an HTTP status.
    pub fn is_seen(&self, event: &LogEvent) -> bool {
        match self {
            Self::OpenAiChat(_) => ChunkWriter::is_seen(event),
            Self::AnthropicMessages(writer) => writer.is_seen(event),
            Self::OpenAiResponses(fold) => fold.is_seen(event),
        }
    }

    /// Adds the events that a client is told before anything of the log, if there are such.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => {}
            Self::OpenAiResponses(fold) => fold.accept(out),
        }
    }

    /// Whether the event was made behind which the fold begins to write.
    pub fn has_reached(&self) -> bool {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => true,
            Self::OpenAiResponses(fold) => fold.has_reached(),
        }
    }

    /// Adds the server-sent events that `event` gives to `out`, each of them whole.
    pub fn push(&mut self, event: &LogEvent, out: &mut Vec<u8>) {
        match self {
            Self::OpenAiChat(writer) => writer.push(event, out),
            Self::AnthropicMessages(writer) => writer.push(event, out),
            Self::OpenAiResponses(fold) => fold.push(event, out),
        }
    }

    /// Ends a stream whose turn's end does not come.
    pub fn break_off(&mut self, fault: &TurnFault, out: &mut Vec<u8>) {
        match self {
            Self::OpenAiChat(_) => {
                let error = openai_chat::error::render(&ClientError::of_fault(fault), None);
                sse::write_data(out, &error);
            }
            Self::AnthropicMessages(_) => EventWriter::fail(fault, out),
            Self::OpenAiResponses(fold) => fold.break_off(fault, out),
        }
    }
}

/// The fold of a turn's log into the body of a plain answer.
#[derive(Clone, Debug)]
pub enum WholeFold {
    OpenAiChat(Box<CompletionBuilder>),
    AnthropicMessages(Box<MessageBuilder>),
    OpenAiResponses(Box<ResponseFold>),
}

impl WholeFold {
    pub fn new(turn: TurnId, projection: Projection) -> Self {
        match projection {
            Projection::OpenAiChat(options) => {
                Self::OpenAiChat(Box::new(CompletionBuilder::new(turn, options.dialect)))
            }
            Projection::AnthropicMessages(ran) => {
                Self::AnthropicMessages(Box::new(MessageBuilder::new(turn, ran)))
            }
            Projection::OpenAiResponses(of) => {
                let fold = ResponseFold::whole(of.facts(turn), of.options);
                Self::OpenAiResponses(Box::new(fold))
            }
        }
    }

    pub fn push(&mut self, event: &LogEvent) {
        match self {
            Self::OpenAiChat(builder) => builder.push(event),
            Self::AnthropicMessages(builder) => builder.push(event),
            Self::OpenAiResponses(fold) => fold.push(event, &mut Vec::new()),
        }
    }

    /// The items of the answer as they are now, by their ids; none where a format has no items.
    pub fn items(&self) -> Vec<(String, Json)> {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => Vec::new(),
            Self::OpenAiResponses(fold) => fold.items(),
        }
    }

    /// The body; whether the turn ended with one or with a fault is the caller's to know.
    pub fn into_body(self) -> Vec<u8> {
        match self {
            Self::OpenAiChat(builder) => builder.into_body(),
            Self::AnthropicMessages(builder) => builder.into_body(),
            Self::OpenAiResponses(fold) => fold.body(),
        }
    }
}
