//! Lists of models, as upstreams answer them and as clients are answered.
//!
//! Follows `types/model.py` of openai-python 3.3.1. An entry is passed on as it was written.
//!
//! Known differences:
//! - some vendors answer a bare array without the object around it;
//! - entries without an id that is a string are left out.

use serde_json::value::RawValue;
use tw_core::json::Json;

use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// Models that are read of one list.
const MODELS_MAX: usize = 10_000;
/// Longest id, in bytes.
const ID_BYTES_MAX: usize = 512;

/// A model as a list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    pub id: String,
    /// The whole entry.
    pub entry: Json,
}

impl ListedModel {
    /// An entry for a model of which only the name is known.
    pub fn new(id: &str, owned_by: &str) -> Self {
        let entry =
            serde_json::json!({ "id": id, "object": "model", "created": 0, "owned_by": owned_by });
        Self {
            id: id.to_owned(),
            entry: Json::from_value(&entry),
        }
    }

    /// The same model under another name.
    #[must_use]
    pub fn named(&self, id: &str) -> Self {
        let mut out = vec![b'{'];
        // It was read as an object when the list came in.
        for (name, value) in ObjectFields::parse(self.entry.as_str())
            .map(|fields| fields.0)
            .unwrap_or_default()
        {
            write::foreign_key(&mut out, &name);
            if name == "id" {
                write::string(&mut out, id);
            } else {
                out.extend_from_slice(value.get().as_bytes());
            }
        }
        out.push(b'}');
        let entry = std::str::from_utf8(&out)
            .ok()
            .and_then(|text| Json::parse(text).ok());
        Self {
            id: id.to_owned(),
            entry: entry.unwrap_or_else(|| self.entry.clone()),
        }
    }
}

/// Reads a list; `None` for what is none.
pub fn decode(body: &[u8]) -> Option<Vec<ListedModel>> {
    let text = std::str::from_utf8(body).ok()?;
    let bare = serde_json::from_str::<&RawValue>(text)
        .ok()
        .and_then(raw::array);
    let entries = match bare {
        Some(entries) => entries,
        None => raw::array(ObjectFields::parse(text).ok()?.get("data")?)?,
    };
    let listed = entries.into_iter().take(MODELS_MAX).filter_map(|entry| {
        let id = raw::filled_string(ObjectFields::parse(entry.get()).ok()?.get("id"))?;
        (id.len() <= ID_BYTES_MAX).then(|| ListedModel {
            id: id.into_owned(),
            entry: Json::from_raw(entry),
        })
    });
    Some(listed.collect())
}

/// Writes a list.
pub fn encode<'a>(models: impl IntoIterator<Item = &'a ListedModel>) -> Vec<u8> {
    let mut out = b"{\"object\":\"list\",\"data\":[".to_vec();
    for model in models {
        write::separate(&mut out);
        write::raw(&mut out, &model.entry);
    }
    out.extend_from_slice(b"]}");
    out
}

#[cfg(test)]
mod tests;
