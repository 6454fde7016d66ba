use tw_core::json::shared::SharedText;

use super::{PreparedInput, SocketWish, error_event, read};
use crate::client_error::{ClientError, ErrorKind};

#[test]
fn a_message_becomes_the_read_a_stream() {
    for (message, request) in [
        (
            r#"{"type":"response.create","model":"m","input":[ 1.50]}"#,
            r#"{"stream":true,"model":"m","input":[ 1.50]}"#,
        ),
        (
            r#"{"model":"m","stream":false,"stream_options":{},"stream_id":"s","background":false,"generate":true,"type":"response.create"}"#,
            r#"{"stream":true,"model":"m"}"#,
        ),
    ] {
        assert_eq!(read(message).unwrap().body.as_str(), request);
    }
}

#[test]
fn a_message_tells_what_it_continues() {
    for (name, continues) in [
        (r#""resp_1""#, Some("resp_1")),
        ("null", None),
        (r#""""#, None),
    ] {
        let message = format!(r#"{{"type":"response.create","previous_response_id":{name}}}"#);
        assert_eq!(read(&message).unwrap().continues.as_deref(), continues);
    }
}

#[test]
fn other_messages_are_refused() {
    for (message, param) in [
        ("", None),
        ("[]", None),
        (r#"{"type":"response.create""#, None),
        ("{}", Some("type")),
        (r#"{"type":"response.cancel"}"#, Some("type")),
        (r#"{"type":7}"#, Some("type")),
        (r#"{"type":"response.create","type":"x"}"#, Some("type")),
        (
            r#"{"type":"response.create","background":true}"#,
            Some("background"),
        ),
        (
            r#"{"type":"response.create","generate":"no"}"#,
            Some("generate"),
        ),
    ] {
        let error = read(message).unwrap_err();
        assert_eq!(error.param.as_deref(), param, "{message}");
    }
}

#[test]
fn a_message_tells_whether_the_model_is_asked() {
    for (generate, wants) in [
        ("", SocketWish::Response),
        (r#","generate":true"#, SocketWish::Response),
        (r#","generate":null"#, SocketWish::Response),
        (r#","generate":false"#, SocketWish::Preparation),
    ] {
        let message = format!(r#"{{"type":"response.create","model":"m"{generate}}}"#);
        assert_eq!(read(&message).unwrap().wants, wants, "{generate}");
    }
}

#[test]
fn prepared_input_stands_before_that_of_the_request_that_goes_on() {
    const SAID: &str = r#"{"type":"message","role":"user","content":"a\u0041"}"#;
    for (prepared, next, whole) in [
        (
            r#"{"model":"m","input":"a\u0041"}"#.to_owned(),
            r#"{"model":"n","previous_response_id":"resp_w","input":[ 1.50],"x\"y":null}"#,
            format!(r#"{{"model":"n","x\"y":null,"input":[{SAID},1.50]}}"#),
        ),
        (
            r#"{"input":[{"a":1}, 2],"previous_response_id":"resp_\u0061"}"#.to_owned(),
            r#"{"previous_response_id":"resp_w","input":"a\u0041"}"#,
            format!(r#"{{"previous_response_id":"resp_a","input":[{{"a":1}},2,{SAID}]}}"#),
        ),
        (
            r#"{"input":[]}"#.to_owned(),
            r#"{"previous_response_id":"resp_w"}"#,
            r#"{"input":[]}"#.to_owned(),
        ),
    ] {
        let of = |text: &str| SharedText::new(text.to_owned());
        let prepared = PreparedInput::of(&of(&prepared));
        assert_eq!(prepared.before(&of(next)).as_str(), whole);
    }
}

#[test]
fn an_error_has_its_status_and_a_code() {
    let coded = ClientError::new(ErrorKind::NotFound, Some("not_found"), "No.");
    let plain = ClientError::new(ErrorKind::Invalid, None, "No.");
    for (error, status, code) in [
        (coded, 404, "not_found"),
        (plain, 400, "invalid_request_error"),
    ] {
        let event: serde_json::Value =
            serde_json::from_str(&error_event(&error, status, "req_1")).unwrap();
        assert_eq!(event["type"], "error");
        assert_eq!(event["status"], status);
        assert_eq!(event["error"]["code"], code);
        assert_eq!(event["error"]["message"], "No.");
    }
}

#[test]
fn events_are_on_the_lane_that_the_message_named() {
    for (lane, event) in [
        ("", r#"{"type":"x"}"#),
        (r#","stream_id":null"#, r#"{"type":"x"}"#),
        (
            r#","stream_id":"a\"b""#,
            r#"{"stream_id":"a\"b","type":"x"}"#,
        ),
    ] {
        let message = format!(r#"{{"type":"response.create"{lane}}}"#);
        let lane = read(&message).unwrap().lane;
        assert_eq!(lane.on(r#"{"type":"x"}"#), event);
    }
    let error = read(r#"{"type":"response.create","stream_id":7}"#).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("stream_id"));
}
