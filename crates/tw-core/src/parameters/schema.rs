//! The function schema: what of the parameters the model sees.
//!
//! Only schemas, prompts, descriptions and names go in; nothing here reads a fixed value.

use serde_json::Value;

use super::{ModelParameter, Parameter, ParameterSource, Parameters, SchemaExtension, item_name};
use crate::json::Json;
use crate::json::tree::JsonTree;
use crate::template::{Prompts, TextTemplate};
use crate::variables::Variables;

/// The JSON Schema object of what the model fills in, in the order written.
///
/// Schemas go in as they were written, with the prompt as their description if they have none.
/// A reference in one of them means a place in itself, as written; it is given the way there.
pub fn function_parameters(parameters: &Parameters, variables: &Variables) -> Json {
    function_parameters_with(parameters, &Prompts::new(variables))
}

/// The same, where other texts are among the tool's prompts.
pub(crate) fn function_parameters_with(parameters: &Parameters, prompts: &Prompts<'_>) -> Json {
    let members = parameters.iter().map(|(name, p)| (name.clone(), p));
    let seen = object(members, None, &Place::root(prompts));
    // The text is made of texts that were checked, so the fallback is never reached.
    Json::parse(&seen.schema).unwrap_or_else(|_| Json::from_value(&Value::Null))
}

/// A place in the schema, and the values that fill its prompts.
struct Place<'a> {
    /// A JSON pointer.
    pointer: String,
    prompts: &'a Prompts<'a>,
}

impl<'a> Place<'a> {
    fn root(prompts: &'a Prompts<'a>) -> Self {
        Self {
            pointer: String::new(),
            prompts,
        }
    }

    /// `way` needs no escapes: names of parameters hold neither `~` nor `/`.
    fn within(&self, way: &str) -> Self {
        Self {
            pointer: format!("{}/{way}", self.pointer),
            prompts: self.prompts,
        }
    }

    fn prompt(&self, prompt: Option<&TextTemplate>) -> Option<String> {
        let text = self.prompts.render(prompt?);
        (!text.is_empty()).then_some(text)
    }
}

/// A parameter as the model sees it.
struct Seen {
    schema: String,
    is_required: bool,
    /// The model has some part of the parameter to fill in.
    is_visible: bool,
}

fn parameter(parameter: &Parameter, place: &Place<'_>) -> Option<Seen> {
    match &parameter.source {
        ParameterSource::Ai(ai) => Some(written(ai, place)),
        ParameterSource::Fixed(_) => None,
        ParameterSource::ArrayExtendable { extension, .. } => {
            extension.as_ref().map(|more| array_of(more, place))
        }
        ParameterSource::Object {
            properties,
            description,
        } => {
            let members = properties.iter().map(|(name, p)| (name.clone(), p));
            Some(object(members, description.as_ref(), place)).filter(|seen| seen.is_visible)
        }
        ParameterSource::Array { items, description } => {
            let members = items
                .iter()
                .enumerate()
                .map(|(index, p)| (item_name(index), p));
            Some(object(members, description.as_ref(), place)).filter(|seen| seen.is_visible)
        }
    }
}

fn written(ai: &ModelParameter, place: &Place<'_>) -> Seen {
    Seen {
        schema: described(&ai.schema, place.prompt(ai.prompt.as_ref()), place),
        is_required: ai.required,
        is_visible: true,
    }
}

fn array_of(extension: &SchemaExtension, place: &Place<'_>) -> Seen {
    let mut schema = "{\"type\":\"array\"".to_owned();
    if let Some(prompt) = place.prompt(extension.prompt.as_ref()) {
        push_member(&mut schema, "description", &quoted(&prompt));
    }
    let items = described(&extension.items, None, &place.within("items"));
    push_member(&mut schema, "items", &items);
    schema.push('}');
    Seen {
        schema,
        is_required: extension.required,
        is_visible: true,
    }
}

fn object<'a>(
    members: impl Iterator<Item = (String, &'a Parameter)>,
    description: Option<&TextTemplate>,
    place: &Place<'_>,
) -> Seen {
    let inside = place.within("properties");
    let (mut properties, mut required) = (String::new(), Vec::new());
    for (name, member) in members {
        let Some(seen) = parameter(member, &inside.within(&name)) else {
            continue;
        };
        push_member(&mut properties, &name, &seen.schema);
        if seen.is_required {
            required.push(quoted(&name));
        }
    }
    let mut schema = "{\"type\":\"object\"".to_owned();
    if let Some(description) = place.prompt(description) {
        push_member(&mut schema, "description", &quoted(&description));
    }
    let is_visible = !properties.is_empty();
    let properties = properties.trim_start_matches(',');
    push_member(&mut schema, "properties", &format!("{{{properties}}}"));
    push_member(
        &mut schema,
        "required",
        &format!("[{}]", required.join(",")),
    );
    push_member(&mut schema, "additionalProperties", "false");
    schema.push('}');
    Seen {
        schema,
        is_required: !required.is_empty(),
        is_visible,
    }
}

/// The schema as written, where possible byte by byte.
fn described(schema: &Json, prompt: Option<String>, place: &Place<'_>) -> String {
    let as_written = schema.as_str().to_owned();
    // A schema that is no object, or too deep, does not pass the check of a definition.
    let Some(JsonTree::Object(members)) = JsonTree::read(schema) else {
        return as_written;
    };
    let has_description = members.iter().any(|(name, _)| name == "description");
    let is_empty = members.is_empty();
    let mut text = if as_written.contains("$ref") || as_written.contains('\\') {
        let mut tree = JsonTree::Object(members);
        place_references(&mut tree, &place.pointer, NamedBy::Keyword);
        tree.to_json().as_str().to_owned()
    } else {
        as_written
    };
    if let Some(prompt) = prompt.filter(|_| !has_description) {
        text.pop();
        let member = format!("\"description\":{}}}", quoted(&prompt));
        if !is_empty {
            text.truncate(text.trim_end().len());
            text.push(',');
        }
        text.push_str(&member);
    }
    text
}

/// Keywords that hold values, not schemas.
pub(crate) const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];

/// Keywords whose members are named by the owner: a property may be called `$ref`.
pub(crate) const NAMED: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// The origin of the names of an object's members: keywords of JSON Schema, or the owner's choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    Keyword,
    Owner,
}

fn place_references(tree: &mut JsonTree, pointer: &str, named_by: NamedBy) {
    match tree {
        JsonTree::Object(members) => {
            for (name, value) in members {
                let is_keyword =
                    |of: &[&str]| named_by == NamedBy::Keyword && of.contains(&&**name);
                if is_keyword(&DATA) {
                    continue;
                }
                match value {
                    JsonTree::Text(target) if is_keyword(&["$ref"]) => {
                        if let Some(way) = target.strip_prefix('#') {
                            *target = format!("#{pointer}{way}");
                        }
                    }
                    JsonTree::Text(_) | JsonTree::Scalar(_) => {}
                    JsonTree::Array(_) | JsonTree::Object(_) => {
                        let inside = if is_keyword(&NAMED) {
                            NamedBy::Owner
                        } else {
                            NamedBy::Keyword
                        };
                        place_references(value, pointer, inside);
                    }
                }
            }
        }
        JsonTree::Array(items) => {
            for item in items {
                place_references(item, pointer, NamedBy::Keyword);
            }
        }
        JsonTree::Text(_) | JsonTree::Scalar(_) => {}
    }
}

fn push_member(out: &mut String, name: &str, value: &str) {
    out.push(',');
    out.push_str(&quoted(name));
    out.push(':');
    out.push_str(value);
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
