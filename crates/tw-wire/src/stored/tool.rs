//! Tools as data: the JSON of a tool, which is the body of the tools API, what is stored, and an
//! element of a tool file.
//!
//! Everything is read by hand from the text, so that every error names the field that it is
//! about, and schemas and numbers stay as they were written. Reading says whether the shape is
//! right; `ToolDefinition::check` says whether the tool can be used.
//!
//! Null is a value where any JSON may stand, and a wrong type everywhere else.

pub mod file;

mod completion;
mod image;
mod parameters;
mod patch;
mod read;
mod response;
mod shown_parts;
mod values;

mod value_at_path;
mod whole;

use serde_json::Value;
use tw_core::definition::{DefinitionError, ToolDefinition};
use tw_core::id::ToolId;
use tw_core::json::Json;
use tw_core::parameters::function_parameters;
use tw_core::time::Timestamp;
use tw_core::variables::Variables;

use super::DamagedRecord;
use parameters::{MASK, Visibility};

pub use shown_parts::shown_parts;

const WHAT: &str = "tool";

/// Reads a definition.
///
/// # Errors
/// [`DefinitionError`] for the first thing that is not as it must be.
pub fn decode(text: &str) -> Result<ToolDefinition, DefinitionError> {
    read::read(text).map(|read| read.definition)
}

/// A stored definition as its owner may see it.
///
/// # Errors
/// [`DamagedRecord`] when the text is no definition.
pub fn shown(text: &str) -> Result<Value, DamagedRecord> {
    masked(text).map(|json| json.to_value())
}

/// The same as text: as it was written, with `"***"` for each sensitive fixed value.
///
/// # Errors
/// [`DamagedRecord`] when the text is no definition.
pub fn masked(text: &str) -> Result<Json, DamagedRecord> {
    let read = read::read(text).map_err(|error| DamagedRecord::new(WHAT, error))?;
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    // They are noted in the order in which they stand in the text.
    for found in &read.statics.0 {
        match found.visibility {
            Visibility::Shown => continue,
            Visibility::Masked => {}
        }
        let value = found.place.raw.get();
        let start = value.as_ptr().addr() - text.as_ptr().addr();
        out.push_str(&text[copied..start]);
        out.push('"');
        out.push_str(MASK);
        out.push('"');
        copied = start + value.len();
    }
    out.push_str(&text[copied..]);
    Json::parse(&out).map_err(|error| DamagedRecord::new(WHAT, error))
}

/// A stored definition with a merge patch (RFC 7396) over it.
///
/// A `"***"` that comes back keeps what is stored at its place, if that is masked there. What is
/// masked stays masked unless the patch holds another value for it.
///
/// # Errors
/// [`DefinitionError`] when the patch is no object, or the result cannot be read.
pub fn merge_patch(stored: &str, patch: &str) -> Result<String, DefinitionError> {
    patch::merge(stored, patch)
}

/// The record of a stored tool beside its definition.
#[derive(Clone, Copy, Debug)]
pub struct SavedTool {
    pub id: ToolId,
    pub version: u32,
    /// Time when the tool was made.
    pub created: Timestamp,
    /// Time when this version was made.
    pub updated: Timestamp,
}

/// The JSON of a stored tool as the tools API answers with it; `definition` is that of `text`.
///
/// # Errors
/// [`DamagedRecord`] when the text is no definition.
pub fn told(
    saved: &SavedTool,
    definition: &ToolDefinition,
    text: &str,
) -> Result<String, DamagedRecord> {
    let none = Variables::default();
    let masked = masked(text)?;
    // An object with at least a name, so something stands between the braces.
    let members = masked
        .as_str()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .ok_or_else(|| DamagedRecord::new(WHAT, "no object"))?;
    Ok(format!(
        "{{\"id\":\"{}\",\"object\":\"tool\",\"version\":{},\"created_at\":{},\"updated_at\":{},{members},\
         \"function_schema\":{{\"name\":{},\"description\":{},\"parameters\":{}}}}}",
        saved.id,
        saved.version,
        saved.created.seconds(),
        saved.updated.seconds(),
        Value::from(definition.name.as_str()),
        Value::from(definition.description.render_or_empty(&none)),
        function_parameters(&definition.parameters, &none).as_str(),
    ))
}

#[cfg(test)]
mod tests;
