//! What is refused before an upstream is asked.

use serde_json::json;
use tw_core::tenant::{KeyScope, ToolGrant};

use super::{EMBEDDINGS, ROUTES, embeds, post};
use crate::app::{App, AppOptions};
use crate::upstreams::{in_front_of, serves, upstream};

#[tokio::test]
async fn a_key_needs_the_scope_chat() {
    let listener = embeds().await;
    let app = App::start(&listener, AppOptions::plain()).await;
    let reads = app
        .key("default", ToolGrant::All, vec![KeyScope::TurnsRead])
        .await;
    for (key, status, code) in [
        (None, 401, "missing_api_key"),
        (Some("tw_wrong".to_owned()), 401, "invalid_api_key"),
        (Some(reads), 403, "insufficient_scope"),
    ] {
        let client = app.with_key(key);
        for (route, _) in ROUTES {
            let got = client
                .send("POST", route, &[], r#"{"model":"m"}"#)
                .await
                .unwrap();
            assert_eq!(got.status, status);
            assert_eq!(got.json()["error"]["code"], json!(code));
        }
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn a_request_that_names_no_model_gets_the_one_of_the_api_or_is_refused() {
    let listener = embeds().await;
    let mut only = upstream("only", listener.url("/v1"));
    only.models = serves(&["omni-*", "dall-e-2"], &[]);
    let app = in_front_of(vec![only]).await;
    for (route, default) in ROUTES {
        let got = post(&app, route, r#"{"input":"x"}"#).await;
        match default {
            Some(_) => assert_eq!(got.status, 200, "{route}"),
            None => {
                let error = &got.json()["error"];
                assert_eq!(
                    (got.status, &error["param"]),
                    (400, &json!("model")),
                    "{route}"
                );
                assert_eq!(error["code"], json!("missing_required_parameter"));
            }
        }
    }
    let mut other = upstream("other", listener.url("/v1"));
    other.models = serves(&["gpt-*"], &[]);
    let app = in_front_of(vec![other]).await;
    for (route, default) in ROUTES {
        let Some(default) = default else { continue };
        let got = post(&app, route, r#"{"input":"x"}"#).await;
        assert_eq!(got.status, 400);
        assert!(got.text().contains(default), "{}", got.text());
    }
    let got = post(&app, EMBEDDINGS, r#"{"model":"secret-4711"}"#).await;
    assert_eq!(
        (got.status, &got.json()["error"]["code"]),
        (404, &json!("model_not_found"))
    );
}

#[tokio::test]
async fn a_body_that_is_too_large_or_cannot_be_read_is_refused() {
    let listener = embeds().await;
    let wanted = AppOptions {
        config: Box::new(|config| config.request.body_bytes_max = 1000),
        ..AppOptions::plain()
    };
    let app = App::start(&listener, wanted).await;
    let large = format!(r#"{{"model":"m","input":"{}"}}"#, "x".repeat(1000));
    let person = format!(r#"{{"model":"m","user":"{}"}}"#, "x".repeat(201));
    for (headers, body, status, param) in [
        (&[][..], &*large, 413, json!(null)),
        (&[], "[]", 400, json!(null)),
        (&[], r#"{"model":"m","model":"n"}"#, 400, json!("model")),
        (&[], &person, 400, json!("user")),
        (
            &[("turnwright-user", "ä")],
            r#"{"model":"m"}"#,
            400,
            json!("turnwright-user"),
        ),
        (
            &[("content-type", "text/plain")],
            r#"{"model":"m"}"#,
            400,
            json!("model"),
        ),
    ] {
        let got = app
            .client
            .send("POST", EMBEDDINGS, headers, body.to_owned())
            .await
            .unwrap();
        assert_eq!(got.status, status, "{}", got.text());
        assert_eq!(got.json()["error"]["param"], param);
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn an_unknown_path_names_those_that_there_are() {
    let listener = embeds().await;
    let app = App::start(&listener, AppOptions::plain()).await;
    for path in ["/v1/embedding", "/v1/audio/x", "/v1", "/"] {
        let got = post(&app, path, "{}").await;
        let error = &got.json()["error"];
        assert_eq!((got.status, &error["code"]), (404, &json!("unknown_url")));
        let message = error["message"].as_str().unwrap();
        for (route, _) in ROUTES.into_iter().chain([("/v1/chat/completions", None)]) {
            assert!(message.contains(route), "{message}");
        }
    }
    for (method, path, allow) in [
        ("GET", EMBEDDINGS, "POST"),
        ("PUT", "/v1/models", "GET,HEAD"),
        ("PUT", "/v1/conversations/x", "GET,HEAD,POST,DELETE"),
    ] {
        let got = app.client.send(method, path, &[], "").await.unwrap();
        assert_eq!(
            (got.status, got.header("allow")),
            (405, allow),
            "{method} {path}"
        );
        assert_eq!(got.json()["error"]["code"], json!("method_not_allowed"));
    }
}
