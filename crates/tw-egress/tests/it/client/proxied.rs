//! The proxy of tools: what it is asked for, and what it never is.

use std::net::SocketAddr;
use std::time::Duration;

use tw_egress::client::failure::{FailureKind, WaitPhase};
use tw_egress::client::proxy::{Proxy, WithoutProxy};
use tw_egress::client::resolve::FixedAnswers;
use tw_egress::client::tls_fault::TlsFault;
use tw_egress::client::tool_route::{NamesLookedUp, ToolProxy};
use tw_egress::client::{
    ClientOptions, ConnectionReuse, EgressClient, OutgoingRequest, RequestTimeouts,
};
use tw_testkit::connect_proxy::{ConnectProxy, ProxyReply};
use tw_testkit::listener::{Listener, ListenerReply};
use tw_testkit::tls_listener::{Authority, TlsListener, Validity};

use super::causes::roots;
use super::guarded::{INSIDE, REFUSED};
use super::{Trap, allowed, get, ips, post, resolving};

use NamesLookedUp::{ByProxy, Here};

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// The proxy is asked for this, and the tool answers.
    Through(&'static str),
    /// The tool answers, and the proxy knows nothing of it.
    Direct,
    /// A connection is tried from here, and none comes.
    DirectInVain,
    /// Nobody is asked for anything.
    Refused,
}
use Way::{Direct, DirectInVain, Refused, Through};

/// Names of this server's own look-up.
fn answers() -> FixedAnswers {
    FixedAnswers::default()
        .then("tool.example", &ips(&["8.8.8.8"]))
        .then("six.example", &ips(&["2606:4700::1111"]))
        .then("mapped.example", &ips(&["::ffff:8.8.8.8"]))
        .then("inside.example", &ips(&["10.0.0.7"]))
        .then("half-inside.example", &ips(&["8.8.8.8", "10.0.0.7"]))
        .then("metadata.example", &ips(&["169.254.169.254"]))
        .then("here.example", &ips(&["127.0.0.1"]))
        // Public by our rules, and leads nowhere.
        .then("far.example", &ips(&["64:ff9b::808:808"]))
}

fn through(proxy: &ConnectProxy, without: &str, names: NamesLookedUp) -> Option<ToolProxy> {
    let written = format!("http://user:the-password@{}", proxy.address);
    Some(ToolProxy {
        proxy: Proxy::parse(&written).unwrap(),
        without: WithoutProxy::parse(without),
        names,
    })
}

/// One that waits for no connection longer than it takes to try one.
fn hasty(url: &str) -> OutgoingRequest {
    let request = post(url);
    OutgoingRequest {
        timeouts: RequestTimeouts {
            connect: Duration::from_millis(500),
            ..request.timeouts.clone()
        },
        ..request
    }
}

#[tokio::test]
async fn the_proxy_is_asked_for_public_places_and_for_nothing_else() {
    let authority = Authority::new("ours").unwrap();
    let names = [
        "tool.example",
        "six.example",
        "unknown.example",
        "here.example",
        "8.8.8.8",
        "2606:4700::1111",
        "127.0.0.1",
    ];
    let identity = authority.sign(&names, Validity::Now).unwrap();
    let secure = TlsListener::start(&identity, None).await.unwrap();
    let plain = Listener::start(|_| ListenerReply::json("{}"))
        .await
        .unwrap();
    let plain_address: SocketAddr = plain.url("").replace("http://", "").parse().unwrap();
    let (secure_port, plain_port) = (secure.address.port(), plain_address.port());
    let by_name = format!("here.example:{secure_port}");
    let by_address = format!("127.0.0.1:{secure_port}");
    let in_clear = format!("here.example:{plain_port}");
    let cases: Vec<(NamesLookedUp, &str, String, Way)> = [
        // The address that was judged is what the proxy is asked for.
        (Here, "", "https://tool.example/", Through("8.8.8.8:443")),
        (
            Here,
            "",
            "https://TOOL.example.:8443/",
            Through("8.8.8.8:8443"),
        ),
        (
            Here,
            "",
            "https://six.example/",
            Through("[2606:4700::1111]:443"),
        ),
        (Here, "", "https://8.8.8.8/", Through("8.8.8.8:443")),
        (
            Here,
            "",
            "https://[2606:4700::1111]/",
            Through("[2606:4700::1111]:443"),
        ),
        (Here, "", "https://inside.example/", Refused),
        (Here, "", "https://half-inside.example/", Refused),
        (Here, "", "https://metadata.example/", Refused),
        (Here, "", "https://mapped.example/", Refused),
        (Here, "", "https://unknown.example/", Refused),
        (Here, "", "https://10.0.0.7/", Refused),
        (Here, "", "https://8.8.8.8:5432/", Refused),
        (Here, "", "https://tool.example:5432/", Refused),
        (Here, "", "http://tool.example/", Refused),
        (Here, "far.example", "https://far.example/", DirectInVain),
        (Here, "*", "https://far.example/", DirectInVain),
        (
            Here,
            "64:ff9b::/96",
            "https://[64:ff9b::808:808]/",
            DirectInVain,
        ),
        (Here, "inside.example", "https://inside.example/", Refused),
        // The name is.
        (
            ByProxy,
            "",
            "https://tool.example/",
            Through("tool.example:443"),
        ),
        (
            ByProxy,
            "",
            "https://unknown.example:8443/",
            Through("unknown.example:8443"),
        ),
        (
            ByProxy,
            "",
            "https://UNKNOWN.example./",
            Through("unknown.example:443"),
        ),
        (ByProxy, "", "https://8.8.8.8/", Through("8.8.8.8:443")),
        (ByProxy, "", "https://10.0.0.7/", Refused),
        (ByProxy, "", "https://intranet/", Refused),
        (ByProxy, "", "https://intranet./", Refused),
        (ByProxy, "", "https://metadata.google.internal/", Refused),
        (ByProxy, "", "https://printer.local/", Refused),
        (ByProxy, "", "https://unknown.example:22/", Refused),
        // A port that only a network of the list opens.
        (ByProxy, "", "https://tool.example:5432/", Refused),
        (ByProxy, "", "http://tool.example/", Refused),
        (ByProxy, "far.example", "https://far.example/", DirectInVain),
        (
            ByProxy,
            "inside.example",
            "https://inside.example/",
            Refused,
        ),
        (
            ByProxy,
            "unknown.example",
            "https://unknown.example/",
            Refused,
        ),
    ]
    .into_iter()
    .map(|(names, without, url, way)| (names, without, url.to_owned(), way))
    .chain([Here, ByProxy].into_iter().flat_map(|names| {
        // What the operator's list names is inside.
        [
            (names, "", format!("https://{by_name}/"), Direct),
            (names, "", format!("https://{by_address}/"), Direct),
            (names, "", format!("http://{in_clear}/"), Direct),
        ]
    }))
    .collect();
    for (names, without, url, expected) in cases {
        let proxy = ConnectProxy::start(ProxyReply::Forward(secure.address));
        let proxy = proxy.await.unwrap();
        let client = EgressClient::new(ClientOptions {
            allowed: [&by_name, &by_address, &in_clear, "10.0.0.0/8:5432"]
                .map(allowed)
                .into(),
            trusted_roots: roots(&authority),
            proxy: through(&proxy, without, names),
            ..resolving(answers())
        });
        let sent = client.send(hasty(&url), "default", ConnectionReuse::Pooled);
        let sent = sent.await;
        let asked = proxy.asked();
        let label = format!("{names:?} {without:?} {url}: {sent:?} {asked:?}");
        match expected {
            Through(place) => {
                assert_eq!(sent.unwrap().status, 200, "{label}");
                assert_eq!(asked.len(), 1, "{label}");
                let head = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
                assert!(asked[0].starts_with(&head), "{label}");
                // user:the-password
                let basic = "Proxy-Authorization: Basic dXNlcjp0aGUtcGFzc3dvcmQ=\r\n";
                assert_eq!(asked[0], format!("{head}{basic}\r\n"), "{label}");
                continue;
            }
            Direct => assert_eq!(sent.unwrap().status, 200, "{label}"),
            DirectInVain => {
                let failure = sent.unwrap_err();
                let tried = [
                    FailureKind::Connect,
                    FailureKind::TimedOut(WaitPhase::Connect),
                ];
                assert!(tried.contains(&failure.kind), "{label}");
            }
            Refused => {
                let failure = sent.unwrap_err();
                let refused = [
                    FailureKind::TargetNotAllowed,
                    FailureKind::Unresolved,
                    FailureKind::NotHttps,
                ];
                assert!(refused.contains(&failure.kind), "{label}");
                assert!(!failure.sent, "{label}");
            }
        }
        assert!(asked.is_empty(), "{label}");
    }
}

/// Whoever looks the names up.
#[tokio::test]
async fn no_notation_of_a_place_inside_is_sent_to_the_proxy() {
    let trap = Trap::new();
    let port = trap.port();
    let proxy = ConnectProxy::start(ProxyReply::Forward(trap.address()));
    let proxy = proxy.await.unwrap();
    let address = |text: &&str| match text.contains(':') {
        true => format!("[{text}]"),
        false => (*text).to_owned(),
    };
    let hosts = INSIDE.iter().map(|host| (*host).to_owned());
    let hosts: Vec<String> = hosts.chain(REFUSED.iter().map(address)).collect();
    for names in [Here, ByProxy] {
        let client = EgressClient::new(ClientOptions {
            proxy: through(&proxy, "", names),
            ..resolving(FixedAnswers::default())
        });
        for host in &hosts {
            for url in [
                format!("https://{host}/"),
                format!("https://{host}:{port}/"),
                format!("http://{host}/"),
            ] {
                let sent = client.send(get(&url), "default", ConnectionReuse::Pooled);
                assert!(sent.await.is_err(), "{names:?} {url}");
            }
        }
    }
    assert_eq!(proxy.asked(), [""; 0]);
    trap.assert_untouched();
}

/// A proxy knows which names there are inside, so its refusals are one answer outside the log.
#[tokio::test]
async fn whatever_a_proxy_says_is_one_answer_and_the_log_has_it() {
    let forbids = ConnectProxy::start(ProxyReply::Refuse(403)).await.unwrap();
    let wants_user = ConnectProxy::start(ProxyReply::Refuse(407)).await.unwrap();
    let knows_none = ConnectProxy::start(ProxyReply::Refuse(503)).await.unwrap();
    let (ours, closed) = (Authority::new("ours").unwrap(), "127.0.0.1:1");
    for (names, address, cause) in [
        (
            Here,
            forbids.address.to_string(),
            "answered 403 to CONNECT 8.8.8.8:443 (tool.example); look at 'proxy' in [egress]",
        ),
        (
            ByProxy,
            forbids.address.to_string(),
            "answered 403 to CONNECT tool.example:443; look at 'proxy' in [egress]",
        ),
        (
            ByProxy,
            wants_user.address.to_string(),
            "answered 407 to CONNECT tool.example:443; the proxy wants a user and a password",
        ),
        (
            ByProxy,
            knows_none.address.to_string(),
            "answered 503 to CONNECT tool.example:443; look",
        ),
        (
            Here,
            closed.to_owned(),
            "the proxy: 127.0.0.1:1 takes no connection: Connection refused",
        ),
        (
            Here,
            "no-such-proxy.invalid:3128".to_owned(),
            "the proxy: the name no-such-proxy.invalid has no address here",
        ),
    ] {
        let client = EgressClient::new(ClientOptions {
            trusted_roots: roots(&ours),
            proxy: Some(ToolProxy {
                proxy: Proxy::parse(&address).unwrap(),
                without: WithoutProxy::default(),
                names,
            }),
            ..resolving(answers())
        });
        let url = "https://tool.example/";
        let sent = client.send(post(url), "default", ConnectionReuse::Pooled);
        let failure = sent.await.unwrap_err();
        assert_eq!(
            (failure.kind.message().as_str(), failure.sent),
            (
                "the tool cannot be reached: the proxy before it failed",
                false
            )
        );
        assert!(failure.cause.contains(cause), "{cause}: {}", failure.cause);
    }
}

#[tokio::test]
async fn the_next_address_is_asked_for_when_one_is_refused() {
    let refuses = ConnectProxy::start(ProxyReply::Refuse(502)).await.unwrap();
    let addresses = ["8.8.8.8", "8.8.4.4", "2606:4700::1", "1.1.1.1", "1.0.0.1"];
    let client = EgressClient::new(ClientOptions {
        proxy: through(&refuses, "", Here),
        ..resolving(FixedAnswers::default().then("tool.example", &ips(&addresses)))
    });
    let url = "https://tool.example/";
    let sent = client.send(get(url), "default", ConnectionReuse::Pooled);
    assert_eq!(sent.await.unwrap_err().kind, FailureKind::Proxy);
    let asked = refuses.asked();
    let asked: Vec<&str> = asked
        .iter()
        .map(|head| &head[..head.find(" HTTP").unwrap()])
        .collect();
    let expected = [
        "8.8.8.8:443",
        "8.8.4.4:443",
        "[2606:4700::1]:443",
        "1.1.1.1:443",
    ];
    assert_eq!(asked, expected.map(|place| format!("CONNECT {place}")));
}

/// The proxy may connect wherever it likes: the certificate has to be that of the name.
#[tokio::test]
async fn behind_the_proxy_the_name_is_checked() {
    let authority = Authority::new("ours").unwrap();
    let identity = authority
        .sign(&["other.example", "8.8.8.8"], Validity::Now)
        .unwrap();
    let secure = TlsListener::start(&identity, None).await.unwrap();
    for names in [Here, ByProxy] {
        let proxy = ConnectProxy::start(ProxyReply::Forward(secure.address));
        let proxy = proxy.await.unwrap();
        let client = EgressClient::new(ClientOptions {
            trusted_roots: roots(&authority),
            proxy: through(&proxy, "", names),
            ..resolving(answers())
        });
        let url = "https://tool.example/";
        let sent = client.send(post(url), "default", ConnectionReuse::Pooled);
        let failure = sent.await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Tls(TlsFault::WrongName));
        assert!(!failure.sent);
    }
}
