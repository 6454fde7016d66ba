//! Input that a client sent before the model is to be asked.

use tw_core::json::shared::SharedText;

use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// Input that was taken and is to stand before that of the request that goes on from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedInput {
    /// The JSON of its items, with commas between them.
    items: String,
    /// The response that it continues, as its client named it.
    continues: Option<String>,
}

impl PreparedInput {
    /// The input of a request that could be read.
    pub fn of(body: &SharedText) -> Self {
        let fields = ObjectFields::parse(body.as_str()).unwrap_or_default();
        Self {
            items: items(&fields),
            continues: raw::filled_string(fields.get(PREVIOUS)).map(|name| name.into_owned()),
        }
    }

    /// An input in the place of one that is not there.
    pub fn stand_in(body: &SharedText) -> Self {
        let text = r#"{"type":"message","role":"user","content":"-"}"#;
        Self {
            items: text.to_owned(),
            ..Self::of(body)
        }
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.items.len()
    }

    /// The body of a request that goes on from it: with this input before its own, and behind what this one continues.
    pub fn before(&self, body: &SharedText) -> SharedText {
        let fields = ObjectFields::parse(body.as_str()).unwrap_or_default();
        let more = items(&fields);
        let mut out = b"{".to_vec();
        for (name, value) in &fields.0 {
            if ![INPUT, PREVIOUS].contains(&&**name) {
                write::foreign_key(&mut out, name);
                out.extend_from_slice(value.get().as_bytes());
            }
        }
        if let Some(name) = &self.continues {
            write::key(&mut out, PREVIOUS);
            write::string(&mut out, name);
        }
        write::key(&mut out, INPUT);
        out.push(b'[');
        out.extend_from_slice(self.items.as_bytes());
        if !self.items.is_empty() && !more.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(more.as_bytes());
        out.extend_from_slice(b"]}");
        SharedText::new(String::from_utf8(out).unwrap_or_default())
    }
}

const INPUT: &str = "input";
const PREVIOUS: &str = "previous_response_id";

/// The items of a request's input as they were written; a text is a message of the user.
fn items(fields: &ObjectFields<'_>) -> String {
    let Some(input) = fields.get(INPUT) else {
        return String::new();
    };
    match raw::array(input) {
        Some(items) => {
            let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
            items.join(",")
        }
        None => format!(
            "{{\"type\":\"message\",\"role\":\"user\",\"content\":{}}}",
            input.get()
        ),
    }
}
