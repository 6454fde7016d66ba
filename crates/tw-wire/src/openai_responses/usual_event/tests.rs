use tw_core::model::ModelEvent;

use super::UsualText;
use crate::openai_responses::stream::ResponseDecoder;
use crate::upstream_answer::StreamLimits;

/// What is read of an item's events, or what is wrong with them.
fn read(events: &[&str]) -> Result<Vec<ModelEvent>, String> {
    let mut decoder = ResponseDecoder::new(&StreamLimits::defaults());
    let mut out = Vec::new();
    for event in [ADDED].iter().chain(events) {
        let bytes = format!("data: {event}\n\n");
        decoder
            .feed(bytes.as_bytes(), &mut out)
            .map_err(|error| error.to_string())?;
    }
    decoder
        .finish(&mut out)
        .map_err(|error| error.to_string())?;
    Ok(out)
}

/// The same event in a form that is left to the parser.
fn spaced(event: &str) -> String {
    event.replacen('{', "{ ", 1)
}

const ADDED: &str = r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1"}}"#;

/// The places of the item and of the part, and the text.
type ScannedText = (u64, u64, &'static str);

#[test]
fn usual_events_are_read_as_any_others() {
    // Each with the text that is scanned; `None` where the parser has to look.
    let cases: &[(&str, Option<ScannedText>)] = &[
        (
            r#"{"type":"response.output_text.delta","sequence_number":9,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"The","logprobs":[],"obfuscation":"cc p2"}"#,
            Some((1, 0, "The")),
        ),
        (
            r#"{"content_index":2,"delta":" a\"b}\\","item_id":"msg_1","logprobs":[],"output_index":1,"sequence_number":120,"type":"response.output_text.delta"}"#,
            Some((1, 2, r#" a\"b}\\"#)),
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"é\u00e9\ud83d\ude00","output_index":1,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","delta":"b","output_index":1,"content_index":0}"#,
            Some((1, 0, "b")),
        ),
        // An item that is not open.
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":4,"content_index":0}"#,
            Some((4, 0, "a")),
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"","output_index":1,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":1}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":null,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":1,"content_index":0,"logprobs":[{"token":"a","logprob":-1}]}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"half \ud83d","output_index":1,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.refusal.delta","delta":"a","output_index":1,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":1,"content_index":0,"more":1}"#,
            None,
        ),
        (r#"{"delta":"a","output_index":1,"content_index":0}"#, None),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":1,"content_index":0"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":1,"content_index":0,}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":01,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","output_index":1.5,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"\x","output_index":1,"content_index":0}"#,
            None,
        ),
        (
            r#"{"type":"response.output_text.delta","delta":"a","item_id":"\x","output_index":1,"content_index":0}"#,
            None,
        ),
        (r#"{"type":"response.output_text.delta","delta":"\"#, None),
    ];
    for (event, expected) in cases {
        let scanned = UsualText::read(event);
        let scanned = scanned
            .as_ref()
            .map(|usual| (usual.item, usual.part, usual.text.as_str()));
        assert_eq!(scanned, *expected, "{event}");
        // Alone, again, and behind a half that waits for what comes.
        let half = r#"{"type":"response.output_text.delta","delta":"\ud83d","output_index":1,"content_index":0}"#;
        let other = spaced(event);
        for (events, parsed) in [
            (&[*event][..], &[other.as_str()][..]),
            (&[*event, *event], &[other.as_str(), other.as_str()]),
            (&[half, *event], &[half, other.as_str()]),
        ] {
            assert_eq!(read(events).ok(), read(parsed).ok(), "{events:?}");
        }
    }
}

#[test]
fn a_usual_text_waits_for_the_item_before_it() {
    let text = |item: u32, text: &str| {
        format!(
            r#"{{"type":"response.output_text.delta","delta":"{text}","output_index":{item},"content_index":0}}"#
        )
    };
    let second = ADDED.replace(":1,", ":2,").replace("msg_1", "msg_2");
    let (first, other, last) = (text(1, "a"), text(2, "b"), text(1, "c"));
    let events = [first.as_str(), &second, &other, &last];
    let texts: Vec<String> = read(&events)
        .expect("an answer")
        .into_iter()
        .filter_map(|event| match event {
            ModelEvent::Delta(delta) => delta.text.map(|text| text.to_text()),
            ModelEvent::Start { .. }
            | ModelEvent::Call(_)
            | ModelEvent::BlockEnd(_)
            | ModelEvent::Native { .. }
            | ModelEvent::Extra { .. }
            | ModelEvent::Progress { .. }
            | ModelEvent::Finish { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Error(_)
            | ModelEvent::Done => None,
        })
        .collect();
    assert_eq!(texts, ["a", "c", "b"]);
}
