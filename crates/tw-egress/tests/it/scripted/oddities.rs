//! Each oddity that was recorded from a provider can be written with `raw`.

use std::collections::BTreeSet;

use super::{ask, bytes, header, streamed, user};
use tw_egress::scripted::{Script, ScriptedPiece};

const SCRIPT: &str = include_str!("oddities.toml");

/// An oddity, whether its request streams, the status, and bytes that its answer holds just so.
type Case = (&'static str, bool, u16, &'static [u8]);

const CASES: &[Case] = &[
    (
        "whole_call_in_one_chunk",
        true,
        200,
        br#""arguments":"{\"x\":1}"}}]},"finish_reason":"tool_calls"}],"usage""#,
    ),
    (
        "several_calls_in_one_chunk",
        true,
        200,
        br#"{"index":1,"id":"b","function""#,
    ),
    (
        "call_without_index_and_type",
        true,
        200,
        br#""tool_calls":[{"id":"a","function":{"#,
    ),
    (
        "one_index_for_two_calls",
        true,
        200,
        br#"[{"index":0,"id":"b""#,
    ),
    (
        "first_index_is_1",
        true,
        200,
        br#""tool_calls":[{"index":1"#,
    ),
    (
        "id_and_name_repeated",
        true,
        200,
        br#""id":"f:0","type":"function","function":{"name":"f","arguments":"}"}"#,
    ),
    (
        "later_id_and_name_empty",
        true,
        200,
        br#""id":"","function":{"name":"""#,
    ),
    (
        "later_id_type_and_name_null",
        true,
        200,
        br#""id":null,"type":null,"function":{"name":null"#,
    ),
    (
        "arguments_absent",
        true,
        200,
        br#""function":{"name":"f"}}"#,
    ),
    (
        "arguments_cut_with_finish_tool_calls",
        true,
        200,
        br#""arguments":"{\"x\":\"ab"}"#,
    ),
    (
        "finish_stop_with_calls",
        true,
        200,
        br#""finish_reason":"stop""#,
    ),
    (
        "finish_missing",
        true,
        200,
        b"\"finish_reason\":null}]}\n\ndata: [DONE]\n\n",
    ),
    (
        "finish_twice",
        true,
        200,
        br#""content":""},"finish_reason":"stop"}],"usage""#,
    ),
    ("finish_eos", true, 200, br#""finish_reason":"eos""#),
    (
        "done_missing",
        true,
        200,
        b"\"finish_reason\":\"stop\"}]}\n\n",
    ),
    (
        "error_event_in_stream",
        true,
        200,
        b"event: error\ndata: {\"error\"",
    ),
    (
        "error_beside_choices",
        true,
        200,
        br#""finish_reason":"error"}],"error":{"code":502"#,
    ),
    (
        "usage_on_every_chunk",
        true,
        200,
        br#""usage":{"completion_tokens":2}"#,
    ),
    (
        "first_chunk_without_choices",
        true,
        200,
        br#"{"choices":[],"created":0,"id":"","model":"","object":"""#,
    ),
    (
        "delta_null_or_absent",
        true,
        200,
        br#"{"index":0,"content_filter_results":{}}"#,
    ),
    (
        "object_and_created_missing",
        true,
        200,
        br#"data: {"id":"a","model":"m","choices""#,
    ),
    (
        "role_on_every_chunk",
        true,
        200,
        br#""role":"assistant","content":"b""#,
    ),
    (
        "message_beside_delta",
        true,
        200,
        br#""delta":{"content":"b"},"message""#,
    ),
    (
        "content_as_list",
        true,
        200,
        br#""content":[{"type":"thinking","thinking":[{"#,
    ),
    ("reasoning_fields", true, 200, br#""reasoning_details":[{"#),
    (
        "text_and_calls",
        true,
        200,
        br#""content":null,"tool_calls""#,
    ),
    (
        "two_choices_share_a_call_id",
        true,
        200,
        br#""index":1,"delta":{"tool_calls":[{"index":0,"id":"a""#,
    ),
    (
        "custom_tool_call",
        false,
        200,
        br#""type":"custom","custom""#,
    ),
    (
        "old_function_call",
        false,
        200,
        br#""function_call":{"name":"f""#,
    ),
    ("extra_fields", true, 200, br#""x_groq":{"id":"r"}"#),
    (
        "comments",
        true,
        200,
        b": PROCESSING\n\ndata: {\"choices\":[]}\n\n: PROCESSING\n\n",
    ),
    ("crlf", true, 200, b"data: {\"choices\":[]}\r\n\r\n"),
    ("cr_alone", true, 200, b"data: {\"choices\":[]}\r\r"),
    (
        "no_blank_line_at_the_end",
        true,
        200,
        b"data: {\"choices\":[]}\n",
    ),
    ("byte_order_mark", true, 200, b"\xEF\xBB\xBFdata: "),
    (
        "data_over_two_lines",
        true,
        200,
        b"data: {\"choices\":\ndata:[]}\n\n",
    ),
    (
        "letter_split_over_two_writes",
        true,
        200,
        "\"content\":\"東\"".as_bytes(),
    ),
    (
        "surrogates_split_over_two_deltas",
        true,
        200,
        br#""content":"\ud83d""#,
    ),
    ("not_utf8", true, 200, b"data: \xFF\xFE\n\n"),
    (
        "chunk_that_is_no_json",
        true,
        200,
        b"data: {\"choices\":\n\n",
    ),
    (
        "error_with_detail",
        false,
        401,
        br#"{"detail":"Invalid API Key"}"#,
    ),
    (
        "error_as_a_string",
        true,
        400,
        br#""error":"Incorrect API key provided.""#,
    ),
    ("error_code_a_number", true, 401, br#""code":401"#),
    (
        "page_instead_of_json",
        true,
        502,
        b"<html>Bad gateway</html>",
    ),
];

#[test]
fn every_recorded_oddity_can_be_written_with_raw() {
    let script = Script::parse(SCRIPT).unwrap();
    for (name, stream, status, holds) in CASES {
        let request = if *stream {
            streamed(user(name))
        } else {
            user(name)
        };
        let answer = ask(&script, &request);
        assert_eq!(answer.status, *status, "{name}");
        let sent = bytes(&answer);
        assert!(
            sent.windows(holds.len()).any(|window| window == *holds),
            "{name}: {}",
            String::from_utf8_lossy(&sent)
        );
    }
}

#[test]
fn every_rule_of_the_oddities_is_a_case() {
    let table: toml::Table = SCRIPT.parse().unwrap();
    let rules = table["rule"].as_array().unwrap();
    let written: BTreeSet<&str> = rules
        .iter()
        .map(|rule| rule["when"]["last_contains"].as_str().unwrap())
        .collect();
    let checked: BTreeSet<&str> = CASES.iter().map(|case| case.0).collect();
    assert_eq!(written, checked);
}

#[test]
fn what_comes_last_comes_last() {
    let script = Script::parse(SCRIPT).unwrap();
    for (name, end) in [
        ("done_missing", "\"stop\"}]}\n\n"),
        ("crlf", "}\r\n\r\n"),
        ("cr_alone", "}\r\r"),
        ("no_blank_line_at_the_end", "]}\n"),
    ] {
        let sent = bytes(&ask(&script, &streamed(user(name))));
        assert!(sent.ends_with(end.as_bytes()), "{name}");
    }
}

#[test]
fn each_entry_is_one_write() {
    let script = Script::parse(SCRIPT).unwrap();
    let answer = ask(&script, &streamed(user("letter_split_over_two_writes")));
    assert_eq!(answer.body.len(), 4);
    assert_eq!(
        answer.body[1],
        ScriptedPiece::Bytes(vec![0xE6, 0x9D].into())
    );
    assert_eq!(answer.body[2], ScriptedPiece::Bytes(vec![0xB1].into()));
}

#[test]
fn the_content_type_follows_the_request_unless_it_is_written() {
    let script = Script::parse(SCRIPT).unwrap();
    for (name, request, content_type) in [
        (
            "crlf",
            streamed(user("crlf")),
            "text/event-stream; charset=utf-8",
        ),
        ("crlf", user("crlf"), "application/json"),
        ("page", streamed(user("page_instead_of_json")), "text/html"),
    ] {
        assert_eq!(
            header(&ask(&script, &request), "content-type"),
            Some(content_type),
            "{name}"
        );
    }
}
