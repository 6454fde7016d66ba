//! The formats of models: what a surface that speaks one needs, and an upstream that does.
//!
//! The other crates know formats by these types alone. Each function here says for every format which of its own
//! functions does the work, so a new format is a module, a variant, and what the compiler then asks for.

mod fold;
mod projection;

pub use fold::{StreamFold, WholeFold};
pub use projection::{Projection, ResponsesProjection};

use tw_core::accepts::Accepts;
use tw_core::history::FeltDifferences;
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::model::{ModelEvent, ReportedError};
use tw_core::native::FormatName;
use tw_core::rate::BucketStanding;
use tw_core::request::{ModelInput, ModelRequest};

use crate::anthropic_messages::stream::MessageDecoder;
use crate::client_error::ClientError;
use crate::client_request::RequestError;
use crate::openai_chat::stream::StreamDecoder;
use crate::openai_responses::stream::ResponseDecoder;
use crate::upstream_answer::{DecodeError, OfferedNames, StreamLimits};
use crate::{anthropic_messages, openai_chat, openai_responses};

/// A client's request, and how its answer is written.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub input: ModelInput,
    pub projection: Projection,
}

/// A format in which models are asked and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// OpenAI's Chat Completions.
    OpenAiChat,
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Responses.
    OpenAiResponses,
}

impl WireFormat {
    pub const ALL: [Self; 3] = [
        Self::OpenAiChat,
        Self::AnthropicMessages,
        Self::OpenAiResponses,
    ];

    /// The name of it in what is stored and configured.
    pub fn name(self) -> &'static str {
        self.format_name().as_str()
    }

    /// The name as the centre knows it.
    pub fn format_name(self) -> FormatName {
        match self {
            Self::OpenAiChat => openai_chat::FORMAT,
            Self::AnthropicMessages => anthropic_messages::FORMAT,
            Self::OpenAiResponses => openai_responses::FORMAT,
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The word by which a reader asks for a turn's log in this format.
    pub fn reader_word(self) -> &'static str {
        match self {
            Self::OpenAiChat => "chat",
            Self::AnthropicMessages => "messages",
            Self::OpenAiResponses => "responses",
        }
    }

    pub fn of_reader_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.reader_word() == word)
    }

    /// What answers in this format are called in messages to people.
    pub fn answers_shown(self) -> &'static str {
        match self {
            Self::OpenAiChat => "chat completions",
            Self::AnthropicMessages => "messages",
            Self::OpenAiResponses => "responses",
        }
    }

    /// Reads and checks a client's request. What is read holds parts of the body, so that it is there once.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn decode_request(
        self,
        body: &SharedText,
        limits: &RequestLimits,
    ) -> Result<ClientRequest, RequestError> {
        let (input, projection) = match self {
            Self::OpenAiChat => {
                let input = openai_chat::request::decode_shared(body, limits)?;
                let options = openai_chat::chunks::ChunkOptions::of(&input);
                (input, Projection::OpenAiChat(options))
            }
            Self::AnthropicMessages => {
                let input = anthropic_messages::request::decode(body, limits)?;
                (input, Projection::defaults(self))
            }
            Self::OpenAiResponses => {
                let read = openai_responses::request::decode(body, limits)?;
                let projection = ResponsesProjection::of(&read)?;
                (
                    read.input,
                    Projection::OpenAiResponses(Box::new(projection)),
                )
            }
        };
        Ok(ClientRequest { input, projection })
    }

    /// The field in which a request names the person that it is for, as errors call it.
    pub fn user_field(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "user",
            Self::AnthropicMessages => "metadata.user_id",
        }
    }

    /// The JSON of an error that is told with its status.
    pub fn render_error(self, error: &ClientError, request_id: Option<&str>) -> Vec<u8> {
        match self {
            Self::OpenAiChat => openai_chat::error::render(error, request_id),
            Self::AnthropicMessages => anthropic_messages::error::render(error, request_id),
            Self::OpenAiResponses => openai_responses::error::render(error, request_id),
        }
    }

    /// The HTTP status of an error.
    pub fn error_status(self, error: &ClientError) -> u16 {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages | Self::OpenAiResponses => {
                error.kind.status()
            }
        }
    }

    /// Names and values of the headers that tell how a limit of requests stands.
    pub fn limit_headers(self, standing: &BucketStanding) -> [(&'static str, String); 3] {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages | Self::OpenAiResponses => {
                openai_chat::limit_headers::of(standing)
            }
        }
    }

    /// The header for a key of the format's own; clients may use `Authorization` as well. `None` where there is only
    /// that one.
    pub fn key_header(self) -> Option<&'static str> {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => None,
            Self::AnthropicMessages => Some(anthropic_messages::KEY_HEADER),
        }
    }

    /// The path at which an upstream takes requests, behind the version.
    pub fn path(self) -> &'static str {
        match self {
            Self::OpenAiChat => "chat/completions",
            Self::AnthropicMessages => "messages",
            Self::OpenAiResponses => "responses",
        }
    }

    /// Further headers of a request to an upstream, beside those of any JSON.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => &[],
            Self::AnthropicMessages => &[(
                anthropic_messages::VERSION_HEADER,
                anthropic_messages::VERSION,
            )],
        }
    }

    /// Writes the body of a request as the upstream accepts it.
    pub fn encode_request(self, request: &ModelRequest<'_>, accepts: &Accepts) -> Vec<u8> {
        match self {
            Self::OpenAiChat => openai_chat::request::encode_for(request, accepts),
            Self::AnthropicMessages => anthropic_messages::request::encode(request, accepts),
            Self::OpenAiResponses => openai_responses::request::encode(request, accepts),
        }
    }

    /// Noticeable differences between the request as written and as the upstream gets it.
    pub fn differences(self, request: &ModelRequest<'_>, accepts: &Accepts) -> FeltDifferences {
        match self {
            Self::OpenAiChat => openai_chat::request::differences(request, accepts),
            Self::AnthropicMessages => anthropic_messages::request::differences(request, accepts),
            Self::OpenAiResponses => openai_responses::request::differences(request, accepts),
        }
    }

    /// Decodes a plain answer of an upstream into the events that a stream of it would have given.
    ///
    /// # Errors
    /// It is no answer.
    pub fn decode_answer(
        self,
        body: &[u8],
        offered: OfferedNames,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::OpenAiChat => openai_chat::body::decode(body, offered, out),
            Self::AnthropicMessages => anthropic_messages::body::decode(body, out),
            Self::OpenAiResponses => openai_responses::body::decode(body, out),
        }
    }

    /// Reads the body that came with an HTTP status other than 2xx; whatever it is, it has a message.
    pub fn decode_error(
        self,
        status: u16,
        content_type: Option<&str>,
        body: &[u8],
    ) -> ReportedError {
        match self {
            Self::OpenAiChat => openai_chat::body::decode_error(status, content_type, body),
            Self::AnthropicMessages => {
                anthropic_messages::body::decode_error(status, content_type, body)
            }
            Self::OpenAiResponses => {
                openai_responses::body::decode_error(status, content_type, body)
            }
        }
    }

    /// Whether an upstream's answer with status 404 or 405 says that the path is a wrong one.
    pub fn says_no_such_path(self, status: u16, content_type: Option<&str>, body: &[u8]) -> bool {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages | Self::OpenAiResponses => {
                openai_chat::no_such_path::says_no_such_path(status, content_type, body)
            }
        }
    }
}

/// The decoder of one streamed answer, from bytes cut anywhere.
#[derive(Debug)]
pub enum AnswerDecoder {
    OpenAiChat(Box<StreamDecoder>),
    AnthropicMessages(Box<MessageDecoder>),
    OpenAiResponses(Box<ResponseDecoder>),
}

impl AnswerDecoder {
    /// A decoder for the answer to a request that offers tools of these names.
    pub fn new(format: WireFormat, limits: &StreamLimits, offered: OfferedNames) -> Self {
        match format {
            WireFormat::OpenAiChat => {
                Self::OpenAiChat(Box::new(StreamDecoder::knowing(limits, offered)))
            }
            WireFormat::AnthropicMessages => {
                Self::AnthropicMessages(Box::new(MessageDecoder::new(limits)))
            }
            WireFormat::OpenAiResponses => {
                Self::OpenAiResponses(Box::new(ResponseDecoder::new(limits)))
            }
        }
    }

    /// Reads what the network brought and adds what it says to `out`.
    ///
    /// # Errors
    /// The answer is of no use from here on; what was added to `out` before stays true.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        match self {
            Self::OpenAiChat(decoder) => decoder.feed(bytes, out),
            Self::AnthropicMessages(decoder) => decoder.feed(bytes, out),
            Self::OpenAiResponses(decoder) => decoder.feed(bytes, out),
        }
    }

    /// Reads what is left once the upstream has closed the stream.
    ///
    /// # Errors
    /// As [`AnswerDecoder::feed`]; but an event that was cut in its middle is as good as not sent, and no error.
    pub fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        match self {
            Self::OpenAiChat(decoder) => decoder.finish(out),
            Self::AnthropicMessages(decoder) => decoder.finish(out),
            Self::OpenAiResponses(decoder) => decoder.finish(out),
        }
    }
}

#[cfg(test)]
mod tests;
