//! What a request says beside its messages and tools, read for an upstream of another format.

use tw_core::json::Json;
use tw_core::native::FormatName;
use tw_core::request::{Message, ModelInput, ModelRequest, Role};
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

/// The marks of a provider's prompt cache on the blocks of a message, or on those of its result; empty if there are none.
pub fn cache_marks(message: &Message) -> Vec<Option<Json>> {
    let Some(raw) = message.raw.as_ref() else {
        return Vec::new();
    };
    let blocks = match message.result() {
        Some(result) => &result.content,
        None => &message.blocks,
    };
    // All formats write them into the parts of the content.
    openai_chat::content::cache_marks(raw, blocks)
}

/// Whether the request ends with the beginning of an answer, with which models of its own format go on.
pub fn is_prefilled(request: &ModelRequest<'_>) -> bool {
    let last = request.messages.last();
    request.input.format == anthropic_messages::FORMAT
        && request.rounds.is_empty()
        && last.is_some_and(|message| message.role == Role::Assistant)
}

/// Whether ids of files in parts of this format are OpenAI's.
pub fn has_files_of_openai(format: FormatName) -> bool {
    format == openai_chat::FORMAT || format == openai_responses::FORMAT
}
