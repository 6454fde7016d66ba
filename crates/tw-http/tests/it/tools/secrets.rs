//! Secrets of the operator: sent where they were granted for, and seen nowhere else.

use serde_json::{Value, json};
use tw_egress::secrets::SecretGrant;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest, ReplyPiece};

use super::lab::{Ran, ToolLab, create, definition, editor, grant, place, reaching};
use crate::app::{ask, ask_streamed};
use crate::canary::{Logs, holds, whole};

/// Written differently in JSON, in a URL and in a form.
const SECRET: &str = "s3cr&t/\"c nary\"+ü";
/// As JSON and as a URL would write it.
const IN_JSON: &str = "s3cr&t/\\\"c nary\\\"+ü";
const IN_URL: &str = "s3cr%26t%2F%22c%20nary%22%2B%C3%BC";
const NUMBER: &str = "4711471147114711";
const OTHERS: &str = "another-organizations-secret";

/// What the service answers, by the path.
fn answer(asked: &ReceivedRequest) -> ListenerReply {
    let authorization = asked.headers.get("authorization");
    let authorization = authorization.map_or(&b""[..], |value| value.as_bytes());
    let authorization = String::from_utf8(authorization.to_vec()).unwrap();
    let body = String::from_utf8(asked.body.to_vec()).unwrap();
    let echo = json!({ "target": asked.target, "authorization": authorization, "body": body });
    let path = asked.target.split(['?', '/']).nth(1).unwrap();
    match path {
        "silent" => ListenerReply::json(r#"{"ok":true}"#),
        "echo" => ListenerReply::json(echo.to_string()),
        "plain" => {
            ListenerReply::pieces("text/plain", vec![ReplyPiece::Bytes(authorization.into())])
        }
        "refuse" => ListenerReply::status(422, echo.to_string()),
        "busy" => ListenerReply::status(503, echo.to_string()),
        "redirect" => ListenerReply::status(302, "").with_header("location", &asked.target),
        "cut" => ListenerReply::pieces(
            "application/json",
            vec![ReplyPiece::Bytes(echo.to_string().into()), ReplyPiece::Cut],
        ),
        "hang_up" => ListenerReply::hang_up(),
        other => panic!("{other}"),
    }
}

const PATHS: [&str; 8] = [
    "silent", "echo", "plain", "refuse", "busy", "redirect", "cut", "hang_up",
];

async fn service() -> Listener {
    Listener::start(answer).await.unwrap()
}

fn grants(service: &Listener) -> Vec<SecretGrant> {
    let place = place(service);
    vec![
        grant("MINE", SECRET, &["default"], &[&place]),
        grant("THEIRS", OTHERS, &["other"], &[&place]),
        grant("ELSEWHERE", OTHERS, &["default"], &["api.example.com"]),
    ]
}

async fn lab() -> ToolLab {
    let service = service().await;
    let wanted = reaching(&[&service], grants(&service));
    ToolLab::start(service, wanted).await
}

/// A secret wherever one may stand.
fn members() -> Value {
    json!({
        "method": "POST",
        "headers": { "authorization": { "secret": "MINE", "prefix": "Bearer " } },
        "query": { "q": { "secret": "MINE" } },
        "body": { "in": [{ "secret": "MINE" }] },
        "parameters": {
            "who": { "mode": "ai" },
            "key": { "mode": "fixed", "value": { "secret": "MINE" } },
        },
        "policy": { "backoff_ms": 0, "attempts_max": 2 },
    })
}

#[track_caller]
fn assert_hidden(what: &str, text: &str) {
    for secret in [
        SECRET, IN_JSON, IN_URL, OTHERS, "c nary", "c%20nary", "c+nary",
    ] {
        assert!(!text.contains(secret), "{what}: {text}");
    }
}

/// That nothing of it is in anything that anybody can see.
async fn assert_kept(lab: &ToolLab, ran: &Ran, logs: &Logs) {
    assert_hidden("answer", &whole(&ran.got));
    assert_hidden("record", &ran.turn.to_string());
    let id = ran.got.header("turnwright-turn");
    for path in [
        format!("/v1/turns/{id}"),
        format!("/v1/turns/{id}/events"),
        format!("/v1/turns/{id}/events?format=chat"),
        "/api/default/tools".to_owned(),
    ] {
        let got = lab.editor.send("GET", &path, &[], "").await.unwrap();
        assert_eq!(got.status, 200, "{path}");
        assert_hidden(&path, &whole(&got));
    }
    for asked in lab.model.asked() {
        assert_hidden("model", std::str::from_utf8(&asked.body).unwrap());
        assert_hidden("model's headers", &format!("{:?}", asked.headers));
    }
    assert_hidden("logs", &logs.text());
    for secret in [SECRET, IN_JSON, IN_URL] {
        assert!(!holds(&lab.app.files(), secret), "{secret} in the database");
    }
}

#[tokio::test]
async fn a_secret_is_sent_and_never_seen() {
    for path in PATHS {
        let logs = Logs::capture();
        let lab = lab().await;
        let id = lab.make("act", &format!("/{path}"), members()).await;
        for body in [ask, ask_streamed] {
            let body = body(r#"act {"who":"x"}"#);
            let ran = lab.run_with(&lab.app.client, &[], &body).await;
            let asked = lab.service.asked().pop().unwrap();
            check_sent(&asked);
            assert_kept(&lab, &ran, &logs).await;
            let shown = ran.call()["shown"].as_str().unwrap();
            match path {
                "echo" | "refuse" => assert_eq!(shown.matches("***").count(), 4, "{shown}"),
                "plain" => assert_eq!(shown, "Bearer ***"),
                _ => {}
            }
        }
        for dry in [true, false] {
            let trial = json!({ "arguments": { "who": "x" }, "dry": dry });
            let got = test(&lab.editor, &id, &trial).await;
            assert_eq!(got.status, 200, "{}", got.text());
            assert_hidden("test", &whole(&got));
            let request = &got.json()["request"];
            assert_eq!(request["headers"][0][1], "Bearer ***", "{request}");
        }
        assert_hidden("logs", &logs.text());
    }
}

fn check_sent(asked: &ReceivedRequest) {
    assert_eq!(
        asked.headers["authorization"].as_bytes(),
        format!("Bearer {SECRET}").as_bytes()
    );
    assert!(
        asked.target.ends_with(&format!("?q={IN_URL}")),
        "{}",
        asked.target
    );
    let wanted = json!({ "who": "x", "key": SECRET, "in": [SECRET] });
    assert_eq!(asked.json(), wanted);
}

async fn test(editor: &TestClient, id: &str, trial: &Value) -> ReadAnswer {
    let path = format!("/api/default/tools/{id}/test");
    let sent = editor.send("POST", &path, &[], trial.to_string());
    sent.await.unwrap()
}

#[tokio::test]
async fn what_is_selected_and_what_is_cached_is_masked_too() {
    let logs = Logs::capture();
    let lab = lab().await;
    let members = json!({
        "headers": { "authorization": { "secret": "MINE", "prefix": "Bearer " } },
        "response": { "select": "$.authorization" },
        "policy": { "cache": { "lifetime_s": 60, "scope": "organization" } },
    });
    lab.make("act", "/echo", members).await;
    for is_cached in [false, true] {
        let ran = lab.run("act").await;
        assert_eq!(ran.call()["shown"], r#""Bearer ***""#);
        assert_eq!(ran.call()["cached"], is_cached);
        assert_kept(&lab, &ran, &logs).await;
    }
}

/// Masked, a number leaves no JSON behind, from which nothing could be selected any more.
#[tokio::test]
async fn a_number_that_is_a_secret_does_not_undo_the_selection() {
    let answer = format!(r#"{{"id":7,"key":{NUMBER}}}"#);
    let service = Listener::in_turn(vec![ListenerReply::json(answer)])
        .await
        .unwrap();
    let grants = vec![grant("MINE", NUMBER, &["default"], &[&place(&service)])];
    let wanted = reaching(&[&service], grants);
    let lab = ToolLab::start(service, wanted).await;
    let members = json!({
        "headers": { "x-key": { "secret": "MINE" } },
        "response": { "select": "$.id" },
        "policy": { "cache": { "lifetime_s": 60, "scope": "tool" } },
    });
    lab.make("act", "/", members).await;
    for is_cached in [false, true] {
        let ran = lab.run("act").await;
        let call = ran.call();
        assert_eq!(call["result"], r#"{"id":7,"key":***}"#);
        assert_eq!(
            (&call["shown"], &call["cached"]),
            (&json!("7"), &json!(is_cached))
        );
    }
}

#[tokio::test]
async fn what_was_not_granted_is_refused_like_what_is_not_there() {
    let lab = lab().await;
    let other = editor(&lab.app, "other").await;
    let mut told = Vec::new();
    for name in [
        "THEIRS",
        "ELSEWHERE",
        "NO_SUCH",
        "OPENAI_API_KEY",
        "PATH",
        "HOME",
    ] {
        for (field, members) in [
            (
                "headers.x",
                json!({ "headers": { "x": { "secret": name } } }),
            ),
            ("query.x", json!({ "query": { "x": { "secret": name } } })),
            (
                "body.x[0]",
                json!({ "method": "POST", "body": { "x": [{ "secret": name }] } }),
            ),
            (
                "parameters.x.value",
                json!({ "parameters": { "x": { "mode": "fixed", "value": { "secret": name } } } }),
            ),
        ] {
            let definition = lab.define("act", "/silent", members);
            let preview = json!({ "tool": definition }).to_string();
            let path = "/api/default/tools/preview";
            let previewed = lab.editor.send("POST", path, &[], preview).await.unwrap();
            let saved = create(&lab.editor, "default", definition.to_string()).await;
            for got in [previewed, saved] {
                let error = got.json()["error"].clone();
                assert_eq!(
                    (got.status, &error["param"]),
                    (400, &json!(field)),
                    "{name}"
                );
                told.push(error["message"].as_str().unwrap().replace(field, "FIELD"));
            }
        }
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    // Granted for this service, and not for another port of the same host.
    let elsewhere = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let members = json!({ "headers": { "x": { "secret": "MINE" } } });
    let definition = definition("act", &elsewhere.url("/"), members);
    let refused = create(&lab.editor, "default", definition.to_string()).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let theirs = lab.define(
        "act",
        "/silent",
        json!({ "headers": { "x": { "secret": "THEIRS" } } }),
    );
    let got = create(&other, "other", theirs.to_string()).await;
    assert_eq!(got.status, 201, "{}", got.text());
}

#[tokio::test]
async fn a_secret_that_was_withdrawn_is_not_sent() {
    for (left, why) in [
        (Vec::new(), "it is gone"),
        (
            vec![grant("MINE", SECRET, &["other"], &[])],
            "it is another's",
        ),
        (
            vec![grant("MINE", SECRET, &["default"], &["api.example.com"])],
            "it is for another place",
        ),
    ] {
        let logs = Logs::capture();
        let lab = lab().await;
        let id = lab.make("act", "/echo", members()).await;
        let app = lab
            .app
            .again(&lab.model, reaching(&[&lab.service], left))
            .await;
        let editor = app.with_key(lab.editor.key.clone());
        let lab = ToolLab { app, editor, ..lab };
        let ran = lab.run(r#"act {"who":"x"}"#).await;
        assert_eq!(ran.ended(), "failed target_not_allowed", "{why}");
        let shown = ran.call()["shown"].as_str().unwrap();
        assert!(!shown.contains("MINE"), "{why}: {shown}");
        let got = test(
            &lab.editor,
            &id,
            &json!({ "arguments": { "who": "x" }, "dry": false }),
        )
        .await;
        assert_eq!(
            got.json()["outcome"]["status"],
            "not_allowed",
            "{why}: {}",
            got.text()
        );
        assert!(lab.service.asked().is_empty(), "{why}");
        assert_kept(&lab, &ran, &logs).await;
    }
}

#[tokio::test]
async fn one_without_hosts_is_for_a_server_with_one_organization() {
    let service = service().await;
    let wanted = reaching(&[&service], vec![grant("MINE", SECRET, &["default"], &[])]);
    let lab = ToolLab::start(service, wanted).await;
    lab.make("act", "/echo", members()).await;
    assert_eq!(lab.run(r#"act {"who":"x"}"#).await.ended(), "completed");
    assert_eq!(lab.service.asked().len(), 1);
    editor(&lab.app, "other").await;
    let definition = lab.define("act_2", "/echo", members());
    // Whoever looks into the book anew sees the second one.
    let app = lab.app.again(
        &lab.model,
        reaching(
            &[&lab.service],
            vec![grant("MINE", SECRET, &["default"], &[])],
        ),
    );
    let app = app.await;
    let editor = app.with_key(lab.editor.key.clone());
    let lab = ToolLab { app, editor, ..lab };
    let got = create(&lab.editor, "default", definition.to_string()).await;
    assert_eq!(got.status, 400, "{}", got.text());
    let ran = lab.run(r#"act {"who":"x"}"#).await;
    assert_eq!(ran.ended(), "failed target_not_allowed");
    assert_eq!(lab.service.asked().len(), 1);
}

#[tokio::test]
async fn what_a_model_and_a_request_write_is_never_taken_for_a_secret() {
    let lab = lab().await;
    let members = json!({
        "method": "POST",
        "parameters": { "who": { "mode": "ai", "schema": {} } },
        "body": { "v": "{{caller}}" },
        "headers": { "x-static": "{{caller}}" },
        "variables": { "caller": {} },
    });
    lab.make("act", "/silent", members).await;
    let named = r#"{"secret":"MINE"}"#;
    let mut body = ask(&format!(r#"act {{"who":{named}}}"#));
    body["metadata"] = json!({ "caller": named });
    let ran = lab.run_with(&lab.app.client, &[], &body).await;
    assert_eq!(ran.ended(), "completed");
    let asked = lab.service.asked().pop().unwrap();
    assert_eq!(
        asked.json(),
        json!({ "who": { "secret": "MINE" }, "v": named })
    );
    assert_eq!(asked.header("x-static"), named);
}
