//! Bodies that are no bodies, on every route that takes one.

use serde_json::{Value, json};
use tw_core::limits::DEFINITION_BYTES_MAX;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::ListenerReply;

use super::lab::{ToolLab, definition};

const MEBIBYTE: usize = 1024 * 1024;

struct Bad {
    name: &'static str,
    body: Vec<u8>,
    status: u16,
}

fn bodies() -> Vec<Bad> {
    let bad = |name, body: Vec<u8>, status| Bad { name, body, status };
    let object = br#"{"label":"x"}"#.to_vec();
    let mut with_bom = b"\xef\xbb\xbf".to_vec();
    with_bom.extend(&object);
    let mut twice = object.clone();
    twice.extend(&object);
    vec![
        bad("not JSON", b"name=t".to_vec(), 400),
        bad("cut", br#"{"label":"#.to_vec(), 400),
        bad("an array", b"[]".to_vec(), 400),
        bad("a string", br#""x""#.to_vec(), 400),
        bad("null", b"null".to_vec(), 400),
        bad("a number", b"1e999".to_vec(), 400),
        bad("not UTF-8", b"{\"label\":\"\xff\"}".to_vec(), 400),
        bad("UTF-16", b"\xff\xfe{\0}\0".to_vec(), 400),
        bad("a mark of order", with_bom, 400),
        bad("two objects", twice, 400),
        bad("a control character", b"{\"label\":\"\n\"}".to_vec(), 400),
        bad(
            "half a surrogate pair",
            br#"{"label":"\ud800"}"#.to_vec(),
            400,
        ),
        bad("deep", nested(65), 400),
        bad("very deep", nested(100_000), 400),
        bad("deep and cut", vec![b'['; 500_000], 400),
        bad("too long", vec![b' '; MEBIBYTE + 1], 413),
        bad("much too long", vec![b'{'; 4 * MEBIBYTE], 413),
    ]
}

fn nested(levels: usize) -> Vec<u8> {
    let (open, close) = (r#"{"a":"#.repeat(levels), "}".repeat(levels));
    format!("{open}1{close}").into_bytes()
}

async fn send(lab: &ToolLab, method: &str, path: &str, body: Vec<u8>) -> ReadAnswer {
    let sent = lab.editor.send(method, path, &[], body);
    sent.await.unwrap()
}

#[tokio::test]
async fn every_route_refuses_every_one() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    let id = lab.make("mine", "/", json!({})).await;
    let tool = format!("/api/default/tools/{id}");
    let before = send(&lab, "GET", &tool, Vec::new()).await.json();
    let test = format!("{tool}/test");
    let mut wrong = Vec::new();
    for (method, path) in [
        ("POST", "/api/default/tools"),
        ("POST", "/api/default/tools/preview"),
        ("POST", test.as_str()),
        ("PATCH", tool.as_str()),
    ] {
        for Bad { name, body, status } in bodies() {
            let got = send(&lab, method, path, body).await;
            let error = got.json()["error"].clone();
            let is_told = error["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty())
                && error["request_id"] == got.header("x-request-id");
            if got.status != status || !is_told {
                wrong.push(format!(
                    "{method} {path}, {name}: {} {}",
                    got.status,
                    got.text()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let after = send(&lab, "GET", &tool, Vec::new()).await.json();
    assert_eq!(after, before);
    assert!(lab.service.asked().is_empty());
}

fn padded(text: &str, bytes: usize) -> Vec<u8> {
    format!("{text}{}", " ".repeat(bytes - text.len())).into_bytes()
}

#[tokio::test]
async fn the_longest_body_and_the_longest_definition_are_read() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    let tool = lab.define("long", "/", json!({})).to_string();
    let preview = json!({ "tool": lab.define("long", "/", json!({})) }).to_string();
    for (path, body, status) in [
        (
            "/api/default/tools/preview",
            padded(&preview, MEBIBYTE),
            200,
        ),
        (
            "/api/default/tools/preview",
            padded(&preview, MEBIBYTE + 1),
            413,
        ),
        (
            "/api/default/tools",
            padded(&tool, DEFINITION_BYTES_MAX + 1),
            400,
        ),
        (
            "/api/default/tools",
            padded(&tool, DEFINITION_BYTES_MAX),
            201,
        ),
    ] {
        let got = send(&lab, "POST", path, body).await;
        assert_eq!(got.status, status, "{path}: {}", got.text());
    }
}

/// What a test or a preview is given beside a good tool, and the parameter that is named.
fn trials() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "metadata": "x" }), "metadata"),
        (json!({ "metadata": ["x"] }), "metadata"),
        (json!({ "metadata": { "a": 1 } }), "metadata.a"),
        (json!({ "metadata": { "a": null } }), "metadata.a"),
        (json!({ "arguments": {} }), "arguments"),
        (json!({ "arguments": [] }), "arguments"),
        (json!({ "arguments": null, "surplus": 1 }), ""),
        (json!({ "arguments": { "who": 7 } }), "arguments"),
        (
            json!({ "arguments": { "who": "x", "fixed": "y" } }),
            "arguments",
        ),
    ]
}

#[tokio::test]
async fn what_a_tool_is_tried_with_must_fit() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    let members = json!({ "parameters": {
        "who": { "mode": "ai" }, "fixed": { "mode": "fixed", "value": "hidden-1" },
    } });
    let id = lab.make("mine", "/", members.clone()).await;
    let test = format!("/api/default/tools/{id}/test");
    let preview = "/api/default/tools/preview";
    for (trial, param) in trials() {
        let mut real = trial.clone();
        real["dry"] = json!(false);
        let mut previewed = trial.clone();
        previewed["tool"] = definition("mine", &lab.service.url("/"), members.clone());
        for (path, body) in [(test.as_str(), trial), (&test, real), (preview, previewed)] {
            let got = send(&lab, "POST", path, body.to_string().into_bytes()).await;
            let label = format!("{path} {body}: {}", got.text());
            assert_eq!(got.status, 400, "{label}");
            let named = got.json()["error"]["param"].clone();
            assert_eq!(named.as_str().unwrap_or_default(), param, "{label}");
            assert!(!got.text().contains("hidden-1"), "{label}");
        }
    }
    let got = send(&lab, "POST", &test, br#"{"dry":"no"}"#.to_vec()).await;
    assert_eq!(got.status, 400, "{}", got.text());
    assert!(lab.service.asked().is_empty());
}
