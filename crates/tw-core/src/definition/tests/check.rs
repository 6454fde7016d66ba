use serde_json::{Value, json};

use super::sample;
use crate::limits::RequestLimits;

fn problem(tool: &Value) -> Option<String> {
    sample::definition(tool)
        .check(&RequestLimits::defaults())
        .err()
        .map(|error| error.to_string())
}

/// Each row: a definition, and how the refusal must begin and what it must hold.
fn check(rows: &[(Value, &str, &str)]) {
    for (tool, field, says) in rows {
        let found = problem(tool).unwrap_or_else(|| panic!("accepted: {tool}"));
        assert!(
            found.starts_with(&format!("{field}: ")) && found.contains(says),
            "{tool}: {found}"
        );
    }
}

fn ai(schema: &Value) -> Value {
    json!({"mode": "ai", "schema": schema})
}

fn with(parameter: &Value) -> Value {
    json!({"method": "POST", "parameters": {"x": parameter}})
}

#[test]
fn a_whole_definition_passes() {
    let tool = json!({
        "name": "create_ticket-2", "label": "Create a ticket", "description": "Opens a ticket for {{phone}} of {{end_user}}.",
        "method": "POST", "url": "https://api.example.com/v1/customers/{customer}/t?lang={lang}&o={{organization}}",
        "headers": {"authorization": {"secret": "TICKETS_KEY", "prefix": "Bearer "}, "x-turn": "{{turn}}", "x-n": 1},
        "query": {"source": "agent", "tags": ["a", 1, true], "k": {"secret": "K"}},
        "body": {"origin": {"channel": "chat", "at": "{{now}}", "none": null}},
        "parameters": {
            "customer": ai(&json!({"type": "string"})),
            "lang": {"mode": "ai", "schema": {"enum": ["de", "en"]}, "required": false},
            "priority": {"mode": "fixed", "value": "high"},
            "auth": {"mode": "fixed", "value": {"secret": "K"}},
            "link": {"mode": "fixed", "value": "https://x/?p={{phone}}", "format": "uri"},
            "cc": {"mode": "array_extendable", "fixedValues": ["+1"], "aiExtension": {"enabled": true, "prompt": "More", "items": {"type": "string"}}},
            "contact": {"mode": "object", "properties": {"email": ai(&json!({"type": "string", "format": "email"}))}},
            "steps": {"mode": "array", "items": [{"mode": "fixed", "value": "hello"}, ai(&json!({}))]},
            "X-Trace": {"mode": "ai", "schema": {"type": ["string", "null"]}, "in": "header", "required": false},
        },
        "variables": {"phone": {"default": "unknown"}},
        "response": {"select": {"id": "$.data.id", "all": "$..n"}, "content_types": ["application/json", "text/*", "*/*"], "statuses": ["2xx", 404]},
        "policy": {"effect": "queryable"},
        "look_up": {"url": "https://api.example.com/t?reference={{reference}}", "absent": [404, 410]},
    });
    assert_eq!(problem(&tool), None);
    let cached = json!({"policy": {"cache": {"lifetime_s": 300}}});
    assert_eq!(problem(&cached), None);
}

#[test]
fn names_and_variables() {
    check(&[
        (json!({"name": ""}), "name", "1 to 64"),
        (json!({"name": "a b"}), "name", "1 to 64"),
        (json!({"name": "é"}), "name", "1 to 64"),
        (json!({"name": "x".repeat(65)}), "name", "1 to 64"),
        (json!({"label": ""}), "label", "bytes"),
        (json!({"label": "a\nb"}), "label", "control"),
        (
            json!({"description": "x".repeat(17_000)}),
            "description",
            "bytes",
        ),
        (
            json!({"description": "{{phone}}"}),
            "description",
            "not declared",
        ),
        (
            json!({"description": "{{turn}}"}),
            "description",
            "prompt cache",
        ),
        (
            json!({"description": "{{now}}"}),
            "description",
            "prompt cache",
        ),
        (
            json!({"description": "{{tool_call}}"}),
            "description",
            "prompt cache",
        ),
        (
            json!({"description": "{{reference}}"}),
            "description",
            "look-up only",
        ),
        (
            json!({"variables": {"organization": {}}}),
            "variables.organization",
            "always there",
        ),
        (
            json!({"variables": {"reference": {}}}),
            "variables.reference",
            "always there",
        ),
        (
            json!({"variables": {"a b": {}}}),
            "variables.a b",
            "begin with",
        ),
        (json!({"url": "https://h/{{phone}}"}), "url", "not declared"),
        (
            json!({"url": "https://h/{{reference}}"}),
            "url",
            "look-up only",
        ),
        (
            json!({"headers": {"x": "{{phone}}"}}),
            "headers.x",
            "not declared",
        ),
        (
            json!({"query": {"x": ["a", "{{phone}}"]}}),
            "query.x[1]",
            "not declared",
        ),
        (
            json!({"method": "POST", "body": {"a": {"b": "{{phone}}"}}}),
            "body.a.b",
            "not declared",
        ),
        (
            with(&json!({"mode": "fixed", "value": ["{{phone}}"]})),
            "parameters.x.value[0]",
            "not declared",
        ),
        (
            with(&json!({"mode": "ai", "prompt": "{{phone}}"})),
            "parameters.x.prompt",
            "not declared",
        ),
        (
            with(&json!({"mode": "object", "description": "{{now}}", "properties": {}})),
            "parameters.x.description",
            "prompt cache",
        ),
        (
            with(
                &json!({"mode": "object", "properties": {"y": {"mode": "ai", "prompt": "{{now}}"}}}),
            ),
            "parameters.x.properties.y.prompt",
            "prompt cache",
        ),
        (
            with(&json!({"mode": "array", "items": [{"mode": "ai", "prompt": "{{now}}"}]})),
            "parameters.x.items[0].prompt",
            "prompt cache",
        ),
        (
            with(
                &json!({"mode": "array_extendable", "aiExtension": {"enabled": true, "prompt": "{{now}}"}}),
            ),
            "parameters.x.aiExtension.prompt",
            "prompt cache",
        ),
        (
            with(&json!({"mode": "array_extendable", "fixedValues": ["{{phone}}"]})),
            "parameters.x.fixedValues[0]",
            "not declared",
        ),
    ]);
}

#[test]
fn url_headers_query_and_body() {
    let header = |name: &str| json!({"headers": {name: "v"}});
    check(&[
        (json!({"url": "https://h/{x}"}), "url", "no parameter \"x\""),
        (
            json!({"url": "https://h/?q={x}"}),
            "url",
            "no parameter \"x\"",
        ),
        (header("a b"), "headers.a b", "not the name"),
        (header("a:"), "headers.a:", "not the name"),
        (header("é"), "headers.é", "not the name"),
        (header("a\r\nb"), "headers.a\r\nb", "not the name"),
        (header(""), "headers.", "not the name"),
        (header("Host"), "headers.Host", "cannot set"),
        (
            header("content-length"),
            "headers.content-length",
            "cannot set",
        ),
        (header("Content-Type"), "headers.Content-Type", "cannot set"),
        (
            header("transfer-encoding"),
            "headers.transfer-encoding",
            "cannot set",
        ),
        (header("connection"), "headers.connection", "cannot set"),
        (header("upgrade"), "headers.upgrade", "cannot set"),
        (header("te"), "headers.te", "cannot set"),
        (header("trailer"), "headers.trailer", "cannot set"),
        (
            header("Proxy-Authorization"),
            "headers.Proxy-Authorization",
            "cannot set",
        ),
        (header("expect"), "headers.expect", "cannot set"),
        (
            header("accept-encoding"),
            "headers.accept-encoding",
            "cannot set",
        ),
        (
            json!({"headers": {"a": "1", "A": "2"}}),
            "headers.A",
            "twice",
        ),
        (json!({"headers": {"a": "b\nc"}}), "headers.a", "control"),
        (json!({"headers": {"a": ["b"]}}), "headers.a", "single"),
        (json!({"headers": {"a": {"b": 1}}}), "headers.a", "single"),
        (json!({"headers": {"a": null}}), "headers.a", "string"),
        (
            json!({"headers": {"a": {"secret": "B C"}}}),
            "headers.a.secret",
            "letters",
        ),
        (
            json!({"headers": {"a": {"secret": ""}}}),
            "headers.a.secret",
            "letters",
        ),
        (
            json!({"headers": {"a": {"secret": "B", "prefix": "x\n"}}}),
            "headers.a.prefix",
            "control",
        ),
        (json!({"query": {"a": null}}), "query.a", "string"),
        (json!({"query": {"a": {"b": 1}}}), "query.a", "single"),
        (json!({"query": {"a": [["b"]]}}), "query.a[0]", "single"),
        (json!({"query": {"": 1}}), "query.", "names"),
        (
            json!({"url": "https://h/?a=1", "query": {"a": 1}}),
            "query.a",
            "already",
        ),
        (
            json!({"url": "https://h/?%61=1", "query": {"a": 1}}),
            "query.a",
            "already",
        ),
        (
            json!({"url": "https://h/?a=1", "parameters": {"a": {"mode": "ai"}}}),
            "parameters.a",
            "already",
        ),
        (
            json!({"method": "GET", "body": {"a": 1}}),
            "body",
            "GET request has no body",
        ),
        (
            json!({"method": "HEAD", "body": {"a": 1}}),
            "body",
            "HEAD request has no body",
        ),
        (
            json!({"method": "POST", "body_format": "form", "body": {"a": {"b]": 1}}}),
            "body.a.b]",
            "brackets",
        ),
    ]);
}

#[test]
fn parameters_and_where_they_go() {
    let at = |url: &str, parameter: Value| json!({"url": url, "parameters": {"x": parameter}});
    let object = json!({"mode": "object", "properties": {}});
    let optional = json!({"mode": "ai", "required": false});
    let secret = json!({"mode": "fixed", "value": {"secret": "K"}});
    let mut deep = json!({"mode": "ai"});
    for _ in 0..40 {
        deep = json!({"mode": "object", "properties": {"x": deep}});
    }
    let many: Value = (0..501)
        .map(|n| (format!("p{n}"), json!({"mode": "fixed", "value": 1})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    check(&[
        (
            json!({"parameters": {"a b": {"mode": "ai"}}}),
            "parameters.a b",
            "names",
        ),
        (
            json!({"parameters": {"a[b]": {"mode": "ai"}}}),
            "parameters.a[b]",
            "names",
        ),
        (
            json!({"parameters": {"": {"mode": "ai"}}}),
            "parameters.",
            "names",
        ),
        (
            with(&json!({"mode": "object", "properties": {"a/b": {"mode": "ai"}}})),
            "parameters.x.properties.a/b",
            "names",
        ),
        (
            at("https://h/{x}", optional),
            "parameters.x.required",
            "path",
        ),
        (
            at("https://h/{x}", object.clone()),
            "parameters.x",
            "single",
        ),
        (at("https://h/?q={x}", object), "parameters.x", "single"),
        (
            at("https://h/{x}", ai(&json!({}))),
            "parameters.x",
            "single",
        ),
        (
            at("https://h/{x}", ai(&json!({"type": "array"}))),
            "parameters.x",
            "single",
        ),
        (
            at("https://h/{x}", ai(&json!({"type": ["string", "object"]}))),
            "parameters.x",
            "single",
        ),
        (
            at("https://h/{x}", ai(&json!({"enum": ["a", ["b"]]}))),
            "parameters.x",
            "single",
        ),
        (
            at("https://h/{x}", secret.clone()),
            "parameters.x.value",
            "never in the URL",
        ),
        (
            at("https://h/?q={x}", secret),
            "parameters.x.value",
            "never in the URL",
        ),
        (
            at("https://h/{x}", json!({"mode": "fixed", "value": null})),
            "parameters.x.value",
            "string",
        ),
        (
            at("https://h/{x}", json!({"mode": "fixed", "value": ""})),
            "parameters.x.value",
            "empty",
        ),
        (
            at("https://h/{x}", json!({"mode": "ai", "in": "query"})),
            "parameters.x.in",
            "where it goes",
        ),
        (
            at("https://h/?q={x}", json!({"mode": "ai", "in": "path"})),
            "parameters.x.in",
            "where it goes",
        ),
        (
            at("https://h/?q={x}", json!({"mode": "ai", "in": "header"})),
            "parameters.x.in",
            "where it goes",
        ),
        (
            at("https://h/", json!({"mode": "ai", "in": "path"})),
            "parameters.x.in",
            "does not hold {x}",
        ),
        (
            at("https://h/", json!({"mode": "ai", "in": "body"})),
            "parameters.x.in",
            "has no body",
        ),
        (
            json!({"parameters": {"host": {"mode": "ai", "in": "header"}}}),
            "parameters.host",
            "cannot set",
        ),
        (
            at(
                "https://h/",
                json!({"mode": "ai", "schema": {}, "in": "header"}),
            ),
            "parameters.x",
            "single",
        ),
        (
            at(
                "https://h/",
                json!({"mode": "fixed", "value": [1], "in": "header"}),
            ),
            "parameters.x",
            "single",
        ),
        (
            with(&json!({"mode": "fixed", "value": 1, "format": "uri"})),
            "parameters.x.value",
            "string",
        ),
        (
            with(&json!({"mode": "object", "properties": {"y": {"mode": "ai", "in": "body"}}})),
            "parameters.x.properties.y.in",
            "inside another",
        ),
        (with(&deep), "parameters.x", "nest deeper"),
        (json!({"parameters": many}), "parameters", "500"),
    ]);
}

#[test]
fn look_ups_responses_and_policies() {
    let queryable = |look_up: Value| json!({"method": "POST", "policy": {"effect": "queryable"}, "look_up": look_up});
    let select = |path: &str| json!({"response": {"select": path}});
    let names: serde_json::Map<_, _> = (0..17).map(|n| (format!("n{n}"), json!("$.a"))).collect();
    check(&[
        (
            json!({"policy": {"effect": "queryable"}}),
            "look_up",
            "required",
        ),
        (
            json!({"look_up": {"url": "https://h/{{reference}}"}}),
            "look_up",
            "queryable",
        ),
        (
            queryable(json!({"url": "https://h/"})),
            "look_up",
            "{{reference}}",
        ),
        (
            queryable(json!({"url": "https://h/{x}?r={{reference}}"})),
            "look_up.url",
            "no arguments",
        ),
        (
            queryable(json!({"url": "https://h/{{other}}"})),
            "look_up.url",
            "not declared",
        ),
        (
            queryable(json!({"url": "https://h/{{reference}}", "headers": {"host": "x"}})),
            "look_up.headers.host",
            "cannot set",
        ),
        (
            queryable(json!({"url": "https://h/?a={{reference}}", "query": {"a": "x"}})),
            "look_up.query.a",
            "already",
        ),
        (
            queryable(json!({"url": "https://h/{{reference}}", "absent": [200]})),
            "look_up.absent",
            "400",
        ),
        (
            json!({"response": {"statuses": []}}),
            "response.statuses",
            "1 to",
        ),
        (
            json!({"response": {"statuses": [101]}}),
            "response.statuses[0]",
            "200",
        ),
        (
            json!({"response": {"statuses": ["2xx", "1xx"]}}),
            "response.statuses[1]",
            "200",
        ),
        (
            json!({"response": {"content_types": ["Text/Plain"]}}),
            "response.content_types[0]",
            "lower case",
        ),
        (
            json!({"response": {"content_types": ["text"]}}),
            "response.content_types[0]",
            "media type",
        ),
        (
            json!({"response": {"content_types": ["text/x*"]}}),
            "response.content_types[0]",
            "media type",
        ),
        (
            json!({"response": {"content_types": ["text/plain; charset=x"]}}),
            "response.content_types[0]",
            "media type",
        ),
        (
            json!({"response": {"kept_bytes_max": 0}}),
            "response.kept_bytes_max",
            "from 1",
        ),
        (
            json!({"response": {"kept_bytes_max": 1 << 21}}),
            "response.kept_bytes_max",
            "from 1",
        ),
        (
            json!({"response": {"shown_bytes_max": 0}}),
            "response.shown_bytes_max",
            "from 1",
        ),
        (select("$..*..*"), "response.select", ".. once"),
        (select("$[0,0,0,0,0]"), "response.select", "commas"),
        (select("$..[*,*]"), "response.select", "beside .."),
        (select("$..['a','b']"), "response.select", "beside .."),
        (select("$[*,*]"), "response.select", "beside a comma"),
        (select("$.a[0,1:]"), "response.select", "beside a comma"),
        (select("$[?@.a,0]"), "response.select", "beside a comma"),
        (
            select("$[?@.a||@.b||@.c||@.d||@.e]"),
            "response.select",
            "4 @",
        ),
        (
            json!({"response": {"select": names}}),
            "response.select",
            "1 to 16",
        ),
        (select("$[?$.a == @.b]"), "response.select", "second $"),
        (select("$[?@[?@.a]]"), "response.select", "one filter"),
        (select("$[?match(@.a, 'x')]"), "response.select", "match()"),
        (
            json!({"response": {"select": {"a": "$.a", "b": "$[?search(@.a, @.b)]"}}}),
            "response.select.b",
            "search()",
        ),
        (
            json!({"response": {"select": {}}}),
            "response.select",
            "members",
        ),
        (
            json!({"policy": {"timeout_ms": 0}}),
            "policy.timeout_ms",
            "1 to 60000",
        ),
        (
            json!({"policy": {"timeout_ms": 60_001}}),
            "policy.timeout_ms",
            "1 to 60000",
        ),
        (
            json!({"policy": {"attempts_max": 0}}),
            "policy.attempts_max",
            "from 1",
        ),
        (
            json!({"policy": {"attempts_max": 11}}),
            "policy.attempts_max",
            "from 1",
        ),
        (
            json!({"policy": {"backoff_ms": 10_001}}),
            "policy.backoff_ms",
            "10000",
        ),
        (
            json!({"policy": {"concurrency_max": 0}}),
            "policy.concurrency_max",
            "from 1",
        ),
        (
            json!({"method": "POST", "policy": {"cache": {}}}),
            "policy.cache",
            "read",
        ),
        (
            json!({"policy": {"cache": {"lifetime_s": 0}}}),
            "policy.cache.lifetime_s",
            "from 1",
        ),
    ]);
    for path in [
        "$..['.., $?*:']",
        "$[*].a['b', 'c', 0]",
        "$[?@.a == 1 && @['b'] == '*,*'].c",
        "$[?@.a == '$..,,,,?match(']",
        "$.a[0:2].b",
    ] {
        assert_eq!(problem(&select(path)), None, "{path}");
    }
}

#[test]
fn variables_may_be_used_so_often_in_all() {
    let x = |uses: usize| "{{end_user}}".repeat(uses);
    let tool = |last: usize| {
        json!({
            "method": "POST", "description": x(10), "url": format!("https://h/{}", x(10)),
            "headers": {"h": x(10)}, "query": {"q": [x(5), x(5)]}, "body": {"b": {"c": x(10)}},
            "parameters": {"p": {"mode": "ai", "prompt": x(3)}, "f": {"mode": "fixed", "value": x(4)}},
            "policy": {"effect": "queryable"},
            "look_up": {"url": "https://h/{{reference}}", "headers": {"h": x(last)}},
        })
    };
    assert_eq!(problem(&tool(6)), None);
    check(&[
        (tool(7), "look_up.headers.h", "at most 64 times"),
        (json!({"description": x(65)}), "description", "at most 64"),
        (
            json!({"method": "POST", "body": {"a": [x(64), x(1)]}}),
            "body.a[1]",
            "at most 64",
        ),
    ]);
}
