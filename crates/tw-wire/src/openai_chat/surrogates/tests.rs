use super::{mend, mend_all};

#[test]
fn lone_halves_are_replaced_and_a_last_first_half_waits() {
    let rows = [
        // text, mended, half, replaced
        (r"plain", r"plain", None, 0),
        (r"a\n\\ud83d", r"a\n\\ud83d", None, 0),
        (r"\ud83d\ude00", r"\ud83d\ude00", None, 0),
        (r"\uD83D\uDE00x", r"\uD83D\uDE00x", None, 0),
        (r"x\ud83d", "x", Some(r"\ud83d"), 0),
        (r"\ud83dx", r"\ufffdx", None, 1),
        (r"\ude00", r"\ufffd", None, 1),
        (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00", None, 1),
        (r"\ude00\ud83d", r"\ufffd", Some(r"\ud83d"), 1),
        (r"\u00e9\ud83d\n", r"\u00e9\ufffd\n", None, 1),
    ];
    for (text, mended, half, replaced) in rows {
        let got = mend(text);
        assert_eq!(
            (&*got.text, got.half, got.replaced),
            (mended, half, replaced),
            "{text}"
        );
    }
    assert_eq!(mend_all(r"x\ud83d"), (r"x\ufffd".into(), 1));
}
