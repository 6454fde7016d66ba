//! The secrets of one request, which its answer is not to show.

use super::secret_needle::{self, SecretNeedle};

/// Secrets that were put into one request.
///
/// Whoever is sent a secret may echo it; whoever wants to give it away can still write it in some
/// other manner. Other secrets stay as they are: a mask over what nobody was sent would tell
/// whoever guessed it that they guessed right.
#[derive(Default)]
pub(crate) struct SentSecrets<'a> {
    secrets: Vec<&'a SecretNeedle>,
}

impl<'a> SentSecrets<'a> {
    pub(super) fn add(&mut self, hidden: &'a SecretNeedle) {
        let is_known = self.secrets.iter().any(|known| known.is_same(hidden));
        if hidden.is_looked_for() && !is_known {
            self.secrets.push(hidden);
        }
    }

    /// Bytes that must be read beyond a cut to see whether a secret goes on there.
    pub fn look_ahead(&self) -> usize {
        let longest = self.secrets.iter().map(|secret| secret.longest());
        longest.max().map_or(0, |longest| longest - 1)
    }

    /// The text with `***` in place of every secret, however JSON, a URL, HTML or base64 would write it.
    pub fn masked(&self, text: String) -> String {
        secret_needle::masked(&self.secrets, text)
    }

    /// Cuts a text before `at`, and before a secret that goes on there.
    pub fn cut(&self, text: &mut Vec<u8>, at: usize) {
        secret_needle::cut(&self.secrets, text, at);
    }

    /// Masks like [`Self::masked`] a text whose continuation is unknown: so much is taken off its
    /// end that no part of a secret can be left there.
    pub fn masked_cut(&self, text: String) -> String {
        let at = text.len().saturating_sub(self.look_ahead());
        let mut bytes = text.into_bytes();
        self.cut(&mut bytes, at);
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            // Only the end can be broken, by the cut.
            Err(error) => {
                let whole = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                bytes.truncate(whole);
                String::from_utf8(bytes).unwrap_or_default()
            }
        };
        self.masked(text)
    }
}
