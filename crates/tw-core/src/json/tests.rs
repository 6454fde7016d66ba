use super::{Json, Literal, LiteralBuf, depth, values};

#[test]
fn a_literal_decodes_as_a_json_parser_does() {
    for inner in [
        "",
        "plain",
        r"a\nb\t\\\/\u00e9",
        r"\ud83d\ude00!",
        "é😀",
        r#"\"q\""#,
    ] {
        let expected: String = serde_json::from_str(&format!("\"{inner}\"")).unwrap();
        assert_eq!(
            Literal::checked(inner).unwrap().to_text(),
            expected,
            "{inner}"
        );
    }
}

#[test]
fn a_surrogate_pair_split_over_two_literals_survives() {
    let mut joined = LiteralBuf::default();
    joined.push(&Literal::checked(r"x\ud83d").unwrap());
    joined.push(&Literal::checked(r"\ude00y").unwrap());
    assert_eq!(joined.to_text(), "x😀y");
}

#[test]
fn half_a_pair_is_shown_as_a_replacement() {
    assert_eq!(Literal::checked(r"\ud83d").unwrap().to_text(), "\u{fffd}");
    assert_eq!(Literal::checked(r"\ude00z").unwrap().to_text(), "\u{fffd}z");
}

#[test]
fn what_cannot_stand_between_quotes_is_refused() {
    for inner in ["\"", "a\nb", "\\", "\\u12", "\\x", "\u{1}"] {
        // Wherever it stands in a block of bytes.
        for pad in 0..40 {
            let text = format!("{0}{inner}{0}", "é".repeat(pad));
            assert!(Literal::checked(&text).is_none(), "{text:?}");
        }
    }
    for inner in [r#"\""#, r"\\", r"\u00e9"] {
        for pad in 0..40 {
            let text = format!("{0}{inner}{0}", "a".repeat(pad));
            assert!(Literal::checked(&text).is_some(), "{text:?}");
        }
    }
}

#[test]
fn json_keeps_digits_and_order() {
    let text = r#"{"b": 12345678901234567890123, "a":1.10}"#;
    assert_eq!(Json::parse(&format!("  {text} ")).unwrap().as_str(), text);
    assert!(Json::parse("{\"a\":}").is_err());
}

#[test]
fn values_are_counted_at_all_depths() {
    for (text, expected) in [
        ("1", 1),
        (r#""[1,2]""#, 1),
        ("[ ]", 1),
        (" [ 1 ] ", 2),
        ("[[],[]]", 3),
        (r#"{"a":1,"b":[{"c":"\\\",,["},{}]}"#, 6),
        (r#"["a", "b"]"#, 3),
    ] {
        assert_eq!(values(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn depth_counts_brackets_outside_strings() {
    for (text, expected) in [
        ("1", 0),
        ("[]", 1),
        (r#"{"a":[{}]}"#, 3),
        (r#"["[[[\"[["]"#, 1),
        ("]]][", 1),
    ] {
        assert_eq!(depth(text.as_bytes()), expected, "{text}");
    }
}
