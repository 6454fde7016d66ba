use tw_core::model::{CallForm, ModelEvent};
use tw_core::request::ToolNames;

use crate::format::{AnswerDecoder, WireFormat};
use crate::upstream_answer::StreamLimits;

/// The calls of a streamed answer of Messages with these pieces of input, read in cuts of `cut` bytes: name, form and
/// arguments of each.
fn calls(blocks: &[(&str, &[&str])], cut: usize) -> Vec<(String, CallForm, String)> {
    let mut stream = String::new();
    let mut event = |kind: &str, rest: String| {
        stream += &format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
    };
    for (index, (name, pieces)) in blocks.iter().enumerate() {
        event(
            "content_block_start",
            format!(
                ",\"index\":{index},\"content_block\":{{\"type\":\"tool_use\",\"id\":\"t{index}\",\"name\":\"{name}\",\"input\":{{}}}}"
            ),
        );
        for piece in *pieces {
            let piece = serde_json::to_string(piece).unwrap();
            event(
                "content_block_delta",
                format!(
                    ",\"index\":{index},\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":{piece}}}"
                ),
            );
        }
        event("content_block_stop", format!(",\"index\":{index}"));
    }
    event(
        "message_delta",
        ",\"delta\":{\"stop_reason\":\"tool_use\"}".to_owned(),
    );
    event("message_stop", String::new());
    let names = ToolNames {
        all: ["patch", "f"].map(Box::from).into(),
        custom: ["patch"].map(Box::from).into(),
    };
    let limits = StreamLimits::defaults();
    let mut decoder = AnswerDecoder::new(WireFormat::AnthropicMessages, &limits, names);
    let mut events = Vec::new();
    for bytes in stream.as_bytes().chunks(cut) {
        decoder.feed(bytes, &mut events).unwrap();
    }
    decoder.finish(&mut events).unwrap();
    let mut calls: Vec<(String, CallForm, String)> = Vec::new();
    for event in events {
        let ModelEvent::Call(piece) = event else {
            continue;
        };
        let at = usize::try_from(piece.call).unwrap();
        if at == calls.len() {
            let name = piece.name.as_deref().unwrap_or_default().to_owned();
            calls.push((name, piece.form, String::new()));
        }
        assert_eq!(calls[at].1, piece.form);
        calls[at].2 += &piece
            .arguments
            .map_or_else(String::new, |text| text.to_text());
    }
    calls
}

#[test]
fn inputs_come_out_of_the_objects_that_they_were_put_into() {
    let rows: [(&[&str], &str); 5] = [
        (&["", "{\"in", "put\":\"*** a\\n\\u00e9\"}"], "*** a\né"),
        (&["{\"input\":\"\"}"], ""),
        // What the model wrote otherwise goes on as it is.
        (&["{\"other\":1}"], "{\"other\":1}"),
        (&["{\"input\":7}"], "{\"input\":7}"),
        (&["{\"input\":\"cut"], "{\"input\":\"cut"),
    ];
    for (pieces, expected) in rows {
        for cut in [1, 7, usize::MAX] {
            let made = calls(
                &[
                    ("patch", pieces),
                    ("f", &["{\"a\":", "1}"]),
                    ("patch", pieces),
                ],
                cut,
            );
            let custom = ("patch".to_owned(), CallForm::Custom, expected.to_owned());
            let function = ("f".to_owned(), CallForm::Function, "{\"a\":1}".to_owned());
            assert_eq!(made, [custom.clone(), function, custom]);
        }
    }
}
