//! The document of all routes, against the routes and against what they answer.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, CHAT, ask, probe, upstream_body};

pub async fn document(app: &App) -> Value {
    let bare = app.with_key(None);
    let got = bare.send("GET", "/openapi.json", &[], "").await.unwrap();
    assert_eq!(got.status, 200);
    got.json()
}

/// Method and path of each.
pub fn operations(document: &Value) -> Vec<(String, String)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, operations)| {
            let methods = operations.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect()
}

async fn start() -> (App, Listener) {
    let upstream = Listener::start(|_| ListenerReply::json(upstream_body("Hello", &[])));
    let upstream = upstream.await.unwrap();
    (App::start(&upstream, AppOptions::plain()).await, upstream)
}

#[tokio::test]
async fn each_path_has_the_methods_that_the_document_says() {
    let (app, _upstream) = start().await;
    let document = document(&app).await;
    for path in document["paths"].as_object().unwrap().keys() {
        let got = app.client.send("TRACE", path, &[], "").await.unwrap();
        assert_eq!(got.status, 405, "{path}");
        let allowed: BTreeSet<String> = got
            .header("allow")
            .split(',')
            .filter(|method| *method != "HEAD")
            .map(|method| method.to_lowercase())
            .collect();
        let described = document["paths"][path].as_object().unwrap();
        let described: BTreeSet<String> = described.keys().cloned().collect();
        assert_eq!(allowed, described, "{path}");
    }
}

/// Every `$ref` in it.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str().filter(|_| key == "$ref") {
                    Some(reference) => drop(found.insert(reference.to_owned())),
                    None => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn schemas_are_those_that_are_named_and_ids_stand_once() {
    let (app, _upstream) = start().await;
    let document = document(&app).await;
    let mut named = BTreeSet::new();
    references(&document, &mut named);
    let kinds = ["schemas", "responses"].into_iter();
    let there: BTreeSet<String> = kinds
        .flat_map(|kind| {
            let names = document["components"][kind].as_object().unwrap().keys();
            names.map(move |name| format!("#/components/{kind}/{name}"))
        })
        .collect();
    assert_eq!(named, there);
    let ids: Vec<&Value> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|operations| operations.as_object().unwrap().values())
        .map(|operation| &operation["operationId"])
        .collect();
    let once: BTreeSet<String> = ids.iter().map(|id| id.to_string()).collect();
    assert_eq!(once.len(), ids.len());
}

/// Checks an answer by the schema that the document gives for it.
fn check(document: &Value, method: &str, path: &str, status: u16, answer: &Value) {
    let operation = &document["paths"][path][method.to_lowercase()];
    let mut schema = if status < 400 {
        let answers = &operation["responses"][status.to_string()]["content"];
        answers["application/json"]["schema"].clone()
    } else {
        json!({ "$ref": "#/components/schemas/Error" })
    };
    assert!(schema.is_object(), "{method} {path} has no answer {status}");
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(answer)
        .map(|problem| format!("{}: {problem}", problem.instance_path()))
        .collect();
    assert_eq!(problems, Vec::<String>::new(), "{method} {path}: {answer}");
}

/// The answer to a request, which fits what the document says of its route.
async fn asked(app: &App, document: &Value, route: (&str, &str, &[&str]), body: Value) -> Value {
    let (method, path, ids) = route;
    let mut at = path.to_owned();
    for id in ids {
        let (before, rest) = at.split_once('{').unwrap();
        at = format!("{before}{id}{}", rest.split_once('}').unwrap().1);
    }
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let got = app.client.send(method, &at, &[], body).await.unwrap();
    check(document, method, path, got.status, &got.json());
    got.json()
}

#[tokio::test]
async fn answers_are_as_they_are_described() {
    let (mut app, _upstream) = start().await;
    let scopes = vec![KeyScope::Chat, KeyScope::Admin];
    app.client.key = Some(app.key("default", ToolGrant::All, scopes).await);
    let document = document(&app).await;
    let none = Value::Null;
    let asked = async |method, path, ids: &[&str], body: &Value| {
        asked(&app, &document, (method, path, ids), body.clone()).await
    };
    for path in ["/healthz", "/readyz", "/v1/models"] {
        asked("GET", path, &[], &none).await;
    }
    let tool = json!({
        "name": "weather", "description": "Says the weather.", "type": "api_request", "label": "Weather",
        "url": "https://api.example.com/{city}", "headers": { "x-key": "1" }, "query": { "units": "metric" },
        "parameters": { "city": { "mode": "ai", "prompt": "Where" }, "key": { "mode": "fixed", "value": "k", "sensitive": true } },
        "policy": { "effect": "read", "timeout_ms": 1000, "cache": { "lifetime_s": 5, "scope": "tool" } },
        "response": { "select": "$.temperature" },
    });
    let arguments = json!({ "arguments": { "city": "Rome" }, "metadata": null });
    const TOOLS: &str = "/api/{slug}/tools";
    const TOOL: &str = "/api/{slug}/tools/{id}";
    let made = asked("POST", TOOLS, &["default"], &tool).await;
    let id = made["id"].as_str().unwrap();
    asked("GET", TOOLS, &["default"], &none).await;
    asked("GET", TOOL, &["default", id], &none).await;
    asked("PATCH", TOOL, &["default", id], &json!({ "label": null })).await;
    let mut preview = arguments.clone();
    preview["tool"] = tool;
    asked("POST", "/api/{slug}/tools/preview", &["default"], &preview).await;
    asked(
        "POST",
        "/api/{slug}/tools/{id}/test",
        &["default", id],
        &arguments,
    )
    .await;
    let real = json!({ "arguments": { "city": "Rome" }, "dry": false });
    asked(
        "POST",
        "/api/{slug}/tools/{id}/test",
        &["default", id],
        &real,
    )
    .await;
    asked("DELETE", TOOL, &["default", id], &none).await;
    asked("GET", TOOL, &["default", id], &none).await;
    const KEYS: &str = "/api/{slug}/keys";
    const KEY: &str = "/api/{slug}/keys/{id}";
    let key =
        json!({ "name": "phone", "tools": [], "limits": { "streams": 3 }, "expires_days": 1 });
    let made = asked("POST", KEYS, &["default"], &key).await;
    let id = made["id"].as_str().unwrap();
    asked("GET", KEYS, &["default"], &none).await;
    asked("GET", KEY, &["default", id], &none).await;
    asked("PATCH", KEY, &["default", id], &json!({ "tools": "all" })).await;
    asked("DELETE", KEY, &["default", id], &none).await;
    asked("PATCH", KEY, &["default", id], &json!({})).await;
    asked("POST", "/v1/embeddings", &[], &json!({})).await;
    webhooks_are_as_described(async |method, path, ids: &[&str], body: Value| {
        asked(method, path, ids, &body).await
    })
    .await;

    asked("POST", CHAT, &[], &ask("Hi")).await;
    let page = asked("GET", "/v1/conversations", &[], &none).await;
    let conversation = page["data"][0]["id"].as_str().unwrap();
    asked("GET", "/v1/conversations/{id}", &[conversation], &none).await;
    let turns = asked(
        "GET",
        "/v1/conversations/{id}/turns",
        &[conversation],
        &none,
    )
    .await;
    let turn = turns["data"][0]["id"].as_str().unwrap();
    let rows = "/v1/conversations/{id}/messages";
    asked("GET", rows, &[conversation], &none).await;
    let appended = json!({ "rows": [
        { "role": "assistant", "content": "", "tool_calls": [{ "id": "c1", "name": "x", "args": {} }] },
        { "role": "tool", "content": "no", "tool_call_id": "c1", "status": "error" },
    ] });
    let appends = "/v1/conversations/{id}/rows";
    let path = format!("/v1/conversations/{conversation}/rows?shape=langchain");
    let got = app
        .client
        .send("POST", &path, &[], appended.to_string())
        .await
        .unwrap();
    check(&document, "POST", appends, got.status, &got.json());
    let got = app
        .client
        .send("GET", "/v1/calls?status=failed", &[], "")
        .await
        .unwrap();
    assert_eq!(got.json()["data"][0]["runs"], "outside");
    check(&document, "GET", "/v1/calls", got.status, &got.json());
    asked("POST", appends, &[conversation], &none).await;
    const ITEMS: &str = "/v1/conversations/{id}/items";
    const ITEM: &str = "/v1/conversations/{id}/items/{item}";
    let items = json!({ "items": [{ "role": "user", "content": "Hi" }] });
    let metadata = json!({ "metadata": { "topic": "x" } });
    let made = asked("POST", "/v1/conversations", &[], &metadata).await;
    let made = made["id"].as_str().unwrap();
    asked("POST", "/v1/conversations/{id}", &[made], &metadata).await;
    asked("POST", "/v1/conversations/{id}", &[made], &none).await;
    let added = asked("POST", ITEMS, &[made], &items).await;
    let item = added["data"][0]["id"].as_str().unwrap();
    asked("GET", ITEMS, &[made], &none).await;
    asked("GET", ITEM, &[made, item], &none).await;
    asked("DELETE", ITEM, &[made, item], &none).await;
    asked("GET", ITEM, &[made, item], &none).await;
    asked("GET", "/v1/turns/{id}", &[turn], &none).await;
    asked("POST", "/v1/turns/{id}/cancel", &[turn], &none).await;
    asked("DELETE", "/v1/conversations/{id}", &[conversation], &none).await;
    asked("GET", "/v1/turns/{id}", &[turn], &none).await;
}

async fn webhooks_are_as_described(
    asked: impl AsyncFn(&'static str, &'static str, &[&str], Value) -> Value,
) {
    const WEBHOOKS: &str = "/api/{slug}/webhooks";
    const WEBHOOK: &str = "/api/{slug}/webhooks/{id}";
    let url = json!({ "url": "https://hooks.example/told", "events": ["turn.failed"] });
    let made = asked("POST", WEBHOOKS, &["default"], url).await;
    let place = ["default", made["id"].as_str().unwrap()];
    asked("GET", WEBHOOKS, &["default"], Value::Null).await;
    asked("GET", WEBHOOK, &place, Value::Null).await;
    asked("PATCH", WEBHOOK, &place, json!({ "contents": "full" })).await;
    asked(
        "POST",
        "/api/{slug}/webhooks/{id}/rotate",
        &place,
        json!({}),
    )
    .await;
    let test = asked(
        "POST",
        "/api/{slug}/webhooks/{id}/test",
        &place,
        Value::Null,
    )
    .await;
    let listed = "/api/{slug}/webhooks/{id}/deliveries";
    asked("GET", listed, &place, Value::Null).await;
    let event = [place[0], place[1], test["id"].as_str().unwrap()];
    let one = "/api/{slug}/webhooks/{id}/deliveries/{event}";
    asked("GET", one, &event, Value::Null).await;
    let replay = "/api/{slug}/webhooks/{id}/deliveries/{event}/replay";
    asked("POST", replay, &event, Value::Null).await;
    asked(
        "POST",
        "/api/{slug}/webhooks/{id}/replay",
        &place,
        Value::Null,
    )
    .await;
    asked("DELETE", WEBHOOK, &place, Value::Null).await;
    asked("GET", WEBHOOK, &place, Value::Null).await;
}

#[tokio::test]
async fn a_call_is_as_it_is_described() {
    let upstream = Listener::in_turn(vec![
        ListenerReply::json(upstream_body(
            "",
            &[("c1", "calculate", r#"{"expression":"1+1"}"#)],
        )),
        ListenerReply::json(upstream_body("Two.", &[])),
    ]);
    let upstream = upstream.await.unwrap();
    let service = Listener::start(|_| ListenerReply::json("2")).await.unwrap();
    let tool = probe("calculate", EffectClass::Read, service.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![tool])).await;
    let document = document(&app).await;
    let got = app.post(&[], &ask("1+1?")).await;
    let turn = app.turn_of(&got).await;
    assert_eq!(turn["rounds"][0]["calls"][0]["status"], json!("completed"));
    check(&document, "GET", "/v1/turns/{id}", 200, &turn);
}
