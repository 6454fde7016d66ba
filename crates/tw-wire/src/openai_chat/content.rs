//! Content that is a list of parts, in answers: Mistral's reasoning models send it.

use serde_json::value::RawValue;
use tw_core::json::{Json, Literal, LiteralBuf};
use tw_core::model::{AnswerDelta, DeltaRest, ModelEvent, ReasoningText};
use tw_core::request::{PartBlock, PartKind};

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
