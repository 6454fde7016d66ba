//! What readers of a definition are shown of it, in the parts that others ask for: stored with each version, since the
//! function schema follows from the definition by this program alone.

use serde_json::Value;
use tw_core::definition::ToolDefinition;
use tw_core::parameters::{
    Parameter, ParameterSource, ParameterValue, Parameters, SecretRef, function_parameters,
};
use tw_core::variables::{IN_PROMPTS, Variables};

use super::parameters::MASK;
use super::{DamagedRecord, decode, masked};

/// JSON of an object with `label`, `description`, `function_schema`, `static_config` (null where nothing is fixed) and
/// `config`, in which sensitive values are masked. Variables stand by their names.
///
/// # Errors
/// [`DamagedRecord`] when the text is no definition.
pub fn shown_parts(text: &str) -> Result<String, DamagedRecord> {
    let definition = decode(text).map_err(|error| DamagedRecord::new(super::WHAT, error))?;
    let config = masked(text)?;
    let description = Value::from(definition.description.written());
    let mut names = Variables::default();
    let declared = definition.variables.iter().map(|variable| &*variable.name);
    for name in declared.chain(IN_PROMPTS) {
        names.set(name, format!("{{{{{name}}}}}"));
    }
    Ok(format!(
        "{{\"label\":{},\"description\":{description},\
         \"function_schema\":{{\"name\":{},\"description\":{description},\"parameters\":{}}},\
         \"static_config\":{},\"config\":{}}}",
        Value::from(definition.label.as_str()),
        Value::from(definition.name.as_str()),
        function_parameters(&definition.parameters, &names).as_str(),
        static_config(&definition).unwrap_or_else(|| "null".to_owned()),
        config.as_str(),
    ))
}

/// What goes out with each call, whatever the model says: fixed parameters, and the static parts of query and body, which
/// win over them. `None` for none.
fn static_config(definition: &ToolDefinition) -> Option<String> {
    let mut members = fixed_members(&definition.parameters);
    let request = &definition.request;
    for (name, value) in request.query.iter().chain(&request.body) {
        members.retain(|(other, _)| other != name);
        members.push((name, json_of(value)));
    }
    object(&members)
}

fn fixed_members(parameters: &Parameters) -> Vec<(&str, String)> {
    let fixed = parameters.iter();
    let fixed = fixed.filter_map(|(name, parameter)| Some((&**name, fixed_part(parameter)?)));
    fixed.collect()
}

/// The part of a parameter's value that is fixed.
fn fixed_part(parameter: &Parameter) -> Option<String> {
    let shown = |value: &ParameterValue| match (value, parameter.sensitive) {
        // A secret is a name, and names are shown.
        (ParameterValue::Secret(_), _) | (_, false) => json_of(value),
        (_, true) => Value::from(MASK).to_string(),
    };
    match &parameter.source {
        ParameterSource::Ai(_) => None,
        ParameterSource::Fixed(fixed) => Some(shown(&fixed.value)),
        ParameterSource::ArrayExtendable { fixed, .. } => {
            let items: Vec<String> = fixed.iter().map(shown).collect();
            (!items.is_empty()).then(|| format!("[{}]", items.join(",")))
        }
        ParameterSource::Object { properties, .. } => object(&fixed_members(properties)),
        ParameterSource::Array { items, .. } => {
            let parts: Vec<Option<String>> = items.iter().map(fixed_part).collect();
            let is_any = parts.iter().any(Option::is_some);
            let parts = parts.into_iter();
            let parts: Vec<String> = parts
                .map(|part| part.unwrap_or_else(|| "null".to_owned()))
                .collect();
            is_any.then(|| format!("[{}]", parts.join(",")))
        }
    }
}

fn json_of(value: &ParameterValue) -> String {
    match value {
        ParameterValue::Literal(json) => json.as_str().to_owned(),
        ParameterValue::Text(template) => Value::from(template.written()).to_string(),
        ParameterValue::Secret(SecretRef { name, prefix }) => {
            let prefix = match prefix.is_empty() {
                true => String::new(),
                false => format!(",\"prefix\":{}", Value::from(prefix.as_str())),
            };
            format!("{{\"secret\":{}{prefix}}}", Value::from(name.as_str()))
        }
        ParameterValue::Array(items) => {
            let items: Vec<String> = items.iter().map(json_of).collect();
            format!("[{}]", items.join(","))
        }
        ParameterValue::Object(members) => {
            let members: Vec<(&str, String)> = members
                .iter()
                .map(|(name, value)| (&**name, json_of(value)))
                .collect();
            object(&members).unwrap_or_else(|| "{}".to_owned())
        }
    }
}

/// `None` for no members.
fn object(members: &[(&str, String)]) -> Option<String> {
    let members: Vec<String> = members
        .iter()
        .map(|(name, json)| format!("{}:{json}", Value::from(*name)))
        .collect();
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixed values that may not be shown are `CANARY`.
    const TOOL: &str = r#"{
        "name": "send", "description": "Sends to {{who}}.", "type": "api_request", "method": "POST",
        "url": "https://a.example/{to}", "query": { "v": "1", "k": { "secret": "K", "prefix": "Bearer " } },
        "body": { "n": 1.50, "of": { "list": [null, "{{who}}"] } },
        "variables": { "who": { "default": "all" } },
        "parameters": {
            "to": { "mode": "ai", "prompt": "Whom, {{who}}" },
            "n": { "mode": "fixed", "value": 2 },
            "from": { "mode": "fixed", "value": "CANARY", "sensitive": true },
            "cc": { "mode": "array_extendable", "fixedValues": ["a"], "aiExtension": { "prompt": "More" } },
            "bcc": { "mode": "array_extendable", "sensitive": true, "fixedValues": ["CANARY", { "secret": "B" }] },
            "none": { "mode": "array_extendable", "aiExtension": {} },
            "deep": { "mode": "object", "properties": {
                "x": { "mode": "ai" },
                "y": { "mode": "fixed", "value": true },
                "z": { "mode": "object", "sensitive": true, "properties": {
                    "w": { "mode": "fixed", "value": { "any": "CANARY" } } } } } },
            "steps": { "mode": "array", "items": [{ "mode": "ai" }, { "mode": "fixed", "value": "two" }] },
            "free": { "mode": "object", "properties": { "x": { "mode": "ai" } } }
        }
    }"#;

    #[test]
    fn the_parts_of_a_definition_hide_what_is_sensitive() {
        let shown = shown_parts(TOOL).unwrap();
        assert!(!shown.contains("CANARY"), "{shown}");
        let parts: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(parts["label"], "send");
        assert_eq!(parts["description"], "Sends to {{who}}.");
        let expected = serde_json::json!({
            "from": "***",
            "cc": ["a"],
            "bcc": ["***", { "secret": "B" }],
            "deep": { "y": true, "z": { "w": "***" } },
            "steps": [null, "two"],
            "v": "1",
            "k": { "secret": "K", "prefix": "Bearer " },
            "n": 1.50,
            "of": { "list": [null, "{{who}}"] },
        });
        assert_eq!(parts["static_config"], expected);
        assert_eq!(parts["config"]["parameters"]["from"]["value"], "***");
        let schema = &parts["function_schema"];
        assert_eq!(schema["name"], "send");
        assert_eq!(
            schema["parameters"]["properties"]["to"]["description"],
            "Whom, {{who}}"
        );
        let seen: Vec<&String> = schema["parameters"]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        assert_eq!(seen, ["to", "cc", "none", "deep", "steps", "free"]);
    }

    #[test]
    fn nothing_fixed_is_null_and_no_definition_an_error() {
        let plain =
            r#"{"name":"n","description":"","type":"api_request","url":"https://a.example/"}"#;
        let parts: Value = serde_json::from_str(&shown_parts(plain).unwrap()).unwrap();
        assert_eq!(parts["static_config"], Value::Null);
        shown_parts("{}").unwrap_err();
    }
}
