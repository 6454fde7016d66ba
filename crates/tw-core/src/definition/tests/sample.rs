//! Definitions for tests, from JSON as the tools API has it. Lenient where the real codec is not.

use std::time::Duration;

use serde_json::Value as J;

use crate::api_request::{ApiRequest, BodyFormat, LookUpRequest, Method, UrlTemplate};
use crate::definition::{
    DeclaredVariable, ResponseRules, ResponseSelect, StatusRule, ToolDefinition,
};
use crate::json::Json;
use crate::parameters::{
    FixedParameter, ModelParameter, Parameter, ParameterPlace, ParameterSource, ParameterValue,
    Parameters, SchemaExtension, SecretRef,
};
use crate::template::TextTemplate;
use crate::tool::{CacheRules, CacheScope, CallPolicy, EffectClass};

pub(crate) fn definition(tool: &J) -> ToolDefinition {
    let method = Method::parse(tool["method"].as_str().unwrap_or("GET")).unwrap();
    let name = tool["name"].as_str().unwrap_or("sample");
    ToolDefinition {
        name: name.to_owned(),
        label: tool["label"].as_str().unwrap_or(name).to_owned(),
        description: template(tool["description"].as_str().unwrap_or("A sample.")),
        parameters: parameters(&tool["parameters"]),
        variables: members(&tool["variables"])
            .map(|(name, variable)| DeclaredVariable {
                name: name.clone(),
                description: String::new(),
                default: variable["default"].as_str().map(str::to_owned),
            })
            .collect(),
        request: ApiRequest {
            method,
            url: url(&tool["url"]),
            headers: values(&tool["headers"]),
            query: values(&tool["query"]),
            body: values(&tool["body"]),
            body_format: BodyFormat::parse(tool["body_format"].as_str().unwrap_or("json")).unwrap(),
            body_under: tool["body_under"].as_str().map(str::to_owned),
            look_up: tool.get("look_up").map(|look_up| LookUpRequest {
                url: url(&look_up["url"]),
                headers: values(&look_up["headers"]),
                query: values(&look_up["query"]),
                absent: numbers(&look_up["absent"], 404),
            }),
        },
        response: response(&tool["response"]),
        policy: policy(method, tool),
        job: None,
    }
}

fn url(text: &J) -> UrlTemplate {
    UrlTemplate::parse(text.as_str().unwrap_or("https://api.example.com/v1")).unwrap()
}

fn template(text: &str) -> TextTemplate {
    TextTemplate::parse(text).unwrap()
}

fn members(object: &J) -> impl Iterator<Item = (&String, &J)> {
    object.as_object().into_iter().flatten()
}

fn values(object: &J) -> Vec<(String, ParameterValue)> {
    members(object)
        .map(|(name, member)| (name.clone(), value(member)))
        .collect()
}

pub(crate) fn value(json: &J) -> ParameterValue {
    match json {
        J::Null | J::Bool(_) | J::Number(_) => ParameterValue::Literal(Json::from_value(json)),
        J::String(text) => ParameterValue::Text(template(text)),
        J::Array(items) => ParameterValue::Array(items.iter().map(value).collect()),
        J::Object(_) if json["secret"].is_string() => ParameterValue::Secret(SecretRef {
            name: json["secret"].as_str().unwrap().to_owned(),
            prefix: json["prefix"].as_str().unwrap_or_default().to_owned(),
        }),
        J::Object(_) => ParameterValue::Object(values(json)),
    }
}

pub(crate) fn parameters(object: &J) -> Parameters {
    members(object)
        .map(|(name, written)| (name.clone(), parameter(written)))
        .collect()
}

fn parameter(written: &J) -> Parameter {
    let prompt = |object: &J, name: &str| object[name].as_str().map(template);
    let description = prompt(written, "description");
    let source = match written["mode"].as_str().unwrap() {
        "ai" => ParameterSource::Ai(ModelParameter {
            schema: schema(&written["schema"]),
            prompt: prompt(written, "prompt"),
            required: written["required"] != false,
        }),
        "fixed" => ParameterSource::Fixed(FixedParameter {
            value: value(&written["value"]),
            is_uri: written["format"] == "uri",
        }),
        "array_extendable" => ParameterSource::ArrayExtendable {
            fixed: written["fixedValues"]
                .as_array()
                .into_iter()
                .flatten()
                .map(value)
                .collect(),
            extension: (written["aiExtension"]["enabled"] == true).then(|| SchemaExtension {
                items: schema(&written["aiExtension"]["items"]),
                prompt: prompt(&written["aiExtension"], "prompt"),
                required: written["aiExtension"]["required"] == true,
            }),
        },
        "object" => ParameterSource::Object {
            properties: parameters(&written["properties"]),
            description,
        },
        "array" => ParameterSource::Array {
            items: written["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(parameter)
                .collect(),
            description,
        },
        other => panic!("{other}"),
    };
    Parameter {
        source,
        place: written["in"].as_str().map(|place| match place {
            "path" => ParameterPlace::Path,
            "query" => ParameterPlace::Query,
            "header" => ParameterPlace::Header,
            "body" => ParameterPlace::Body,
            other => panic!("{other}"),
        }),
        sensitive: written["sensitive"] == true,
    }
}

/// A string is taken as the schema's text, so that a case can choose its bytes.
fn schema(written: &J) -> Json {
    match written {
        J::String(text) => Json::parse(text).unwrap(),
        J::Null => Json::parse(r#"{"type":"string"}"#).unwrap(),
        J::Bool(_) | J::Number(_) | J::Array(_) | J::Object(_) => Json::from_value(written),
    }
}

fn response(written: &J) -> ResponseRules {
    let path = |text: &J| serde_json_path::JsonPath::parse(text.as_str().unwrap()).unwrap();
    let select = match &written["select"] {
        J::Null => None,
        J::Object(paths) => Some(ResponseSelect::Named(
            paths
                .iter()
                .map(|(name, text)| (name.clone(), path(text)))
                .collect(),
        )),
        text => Some(ResponseSelect::One(path(text))),
    };
    let texts = |list: &J, default: &[&str]| match list.as_array() {
        None => default.iter().map(|&text| text.to_owned()).collect(),
        Some(list) => list
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect(),
    };
    let statuses = match written["statuses"].as_array() {
        None => vec![StatusRule::Hundred(2)],
        Some(list) => list
            .iter()
            .map(|rule| match rule.as_str() {
                Some(text) => StatusRule::Hundred(text[..1].parse().unwrap()),
                None => StatusRule::Exactly(rule.as_u64().unwrap().try_into().unwrap()),
            })
            .collect(),
    };
    ResponseRules {
        select,
        content_types: texts(
            &written["content_types"],
            &["text/*", "application/json", "*/*+json"],
        ),
        statuses,
        kept_bytes_max: number(&written["kept_bytes_max"], 1 << 20),
    }
}

fn policy(method: Method, tool: &J) -> CallPolicy {
    let written = &tool["policy"];
    let effect = match written["effect"].as_str() {
        Some(text) => EffectClass::parse(text).unwrap(),
        None => match method {
            Method::Get | Method::Head => EffectClass::Read,
            Method::Put | Method::Delete => EffectClass::Idempotent,
            Method::Post | Method::Patch => EffectClass::Once,
        },
    };
    let mut policy = CallPolicy::new(effect);
    policy.timeout = Duration::from_millis(number(&written["timeout_ms"], 10_000) as u64);
    policy.attempts_max = number(&written["attempts_max"], 3) as u32;
    policy.backoff = Duration::from_millis(number(&written["backoff_ms"], 200) as u64);
    policy.concurrency_max = number(&written["concurrency_max"], 64) as u32;
    policy.shown_bytes_max = number(&tool["response"]["shown_bytes_max"], 16 * 1024);
    policy.cache = written.get("cache").map(|cache| CacheRules {
        lifetime: Duration::from_secs(number(&cache["lifetime_s"], 300) as u64),
        scope: CacheScope::parse(cache["scope"].as_str().unwrap_or("organization")).unwrap(),
    });
    policy
}

fn number(written: &J, default: usize) -> usize {
    written
        .as_u64()
        .map_or(default, |number| number.try_into().unwrap())
}

fn numbers(list: &J, default: u16) -> Vec<u16> {
    match list.as_array() {
        None => vec![default],
        Some(list) => list
            .iter()
            .map(|number| number.as_u64().unwrap().try_into().unwrap())
            .collect(),
    }
}
