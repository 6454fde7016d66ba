//! The fields of a relayed request that matter on the way, in JSON and in multipart forms.
//!
//! Known differences: a field of these that stands twice is refused, since readers disagree about
//! which one counts; a body that is neither JSON nor a form names no model.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use super::form::{self, MultipartForm};
use crate::client_request::{RequestError, RequestErrorKind};
use crate::openai_chat::raw::{self, NotFields, ObjectFields};
use crate::openai_chat::write;

/// Longest name of a model, in bytes: several times the longest that is known.
pub const MODEL_BYTES_MAX: usize = 512;

/// The fields of a body that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayedBody {
    /// `None` if the body names none.
    pub model: Option<String>,
    /// The person that it is for, in the API's own fields.
    pub user: Option<String>,
    /// The answer is to be a stream of events.
    pub streamed: bool,
    place: ModelPlace,
}

/// The place of the model's name in the body, or the place where it would stand.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelPlace {
    /// The JSON string.
    Json(Range<usize>),
    /// The object has no model; its first field would begin there.
    JsonAbsent { at: usize, is_empty: bool },
    /// The part's content.
    Form(Range<usize>),
    /// The form has no model; a part would begin there.
    FormAbsent { at: usize, boundary: String },
    /// The body is nothing that could name one.
    Nowhere,
}

/// Reads a body by its content type.
///
/// # Errors
/// What is wrong with it.
pub fn read(content_type: Option<&str>, body: &[u8]) -> Result<RelayedBody, RequestError> {
    let kind = content_type.unwrap_or("application/json");
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("multipart/form-data") {
        return of_form(kind, body);
    }
    if essence.eq_ignore_ascii_case("application/json") {
        return of_json(body);
    }
    Ok(RelayedBody {
        model: None,
        user: None,
        streamed: false,
        place: ModelPlace::Nowhere,
    })
}

fn of_json(body: &[u8]) -> Result<RelayedBody, RequestError> {
    use RequestErrorKind::Invalid;
    let text = std::str::from_utf8(body)
        .map_err(|_| RequestError::whole(Invalid, "The request body is not valid UTF-8."))?;
    let fields = ObjectFields::parse(text).map_err(|error| match error {
        NotFields::Json(error) => RequestError::whole(
            Invalid,
            format!("The request body is not a JSON object: {error}."),
        ),
        NotFields::Duplicate(name) => twice(&name),
    })?;
    let model = match fields.get("model") {
        None => None,
        Some(raw) => {
            let name = raw::filled_string(Some(raw));
            Some(name.ok_or_else(|| not_a_name("model"))?.into_owned())
        }
    };
    let place = match fields.written("model") {
        Some(raw) => ModelPlace::Json(place_in(text, raw)),
        None => {
            let at = text.find('{').map_or(0, |brace| brace + 1);
            let is_empty = fields.0.is_empty();
            ModelPlace::JsonAbsent { at, is_empty }
        }
    };
    let streams = fields.get("stream").and_then(raw::boolean) == Some(true);
    let format = fields.get("stream_format").and_then(raw::string);
    Ok(RelayedBody {
        model: checked(model)?,
        user: first_name([fields.get("safety_identifier"), fields.get("user")]),
        streamed: streams || format.as_deref() == Some("sse"),
        place,
    })
}

/// The first of the fields that holds a name. Whatever else these fields hold is the upstream's to
/// judge.
fn first_name(fields: [Option<&RawValue>; 2]) -> Option<String> {
    let mut names = fields.into_iter().flatten().filter_map(raw::string);
    names
        .find(|name| !name.trim().is_empty())
        .map(Cow::into_owned)
}

fn place_in(text: &str, raw: &RawValue) -> Range<usize> {
    let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + raw.get().len()
}

fn of_form(content_type: &str, body: &[u8]) -> Result<RelayedBody, RequestError> {
    let form = MultipartForm::parse(content_type, body).map_err(|problem| {
        let message = format!("The multipart form cannot be read: {problem}.");
        RequestError::whole(RequestErrorKind::Invalid, message)
    })?;
    let field = |name: &str| -> Result<Option<Range<usize>>, RequestError> {
        let mut named = form.fields.iter().filter(|field| field.name == name);
        let first = named.next().map(|field| field.content.clone());
        match named.next() {
            Some(_) => Err(twice(name)),
            None => Ok(first),
        }
    };
    let text = |name: &str, place: Option<Range<usize>>| match place {
        None => Ok(None),
        Some(place) => match std::str::from_utf8(&body[place]) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(_) => Err(not_a_name(name)),
        },
    };
    let place = field("model")?;
    let model = text("model", place.clone())?;
    if model.as_deref() == Some("") {
        return Err(not_a_name("model"));
    }
    let named = |name: &str| Ok(text(name, field(name)?)?.filter(|text| !text.is_empty()));
    let streamed: Option<String> = named("stream")?;
    let user: Option<String> = named("user")?;
    Ok(RelayedBody {
        model: checked(model)?,
        user,
        streamed: streamed.is_some_and(|text| text.eq_ignore_ascii_case("true") || text == "1"),
        place: match place {
            Some(place) => ModelPlace::Form(place),
            None => ModelPlace::FormAbsent {
                at: form.begins,
                boundary: form.boundary,
            },
        },
    })
}

fn checked(model: Option<String>) -> Result<Option<String>, RequestError> {
    match model {
        Some(model) if model.len() > MODEL_BYTES_MAX => {
            let message = format!("The model's name is longer than {MODEL_BYTES_MAX} bytes.");
            Err(RequestError::invalid("model", message))
        }
        model => Ok(model),
    }
}

fn twice(name: &str) -> RequestError {
    RequestError::invalid(name, format!("'{name}' is given twice."))
}

fn not_a_name(field: &str) -> RequestError {
    RequestError::wrong_type(field, "a string that is not empty")
}

impl RelayedBody {
    /// The body with this name for the model; unchanged if it cannot name one.
    pub fn with_model(&self, body: &[u8], model: &str) -> Vec<u8> {
        let (place, written) = match &self.place {
            ModelPlace::Json(place) => (place.clone(), json_string(model)),
            ModelPlace::JsonAbsent { at, is_empty } => {
                let mut field = b"\"model\":".to_vec();
                field.extend(json_string(model));
                if !is_empty {
                    field.push(b',');
                }
                (*at..*at, field)
            }
            ModelPlace::Form(place) => (place.clone(), model.as_bytes().to_vec()),
            ModelPlace::FormAbsent { at, boundary } => {
                (*at..*at, form::part(boundary, "model", model))
            }
            ModelPlace::Nowhere => (0..0, Vec::new()),
        };
        let mut changed = Vec::with_capacity(body.len() + written.len());
        changed.extend_from_slice(&body[..place.start]);
        changed.extend_from_slice(&written);
        changed.extend_from_slice(&body[place.end..]);
        changed
    }
}

fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write::string(&mut out, text);
    out
}

#[cfg(test)]
mod tests;
