//! What no tool reaches, in every notation and through every lie of a name server.

use std::time::Duration;

use tw_egress::client::failure::{FailureKind, WaitPhase};
use tw_egress::client::resolve::FixedAnswers;
use tw_egress::client::{ConnectionReuse, EgressClient, PoolOptions, RequestTimeouts};
use tw_testkit::listener::{Listener, ListenerReply};

use super::{ClientOptions, Trap, allowed, allowing, client, get, ips, options, resolving};

/// One address or two of every refused range, and every way to hide one in another.
pub(crate) const REFUSED: [&str; 62] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:a9fe:a9fe::f7f7:f7f7",
    "2001:0:808:808:0:0:5601:5601",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "1::1",
    "8000::1",
    "2606:4700::5efe:10.0.0.1",
];

/// Every way to write loopback, and names that mean a place inside.
pub(crate) const INSIDE: [&str; 34] = [
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "0",
    "[::1]",
    "[::]",
    "[::ffff:7f00:1]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::7f00:1]",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "a.localhost",
    "a.localhost.",
    "ｌｏｃａｌｈｏｓｔ",
    "printer.local",
    "printer.local.",
    "local",
    "service.internal",
    "SERVICE.Internal.",
    "internal",
    "metadata.google.internal",
    "metadata.google.internal.",
    "metadata.amazonaws.com",
    "Metadata.AmazonAWS.com.",
];

const MESSAGE: &str = "the tool's address does not exist or may not be reached from here";

#[track_caller]
fn assert_not_allowed(client: &EgressClient, url: &str) {
    let failure = client.check_url(url, "default").expect_err(url);
    assert_eq!(failure.kind, FailureKind::TargetNotAllowed, "{url}");
    assert_eq!(failure.to_string(), MESSAGE, "{url}");
    assert!(!failure.sent);
}

#[tokio::test]
async fn every_refused_range_as_a_literal() {
    let client = client(options());
    for address in REFUSED {
        let host = if address.contains(':') {
            format!("[{address}]")
        } else {
            address.to_owned()
        };
        for url in [
            format!("https://{host}/"),
            format!("http://{host}/"),
            format!("https://{host}:8443/a?b=c"),
        ] {
            assert_not_allowed(&client, &url);
            let failure = client
                .send(get(&url), "default", ConnectionReuse::Pooled)
                .await
                .expect_err(&url);
            assert_eq!(failure.kind, FailureKind::TargetNotAllowed, "{url}");
            assert_eq!(failure.kind.message(), MESSAGE, "{url}");
            assert!(!failure.sent, "{url}");
        }
    }
}

#[tokio::test]
async fn every_refused_range_as_an_answer_of_the_name_server() {
    for address in REFUSED {
        let answers = FixedAnswers::default()
            .then("alone.example", &ips(&[address]))
            .then("first.example", &ips(&[address, "64:ff9b::808:808"]))
            .then(
                "last.example",
                &ips(&["64:ff9b::808:808", "8.8.8.8", address]),
            );
        let client = client(resolving(answers));
        for name in ["alone.example", "first.example", "last.example"] {
            let url = format!("https://{name}/");
            assert!(client.check_url(&url, "default").is_ok(), "{url}");
            let failure = client
                .send(get(&url), "default", ConnectionReuse::Pooled)
                .await
                .expect_err(address);
            assert_eq!(
                failure.kind,
                FailureKind::TargetNotAllowed,
                "{name} {address}"
            );
            assert_eq!(failure.kind.message(), MESSAGE);
            assert!(!failure.sent);
        }
    }
}

#[tokio::test]
async fn every_notation_of_loopback_stays_out() {
    let trap = Trap::new();
    let port = trap.port();
    let client = client(options());
    for host in INSIDE {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/");
            assert_not_allowed(&client, &url);
            let sent = client
                .send(get(&url), "default", ConnectionReuse::Brief)
                .await;
            assert_eq!(
                sent.expect_err(&url).kind,
                FailureKind::TargetNotAllowed,
                "{url}"
            );
        }
    }
    trap.assert_untouched();
}

#[tokio::test]
async fn http_is_for_allowed_places_only() {
    let trap = Trap::new();
    let answers = FixedAnswers::default().then("plain.example", &[trap.address().ip()]);
    let client = client(resolving(answers));
    let url = format!("http://plain.example:{}/", trap.port());
    let failure = client
        .send(get(&url), "default", ConnectionReuse::Pooled)
        .await;
    assert_eq!(failure.unwrap_err().kind, FailureKind::NotHttps);
    let public = client.check_url("http://example.com/", "default");
    assert_eq!(public.unwrap_err().kind, FailureKind::NotHttps);
    trap.assert_untouched();
}

#[tokio::test]
async fn junk_is_no_url() {
    let client = client(options());
    for url in [
        "",
        "{{url}}",
        "https://{{host}}/",
        "https://{{ host }}.example.com/",
        "https://@evil@example.com/",
        "https://user:pw@example.com/",
        "file:///etc/passwd",
        "https://example.com\r\nHost: localhost/",
        "https://exa\tmple.com/",
        "https:// /",
        "https://[::1",
        "https://[fe80::1%25eth0]/",
        "gopher://127.0.0.1:6379/_INFO",
    ] {
        let failure = client.check_url(url, "default").expect_err(url);
        assert_eq!(failure.kind, FailureKind::BadUrl, "{url:?}");
        let failure = client
            .send(get(url), "default", ConnectionReuse::Pooled)
            .await;
        assert_eq!(failure.expect_err(url).kind, FailureKind::BadUrl, "{url:?}");
    }
}

#[tokio::test]
async fn ports_of_other_services_stay_closed() {
    let client = client(options());
    for port in [
        1, 22, 23, 25, 465, 587, 1023, 2375, 3306, 5432, 6379, 9092, 11211, 27017,
    ] {
        assert_not_allowed(&client, &format!("https://example.com:{port}/"));
    }
    for url in [
        "https://example.com/",
        "https://example.com:80/",
        "https://example.com:8443/",
    ] {
        assert!(client.check_url(url, "default").is_ok(), "{url}");
    }
}

#[tokio::test]
async fn a_name_that_changes_to_a_private_address_reaches_nothing() {
    let trap = Trap::new();
    // Public by our rules, and leads nowhere.
    let answers = FixedAnswers::default()
        .then("rebind.example", &ips(&["64:ff9b::808:808"]))
        .then("rebind.example", &ips(&["127.0.0.1"]));
    let client = client(resolving(answers));
    let mut request = get(&format!("https://rebind.example:{}/", trap.port()));
    request.timeouts = RequestTimeouts {
        connect: Duration::from_millis(100),
        ..request.timeouts
    };
    assert!(client.check_url(&request.url, "default").is_ok());
    let first = client
        .send(request.clone(), "default", ConnectionReuse::Pooled)
        .await;
    let first = first.unwrap_err();
    assert!(
        matches!(
            first.kind,
            FailureKind::Connect | FailureKind::TimedOut(WaitPhase::Connect)
        ),
        "{first:?}"
    );
    assert!(!first.sent);
    assert!(client.check_url(&request.url, "default").is_ok());
    let second = client
        .send(request, "default", ConnectionReuse::Pooled)
        .await;
    assert_eq!(second.unwrap_err().kind, FailureKind::TargetNotAllowed);
    trap.assert_untouched();
}

#[tokio::test]
async fn what_was_judged_is_what_is_connected_to() {
    let listener = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let url = listener.url("/x").replace("127.0.0.1", "inside.example");
    let port = url::Url::parse(&url).unwrap().port().unwrap();
    let answers = FixedAnswers::default()
        .then("inside.example", &ips(&["127.0.0.1"]))
        .then("inside.example", &ips(&["169.254.169.254"]));
    let client = client(ClientOptions {
        allowed: vec![allowed(&format!("inside.example:{port}"))],
        pool: PoolOptions {
            idle_kept_brief: Duration::ZERO,
            ..PoolOptions::defaults()
        },
        ..resolving(answers)
    });
    // A second look-up within the first request would have been refused.
    let first = client
        .send(get(&url), "default", ConnectionReuse::Pooled)
        .await;
    assert_eq!(first.unwrap().status, 200);
    // The open connection leads where it led.
    let second = client
        .send(get(&url), "default", ConnectionReuse::Pooled)
        .await;
    assert_eq!(second.unwrap().status, 200);
    let third = client
        .send(get(&url), "default", ConnectionReuse::Brief)
        .await;
    assert_eq!(third.unwrap_err().kind, FailureKind::TargetNotAllowed);
    assert_eq!(listener.asked().len(), 2);
    assert_eq!(
        listener.asked()[0].header("host"),
        format!("inside.example:{port}")
    );
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let trap = Trap::new();
    for status in [301, 302, 303, 307, 308] {
        for location in [
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            "//169.254.169.254/".to_owned(),
            format!("http://{}/", trap.address()),
            "/elsewhere".to_owned(),
        ] {
            let reply = ListenerReply::status(status, "gone").with_header("location", &location);
            let listener = Listener::in_turn(vec![reply]).await.unwrap();
            let url = listener.url("/");
            let place = url
                .trim_start_matches("http://")
                .trim_end_matches('/')
                .to_owned();
            let client = client(allowing(&place));
            let received = client
                .send(get(&url), "default", ConnectionReuse::Pooled)
                .await;
            assert_eq!(received.unwrap().status, status);
            assert_eq!(listener.asked().len(), 1);
        }
    }
    trap.assert_untouched();
}

#[tokio::test]
async fn a_name_without_addresses_does_not_resolve() {
    let client = client(options());
    let failure = client
        .send(
            get("https://nowhere.example/"),
            "default",
            ConnectionReuse::Pooled,
        )
        .await;
    let failure = failure.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unresolved);
    assert!(!failure.sent);
}
