use tokio::time::Instant;

use super::{AnswerProgress, ExpectedAnswer, ExpectedForm};

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
        let said = verdict(ExpectedForm::Chunks, 200, &body);
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
    let said = verdict(
        ExpectedForm::Chunks,
        429,
        r#"{"error":{"message":"too many"}}"#,
    );
    let said = said.expect_err("429");
    assert!(
        said.starts_with("status 429: ") && said.contains("too many"),
        "{said}"
    );
}
