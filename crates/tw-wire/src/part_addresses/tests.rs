use super::{AddressedRequest, PartContent};
use crate::format::WireFormat;
use crate::format::WireFormat::{AnthropicMessages, OpenAiChat, OpenAiResponses};

const PNG: &str = "https://x/y.png";

fn content() -> PartContent {
    PartContent {
        media_type: "image/png".to_owned(),
        base64: "AAAA".to_owned(),
        text: None,
    }
}

fn filled(format: WireFormat, body: &str, content: &PartContent) -> Option<String> {
    let request = AddressedRequest::read(body.as_bytes(), format)?;
    let filled = request.with_contents(|_| Some(content));
    Some(String::from_utf8(filled).unwrap())
}

#[test]
fn a_content_takes_the_place_of_its_address() {
    let rows = [
        (
            OpenAiChat,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}]}],"n":1.50}"#,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}]}],"n":1.50}"#,
        ),
        (
            OpenAiChat,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":"https://x/y.png"}]}]}"#,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":"data:image/png;base64,AAAA"}]}]}"#,
        ),
        (
            OpenAiChat,
            r#"{"messages":[{"content":[{"type":"file","file":{"filename":"f","file_data":"http://x/y"}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"file","file":{"filename":"f","file_data":"data:image/png;base64,AAAA"}}]}]}"#,
        ),
        (
            OpenAiResponses,
            r#"{"input":[{"content":[{"type":"input_image","image_url":"https://x/y.png"}]}]}"#,
            r#"{"input":[{"content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}"#,
        ),
        (
            OpenAiResponses,
            r#"{"input":[{"content":[{"type":"input_file","file_url":"https://x/y.png"}]}]}"#,
            r#"{"input":[{"content":[{"type":"input_file","filename":"file","file_data":"data:image/png;base64,AAAA"}]}]}"#,
        ),
        (
            OpenAiResponses,
            r#"{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"https://x/y.png"}]}]}"#,
            r#"{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}"#,
        ),
        (
            AnthropicMessages,
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"},"cache_control":{"type":"ephemeral"}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"},"cache_control":{"type":"ephemeral"}}]}]}"#,
        ),
        (
            AnthropicMessages,
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"url","url":"https://x/y.png"}}]}]}]}"#,
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}]}"#,
        ),
    ];
    for (format, body, expected) in rows {
        let got = filled(format, body, &content());
        assert_eq!(got.as_deref(), Some(expected), "{format:?}");
    }
}

#[test]
fn a_text_is_a_text_where_the_format_says_so() {
    let text = PartContent {
        media_type: "text/csv".to_owned(),
        base64: "YSxi".to_owned(),
        text: Some("a,b".to_owned()),
    };
    let body = r#"{"messages":[{"content":[{"type":"document","source":{"type":"url","url":"https://x/y"}}]}]}"#;
    let expected = r#"{"messages":[{"content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a,b"}}]}]}"#;
    assert_eq!(
        filled(AnthropicMessages, body, &text).as_deref(),
        Some(expected)
    );
}

#[test]
fn what_names_no_address_is_left_as_it_is() {
    let rows = [
        (
            OpenAiChat,
            r#"{"messages":[{"role":"user","content":"see https://x/y.png"}]}"#,
        ),
        (
            OpenAiChat,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,http"}}]}]}"#,
        ),
        (
            OpenAiChat,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"ftp://http"}}]}]}"#,
        ),
        (
            OpenAiChat,
            r#"{"messages":[],"tools":[{"type":"image_url","image_url":"https://x/y.png"}]}"#,
        ),
        // The names of another format.
        (
            OpenAiResponses,
            r#"{"input":[{"content":[{"type":"image_url","image_url":"https://x/y.png"}]}]}"#,
        ),
        (
            AnthropicMessages,
            r#"{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"http"}}]}]}"#,
        ),
        (OpenAiResponses, r#"{"input":"https://x/y.png"}"#),
        (OpenAiChat, "http"),
    ];
    for (format, body) in rows {
        assert_eq!(filled(format, body, &content()), None, "{body}");
    }
}

#[test]
fn each_address_is_named_once() {
    let part = r#"{"type":"input_image","image_url":"https://x/y.png"}"#;
    let body = format!(r#"{{"input":[{{"content":[{part},{part}]}}]}}"#);
    let request = AddressedRequest::read(body.as_bytes(), OpenAiResponses).unwrap();
    let addresses = request.addresses();
    assert_eq!(addresses.len(), 1);
    assert_eq!(addresses[0].url, PNG);
    // One that is not there stays.
    assert_eq!(request.with_contents(|_| None), body.into_bytes());
}
