//! A stream of Anthropic's Messages, as recorded answers have it.

use serde_json::json;

use super::super::profile::{Profile, word};
use super::{INPUT_TOKENS, StreamEvents, named};

const ID: &str = "msg_bench";

/// The message's beginning and its block's, the deltas, and the ends of both.
pub fn events(model: &str, profile: Profile) -> StreamEvents {
    let usage = |tokens: usize| {
        json!({
            "input_tokens": INPUT_TOKENS, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": tokens
        })
    };
    let message = json!({
        "model": model, "id": ID, "type": "message", "role": "assistant", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage(1)
    });
    let delta = |index: usize| {
        named(&json!({
            "type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word(index)}
        }))
    };
    StreamEvents {
        opening: vec![
            named(&json!({"type": "message_start", "message": message})),
            named(&json!({
                "type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}
            })),
            named(&json!({"type": "ping"})),
        ],
        pieces: (0..profile.deltas).map(delta).collect(),
        closing: vec![
            named(&json!({"type": "content_block_stop", "index": 0})),
            named(&json!({
                "type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                "usage": usage(profile.deltas)
            })),
            named(&json!({"type": "message_stop"})),
        ],
    }
}
