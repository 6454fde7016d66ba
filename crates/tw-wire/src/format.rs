//! The formats of models: what a surface that speaks one needs, and an upstream that does.
//!
//! The other crates know formats by these types alone. Each function here says for every format which of its own
//! functions does the work, so a new format is a module, a variant, and what the compiler then asks for.

mod custom_calls;
mod fold;
mod projection;

pub use fold::{StreamFold, WholeFold};
pub use projection::{Projection, ResponsesProjection};

use std::collections::BTreeMap;

use tw_core::accepts::Accepts;
use tw_core::approval::ApprovalWords;
use tw_core::history::FeltDifferences;
use tw_core::id::{CallId, TurnId};
use tw_core::json::Json;
use tw_core::json::shared::SharedText;
use tw_core::limits::RequestLimits;
use tw_core::model::{ModelEvent, ReportedError};
use tw_core::native::FormatName;
use tw_core::rate::BucketStanding;
use tw_core::request::{Message, ModelInput, ModelRequest, ROUND_GAP, ToolNames};
use tw_core::request_changes::RequestChanges;

use crate::anthropic_messages::stream::MessageDecoder;
use crate::client_error::ClientError;
use crate::client_request::RequestError;
use crate::compaction::{self, BrokenSealAt, OpenedSeal, UnfoldedBody};
use crate::model_list::{self, ListedModel};
use crate::openai_chat::stream::StreamDecoder;
use crate::openai_responses::stream::ResponseDecoder;
use crate::token_count;
use crate::upstream_answer::{DecodeError, StreamLimits};

use self::custom_calls::CustomCalls;
use crate::{anthropic_messages, openai_chat, openai_responses, unshared};

/// A client's request, and how its answer is written.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub input: ModelInput,
    pub projection: Projection,
}

/// A header of a client's that goes to an upstream as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedHeader {
    pub name: &'static str,
    /// Whether its value is a list, so that it may be there several times.
    pub is_list: bool,
}

/// Items of earlier requests and answers, by their ids.
pub type KeptItems = BTreeMap<String, Json>;

/// What the id of a kept item tells of where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemOrigin {
    Turn(TurnId),
    /// The turn that made the call.
    Call(CallId),
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
    /// The format that has items, of which conversations consist.
    pub const OF_ITEMS: Self = Self::OpenAiResponses;

    /// What has to be included in items so that reasoning can go back to its model.
    pub const ENCRYPTED_REASONING: &str = openai_responses::options::ENCRYPTED_REASONING;

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

    /// What stands between the texts of two rounds in what a client has of an answer; nothing where each is a block.
    pub fn round_gap(self) -> &'static str {
        match self {
            Self::OpenAiChat => ROUND_GAP,
            Self::AnthropicMessages | Self::OpenAiResponses => "",
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
                let projection = ResponsesProjection::of(&read);
                (
                    read.input,
                    Projection::OpenAiResponses(Box::new(projection)),
                )
            }
        };
        Ok(ClientRequest { input, projection })
    }

    /// Reads a client's request for the count of its tokens, which says nothing of its answer.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn decode_count(
        self,
        body: &SharedText,
        limits: &RequestLimits,
    ) -> Result<ClientRequest, RequestError> {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => self.decode_request(body, limits),
            Self::AnthropicMessages => Ok(ClientRequest {
                input: anthropic_messages::request::decode_count(body, limits)?,
                projection: Projection::defaults(self),
            }),
        }
    }

    /// The request with what its sealed items stand for, as `open` opens them.
    ///
    /// # Errors
    /// [`BrokenSealAt`].
    pub fn unfold(
        self,
        body: &SharedText,
        open: impl Fn(&str) -> OpenedSeal,
    ) -> Result<UnfoldedBody, BrokenSealAt> {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => Ok(UnfoldedBody {
                body: body.clone(),
                foreign: None,
            }),
            Self::OpenAiResponses => compaction::unfold(body, open),
        }
    }

    /// Whether a request may hold sealed items.
    pub fn may_hold_sealed(self, body: &SharedText) -> bool {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => false,
            Self::OpenAiResponses => compaction::may_hold_sealed(body),
        }
    }

    /// The path at which an upstream counts the tokens of a request, behind the version; `None` if the format has none.
    pub fn count_path(self) -> Option<&'static str> {
        match self {
            Self::OpenAiChat => None,
            Self::AnthropicMessages => Some("messages/count_tokens"),
            Self::OpenAiResponses => Some("responses/input_tokens"),
        }
    }

    /// Writes the body of a request for a count of tokens as the upstream accepts it.
    pub fn encode_count(self, request: &ModelRequest<'_>, accepts: &Accepts) -> Vec<u8> {
        token_count::body_of(self, &self.encode_request(request, accepts))
    }

    /// Writes a count of tokens.
    pub fn render_count(self, tokens: u64) -> Vec<u8> {
        token_count::render(self, tokens)
    }

    /// The ids of kept items that a request refers to, each once; empty also for a body that is no request.
    pub fn item_references(self, body: &SharedText) -> Vec<String> {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => Vec::new(),
            Self::OpenAiResponses => openai_responses::request::item_references(body),
        }
    }

    /// The body of a request with the items themselves where it refers to them.
    pub fn with_items(self, body: &SharedText, items: &KeptItems) -> SharedText {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => body.clone(),
            Self::OpenAiResponses => openai_responses::request::with_items(body, items),
        }
    }

    /// The items of a turn's request, in its order, by their ids; none where a format has no items.
    pub fn input_items(self, body: &SharedText, turn: TurnId) -> Vec<(String, Json)> {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => Vec::new(),
            Self::OpenAiResponses => openai_responses::input_items::read(body, turn),
        }
    }

    /// The items of a turn's request as its conversation has them, in their order, by ids that tell the turn; of a
    /// request that repeats what it continues, those of `messages`, which it adds.
    pub fn conversation_items(
        self,
        body: &SharedText,
        messages: Option<&[Message]>,
        turn: TurnId,
    ) -> Vec<(String, Json)> {
        match (self, messages) {
            (Self::OpenAiResponses, None) => {
                openai_responses::conversation_items::of_body(body, turn)
            }
            (_, Some(messages)) => {
                openai_responses::conversation_items::of_messages(messages, turn)
            }
            (Self::OpenAiChat | Self::AnthropicMessages, None) => Vec::new(),
        }
    }

    /// The body of a request in the format of items, whose input these are.
    pub fn body_of_items<'a>(items: impl IntoIterator<Item = &'a Json>) -> SharedText {
        openai_responses::conversation_items::body_of(items)
    }

    /// A body of a request whose input says what these messages say.
    pub fn body_of_messages(messages: &[Message]) -> SharedText {
        openai_responses::conversation_items::body_of_messages(messages)
    }

    /// The turn of a kept item, as far as its id tells.
    pub fn item_origin(self, id: &str) -> Option<ItemOrigin> {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => None,
            Self::OpenAiResponses => openai_responses::ids::item_origin(id),
        }
    }

    /// The id by which a client knows the answer of a turn; `None` where answers are not continued by name.
    pub fn name_of_answer(self, turn: TurnId) -> Option<String> {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => None,
            Self::OpenAiResponses => Some(openai_responses::ids::response_id(turn)),
        }
    }

    /// The turn of an answer, by the id that its client knows; `None` for an id of somebody else.
    pub fn turn_of_answer(self, id: &str) -> Option<TurnId> {
        match self {
            Self::OpenAiChat => None,
            Self::AnthropicMessages => anthropic_messages::events::parse_message_id(id),
            Self::OpenAiResponses => openai_responses::ids::parse_response_id(id),
        }
    }

    /// Whether clients of the format can be asked for the approval of a call.
    pub fn approval_words(self) -> ApprovalWords {
        match self {
            Self::OpenAiChat | Self::AnthropicMessages => ApprovalWords::Missing,
            Self::OpenAiResponses => ApprovalWords::Known,
        }
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
            Self::OpenAiChat | Self::OpenAiResponses => openai_chat::limit_headers::of(standing),
            Self::AnthropicMessages => anthropic_messages::limit_headers(standing),
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

    /// A header of the format's own with the id of a request; `None` where clients know `x-request-id`.
    pub fn request_id_header(self) -> Option<&'static str> {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => None,
            Self::AnthropicMessages => Some(anthropic_messages::REQUEST_ID_HEADER),
        }
    }

    /// Writes a page of a list of models; a format without pages is given all of them.
    pub fn list_models(self, models: &[ListedModel], has_more: bool) -> Vec<u8> {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => model_list::encode(models),
            Self::AnthropicMessages => anthropic_messages::listing::page(models, has_more),
        }
    }

    /// Writes one model of a list.
    pub fn list_model(self, model: &ListedModel) -> Vec<u8> {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => model.entry.as_str().as_bytes().to_vec(),
            Self::AnthropicMessages => anthropic_messages::listing::entry(model),
        }
    }

    /// Whether lists of models come in pages.
    pub fn lists_in_pages(self) -> bool {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => false,
            Self::AnthropicMessages => true,
        }
    }

    /// The format that a client of several speaks where a route has one answer for each of them: the one whose own
    /// header is there.
    pub fn of_client(has_header: impl Fn(&'static str) -> bool) -> Option<Self> {
        has_header(anthropic_messages::VERSION_HEADER).then_some(Self::AnthropicMessages)
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

    /// The headers of a client's request that go to an upstream of this format.
    pub fn passed_headers(self) -> &'static [PassedHeader] {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => &[],
            Self::AnthropicMessages => &[
                PassedHeader {
                    name: anthropic_messages::BETA_HEADER,
                    is_list: true,
                },
                PassedHeader {
                    name: anthropic_messages::VERSION_HEADER,
                    is_list: false,
                },
            ],
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

    /// What of the request the upstream does not get, or gets otherwise than it was written.
    pub fn changes(self, request: &ModelRequest<'_>, accepts: &Accepts) -> RequestChanges {
        let mut changes = match self {
            Self::OpenAiChat => openai_chat::request::changes(request, accepts),
            Self::AnthropicMessages => anthropic_messages::request::changes(request, accepts),
            Self::OpenAiResponses => openai_responses::request::changes(request, accepts),
        };
        if request.input.format != self.format_name() {
            changes.add_all(&unshared::of(request, self.format_name()));
        }
        changes
    }

    /// Decodes a plain answer of an upstream into the events that a stream of it would have given.
    ///
    /// # Errors
    /// It is no answer.
    pub fn decode_answer(
        self,
        body: &[u8],
        offered: ToolNames,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        match self {
            Self::OpenAiChat => openai_chat::body::decode(body, offered.all, out),
            Self::AnthropicMessages => {
                let from = out.len();
                anthropic_messages::body::decode(body, out)?;
                CustomCalls::new(offered.custom).unpack(out, from);
                Ok(())
            }
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
    AnthropicMessages(Box<MessageDecoder>, CustomCalls),
    OpenAiResponses(Box<ResponseDecoder>),
}

impl AnswerDecoder {
    /// A decoder for the answer to a request that offers tools of these names.
    pub fn new(format: WireFormat, limits: &StreamLimits, offered: ToolNames) -> Self {
        match format {
            WireFormat::OpenAiChat => {
                Self::OpenAiChat(Box::new(StreamDecoder::knowing(limits, offered.all)))
            }
            WireFormat::AnthropicMessages => Self::AnthropicMessages(
                Box::new(MessageDecoder::new(limits)),
                CustomCalls::new(offered.custom),
            ),
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
            Self::AnthropicMessages(decoder, custom) => {
                let from = out.len();
                let read = decoder.feed(bytes, out);
                custom.unpack(out, from);
                read
            }
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
            Self::AnthropicMessages(decoder, custom) => {
                let from = out.len();
                let read = decoder.finish(out);
                custom.unpack(out, from);
                custom.end(out);
                read
            }
            Self::OpenAiResponses(decoder) => decoder.finish(out),
        }
    }
}

#[cfg(test)]
mod tests;
