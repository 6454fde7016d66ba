//! TLS: who is trusted, and for which name.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tw_egress::client::failure::{FailureKind, SendFailure};
use tw_egress::client::resolve::FixedAnswers;
use tw_egress::client::tls_fault::TlsFault;
use tw_egress::client::{ClientOptions, ConnectionReuse, EgressClient};

use super::{allowed, ips, options, post, resolving};

struct Secure {
    port: u16,
    certificate: CertificateDer<'static>,
}

impl Secure {
    /// Answers one request per connection, under a certificate that only itself vouches for.
    async fn start() -> Self {
        let names = vec!["pay.example".to_owned(), "127.0.0.1".to_owned()];
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
        let certificate = cert.der().clone();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                // A handshake that fails is what some tests are about.
                let Ok(mut tls) = acceptor.accept(tcp).await else {
                    continue;
                };
                let _ = tls.read(&mut [0; 4096]).await;
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                let _ = tls.write_all(answer).await;
                let _ = tls.shutdown().await;
            }
        });
        Self { port, certificate }
    }

    fn options(&self) -> ClientOptions {
        let answers = FixedAnswers::default()
            .then("pay.example", &ips(&["127.0.0.1"]))
            .then("other.example", &ips(&["127.0.0.1"]));
        ClientOptions {
            allowed: vec![allowed(&format!("127.0.0.1:{}", self.port))],
            ..resolving(answers)
        }
    }

    fn trusting(&self) -> ClientOptions {
        let mut options = self.options();
        options.trusted_roots.add(self.certificate.clone()).unwrap();
        options
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.port)
    }
}

#[track_caller]
fn assert_no_tls(failure: &SendFailure, fault: TlsFault) {
    assert_eq!(
        (failure.kind, failure.sent),
        (FailureKind::Tls(fault), false)
    );
}

#[tokio::test]
async fn a_self_signed_certificate_is_refused() {
    let secure = Secure::start().await;
    let client = EgressClient::new(secure.options());
    for host in ["127.0.0.1", "pay.example"] {
        let sent = client
            .send(post(&secure.url(host)), "default", ConnectionReuse::Pooled)
            .await;
        assert_no_tls(&sent.unwrap_err(), TlsFault::UnknownAuthority);
    }
}

#[tokio::test]
async fn a_trusted_certificate_is_for_its_own_names() {
    let secure = Secure::start().await;
    let client = EgressClient::new(secure.trusting());
    for host in ["127.0.0.1", "pay.example", "pay.example.", "PAY.example"] {
        let received = client
            .send(post(&secure.url(host)), "default", ConnectionReuse::Brief)
            .await;
        assert_eq!(received.unwrap().body, b"ok", "{host}");
    }
    let other = secure.url("other.example");
    let sent = client
        .send(post(&other), "default", ConnectionReuse::Brief)
        .await;
    assert_no_tls(&sent.unwrap_err(), TlsFault::WrongName);
}

#[tokio::test]
async fn a_port_without_tls_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let client = EgressClient::new(ClientOptions {
        allowed: vec![allowed(&address.to_string())],
        ..options()
    });
    let sent = client
        .send(
            post(&format!("https://{address}/")),
            "default",
            ConnectionReuse::Pooled,
        )
        .await;
    assert_no_tls(&sent.unwrap_err(), TlsFault::NoTls);
}
