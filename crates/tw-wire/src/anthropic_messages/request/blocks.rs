//! Content blocks that we write ourselves.

use std::borrow::Cow;

use tw_core::history::sendable_arguments;
use tw_core::json::{Json, Literal};
use tw_core::model::CallForm;
use tw_core::native::{NativeFields, NativePart};
use tw_core::request::{Block, CallBlock, PartBlock, PartKind, ReasoningBlock, ResultBlock};
use tw_core::request_changes::RequestChanges;
use tw_core::request_settings::{Media, MediaSource};

use super::tools::fitted_name;
use crate::anthropic_messages::FORMAT;
use crate::native_words;
use crate::openai_chat::content::CACHE_CONTROL;
use crate::openai_chat::raw::ObjectFields;
use crate::openai_chat::write;

/// What stands for a part that the API does not take.
pub const LEFT_OUT: &str = "(Something that cannot be shown here was left out.)";

/// The types of images that the API takes as data.
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// A block as it is sent.
#[derive(Debug)]
pub struct SentBlock {
    pub json: Vec<u8>,
    /// The text of a block that has nothing else.
    pub text: Option<String>,
    pub is_thinking: bool,
    pub is_call: bool,
}

impl SentBlock {
    pub fn of(json: Vec<u8>) -> Self {
        Self {
            json,
            text: None,
            is_thinking: false,
            is_call: false,
        }
    }
}

/// Whether a model's answer goes back to where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// What only its maker understands goes with it.
    Own,
    Other,
}

/// The blocks of a message that say something, and what cannot be said of it.
#[derive(Debug, Default)]
pub struct SentBlocks {
    pub blocks: Vec<SentBlock>,
    pub changes: RequestChanges,
}

/// Writes the blocks of a message; `marks` are those of the prompt cache, by block.
pub fn sent(blocks: &[Block], marks: &[Option<Json>], home: Home) -> SentBlocks {
    let mut sent = SentBlocks::default();
    for (at, block) in blocks.iter().enumerate() {
        let mark = marks.get(at).and_then(Option::as_ref);
        match block {
            Block::Text(text) | Block::Refusal(text) => {
                let more = blocks.get(at + 1).filter(|_| home == Home::Own);
                let said = said(text, more.and_then(fields_of_text), mark);
                if mark.is_some() && said.is_none() {
                    sent.changes.add(CACHE_CONTROL);
                }
                sent.blocks.extend(said);
            }
            Block::Reasoning(reasoning) => {
                match thinking(reasoning).filter(|_| home == Home::Own) {
                    Some(json) => sent.blocks.push(SentBlock {
                        is_thinking: true,
                        ..SentBlock::of(json)
                    }),
                    None => sent.changes.add("reasoning"),
                }
            }
            Block::Native(part) if home == Home::Own => {
                sent.blocks.extend(native(part));
            }
            Block::Call(made) => {
                if let Cow::Owned(_) = fitted_name(&made.name) {
                    sent.changes.add("tool_name");
                }
                sent.blocks.push(call(made, home, mark));
            }
            Block::Part(part) => match self::part(part, mark, &mut sent.changes) {
                Some(json) => sent.blocks.push(SentBlock::of(json)),
                None => {
                    sent.changes.add(native_words::part_name(part.kind));
                    sent.blocks
                        .extend(said(&Literal::from_text(LEFT_OUT), None, mark));
                }
            },
            // Nobody but its maker may have it; and results are messages of their own.
            Block::Native(_) | Block::Result(_) => {}
        }
    }
    sent
}

/// A thought as its maker knows it again; `None` for one that it would not.
fn thinking(reasoning: &ReasoningBlock) -> Option<Vec<u8>> {
    let signature = reasoning.signature.as_ref()?;
    let mut json = b"{\"type\":\"thinking\"".to_vec();
    write::key(&mut json, "thinking");
    write::literal(&mut json, &reasoning.text);
    write::key(&mut json, "signature");
    write::literal(&mut json, signature);
    let more = reasoning.native.as_ref().map(fields_of);
    write::fields(&mut json, more.as_ref());
    json.push(b'}');
    Some(json)
}

/// Whether a text says nothing.
pub fn is_blank(text: &Literal) -> bool {
    // Most begin with something else than an escape or a space.
    let first = text.as_str().bytes().next();
    match first {
        None => true,
        Some(b'\\' | b' ' | 0x80..) => text.to_text().trim().is_empty(),
        Some(_) => false,
    }
}

/// A text block; `None` for a text that says nothing, which the API refuses.
pub fn said(text: &Literal, more: Option<NativeFields>, mark: Option<&Json>) -> Option<SentBlock> {
    if is_blank(text) {
        return None;
    }
    let plain = text.to_text();
    let mut json = b"{\"type\":\"text\",\"text\":".to_vec();
    write::literal(&mut json, text);
    write::fields(&mut json, more.as_ref());
    if let Some(mark) = mark {
        write::key(&mut json, CACHE_CONTROL);
        write::raw(&mut json, mark);
    }
    json.push(b'}');
    let is_plain = more.is_none() && mark.is_none();
    Some(SentBlock {
        text: is_plain.then_some(plain),
        ..SentBlock::of(json)
    })
}

/// A block that only this format understands.
pub fn native(part: &NativePart) -> Option<SentBlock> {
    let is_block = part.format == FORMAT && !is_fields(part);
    is_block.then(|| SentBlock {
        is_thinking: part.json.as_str().contains("\"redacted_thinking\""),
        ..SentBlock::of(part.json.as_str().as_bytes().to_vec())
    })
}

/// Whether a native part is no block, but what only this format knows of the block before it.
fn is_fields(part: &NativePart) -> bool {
    let fields = ObjectFields::parse(part.json.as_str());
    fields.is_ok_and(|fields| fields.get("type").is_none())
}

fn fields_of_text(block: &Block) -> Option<NativeFields> {
    match block {
        Block::Native(part) if part.format == FORMAT && is_fields(part) => Some(fields_of(part)),
        Block::Text(_)
        | Block::Refusal(_)
        | Block::Reasoning(_)
        | Block::Call(_)
        | Block::Result(_)
        | Block::Part(_)
        | Block::Native(_) => None,
    }
}

fn fields_of(part: &NativePart) -> NativeFields {
    let fields = ObjectFields::parse(part.json.as_str()).ok();
    let fields = fields.into_iter().flat_map(|fields| fields.0);
    fields
        .map(|(key, value)| (Box::from(&*key), Json::from_raw(value)))
        .collect()
}

fn call(made: &CallBlock, home: Home, mark: Option<&Json>) -> SentBlock {
    let native = made.native.as_deref().filter(|_| home == Home::Own);
    let mut more = native.map_or_else(NativeFields::new, |native| native.beside.clone());
    more.extend(mark.map(|mark| (CACHE_CONTROL.into(), mark.clone())));
    tool_use(&made.id, &made.name, &input_of(made), Some(&more))
}

/// A `tool_use` block.
pub fn tool_use(id: &str, name: &str, input: &str, more: Option<&NativeFields>) -> SentBlock {
    let mut json = b"{\"type\":\"tool_use\"".to_vec();
    write::key(&mut json, "id");
    write::string(&mut json, id);
    write::key(&mut json, "name");
    write::string(&mut json, &fitted_name(name));
    write::key(&mut json, "input");
    json.extend_from_slice(input.as_bytes());
    write::fields(&mut json, more);
    json.push(b'}');
    SentBlock {
        is_call: true,
        ..SentBlock::of(json)
    }
}

/// The input of a call, which is an object here. That of a custom tool is put into one, as its schema says.
pub fn input_of(call: &CallBlock) -> String {
    match call.form {
        CallForm::Custom => format!("{{\"input\":\"{}\"}}", call.arguments.as_str()),
        CallForm::Function | CallForm::ByName => {
            let sendable = sendable_arguments(&call.arguments);
            sendable.as_ref().unwrap_or(&call.arguments).to_text()
        }
    }
}

/// A `tool_result` block, and what cannot be said of the result; `marks` are those of its content.
pub fn result(result: &ResultBlock, marks: &[Option<Json>]) -> (Vec<u8>, RequestChanges) {
    let mut json = begin_result(&result.call_id);
    let mut changes = RequestChanges::default();
    match result.content.as_slice() {
        [] => {}
        [Block::Text(text)] if marks.iter().all(Option::is_none) => {
            write::key(&mut json, "content");
            write::literal(&mut json, text);
        }
        content => {
            let sent = sent(content, marks, Home::Other);
            changes = sent.changes;
            write::key(&mut json, "content");
            json.push(b'[');
            for block in sent.blocks {
                write::separate(&mut json);
                json.extend_from_slice(&block.json);
            }
            json.push(b']');
        }
    }
    if result.is_error {
        write::key(&mut json, "is_error");
        json.extend_from_slice(b"true");
    }
    json.push(b'}');
    (json, changes)
}

/// The result of a call of this turn.
pub fn shown_result(call_id: &str, shown: &str) -> Vec<u8> {
    let mut json = begin_result(call_id);
    write::key(&mut json, "content");
    write::string(&mut json, shown);
    json.push(b'}');
    json
}

fn begin_result(call_id: &str) -> Vec<u8> {
    let mut json = b"{\"type\":\"tool_result\"".to_vec();
    write::key(&mut json, "tool_use_id");
    write::string(&mut json, call_id);
    json
}

/// A part as the API takes it; `None` for one that it does not.
fn part(part: &PartBlock, mark: Option<&Json>, changes: &mut RequestChanges) -> Option<Vec<u8>> {
    if part.format == FORMAT {
        return Some(part.json.as_str().as_bytes().to_vec());
    }
    let media = native_words::media(part)?;
    let mut json = vec![b'{'];
    write::key(&mut json, "type");
    match media.kind {
        PartKind::Image => write::quoted(&mut json, "image"),
        PartKind::File => write::quoted(&mut json, "document"),
        PartKind::Audio | PartKind::Other => return None,
    }
    write::key(&mut json, "source");
    source(&mut json, &media)?;
    if let Some(name) = media.name.as_ref().filter(|_| media.kind == PartKind::File) {
        write::key(&mut json, "title");
        write::string(&mut json, name);
    }
    if let Some(mark) = mark {
        write::key(&mut json, CACHE_CONTROL);
        write::raw(&mut json, mark);
    }
    if media.detail.is_some_and(|detail| detail != "auto") {
        changes.add("detail");
    }
    json.push(b'}');
    Some(json)
}

fn source(json: &mut Vec<u8>, media: &Media) -> Option<()> {
    let texts: &[(&str, Cow<'_, str>)] = &match (media.kind, &media.source) {
        (_, MediaSource::Url(url)) => [("type", "url".into()), ("url", url.into())].to_vec(),
        (PartKind::Image, MediaSource::Data { media_type, base64 })
            if IMAGE_TYPES.contains(&media_type.as_str()) =>
        {
            base64_source(media_type, base64)
        }
        (PartKind::File, MediaSource::Data { media_type, base64 })
            if media_type == "application/pdf" =>
        {
            base64_source(media_type, base64)
        }
        (PartKind::File, MediaSource::Data { media_type, base64 })
            if media_type.starts_with("text/") =>
        {
            text_source(decode_base64(base64).and_then(|bytes| String::from_utf8(bytes).ok())?)
        }
        (PartKind::File, MediaSource::Text(text)) => text_source(text.clone()),
        // A file that another provider keeps, or one of a kind that is not read.
        (_, MediaSource::FileId(_) | MediaSource::Data { .. } | MediaSource::Text(_)) => {
            return None;
        }
    };
    json.push(b'{');
    for (name, text) in texts {
        write::key(json, name);
        write::string(json, text);
    }
    json.push(b'}');
    Some(())
}

fn base64_source<'a>(media_type: &'a str, data: &'a str) -> Vec<(&'static str, Cow<'a, str>)> {
    vec![
        ("type", "base64".into()),
        ("media_type", media_type.into()),
        ("data", data.into()),
    ]
}

fn text_source(text: String) -> Vec<(&'static str, Cow<'static, str>)> {
    vec![
        ("type", "text".into()),
        ("media_type", "text/plain".into()),
        ("data", text.into()),
    ]
}

/// The bytes of a text in base64, in either alphabet; `None` if it is none.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\r' | b'\n' => continue,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            // The lowest eight of what is left are the next byte.
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(bytes)
}
