use tw_core::model::Finish;

use super::{ChoiceEnding, read};

#[test]
fn words_are_known_however_they_are_written() {
    let rows: [(&str, ChoiceEnding); 5] = [
        (
            "stop STOP end_turn EndTurn eos eos_token stop_sequence other OTHER unheard_of",
            ChoiceEnding::As(Finish::Stop),
        ),
        (
            "length max_tokens MAX_TOKENS MaxTokens model_length max_output_tokens insufficient_system_resource",
            ChoiceEnding::As(Finish::Length),
        ),
        (
            "tool_calls tool_use ToolCalls TOOL_CALL",
            ChoiceEnding::As(Finish::ToolCalls),
        ),
        (
            "content_filter content_filter:SAFETY SAFETY sensitive recitation RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY guardrail_intervened refusal content_filter:OTHER",
            ChoiceEnding::As(Finish::ContentFilter),
        ),
        (
            "error ERROR network_error NetworkError server_error engine_error failed failure abort aborted cancelled timeout malformed_function_call MALFORMED_FUNCTION_CALL function_call_filter:MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL",
            ChoiceEnding::Failed,
        ),
    ];
    for (words, ending) in rows {
        for word in words.split_whitespace() {
            assert_eq!(read(word), Some(ending), "{word}");
        }
    }
    assert_eq!(
        read("content_filter: SAFETY"),
        Some(ChoiceEnding::As(Finish::ContentFilter))
    );
    for none in ["", " ", "null", "NULL", "None"] {
        assert_eq!(read(none), None, "{none}");
    }
}
