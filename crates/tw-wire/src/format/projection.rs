//! What a turn's client asked of the form of its answer.

use tw_core::approval::ApprovalGiven;
use tw_core::id::TurnId;

use super::WireFormat;
use crate::anthropic_messages::events::RanCalls;
use crate::openai_chat::chunks::ChunkOptions;
use crate::openai_responses::fold::{OwnCallItems, ResponseFacts};
use crate::openai_responses::options::ResponsesOptions;
use crate::openai_responses::request::ResponsesRequest;

/// The format of an answer and what the request asked of its form. It is kept with the turn, so that the answer
/// can be written again, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projection {
    OpenAiChat(ChunkOptions),
    AnthropicMessages(RanCalls),
    OpenAiResponses(Box<ResponsesProjection>),
}

/// What a response says that is not in its turn's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponsesProjection {
    /// The model as the client named it.
    pub model: String,
    /// Whether the client wants the response to be kept.
    pub store: bool,
    pub own_calls: OwnCallItems,
    pub options: ResponsesOptions,
}

impl ResponsesProjection {
    /// The projection of a request.
    pub fn of(request: &ResponsesRequest) -> Self {
        Self {
            model: request.input.model.clone(),
            store: request.input.store.unwrap_or(true),
            own_calls: OwnCallItems::Mcp,
            options: request.options.clone(),
        }
    }

    fn defaults() -> Self {
        Self {
            model: String::new(),
            store: false,
            own_calls: OwnCallItems::Mcp,
            options: ResponsesOptions::default(),
        }
    }

    /// The facts of the response of this turn.
    pub fn facts(&self, turn: TurnId) -> ResponseFacts {
        ResponseFacts {
            turn,
            model: self.model.clone(),
            created_s: turn.created_s(),
            store: self.store,
            own_calls: self.own_calls,
        }
    }
}

impl Projection {
    /// The form that a request without wishes gets.
    pub fn defaults(format: WireFormat) -> Self {
        match format {
            WireFormat::OpenAiChat => Self::OpenAiChat(ChunkOptions::defaults()),
            WireFormat::AnthropicMessages => Self::AnthropicMessages(RanCalls::Hidden),
            WireFormat::OpenAiResponses => {
                Self::OpenAiResponses(Box::new(ResponsesProjection::defaults()))
            }
        }
    }

    pub fn format(&self) -> WireFormat {
        match self {
            Self::OpenAiChat(_) => WireFormat::OpenAiChat,
            Self::AnthropicMessages(_) => WireFormat::AnthropicMessages,
            Self::OpenAiResponses(_) => WireFormat::OpenAiResponses,
        }
    }

    /// The name of the answer that the request continues, as its client wrote it.
    pub fn continues(&self) -> Option<&str> {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => None,
            Self::OpenAiResponses(of) => of.options.previous_response_id.as_deref(),
        }
    }

    /// The request's answers to questions whether calls may run.
    pub fn approvals(&self) -> Vec<ApprovalGiven> {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => Vec::new(),
            Self::OpenAiResponses(of) => of.options.approvals_given(),
        }
    }

    /// Has nothing be done for the request's answers to questions.
    pub fn drop_approvals(&mut self) {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => {}
            Self::OpenAiResponses(of) => of.options.approvals.clear(),
        }
    }

    /// The conversation to which the request and its answer are added.
    pub fn conversation(&self) -> Option<&str> {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => None,
            Self::OpenAiResponses(of) => of.options.conversation.as_deref(),
        }
    }

    /// Whether the request stands behind others that it does not repeat.
    pub fn follows_others(&self) -> bool {
        self.continues().is_some() || self.conversation().is_some()
    }

    /// The form of items that a client adds to a conversation, which has no answer.
    pub fn of_added_items(conversation: &str) -> Self {
        let mut of = ResponsesProjection::defaults();
        of.options.conversation = Some(conversation.to_owned());
        Self::OpenAiResponses(Box::new(of))
    }

    /// Whether the answer is kept for its client by its name.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => false,
            Self::OpenAiResponses(of) => of.store,
        }
    }

    /// Whether the answer is fetched later, so that nobody waits for it.
    pub fn is_background(&self) -> bool {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => false,
            Self::OpenAiResponses(of) => of.options.background,
        }
    }

    /// Most calls of this server's tools, where the request sets a limit.
    pub fn calls_max(&self) -> Option<u32> {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => None,
            Self::OpenAiResponses(of) => {
                let max = of.options.max_tool_calls?;
                Some(u32::try_from(max).unwrap_or(u32::MAX))
            }
        }
    }

    /// Has the answer say what it leaves out unless it is asked for.
    pub fn include(&mut self, what: &str) {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => {}
            Self::OpenAiResponses(of) => {
                if !of.options.includes(what) {
                    of.options.include.push(what.to_owned());
                }
            }
        }
    }

    /// Notes whether the answer is kept for its client.
    pub fn set_kept(&mut self, is_kept: bool) {
        match self {
            Self::OpenAiChat(_) | Self::AnthropicMessages(_) => {}
            Self::OpenAiResponses(of) => of.store = is_kept,
        }
    }

    /// The form for somebody who reads the turn in `format`: what its own client asked for, if that is its format.
    #[must_use]
    pub fn read_as(self, format: WireFormat) -> Self {
        if self.format() == format {
            self
        } else {
            Self::defaults(format)
        }
    }
}
