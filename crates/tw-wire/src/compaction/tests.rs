use serde_json::{Value, json};
use tw_core::json::shared::SharedText;

use super::{
    BrokenSealAt, CompactionPlan, KEPT_BYTES_MAX, NO_USAGE, OpenedSeal, plan, summarized,
    summary_of, unfold,
};

/// Opens what begins with `s:`.
fn open(sealed: &str) -> OpenedSeal {
    match sealed.strip_prefix("s:") {
        Some("broken") => OpenedSeal::Broken,
        Some(content) => OpenedSeal::Content(content.to_owned()),
        None => OpenedSeal::Foreign,
    }
}

fn sealed(content: &str) -> Value {
    json!({ "type": "compaction", "id": "cmp_1", "encrypted_content": content })
}

#[test]
fn sealed_items_become_what_they_stand_for_and_all_else_stays_as_it_was_written() {
    let item = sealed(r#"s:[{"a":1.50}, {"b":2}]"#);
    let older = json!({ "type": "compaction_summary", "encrypted_content": r#"s:["c"]"# });
    for (body, unfolded, foreign) in [
        (
            format!(r#"{{"model":"m", "input":[{{"x":1.0}}, {item} ,{older}], "z":1.50}}"#),
            r#"{"model":"m", "input":[{"x":1.0}, {"a":1.50}, {"b":2} ,"c"], "z":1.50}"#.to_owned(),
            None,
        ),
        (
            format!(r#"{{"input":[{},{item}]}}"#, sealed("gAAAA")),
            format!(r#"{{"input":[{},{{"a":1.50}}, {{"b":2}}]}}"#, sealed("gAAAA")),
            Some(0),
        ),
        (
            r#"{"input":"encrypted_content","type":"compaction"}"#.to_owned(),
            r#"{"input":"encrypted_content","type":"compaction"}"#.to_owned(),
            None,
        ),
        (
            r#"{"input":[{"type":"reasoning","encrypted_content":"s:[1]"},{"type":"compaction"},7]}"#.to_owned(),
            r#"{"input":[{"type":"reasoning","encrypted_content":"s:[1]"},{"type":"compaction"},7]}"#.to_owned(),
            None,
        ),
        ("no json".to_owned(), "no json".to_owned(), None),
    ] {
        let got = unfold(&SharedText::new(body), open).unwrap();
        assert_eq!(got.body.as_str(), unfolded);
        assert_eq!(got.foreign, foreign);
    }
}

#[test]
fn a_broken_seal_is_told_with_its_place() {
    for content in ["s:broken", "s:", "s:[]", "s:{}"] {
        let body = json!({ "input": [{ "role": "user", "content": "x" }, sealed(content)] });
        let got = unfold(&SharedText::new(body.to_string()), open);
        assert_eq!(got.unwrap_err(), BrokenSealAt(1), "{content}");
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_short_conversation_is_kept_and_a_long_one_asked_for() {
    let short = SharedText::from(r#"{"model":"m","input":"Hi"}"#);
    let hi = json!([{ "type": "message", "role": "user", "content": "Hi" }]);
    let CompactionPlan::Kept(content) = plan(&short, false) else {
        panic!("it is short");
    };
    assert_eq!(read(&content), hi);
    // What stands before it is not known here.
    assert!(matches!(plan(&short, true), CompactionPlan::Ask(_)));
    let long = json!({
        "model": "m", "instructions": "Be kind.", "tools": [{ "type": "function", "name": "f" }], "temperature": 0.1,
        "prompt_cache_key": "k", "input": [{ "role": "user", "content": "x".repeat(KEPT_BYTES_MAX) }],
    });
    let CompactionPlan::Ask(asked) = plan(&SharedText::new(long.to_string()), false) else {
        panic!("it is long");
    };
    let asked = read(&asked);
    let names: Vec<&String> = asked.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "model",
            "instructions",
            "prompt_cache_key",
            "store",
            "input"
        ]
    );
    assert_eq!(asked["store"], json!(false));
    assert_eq!(asked["input"][0], long["input"][0]);
    assert_eq!(asked["input"].as_array().unwrap().len(), 2);
    assert_eq!(asked["input"][1]["role"], json!("user"));
}

#[test]
fn behind_a_summary_stand_the_calls_that_wait_for_their_results() {
    let call = |id: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": "{}" });
    let question = |id: &str| json!({ "type": "mcp_approval_request", "id": id, "name": "f", "arguments": "{}" });
    let body = json!({ "model": "m", "input": [
        { "role": "user", "content": "x" }, call("c1"),
        { "type": "function_call_output", "call_id": "c1", "output": "1" }, call("c2"),
        question("mcpr_1"), { "type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true },
        { "type": "mcp_call", "id": "mcp_1", "approval_request_id": "mcpr_1", "output": "1" }, question("mcpr_2"),
    ] });
    let content = read(&summarized(
        &SharedText::new(body.to_string()),
        "They \"spoke\".",
    ));
    let items = content.as_array().unwrap();
    assert_eq!(items[1..], [call("c2"), question("mcpr_2")]);
    let said = items[0]["content"][0]["text"].as_str().unwrap();
    assert!(said.ends_with("\n\nThey \"spoke\"."), "{said}");
}

#[test]
fn the_summary_is_all_text_of_the_answer() {
    let message = |text: &str| json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] });
    for (response, said) in [
        (
            json!({ "output": [{ "type": "reasoning", "content": [{ "text": "hm" }] }, message("A"), message("B")] }),
            Some("AB"),
        ),
        (json!({ "output": [message(" ")] }), None),
        (json!({ "output": [] }), None),
        (json!({}), None),
    ] {
        let got = summary_of(response.to_string().as_bytes());
        assert_eq!(got, said.map(|said| (said.to_owned(), NO_USAGE.to_owned())));
    }
}
