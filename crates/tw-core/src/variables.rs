//! Variables: texts that a tool's definition may name, and their values for one turn.

use std::collections::BTreeMap;

/// Values by name.
///
/// They come from the request and from what the server knows of the turn, never from a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

/// Names that every definition may use without declaring them.
///
/// `organization` is its slug, `end_user` a name, `conversation`, `turn` and `tool_call` public
/// ids; `now` (RFC 3339) and `today` (a date) are the turn's start in UTC.
pub const ALWAYS_THERE: [&str; 7] = [
    "organization",
    "end_user",
    "conversation",
    "turn",
    "tool_call",
    "now",
    "today",
];

/// Variables of [`ALWAYS_THERE`] that a prompt may name: they stay the same from turn to turn, so
/// that the provider's prompt cache hits.
pub const IN_PROMPTS: [&str; 4] = ["organization", "end_user", "conversation", "today"];

/// The call's idempotency key; in a look-up only.
pub const REFERENCE: &str = "reference";

/// The URL at which a callback ends the call; in the request of a tool that completes by webhook only.
pub const CALLBACK_URL: &str = "callback_url";

/// The id that a tool has given a job; in the request that asks how the job does only.
pub const EXTERNAL_ID: &str = "external_id";

/// Variables of [`ALWAYS_THERE`] that are known of a call whose turn is long over.
pub const IN_POLLS: [&str; 3] = ["organization", "turn", "tool_call"];

/// Longest value that is put in anywhere, in bytes.
///
/// Of a longer one prompts have the beginning, and a call that needs it fails.
pub const VALUE_BYTES_MAX: usize = 4096;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 64;

impl Variables {
    pub fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The longest beginning of `text` in whole characters that `bytes_max` bytes hold.
pub(crate) fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Whether a variable may have this name: a letter or `_`, then letters, digits, `_`, `-` and
/// `.`, all ASCII.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}
