//! What of a request only its own format can say: an upstream of another one does not get it.
//!
//! Each format walks through what a client wrote and names the fields, blocks and items that have no place in the
//! core's types. What has one, and no place in the upstream's format, is named by who writes that.

use serde_json::value::RawValue;
use tw_core::json::Json;
use tw_core::native::FormatName;
use tw_core::request::{MixedTool, ModelRequest, OfferedTools, ToolEntry};
use tw_core::request_changes::RequestChanges;

use crate::format::WireFormat;
use crate::openai_chat::content::CACHE_CONTROL;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::{anthropic_messages, openai_chat, openai_responses};

/// What a request says that no format but its own does.
pub fn of(request: &ModelRequest<'_>, to: FormatName) -> RequestChanges {
    let mut unshared = Unshared {
        changes: RequestChanges::default(),
        marks: if to == anthropic_messages::FORMAT {
            CacheMarks::Kept
        } else {
            CacheMarks::Lost
        },
    };
    match WireFormat::parse(request.input.format.as_str()) {
        Some(WireFormat::OpenAiChat) => openai_chat::request::unshared(request, &mut unshared),
        Some(WireFormat::AnthropicMessages) => {
            anthropic_messages::request::unshared(request, &mut unshared);
        }
        Some(WireFormat::OpenAiResponses) => {
            openai_responses::request::unshared(request, &mut unshared);
        }
        None => debug_assert!(false, "a request has one of the formats"),
    }
    unshared.changes
}

/// The client's own tools that the upstream is told about, but for those that a provider runs: they are counted as
/// tools that were left out.
pub fn client_tools<'a>(request: &ModelRequest<'a>) -> Vec<&'a ToolEntry> {
    let offered: Vec<&ToolEntry> = match &request.tools {
        OfferedTools::AsSent => request.input.tools.entries().iter().collect(),
        OfferedTools::Ours(_) => Vec::new(),
        OfferedTools::Mixed(listed) => {
            let clients = listed.iter().filter_map(|tool| match tool {
                MixedTool::Client(entry) => Some(*entry),
                MixedTool::Ours(_) => None,
            });
            clients.collect()
        }
    };
    let mut offered = offered;
    offered.retain(|entry| !entry.is_of_provider);
    offered
}

/// Whether marks of a prompt cache reach the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheMarks {
    Kept,
    Lost,
}

/// What was found so far.
pub struct Unshared {
    pub changes: RequestChanges,
    marks: CacheMarks,
}

impl Unshared {
    /// Names the fields of an object that are not `known` and say something.
    pub fn fields(&mut self, object: &ObjectFields<'_>, known: &[&str]) {
        for (name, value) in &object.0 {
            if name == CACHE_CONTROL {
                self.mark(value);
            } else if !known.contains(&&**name) && says_something(value) {
                self.changes.add(name.clone().into_owned());
            }
        }
    }

    /// A mark at a place where marks are carried.
    fn mark(&mut self, value: &RawValue) {
        if self.marks == CacheMarks::Lost && says_something(value) {
            self.changes.add(CACHE_CONTROL);
        }
    }

    /// A mark at a place where nobody else has one.
    pub fn lost_mark(&mut self, object: &ObjectFields<'_>) {
        if self.marks == CacheMarks::Kept && object.get(CACHE_CONTROL).is_some() {
            self.changes.add(CACHE_CONTROL);
        }
    }

    /// [`Unshared::fields`] of the object that stands in a field, if one does.
    pub fn inside(&mut self, object: &ObjectFields<'_>, name: &str, known: &[&str]) {
        if let Some(inner) = object.get(name).and_then(fields_of) {
            self.fields(&inner, known);
        }
    }
}

/// The fields of an object; `None` for what is none.
pub fn fields_of(raw: &RawValue) -> Option<ObjectFields<'_>> {
    ObjectFields::parse(raw.get()).ok()
}

pub fn fields_in(json: &Json) -> Option<ObjectFields<'_>> {
    ObjectFields::parse(json.as_str()).ok()
}

/// The word in `type`; empty if there is none.
pub fn kind(fields: &ObjectFields<'_>) -> String {
    let kind = raw::filled_string(fields.get("type"));
    kind.map_or_else(String::new, std::borrow::Cow::into_owned)
}

/// The objects of the list that stands in a field.
pub fn objects<'a>(fields: &ObjectFields<'a>, name: &str) -> Vec<ObjectFields<'a>> {
    let list = fields.get(name).and_then(raw::array).unwrap_or_default();
    list.into_iter().filter_map(fields_of).collect()
}

fn says_something(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "[]" | "{}" | "false" | "\"\"")
}
