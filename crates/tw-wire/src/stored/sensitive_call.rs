//! What of a call may not be shown, as it is stored beside the call. SQL reads it, too.

use serde_json::{Value, json};
use tw_core::definition::SensitiveCall;

use super::DamagedRecord;

const WHAT: &str = "sensitive call";

pub fn encode(call: &SensitiveCall) -> String {
    json!({ "arguments": call.arguments, "hidden": call.hidden }).to_string()
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
