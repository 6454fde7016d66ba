//! What of a call may not be shown, as it is stored beside the call. SQL reads it, too.

use serde_json::{Value, json};
use tw_core::definition::SensitiveCall;

use super::DamagedRecord;

const WHAT: &str = "sensitive call";

/// Without NUL, as results are that SQL looks for hidden texts in.
pub fn encode(call: &SensitiveCall) -> String {
    let stored = |text: &String| text.replace('\0', "\u{fffd}");
    let hidden: Vec<String> = call.hidden.iter().map(stored).collect();
    json!({ "arguments": stored(&call.arguments), "hidden": hidden }).to_string()
}

/// # Errors
/// [`DamagedRecord`] when the text is no such call.
pub fn decode(text: &str) -> Result<SensitiveCall, DamagedRecord> {
    let read = || {
        let stored: Value = serde_json::from_str(text).ok()?;
        let hidden = stored.get("hidden")?.as_array()?.iter();
        let hidden = hidden.map(|text| text.as_str().map(str::to_owned));
        Some(SensitiveCall {
            arguments: stored.get("arguments")?.as_str()?.to_owned(),
            hidden: hidden.collect::<Option<_>>()?,
        })
    };
    read().ok_or_else(|| DamagedRecord::new(WHAT, "no object of arguments and hidden texts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_text_is_as_it_stands_in_a_stored_result() {
        let call = SensitiveCall {
            arguments: "***".to_owned(),
            hidden: vec!["abc\0def".to_owned()],
        };
        let stored = decode(&encode(&call)).unwrap();
        assert_eq!(stored.masked("an abc\u{fffd}def"), "an ***");
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let call = SensitiveCall {
            arguments: r#"{"to":"***"}"#.to_owned(),
            hidden: vec!["a \"quoted\" one".to_owned(), "1234".to_owned()],
        };
        assert_eq!(decode(&encode(&call)).unwrap(), call);
        for damaged in [
            "",
            "{}",
            r#"{"arguments":1,"hidden":[]}"#,
            r#"{"arguments":"","hidden":[1]}"#,
        ] {
            decode(damaged).unwrap_err();
        }
    }
}
