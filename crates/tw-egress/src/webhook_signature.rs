//! Signatures of webhooks: those that we send, and those that others send.
//!
//! Ours follow Standard Webhooks (standard-webhooks/standard-webhooks, `spec/standard-webhooks.md`): HMAC-SHA-256 of
//! `id.timestamp.body`, in base64 behind `v1,`, one for each secret with a space between them, so that a secret can be
//! replaced while the old one still counts. What others sign in ways of their own is described by an
//! [`HmacRule`](tw_core::hmac_rule::HmacRule); a secret that is sent along as it is, by [`is_shared_secret`].
//!
//! Nothing here does I/O or reads a clock. Secrets and signatures are compared in constant time.

pub mod hmac_rule;

use std::fmt;

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use ring::hmac;

use crate::env::Env;

pub const ID_HEADER: &str = "webhook-id";
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// Seconds by which a message's time may differ from ours: what every library of the standard takes.
pub const TOLERANCE_S: i64 = 300;
/// Signatures of one message that are looked at; more than a few secrets at once are nobody's.
pub const SIGNATURES_MAX: usize = 16;

const SECRET_PREFIX: &str = "whsec_";
/// The standard asks for 24 to 64 bytes.
const SECRET_BYTES_MIN: usize = 24;
const SECRET_BYTES_MAX: usize = 64;
/// Bytes of a secret that is made here: as many as the hash has.
const SECRET_BYTES: usize = 32;
const VERSION: &str = "v1,";

/// Padding is written, and need not be there.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A secret that webhooks are signed with; its `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret(Vec<u8>);

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(***)")
    }
}

impl SigningSecret {
    pub fn random(env: &Env) -> Self {
        let mut bytes = vec![0; SECRET_BYTES];
        env.fill(&mut bytes);
        Self(bytes)
    }

    /// Reads the text form: base64 of 24 to 64 bytes, behind `whsec_`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of_bytes(LENIENT.decode(text.strip_prefix(SECRET_PREFIX)?).ok()?)
    }

    /// A secret of 24 to 64 bytes.
    pub fn of_bytes(bytes: Vec<u8>) -> Option<Self> {
        (SECRET_BYTES_MIN..=SECRET_BYTES_MAX)
            .contains(&bytes.len())
            .then_some(Self(bytes))
    }

    /// The bytes, for the store.
    pub fn reveal_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text form, for the one answer that tells it.
    pub fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&self.0))
    }
}

/// Value of [`SIGNATURE_HEADER`]: a signature for each secret.
pub fn sign(secrets: &[SigningSecret], id: &str, at_s: i64, body: &[u8]) -> String {
    let signed = secrets.iter().map(|secret| {
        let tag = hmac::sign(&key(secret), &content(id, &at_s.to_string(), body));
        format!("{VERSION}{}", STANDARD.encode(tag))
    });
    signed.collect::<Vec<_>>().join(" ")
}

/// The three headers of a message as they came.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignedHeaders<'a> {
    pub id: Option<&'a str>,
    pub timestamp: Option<&'a str>,
    pub signature: Option<&'a str>,
}

/// The reason for which a signature does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    #[error("a header of the signature is missing")]
    Missing,
    #[error("a header of the signature cannot be read")]
    Malformed,
    #[error("the message is too old, or the clocks differ")]
    TooOld,
    #[error("the message is of the future, or the clocks differ")]
    TooNew,
    #[error("no secret made the signature")]
    Wrong,
}

/// Checks a message by Standard Webhooks: signed by any of the secrets, within [`TOLERANCE_S`] of `now_s`.
///
/// # Errors
/// [`SignatureFault`]; a sender is told none of them apart.
pub fn verify(
    secrets: &[SigningSecret],
    headers: SignedHeaders<'_>,
    now_s: i64,
    body: &[u8],
) -> Result<(), SignatureFault> {
    let (Some(id), Some(timestamp), Some(signatures)) =
        (headers.id, headers.timestamp, headers.signature)
    else {
        return Err(SignatureFault::Missing);
    };
    check_time(timestamp, now_s, TOLERANCE_S)?;
    let content = content(id, timestamp, body);
    let given = signatures
        .split(' ')
        .take(SIGNATURES_MAX)
        .filter_map(|one| LENIENT.decode(one.strip_prefix(VERSION)?).ok());
    let mut given = given.peekable();
    if given.peek().is_none() {
        return Err(SignatureFault::Malformed);
    }
    let given: Vec<Vec<u8>> = given.collect();
    let is_signed = secrets.iter().any(|secret| {
        let key = key(secret);
        given
            .iter()
            .any(|tag| hmac::verify(&key, &content, tag).is_ok())
    });
    if is_signed {
        Ok(())
    } else {
        Err(SignatureFault::Wrong)
    }
}

/// Whether a value that was sent along is one of the secrets.
pub fn is_shared_secret(secrets: &[&[u8]], given: &[u8]) -> bool {
    // Digests have one length, so that neither length nor content shows in the time.
    let any_key = hmac::Key::new(hmac::HMAC_SHA256, b"comparison");
    let tag = hmac::sign(&any_key, given);
    let matches = secrets
        .iter()
        .filter(|secret| hmac::verify(&any_key, secret, tag.as_ref()).is_ok());
    matches.count() > 0
}

fn key(secret: &SigningSecret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &secret.0)
}

fn content(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(id.len() + timestamp.len() + 2 + body.len());
    content.extend_from_slice(id.as_bytes());
    content.push(b'.');
    content.extend_from_slice(timestamp.as_bytes());
    content.push(b'.');
    content.extend_from_slice(body);
    content
}

fn check_time(text: &str, now_s: i64, tolerance_s: i64) -> Result<(), SignatureFault> {
    let at_s: i64 = text.parse().map_err(|_| SignatureFault::Malformed)?;
    if at_s < now_s.saturating_sub(tolerance_s) {
        return Err(SignatureFault::TooOld);
    }
    if at_s > now_s.saturating_add(tolerance_s) {
        return Err(SignatureFault::TooNew);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
