//! The usage in an answer that passes by, found without keeping the answer.
//!
//! It is the field `usage` of the answer's object, or of the object of any event of a stream: the
//! last one counts. Answers hold megabytes of vectors and images; of all that only this field is
//! kept while it passes.
//!
//! Known differences: an event whose JSON is spread over several `data` lines is not read.

use memchr::{memchr2, memchr3};
use serde::Deserialize;
use tw_core::relayed_request::RelayedTokens;

/// Longest `usage` that is kept, in bytes; known ones are a tenth of this.
const USAGE_BYTES_MAX: usize = 4096;

/// Reads an answer as it passes.
#[derive(Debug)]
pub struct UsageReader {
    form: AnswerForm,
    object: PassingObject,
    tokens: RelayedTokens,
}

#[derive(Debug)]
enum AnswerForm {
    Json,
    Events(EventLine),
    /// An answer that holds no usage: sound, images, text.
    Other,
}

#[derive(Debug)]
enum EventLine {
    /// The line's beginning, of which so many bytes are those of `data:`.
    Begins(usize),
    Data,
    Skipped,
}

const DATA: &[u8] = b"data:";

impl UsageReader {
    pub fn new(content_type: Option<&str>) -> Self {
        let says = content_type.unwrap_or_default().to_ascii_lowercase();
        let form = if says.starts_with("text/event-stream") {
            AnswerForm::Events(EventLine::Begins(0))
        } else if says.contains("json") {
            AnswerForm::Json
        } else {
            AnswerForm::Other
        };
        Self {
            form,
            object: PassingObject::default(),
            tokens: RelayedTokens::default(),
        }
    }

    pub fn feed(&mut self, mut bytes: &[u8]) {
        match &mut self.form {
            AnswerForm::Other => {}
            AnswerForm::Json => self.object.feed(bytes),
            AnswerForm::Events(line) => {
                while let Some(&first) = bytes.first() {
                    let end = memchr2(b'\n', b'\r', bytes);
                    match line {
                        EventLine::Begins(have) if end != Some(0) => {
                            *line = match DATA.get(*have) {
                                Some(wanted) if *wanted == first && *have + 1 == DATA.len() => {
                                    EventLine::Data
                                }
                                Some(wanted) if *wanted == first => EventLine::Begins(*have + 1),
                                Some(_) | None => EventLine::Skipped,
                            };
                            bytes = &bytes[1..];
                            continue;
                        }
                        EventLine::Data => self.object.feed(&bytes[..end.unwrap_or(bytes.len())]),
                        EventLine::Begins(_) | EventLine::Skipped => {}
                    }
                    let Some(end) = end else { break };
                    take(&mut self.tokens, &mut self.object);
                    *line = EventLine::Begins(0);
                    bytes = &bytes[end + 1..];
                }
            }
        }
    }

    /// The tokens that the answer names.
    pub fn tokens(mut self) -> RelayedTokens {
        take(&mut self.tokens, &mut self.object);
        self.tokens
    }
}

/// Ends an object.
fn take(tokens: &mut RelayedTokens, object: &mut PassingObject) {
    if let Some(found) = std::mem::take(object).usage() {
        *tokens = found;
    }
}

/// A JSON object of which one field is kept.
#[derive(Debug, Default)]
struct PassingObject {
    depth: u32,
    string: StringPart,
    /// The next string of the outermost object is a name.
    at_name: bool,
    name: Vec<u8>,
    is_usage: bool,
    /// The value of `usage`, as far as it came.
    kept: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringPart {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// A longer name is not `usage`.
const NAME_BYTES_MAX: usize = 6;

impl PassingObject {
    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.string {
                StringPart::Inside => {
                    let end = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                    self.keep(&bytes[..end]);
                    if self.at_name && self.depth == 1 {
                        let room = NAME_BYTES_MAX.saturating_sub(self.name.len());
                        self.name.extend_from_slice(&bytes[..end.min(room)]);
                    }
                    if let Some(&mark) = bytes.get(end) {
                        self.keep(&[mark]);
                        self.string = if mark == b'"' {
                            StringPart::Outside
                        } else {
                            StringPart::Escaped
                        };
                    }
                    bytes = bytes.get(end + 1..).unwrap_or_default();
                    continue;
                }
                StringPart::Escaped => {
                    self.keep(&[byte]);
                    self.string = StringPart::Inside;
                }
                StringPart::Outside => self.outside(byte),
            }
            bytes = rest;
            if self.string == StringPart::Outside && self.depth > 1 && !self.is_usage {
                // Within vectors there is nothing but numbers.
                let next = memchr3(b'"', b']', b'}', bytes).unwrap_or(bytes.len());
                let opened = bytes[..next].iter().filter(|byte| b"[{".contains(byte));
                self.depth += u32::try_from(opened.count()).unwrap_or(u32::MAX);
                bytes = &bytes[next..];
            }
        }
    }

    fn outside(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.string = StringPart::Inside;
                if self.at_name && self.depth == 1 {
                    self.name.clear();
                }
            }
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                self.at_name = self.depth == 1 && byte == b'{';
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.is_usage = false;
                }
            }
            b':' if self.depth == 1 && self.at_name => {
                self.at_name = false;
                self.is_usage = self.name == b"usage";
                if self.is_usage {
                    self.kept.clear();
                }
                return;
            }
            b',' if self.depth == 1 => {
                self.at_name = true;
                self.is_usage = false;
            }
            _ => {}
        }
        self.keep(&[byte]);
    }

    fn keep(&mut self, bytes: &[u8]) {
        // One byte more than may be says that it is too long.
        if self.is_usage && self.kept.len() <= USAGE_BYTES_MAX {
            let room = USAGE_BYTES_MAX + 1 - self.kept.len();
            self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn usage(self) -> Option<RelayedTokens> {
        let written: WrittenUsage = serde_json::from_slice(&self.kept).ok()?;
        let output = written.completion_tokens.or(written.output_tokens);
        let input = written.prompt_tokens.or(written.input_tokens);
        let found = RelayedTokens {
            // Rerankers write the total alone.
            input: input.or(written.total_tokens.filter(|_| output.is_none())),
            output,
        };
        (found != RelayedTokens::default()).then_some(found)
    }
}

/// The names of several APIs.
#[derive(Deserialize)]
struct WrittenUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

#[cfg(test)]
mod tests;
