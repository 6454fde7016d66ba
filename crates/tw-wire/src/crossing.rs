//! What a request says beside its messages and tools, read for an upstream of another format.

use tw_core::json::Json;
use tw_core::request::{Message, ModelInput};
use tw_core::request_settings::RequestSettings;

use crate::{anthropic_messages, openai_chat, openai_responses};

/// The settings of a request; none for one whose format has none.
pub fn settings(input: &ModelInput) -> RequestSettings {
    if input.format == openai_chat::FORMAT {
        openai_chat::settings::read(input)
    } else if input.format == anthropic_messages::FORMAT {
        anthropic_messages::settings::read(input)
    } else if input.format == openai_responses::FORMAT {
        openai_responses::settings::read(input)
    } else {
        RequestSettings::default()
    }
}

/// The marks of a provider's prompt cache on the blocks of a message that is not the model's, one for each block;
/// empty if there are none.
pub fn cache_marks(message: &Message) -> Vec<Option<Json>> {
    let Some(raw) = message.raw.as_ref() else {
        return Vec::new();
    };
    // Both formats write them into the parts of `content`.
    openai_chat::content::cache_marks(raw, message.blocks.len())
}
