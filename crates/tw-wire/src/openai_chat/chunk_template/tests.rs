use tw_core::model::ModelEvent;

use super::super::answer::AnswerReader;
use super::ChunkTemplate;
use crate::sse::SseFrame;

/// What a reader makes of `chunks`, and how many of them it took for usual ones.
fn read(chunks: &[&str]) -> (Vec<ModelEvent>, usize) {
    let (mut reader, mut out, mut usual) = (AnswerReader::default(), Vec::new(), 0);
    for data in chunks {
        usual += usize::from(reader.usual.read(data).is_some());
        let frame = SseFrame { event: "", data };
        reader.frame(frame, &mut out).unwrap();
    }
    (out, usual)
}

/// The same by a reader that parses every chunk.
fn parsed(chunks: &[&str]) -> Vec<ModelEvent> {
    let (mut reader, mut out) = (AnswerReader::default(), Vec::new());
    for data in chunks {
        reader.usual = ChunkTemplate::default();
        let frame = SseFrame { event: "", data };
        reader.frame(frame, &mut out).unwrap();
    }
    out
}

const BEGIN: &str = r#"{"model":"m","choices":[{"delta":{"content":""}}]}"#;

/// Chunks behind [`BEGIN`], and how many of them are usual ones.
const ROWS: &[(usize, &[&str])] = &[
    // Nothing but the text changes.
    (
        // Half a character waits for what follows.
        1,
        &[
            r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"b\"\\"},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"\ud83e"},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"}]"},"finish_reason":null}]}"#,
        ],
    ),
    // The text ends early and other fields follow.
    (
        0,
        &[
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":"b","refusal":"c"}}]}"#,
            r#"{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}"#,
        ],
    ),
    // An empty text is no delta.
    (
        1,
        &[
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"b"}}]}"#,
        ],
    ),
    // The field that counts is the last of its name.
    (
        1,
        &[
            r#"{"choices":[{"delta":{"content":"x","content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":"x","content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"content":"y","content":"b"}}]}"#,
        ],
    ),
    // What gives more than text gives it again.
    (
        0,
        &[
            r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"total_tokens":1}}"#,
            r#"{"choices":[{"delta":{"content":"b"}}],"usage":{"total_tokens":1}}"#,
            r#"{"choices":[{"delta":{"content":"a","refusal":"r"}}]}"#,
            r#"{"choices":[{"delta":{"content":"b","refusal":"r"}}]}"#,
            r#"{"a":1,"a":2,"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"a":1,"a":2,"choices":[{"delta":{"content":"b"}}]}"#,
        ],
    ),
    // A list of parts is not text.
    (
        0,
        &[
            r#"{"choices":[{"delta":{"content":["a"]}}]}"#,
            r#"{"choices":[{"delta":{"content":["b"]}}]}"#,
        ],
    ),
    // Each choice has its own text; the last one is usual.
    (
        1,
        &[
            r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"c"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"d"}}]}"#,
            r#"{"choices":[{"delta":{"content":"e"}},{"index":1,"delta":{"content":"f"}}]}"#,
        ],
    ),
    // Calls stand between texts.
    (
        1,
        &[
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"c","tool_calls":[{"function":{"arguments":" "}}]}}]}"#,
        ],
    ),
    // Nothing is read behind the end.
    (
        1,
        &[
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            "[DONE]",
            r#"{"choices":[{"delta":{"content":"b"}}]}"#,
        ],
    ),
];

#[test]
fn a_usual_chunk_says_what_it_says_when_it_is_parsed() {
    for (usual, chunks) in ROWS {
        let chunks = [&[BEGIN], *chunks].concat();
        let (events, seen) = read(&chunks);
        assert_eq!(events, parsed(&chunks), "{chunks:?}");
        assert_eq!(seen, *usual, "{chunks:?}");
    }
}

#[test]
fn a_text_that_is_no_string_is_an_error_also_in_a_usual_chunk() {
    let usual = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    for text in [r"\x", r"\", "\n", r"\u12"] {
        let (mut reader, mut out) = (AnswerReader::default(), Vec::new());
        for data in [BEGIN, usual] {
            reader
                .frame(SseFrame { event: "", data }, &mut out)
                .unwrap();
        }
        let data = usual.replace(r#""a""#, &format!("\"{text}\""));
        let frame = SseFrame {
            event: "",
            data: &data,
        };
        assert!(reader.frame(frame, &mut out).is_err(), "{text:?}");
    }
}

#[test]
fn much_around_a_text_is_not_kept() {
    let chunk = |text: &str| {
        let pad = "x".repeat(super::AROUND_BYTES_MAX);
        format!(r#"{{"object":"{pad}","choices":[{{"delta":{{"content":"{text}"}}}}]}}"#)
    };
    let (events, usual) = read(&[&chunk("a"), &chunk("b"), &chunk("c")]);
    // The start of the answer, and the texts.
    assert_eq!(events.len(), 4);
    assert_eq!(usual, 0);
}
