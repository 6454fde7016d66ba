//! The parts of a message that count in the hash of a history.

use memchr::memchr;
use sha2::{Digest, Sha256};

use crate::json::Literal;
use crate::model::CallForm;
use crate::request::{Block, CallBlock, Message, PartBlock, PartKind, ResultBlock, Role};

/// Adds one thing, told apart from its neighbours by its kind and its length.
pub(super) fn put(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = (bytes.len() as u64).to_le_bytes();
    hash.update([kind, b0, b1, b2, b3, b4, b5, b6, b7]);
    hash.update(bytes);
}

pub(super) fn message(message: &Message, hash: &mut Sha256) {
    // Most messages are this.
    if let [Block::Text(literal)] = &message.blocks[..]
        && memchr(b'\\', literal.as_str().as_bytes()).is_none()
    {
        put_text(hash, literal.as_str());
        return;
    }
    let mut text = Text::default();
    let is_answer = message.role == Role::Assistant;
    if is_answer {
        for block in &message.blocks {
            if let Block::Text(literal) | Block::Refusal(literal) = block {
                text.add(literal);
            }
        }
        text.put(hash);
    }
    for block in &message.blocks {
        match block {
            Block::Text(_) | Block::Refusal(_) if is_answer => {}
            Block::Text(literal) | Block::Refusal(literal) => text.add(literal),
            Block::Reasoning(_) | Block::Native(_) => {}
            Block::Part(part) => {
                text.put(hash);
                self::part(part, hash);
            }
            Block::Call(call) => {
                text.put(hash);
                self::call(call, hash);
            }
            Block::Result(result) => {
                text.put(hash);
                self::result(result, hash);
            }
        }
    }
    text.put(hash);
}

/// Text parts that follow one another.
#[derive(Default)]
struct Text(String);

impl Text {
    fn add(&mut self, literal: &Literal) {
        if memchr(b'\\', literal.as_str().as_bytes()).is_some() {
            self.0.push_str(&literal.to_text());
        } else {
            self.0.push_str(literal.as_str());
        }
    }

    /// Adds the joined text, and begins anew.
    fn put(&mut self, hash: &mut Sha256) {
        put_text(hash, &self.0);
        self.0.clear();
    }
}

fn put_text(hash: &mut Sha256, text: &str) {
    let text = text.trim_end();
    if memchr(b'\r', text.as_bytes()).is_some() {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        put(hash, b'T', text.as_bytes());
    } else if !text.is_empty() {
        put(hash, b'T', text.as_bytes());
    }
}

fn call(call: &CallBlock, hash: &mut Sha256) {
    match call.form {
        CallForm::Function | CallForm::Custom => put(hash, b'C', call.id.as_bytes()),
        CallForm::ByName => {
            put(hash, b'L', call.name.as_bytes());
            put(hash, b'A', call.arguments.to_text().as_bytes());
        }
    }
}

fn result(result: &ResultBlock, hash: &mut Sha256) {
    put(hash, b'R', result.call_id.as_bytes());
    let mut text = Text::default();
    for block in &result.content {
        match block {
            Block::Text(literal) => text.add(literal),
            Block::Part(part) => {
                text.put(hash);
                self::part(part, hash);
            }
            // There are none in a result.
            Block::Refusal(_)
            | Block::Reasoning(_)
            | Block::Call(_)
            | Block::Result(_)
            | Block::Native(_) => {}
        }
    }
    text.put(hash);
}

fn part(part: &PartBlock, hash: &mut Sha256) {
    match (&part.url, part.kind) {
        (Some(url), PartKind::Image) => put(hash, b'I', url.to_text().as_bytes()),
        (Some(_) | None, _) => put(hash, b'P', without_gaps(part.json.as_str()).as_bytes()),
    }
}

/// JSON text without the white space between its tokens.
fn without_gaps(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    json.chars()
        .filter(|&char| {
            if in_string {
                (in_string, escaped) = match char {
                    _ if escaped => (true, false),
                    '\\' => (true, true),
                    _ => (char != '"', false),
                };
                return true;
            }
            in_string = char == '"';
            !char.is_ascii_whitespace()
        })
        .collect()
}
