use serde_json::json;

use super::sample;
use crate::tool::{SelectedAnswer, ToolOutput};

#[test]
fn statuses_and_types_are_matched() {
    let tool = sample::definition(&json!({"response": {
        "statuses": ["2xx", 404],
        "content_types": ["application/json", "text/*", "*/*+json"],
    }}));
    for (status, is_answer) in [
        (200, true),
        (299, true),
        (404, true),
        (403, false),
        (302, false),
        (500, false),
        (0, false),
    ] {
        assert_eq!(tool.accepts(status), is_answer, "{status}");
    }
    for (content_type, is_text) in [
        ("application/json", true),
        ("Application/JSON ; charset=utf-8", true),
        ("text/html;x", true),
        ("application/problem+json", true),
        ("application/json2", false),
        ("application/x+jsonx", false),
        ("image/png", false),
        ("text", false),
        ("", false),
        ("; text/plain", false),
        ("image/png; text/plain", false),
    ] {
        assert_eq!(tool.is_text(content_type), is_text, "{content_type}");
    }
}

#[test]
fn a_selection_keeps_the_digits_and_the_order() {
    let answer = r#"{"data":{"id":12345678901234567890123,"price":10.00,"z":{"b":1,"a":2},"dup":1,"dup":2},"items":[{"n":1},{"n":2.50},{"m":3}]}"#;
    for (select, expected) in [
        (json!("$.data.id"), "12345678901234567890123"),
        (json!("$['data']['price']"), "10.00"),
        (json!("$.data.z"), r#"{"b":1,"a":2}"#),
        (json!("$.data.dup"), "2"),
        (json!("$.absent"), "null"),
        (json!("$.items[-1]"), r#"{"m":3}"#),
        (json!("$.items[*].n"), "[1,2.50]"),
        (json!("$.items[0:1].n"), "[1]"),
        (json!("$..n"), "[1,2.50]"),
        (json!("$.items[?@.n > 1]"), r#"[{"n":2.50}]"#),
        (json!("$.absent[*]"), "[]"),
        (
            json!("$['data','absent']['id']"),
            "[12345678901234567890123]",
        ),
        (json!("$['a*b']"), "null"),
        (
            json!({"id": "$.data.id", "all": "$..n", "none": "$.x"}),
            r#"{"id":12345678901234567890123,"all":[1,2.50],"none":null}"#,
        ),
    ] {
        let tool = sample::definition(&json!({"response": {"select": select}}));
        let whole = SelectedAnswer {
            text: expected.to_owned(),
            cut: false,
        };
        assert_eq!(tool.selected(answer, false), Some(whole), "{select}");
    }
}

#[test]
fn the_root_selects_the_whole_answer() {
    for answer in [
        r#"{"b":1.50,"a":[{}]}"#,
        "[1,2.0]",
        r#""text""#,
        "12.0",
        "null",
    ] {
        let named = format!(r#"{{"all":{answer},"again":{answer}}}"#);
        for (select, expected) in [
            (json!("$"), answer.to_owned()),
            (json!({"all": "$", "again": "$"}), named),
        ] {
            let tool = sample::definition(&json!({"response": {"select": select}}));
            let whole = SelectedAnswer {
                text: expected,
                cut: false,
            };
            assert_eq!(
                tool.selected(answer, false),
                Some(whole),
                "{select} {answer}"
            );
        }
    }
}

/// Whoever selects may do so to keep the rest from the model.
#[test]
fn what_cannot_be_selected_from_is_not_shown() {
    let plain = sample::definition(&json!({}));
    assert_eq!(plain.selected("{}", false), None);
    let tool = sample::definition(&json!({"response": {"select": "$.a"}}));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for (text, cut) in [
        ("plain", false),
        ("{\"a\":", false),
        ("{} x", false),
        (r#"{"a":"\ud83d","note":"internal"}"#, false),
        (r#"{"a":1e999,"note":"internal"}"#, false),
        (&deep, false),
        (r#"{"a":1}"#, true),
    ] {
        let told = tool.selected(text, cut).unwrap();
        assert!(told.text.contains("cannot be shown"), "{text}: {told:?}");
    }
    for text in ["", " \n"] {
        assert_eq!(tool.selected(text, false), None, "{text:?}");
    }
    let marked = tool.selected("\u{feff}{\"a\":1}", false).unwrap();
    assert_eq!(marked.text, "1");
}

#[test]
fn a_wide_answer_is_selected_from_in_one_pass() {
    let members: Vec<_> = (0..100_000).map(|n| format!("\"{n}\":{n}")).collect();
    let answer = format!("{{{}}}", members.join(","));
    let tool =
        sample::definition(&json!({"response": {"select": "$.*", "shown_bytes_max": 1 << 20}}));
    let selected = tool.selected(&answer, false).unwrap().text;
    assert!(selected.starts_with("[0,1,2,") && selected.ends_with(",99999]"));
}

/// Arrays in arrays, and a text in the innermost.
fn nested(levels: usize, text: &str) -> String {
    format!("{}\"{text}\"{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn what_is_selected_is_written_as_far_as_the_model_is_shown() {
    // Every array on the way is found, and holds the text once more.
    let answer = nested(64, &"x".repeat(900_000));
    let names: serde_json::Map<_, _> = (0..16).map(|n| (format!("n{n}"), json!("$..*"))).collect();
    for (select, begins) in [
        (json!("$..*"), "[[[["),
        (json!("$[0]"), "[[[["),
        (json!(names), r#"{"n0":[[[["#),
    ] {
        let tool = sample::definition(&json!({"response": {"select": select}}));
        let selected = tool.selected(&answer, false).unwrap();
        assert!(
            selected.cut && selected.text.starts_with(begins),
            "{select}"
        );
        assert_eq!(selected.text.len(), 16 * 1024, "{select}");
        let output = ToolOutput::Text {
            text: answer.clone(),
            cut: false,
            selected: Some(selected.clone()),
        };
        let shown = output.shown(16 * 1024);
        assert!(
            shown.starts_with(&selected.text) && shown.ends_with("[cut: the result is longer]")
        );
    }
}

#[test]
fn what_fits_exactly_is_not_cut() {
    let tool = |max| {
        sample::definition(
            &json!({"response": {"select": {"a": "$.a", "b": "$.b"}, "shown_bytes_max": max}}),
        )
    };
    let answer = r#"{"b":"é","a":1}"#;
    for (max, text, cut) in [
        (16, r#"{"a":1,"b":"é"}"#, false),
        (15, r#"{"a":1,"b":"é""#, true),
        (14, r#"{"a":1,"b":"é"#, true),
        (13, r#"{"a":1,"b":""#, true),
    ] {
        let text = text.to_owned();
        assert_eq!(
            tool(max).selected(answer, false),
            Some(SelectedAnswer { text, cut }),
            "{max}"
        );
    }
}

#[test]
fn an_answer_with_too_many_values_or_levels_is_not_shown() {
    let tool = sample::definition(&json!({"response": {"select": "$[0]"}}));
    let wide = |values: usize| format!("[{}1]", "1,".repeat(values - 2));
    for (answer, is_selected) in [
        (wide(200_000), true),
        (wide(200_001), false),
        (nested(64, ""), true),
        (nested(65, ""), false),
    ] {
        let told = tool.selected(&answer, false).unwrap().text;
        let is_shown = !told.contains("cannot be shown");
        assert_eq!(is_shown, is_selected, "{}", answer.len());
    }
}
