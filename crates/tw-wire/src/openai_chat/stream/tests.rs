use super::StreamDecoder;
use crate::upstream_answer::{DecodeError, EMPTY_BYTES_MAX_DEFAULT, StreamLimits};

const LIMITS: StreamLimits = StreamLimits {
    event_bytes_max: 10_000,
    empty_bytes_max: 100_000,
};

/// Feeds `event` over and over, and returns how many bytes it took until it was too much; `None` if it never was.
fn too_much_after(event: &str, times: usize) -> Option<usize> {
    let mut decoder = StreamDecoder::new(&LIMITS);
    let mut out = Vec::new();
    for n in 0..times {
        let event = event.replace("NUMBER", &n.to_string());
        match decoder.feed(event.as_bytes(), &mut out) {
            Ok(()) => out.clear(),
            Err(DecodeError::TooMuchEmpty { .. }) => return Some(n * event.len()),
            Err(error) => panic!("{event}: {error}"),
        }
    }
    None
}

#[test]
fn each_kind_of_nothing_is_too_much_at_some_time() {
    for event in [
        ":\n",
        ": OPENROUTER PROCESSING\n\n",
        "\n",
        "\r\n",
        "\r",
        "event: ping\n\n",
        "data:\n\n",
        "id: 1\n",
        "retry: 10\n\n",
        "unknown\n",
        "data: {}\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: {\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"created\":1,\"choices\":[]}\n\n",
        "data: {\"choices\":[{}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":[]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"padding\":\"NUMBER\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":NUMBER,\"total_tokens\":2}}\n\n",
        "data: {\"choices\":[],\"prompt_progress\":{\"processed\":NUMBER}}\n\n",
    ] {
        let bytes = too_much_after(event, 10_000).unwrap_or_else(|| panic!("{event}"));
        // Between a hundredth of the limit, since what is short counts as more, and what frames the data.
        assert!(
            (1_000..=2 * LIMITS.empty_bytes_max).contains(&bytes),
            "{event}: {bytes}"
        );
    }
}

#[test]
fn what_carries_something_is_never_too_much() {
    for event in [
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"NUMBER\"}}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":NUMBER,\"total_tokens\":2}}\n\n",
        "event: message\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"x\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"x\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"1\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"function_call\":{\"arguments\":\"1\"}}}]}\n\n",
    ] {
        assert_eq!(too_much_after(event, 10_000), None, "{event}");
    }
}

#[test]
fn keep_alives_of_half_an_hour_and_a_long_hidden_thought_are_no_nonsense() {
    let mut decoder = StreamDecoder::new(&StreamLimits::defaults());
    let mut out = Vec::new();
    let hidden = format!(
        "data: {{\"id\":\"{}\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"\"}}}}]}}\n\n",
        "i".repeat(150)
    );
    let hidden_tokens = 100_000;
    assert!(hidden.len() * hidden_tokens < EMPTY_BYTES_MAX_DEFAULT);
    for n in 0..hidden_tokens {
        if n % 50 == 0 {
            let comment = b": OPENROUTER PROCESSING\n\n";
            decoder.feed(comment, &mut out).unwrap();
        }
        decoder.feed(hidden.as_bytes(), &mut out).unwrap();
        out.clear();
    }
}
