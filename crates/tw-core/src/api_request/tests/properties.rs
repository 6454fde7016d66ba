use proptest::prelude::*;
use serde_json::{Value, json};
use url::Url;

use super::{given, variables};
use crate::api_request::UrlTemplate;
use crate::arguments;
use crate::definition::tests::sample;
use crate::json::tree::tests::any_json;
use crate::parameters::tests::any_parameters;
use crate::variables::Variables;

/// Texts made of what means something in a URL, and of anything.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a./%2eE\\\\?#&=@:{}\\[\\] ;+]{0,12}",
        ".{0,12}",
        any::<String>()
    ]
}

fn segments(url: &Url) -> Vec<String> {
    let decoded = |segment: &str| {
        // A form decodes `+` as well, which never stands in what we write.
        assert!(!segment.contains('+'), "{segment}");
        let mut pairs = url::form_urlencoded::parse(segment.as_bytes());
        pairs
            .next()
            .map(|(name, _)| name.into_owned())
            .unwrap_or_default()
    };
    url.path_segments().unwrap().map(decoded).collect()
}

proptest! {
    #[test]
    fn a_parser_finds_the_segments_and_values_that_went_in(
        x in hostile(), y in hostile(), variable in hostile(), member in hostile(),
    ) {
        let tool = json!({
            "url": "https://h.example:8443/a/{x}/{{v}}/z?y={y}",
            "query": {"s": "{{v}}"},
            "parameters": {"x": {"mode": "ai"}, "y": {"mode": "ai"}, "m": {"mode": "ai"}},
        });
        let mut variables = Variables::default();
        variables.set("v", variable.clone());
        let args = arguments::read_stored(&json!({"x": x, "y": y, "m": member}).to_string()).unwrap();
        if let Ok(request) = sample::definition(&tool).request(&args, &given(&variables)) {
            let url = Url::parse(&request.url).unwrap();
            prop_assert_eq!(url.as_str(), &request.url);
            prop_assert_eq!(segments(&url), ["a", x.as_str(), variable.as_str(), "z"]);
            let pairs: Vec<_> = url.query_pairs().into_owned().collect();
            let expected = [("y", y), ("m", member), ("s", variable)];
            let expected: Vec<_> = expected.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
            prop_assert_eq!(pairs, expected);
        }
    }

    #[test]
    fn the_place_is_always_the_templates(
        path in "[a/{}x.%2e?&=v]{0,16}", value in hostile(),
    ) {
        let written = format!("https://h.example:8443{path}");
        let Ok(template) = UrlTemplate::parse(&written) else { return Ok(()) };
        prop_assert_eq!(template.origin(), "https://h.example:8443");
        let mut variables = Variables::default();
        variables.set("v", value.clone());
        variables.set("x", value.clone());
        let tool = json!({"url": written, "parameters": {"x": {"mode": "ai"}, "v": {"mode": "ai"}, "a": {"mode": "ai"}}});
        let args = json!({"x": value, "v": value, "a": value}).to_string();
        let args = arguments::read_stored(&args).unwrap();
        if let Ok(request) = sample::definition(&tool).request(&args, &given(&variables)) {
            let url = Url::parse(&request.url).unwrap();
            prop_assert_eq!(url.scheme(), "https");
            prop_assert_eq!(url.host_str(), Some("h.example"));
            prop_assert_eq!(url.port(), Some(8443));
            prop_assert_eq!(url.username(), "");
        }
    }

    #[test]
    fn building_never_panics_and_headers_are_clean(
        parameters in any_parameters(), args in any_json(), form in any::<bool>(), place in 0..4usize,
    ) {
        let mut parameters = parameters;
        for parameter in parameters.as_object_mut().unwrap().values_mut() {
            parameter["in"] = json!(["query", "header", "body", "body"][place]);
        }
        let tool = json!({
            "method": "POST", "body_format": if form { "form" } else { "json" }, "parameters": parameters,
            "body": {"a": {"b": "static"}}, "headers": {"a": "static"}, "query": {"a": "static", "b[c]": "static"},
        });
        let members = match args {
            Value::Object(members) => members,
            other => {
                let names: Vec<_> = tool["parameters"].as_object().unwrap().keys().cloned().collect();
                names.into_iter().map(|name| (name, other.clone())).collect()
            }
        };
        let args = arguments::read_stored(&Value::Object(members).to_string()).unwrap();
        let definition = sample::definition(&tool);
        let variables = variables();
        let mut given = given(&variables);
        given.secret = &|_| Some("CANARY".to_owned());
        if let Ok(request) = definition.request(&args, &given) {
            for (name, value) in &request.headers {
                prop_assert!(!value.contains(char::is_control), "{}: {:?}", name, value);
            }
            prop_assert_eq!(request.headers[0].clone(), ("a".to_owned(), "static".to_owned()));
            if !form {
                let body: Value = serde_json::from_str(request.body.as_deref().unwrap()).unwrap();
                prop_assert_eq!(&body["a"]["b"], "static");
            }
        }
        let _ = definition.identity(&args, &variables);
    }

    #[test]
    fn static_members_win_at_every_depth(model in any_json(), fixed in any_json()) {
        let Value::Object(fixed) = fixed else { return Ok(()) };
        let as_static = as_literal(&Value::Object(fixed.clone()));
        let mut tool = json!({"method": "POST", "body": {"p": {}}, "parameters": {"p": {"mode": "ai", "schema": {}}}});
        tool["body"]["p"] = as_static.clone();
        let args = arguments::read_stored(&json!({"p": model}).to_string()).unwrap();
        let request = sample::definition(&tool).request(&args, &given(&Variables::default())).unwrap();
        let body: Value = serde_json::from_str(&request.body.unwrap()).unwrap();
        prop_assert!(holds(&body["p"], &as_static), "{} {}", body, as_static);
    }
}

/// The same without texts that would be templates or secrets.
fn as_literal(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(text.replace("{{", "<<")),
        Value::Array(items) => items.iter().map(as_literal).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), as_literal(member)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Whether every leaf of `part` is in `whole`.
fn holds(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(members) => {
            whole.is_object() && members.iter().all(|(name, m)| holds(&whole[name], m))
        }
        leaf => whole == leaf,
    }
}
