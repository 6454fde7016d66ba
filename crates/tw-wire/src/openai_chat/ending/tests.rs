use tw_core::model::Finish;

use super::{ChoiceEnding, read};

#[test]
fn words_are_known_however_they_are_written() {
    let rows: [(&str, ChoiceEnding); 5] = [
        (
            "stop STOP end_turn EndTurn eos eos_token stop_sequence other OTHER unheard_of COMPLETE pause_turn userStopped FINISH_REASON_UNSPECIFIED load",
            ChoiceEnding::As(Finish::Stop),
        ),
        (
            "length max_tokens MAX_TOKENS MaxTokens model_length max_output_tokens max_new_tokens max_output maxPredictedTokensReached contextLengthReached context_window_exceeded model_context_window_exceeded tokens_limit_reached length_limit",
            ChoiceEnding::As(Finish::Length),
        ),
        (
            "tool_calls tool_use ToolCalls TOOL_CALL",
            ChoiceEnding::As(Finish::ToolCalls),
        ),
        (
            "content_filter content_filter:SAFETY SAFETY sensitive recitation RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY guardrail_intervened refusal content_filter:OTHER LANGUAGE BLOCKED_SAFETY safety_filter data_inspection_failed content_policy_violation moderated ERROR_TOXIC unsafe",
            ChoiceEnding::As(Finish::ContentFilter),
        ),
        (
            "error ERROR network_error NetworkError server_error engine_error failed failure abort aborted cancelled timeout malformed_function_call MALFORMED_FUNCTION_CALL function_call_filter:MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL MISSING_THOUGHT_SIGNATURE malformed_model_output malformed_tool_use insufficient_system_resource USER_CANCEL engine_overloaded rate_limited service_unavailable modelUnloaded disconnected incomplete",
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
