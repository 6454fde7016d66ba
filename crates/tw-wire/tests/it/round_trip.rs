//! What we write of an answer is read as that answer.

use tw_core::model::CallForm;
use tw_wire::openai_chat::completion::CompletionBuilder;
use tw_wire::openai_chat::outcome::ChatDialect;

use crate::answer::{self, BuiltAnswer};
use crate::shared::recordings;

/// What a client of ours reads, if the upstream's answer was `answer`.
fn as_written(mut answer: BuiltAnswer, file: &str, read: &BuiltAnswer) -> BuiltAnswer {
    for (index, choice) in &mut answer.choices {
        for (at, call) in choice.calls.iter_mut().enumerate() {
            if call.form == CallForm::ByName {
                call.form = CallForm::Function;
            }
            // An id is minted where there was none; a name is never missing.
            let written = &read.choices[index].calls[at];
            if call.id.is_none() {
                assert!(written.id.is_some(), "an id in {file}");
                call.id.clone_from(&written.id);
            }
        }
    }
    answer
}

#[test]
fn streams_that_we_write_are_read_back() {
    for recording in recordings("openai.chat.completions") {
        let events = if recording.is_stream {
            answer::events([recording.bytes.as_slice()])
        } else {
            answer::body_events(&recording.bytes)
        };
        let written = answer::write_stream(&answer::log(&events), ChatDialect::Tools);
        let read = answer::whole(&answer::events([written.as_slice()]));
        let mut expected = as_written(answer::whole(&events), &recording.file, &read);
        if expected.errors.is_empty() {
            expected.is_done = true;
        } else {
            expected = BuiltAnswer {
                finishes: Vec::new(),
                usage: None,
                is_done: false,
                errors: read.errors.clone(),
                ..expected
            };
            assert_eq!(read.errors.len(), 1, "{}", recording.file);
        }
        // Fields that came with the last chunk have no further one to go with.
        expected.extra.retain(|key, _| read.extra.contains_key(key));
        keep_non_lists(&mut expected, &recording.file, &read);
        assert_eq!(read, expected, "{}", recording.file);
    }
}

/// Unknown lists of a plain message are no fields of a delta; `annotations` are.
fn keep_non_lists(expected: &mut BuiltAnswer, file: &str, read: &BuiltAnswer) {
    for (index, choice) in &mut expected.choices {
        choice.extra.retain(|(key, value)| {
            let passes = !value.is_array() || key == "annotations";
            assert!(
                passes
                    || read.choices[index]
                        .extra
                        .iter()
                        .all(|(have, _)| have != key),
                "{key} of {file}"
            );
            passes
        });
    }
}

#[test]
fn bodies_that_we_write_are_read_back() {
    for recording in recordings("openai.chat.completions") {
        let events = if recording.is_stream {
            answer::events([recording.bytes.as_slice()])
        } else {
            answer::body_events(&recording.bytes)
        };
        let mut builder = CompletionBuilder::new(answer::turn(), ChatDialect::Tools);
        answer::log(&events)
            .iter()
            .for_each(|event| builder.push(event));
        let read = answer::whole(&answer::body_events(&builder.into_body()));
        let expected = as_written(answer::whole(&events), &recording.file, &read);
        assert_eq!(read.errors, Vec::new(), "{}", recording.file);
        for (index, choice) in &expected.choices {
            let have = &read.choices[index];
            let (text, reasoning) = (&have.text, &have.reasoning);
            assert_eq!(
                (text, reasoning),
                (&choice.text, &choice.reasoning),
                "{}",
                recording.file
            );
            assert_eq!(
                (&have.refusal, &have.calls),
                (&choice.refusal, &choice.calls),
                "{}",
                recording.file
            );
        }
        if expected.errors.is_empty() && !expected.finishes.is_empty() {
            assert_eq!(read.finishes, expected.finishes, "{}", recording.file);
        }
        if expected.usage.is_some() {
            assert_eq!(read.usage, expected.usage, "{}", recording.file);
        }
    }
}
