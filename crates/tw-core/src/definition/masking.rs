//! Arguments of a call as they may be shown: without those of sensitive parameters.

use serde_json::Value;

use super::ToolDefinition;
use crate::parameters::{Parameter, ParameterSource, Parameters, item_name};

/// Text in place of a sensitive value.
pub const MASK: &str = "***";
/// Shortest text of a sensitive value that is looked for in a result: shorter ones stand in anything.
const FOUND_BYTES_MIN: usize = 4;

/// Arguments and a result of a call, without what is sensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedCall {
    pub arguments: String,
    pub shown: String,
}

/// What of a call's arguments may not be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensitiveCall {
    /// The arguments, with `***` for each value of a sensitive parameter.
    pub arguments: String,
    /// Texts that may not be shown in the result either, the longest first.
    pub hidden: Vec<String>,
}

impl SensitiveCall {
    /// A result with `***` in the places of what may not be shown.
    pub fn masked(&self, shown: &str) -> String {
        let hidden = self.hidden.iter();
        hidden.fold(shown.to_owned(), |shown, text| shown.replace(text, MASK))
    }
}

impl ToolDefinition {
    /// What may not be shown of a call with these arguments, which are as the model wrote them; `None` for a tool without
    /// sensitive parameters. Arguments that are no JSON object are hidden whole.
    pub fn sensitive_call(&self, arguments: &str) -> Option<SensitiveCall> {
        if !has_sensitive(&self.parameters) {
            return None;
        }
        let mut hidden = Vec::new();
        let arguments = match serde_json::from_str(arguments) {
            Ok(Value::Object(mut members)) => {
                mask_members(&self.parameters, &mut members, &mut hidden);
                Value::Object(members).to_string()
            }
            Ok(_) | Err(_) => MASK.to_owned(),
        };
        // The longest first, since one may be a part of another.
        hidden.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Some(SensitiveCall { arguments, hidden })
    }

    /// The arguments, as the model wrote them, with `***` for each value of a sensitive parameter, and the result with
    /// `***` wherever it repeats one. Arguments that are no JSON object are masked whole if the tool has any such parameter.
    pub fn masked_call(&self, arguments: &str, shown: &str) -> MaskedCall {
        match self.sensitive_call(arguments) {
            None => MaskedCall {
                arguments: arguments.to_owned(),
                shown: shown.to_owned(),
            },
            Some(sensitive) => MaskedCall {
                shown: sensitive.masked(shown),
                arguments: sensitive.arguments,
            },
        }
    }
}

fn has_sensitive(parameters: &Parameters) -> bool {
    parameters
        .iter()
        .any(|(_, parameter)| is_sensitive(parameter))
}

fn is_sensitive(parameter: &Parameter) -> bool {
    parameter.sensitive
        || match &parameter.source {
            ParameterSource::Ai(_)
            | ParameterSource::Fixed(_)
            | ParameterSource::ArrayExtendable { .. } => false,
            ParameterSource::Object { properties, .. } => has_sensitive(properties),
            ParameterSource::Array { items, .. } => items.iter().any(is_sensitive),
        }
}

fn mask_members(
    parameters: &Parameters,
    members: &mut serde_json::Map<String, Value>,
    hidden: &mut Vec<String>,
) {
    for (name, parameter) in parameters {
        if let Some(value) = members.get_mut(name) {
            mask(parameter, value, hidden);
        }
    }
}

fn mask(parameter: &Parameter, value: &mut Value, hidden: &mut Vec<String>) {
    if parameter.sensitive {
        collect(value, hidden);
        *value = Value::String(MASK.to_owned());
        return;
    }
    match (&parameter.source, value) {
        (ParameterSource::Object { properties, .. }, Value::Object(members)) => {
            mask_members(properties, members, hidden);
        }
        (ParameterSource::Array { items, .. }, Value::Object(members)) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(value) = members.get_mut(&item_name(index)) {
                    mask(item, value, hidden);
                }
            }
        }
        // Something else than the schema asks for may hold anything, in any place.
        (ParameterSource::Object { .. } | ParameterSource::Array { .. }, value) => {
            if is_sensitive(parameter) {
                collect(value, hidden);
                *value = Value::String(MASK.to_owned());
            }
        }
        (
            ParameterSource::Ai(_)
            | ParameterSource::Fixed(_)
            | ParameterSource::ArrayExtendable { .. },
            _,
        ) => {}
    }
}

/// The texts and numbers in a value.
fn collect(value: &Value, hidden: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => keep(number.to_string(), hidden),
        Value::String(text) => keep(text.clone(), hidden),
        Value::Array(items) => items.iter().for_each(|item| collect(item, hidden)),
        Value::Object(members) => members.values().for_each(|value| collect(value, hidden)),
    }
}

fn keep(text: String, hidden: &mut Vec<String>) {
    if text.len() < FOUND_BYTES_MIN {
        return;
    }
    // A result that is JSON may repeat it with escapes.
    let written = Value::String(text.clone()).to_string();
    let inside = written
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    hidden.extend(inside.filter(|inside| *inside != text).map(str::to_owned));
    hidden.push(text);
}
