use super::{Schema, Written, read};
use crate::json::{Json, Literal};

const PARAMETERS: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","maximum":7}},"required":["city"],"additionalProperties":false}"#;

fn check(text: &str, end: Written) -> Result<String, String> {
    let parameters = Json::parse(PARAMETERS).unwrap();
    let schema = Schema::compile(&parameters).unwrap();
    read(&Literal::from_text(text), end, &schema, &parameters)
        .map(|args| args.json().as_str().to_owned())
        .map_err(|error| error.0)
}

#[test]
fn valid_arguments_keep_their_bytes() {
    let text = r#"{ "city":"Köln",  "days":3 }"#;
    assert_eq!(check(text, Written::InFull).unwrap(), text);
}

#[test]
fn broken_arguments_say_what_and_where() {
    for (text, says) in [
        (r#"{"city":"Kö"#, "not complete, valid JSON"),
        (r#"{"town":"Köln"}"#, "city"),
        (r#"{"city":"Köln","days":9}"#, "arguments/days"),
        (r#"{"city":"a"}{"city":"b"}"#, "several JSON objects"),
        (r#"{"city":"a"} and more"#, "more text"),
        ("[]", "one JSON object"),
        ("\"x\"", "one JSON object"),
        ("3", "one JSON object"),
        ("null", "one JSON object"),
        ("", "city"),
    ] {
        let error = check(text, Written::InFull).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
        assert!(error.contains("The tool takes"), "{error}");
    }
}

#[test]
fn what_was_cut_never_runs_even_if_it_looks_whole() {
    for text in ["", "{}", r#"{"city":"Köln"}"#] {
        assert!(
            check(text, Written::CutByLength)
                .unwrap_err()
                .contains("length limit")
        );
    }
}

#[test]
fn empty_arguments_are_an_empty_object() {
    let parameters = Json::parse(r#"{"type":"object"}"#).unwrap();
    let schema = Schema::compile(&parameters).unwrap();
    for text in ["", "  \n"] {
        let args = read(
            &Literal::from_text(text),
            Written::InFull,
            &schema,
            &parameters,
        )
        .unwrap();
        assert_eq!(args.json().as_str(), "{}");
    }
}

#[test]
fn deep_arguments_are_refused_before_they_are_parsed() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(
        check(&deep, Written::InFull)
            .unwrap_err()
            .contains("nest deeper")
    );
}
