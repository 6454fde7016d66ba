//! Writing rows: fields in order, around text that is JSON already.

use tw_core::json::{Json, Literal};
use tw_core::request::{Block, CallBlock};
use tw_core::request_settings::{Media, MediaSource};
use tw_core::time::Timestamp;

use super::ShapeRow;
use super::said::SaidTurn;
use crate::native_words;
use crate::openai_chat::write;

/// An object that is being written.
pub struct ObjectWriter(Vec<u8>);

impl ObjectWriter {
    pub fn new() -> Self {
        Self(vec![b'{'])
    }

    pub fn text(mut self, name: &str, text: &str) -> Self {
        write::key(&mut self.0, name);
        write::string(&mut self.0, text);
        self
    }

    /// A text, or null.
    pub fn maybe(self, name: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self.json(name, "null"),
        }
    }

    pub fn literal(mut self, name: &str, text: &Literal) -> Self {
        write::key(&mut self.0, name);
        write::literal(&mut self.0, text);
        self
    }

    /// A value that is JSON.
    pub fn json(mut self, name: &str, json: &str) -> Self {
        write::key(&mut self.0, name);
        self.0.extend_from_slice(json.as_bytes());
        self
    }

    pub fn end(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8(self.0).unwrap_or_default()
    }
}

pub fn list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// The id of a turn's row by its place in the turn.
pub fn row_id(turn: &SaidTurn, place: &str) -> String {
    format!("{}.{place}", turn.id)
}

pub fn row(id: String, fields: ObjectWriter) -> ShapeRow {
    ShapeRow {
        id,
        json: Json::of_read(&fields.end()),
    }
}

/// RFC 3339 with microseconds.
pub fn time(at: Timestamp) -> String {
    let whole = at.rfc3339();
    let whole = whole.strip_suffix('Z').unwrap_or(&whole);
    format!("{whole}.{:06}Z", at.0.rem_euclid(1_000_000))
}

/// The texts of a message, one behind the other.
pub fn text_of(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        match block {
            Block::Text(said) | Block::Refusal(said) => text.push_str(&said.to_text()),
            Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Part(_)
            | Block::Native(_) => {}
        }
    }
    text
}

/// The thoughts of a message, one behind the other; `None` if there are none.
pub fn reasoning_of(blocks: &[Block]) -> Option<String> {
    let mut text = String::new();
    for block in blocks {
        if let Block::Reasoning(thought) = block {
            text.push_str(&thought.text.to_text());
        }
    }
    (!text.is_empty()).then_some(text)
}

pub fn calls_of(blocks: &[Block]) -> impl Iterator<Item = &CallBlock> {
    blocks.iter().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    })
}

/// The arguments of a call, if they are a JSON object; none at all are an empty one.
pub fn arguments_of(call: &CallBlock) -> Result<String, String> {
    let text = call.arguments.to_text();
    if text.trim().is_empty() {
        return Ok("{}".to_owned());
    }
    match Json::parse(&text) {
        Ok(json) if json.as_str().starts_with('{') => Ok(json.as_str().to_owned()),
        Ok(_) | Err(_) => Err(text),
    }
}

pub fn has_parts(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| matches!(block, Block::Part(_)))
}

/// The texts and parts of a message as parts of a chat message's content.
pub fn chat_parts(blocks: &[Block]) -> String {
    let mut parts = Vec::new();
    for block in blocks {
        match block {
            Block::Text(text) | Block::Refusal(text) => {
                parts.push(
                    ObjectWriter::new()
                        .text("type", "text")
                        .literal("text", text)
                        .end(),
                );
            }
            Block::Part(part) => {
                let written = native_words::media(part).and_then(|media| chat_part(&media));
                parts.push(written.unwrap_or_else(|| part.json.as_str().to_owned()));
            }
            Block::Reasoning(_) | Block::Call(_) | Block::Result(_) | Block::Native(_) => {}
        }
    }
    list(&parts)
}

fn chat_part(media: &Media) -> Option<String> {
    use tw_core::request::PartKind;
    let name = media.name.as_deref();
    Some(match media.kind {
        PartKind::Image => {
            let mut image = ObjectWriter::new().text("url", &media.source.to_url()?);
            if let Some(detail) = &media.detail {
                image = image.text("detail", detail);
            }
            let image = image.end();
            ObjectWriter::new()
                .text("type", "image_url")
                .json("image_url", &image)
                .end()
        }
        PartKind::File => {
            let mut file = ObjectWriter::new();
            if let Some(name) = name {
                file = file.text("filename", name);
            }
            let file = match &media.source {
                MediaSource::FileId(id) => file.text("file_id", id),
                MediaSource::Url(_) | MediaSource::Data { .. } => {
                    file.text("file_data", &media.source.to_url()?)
                }
                MediaSource::Text(_) => return None,
            };
            ObjectWriter::new()
                .text("type", "file")
                .json("file", &file.end())
                .end()
        }
        PartKind::Audio => {
            let MediaSource::Data { media_type, base64 } = &media.source else {
                return None;
            };
            let format = media_type.strip_prefix("audio/").unwrap_or(media_type);
            let audio = ObjectWriter::new()
                .text("data", base64)
                .text("format", format)
                .end();
            ObjectWriter::new()
                .text("type", "input_audio")
                .json("input_audio", &audio)
                .end()
        }
        PartKind::Other => return None,
    })
}

/// A text as JSON: the value that it writes, or itself.
pub fn value_of(text: &str) -> String {
    match Json::parse(text) {
        Ok(json) => json.as_str().to_owned(),
        Err(_) => quoted(text),
    }
}

pub fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write::string(&mut out, text);
    String::from_utf8(out).unwrap_or_default()
}
