use super::sendable_arguments;
use crate::json::Literal;

#[test]
fn arguments_go_out_as_an_object() {
    let rows = [
        ("{}", None),
        (" {\"a\":1}\n", None),
        ("", Some("{}")),
        (" \n", Some("{}")),
        (
            "{\"to\":\"x",
            Some(r#"{"invalid_arguments":"{\"to\":\"x"}"#),
        ),
        ("[]", Some(r#"{"invalid_arguments":"[]"}"#)),
        ("3", Some(r#"{"invalid_arguments":"3"}"#)),
        ("null", Some(r#"{"invalid_arguments":"null"}"#)),
        ("{}{}", Some(r#"{"invalid_arguments":"{}{}"}"#)),
    ];
    for (written, sent) in rows {
        let got = sendable_arguments(&Literal::from_text(written));
        assert_eq!(got.map(|text| text.to_text()).as_deref(), sent, "{written}");
    }
}
