//! Client certificates: shown where the operator says, for whom the operator says.

use std::net::SocketAddr;

use tempfile::TempDir;
use tw_egress::client::failure::FailureKind;
use tw_egress::client::host_port::BadHostPort;
use tw_egress::client::resolve::FixedAnswers;
use tw_egress::client::tls::ClientIdentity;
use tw_egress::client::tls_fault::TlsFault;
use tw_egress::client::tool_certificate::ToolCertificate;
use tw_egress::client::{ClientOptions, ConnectionReuse, EgressClient};
use tw_testkit::tls_listener::{Authority, TlsListener, Validity};

use super::causes::roots;
use super::{allowed, ips, post, resolving};

fn identity(authority: &Authority) -> ClientIdentity {
    let folder = TempDir::new().unwrap();
    let signed = authority.sign(&["us"], Validity::Now).unwrap();
    let (certificate, key) = signed.write(folder.path(), "us").unwrap();
    ClientIdentity::read(&certificate, &key).unwrap()
}

/// Who is served at all three of its names, if it is shown a certificate of this authority.
async fn start(authority: &Authority) -> SocketAddr {
    let names = ["tool.example", "other.example", "127.0.0.1"];
    let server = authority.sign(&names, Validity::Now).unwrap();
    let listener = TlsListener::start(&server, Some(authority)).await.unwrap();
    listener.address
}

fn options(authority: &Authority, address: SocketAddr) -> ClientOptions {
    let answers = FixedAnswers::default()
        .then("tool.example", &ips(&["127.0.0.1"]))
        .then("other.example", &ips(&["127.0.0.1"]));
    let mut place = allowed(&address.to_string());
    place.organizations = ["default", "acme"].map(str::to_owned).into();
    ClientOptions {
        allowed: vec![place],
        trusted_roots: roots(authority),
        ..resolving(answers)
    }
}

/// What the server says of a request; `None` if it answers.
async fn fault(client: &EgressClient, url: &str, organization: &str) -> Option<TlsFault> {
    let sent = client.send(post(url), organization, ConnectionReuse::Pooled);
    match sent.await {
        Ok(received) => {
            assert_eq!(received.status, 200);
            None
        }
        Err(failure) => {
            assert!(!failure.sent, "{failure:?}");
            let FailureKind::Tls(fault) = failure.kind else {
                panic!("{failure:?}");
            };
            Some(fault)
        }
    }
}

#[tokio::test]
async fn a_certificate_is_shown_at_its_place_and_for_its_organizations() {
    let authority = Authority::new("ours").unwrap();
    let address = start(&authority).await;
    let port = address.port();
    let at = |host: &str| format!("{host}:{port}");
    let acme: &[&str] = &["acme"];
    for (place, organizations, host, organization, is_shown) in [
        (at("tool.example"), None, "tool.example", "default", true),
        (at("tool.example"), None, "TOOL.example.", "default", true),
        (at("TOOL.example."), None, "tool.example", "default", true),
        (at("127.0.0.1"), None, "127.0.0.1", "default", true),
        (at("127.0.0.1/32"), None, "127.0.0.1", "default", true),
        (at("tool.example"), Some(acme), "tool.example", "acme", true),
        // Of another organization.
        (at("tool.example"), None, "tool.example", "acme", false),
        (
            at("tool.example"),
            Some(acme),
            "tool.example",
            "default",
            false,
        ),
        // The same server, by another name or address.
        (at("tool.example"), None, "other.example", "default", false),
        (at("tool.example"), None, "127.0.0.1", "default", false),
        (at("127.0.0.1"), None, "tool.example", "default", false),
        // Of another place.
        (at("example"), None, "tool.example", "default", false),
        (at("a.tool.example"), None, "tool.example", "default", false),
        (
            "tool.example:443".to_owned(),
            None,
            "tool.example",
            "default",
            false,
        ),
    ] {
        let organizations =
            organizations.map(|all| all.iter().map(|&one| one.to_owned()).collect());
        let certificate = ToolCertificate::new(&place, organizations, identity(&authority));
        let client = EgressClient::new(ClientOptions {
            certificates: vec![certificate.unwrap()],
            ..options(&authority, address)
        });
        let url = format!("https://{host}:{port}/");
        let expected = (!is_shown).then_some(TlsFault::ClientCertificateWanted);
        let found = fault(&client, &url, organization).await;
        assert_eq!(found, expected, "{place} {url} {organization}");
    }
}

/// A session that is taken up again would be as good as the certificate that it began with.
#[tokio::test]
async fn what_one_organization_may_show_serves_no_other() {
    let authority = Authority::new("ours").unwrap();
    let address = start(&authority).await;
    let place = format!("tool.example:{}", address.port());
    let acme = Some(vec!["acme".to_owned()]);
    let certificate = ToolCertificate::new(&place, acme, identity(&authority)).unwrap();
    let client = EgressClient::new(ClientOptions {
        certificates: vec![certificate],
        ..options(&authority, address)
    });
    let url = format!("https://{place}/");
    for _ in 0..3 {
        assert_eq!(fault(&client, &url, "acme").await, None);
        let found = fault(&client, &url, "default").await;
        assert_eq!(found, Some(TlsFault::ClientCertificateWanted));
    }
}

#[tokio::test]
async fn a_certificate_that_is_refused_ends_the_call_unsent() {
    let (ours, theirs) = (
        Authority::new("ours").unwrap(),
        Authority::new("theirs").unwrap(),
    );
    let address = start(&ours).await;
    let place = format!("tool.example:{}", address.port());
    let certificate = ToolCertificate::new(&place, None, identity(&theirs)).unwrap();
    let client = EgressClient::new(ClientOptions {
        certificates: vec![certificate],
        ..options(&ours, address)
    });
    let found = fault(&client, &format!("https://{place}/"), "default").await;
    assert_eq!(found, Some(TlsFault::ClientCertificateRefused));
}

#[test]
fn a_certificate_is_for_one_place() {
    let authority = Authority::new("ours").unwrap();
    for (place, expected) in [
        ("10.0.0.0/8:443", BadHostPort::Network),
        ("[fd00::/8]:443", BadHostPort::Network),
        ("0.0.0.0/0:443", BadHostPort::Network),
        ("*.example:443", BadHostPort::BadHost),
        ("tool.example", BadHostPort::NoPort),
    ] {
        let made = ToolCertificate::new(place, None, identity(&authority));
        assert_eq!(made.unwrap_err(), expected, "{place}");
    }
}
