//! Ids of calls as upstreams take them.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// The ids of calls that an upstream takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallIdRule {
    /// Any.
    AsSent,
    /// At most [`PLAIN_CHARS_MAX`] letters, digits, `_` and `-`: OpenAI takes 40 characters, Anthropic these letters.
    Plain,
    /// Nine letters and digits, as Mistral has them.
    NineLetters,
}

/// Longest id that every upstream but Mistral takes, in characters.
pub const PLAIN_CHARS_MAX: usize = 40;
const NINE: usize = 9;
/// Digits of the hash in an id that is made: 128 bits.
const HASH_DIGITS: usize = 32;
/// The digits of an id of nine: letters and digits.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

impl CallIdRule {
    fn takes(self, id: &str) -> bool {
        let is_alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
        match self {
            Self::AsSent => true,
            Self::Plain => {
                let is_plain = |byte| is_alphanumeric(byte) || matches!(byte, b'_' | b'-');
                (1..=PLAIN_CHARS_MAX).contains(&id.len()) && id.bytes().all(is_plain)
            }
            Self::NineLetters => id.len() == NINE && id.bytes().all(is_alphanumeric),
        }
    }

    /// The id as the upstream takes it: the same for the same id, whenever it is sent.
    pub fn fitted(self, id: &str) -> Cow<'_, str> {
        if self.takes(id) {
            return Cow::Borrowed(id);
        }
        let hash = Sha256::digest(id.as_bytes());
        Cow::Owned(match self {
            Self::AsSent => id.to_owned(),
            Self::Plain => {
                let hex = hash.iter().map(|byte| format!("{byte:02x}"));
                let hex: String = hex.collect();
                format!("call_{}", &hex[..HASH_DIGITS])
            }
            Self::NineLetters => {
                let digit = |byte: &u8| char::from(DIGITS[usize::from(*byte) % DIGITS.len()]);
                hash.iter().take(NINE).map(digit).collect()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::CallIdRule;

    #[test]
    fn ids_fit_the_upstream_and_stay_the_same() {
        use CallIdRule::{AsSent, NineLetters, Plain};
        let rows = [
            (AsSent, "functions.time_now:0", true),
            (Plain, "call_0192_a-b", true),
            (Plain, "functions.time_now:0", false),
            (Plain, "", false),
            (
                Plain,
                "call_0123456789012345678901234567890123456789",
                false,
            ),
            (Plain, "é", false),
            (NineLetters, "abcDEF123", true),
            (NineLetters, "abc_EF123", false),
            (NineLetters, "call_0123", false),
            (NineLetters, "abcDEF1234", false),
        ];
        for (rule, id, is_taken) in rows {
            let fitted = rule.fitted(id);
            assert_eq!(fitted == id, is_taken, "{rule:?} {id}");
            assert!(rule.takes(&fitted), "{rule:?} {id} {fitted}");
            assert_eq!(fitted, rule.fitted(id), "{rule:?} {id}");
        }
        assert_ne!(Plain.fitted("a.1"), Plain.fitted("a.2"));
        assert_ne!(NineLetters.fitted("a.1"), NineLetters.fitted("a.2"));
    }
}
