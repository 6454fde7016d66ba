//! Sealed contents: what a client keeps for this server and cannot read or change.
//!
//! A seal is a prefix and, in base64url, a salt and the content under ChaCha20-Poly1305 (RFC 8439). Each has a key of its own, by HKDF-SHA-256 (RFC 5869) from the database's secret, the salt and the
//! organization, so that no nonce is used twice and nobody opens what another organization was given.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::hmac;
use tokio::sync::OnceCell;
use tw_core::id::OrgId;
use tw_egress::env::Env;
use tw_store::read::ReadError;
use tw_store::store::Store;
use tw_store::system;

use crate::runtime::Runtime;

/// What each seal begins with; no other server's contents do.
const PREFIX: &str = "tws1.";
const SALT_BYTES: usize = 32;
/// What the keys are for, and the version of all this.
const PURPOSE: &[u8] = b"turnwright sealed content 1";

/// Seals contents and opens them again.
pub struct Sealer {
    secret: [u8; 32],
    env: Env,
}

/// Why a text is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealFault {
    /// It is nothing that a server like this sealed.
    Foreign,
    /// It was changed, or sealed by another server or for another organization.
    Broken,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(***)")
    }
}

impl Runtime {
    /// The sealer of this database.
    ///
    /// # Errors
    /// When its secret cannot be read.
    pub async fn sealer(&self) -> Result<Arc<Sealer>, ReadError> {
        Sealer::of(&self.0.sealer, self.store(), self.env()).await
    }
}

impl Sealer {
    /// The one that is known already, or that of the database.
    pub(crate) async fn of(
        known: &OnceCell<Arc<Self>>,
        store: &Store,
        env: &Env,
    ) -> Result<Arc<Self>, ReadError> {
        let sealer = known.get_or_try_init(async || {
            let secret = system::seal_secret(store).await?;
            let env = env.clone();
            Ok(Arc::new(Self { secret, env }))
        });
        sealer.await.cloned()
    }

    /// Seals a content for an organization.
    pub fn seal(&self, organization: OrgId, content: &str) -> String {
        let mut salt = [0; SALT_BYTES];
        self.env.fill(&mut salt);
        let mut sealed = content.as_bytes().to_vec();
        let key = self.key(&salt, organization);
        // It fails only for contents of 256 GiB.
        let done = key.map(|key| key.seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed));
        debug_assert!(matches!(done, Some(Ok(()))), "a content is sealed");
        let bytes = [salt.as_slice(), &sealed].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Opens what [`Sealer::seal`] made for this organization.
    ///
    /// # Errors
    /// [`SealFault`].
    pub fn open(&self, organization: OrgId, sealed: &str) -> Result<String, SealFault> {
        let encoded = sealed.strip_prefix(PREFIX).ok_or(SealFault::Foreign)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok();
        let opened = bytes.and_then(|bytes| {
            let (salt, rest) = bytes.split_at_checked(SALT_BYTES)?;
            let mut rest = rest.to_vec();
            let key = self.key(salt, organization)?;
            let content = key.open_in_place(nonce(), Aad::empty(), &mut rest).ok()?;
            String::from_utf8(content.to_vec()).ok()
        });
        opened.ok_or(SealFault::Broken)
    }

    /// A key for signatures that nobody else can make, other for each purpose.
    pub(crate) fn signing_key(&self, purpose: &[u8]) -> Option<hmac::Key> {
        let extracted = Salt::new(HKDF_SHA256, purpose).extract(&self.secret);
        let info = [purpose];
        let expanded = extracted.expand(&info, hmac::HMAC_SHA256).ok()?;
        Some(hmac::Key::from(expanded))
    }

    fn key(&self, salt: &[u8], organization: OrgId) -> Option<LessSafeKey> {
        let organization = organization.0.to_le_bytes();
        let info = [PURPOSE, organization.as_slice()];
        let extracted = Salt::new(HKDF_SHA256, salt).extract(&self.secret);
        let expanded = extracted.expand(&info, &CHACHA20_POLY1305).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(expanded)))
    }
}

/// Each key is used once.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests;
