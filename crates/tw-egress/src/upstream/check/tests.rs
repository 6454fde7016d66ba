//! What is tried in the place of a base URL that does not work.

use super::candidates;

#[test]
fn what_people_leave_out_or_write_too_much_is_tried_first() {
    for (base_url, first) in [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
        ("https://api.example.com", "https://api.example.com/v1"),
        (
            "https://proxy.example.com/llm",
            "https://proxy.example.com/llm/v1",
        ),
        (
            "https://api.example.com/v1/chat/completions",
            "https://api.example.com/v1",
        ),
        (
            "https://api.example.com/v1/models",
            "https://api.example.com/v1",
        ),
        (
            "https://api.example.com/v1/v1",
            "https://api.example.com/v1",
        ),
        // Something else than what is wrong.
        (
            "https://api.example.com/v1",
            "https://api.example.com/api/v1",
        ),
    ] {
        let tried = candidates(base_url);
        assert_eq!(tried[0], first, "{base_url}");
        assert!(!tried.contains(&base_url.to_owned()), "{tried:?}");
        let mut once = tried.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), tried.len(), "{tried:?}");
    }
    let ollama = candidates("http://127.0.0.1:11434/api");
    assert!(
        ollama.contains(&"http://127.0.0.1:11434/v1".to_owned()),
        "{ollama:?}"
    );
}
