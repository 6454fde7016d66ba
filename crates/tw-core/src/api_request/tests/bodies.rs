use serde_json::{Value, json};

use super::{REFERENCE, as_text, built, called, given, request, variables};

fn body(tool: &Value, args: &str) -> String {
    request(tool, args).unwrap().body.unwrap()
}

#[test]
fn a_json_body_is_the_arguments_under_the_static_members() {
    let tool = json!({
        "method": "POST", "url": "https://h/tickets/{customer}",
        "body": {"origin": {"channel": "chat", "by": {"org": "{{organization}}"}}, "scalar": 1, "object": {"a": 1}, "none": null},
        "parameters": {
            "customer": {"mode": "ai"},
            "priority": {"mode": "fixed", "value": "high"},
            "origin": {"mode": "ai", "schema": {"type": "object"}, "required": false},
            "scalar": {"mode": "ai", "schema": {}, "required": false},
            "object": {"mode": "ai", "schema": {}, "required": false},
            "none": {"mode": "ai", "schema": {}, "required": false},
            "sent": {"mode": "ai", "schema": {}, "required": false},
        },
    });
    for (args, expected) in [
        (
            r#"{"customer":"c"}"#,
            r#"{"priority":"high","origin":{"channel":"chat","by":{"org":"acme"}},"scalar":1,"object":{"a":1},"none":null}"#,
        ),
        (
            r#"{"customer":"c","origin":{"channel":"model","by":{"org":"evil","x":1.50},"more":[1]}}"#,
            r#"{"priority":"high","origin":{"channel":"chat","by":{"org":"acme","x":1.50},"more":[1]},"scalar":1,"object":{"a":1},"none":null}"#,
        ),
        (
            r#"{"customer":"c","scalar":{"deep":1},"object":"scalar","none":7,"origin":{"by":7},"sent":null}"#,
            r#"{"priority":"high","origin":{"by":{"org":"acme"},"channel":"chat"},"scalar":1,"object":{"a":1},"none":null,"sent":null}"#,
        ),
        (
            r#"{"customer":"c","sent":"first","sent":[9007199254740993,0.10,1e2,{"a":1,"a":2}]}"#,
            r#"{"priority":"high","sent":[9007199254740993,0.10,1e2,{"a":2}],"origin":{"channel":"chat","by":{"org":"acme"}},"scalar":1,"object":{"a":1},"none":null}"#,
        ),
    ] {
        assert_eq!(body(&tool, args), expected, "{args}");
    }
}

#[test]
fn what_the_model_wrote_is_never_a_template_or_a_secret() {
    let tool = json!({
        "method": "POST", "url": "https://h/",
        "parameters": {"a": {"mode": "ai", "schema": {}}, "h": {"mode": "ai", "in": "header"}, "q": {"mode": "ai", "in": "query"}},
    });
    let args = r#"{"a":["{{organization}}",{"secret":"KEY","prefix":"x"},{"{{turn}}":1}],"h":"{{organization}} {a}","q":"{{organization}}"}"#;
    assert_eq!(
        built(&tool, args).unwrap(),
        "POST https://h/?q=%7B%7Borganization%7D%7D\nh: {{organization}} {a}\ncontent-type: application/json\nIdempotency-Key: call-1\n\n{\"a\":[\"{{organization}}\",{\"secret\":\"KEY\",\"prefix\":\"x\"},{\"{{turn}}\":1}]}"
    );
}

#[test]
fn nested_modes_are_put_together() {
    let tool = json!({
        "method": "POST", "url": "https://h/",
        "parameters": {
            "cc": {"mode": "array_extendable", "fixedValues": ["+1", {"secret": "KEY"}],
                   "aiExtension": {"enabled": true, "items": {"type": "string"}}},
            "open": {"mode": "array_extendable", "aiExtension": {"enabled": true, "items": {}}},
            "closed": {"mode": "array_extendable", "fixedValues": [1], "aiExtension": {"enabled": false}},
            "contact": {"mode": "object", "properties": {
                "email": {"mode": "ai", "required": false}, "kind": {"mode": "fixed", "value": "customer"}}},
            "empty": {"mode": "object", "properties": {"x": {"mode": "ai", "required": false}}},
            "steps": {"mode": "array", "items": [
                {"mode": "fixed", "value": "hello"},
                {"mode": "ai", "required": false},
                {"mode": "object", "properties": {"y": {"mode": "ai", "required": false}}},
                {"mode": "fixed", "value": {"to": "{{organization}}"}}]},
            "link": {"mode": "fixed", "value": "https://x/?u={{end_user}}", "format": "uri"},
        },
    });
    let link =
        r#""link":"https://x/?u=a%2Fb%3Fc%3Dd%26e%23f%2541%5C%20%22g%22%7B%7Borganization%7D%7D""#;
    for (args, expected) in [
        (
            "{}",
            format!(
                r#"{{"cc":["+1","s3cr3t"],"closed":[1],"contact":{{"kind":"customer"}},"steps":["hello",{{"to":"acme"}}],{link}}}"#
            ),
        ),
        (
            r#"{"cc":["+2"],"open":[],"contact":{"email":"e"},"empty":{},"steps":{"item_2":"two","item_3":{"y":"z"}}}"#,
            format!(
                r#"{{"cc":["+1","s3cr3t","+2"],"open":[],"closed":[1],"contact":{{"email":"e","kind":"customer"}},"empty":{{}},"steps":["hello","two",{{"y":"z"}},{{"to":"acme"}}],{link}}}"#
            ),
        ),
    ] {
        assert_eq!(body(&tool, args), expected, "{args}");
    }
}

#[test]
fn a_form_writes_objects_in_brackets_and_repeats_names() {
    let tool = json!({
        "method": "POST", "url": "https://h/", "body_format": "form",
        "body": {"To": "+1 2", "meta": {"by": "agent"}, "flat[x]": "static", "none": null},
        "parameters": {
            "Body": {"mode": "ai"},
            "meta": {"mode": "ai", "schema": {"type": "object"}, "required": false},
            "flat": {"mode": "ai", "schema": {}, "required": false},
        },
    });
    for (args, expected) in [
        (
            r#"{"Body":"a&b=ü +{{organization}}"}"#,
            "Body=a%26b%3D%C3%BC%20%2B%7B%7Borganization%7D%7D&To=%2B1%202&meta%5Bby%5D=agent&flat%5Bx%5D=static",
        ),
        (
            r#"{"Body":"","meta":{"by":"model","n":[1,2.50]},"flat":{"x":"model","y":1}}"#,
            "Body=&meta%5Bby%5D=agent&meta%5Bn%5D=1&meta%5Bn%5D=2.50&flat%5By%5D=1&To=%2B1%202&flat%5Bx%5D=static",
        ),
        (
            r#"{"Body":"","flat":"scalar"}"#,
            "Body=&To=%2B1%202&meta%5Bby%5D=agent&flat%5Bx%5D=static",
        ),
    ] {
        assert_eq!(body(&tool, args), expected, "{args}");
    }
}

#[test]
fn there_is_a_body_when_the_definition_has_one() {
    let optional = json!({"x": {"mode": "ai", "required": false}});
    let in_body = json!({"x": {"mode": "ai", "required": false, "in": "body"}});
    for (tool, expected) in [
        (
            json!({"method": "POST", "parameters": optional}),
            Some("{}"),
        ),
        (json!({"method": "PUT", "parameters": {}}), None),
        (json!({"method": "DELETE", "parameters": optional}), None),
        (
            json!({"method": "DELETE", "parameters": in_body}),
            Some("{}"),
        ),
        (
            json!({"method": "DELETE", "body": {"a": 1}}),
            Some("{\"a\":1}"),
        ),
        (json!({"method": "GET", "parameters": optional}), None),
        (json!({"method": "HEAD"}), None),
        (
            json!({"method": "PATCH", "body_format": "form", "parameters": optional}),
            Some(""),
        ),
    ] {
        let request = request(&tool, "{}").unwrap();
        assert_eq!(request.body.as_deref(), expected, "{tool}");
        let has_type = request
            .headers
            .iter()
            .any(|(name, _)| name == "content-type");
        assert_eq!(has_type, expected.is_some(), "{tool}");
    }
}

#[test]
fn headers_are_static_first_and_the_key_goes_with_every_effect_but_read() {
    let with_header = |headers: Value| {
        json!({"method": "POST", "headers": headers,
               "parameters": {"X-Org": {"mode": "ai", "in": "header", "required": false},
                              "x-n": {"mode": "fixed", "value": 1, "in": "header"}}})
    };
    for (tool, args, expected) in [
        (
            with_header(
                json!({"authorization": {"secret": "KEY", "prefix": "Bearer "}, "x-org": "{{organization}}"}),
            ),
            r#"{"X-Org":"model"}"#,
            "authorization: Bearer s3cr3t\nx-org: acme\nx-n: 1\nIdempotency-Key: call-1",
        ),
        (
            with_header(json!({"idempotency-key": "own {{organization}}"})),
            r#"{"X-Org":"é"}"#,
            "idempotency-key: own acme\nX-Org: é\nx-n: 1",
        ),
        (json!({"method": "GET"}), "{}", ""),
        (
            json!({"method": "POST", "policy": {"effect": "read"}}),
            "{}",
            "",
        ),
        (
            json!({"method": "GET", "policy": {"effect": "once"}}),
            "{}",
            "Idempotency-Key: call-1",
        ),
        (json!({"method": "DELETE"}), "{}", "Idempotency-Key: call-1"),
    ] {
        let request = request(&tool, args).unwrap();
        let text = as_text(&request);
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines.join("\n"), expected, "{tool}");
    }
}

#[test]
fn a_look_up_asks_for_the_reference() {
    let tool = json!({
        "method": "POST", "url": "https://h/", "policy": {"effect": "queryable"},
        "look_up": {"url": "https://h2:8443/t?reference={{reference}}", "headers": {"x-key": {"secret": "KEY"}}, "query": {"org": "{{organization}}"}},
    });
    let (definition, args) = called(&tool, "{}");
    let variables = variables();
    let look_up = definition.look_up_request(&given(&variables)).unwrap();
    assert_eq!(
        as_text(&look_up),
        "GET https://h2:8443/t?reference=call-1&org=acme\nx-key: s3cr3t"
    );
    let request = definition.request(&args, &given(&variables)).unwrap();
    let key = ("Idempotency-Key".to_owned(), REFERENCE.to_owned());
    assert!(request.headers.contains(&key));
    let (without, _) = called(&json!({}), "{}");
    assert!(without.look_up_request(&given(&variables)).is_err());
}

#[test]
fn a_body_has_an_end() {
    let with = |format: &str| {
        json!({
            "method": "POST", "body_format": format, "url": "https://h/p",
            "parameters": {"o": {"mode": "ai", "schema": {"type": "object"}}},
        })
    };
    // A name of 4 kB, written again with each of its values.
    let nested = |values: usize| {
        format!(
            r#"{{"o":{{"{}":[1{}]}}}}"#,
            "n".repeat(4000),
            ",1".repeat(values - 1)
        )
    };
    let form = built(&with("form"), &nested(200)).unwrap();
    assert!(form.len() > 800_000);
    let too_long = |format, args: &str| built(&with(format), args).unwrap_err();
    let says = "the body has more than 1048576 bytes";
    assert!(too_long("form", &nested(300)).starts_with(says));
    let long_name = format!(r#"{{"o":{{"{}":1}}}}"#, "n".repeat(8200));
    assert!(too_long("form", &long_name).contains("a name in a form"));
    // Six bytes for each control character.
    let mut fixed = with("json");
    fixed["body"] = json!({"a": "\u{1}".repeat(200_000)});
    let problem = built(&fixed, r#"{"o":{}}"#).unwrap_err();
    assert!(problem.starts_with(says), "{problem}");
}
