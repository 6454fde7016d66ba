use super::TokenUsage;
use crate::json::Json;
use crate::native::{FormatName, NativePart};

fn usage(json: &str) -> TokenUsage {
    TokenUsage {
        prompt_tokens: 1,
        completion_tokens: 2,
        total_tokens: 3,
        cached_tokens: Some(1),
        native: Some(NativePart {
            format: FormatName::new("any"),
            json: Json::parse(json).unwrap(),
        }),
        ..TokenUsage::default()
    }
}

#[test]
fn rounds_are_summed_at_every_depth() {
    let first = usage(r#"{"prompt_tokens":5,"details":{"cached":2,"audio":null},"cost":0.25}"#);
    let second =
        usage(r#"{"prompt_tokens":7,"details":{"cached":1,"audio":4},"cost":0.5,"tier":"x"}"#);
    let sum = first.plus(&second);
    assert_eq!(
        sum.native.as_ref().unwrap().json.as_str(),
        r#"{"prompt_tokens":12,"details":{"cached":3,"audio":4},"cost":0.75,"tier":"x"}"#
    );
    assert_eq!((sum.prompt_tokens, sum.total_tokens), (2, 6));
    assert_eq!((sum.cached_tokens, sum.reasoning_tokens), (Some(2), None));
}

#[test]
fn usages_of_two_formats_are_summed_by_their_meaning_alone() {
    let first = usage(r#"{"prompt_tokens":1}"#);
    let other = TokenUsage {
        native: Some(NativePart {
            format: FormatName::new("other"),
            json: Json::parse(r#"{"input_tokens":1}"#).unwrap(),
        }),
        reasoning_tokens: Some(5),
        ..usage("{}")
    };
    let sum = first.plus(&other).plus(&first);
    assert_eq!(sum.native, None);
    assert_eq!((sum.prompt_tokens, sum.cached_tokens), (3, Some(3)));
    assert_eq!(sum.reasoning_tokens, Some(5));
}
