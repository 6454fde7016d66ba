//! Certificates that tests make, and a listener that speaks TLS with them.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Authority that signs certificates.
pub struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct TestIdentity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// The years in which a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub enum Validity {
    Now,
    Past,
    Future,
}

/// Error of making a certificate or a listener.
pub type TestTlsError = Box<dyn std::error::Error + Send + Sync>;

impl Authority {
    pub fn new(name: &str) -> Result<Self, TestTlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Signs for these names and addresses.
    pub fn sign(&self, names: &[&str], validity: Validity) -> Result<TestIdentity, TestTlsError> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        let (from, until) = match validity {
            Validity::Now => (1990, 2990),
            Validity::Past => (1990, 1991),
            Validity::Future => (2980, 2990),
        };
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(TestIdentity {
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        })
    }

    /// Writes its certificate as PEM.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<PathBuf> {
        write(folder, name, "CERTIFICATE", &self.certificate)
    }
}

impl TestIdentity {
    /// Writes the certificate and the key as PEM.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<(PathBuf, PathBuf)> {
        let certificate = format!("{name}.pem");
        let key = format!("{name}-key.pem");
        Ok((
            write(folder, &certificate, "CERTIFICATE", &self.certificate)?,
            write(folder, &key, "PRIVATE KEY", &self.key)?,
        ))
    }
}

fn write(folder: &Path, name: &str, label: &str, der: &[u8]) -> io::Result<PathBuf> {
    let path = folder.join(name);
    let body = BASE64_STANDARD.encode(der);
    let text = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Listener that lives until the runtime of the test ends, and answers each connection's first
/// request with the same list of models.
pub struct TlsListener {
    pub address: SocketAddr,
}

impl TlsListener {
    /// Starts a listener. With `clients`, it serves only those that this authority vouches for.
    pub async fn start(
        identity: &TestIdentity,
        clients: Option<&Authority>,
    ) -> Result<Self, TestTlsError> {
        let builder = ServerConfig::builder();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.certificate.clone())?;
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::try_from(identity.key.clone())?;
        let config = builder.with_single_cert(vec![identity.certificate.clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                // A handshake that fails is what tests are about.
                let Ok(mut tls) = acceptor.accept(tcp).await else {
                    continue;
                };
                let _ = tls.read(&mut [0; 4096]).await;
                let body = r#"{"object":"list","data":[{"id":"secure"}]}"#;
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = tls.write_all(answer.as_bytes()).await;
                let _ = tls.shutdown().await;
            }
        });
        Ok(Self { address })
    }

    /// `https://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }
}
