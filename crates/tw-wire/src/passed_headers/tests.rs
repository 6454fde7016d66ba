use super::{PASSED_HEADER_BYTES_MAX, PassedHeaderError, PassedHeaders};
use crate::format::WireFormat;

const BETA: &str = "anthropic-beta";
const VERSION: &str = "anthropic-version";

fn read(headers: &[(&str, &str)]) -> Result<PassedHeaders, PassedHeaderError> {
    PassedHeaders::read(|name| {
        let values = headers.iter().filter(move |(have, _)| *have == name);
        values.map(|(_, value)| value.as_bytes())
    })
}

#[test]
fn an_upstream_gets_the_headers_of_its_own_format_and_the_version_once() {
    let none: &[(&str, &str)] = &[];
    for (headers, messages) in [
        (none, vec![(VERSION, "2023-06-01")]),
        (
            &[(VERSION, "2024-01-01"), ("x-other", "1")],
            vec![(VERSION, "2024-01-01")],
        ),
        (
            &[(BETA, "a-1,b-2"), (BETA, " c-3 "), (BETA, "")],
            vec![(BETA, "a-1,b-2,c-3"), (VERSION, "2023-06-01")],
        ),
        (&[(VERSION, " ")], vec![(VERSION, "2023-06-01")]),
    ] {
        let passed = read(headers).unwrap();
        let sent = passed.for_upstream(WireFormat::AnthropicMessages);
        assert_eq!(sent, messages);
        for other in [WireFormat::OpenAiChat, WireFormat::OpenAiResponses] {
            assert_eq!(passed.for_upstream(other), []);
        }
        let stored = passed
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(PassedHeaders::of_stored(stored), Some(passed.clone()));
    }
}

#[test]
fn a_header_that_cannot_be_passed_on_is_refused() {
    let long = "x".repeat(PASSED_HEADER_BYTES_MAX + 1);
    for (headers, error) in [
        (
            &[(VERSION, "1"), (VERSION, "2")][..],
            PassedHeaderError::Twice(VERSION),
        ),
        (&[(BETA, "\u{e4}")], PassedHeaderError::Unreadable(BETA)),
        (&[(BETA, "a\u{7f}b")], PassedHeaderError::Unreadable(BETA)),
        (&[(BETA, &long)], PassedHeaderError::Unreadable(BETA)),
    ] {
        assert_eq!(read(headers), Err(error));
    }
    let other = [("authorization".to_owned(), "x".to_owned())];
    assert_eq!(PassedHeaders::of_stored(other), None);
}
