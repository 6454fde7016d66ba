use super::TokenUsage;
use crate::json::Json;

fn usage(json: &str) -> TokenUsage {
    TokenUsage {
        prompt_tokens: 1,
        completion_tokens: 2,
        total_tokens: 3,
        json: Json::parse(json).unwrap(),
    }
}

#[test]
fn rounds_are_summed_at_every_depth() {
    let first = usage(r#"{"prompt_tokens":5,"details":{"cached":2,"audio":null},"cost":0.25}"#);
    let second =
        usage(r#"{"prompt_tokens":7,"details":{"cached":1,"audio":4},"cost":0.5,"tier":"x"}"#);
    let sum = first.plus(&second);
    assert_eq!(
        sum.json.as_str(),
        r#"{"prompt_tokens":12,"details":{"cached":3,"audio":4},"cost":0.75,"tier":"x"}"#
    );
    assert_eq!((sum.prompt_tokens, sum.total_tokens), (2, 6));
}
