use serde_json::Value;
use tw_core::fault::{FaultClass, TurnFault};

use super::render;
use crate::client_error::ClientError;
use crate::openai_chat::body::decode_error;

fn fault(class: FaultClass) -> TurnFault {
    TurnFault {
        class,
        message: "no \"such\" model".to_owned(),
        code: Some("upstream_code".to_owned()),
        kind: Some("upstream_kind".to_owned()),
        param: Some("model".to_owned()),
        retry_after_s: None,
    }
}

#[test]
fn each_class_has_its_status_and_words() {
    let rows = [
        (
            FaultClass::Refused { status: 404 },
            404,
            "upstream_kind",
            Some("upstream_code"),
            Some("model"),
        ),
        (
            FaultClass::UpstreamFailed,
            502,
            "upstream_error",
            Some("upstream_failed"),
            None,
        ),
        (
            FaultClass::UpstreamReported,
            502,
            "upstream_kind",
            Some("upstream_code"),
            Some("model"),
        ),
        (
            FaultClass::UpstreamLimited,
            429,
            "rate_limit_error",
            Some("rate_limit_exceeded"),
            None,
        ),
        (
            FaultClass::UpstreamSilent,
            504,
            "upstream_error",
            Some("upstream_timeout"),
            None,
        ),
        (
            FaultClass::Deadline,
            504,
            "server_error",
            Some("deadline"),
            None,
        ),
        (
            FaultClass::Interrupted,
            503,
            "server_error",
            Some("interrupted"),
            None,
        ),
        (
            FaultClass::Cancelled,
            409,
            "conflict_error",
            Some("cancelled"),
            None,
        ),
        (FaultClass::Internal, 500, "server_error", None, None),
    ];
    for (class, status, kind, code, param) in rows {
        let error = ClientError::of_fault(&fault(class));
        let rendered: Value = serde_json::from_slice(&render(&error, None)).expect("JSON");
        let told = &rendered["error"];
        let have = (
            error.kind.status(),
            told["type"].as_str(),
            told["code"].as_str(),
            told["param"].as_str(),
        );
        assert_eq!(have, (status, Some(kind), code, param), "{class:?}");
    }
}

#[test]
fn the_shape_is_openais() {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let error = ClientError::of_fault(&fault(FaultClass::Refused { status: 404 }));
    assert_eq!(
        text(render(&error, None)),
        r#"{"error":{"message":"no \"such\" model","type":"upstream_kind","param":"model","code":"upstream_code"}}"#
    );
    let error = ClientError::of_fault(&TurnFault::new(FaultClass::Internal, "the server failed"));
    assert_eq!(
        text(render(&error, Some("req_1"))),
        r#"{"error":{"message":"the server failed","type":"server_error","param":null,"code":null,"request_id":"req_1"}}"#
    );
}

#[test]
fn upstream_errors_of_every_shape_are_read() {
    let rows = [
        (
            r#"{"error":{"message":"a","type":"t","param":"p","code":"c"}}"#,
            "a",
            Some("t"),
            Some("c"),
            500,
        ),
        (
            r#"{"error":{"message":"a","code":401}}"#,
            "a",
            None,
            Some("401"),
            401,
        ),
        (
            r#"{"error":{"code":"404","message":"a"}}"#,
            "a",
            None,
            Some("404"),
            404,
        ),
        (
            r#"{"code":"invalid-argument","error":"a"}"#,
            "a",
            None,
            Some("invalid-argument"),
            500,
        ),
        (r#"{"detail":"a"}"#, "a", None, None, 500),
        (
            r#"{"detail":[{"loc":["body","n"],"msg":"wrong","type":"x"}]}"#,
            "body.n: wrong",
            None,
            None,
            500,
        ),
        (
            r#"{"object":"error","message":"a","type":"BadRequestError","param":null,"code":400}"#,
            "a",
            Some("BadRequestError"),
            Some("400"),
            400,
        ),
        (
            r#"[{"error":{"code":429,"message":"a","status":"RESOURCE_EXHAUSTED"}}]"#,
            "a",
            Some("RESOURCE_EXHAUSTED"),
            Some("429"),
            429,
        ),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"a"}}"#,
            "a",
            Some("overloaded_error"),
            None,
            500,
        ),
        (r#"{"errors":[{"message":"a"}]}"#, "a", None, None, 500),
        (r#"{"Message":"a"}"#, "a", None, None, 500),
        (
            "plain\n words",
            "the upstream answered 500: plain words",
            None,
            None,
            500,
        ),
        (
            "<html><head><TITLE>Bad gateway</TITLE></head></html>",
            "the upstream answered 500: Bad gateway",
            None,
            None,
            500,
        ),
        (
            "<html></html>",
            "the upstream answered 500 without a message",
            None,
            None,
            500,
        ),
        (
            "",
            "the upstream answered 500 without a message",
            None,
            None,
            500,
        ),
        ("7", "the upstream answered 500: 7", None, None, 500),
    ];
    for (body, message, kind, code, status) in rows {
        let error = decode_error(500, None, body.as_bytes());
        let have = (
            error.message.as_str(),
            error.kind.as_deref(),
            error.code.as_deref(),
            error.status,
        );
        assert_eq!(have, (message, kind, code, Some(status)), "{body}");
    }
}

#[test]
fn a_long_error_is_cut() {
    let error = decode_error(500, Some("text/plain"), "ž".repeat(100_000).as_bytes());
    assert!(error.message.len() < 300, "{}", error.message.len());
    let error = decode_error(500, Some("text/plain"), b"\xff\xfe\n");
    assert!(error.message.starts_with("the upstream answered 500"));
}
