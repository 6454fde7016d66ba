//! Text with `{{last_user}}`, `{{last_result}}`, `{{result_N}}` and `{{last_result.FIELD}}` in it.
//!
//! Only `{{last_…}}` and `{{result_…}}` are placeholders, so that a script can still say any other `{{name}}` literally.
//! What is filled in is never searched for placeholders again.

use std::borrow::Cow;

use serde_json::Value;

use super::TEXT_BYTES_MAX;
use super::request::SeenRequest;

#[derive(Debug)]
pub(super) struct ScriptTemplate(Vec<Part>);

#[derive(Debug)]
enum Part {
    Literal(String),
    LastUser,
    LastResult(Field),
    Result(usize, Field),
}

/// A field of a result that is a JSON object; `None` is the whole result.
type Field = Option<String>;

impl ScriptTemplate {
    /// # Errors
    ///
    /// The reason, when a placeholder begins like one of ours and is none.
    pub(super) fn parse(text: &str) -> Result<ScriptTemplate, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find("{{") {
            literal.push_str(&rest[..open]);
            let inside = &rest[open + 2..];
            let name = inside.find("}}").map(|close| &inside[..close]);
            let Some(name) = name.filter(|n| n.starts_with("last_") || n.starts_with("result_"))
            else {
                // One brace at a time, so that `{{{last_user}}}` is a brace, the text and a brace.
                literal.push('{');
                rest = &rest[open + 1..];
                continue;
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::named(name)?);
            rest = &inside[name.len() + 2..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(ScriptTemplate(parts))
    }

    /// Appends the filled-in text to `out`, as far as [`TEXT_BYTES_MAX`] bytes in all.
    pub(super) fn render_into(&self, seen: &SeenRequest, out: &mut String) {
        for part in &self.0 {
            let text = match part {
                Part::Literal(text) => Cow::Borrowed(text.as_str()),
                Part::LastUser => Cow::Borrowed(seen.last_user()),
                Part::LastResult(field) => pick(seen.last_result(), field),
                Part::Result(number, field) => pick(seen.result(*number), field),
            };
            let room = TEXT_BYTES_MAX.saturating_sub(out.len());
            out.push_str(&text[..text.floor_char_boundary(room)]);
        }
    }
}

/// The field's value, a string without its quotes; the whole result when it has no such field.
fn pick<'a>(result: &'a str, field: &Field) -> Cow<'a, str> {
    let Some(field) = field else {
        return Cow::Borrowed(result);
    };
    let object: Option<Value> = serde_json::from_str(result).ok();
    match object.as_ref().and_then(|object| object.get(field)) {
        Some(Value::String(text)) => Cow::Owned(text.clone()),
        Some(value) => Cow::Owned(value.to_string()),
        None => Cow::Borrowed(result),
    }
}

impl Part {
    fn named(name: &str) -> Result<Part, String> {
        let (what, field) = match name.split_once('.') {
            Some((what, field)) => (what, Some(field.to_owned())),
            None => (name, None),
        };
        let number = what.strip_prefix("result_").map(str::parse::<usize>);
        match (what, number) {
            ("last_user", _) if field.is_none() => Ok(Part::LastUser),
            ("last_result", _) => Ok(Part::LastResult(field)),
            (_, Some(Ok(number))) if number > 0 => Ok(Part::Result(number, field)),
            _ => Err(format!(
                "has the unknown placeholder {{{{{name}}}}}; there are last_user, last_result and result_1, result_2, …"
            )),
        }
    }
}
