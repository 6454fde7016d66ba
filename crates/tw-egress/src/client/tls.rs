//! TLS: the authorities that vouch for servers, and the certificate that this side shows.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::web_roots;

/// A file of certificates or keys that cannot be used. Its name is not shown: somebody may have
/// written a secret there by mistake.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    #[error("the file cannot be read")]
    Read(#[source] std::io::Error),
    #[error("the file is no PEM file")]
    NotPem,
    #[error("there is no certificate in it")]
    NoCertificate,
    #[error("there is no private key in it that can be read (one that is encrypted cannot)")]
    NoKey,
    #[error("the certificate cannot be used")]
    BadCertificate(#[source] rustls::Error),
    #[error("the certificate and the key do not go together")]
    Mismatch(#[source] rustls::Error),
}

/// A certificate that a client shows, and its key.
#[derive(Clone)]
pub struct ClientIdentity(Arc<SingleCertAndKey>);

impl ClientIdentity {
    /// Reads PEM files: the certificate first, then those between it and its authority.
    ///
    /// # Errors
    /// [`TlsFileError`].
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsFileError> {
        let text = read(key)?;
        let key = PrivateKeyDer::from_pem_slice(&text).map_err(|_| TlsFileError::NoKey)?;
        let config = ClientConfig::builder();
        let pair =
            CertifiedKey::from_der(certificates(certificate)?, key, config.crypto_provider());
        let pair = pair.map_err(TlsFileError::Mismatch)?;
        Ok(Self(Arc::new(SingleCertAndKey::from(pair))))
    }
}

/// Leaves out the certificates and the key.
impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// The authorities that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, instead of the built-in ones,
/// which are used if neither is set. This is how OpenSSL and curl read them.
///
/// # Errors
/// [`TlsFileError`] for a file that is named, and when a named folder holds no certificate at
/// all. Other files of a folder are passed over, as OpenSSL does.
pub fn roots_of_environment(
    file: Option<&Path>,
    folders: &[PathBuf],
) -> Result<RootCertStore, TlsFileError> {
    if file.is_none() && folders.is_empty() {
        return Ok(web_roots());
    }
    let mut roots = RootCertStore::empty();
    if let Some(file) = file {
        trust(&mut roots, file)?;
    }
    for folder in folders {
        trust_folder(&mut roots, folder)?;
    }
    if roots.is_empty() {
        return Err(TlsFileError::NoCertificate);
    }
    Ok(roots)
}

/// Adds the authorities of a PEM file.
///
/// # Errors
/// [`TlsFileError`]; a bundle in which at least one can be used is used.
pub fn trust(roots: &mut RootCertStore, file: &Path) -> Result<(), TlsFileError> {
    let found = certificates(file)?;
    let mut fault = None;
    let before = roots.len();
    for certificate in found {
        // Bundles hold old ones that no reader of today understands.
        if let Err(error) = roots.add(certificate) {
            fault = Some(error);
        }
    }
    match fault {
        Some(fault) if roots.len() == before => Err(TlsFileError::BadCertificate(fault)),
        Some(_) | None => Ok(()),
    }
}

fn trust_folder(roots: &mut RootCertStore, folder: &Path) -> Result<(), TlsFileError> {
    for entry in std::fs::read_dir(folder).map_err(TlsFileError::Read)? {
        let path = entry.map_err(TlsFileError::Read)?.path();
        if path.is_file()
            && let Ok(found) = certificates(&path)
        {
            for certificate in found {
                // As in a bundle.
                let _ = roots.add(certificate);
            }
        }
    }
    Ok(())
}

/// Makes a TLS connector; this function is the only place that builds one.
pub(crate) fn connector(roots: RootCertStore, identity: Option<ClientIdentity>) -> TlsConnector {
    let config = ClientConfig::builder().with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(ClientIdentity(pair)) => config.with_client_cert_resolver(pair),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let text = read(file)?;
    let read: Result<Vec<_>, PemError> = CertificateDer::pem_slice_iter(&text).collect();
    let found = read.map_err(|_| TlsFileError::NotPem)?;
    if found.is_empty() {
        return Err(TlsFileError::NoCertificate);
    }
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<u8>, TlsFileError> {
    std::fs::read(file).map_err(TlsFileError::Read)
}
