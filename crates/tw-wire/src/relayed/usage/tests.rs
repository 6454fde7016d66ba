use tw_core::relayed_request::RelayedTokens;

use super::UsageReader;

const EVENTS: &str = "text/event-stream; charset=utf-8";

fn check(content_type: &str, answer: &str, wanted: (Option<u64>, Option<u64>)) {
    let wanted = RelayedTokens {
        input: wanted.0,
        output: wanted.1,
    };
    for piece in [1, 2, 3, 7, answer.len().max(1)] {
        let mut reader = UsageReader::new(Some(content_type));
        for bytes in answer.as_bytes().chunks(piece) {
            reader.feed(bytes);
        }
        assert_eq!(reader.tokens(), wanted, "{answer} in pieces of {piece}");
    }
}

#[test]
fn usage_is_found_in_what_passes() {
    let long = format!(
        r#"{{"usage":{{"x":"{}","prompt_tokens":1}}}}"#,
        "y".repeat(4096)
    );
    for (content_type, answer, wanted) in [
        (
            "application/json",
            r#"{"object":"list","data":[{"usage":{"prompt_tokens":9},"embedding":[0.1,[-2e3]]}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#,
            (Some(5), None),
        ),
        (
            "application/json",
            r#"{ "usage" : { "input_tokens": 7, "output_tokens": 8, "details": {"a": [1, "}"]} } , "b": "usage" }"#,
            (Some(7), Some(8)),
        ),
        (
            "application/json",
            r#"{"results":[],"usage":{"total_tokens":15}}"#,
            (Some(15), None),
        ),
        (
            "application/json",
            r#"{"usage":{"prompt_tokens":1,"completion_tokens":null,"total_tokens":1}}"#,
            (Some(1), None),
        ),
        (
            "application/json",
            r#"{"text":"\"usage\":{\"prompt_tokens\":1}"}"#,
            (None, None),
        ),
        (
            "application/json",
            r#"{"x":"\\","usage":{"prompt_tokens":2}}"#,
            (Some(2), None),
        ),
        (
            "application/json",
            r#"{"xusage":{"prompt_tokens":1}}"#,
            (None, None),
        ),
        (
            "application/json",
            r#"{"usage":{"type":"duration","seconds":3}}"#,
            (None, None),
        ),
        ("application/json", r#"{"usage":null}"#, (None, None)),
        (
            "application/json",
            r#"[{"usage":{"prompt_tokens":1}}]"#,
            (None, None),
        ),
        (
            "application/json",
            r#"{"usage":{"prompt_tokens":1"#,
            (None, None),
        ),
        ("application/json", &long, (None, None)),
        (
            "audio/mpeg",
            r#"{"usage":{"prompt_tokens":1}}"#,
            (None, None),
        ),
        (
            EVENTS,
            "data: {\"choices\":[],\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n",
            (Some(3), Some(4)),
        ),
        (
            EVENTS,
            ": {\"usage\":{\"prompt_tokens\":1}}\r\nevent: data:\r\ndata:{\"usage\":{\"input_tokens\":6}}\r\n\r\ndata: {\"type\":\"end\"}\r\n",
            (Some(6), None),
        ),
        (
            EVENTS,
            "data: {\"usage\":{\"prompt_tokens\":1}}",
            (Some(1), None),
        ),
        (
            EVENTS,
            "data: {\"a\":\"\ndata: \",\"usage\":{\"prompt_tokens\":1}}\n\n",
            (None, None),
        ),
    ] {
        check(content_type, answer, wanted);
    }
}
