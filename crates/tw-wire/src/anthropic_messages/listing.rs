//! Models as Anthropic lists them: `types/model_info.py` and `pagination.py` of anthropic-sdk-python 0.121.0.
//!
//! Known difference: an entry of another vendor's says of the model what that vendor says: its name for people, if there
//! is one, and when it was made; without that it is as old as can be, as the API does where it does not know.

use tw_core::time::Timestamp;

use crate::model_list::ListedModel;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::write;

/// Writes a page of a list.
pub fn page(models: &[ListedModel], has_more: bool) -> Vec<u8> {
    let mut out = b"{\"data\":[".to_vec();
    for model in models {
        write::separate(&mut out);
        out.extend(entry(model));
    }
    out.extend_from_slice(b"],\"has_more\":");
    out.extend_from_slice(if has_more { b"true" } else { b"false" });
    for (name, model) in [("first_id", models.first()), ("last_id", models.last())] {
        write::key(&mut out, name);
        match model {
            Some(model) => write::string(&mut out, &model.id),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    out
}

/// Writes one model; an entry that is Anthropic's own stays as it was written.
pub fn entry(model: &ListedModel) -> Vec<u8> {
    let fields = ObjectFields::parse(model.entry.as_str()).ok();
    let get = |name| fields.as_ref().and_then(|fields| fields.get(name));
    let text = |name| raw::filled_string(get(name));
    if text("type").as_deref() == Some("model") && text("display_name").is_some() {
        return model.entry.as_str().as_bytes().to_vec();
    }
    let shown = text("display_name").or_else(|| text("name"));
    let made_s = get("created").and_then(raw::count).unwrap_or(0);
    let made_us = i64::try_from(made_s)
        .ok()
        .and_then(|seconds| seconds.checked_mul(1_000_000))
        .unwrap_or(0);
    let mut out = b"{\"type\":\"model\"".to_vec();
    write::key(&mut out, "id");
    write::string(&mut out, &model.id);
    write::key(&mut out, "display_name");
    write::string(&mut out, shown.as_deref().unwrap_or(&model.id));
    write::key(&mut out, "created_at");
    write::string(&mut out, &Timestamp(made_us).rfc3339());
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
