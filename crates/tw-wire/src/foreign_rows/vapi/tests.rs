use proptest::prelude::*;
use serde_json::{Value, json};
use tw_core::imported::ToolRowProblem;

use super::{VapiTool, VapiToolRefused, read_tool};

/// A row whose tool can be made, with other values for some of its columns.
fn row(changes: &Value) -> Value {
    let mut row = json!({
        "id": "11111111-0000-4000-8000-000000000001",
        "name": "send_sms",
        "label": "Send SMS",
        "description": "Sends an SMS.",
        "organization_id": "22222222-0000-4000-8000-000000000001",
        "external_tool_id": "vapi-1",
        "type": "sms",
        "function_schema": { "name": "send_sms", "description": "Sends a message.", "parameters": {
            "type": "object",
            "properties": {
                "message": { "type": "string", "description": "What to send" },
                "to": { "type": "string" }
            },
            "required": ["message"]
        } },
        "static_config": { "from": { "type": "called_number" }, "token": "CANARY" },
        "config_metadata": { "type": "sms", "token": "CANARY" },
        "async": false,
        "execute_on_call_start": false,
        "attach_to_agent": true,
        "data": { "id": "vapi-1", "type": "apiRequest", "name": "send_sms", "method": "POST",
            "url": "https://app.example/api/tools/11111111-0000-4000-8000-000000000001/execute" },
        "created_at": "2025-01-02T03:04:05.000006+00:00"
    });
    merge(&mut row, changes);
    row
}

fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (name, value) in changes {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, changes) => *into = changes.clone(),
    }
}

fn read(changes: &Value) -> Result<VapiTool, VapiToolRefused> {
    read_tool(&row(changes).to_string())
}

/// Members of the definition that is made.
fn made(changes: &Value) -> Value {
    let tool = read(changes).unwrap_or_else(|refused| panic!("{changes}: {refused:?}"));
    assert!(!tool.text.contains("CANARY"), "{}", tool.text);
    serde_json::from_str(&tool.text).unwrap()
}

#[test]
fn a_tool_sends_what_vapi_sent() {
    let tool = read(&json!({})).unwrap();
    let made: Value = serde_json::from_str(&tool.text).unwrap();
    let expected = json!({
        "name": "send_sms",
        "label": "Send SMS",
        "description": "Sends a message.",
        "type": "api_request",
        "method": "POST",
        "url": "https://app.example/api/tools/11111111-0000-4000-8000-000000000001/execute",
        "headers": {},
        "query": {},
        "parameters": {
            "message": { "mode": "ai", "required": true, "schema": { "type": "string", "description": "What to send" } },
            "to": { "mode": "ai", "required": false, "schema": { "type": "string" } }
        },
        "variables": {},
        "policy": { "timeout_ms": 20000, "attempts_max": 1, "backoff_ms": 0 }
    });
    assert_eq!(made, expected);
    assert_eq!(tool.left_out, Vec::<String>::new());
    assert_eq!(tool.made.unwrap().0, 1_735_787_045_000_006);
    // Columns that are texts.
    let data = row(&json!({}))["data"].to_string();
    let schema = row(&json!({}))["function_schema"].to_string();
    let texts = read(&json!({ "data": data, "function_schema": schema })).unwrap();
    assert_eq!(texts, tool);
}

#[test]
fn what_is_fixed_wins_and_secrets_are_named() {
    let tool = made(&json!({ "data": {
        "url": "https://app.example/run?v=1&token=CANARY&to={{to}}&who={{customer.number}}",
        "headers": { "type": "object", "properties": {
            "x-api-key": { "type": "string", "value": "CANARY" },
            "Authorization": { "type": "string", "value": "Bearer CANARY" },
            "Content-Type": { "type": "string", "value": "application/json" },
            "X-Call": { "type": "string", "value": "{{call.id}}" },
            "accept": { "type": "string", "value": "text/plain" }
        } },
        "parameters": [
            { "key": "message", "value": "Hello {{ customer.number }}" },
            { "key": "api_key", "value": "CANARY" },
            { "key": "nested", "value": { "n": 1, "password": "CANARY", "list": ["a", null], "auth": { "user": "CANARY" } } },
            { "key": "signature", "value": "{{signature}}" },
            { "key": "plan", "value": "sk-CANARY" }
        ]
    } }));
    assert_eq!(
        tool["url"],
        "https://app.example/run?v=1&to={to}&who={{customer.number}}"
    );
    assert_eq!(
        tool["query"],
        json!({ "token": { "secret": "SEND_SMS_TOKEN" } })
    );
    assert_eq!(
        tool["headers"],
        json!({
            "x-api-key": { "secret": "SEND_SMS_X_API_KEY" },
            "Authorization": { "secret": "SEND_SMS_AUTHORIZATION", "prefix": "Bearer " },
            "X-Call": "{{call.id}}",
            "accept": "text/plain"
        })
    );
    let parameters = &tool["parameters"];
    assert_eq!(
        parameters["message"],
        json!({ "mode": "fixed", "value": "Hello {{ customer.number }}" })
    );
    assert_eq!(
        parameters["api_key"]["value"],
        json!({ "secret": "SEND_SMS_API_KEY" })
    );
    let nested = json!({
        "n": 1,
        "password": { "secret": "SEND_SMS_NESTED_PASSWORD" },
        "list": ["a", null],
        "auth": { "user": { "secret": "SEND_SMS_NESTED_AUTH_USER" } }
    });
    assert_eq!(parameters["nested"]["value"], nested);
    assert_eq!(parameters["signature"]["value"], "{{signature}}");
    assert_eq!(
        parameters["plan"]["value"],
        json!({ "secret": "SEND_SMS_PLAN" })
    );
    let mut variables: Vec<&String> = tool["variables"].as_object().unwrap().keys().collect();
    variables.sort();
    assert_eq!(variables, ["call.id", "customer.number", "signature"]);
}

#[test]
fn prompts_are_filled_in_and_numbers_are_kept() {
    let properties = r#"{"function_schema":{"parameters":{"properties":{
        "n":{"type":"number","maximum":9007199254740993},
        "who":{"description":"As {{caller_phone_number}}","type":"string"}}}}}"#;
    let changes: Value = serde_json::from_str(properties).unwrap();
    let tool = read(&changes).unwrap();
    assert!(tool.text.contains("9007199254740993"), "{}", tool.text);
    let made: Value = serde_json::from_str(&tool.text).unwrap();
    assert_eq!(
        made["parameters"]["who"],
        json!({ "mode": "ai", "required": false, "schema": { "type": "string" },
            "prompt": "As {{caller_phone_number}}" })
    );
    assert_eq!(made["variables"], json!({ "caller_phone_number": {} }));
}

#[test]
fn what_has_no_place_is_named() {
    for (changes, expected) in [
        (
            json!({ "async": true, "execute_on_call_start": true }),
            vec!["async", "execute_on_call_start"],
        ),
        (
            json!({ "type": "odd" }),
            vec!["type: is none that is known"],
        ),
        (json!({ "type": null }), vec!["type: is none that is known"]),
        (
            json!({ "data": { "messages": [{ "type": "request-start" }], "variableExtractionPlan": {}, "strict": false } }),
            vec!["data.messages"],
        ),
        (
            json!({ "data": { "timeoutSeconds": 300, "backoffPlan": { "type": "fixed", "maxRetries": 3 } } }),
            vec![
                "data.timeoutSeconds: 60 s is the longest",
                "data.backoffPlan: a request that may have done something is not repeated",
            ],
        ),
        (
            json!({ "function_schema": { "parameters": { "oneOf": [] } } }),
            vec!["function_schema.parameters.oneOf"],
        ),
    ] {
        let tool = read(&changes).unwrap();
        assert_eq!(tool.left_out, expected, "{changes}");
    }
    let policy = made(
        &json!({ "data": { "method": "GET", "timeoutSeconds": 0.5, "body": null,
        "backoffPlan": { "type": "exponential", "maxRetries": 20, "baseDelaySeconds": 1 } } }),
    );
    assert_eq!(
        policy["policy"],
        json!({ "timeout_ms": 500, "attempts_max": 10, "backoff_ms": 1000 })
    );
}

#[test]
fn what_cannot_be_a_tool_is_refused_with_the_reason() {
    use ToolRowProblem as Problem;
    let long = "x".repeat(10_000_000);
    for (changes, problem, detail) in [
        (
            json!({ "attach_to_agent": false, "data": null }),
            Problem::OnlyAtCallStart,
            "",
        ),
        (json!({ "data": null }), Problem::NoRequest, ""),
        (json!({ "data": { "url": null } }), Problem::NoRequest, ""),
        (
            json!({ "data": { "type": "transferCall" } }),
            Problem::OtherKind,
            "transferCall",
        ),
        (
            json!({ "data": { "type": "function", "server": { "url": "https://a.example/" } } }),
            Problem::OtherKind,
            "VAPI's own messages",
        ),
        (
            json!({ "data": { "credentialId": "c" } }),
            Problem::CredentialElsewhere,
            "data.credentialId",
        ),
        (
            json!({ "data": { "encryptedPaths": ["a"] } }),
            Problem::CredentialElsewhere,
            "data.encryptedPaths",
        ),
        (
            json!({ "data": { "rejectionPlan": { "conditions": [{ "type": "regex" }] } } }),
            Problem::Unfit,
            "data.rejectionPlan",
        ),
        (json!({ "data": "{" }), Problem::Unfit, "data: is no object"),
        (json!({ "data": [1] }), Problem::Unfit, "data: is no object"),
        (
            json!({ "function_schema": "{\"a\":1,\"a\":2}" }),
            Problem::Unfit,
            "function_schema: is no object",
        ),
        (json!({ "name": "send sms" }), Problem::Unfit, ""),
        (
            json!({ "description": null, "label": long, "function_schema": null }),
            Problem::Unfit,
            "longer than",
        ),
        (
            json!({ "data": { "method": null } }),
            Problem::Unfit,
            "method",
        ),
        (
            json!({ "data": { "method": "TRACE" } }),
            Problem::Unfit,
            "method",
        ),
        (
            json!({ "data": { "url": "https://u:CANARY@app.example/" } }),
            Problem::Unfit,
            "url",
        ),
        (
            json!({ "data": { "url": "https://{{host}}/" } }),
            Problem::Unfit,
            "url",
        ),
        (
            json!({ "data": { "url": "https://a.example/{{ 'now' | date: '%s' }}" } }),
            Problem::Unfit,
            "data.url",
        ),
        (
            json!({ "data": { "url": "https://a.example/?token=CANARY{{x}}" } }),
            Problem::Unfit,
            "may be a secret",
        ),
        (
            json!({ "data": { "headers": { "x-key": "{% if %}" } } }),
            Problem::Unfit,
            "",
        ),
        (
            json!({ "data": { "headers": { "x-key": { "type": "string" } } } }),
            Problem::Unfit,
            "has no value",
        ),
        (
            json!({ "data": { "headers": { "content-type": "text/xml" } } }),
            Problem::Unfit,
            "neither JSON nor a form",
        ),
        (
            json!({ "data": { "parameters": [{ "key": "k", "value": { "secret": "CANARY" } }] } }),
            Problem::Unfit,
            "names a secret",
        ),
        (
            json!({ "data": { "parameters": [{ "key": "pin", "value": 4711 }] } }),
            Problem::Unfit,
            "pin: may be a secret",
        ),
        (
            json!({ "data": { "parameters": [{ "key": "k", "value": { "auth": { "n": [true, -1] } } }] } }),
            Problem::Unfit,
            "k.auth.n.1: may be a secret",
        ),
        (
            json!({ "data": { "parameters": { "k": "v" } } }),
            Problem::Unfit,
            "is no list",
        ),
        (
            json!({ "function_schema": { "parameters": { "properties": { "a b": {} } } } }),
            Problem::Unfit,
            "",
        ),
    ] {
        let refused = match read(&changes) {
            Err(refused) => refused,
            // The names are checked with the rest of the definition.
            Ok(tool) => {
                let limits = tw_core::limits::RequestLimits::defaults();
                let error = tool.definition.check(&limits).unwrap_err();
                VapiToolRefused {
                    problem: Problem::Unfit,
                    detail: error.to_string(),
                }
            }
        };
        let what = format!("{:.200}", changes.to_string());
        assert_eq!(refused.problem, problem, "{what}: {refused:?}");
        assert!(refused.detail.contains(detail), "{what}: {refused:?}");
        assert!(!refused.detail.contains("CANARY"), "{what}: {refused:?}");
    }
}

#[test]
fn a_constant_of_the_schema_is_fixed() {
    let tool = made(
        &json!({ "function_schema": { "parameters": { "properties": {
        "message": { "type": "string", "value": "Hello {{customer.number}}" },
        "to": { "type": "string", "value": "" },
        "api_key": { "type": "string", "value": "CANARY" },
        "channel": { "type": "object", "value": { "n": 1, "token": "CANARY" } },
        "value": { "type": "string", "value": null }
    } } } }),
    );
    let parameters = &tool["parameters"];
    let fixed = |value: Value| json!({ "mode": "fixed", "value": value });
    for (name, value) in [
        ("message", json!("Hello {{customer.number}}")),
        ("api_key", json!({ "secret": "SEND_SMS_API_KEY" })),
        (
            "channel",
            json!({ "n": 1, "token": { "secret": "SEND_SMS_CHANNEL_TOKEN" } }),
        ),
    ] {
        assert_eq!(parameters[name], fixed(value), "{name}");
    }
    for name in ["to", "value"] {
        assert_eq!(parameters[name]["mode"], "ai", "{name}");
    }
    assert_eq!(tool["variables"], json!({ "customer.number": {} }));
}

#[test]
fn two_secrets_have_two_names() {
    let tool = made(&json!({ "data": {
        "url": "https://app.example/run?token=CANARY%202",
        "headers": { "Token": "CANARY 1", "token-": "CANARY 1" },
        "parameters": [{ "key": "token", "value": "CANARY 3" }, { "key": "TOKEN", "value": "CANARY 1" }]
    } }));
    let named = |name: &str| json!({ "secret": name });
    assert_eq!(
        tool["parameters"]["token"]["value"],
        named("SEND_SMS_TOKEN")
    );
    assert_eq!(
        tool["parameters"]["TOKEN"]["value"],
        named("SEND_SMS_TOKEN_2")
    );
    assert_eq!(tool["headers"]["Token"], named("SEND_SMS_TOKEN_2"));
    assert_eq!(tool["headers"]["token-"], named("SEND_SMS_TOKEN_"));
    assert_eq!(tool["query"]["token"], named("SEND_SMS_TOKEN_3"));
}

#[test]
fn a_schema_without_headers_has_none() {
    for (headers, expected) in [
        (json!({ "type": "object" }), json!({})),
        (
            json!({ "type": "object", "properties": null, "required": [] }),
            json!({}),
        ),
        (json!({ "type": "object", "properties": {} }), json!({})),
        (
            json!({ "type": "object", "accept": "text/plain" }),
            json!({ "type": { "secret": "SEND_SMS_TYPE" }, "accept": "text/plain" }),
        ),
    ] {
        let tool = made(&json!({ "data": { "headers": headers } }));
        assert_eq!(tool["headers"], expected, "{headers}");
    }
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("[", "]"), ("{\"items\":", "}")] {
        let deep = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
        for data in [
            format!(r#"{{"parameters":[{{"key":"k","value":{deep}}}]}}"#),
            format!(r#"{{"body":{{"properties":{{"k":{{"items":{deep}}}}}}}}}"#),
        ] {
            let row = json!({ "name": "t", "data": data });
            let text = row.to_string();
            let with_url = text.replacen("{\\\"", "{\\\"url\\\":\\\"https://a.example\\\",\\\"", 1);
            let refused = read_tool(&with_url).unwrap_err();
            assert!(refused.detail.ends_with("nested too deeply"), "{refused:?}");
        }
    }
}

/// Somewhere in a schema stands what may be a secret.
fn hidden_canary() -> impl Strategy<Value = Value> {
    let word = || {
        prop::sample::select(vec![
            "default", "const", "enum", "example", "examples", "value", "x-odd",
        ])
    };
    let value = prop::sample::select(vec![
        json!("CANARY"),
        json!(["CANARY"]),
        json!({ "a": ["CANARY"] }),
    ]);
    let by_name = (
        prop::sample::select(vec!["api_key", "subscription-key", "token", "pin"]),
        word(),
        value,
    )
        .prop_map(|(name, word, value)| json!({ "properties": { name: { "type": "string", word: value } } }));
    let by_itself = (
        word(),
        prop::sample::select(vec!["sk-CANARY", "Bearer CANARY", "whsec_CANARY"]),
    )
        .prop_map(|(word, value)| json!({ "properties": { "plain": { word: value } } }));
    prop_oneof![by_name, by_itself].prop_recursive(4, 8, 2, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|inner| json!({ "properties": { "deep": inner } })),
            inner
                .clone()
                .prop_map(|inner| json!({ "properties": { "list": { "items": inner } } })),
            inner
                .clone()
                .prop_map(|inner| json!({ "properties": { "one": { "anyOf": [true, inner] } } })),
            inner.prop_map(|inner| json!({ "properties": { "of": { "$defs": { "a": inner } } } })),
        ]
    })
}

proptest! {
    #[test]
    fn no_schema_brings_a_secret_into_a_definition(parameters in hidden_canary()) {
        for changes in [
            json!({ "function_schema": { "parameters": parameters } }),
            json!({ "function_schema": { "parameters": null }, "data": { "body": parameters } }),
        ] {
            match read(&changes) {
                Ok(tool) => prop_assert!(!tool.text.contains("CANARY"), "{}", tool.text),
                Err(refused) => {
                    prop_assert_eq!(refused.problem, ToolRowProblem::Unfit);
                    prop_assert!(!refused.detail.contains("CANARY"), "{}", refused.detail);
                    prop_assert!(refused.detail.contains(": "), "{}", refused.detail);
                }
            }
        }
    }
}

#[test]
fn what_a_schema_says_of_values_is_no_secret() {
    let schema = json!({ "type": "string", "description": "Bearer of news", "minLength": 4, "pattern": "sk-.*",
        "default": "", "enum": ["", null], "x-odd": true });
    let tool = made(
        &json!({ "function_schema": { "parameters": { "properties": {
        "pin": schema, "deep": { "properties": { "token": schema } }, "unit": { "enum": ["C", "F"], "default": "C" }
    } } } }),
    );
    assert_eq!(tool["parameters"]["pin"]["schema"], schema);
}

#[test]
fn a_row_of_another_table_is_refused() {
    for row in ["null", "[]", "{\"a\":1,\"a\":2}"] {
        assert_eq!(read_tool(row).unwrap_err().problem, ToolRowProblem::Unfit);
    }
    assert_eq!(
        read_tool("{}").unwrap_err().problem,
        ToolRowProblem::NoRequest
    );
}
