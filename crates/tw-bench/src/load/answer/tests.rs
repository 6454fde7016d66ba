use tokio::time::Instant;

use tw_wire::format::WireFormat;

use super::{AnswerProgress, ExpectedAnswer, ExpectedForm};

const CHUNKS: ExpectedForm = ExpectedForm::Stream(WireFormat::OpenAiChat);

fn expected(form: ExpectedForm) -> ExpectedAnswer {
    ExpectedAnswer {
        form,
        text: "w00000 w00001 ".to_owned(),
        deltas: 2,
    }
}

/// What is said about an answer, whatever pieces it comes in.
fn verdict(form: ExpectedForm, status: u16, body: &str) -> Result<(), String> {
    let expected = expected(form);
    let mut reading = AnswerProgress::new(&expected);
    let mut verdicts = Vec::new();
    for piece_bytes in [1, 7, body.len().max(1)] {
        reading.begin();
        for piece in body.as_bytes().chunks(piece_bytes) {
            reading.take(piece, Instant::now());
        }
        verdicts.push(reading.check(status).map_err(|error| error.to_string()));
    }
    verdicts.dedup();
    assert_eq!(verdicts.len(), 1, "{body}: {verdicts:?}");
    verdicts.remove(0)
}

const ROLE: &str =
    r#"data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const FIRST: &str = r#"data: {"choices":[{"delta":{"content":"w00000 "},"finish_reason":null}]}"#;
const SECOND: &str = r#"data: {"choices":[{"delta":{"content":"w00001 "},"finish_reason":null}]}"#;
const BOTH: &str =
    r#"data: {"choices":[{"delta":{"content":"w00000 w00001 "},"finish_reason":null}]}"#;
const FINISH: &str = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const ERROR: &str = r#"data: {"error":{"message":"no"}}"#;
const DONE: &str = "data: [DONE]";

#[test]
fn chunks() {
    let cases: [(&[&str], Option<&str>); 11] = [
        (&[ROLE, FIRST, SECOND, FINISH, DONE], None),
        (&[": comment", ROLE, FIRST, SECOND, FINISH, DONE], None),
        (
            &[ROLE, SECOND, FIRST, FINISH, DONE],
            Some("another text at event 2, byte 0"),
        ),
        (
            &[ROLE, FIRST, FIRST, FINISH, DONE],
            Some("another text at event 3, byte 7"),
        ),
        (
            &[ROLE, FIRST, SECOND, SECOND, FINISH, DONE],
            Some("another text at event 4"),
        ),
        (&[ROLE, FIRST, FINISH, DONE], Some("1 deltas")),
        (&[ROLE, BOTH, FINISH, DONE], Some("1 deltas with 14 bytes")),
        (&[ROLE, FIRST, SECOND, DONE], Some("0 finishes and 1 ends")),
        (
            &[ROLE, FIRST, SECOND, FINISH],
            Some("1 finishes and 0 ends"),
        ),
        (
            &[ROLE, FIRST, SECOND, FINISH, DONE, DONE],
            Some("an event behind the end"),
        ),
        (&[ROLE, FIRST, ERROR], Some("0 ends")),
    ];
    for (lines, wrong) in cases {
        let body: String = lines.iter().map(|line| format!("{line}\n\n")).collect();
        let said = verdict(CHUNKS, 200, &body);
        match wrong {
            None => assert_eq!(said, Ok(()), "{body}"),
            Some(wrong) => {
                let said = said.expect_err(&body);
                assert!(said.contains(wrong), "{said}, not {wrong}: {body}");
            }
        }
    }
}

#[test]
fn streams_of_the_other_formats() {
    let messages: &[&str] = &[
        r#"{"type":"message_start","message":{"content":[],"stop_reason":null}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"w00000 "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"w00001 "}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let responses: &[&str] = &[
        r#"{"type":"response.created","response":{"status":"in_progress","output":[]}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"w00000 ","logprobs":[]}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"w00001 ","logprobs":[]}"#,
        r#"{"type":"response.output_text.done","text":"w00000 w00001 "}"#,
        r#"{"type":"response.completed","response":{"output":[{"content":[{"text":"w00000 w00001 "}]}]}}"#,
        "[DONE]",
    ];
    // Beside them, the events without which an answer is not right, and what may stand in the place of one.
    let cases = [
        (
            WireFormat::AnthropicMessages,
            messages,
            &[2, 3, 5, 6][..],
            (
                5,
                r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
            ),
        ),
        (
            WireFormat::OpenAiResponses,
            responses,
            &[1, 2, 4, 5],
            (
                4,
                r#"{"type":"response.failed","response":{"status":"failed"}}"#,
            ),
        ),
    ];
    for (format, events, needed, (at, other)) in cases {
        let said = |events: &[&str]| {
            let body: String = events
                .iter()
                .map(|event| format!("event: x\ndata: {event}\n\n"))
                .collect();
            verdict(ExpectedForm::Stream(format), 200, &body)
        };
        assert_eq!(said(events), Ok(()), "{format:?}");
        for left_out in 0..events.len() {
            let mut rest = events.to_vec();
            rest.remove(left_out);
            let is_right = !needed.contains(&left_out);
            assert_eq!(said(&rest).is_ok(), is_right, "{format:?}: {rest:?}");
        }
        let mut changed = events.to_vec();
        changed.swap(needed[0], needed[1]);
        assert!(said(&changed).is_err(), "{format:?}: {changed:?}");
        let mut ended_otherwise = events.to_vec();
        ended_otherwise[at] = other;
        assert!(said(&ended_otherwise).is_err(), "{format:?}: {other}");
    }
}

#[test]
fn the_events_of_a_turn() {
    let first = r#"data: {"type":"delta","choice":0,"text":"w00000 "}"#;
    let second = r#"data: {"type":"delta","choice":0,"text":"w00001 "}"#;
    let finish = r#"data: {"type":"finish","choice":0,"reason":"stop"}"#;
    let end = r#"data: {"type":"end","status":"completed","reason":null,"error":null}"#;
    let failed = r#"data: {"type":"end","status":"failed","reason":null,"error":null}"#;
    let body = |lines: &[&str]| -> String {
        lines
            .iter()
            .map(|line| format!("id: 1.1\nevent: x\n{line}\n\n"))
            .collect()
    };
    let right = body(&[first, second, finish, end]);
    assert_eq!(verdict(ExpectedForm::Events, 200, &right), Ok(()));
    for lines in [
        &[first, second, finish, failed][..],
        &[first, finish, end],
        &[first, second, end],
    ] {
        assert!(
            verdict(ExpectedForm::Events, 200, &body(lines)).is_err(),
            "{lines:?}"
        );
    }
}

#[test]
fn whole_answers() {
    let body = |text: &str, finish: &str| {
        format!(
            r#"{{"choices":[{{"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"{finish}"}}]}}"#
        )
    };
    let right = body("w00000 w00001 ", "stop");
    assert_eq!(verdict(ExpectedForm::Plain, 200, &right), Ok(()));
    for (status, body) in [
        (200, body("w00000 ", "stop")),
        (200, body("w00000 w00001 w00002 ", "stop")),
        (200, body("w00000 w00001 ", "length")),
        (200, "{}".to_owned()),
        (200, String::new()),
        (503, right),
    ] {
        assert!(
            verdict(ExpectedForm::Plain, status, &body).is_err(),
            "{status} {body}"
        );
    }
}

#[test]
fn a_refusal_is_told() {
    let said = verdict(CHUNKS, 429, r#"{"error":{"message":"too many"}}"#);
    let said = said.expect_err("429");
    assert!(
        said.starts_with("status 429: ") && said.contains("too many"),
        "{said}"
    );
}
