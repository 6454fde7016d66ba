use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{name, write};
use crate::stored::tests::{approval_events, every_event};

#[test]
fn every_event_is_one_json_object_with_its_name() {
    for event in every_event().into_iter().chain(approval_events()) {
        let mut out = String::new();
        write(&event, &mut out);
        // Half a surrogate pair is legal JSON, though not legal text.
        let fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{out}: {error}"));
        assert_eq!(
            fields["type"].get(),
            format!("\"{}\"", name(&event)),
            "{out}"
        );
    }
}

#[test]
fn text_and_foreign_json_keep_their_bytes() {
    let all: String = every_event()
        .iter()
        .map(|event| {
            let mut out = String::new();
            write(event, &mut out);
            out
        })
        .collect();
    for kept in [r"a\nb\u00e9", "12345678901234567890", "1.50", r"\ud83d"] {
        assert!(all.contains(kept), "{kept}");
    }
}
