//! The bytes of completions, streamed and plain.

use super::{ask, body_json, bytes, chunks, header, streamed, transcript, user};
use serde_json::{Value, json};
use tw_egress::scripted::Script;

/// The answer to "hi" from a script of one rule, streamed.
fn check(rule: &str, extra: Value, expected: &str) {
    let script = Script::parse(&format!("[[rule]]\n{rule}")).unwrap();
    let mut request = streamed(user("hi"));
    request
        .as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    let answer = ask(&script, &request);
    let found = transcript(&answer);
    // What is the same in every chunk is left out, to leave what the case is about.
    let found = found
        .replace(r#""id":"chatcmpl-000000000000000000000007","object":"chat.completion.chunk","created":1767225607,"model":"m","service_tier":"default","system_fingerprint":null,"#, "")
        .replace(r#""logprobs":null,"#, "")
        .replace("data: ", "");
    let found: Vec<&str> = found.lines().filter(|line| !line.is_empty()).collect();
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(found, expected, "{rule}");
}

const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}]}"#;
const ROLE_NULL: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"refusal":null},"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const CALLS: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;

fn text(piece: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{piece}"}},"finish_reason":null}}]}}"#)
}

#[test]
fn the_bytes_of_a_short_stream() {
    let script = Script::parse("[[rule]]\ntext = 'Hi.'").unwrap();
    let sent = transcript(&ask(&script, &streamed(user("hi"))));
    let head = r#"data: {"id":"chatcmpl-000000000000000000000007","object":"chat.completion.chunk","created":1767225607,"model":"m","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":"#;
    let expected = [
        head,
        r#"{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]}"#,
        "\n\n",
        head,
        r#"{"content":"Hi."},"logprobs":null,"finish_reason":null}]}"#,
        "\n\n",
        head,
        r#"{},"logprobs":null,"finish_reason":"stop"}]}"#,
        "\n\ndata: [DONE]\n\n",
    ];
    assert_eq!(sent, expected.concat());
}

#[test]
fn text_is_split_at_words_characters_or_where_the_script_says() {
    let none = json!({});
    let two = |a: &str, b: &str| format!("{ROLE}\n{}\n{}\n{STOP}\n[DONE]", text(a), text(b));
    check(
        "text = 'Hello  there'",
        none.clone(),
        &two("Hello", "  there"),
    );
    check(
        "text = 'añb'\npiece_chars = 2",
        none.clone(),
        &two("añ", "b"),
    );
    check(
        "text_pieces = ['Hel', 'lo there']",
        none.clone(),
        &two("Hel", "lo there"),
    );
    check("text = ''", none, &format!("{ROLE}\n{STOP}\n[DONE]"));
}

#[test]
fn a_call_is_a_head_and_pieces_of_arguments() {
    check(
        "calls = [{ name = 'f', arguments = { city = 'Paris' } }, { name = 'g', id = 'mine', arguments = '' }]",
        json!({}),
        &format!(
            r#"{ROLE_NULL}
            {{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"call_000000000000000700000000","type":"function","function":{{"name":"f","arguments":""}}}}]}},"finish_reason":null}}]}}
            {{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":"{{\"city\":"}}}}]}},"finish_reason":null}}]}}
            {{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":"\"Paris\"}}"}}}}]}},"finish_reason":null}}]}}
            {{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":1,"id":"mine","type":"function","function":{{"name":"g","arguments":""}}}}]}},"finish_reason":null}}]}}
            {CALLS}
            [DONE]"#
        ),
    );
}

#[test]
fn broken_arguments_are_sent_as_they_are() {
    let script = Script::parse(
        "[[rule]]\ncalls = [{ name = 'f', arguments = '{\"a\": ' }]\nfinish = 'length'",
    )
    .unwrap();
    let answer = ask(&script, &user("hi"));
    let choice = &body_json(&answer)["choices"][0];
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"]["arguments"],
        "{\"a\": "
    );
    assert_eq!(choice["finish_reason"], "length");
}

#[test]
fn reasoning_then_text_then_calls() {
    let script =
        Script::parse("[[rule]]\nreasoning = 'Hm.'\ntext = 'So:'\ncalls = [{ name = 'f' }]")
            .unwrap();
    let chunks = chunks(&ask(&script, &streamed(user("hi"))));
    let deltas: Vec<String> = chunks
        .iter()
        .map(|chunk| chunk["choices"][0]["delta"].to_string())
        .collect();
    assert_eq!(deltas[1], r#"{"reasoning_content":"Hm."}"#);
    assert_eq!(deltas[2], r#"{"content":"So:"}"#);
    assert!(deltas[3].contains(r#""name":"f""#));
    assert_eq!(deltas.len(), 6);
}

#[test]
fn usage_comes_only_when_it_is_asked_for() {
    let asked = json!({ "stream_options": { "include_usage": true } });
    let null = |event: &str| event.replace("]}", r#"],"usage":null}"#);
    check(
        "text = 'Hello'",
        asked.clone(),
        &format!(
            "{}\n{}\n{}\n{}\n[DONE]",
            null(ROLE),
            null(&text("Hello")),
            null(STOP),
            r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#
        ),
    );
    check(
        "text = ''\nusage = { prompt_tokens = 10, completion_tokens = 5, prompt_tokens_details = { cached_tokens = 4 } }",
        asked,
        &format!(
            "{}\n{}\n{}\n[DONE]",
            null(ROLE),
            null(STOP),
            r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}}"#
        ),
    );
}

#[test]
fn ends_that_are_no_proper_ends() {
    let none = json!({});
    let hello = text("Hello");
    check(
        "text = 'Hello'\nno_done = true",
        none.clone(),
        &format!("{ROLE}\n{hello}\n{STOP}"),
    );
    check(
        "text = 'Hello'\nno_finish = true",
        none.clone(),
        &format!("{ROLE}\n{hello}\n[DONE]"),
    );
    check(
        "text = 'Hello'\ncut_after = 2",
        none.clone(),
        &format!("{ROLE}\n{hello}\n<cut>"),
    );
    check(
        "text = 'Hello'\nsilent_after = 1",
        none.clone(),
        &format!("{ROLE}\n<silence>"),
    );
    check("cut_after = 0", none.clone(), "<cut>");
    // After the last event there is still the end of the body to leave out; beyond it there is nothing.
    check(
        "text = 'Hello'\ncut_after = 4",
        none.clone(),
        &format!("{ROLE}\n{hello}\n{STOP}\n[DONE]\n<cut>"),
    );
    check(
        "text = 'Hello'\ncut_after = 5",
        none,
        &format!("{ROLE}\n{hello}\n{STOP}\n[DONE]"),
    );
}

#[test]
fn pauses_are_between_deltas_and_before_the_head() {
    check(
        "text = 'Hello'\ndelta_ms = 5",
        json!({}),
        &format!(
            "{ROLE}\n<wait 5ms>\n{}\n<wait 5ms>\n{STOP}\n[DONE]",
            text("Hello")
        ),
    );
    let script = Script::parse("[[rule]]\ntext = 'x'\ndelay_ms = 1500").unwrap();
    assert_eq!(ask(&script, &user("hi")).head_delay.as_millis(), 1500);
}

#[test]
fn several_choices_take_turns_and_have_their_own_call_ids() {
    let script = Script::parse("[[rule]]\ncalls = [{ name = 'f', arguments = '' }]").unwrap();
    let mut request = streamed(user("hi"));
    request["n"] = json!(2);
    let chunks = chunks(&ask(&script, &request));
    let indexes: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["index"])
        .collect();
    assert_eq!(indexes, [0, 1, 0, 1, 0, 1]);
    let id = |chunk: &Value| chunk["choices"][0]["delta"]["tool_calls"][0]["id"].clone();
    assert_ne!(id(&chunks[2]), id(&chunks[3]));

    request["stream"] = json!(false);
    let plain = body_json(&ask(&script, &request));
    assert_eq!(plain["choices"].as_array().unwrap().len(), 2);
    assert_eq!(
        plain["choices"][1]["message"]["tool_calls"][0]["id"],
        id_of_choice(1)
    );
}

fn id_of_choice(choice: u64) -> String {
    format!("call_{:016x}{choice:04x}0000", 7)
}

#[test]
fn the_bytes_of_a_plain_body() {
    let script = Script::parse(
        "[[rule]]\ntext = 'Let me see.'\ncalls = [{ name = 'f', arguments = { a = 1 } }]",
    )
    .unwrap();
    let answer = ask(&script, &user("hi"));
    assert_eq!(header(&answer, "content-type"), Some("application/json"));
    assert_eq!(
        String::from_utf8(bytes(&answer)).unwrap(),
        concat!(
            r#"{"id":"chatcmpl-000000000000000000000007","object":"chat.completion","created":1767225607,"model":"m","#,
            r#""choices":[{"index":0,"message":{"role":"assistant","content":"Let me see.","#,
            r#""tool_calls":[{"id":"call_000000000000000700000000","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}],"#,
            r#""refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"tool_calls"}],"#,
            r#""usage":{"prompt_tokens":1,"completion_tokens":5,"total_tokens":6},"service_tier":"default","system_fingerprint":null}"#
        )
    );
}

#[test]
fn a_plain_body_is_cut_in_its_middle() {
    let whole = Script::parse("[[rule]]\ntext = 'Hello'").unwrap();
    let cut = Script::parse("[[rule]]\ntext = 'Hello'\ncut_after = 1").unwrap();
    let whole = transcript(&ask(&whole, &user("hi")));
    let cut = transcript(&ask(&cut, &user("hi")));
    assert_eq!(cut, format!("{}<cut>\n", &whole[..whole.len() / 2]));
}

#[test]
fn errors_have_the_shape_of_openai() {
    for (rule, status, expected) in [
        (
            "status = 429\nretry_after = 3",
            429,
            json!({ "message": "the script answers with status 429", "type": "requests", "param": null, "code": "rate_limit_exceeded" }),
        ),
        (
            "status = 503\nerror = 'overloaded'",
            503,
            json!({ "message": "overloaded", "type": "server_error", "param": null, "code": null }),
        ),
        (
            "status = 400\nerror = { message = 'no', type = 't', code = 12, param = 'p' }",
            400,
            json!({ "message": "no", "type": "t", "param": "p", "code": 12 }),
        ),
    ] {
        let script = Script::parse(&format!("[[rule]]\n{rule}")).unwrap();
        let answer = ask(&script, &streamed(user("hi")));
        assert_eq!(answer.status, status);
        assert_eq!(body_json(&answer), json!({ "error": expected }));
        let retry_after = (status == 429).then_some("3");
        assert_eq!(header(&answer, "retry-after"), retry_after);
    }
}

#[test]
fn a_body_is_sent_as_it_is() {
    let script =
        Script::parse("[[rule]]\nbody = '<p>down</p>'\nstatus = 502\ncontent_type = 'text/html'")
            .unwrap();
    let answer = ask(&script, &streamed(user("hi")));
    assert_eq!(
        (answer.status, bytes(&answer).as_slice()),
        (502, b"<p>down</p>".as_slice())
    );
    assert_eq!(header(&answer, "content-type"), Some("text/html"));
}

#[test]
fn pieces_are_bounded_and_nothing_is_lost() {
    let text = "x".repeat(3000);
    let script = Script::parse(&format!("[[rule]]\ntext = '{text}'\npiece_chars = 1")).unwrap();
    let chunks = chunks(&ask(&script, &streamed(user("hi"))));
    assert_eq!(chunks.len(), 1024 + 2);
    let joined: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(joined, text);
}
