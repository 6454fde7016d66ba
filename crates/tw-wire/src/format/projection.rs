//! What a turn's client asked of the form of its answer.

use super::WireFormat;
use crate::anthropic_messages::events::RanCalls;
use crate::openai_chat::chunks::ChunkOptions;

/// The format of an answer and what the request asked of its form. It is kept with the turn, so that the answer
/// can be written again, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projection {
    OpenAiChat(ChunkOptions),
    AnthropicMessages(RanCalls),
}

impl Projection {
    /// The form that a request without wishes gets.
    pub const fn defaults(format: WireFormat) -> Self {
        match format {
            WireFormat::OpenAiChat => Self::OpenAiChat(ChunkOptions::defaults()),
            WireFormat::AnthropicMessages => Self::AnthropicMessages(RanCalls::Hidden),
        }
    }

    pub fn format(&self) -> WireFormat {
        match self {
            Self::OpenAiChat(_) => WireFormat::OpenAiChat,
            Self::AnthropicMessages(_) => WireFormat::AnthropicMessages,
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
