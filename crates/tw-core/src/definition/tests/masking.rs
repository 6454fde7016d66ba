use serde_json::json;

use super::sample::definition;
use crate::definition::MaskedCall;

#[test]
fn what_is_sensitive_is_masked_where_it_stands_and_in_the_result() {
    let text = json!({ "type": "string" });
    let ai = |sensitive: bool| json!({ "mode": "ai", "schema": text, "sensitive": sensitive });
    let tool = definition(&json!({ "parameters": {
        "city": ai(false),
        "pin": ai(true),
        "person": { "mode": "object", "properties": { "name": ai(false), "iban": ai(true) } },
        "steps": { "mode": "array", "items": [ai(false), ai(true)] },
    } }));
    let rows = [
        (
            r#"{"city":"Rome","pin":"12345"}"#,
            "12345 is right, 1234 is not",
            r#"{"city":"Rome","pin":"***"}"#,
            "*** is right, 1234 is not",
        ),
        (
            r#"{"person":{"name":"Ann","iban":"DE00 1"},"steps":{"item_1":"a","item_2":"secret step"}}"#,
            "DE00 1",
            r#"{"person":{"name":"Ann","iban":"***"},"steps":{"item_1":"a","item_2":"***"}}"#,
            "***",
        ),
        (
            r#"{"pin":{"a":["longer one",12345678,null,true]}}"#,
            "one, longer one, 12345678, true",
            r#"{"pin":"***"}"#,
            "one, ***, ***, true",
        ),
        (
            r#"{"pin":"a \"b\" c"}"#,
            r#"{"said":"a \"b\" c"}, a "b" c"#,
            r#"{"pin":"***"}"#,
            r#"{"said":"***"}, ***"#,
        ),
        // What does not fit may have it anywhere.
        (
            r#"{"person":"DE00 1"}"#,
            "DE00 1",
            r#"{"person":"***"}"#,
            "***",
        ),
        (r#"{"pin":"12345""#, "no JSON", "***", "no JSON"),
        ("[\"12345\"]", "", "***", ""),
    ];
    for (arguments, shown, masked, masked_shown) in rows {
        let expected = MaskedCall {
            arguments: masked.to_owned(),
            shown: masked_shown.to_owned(),
        };
        assert_eq!(tool.masked_call(arguments, shown), expected, "{arguments}");
    }
}

#[test]
fn a_tool_without_anything_sensitive_keeps_its_bytes() {
    let tool = definition(&json!({ "parameters": {
        "city": { "mode": "ai", "schema": { "type": "string" } },
    } }));
    for arguments in ["{ \"city\":  1.50 }", "{\"city\"", ""] {
        let masked = tool.masked_call(arguments, "as it is");
        assert_eq!(
            (masked.arguments.as_str(), masked.shown.as_str()),
            (arguments, "as it is")
        );
    }
}
