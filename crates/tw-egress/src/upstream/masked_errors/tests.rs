use super::mask;

#[test]
fn an_error_shows_no_key_and_confirms_no_guess() {
    const KEY: &str = "sk-live-0123456789";
    let tail = "x".repeat(KEY.len() - 1);
    for (said, expected) in [
        (
            "no such key: sk-live-0123456789".to_owned(),
            "no such key: ***".to_owned(),
        ),
        // A right guess and a wrong one look the same.
        (
            "no model sk-live-01".to_owned(),
            "no model sk-live-01".to_owned(),
        ),
        (
            "no model sk-live-99".to_owned(),
            "no model sk-live-99".to_owned(),
        ),
        // What was cut loses as much as could be of the key, whatever it is.
        (format!("told {tail}…"), "told …".to_owned()),
        ("told sk-live-012345678…".to_owned(), "told …".to_owned()),
        ("é…".to_owned(), "…".to_owned()),
    ] {
        let mut text = said.clone();
        mask(KEY, &mut text);
        assert_eq!(text, expected, "{said}");
    }
}

/// Whoever runs a model at home writes anything there; llama.cpp's error is known by its words.
#[test]
fn a_key_that_is_no_secret_cuts_no_words() {
    for key in ["", "x", "sk", "none", "ollama", "EMPTY", "not-key"] {
        let said = "exceed_context_size_error: none of the EMPTY ollama, not-key sk…";
        let mut text = said.to_owned();
        mask(key, &mut text);
        assert_eq!(text, said, "{key}");
    }
}
