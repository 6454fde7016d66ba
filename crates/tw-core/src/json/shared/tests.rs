use super::{JsonText, SHARED_BYTES_MIN, SharedText};

#[test]
fn long_parts_are_shared_and_the_rest_is_copied() {
    let whole = SharedText::new("äb".repeat(SHARED_BYTES_MIN));
    let other = "äb".repeat(SHARED_BYTES_MIN);
    let text = whole.as_str();
    // A part, and whether it holds the whole.
    for (part, is_shared) in [
        (text, true),
        (&text[2..2 + SHARED_BYTES_MIN + 2], true),
        (&text[..SHARED_BYTES_MIN + 2], true),
        (&text[text.len() - SHARED_BYTES_MIN - 2..], true),
        (&text[..SHARED_BYTES_MIN - 1], false),
        (&text[text.len()..], false),
        ("", false),
        (other.as_str(), false),
    ] {
        let kept = JsonText::part(&whole, part);
        assert_eq!(kept.as_str(), part);
        assert_eq!(matches!(kept, JsonText::Part { .. }), is_shared, "{part}");
        if is_shared {
            assert_eq!(kept.as_str().as_ptr(), part.as_ptr());
        }
    }
}

#[test]
fn equal_texts_are_equal_however_they_are_held() {
    let whole = SharedText::new("x".repeat(SHARED_BYTES_MIN));
    let part = JsonText::part(&whole, whole.as_str());
    assert!(part == JsonText::from(whole.as_str()));
    assert!(part != JsonText::default());
}
