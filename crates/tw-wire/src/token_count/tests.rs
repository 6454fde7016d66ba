use super::{body_of, read, render};
use crate::format::WireFormat;

#[test]
fn what_is_about_the_answer_is_not_asked() {
    for (format, request, asked) in [
        (
            WireFormat::AnthropicMessages,
            r#"{"messages":[ 1],"max_tokens":5,"model":"m","temperature":1.50,"tools":[{"n":1.0}],"new":{}}"#,
            r#"{"messages":[ 1],"model":"m","tools":[{"n":1.0}],"new":{}}"#,
        ),
        (
            WireFormat::OpenAiResponses,
            r#"{"model":"m","input":"x","store":false,"include":[],"instructions":"\u0061","truncation":"auto"}"#,
            r#"{"model":"m","input":"x","instructions":"\u0061","truncation":"auto"}"#,
        ),
    ] {
        let got = body_of(format, request.as_bytes());
        assert_eq!(String::from_utf8(got).unwrap(), asked);
    }
}

#[test]
fn counts_are_read_and_written() {
    for (answer, tokens) in [
        (r#"{"input_tokens":7,"x":1}"#, Some(7)),
        (
            r#"{"object":"response.input_tokens","input_tokens":0}"#,
            Some(0),
        ),
        (r#"{"input_tokens":"7"}"#, None),
        (r#"{"input_tokens":-7}"#, None),
        (r#"{"usage":{"input_tokens":7}}"#, None),
        ("[]", None),
        ("", None),
    ] {
        assert_eq!(read(answer.as_bytes()), tokens, "{answer}");
    }
    assert_eq!(read(b"\xff"), None);
    let written = |format| String::from_utf8(render(format, 42)).unwrap();
    assert_eq!(
        written(WireFormat::AnthropicMessages),
        r#"{"input_tokens":42}"#
    );
    assert_eq!(
        written(WireFormat::OpenAiResponses),
        r#"{"object":"response.input_tokens","input_tokens":42}"#
    );
}
