use super::{ContentCutter, FIND, FORGET_FIRST, USES, USES_OF_BODY, find, ranges, without};
use crate::read::plan::assert_each_looks;

const MIN: usize = 8;

#[test]
fn long_stretches_between_quotation_marks_are_contents() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("short", &[]),
        ("12345678", &["12345678"]),
        (r#"{"a":"1234567"}"#, &[]),
        (r#"{"a":"12345678"}"#, &["12345678"]),
        (
            r#"{"a":"123456789abcdefghi","b":"x"}"#,
            &["123456789abcdefghi"],
        ),
        (r#"["12345678","abcdefgh"]"#, &["12345678", "abcdefgh"]),
        // What stands before a content is not of it.
        (r#"["data:image/png;base64,12345678"]"#, &["12345678"]),
        (r#"["data:image/png;base64,1234567"]"#, &[]),
        (
            r#"["date:image/png;base64,1"]"#,
            &["date:image/png;base64,1"],
        ),
        // An escape is a part of it; an escaped quotation mark divides it.
        (r#"["1234\/5678"]"#, &[r"1234\/5678"]),
        (r#"["12345678\"abc"]"#, &[r"12345678\"]),
        ("no quotation mark, ü", &["no quotation mark, ü"]),
        (r#""cut off in the midst"#, &["cut off in the midst"]),
        (r#"12345678""#, &["12345678"]),
    ];
    for (text, contents) in cases {
        let found = ranges(text.as_bytes(), MIN);
        let found: Vec<&str> = found.into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, *contents, "{text}");
        let rest = without(text, &find(text, MIN)).unwrap();
        let taken: usize = contents.iter().map(|content| content.len()).sum();
        assert_eq!(rest.len() + taken, text.len(), "{text}");
    }
    assert!(ranges(b"12345678", 0).is_empty(), "none are taken out");
}

#[test]
fn a_part_of_a_body_has_the_contents_that_stand_within_it() {
    let body = r#"["12345678","abcdefgh"]"#;
    let spans = find(body, MIN);
    let cutter = ContentCutter {
        bytes_min: MIN,
        body,
        spans: &spans,
    };
    let within = |from, to| {
        let spans = cutter.of_body(from..to);
        spans.iter().map(|span| span.at).collect::<Vec<_>>()
    };
    assert_eq!(within(0, body.len()), [2, 13]);
    assert_eq!(within(2, 20), [0]);
    assert_eq!(within(3, body.len()), [10]);
    assert_eq!(within(12, 21), [1]);
    // The same content has the same hash, whether the body has it or not.
    for text in [r#"["abcdefgh"]"#, r#"["data:,something else"]"#] {
        assert_eq!(cutter.find(text), find(text, MIN));
    }
}

#[test]
fn contents_are_found_by_what_holds_them() {
    assert_each_looks(&[
        (FIND.sqlite, "organization=? AND hash=?"),
        (USES, "turn=? AND holder=? AND round=? AND place=?"),
        (USES_OF_BODY, "turn=? AND holder=?"),
        (FORGET_FIRST, "turn=? AND holder=? AND round=? AND place=?"),
        (
            "DELETE FROM blob_use WHERE turn = ?1 AND ?2 IS NOT NULL",
            "turn=?",
        ),
    ]);
}
