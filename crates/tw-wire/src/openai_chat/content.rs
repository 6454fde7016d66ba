//! Content that is a list of parts, in answers: Mistral's reasoning models send it.

use std::borrow::Cow;

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{AnswerDelta, DeltaRest, ModelEvent, ReasoningText};
use tw_core::request::{Block, PartBlock, PartKind};
use tw_core::request_settings::{Media, MediaSource};

use super::raw::{self, ObjectFields};

/// Adds one delta for each part that has text; `rest` goes with the first.
pub fn read_parts(
    choice: u32,
    list: &RawValue,
    mut rest: Option<Box<DeltaRest>>,
    out: &mut Vec<ModelEvent>,
) {
    for part in raw::array(list).unwrap_or_default() {
        match read_part(part) {
            Some(TextPart::Text(text)) => {
                out.push(ModelEvent::Delta(AnswerDelta {
                    choice,
                    text: Some(text),
                    rest: rest.take(),
                }));
            }
            Some(TextPart::Thinking(text)) => {
                let mut rest = rest.take().unwrap_or_default();
                rest.reasoning = Some(ReasoningText {
                    place: super::THINKING_PART,
                    text,
                });
                out.push(ModelEvent::Delta(AnswerDelta {
                    choice,
                    text: None,
                    rest: Some(rest),
                }));
            }
            None if is_filler(part) => {}
            None => {
                let mut rest = rest.take().unwrap_or_default();
                let list = format!("[{}]", part.get());
                rest.extra.push(("content".into(), Json::of_read(&list)));
                out.push(ModelEvent::Delta(AnswerDelta {
                    choice,
                    text: None,
                    rest: Some(rest),
                }));
            }
        }
    }
    if rest.is_some() {
        out.push(ModelEvent::Delta(AnswerDelta {
            choice,
            text: None,
            rest,
        }));
    }
}

/// Whether a part that is no text has nothing in it either.
fn is_filler(part: &RawValue) -> bool {
    let Ok(fields) = ObjectFields::parse(part.get()) else {
        return true;
    };
    let kind = fields.get("type").and_then(raw::string);
    matches!(
        kind.as_deref(),
        None | Some("text" | "output_text" | "thinking")
    )
}

/// A part of a message as a block.
pub fn part_block(json: Json) -> PartBlock {
    let fields = ObjectFields::parse(json.as_str()).ok();
    let word = fields.as_ref().and_then(|fields| fields.get("type"));
    let kind = match word.and_then(raw::string).as_deref() {
        Some("image_url" | "input_image" | "image") => PartKind::Image,
        Some("file" | "input_file" | "document") => PartKind::File,
        Some("input_audio" | "audio") => PartKind::Audio,
        Some(_) | None => PartKind::Other,
    };
    let image = fields.as_ref().and_then(|fields| fields.get("image_url"));
    let url = image.filter(|_| kind == PartKind::Image).and_then(|image| {
        if raw::is_object(image) {
            ObjectFields::parse(image.get()).ok()?.get("url")
        } else {
            Some(image)
        }
    });
    let url = url.and_then(|url| json.part(url.get()).as_literal());
    PartBlock {
        kind,
        url,
        format: super::FORMAT,
        json,
    }
}

/// The part as any format can say it; `None` for one that only this format has.
pub fn media(part: &PartBlock) -> Option<Media> {
    let fields = ObjectFields::parse(part.json.as_str()).ok()?;
    let inner = |name: &str| ObjectFields::parse(fields.get(name)?.get()).ok();
    let text = |fields: &ObjectFields<'_>, name: &str| {
        raw::filled_string(fields.get(name)).map(Cow::into_owned)
    };
    match part.kind {
        PartKind::Image => {
            let url = part.url.as_ref()?.to_text();
            let detail = inner("image_url").and_then(|image| text(&image, "detail"));
            Some(Media {
                kind: PartKind::Image,
                source: MediaSource::of_url(&url),
                name: None,
                detail,
            })
        }
        PartKind::File => {
            let file = inner("file")?;
            let name = text(&file, "filename");
            let source = match (text(&file, "file_data"), text(&file, "file_id")) {
                (Some(data), _) => file_source(data, name.as_deref()),
                (None, Some(id)) => MediaSource::FileId(id),
                (None, None) => return None,
            };
            Some(Media {
                kind: PartKind::File,
                source,
                name,
                detail: None,
            })
        }
        PartKind::Audio => {
            let audio = inner("input_audio")?;
            Some(Media {
                kind: PartKind::Audio,
                source: MediaSource::Data {
                    media_type: format!("audio/{}", text(&audio, "format")?),
                    base64: text(&audio, "data")?,
                },
                name: None,
                detail: None,
            })
        }
        PartKind::Other => None,
    }
}

/// The source of `file_data`: a `data:` URL, another one, or, as some clients send it, the data alone.
fn file_source(data: String, name: Option<&str>) -> MediaSource {
    if data.contains(':') {
        return MediaSource::of_url(&data);
    }
    let is_pdf = name.is_none_or(|name| name.to_ascii_lowercase().ends_with(".pdf"));
    MediaSource::Data {
        media_type: if is_pdf {
            "application/pdf"
        } else {
            "application/octet-stream"
        }
        .to_owned(),
        base64: data,
    }
}

/// The marks of a prompt cache on the blocks of a message or a result: those of its parts, and its own on the last;
/// empty if there are none.
pub fn cache_marks(message: &Json, blocks: &[Block]) -> Vec<Option<Json>> {
    if !message.as_str().contains(CACHE_CONTROL) {
        return Vec::new();
    }
    let Ok(fields) = ObjectFields::parse(message.as_str()) else {
        return Vec::new();
    };
    let content = fields.get("content").or_else(|| fields.get("output"));
    let parts = content.and_then(raw::array).unwrap_or_default();
    let is_said = |part: &&RawValue| !matches!(read_part(part), Some(TextPart::Thinking(_)));
    let parts = parts.into_iter().filter(is_said);
    let of_part = |block: &Block| match block {
        Block::Text(_) | Block::Refusal(_) | Block::Part(_) => true,
        Block::Reasoning(_) | Block::Call(_) | Block::Result(_) | Block::Native(_) => false,
    };
    let places = blocks.iter().enumerate();
    let places = places.filter(|(_, block)| of_part(block)).map(|(at, _)| at);
    let mut marks = vec![None; blocks.len()];
    for (part, at) in parts.zip(places) {
        let fields = ObjectFields::parse(part.get()).ok();
        let mark = fields.and_then(|fields| fields.get(CACHE_CONTROL).map(Json::from_raw));
        marks[at] = mark;
    }
    if let (Some(own), Some(last)) = (fields.get(CACHE_CONTROL), marks.last_mut()) {
        last.get_or_insert_with(|| Json::from_raw(own));
    }
    marks
}

/// The mark of a tool, beside its function or within it.
pub fn tool_mark(tool: &Json) -> Option<Json> {
    if !tool.as_str().contains(CACHE_CONTROL) {
        return None;
    }
    let fields = ObjectFields::parse(tool.as_str()).ok()?;
    if let Some(mark) = fields.get(CACHE_CONTROL) {
        return Some(Json::from_raw(mark));
    }
    let named = fields.get("function").or_else(|| fields.get("custom"))?;
    let named = ObjectFields::parse(named.get()).ok()?;
    named.get(CACHE_CONTROL).map(Json::from_raw)
}

/// Anthropic's mark of what its prompt cache keeps, which gateways take in this format, too.
pub const CACHE_CONTROL: &str = "cache_control";

/// A part of a list that is text of some kind.
pub enum TextPart {
    Text(Literal),
    Thinking(Literal),
}

/// The text of a part; `None` for parts of other kinds and empty ones.
pub fn read_part(part: &RawValue) -> Option<TextPart> {
    if let Some(text) = raw::literal(part) {
        return (!text.is_empty()).then_some(TextPart::Text(text));
    }
    let fields = ObjectFields::parse(part.get()).ok()?;
    match raw::string(fields.get("type")?)?.as_ref() {
        "text" | "output_text" => {
            let text = raw::literal(fields.get("text")?)?;
            (!text.is_empty()).then_some(TextPart::Text(text))
        }
        "thinking" => {
            let text = read_thinking(fields.get("thinking")?)?;
            (!text.is_empty()).then_some(TextPart::Thinking(text))
        }
        _ => None,
    }
}

/// A string, or a list of text parts.
fn read_thinking(raw: &RawValue) -> Option<Literal> {
    if let Some(text) = raw::literal(raw) {
        return Some(text);
    }
    let mut joined = LiteralBuf::default();
    for part in raw::array(raw)? {
        let fields = ObjectFields::parse(part.get()).ok()?;
        if let Some(text) = fields.get("text").and_then(raw::literal) {
            joined.push(&text);
        }
    }
    Some(joined.to_literal())
}
