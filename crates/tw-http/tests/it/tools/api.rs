//! Making, reading, changing and deleting tools.

use std::sync::Arc;

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply};

use super::lab::{ToolLab, create, reaching};
use crate::app::{AppOptions, probe};
use crate::tenants::UNKNOWN;

const TOOLS: &str = "/api/default/tools";

/// Tools that come with the server.
const BUILT_IN: [&str; 2] = ["time_now", "calculate"];

async fn lab() -> ToolLab {
    let service = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let built_in = BUILT_IN.map(|name| probe(name, EffectClass::Read, service.url("/")));
    let wanted = AppOptions {
        tools: built_in.into_iter().map(Arc::new).collect(),
        ..reaching(&[&service], Vec::new())
    };
    ToolLab::start(service, wanted).await
}

async fn get(lab: &ToolLab, path: &str) -> ReadAnswer {
    let path = format!("{TOOLS}{path}");
    lab.editor.send("GET", &path, &[], "").await.unwrap()
}

async fn patch(lab: &ToolLab, id: &str, body: &str) -> ReadAnswer {
    let path = format!("{TOOLS}/{id}");
    let sent = lab.editor.send("PATCH", &path, &[], body.to_owned());
    sent.await.unwrap()
}

/// Status, `code` and `param` of a refusal.
fn refusal(got: &ReadAnswer) -> (u16, Value, Value) {
    let error = &got.json()["error"];
    assert_eq!(error["request_id"], got.header("x-request-id"));
    (got.status, error["code"].clone(), error["param"].clone())
}

#[tokio::test]
async fn a_tool_is_answered_as_it_was_written() {
    let lab = lab().await;
    let written = lab.define(
        "find",
        "/find/{who}",
        json!({
            "label": "Find", "method": "GET",
            "description": "Finds {{customer}}.",
            "variables": { "customer": { "default": "somebody" } },
            "query": { "n": 1, "source": "chat" },
            "parameters": {
                "who": { "mode": "ai", "schema": { "type": "string", "maxLength": 7 }, "prompt": "Whom" },
                "key": { "mode": "fixed", "value": "k-17", "sensitive": true },
            },
        }),
    );
    // Digits that no value of this test would keep.
    let text = written.to_string().replace(r#""n":1,"#, r#""n" : 1.50,"#);
    let got = create(&lab.editor, "default", text).await;
    assert_eq!(got.status, 201, "{}", got.text());
    assert_eq!(got.header("content-type"), "application/json");
    let made = got.json();
    for (name, value) in written.as_object().unwrap() {
        if name == "query" {
            assert!(got.text().contains(r#""n" : 1.50,"#), "{}", got.text());
        } else if name == "parameters" {
            assert_eq!(made["parameters"]["who"], value["who"]);
            assert_eq!(made["parameters"]["key"]["value"], "***");
        } else {
            assert_eq!(made[name], *value, "{name}");
        }
    }
    assert_eq!(made["object"], "tool");
    assert_eq!(made["version"], 1);
    assert_eq!(made["created_at"], made["updated_at"]);
    let now = lab.app.runtime.env().now().seconds();
    assert!((now - made["created_at"].as_i64().unwrap()).abs() < 60);
    assert_eq!(
        made["function_schema"],
        json!({
            "name": "find", "description": "Finds .",
            "parameters": {
                "type": "object",
                "properties": { "who": { "type": "string", "maxLength": 7, "description": "Whom" } },
                "required": ["who"], "additionalProperties": false,
            },
        })
    );
    let id = made["id"].as_str().unwrap();
    assert_eq!(get(&lab, &format!("/{id}")).await.json(), made);
    assert_eq!(get(&lab, "").await.json()["data"], json!([made]));
}

#[tokio::test]
async fn the_list_goes_by_name_and_in_pages() {
    let lab = lab().await;
    let mut ids = Vec::new();
    for name in ["c", "a", "e", "B", "d"] {
        ids.push((name, lab.make(name, "/", json!({})).await));
    }
    ids.sort();
    let id_at = |at: usize| ids[at].1.as_str();
    let unknown = format!("?after={UNKNOWN}");
    let pages = [
        (String::new(), 0..5, false),
        ("?limit=5".to_owned(), 0..5, false),
        ("?limit=4".to_owned(), 0..4, true),
        ("?limit=1000".to_owned(), 0..5, false),
        (format!("?limit=2&after={}", id_at(1)), 2..4, true),
        (format!("?after={}&limit=2", id_at(2)), 3..5, false),
        (format!("?after={}", id_at(4)), 5..5, false),
        ("?limit=1&limit=3".to_owned(), 0..3, true),
    ];
    for (query, range, has_more) in pages {
        let page = get(&lab, &query).await.json();
        let listed = page["data"].as_array().unwrap().iter();
        let listed: Vec<&str> = listed.map(|tool| tool["id"].as_str().unwrap()).collect();
        let wanted: Vec<&str> = range.map(id_at).collect();
        assert_eq!(listed, wanted, "{query}");
        assert_eq!(page["has_more"], has_more, "{query}");
        assert_eq!(page["object"], "list");
    }
    for (query, param) in [
        ("?limit=0", "limit"),
        ("?limit=1001", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=99999999999", "limit"),
        ("?limit=x", "limit"),
        ("?limit=", "limit"),
        ("?after=", "after"),
        ("?after=junk", "after"),
        (unknown.as_str(), "after"),
    ] {
        let (status, _, named) = refusal(&get(&lab, query).await);
        assert_eq!((status, named), (400, json!(param)), "{query}");
    }
}

#[tokio::test]
async fn a_patch_makes_a_version_and_earlier_ones_stay() {
    let lab = lab().await;
    let id = lab
        .make(
            "find",
            "/one",
            json!({ "label": "One", "query": { "a": 1, "b": 2 } }),
        )
        .await;
    let first = get(&lab, &format!("/{id}")).await.json();
    let changed = lab
        .patch(
            &id,
            json!({ "label": null, "query": { "a": null, "c": 3 } }),
        )
        .await;
    assert_eq!(changed["version"], 2);
    assert_eq!(changed["label"], Value::Null);
    assert_eq!(changed["query"], json!({ "b": 2, "c": 3 }));
    for kept in ["id", "created_at", "url", "name"] {
        assert_eq!(changed[kept], first[kept], "{kept}");
    }
    assert!(changed["updated_at"].as_i64() >= first["updated_at"].as_i64());
    for nothing in [
        "{}",
        r#"{"query":{"c":3}}"#,
        r#" { "never_there" : null } "#,
    ] {
        let got = patch(&lab, &id, nothing).await;
        assert_eq!(got.json(), changed, "{nothing}");
    }
    assert_eq!(get(&lab, &format!("/{id}?version=1")).await.json(), first);
    assert_eq!(get(&lab, &format!("/{id}?version=2")).await.json(), changed);
    assert_eq!(get(&lab, &format!("/{id}")).await.json(), changed);
    assert_eq!(get(&lab, &format!("/{id}?version=3")).await.status, 404);
    for version in ["0", "-1", "x", "", "4294967296", "1.0"] {
        let got = get(&lab, &format!("/{id}?version={version}")).await;
        assert_eq!(refusal(&got).0, 400, "{version}");
        assert_eq!(refusal(&got).2, "version", "{version}");
    }
}

#[tokio::test]
async fn a_patch_that_leaves_no_usable_tool_changes_nothing() {
    let lab = lab().await;
    let id = lab.make("find", "/one", json!({})).await;
    lab.make("taken", "/", json!({})).await;
    let before = get(&lab, &format!("/{id}")).await.json();
    for (body, field) in [
        (r#"{"url":null}"#, "url"),
        (r#"{"url":"https://10.0.0.1/"}"#, "url"),
        (r#"{"policy":{"attempts_max":0}}"#, "policy.attempts_max"),
        (
            r#"{"parameters":{"p":{"mode":"ai","in":"path"}}}"#,
            "parameters.p.in",
        ),
        (r#"{"headers":{"x":{"secret":"NOT_GRANTED"}}}"#, "headers.x"),
        (r#"{"name":"calculate"}"#, "name"),
        (r#"{"id":"x"}"#, "id"),
        (r#"{"version":1}"#, "version"),
    ] {
        let got = patch(&lab, &id, body).await;
        let wanted = (400, json!("invalid_tool"), json!(field));
        assert_eq!(refusal(&got), wanted, "{body}");
    }
    let got = patch(&lab, &id, r#"{"name":"taken"}"#).await;
    assert_eq!(refusal(&got), (409, json!("name_taken"), json!("name")));
    assert_eq!(get(&lab, &format!("/{id}")).await.json(), before);
}

#[tokio::test]
async fn names_are_free_for_one_tool_each() {
    let lab = lab().await;
    let id = lab.make("find", "/one", json!({})).await;
    let again = lab.define("find", "/two", json!({})).to_string();
    let got = create(&lab.editor, "default", again.clone()).await;
    assert_eq!(refusal(&got), (409, json!("name_taken"), json!("name")));
    for built_in in BUILT_IN {
        let definition = lab.define(built_in, "/", json!({})).to_string();
        let got = create(&lab.editor, "default", definition).await;
        let wanted = (400, json!("invalid_tool"), json!("name"));
        assert_eq!(refusal(&got), wanted, "{built_in}");
    }
    // A name that was given up can be taken, by a new tool and by the old one.
    lab.patch(&id, json!({ "name": "search" })).await;
    let got = create(&lab.editor, "default", again).await;
    assert_eq!(got.status, 201, "{}", got.text());
    let first = get(&lab, &format!("/{id}?version=1")).await.json();
    assert_eq!(
        (&first["name"], &first["version"]),
        (&json!("find"), &json!(1))
    );
}

#[tokio::test]
async fn a_deleted_tool_is_found_by_nobody_and_its_name_is_free() {
    let lab = lab().await;
    let id = lab.make("find", "/one", json!({})).await;
    lab.patch(&id, json!({ "label": "Two" })).await;
    let path = format!("{TOOLS}/{id}");
    let got = lab.editor.send("DELETE", &path, &[], "").await.unwrap();
    let wanted = json!({ "id": id, "object": "tool.deleted", "deleted": true });
    assert_eq!((got.status, got.json()), (200, wanted));
    let test = format!("{path}/test");
    for (method, path) in [
        ("GET", path.clone()),
        ("GET", format!("{path}?version=1")),
        ("PATCH", path.clone()),
        ("DELETE", path.clone()),
        ("POST", test),
    ] {
        let got = lab.editor.send(method, &path, &[], "{}").await.unwrap();
        assert_eq!(refusal(&got).0, 404, "{method} {path}");
    }
    assert_eq!(get(&lab, "").await.json()["data"], json!([]));
    let new = lab.make("find", "/new", json!({})).await;
    assert_ne!(new, id);
    assert_eq!(get(&lab, &format!("/{new}")).await.json()["version"], 1);
}

#[tokio::test]
async fn an_organization_keeps_so_many_tools() {
    let service = Listener::in_turn(vec![ListenerReply::json("{}")]);
    let service = service.await.unwrap();
    let mut wanted = reaching(&[&service], Vec::new());
    let configure = wanted.config;
    wanted.config = Box::new(move |config| {
        configure(config);
        config.tools_stored_max = 2;
    });
    let lab = ToolLab::start(service, wanted).await;
    lab.make("a", "/", json!({})).await;
    let id = lab.make("b", "/", json!({})).await;
    let third = lab.define("c", "/", json!({})).to_string();
    let got = create(&lab.editor, "default", third.clone()).await;
    assert_eq!(refusal(&got), (409, json!("too_many_tools"), Value::Null));
    lab.patch(&id, json!({ "label": "Still changes" })).await;
    let other = super::lab::editor(&lab.app, "other").await;
    assert_eq!(create(&other, "other", third.clone()).await.status, 201);
    lab.delete(&id).await;
    assert_eq!(create(&lab.editor, "default", third).await.status, 201);
}

#[tokio::test]
async fn what_is_masked_stays_what_it_is_when_it_comes_back() {
    let lab = lab().await;
    let key = json!({ "mode": "fixed", "value": "k-17", "sensitive": true });
    let id = lab
        .make("find", "/", json!({ "parameters": { "key": key } }))
        .await;
    let mut shown = get(&lab, &format!("/{id}")).await.json();
    assert_eq!(shown["parameters"]["key"]["value"], "***");
    // All of it comes back, as a console sends it, with another label.
    for of_answer in [
        "id",
        "object",
        "version",
        "created_at",
        "updated_at",
        "function_schema",
    ] {
        shown.as_object_mut().unwrap().remove(of_answer);
    }
    shown["label"] = json!("Changed");
    lab.patch(&id, shown).await;
    lab.run("find").await;
    assert_eq!(lab.service.asked()[0].target, "/?key=k-17");
    let unmasked = json!({ "parameters": { "key": { "sensitive": false } } });
    let got = patch(&lab, &id, &unmasked.to_string()).await;
    assert!(!got.text().contains("k-17"), "{}", got.text());
    let got = get(&lab, &format!("/{id}")).await;
    assert!(!got.text().contains("k-17"), "{}", got.text());
}
