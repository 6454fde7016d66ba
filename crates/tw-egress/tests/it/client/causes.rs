//! What the model and the operator are told of a tool that cannot be reached.

use std::net::SocketAddr;

use rustls::RootCertStore;
use tempfile::TempDir;
use tw_egress::client::resolve::FixedAnswers;
use tw_egress::client::tls::trust;
use tw_egress::client::{ClientOptions, ConnectionReuse, EgressClient};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::tls_listener::{Authority, TlsListener, Validity};

use super::{allowed, get, ips, options, post, resolving};

/// A place that speaks TLS, and how.
struct TlsCase {
    names: &'static [&'static str],
    validity: Validity,
    /// Whether its authority is trusted.
    is_trusted: bool,
    wants_client: bool,
    /// What follows "no secure connection to the tool could be made: ".
    told: &'static str,
    /// What the operator reads beside.
    advice: &'static str,
}

const GOOD: TlsCase = TlsCase {
    names: &["tool.example"],
    validity: Validity::Now,
    is_trusted: true,
    wants_client: false,
    told: "",
    advice: "",
};

const TLS_CASES: [TlsCase; 5] = [
    TlsCase {
        is_trusted: false,
        told: "its certificate is of an authority that is not trusted here",
        advice: "'ca_file' in [tls]",
        ..GOOD
    },
    TlsCase {
        validity: Validity::Past,
        told: "its certificate has expired",
        ..GOOD
    },
    TlsCase {
        validity: Validity::Future,
        told: "its certificate is not valid yet",
        ..GOOD
    },
    TlsCase {
        names: &["other.example"],
        told: "its certificate is for another name",
        ..GOOD
    },
    TlsCase {
        wants_client: true,
        told: "it wants a client certificate",
        advice: "[[egress.certificate]]",
        ..GOOD
    },
];

pub(super) fn roots(authority: &Authority) -> RootCertStore {
    let folder = TempDir::new().unwrap();
    let file = authority.write(folder.path(), "ca.pem").unwrap();
    let mut roots = RootCertStore::empty();
    trust(&mut roots, &file).unwrap();
    roots
}

/// One that knows `tool.example`, and may go to this place.
fn reaching(address: SocketAddr) -> ClientOptions {
    ClientOptions {
        allowed: vec![allowed(&address.to_string())],
        ..resolving(FixedAnswers::default().then("tool.example", &ips(&["127.0.0.1"])))
    }
}

#[tokio::test]
async fn what_of_tls_failed_is_told_and_nothing_was_done() {
    let (ours, theirs) = (
        Authority::new("ours").unwrap(),
        Authority::new("theirs").unwrap(),
    );
    for case in TLS_CASES {
        let identity = ours.sign(case.names, case.validity).unwrap();
        let clients = case.wants_client.then_some(&ours);
        let secure = TlsListener::start(&identity, clients).await.unwrap();
        let trusted = if case.is_trusted { &ours } else { &theirs };
        let client = EgressClient::new(ClientOptions {
            trusted_roots: roots(trusted),
            ..reaching(secure.address)
        });
        let place = format!("tool.example:{}", secure.address.port());
        let request = post(&format!("https://{place}/"));
        let sent = client.send(request, "default", ConnectionReuse::Pooled);
        let failure = sent.await.unwrap_err();
        let told = format!(
            "no secure connection to the tool could be made: {}",
            case.told
        );
        assert_eq!(failure.kind.message(), told);
        assert!(!failure.sent, "{told}");
        let cause = failure.cause;
        assert!(cause.contains(&place), "{cause}");
        assert!(cause.contains(case.told), "{cause}");
        assert!(cause.contains(case.advice), "{cause}");
    }
}

/// A certificate with so many names that one could fill a log with them.
#[tokio::test]
async fn what_a_stranger_writes_into_a_certificate_is_cut() {
    let authority = Authority::new("ours").unwrap();
    let names: Vec<String> = (0..1000).map(|n| format!("host-{n}.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let identity = authority.sign(&names, Validity::Now).unwrap();
    let secure = TlsListener::start(&identity, None).await.unwrap();
    let client = EgressClient::new(ClientOptions {
        trusted_roots: roots(&authority),
        ..reaching(secure.address)
    });
    let url = format!("https://tool.example:{}/", secure.address.port());
    let sent = client.send(get(&url), "default", ConnectionReuse::Pooled);
    let cause = sent.await.unwrap_err().cause;
    assert!(cause.contains("host-1.example"), "{cause}");
    assert!(cause.len() < 1200, "{}", cause.len());
}

const NO_ADDRESS: &str = "the tool's address does not exist or may not be reached from here";

/// The operator reads which it was; whoever wrote the tool does not.
#[tokio::test]
async fn what_does_not_exist_and_what_is_closed_differ_in_the_log_only() {
    let answers = FixedAnswers::default()
        .then("inside.example", &ips(&["10.0.0.7"]))
        .then("one-inside.example", &ips(&["8.8.8.8", "fd00::7"]));
    let client = EgressClient::new(resolving(answers));
    for (url, cause) in [
        (
            "https://nowhere.example/",
            "the name nowhere.example has no address here",
        ),
        (
            "https://inside.example/",
            "inside.example:443 is at 10.0.0.7, where tools may not go; [[egress.allow]]",
        ),
        (
            "https://one-inside.example/",
            "one-inside.example:443 is at fd00::7, where tools may not go",
        ),
        (
            "https://10.0.0.7/",
            "10.0.0.7:443 is no place where tools may go",
        ),
        (
            "https://[::1]:8443/",
            "[::1]:8443 is no place where tools may go",
        ),
        (
            "https://db.internal/",
            "db.internal:443 is no place where tools may go",
        ),
        (
            "https://8.8.8.8:22/",
            "8.8.8.8:22 is no place where tools may go",
        ),
    ] {
        let sent = client.send(get(url), "default", ConnectionReuse::Pooled);
        let failure = sent.await.unwrap_err();
        assert_eq!(failure.kind.message(), NO_ADDRESS, "{url}");
        assert!(failure.cause.starts_with(cause), "{}", failure.cause);
    }
}

#[tokio::test]
async fn what_of_the_connection_failed_is_told() {
    let plain = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let speaks_http: SocketAddr = plain.url("").replace("http://", "").parse().unwrap();
    let closed: SocketAddr = "127.0.0.1:1".parse().unwrap();
    for (address, told, cause) in [
        (
            closed,
            "the tool cannot be reached: it takes no connection",
            "127.0.0.1:1 takes no connection: Connection refused",
        ),
        (
            speaks_http,
            "no secure connection to the tool could be made: it does not speak TLS on this port",
            "it does not speak TLS on this port: ",
        ),
    ] {
        let client = EgressClient::new(ClientOptions {
            allowed: vec![allowed(&address.to_string())],
            ..options()
        });
        let url = format!("https://{address}/");
        let sent = client.send(get(&url), "default", ConnectionReuse::Pooled);
        let failure = sent.await.unwrap_err();
        assert_eq!(
            (failure.kind.message().as_str(), failure.sent),
            (told, false)
        );
        assert!(failure.cause.contains(cause), "{}", failure.cause);
        assert!(failure.cause.contains(&address.to_string()));
    }
}
