use super::{ArgumentsEnd, ArgumentsSchema, PAIRS_CHECKED_MAX, expanded, read};
use crate::json::{Json, Literal};

const PARAMETERS: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","maximum":7}},"required":["city"],"additionalProperties":false}"#;

fn check(text: &str, end: ArgumentsEnd) -> Result<String, String> {
    let parameters = Json::parse(PARAMETERS).unwrap();
    let schema = ArgumentsSchema::compile(&parameters).unwrap();
    read(&Literal::from_text(text), end, &schema, &parameters)
        .map(|args| args.json().as_str().to_owned())
        .map_err(|error| error.0)
}

#[test]
fn valid_arguments_keep_their_bytes() {
    let text = r#"{ "city":"Köln",  "days":3 }"#;
    assert_eq!(check(text, ArgumentsEnd::InFull).unwrap(), text);
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
        let error = check(text, ArgumentsEnd::InFull).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
        assert!(error.contains("The tool takes"), "{error}");
    }
}

#[test]
fn what_was_cut_never_runs_even_if_it_looks_whole() {
    for text in ["", "{}", r#"{"city":"Köln"}"#] {
        assert!(
            check(text, ArgumentsEnd::CutByLength)
                .unwrap_err()
                .contains("length limit")
        );
    }
}

#[test]
fn empty_arguments_are_an_empty_object() {
    let parameters = Json::parse(r#"{"type":"object"}"#).unwrap();
    let schema = ArgumentsSchema::compile(&parameters).unwrap();
    for text in ["", "  \n"] {
        let args = read(
            &Literal::from_text(text),
            ArgumentsEnd::InFull,
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
        check(&deep, ArgumentsEnd::InFull)
            .unwrap_err()
            .contains("nest deeper")
    );
}

fn problem(schema: &str, arguments: &str) -> String {
    let parameters = Json::parse(schema).unwrap();
    let schema = ArgumentsSchema::compile(&parameters).unwrap();
    let read = read(
        &Literal::from_text(arguments),
        ArgumentsEnd::InFull,
        &schema,
        &parameters,
    );
    read.unwrap_err().0
}

/// Whatever is wrong is told in a few kilobytes, and made in little more.
#[test]
fn what_is_said_of_large_arguments_is_small() {
    let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(60_000));
    let all = r#"{"properties":{"x":{"allOf":[{"type":"integer"},{"type":"null"},{"const":5},{"maxLength":3}]}}}"#;
    let said = problem(all, &long);
    assert!(said.contains("arguments/x") && said.contains('…'), "{said}");
    assert!(said.len() < 4_500, "{}", said.len());

    let branches = |count: usize| {
        let branches: Vec<String> = (0..count).map(|n| format!(r#"{{"const":{n}}}"#)).collect();
        let any = branches.join(",");
        format!(r#"{{"properties":{{"x":{{"type":"array","items":{{"anyOf":[{any}]}}}}}}}}"#)
    };
    let items = |count: usize| format!(r#"{{"x":[{}]}}"#, vec!["99999"; count].join(","));
    let said = problem(&branches(10), &items(10));
    assert!(said.contains("arguments/x/0"), "{said}");
    let said = problem(&branches(400), &items(4_000));
    assert!(
        said.starts_with("The arguments do not fit the tool's schema."),
        "{said}"
    );
    let said = problem(&branches(1_000), &items(32_000));
    assert!(said.contains("more values than can be checked"), "{said}");
}

#[test]
fn what_is_referred_to_counts_each_time() {
    for (schema, expected) in [
        (r#"{"type":"object"}"#, 1),
        (r#"{"anyOf":[{"const":1},{"const":2}]}"#, 4),
        (
            r##"{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"items":{}}}}"##,
            11,
        ),
        (r##"{"$ref":"#/nowhere"}"##, 1),
    ] {
        let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
        assert_eq!(
            expanded(&schema, &schema, 0, PAIRS_CHECKED_MAX),
            expected,
            "{schema}"
        );
    }
    // No more is counted than matters, and what leads back to itself has an end.
    let around: serde_json::Value =
        serde_json::from_str(r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##).unwrap();
    assert!(expanded(&around, &around, 0, 1_000) >= 1_000);
}
