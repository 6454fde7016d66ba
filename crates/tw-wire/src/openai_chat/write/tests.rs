use super::{number, string};

#[test]
fn texts_are_written_as_json_strings() {
    for text in [
        "",
        "msg_1",
        "é 😀 \u{7f}",
        "a\"b",
        "a\\b",
        "\\",
        "line\nend",
        "\u{1}",
        "\\u0041",
    ] {
        let mut out = Vec::new();
        string(&mut out, text);
        let read: String = serde_json::from_slice(&out).expect(text);
        assert_eq!(read, text);
        assert_eq!(out, serde_json::to_vec(text).expect(text), "{text:?}");
    }
}

#[test]
fn numbers_have_their_digits() {
    for value in [
        0,
        9,
        10,
        99,
        100,
        1_234_567_890,
        i128::from(u64::MAX),
        -1,
        i128::from(u64::MAX) + 1,
        i128::MIN,
    ] {
        let mut out = Vec::new();
        number(&mut out, value);
        assert_eq!(String::from_utf8_lossy(&out), value.to_string());
    }
}
