//! Parts of a content that are no text.

use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::request::{PartBlock, PartKind};
use tw_core::request_settings::{Media, MediaSource};

use super::FORMAT;
use crate::openai_chat::raw::{self, ObjectFields};

/// A part of a message as a block.
pub fn part_block(json: Json) -> PartBlock {
    let fields = ObjectFields::parse(json.as_str()).ok();
    let get = |name| fields.as_ref().and_then(|fields| fields.get(name));
    let kind = match get("type").and_then(raw::string).as_deref() {
        Some("image") => PartKind::Image,
        Some("document") => PartKind::File,
        Some(_) | None => PartKind::Other,
    };
    let source = get("source").and_then(|source| ObjectFields::parse(source.get()).ok());
    let url = source.and_then(|source| source.get("url"));
    PartBlock {
        kind,
        url: url.and_then(|url| json.part(url.get()).as_literal()),
        format: FORMAT,
        json,
    }
}

/// The part as any format can say it; `None` for one that only this format has.
pub fn media(part: &PartBlock) -> Option<Media> {
    let fields = ObjectFields::parse(part.json.as_str()).ok()?;
    let text = |fields: &ObjectFields<'_>, name: &str| {
        let raw = fields.get(name)?;
        raw::string(raw).map(std::borrow::Cow::into_owned)
    };
    match part.kind {
        PartKind::Image | PartKind::File => {}
        PartKind::Audio | PartKind::Other => return None,
    }
    let written = ObjectFields::parse(fields.get("source")?.get()).ok()?;
    let source = match text(&written, "type")?.as_str() {
        "base64" => MediaSource::Data {
            media_type: text(&written, "media_type")?,
            base64: text(&written, "data")?,
        },
        "url" => MediaSource::of_url(&text(&written, "url")?),
        "text" => MediaSource::Text(text(&written, "data")?),
        "file" => MediaSource::FileId(text(&written, "file_id")?),
        "content" => MediaSource::Text(texts(written.get("content")?)?),
        _ => return None,
    };
    Some(Media {
        kind: part.kind,
        source,
        name: text(&fields, "title"),
        detail: None,
    })
}

/// The text of a string, or of blocks that are all text.
fn texts(raw: &RawValue) -> Option<String> {
    if let Some(text) = raw::string(raw) {
        return Some(text.into_owned());
    }
    let mut all = String::new();
    for block in raw::array(raw)? {
        let fields = ObjectFields::parse(block.get()).ok()?;
        all.push_str(&raw::string(fields.get("text")?)?);
    }
    Some(all)
}
