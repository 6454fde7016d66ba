//! The words of all formats, by which what is stored finds its format again.

use tw_core::json::Json;
use tw_core::native::{FormatName, NativeLabel};
use tw_core::request::{PartBlock, PartKind};
use tw_core::request_settings::Media;

use crate::{anthropic_messages, openai_chat, openai_responses};

const FORMATS: [FormatName; 3] = [
    openai_chat::FORMAT,
    anthropic_messages::FORMAT,
    openai_responses::FORMAT,
];
const PLACES: [NativeLabel; 6] = [
    openai_chat::REASONING_CONTENT,
    openai_chat::REASONING,
    openai_chat::THINKING_PART,
    anthropic_messages::THINKING,
    openai_responses::SUMMARY,
    openai_responses::REASONING_TEXT,
];

/// The format of this name.
pub fn format(word: &str) -> Option<FormatName> {
    FORMATS.into_iter().find(|format| format.as_str() == word)
}

/// The place of this name in which some format writes reasoning.
pub fn place(word: &str) -> Option<NativeLabel> {
    PLACES.into_iter().find(|place| place.as_str() == word)
}

/// A part of a content as its format reads it.
pub fn part(format: FormatName, json: Json) -> PartBlock {
    if format == openai_chat::FORMAT {
        return openai_chat::part(json);
    }
    if format == anthropic_messages::FORMAT {
        return anthropic_messages::part(json);
    }
    if format == openai_responses::FORMAT {
        return openai_responses::part(json);
    }
    PartBlock {
        kind: PartKind::Other,
        url: None,
        format,
        json,
    }
}

/// A part of a content as any format can say it; `None` for one that only its own format has.
pub fn media(part: &PartBlock) -> Option<Media> {
    if part.format == openai_chat::FORMAT {
        openai_chat::content::media(part)
    } else if part.format == anthropic_messages::FORMAT {
        anthropic_messages::content::media(part)
    } else if part.format == openai_responses::FORMAT {
        openai_responses::content::media(part)
    } else {
        None
    }
}

/// The name of a part that was left out.
pub fn part_name(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Image => "image",
        PartKind::File => "file",
        PartKind::Audio => "audio",
        PartKind::Other => "part",
    }
}
