//! What each member becomes.

use std::time::Duration;

use serde_json_path::JsonPath;
use tw_core::api_request::{BodyFormat, Method};
use tw_core::definition::{ResponseSelect, StatusRule};
use tw_core::json::Json;
use tw_core::limits::RequestLimits;
use tw_core::parameters::{ParameterPlace, ParameterSource, ParameterValue, SecretRef};
use tw_core::template::TextTemplate;
use tw_core::tool::{
    CacheRules, CacheScope, CallCompletion, CallPolicy, EffectClass, JobCompletion, JobPolls,
};

use super::{EVERYTHING, read, with};
use crate::stored::tool::decode;

fn text(template: &str) -> ParameterValue {
    ParameterValue::Text(TextTemplate::parse(template).unwrap())
}

fn literal(json: &str) -> ParameterValue {
    ParameterValue::Literal(Json::parse(json).unwrap())
}

fn named(name: &str, value: ParameterValue) -> (String, ParameterValue) {
    (name.to_owned(), value)
}

fn secret(name: &str, prefix: &str) -> ParameterValue {
    ParameterValue::Secret(SecretRef {
        name: name.to_owned(),
        prefix: prefix.to_owned(),
    })
}

#[test]
fn the_request_is_read() {
    let request = read(EVERYTHING).request;
    assert_eq!(request.method, Method::Post);
    assert_eq!(
        request.url.written(),
        "https://api.example.com/v1/customers/{customer}/tickets"
    );
    assert_eq!(
        request.headers,
        [
            named("authorization", secret("TICKETS_KEY", "Bearer ")),
            named("x-org", text("{{organization}}")),
        ]
    );
    assert_eq!(
        request.query,
        [
            named("source", text("agent")),
            named("n", literal("1.50")),
            named(
                "all",
                ParameterValue::Array(vec![literal("true"), text("x")])
            ),
        ]
    );
    let origin = ParameterValue::Object(vec![
        named("channel", text("chat")),
        named("none", literal("null")),
        named("big", literal("12345678901234567890123")),
    ]);
    assert_eq!(request.body, [named("origin", origin)]);
    assert_eq!(request.body_format, BodyFormat::Json);
    let look_up = request.look_up.unwrap();
    assert_eq!(
        look_up.url.written(),
        "https://api.example.com/v1/tickets?reference={{reference}}"
    );
    assert_eq!(
        look_up.headers,
        [named("authorization", secret("TICKETS_KEY", ""))]
    );
    assert_eq!(look_up.query, [named("a", text("b"))]);
    assert_eq!(look_up.absent, [404]);
}

#[test]
fn the_parameters_are_read_in_their_order() {
    let parameters = read(EVERYTHING).parameters;
    let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["customer", "priority", "cc", "contact", "steps"]);
    let sources: Vec<ParameterSource> = parameters
        .into_iter()
        .map(|(_, parameter)| parameter.source)
        .collect();
    let [
        ParameterSource::Ai(customer),
        ParameterSource::Fixed(priority),
        ParameterSource::ArrayExtendable { fixed, extension },
        ParameterSource::Object {
            properties,
            description,
        },
        ParameterSource::Array { items, .. },
    ] = &sources[..]
    else {
        panic!("{sources:?}");
    };
    assert_eq!(customer.schema.as_str(), r#"{"type":"string"}"#);
    assert_eq!(
        customer.prompt.as_ref().unwrap().written(),
        "The customer's id"
    );
    assert!(customer.required);
    assert_eq!(priority.value, text("high"));
    assert!(!priority.is_uri);
    assert_eq!(*fixed, [text("+1234567890")]);
    let extension = extension.as_ref().unwrap();
    assert_eq!(extension.items.as_str(), r#"{"type":"string"}"#);
    assert!(!extension.required);
    assert_eq!(description.as_ref().unwrap().written(), "Who");
    assert_eq!(properties[0].0, "email");
    assert_eq!(properties[1].0, "kind");
    assert!(
        matches!(&items[0].source, ParameterSource::Fixed(fixed) if fixed.value == text("hello"))
    );
    assert!(matches!(&items[1].source, ParameterSource::Ai(_)));
}

#[test]
fn the_rest_is_read() {
    let definition = read(EVERYTHING);
    assert_eq!(definition.label, "Create a ticket");
    let variable = &definition.variables[0];
    assert_eq!(variable.name, "caller_phone_number");
    assert_eq!(variable.description, "Who calls");
    assert_eq!(variable.default.as_deref(), Some("unknown"));
    let response = &definition.response;
    let path = JsonPath::parse("$.data.id").unwrap();
    assert_eq!(response.select, Some(ResponseSelect::One(path)));
    assert_eq!(response.content_types, ["application/json", "text/*"]);
    assert_eq!(
        response.statuses,
        [StatusRule::Hundred(2), StatusRule::Exactly(404)]
    );
    assert_eq!(response.kept_bytes_max, 1_048_575);
    assert_eq!(
        definition.policy,
        CallPolicy {
            effect: EffectClass::Queryable,
            timeout: Duration::from_millis(10_001),
            attempts_max: 2,
            backoff: Duration::from_millis(201),
            concurrency_max: 63,
            shown_bytes_max: 16_383,
            cache: None,
            requires_approval: true,
            completion: CallCompletion::Inline,
        }
    );
    assert_eq!(definition.check(&RequestLimits::defaults()), Ok(()));
}

#[test]
fn what_is_not_written_is_the_default() {
    let definition = read(&with(""));
    assert_eq!(definition.label, "t");
    assert_eq!(definition.request.method, Method::Get);
    assert_eq!(definition.policy, CallPolicy::new(EffectClass::Read));
    assert_eq!(
        definition.response.content_types,
        [
            "text/*",
            "application/json",
            "application/xml",
            "*/*+json",
            "*/*+xml"
        ]
    );
    assert_eq!(definition.response.statuses, [StatusRule::Hundred(2)]);
    assert_eq!(definition.response.kept_bytes_max, 1024 * 1024);
    assert_eq!(definition.check(&RequestLimits::defaults()), Ok(()));
}

#[test]
fn the_effect_follows_from_the_method() {
    for (method, effect) in [
        ("GET", EffectClass::Read),
        ("HEAD", EffectClass::Read),
        ("PUT", EffectClass::Idempotent),
        ("DELETE", EffectClass::Idempotent),
        ("POST", EffectClass::Once),
        ("PATCH", EffectClass::Once),
    ] {
        let definition = read(&with(&format!(r#""method":"{method}","#)));
        assert_eq!(definition.policy.effect, effect, "{method}");
        let written = with(&format!(
            r#""method":"{method}","policy":{{"effect":"idempotent"}},"#
        ));
        assert_eq!(read(&written).policy.effect, EffectClass::Idempotent);
    }
}

#[test]
fn a_cache_is_read() {
    for scope in CacheScope::ALL {
        let definition = read(&with(&format!(
            r#""policy":{{"cache":{{"lifetime_s":300,"scope":"{}"}}}},"#,
            scope.as_str()
        )));
        let lifetime = Duration::from_secs(300);
        assert_eq!(
            definition.policy.cache,
            Some(CacheRules { lifetime, scope })
        );
    }
}

#[test]
fn several_paths_keep_their_order() {
    let definition = read(&with(r#""response":{"select":{"z":"$.z","a":"$.a"}},"#));
    let Some(ResponseSelect::Named(paths)) = definition.response.select else {
        panic!("one path");
    };
    let names: Vec<&str> = paths.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["z", "a"]);
}

#[test]
fn a_parameter_may_say_where_it_goes() {
    for (word, place) in [
        ("path", ParameterPlace::Path),
        ("query", ParameterPlace::Query),
        ("header", ParameterPlace::Header),
        ("body", ParameterPlace::Body),
    ] {
        let definition = read(&with(&format!(
            r#""parameters":{{"a":{{"mode":"ai","in":"{word}"}}}},"#
        )));
        assert_eq!(definition.parameters[0].1.place, Some(place));
    }
}

#[test]
fn schemas_and_numbers_keep_how_they_were_written() {
    let schema = r#"{ "maximum": 1.50, "enum": [1e2, "\u00e9"] , "a": 12345678901234567890123}"#;
    let definition = read(&with(&format!(
        r#""parameters":{{"a":{{"mode":"ai","schema":{schema}}},
            "b":{{"mode":"array_extendable","aiExtension":{{"items":{schema}}}}}}},"#
    )));
    let ParameterSource::Ai(ai) = &definition.parameters[0].1.source else {
        panic!("not ai");
    };
    assert_eq!(ai.schema.as_str(), schema);
    let ParameterSource::ArrayExtendable {
        extension: Some(extension),
        ..
    } = &definition.parameters[1].1.source
    else {
        panic!("not extendable");
    };
    assert_eq!(extension.items.as_str(), schema);
}

#[test]
fn the_oldest_definitions_say_less() {
    // Without schema, items and the rest, as the source document 004 writes them.
    let definition = read(
        r#"{"name":"t","description":"d","type":"apiRequest","url":"https://api.example.com/",
            "parameters":{"to":{"mode":"ai","prompt":"The address"},
            "cc":{"mode":"array_extendable","fixedValues":["+1"],
                  "aiExtension":{"enabled":true,"prompt":"More","required":false}},
            "off":{"mode":"array_extendable","fixedValues":["+1"],"aiExtension":{"enabled":false}}}}"#,
    );
    let ParameterSource::Ai(to) = &definition.parameters[0].1.source else {
        panic!("not ai");
    };
    assert_eq!(to.schema.as_str(), r#"{"type":"string"}"#);
    let extensions: Vec<Option<&str>> = definition.parameters[1..]
        .iter()
        .map(|(_, parameter)| match &parameter.source {
            ParameterSource::ArrayExtendable { extension, .. } => {
                extension.as_ref().map(|more| more.items.as_str())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(extensions, [Some(r#"{"type":"string"}"#), None]);
}

#[test]
fn a_secret_is_told_from_a_text_wherever_one_may_stand() {
    let definition = read(&with(
        r#""method":"POST","query":{"a":[{"secret":"A"}]},"body":{"b":[{"c":{"secret":"B","prefix":"x"}}]},
           "parameters":{"d":{"mode":"fixed","value":{"e":{"secret":"D"}}},
                         "f":{"mode":"array_extendable","fixedValues":[{"secret":"F"}]}},"#,
    ));
    let names: Vec<String> = definition
        .secrets()
        .into_iter()
        .map(|used| used.name)
        .collect();
    for name in ["A", "B", "D", "F"] {
        assert!(names.iter().any(|have| have == name), "{name}: {names:?}");
    }
    // The body itself is its members, so one of them may be called so.
    let body = read(&with(r#""method":"POST","body":{"secret":"x"},"#));
    assert_eq!(body.request.body, [named("secret", text("x"))]);
}

#[test]
fn what_is_inside_something_sensitive_is_sensitive() {
    let definition = read(&with(
        r#""parameters":{"a":{"mode":"object","sensitive":true,"properties":{
            "b":{"mode":"array","items":[{"mode":"fixed","value":1,"sensitive":false}]}}},
            "c":{"mode":"fixed","value":1}},"#,
    ));
    let ParameterSource::Object { properties, .. } = &definition.parameters[0].1.source else {
        panic!("no object");
    };
    let ParameterSource::Array { items, .. } = &properties[0].1.source else {
        panic!("no array");
    };
    assert!(properties[0].1.sensitive && items[0].sensitive);
    assert!(!definition.parameters[1].1.sensitive);
}

#[test]
fn paths_and_words_of_a_client_are_cut_in_errors() {
    let long = "x".repeat(250);
    let nested = format!(r#"{{"{long}":{{"{long}":"{{{{"}}}}"#);
    let error = decode(&with(&format!(r#""body":{nested},"#))).unwrap_err();
    assert_eq!(error.field.chars().count(), 401);
    let error = decode(&with(&format!(r#""method":"{long}","#))).unwrap_err();
    assert!(error.problem.len() < 150, "{}", error.problem);
}

#[test]
fn a_completion_by_webhook_says_whether_the_turn_waits() {
    let completion = |waits: bool, rest: &str| {
        with(&format!(
            r#""completion":{{"completes":"webhook","waits":{waits}{rest}}},"#
        ))
    };
    for (text, waits, deadline_s) in [
        (completion(true, ""), true, 3600),
        (completion(false, r#","deadline_s":5"#), false, 5),
    ] {
        let definition = read(&text);
        let expected = CallCompletion::Job(JobCompletion {
            waits,
            deadline: Duration::from_secs(deadline_s),
            calls_back: true,
            polls: None,
        });
        assert_eq!(definition.policy.completion, expected, "{text}");
        let job = definition.job.unwrap();
        assert!(job.callback.is_some() && job.poll.is_none(), "{text}");
    }
    let inline = read(&with(r#""completion":{"completes":"inline"},"#));
    assert_eq!(inline.policy.completion, CallCompletion::Inline);
    assert_eq!(inline.job, None);
    for (written, field) in [
        (r#"{"completes":"webhook"}"#, "completion.waits"),
        (r#"{"waits":true}"#, "completion.completes"),
        (r#"{"completes":"poll"}"#, "completion.waits"),
        (r#"{"completes":"poll","waits":true}"#, "completion.poll"),
        (
            r#"{"completes":"poll","waits":true,"callback":{},"poll":{}}"#,
            "completion.callback",
        ),
        (
            r#"{"completes":"poll","waits":true,"poll":{"url":"https://a.example/"}}"#,
            "completion.poll.status",
        ),
        (
            r#"{"completes":"poll","waits":true,"start":{"status":"$.code"}}"#,
            "completion.poll",
        ),
        (
            r#"{"completes":"inline","deadline_s":5}"#,
            "completion.deadline_s",
        ),
        (
            r#"{"completes":"webhook","waits":true,"external_id":"x"}"#,
            "completion.external_id",
        ),
    ] {
        let refused = decode(&with(&format!(r#""completion":{written},"#))).unwrap_err();
        assert_eq!(refused.field, field, "{written}");
    }
}

#[test]
fn a_job_may_be_polled_by_its_id_or_by_our_reference() {
    let poll = |query: &str| {
        with(&format!(
            r#""completion":{{"completes":"poll","waits":false,"external_id":["$.a","$.b"],"json_in":"$.c","poll":{{
                "url":"https://a.example/job","query":{{"id":"{query}"}},"every_s":[5,60],"status":"$.s",
                "completed":["done"]}}}},"#
        ))
    };
    for (query, by_id) in [("{{external_id}}", true), ("{{reference}}", false)] {
        let definition = read(&poll(query));
        let expected = CallCompletion::Job(JobCompletion {
            waits: false,
            deadline: Duration::from_secs(3600),
            calls_back: false,
            polls: Some(JobPolls {
                first: Duration::from_secs(5),
                by_id,
            }),
        });
        assert_eq!(definition.policy.completion, expected, "{query}");
        let job = definition.job.unwrap();
        assert_eq!((job.external_id.len(), job.json_in.len()), (2, 1));
    }
}
