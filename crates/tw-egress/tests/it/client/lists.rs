//! What the operator's lists open and close, and for whom.

use tw_egress::client::failure::FailureKind;
use tw_egress::client::host_port::AllowedDestination;
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_egress::client::{ClientOptions, ConnectionReuse};
use tw_testkit::listener::{Listener, ListenerReply};

use super::{Trap, allowed, allowing, client, get, ips, options, place, resolving};

fn port_of(listener: &Listener) -> u16 {
    url::Url::parse(&listener.url("/")).unwrap().port().unwrap()
}

#[tokio::test]
async fn an_allowed_address_is_reached_by_its_organization_only() {
    let listener = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let entry = format!("127.0.0.1:{}", port_of(&listener));
    let url = listener.url("/");
    let for_acme = AllowedDestination::parse(&entry, Some(vec!["acme".to_owned()])).unwrap();
    let client = client(ClientOptions {
        allowed: vec![for_acme],
        ..options()
    });
    assert_eq!(
        client
            .send(get(&url), "acme", ConnectionReuse::Pooled)
            .await
            .unwrap()
            .status,
        200
    );
    // There is an open connection now, and it is not theirs.
    for organization in ["default", "other", ""] {
        let failure = client
            .send(get(&url), organization, ConnectionReuse::Pooled)
            .await
            .unwrap_err();
        assert_eq!(failure.kind, FailureKind::TargetNotAllowed);
        assert!(client.check_url(&url, organization).is_err());
    }
    assert_eq!(listener.asked().len(), 1);
}

#[tokio::test]
async fn an_allowed_name_may_be_private_and_plain() {
    let listener = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let port = port_of(&listener);
    let answers = FixedAnswers::default()
        .then("crm.internal", &ips(&["127.0.0.1"]))
        .then("other.internal", &ips(&["127.0.0.1"]));
    let client = client(ClientOptions {
        allowed: vec![allowed(&format!("crm.internal:{port}"))],
        ..resolving(answers)
    });
    let url = format!("http://crm.internal:{port}/");
    assert_eq!(
        client
            .send(get(&url), "default", ConnectionReuse::Pooled)
            .await
            .unwrap()
            .status,
        200
    );
    // Neither another port, nor another name, nor the address itself.
    for url in [
        "http://crm.internal/".to_owned(),
        "https://crm.internal/".to_owned(),
        format!("http://other.internal:{port}/"),
        format!("http://a.crm.internal:{port}/"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let failure = client
            .send(get(&url), "default", ConnectionReuse::Pooled)
            .await
            .unwrap_err();
        assert_eq!(failure.kind, FailureKind::TargetNotAllowed, "{url}");
    }
}

#[tokio::test]
async fn an_allowed_network_covers_answers_address_by_address() {
    let answers = FixedAnswers::default()
        .then("in.example", &ips(&["10.1.2.3"]))
        .then("mixed.example", &ips(&["10.1.2.3", "192.168.0.1"]));
    let client = client(ClientOptions {
        allowed: vec![allowed("10.0.0.0/8:5432")],
        ..resolving(answers)
    });
    let failure = client
        .send(
            get("https://mixed.example:5432/"),
            "default",
            ConnectionReuse::Pooled,
        )
        .await;
    assert_eq!(failure.unwrap_err().kind, FailureKind::TargetNotAllowed);
    assert!(
        client
            .check_url("https://10.9.9.9:5432/", "default")
            .is_ok()
    );
    assert!(client.check_url("http://10.9.9.9:5432/", "default").is_ok());
    assert!(
        client
            .check_url("https://in.example:5432/", "default")
            .is_ok()
    );
    // Plain HTTP to a name wants the name's own entry.
    let plain = client.check_url("http://in.example:5432/", "default");
    assert_eq!(plain.unwrap_err().kind, FailureKind::NotHttps);
    let elsewhere = client.check_url("https://11.0.0.1:5432/", "default");
    assert_eq!(elsewhere.unwrap_err().kind, FailureKind::TargetNotAllowed);
}

#[tokio::test]
async fn metadata_is_never_allowed() {
    let answers = FixedAnswers::default().then("m.example", &ips(&["169.254.169.254"]));
    let client = client(ClientOptions {
        allowed: [
            "0.0.0.0/0:80",
            "[::/0]:80",
            "169.254.169.254:80",
            "metadata.google.internal:80",
            "m.example:80",
        ]
        .map(allowed)
        .into(),
        ..resolving(answers)
    });
    for url in [
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://metadata.google.internal./",
        "http://m.example/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://255.255.255.255/",
    ] {
        let failure = client
            .send(get(url), "default", ConnectionReuse::Pooled)
            .await
            .unwrap_err();
        assert_eq!(failure.kind, FailureKind::TargetNotAllowed, "{url}");
    }
    assert!(client.check_url("http://10.0.0.1/", "default").is_ok());
}

#[tokio::test]
async fn our_own_listeners_and_database_are_never_allowed() {
    let trap = Trap::new();
    let port = trap.port();
    let answers = || {
        FixedAnswers::default()
            .then("self.example", &ips(&["127.0.0.1"]))
            .then("db", &ips(&["127.0.0.1"]))
            .then("alias.example", &ips(&["::ffff:127.0.0.1"]))
    };
    for denied in ["127.0.0.1", "0.0.0.0", "[::]", "127.0.0.0/8", "db"] {
        let client = client(ClientOptions {
            allowed: [
                "127.0.0.0/8",
                "[::/0]",
                "self.example",
                "db",
                "alias.example",
                "localhost",
            ]
            .map(|host| allowed(&format!("{host}:{port}")))
            .into(),
            denied: vec![place(&format!("{denied}:{port}"))],
            ..resolving(answers())
        });
        for host in [
            "127.0.0.1",
            "[::ffff:127.0.0.1]",
            "self.example",
            "db",
            "alias.example",
        ] {
            let url = format!("http://{host}:{port}/");
            let failure = client
                .send(get(&url), "default", ConnectionReuse::Pooled)
                .await;
            let failure = failure.expect_err(&url);
            assert_eq!(
                failure.kind,
                FailureKind::TargetNotAllowed,
                "{url} despite {denied}"
            );
        }
    }
    trap.assert_untouched();
}

#[tokio::test]
async fn one_refused_target_looks_like_another() {
    let answers = FixedAnswers::default().then("private.example", &ips(&["10.0.0.1"]));
    let client = client(ClientOptions {
        denied: vec![place("denied.example:443")],
        ..resolving(answers)
    });
    let mut messages = Vec::new();
    for url in [
        "https://private.example/",
        "https://10.0.0.1/",
        "https://169.254.169.254/",
        "https://metadata.google.internal/",
        "https://denied.example/",
        "https://localhost/",
        "https://example.com:22/",
    ] {
        let failure = client
            .send(get(url), "default", ConnectionReuse::Pooled)
            .await
            .unwrap_err();
        messages.push((failure.kind, failure.sent, failure.to_string()));
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[tokio::test]
async fn an_entry_opens_its_own_port_only() {
    let client = client(allowing("127.0.0.1:22"));
    assert!(client.check_url("http://127.0.0.1:22/", "default").is_ok());
    assert!(client.check_url("http://127.0.0.1:23/", "default").is_err());
    assert!(client.check_url("http://127.0.0.1/", "default").is_err());
}

#[tokio::test]
async fn the_resolver_of_this_machine_knows_its_hosts_file() {
    let listener = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let port = port_of(&listener);
    let client = client(ClientOptions {
        resolver: Resolver::system().unwrap(),
        ..allowing(&format!("localhost:{port}"))
    });
    let url = format!("http://localhost:{port}/");
    let received = client
        .send(get(&url), "default", ConnectionReuse::Pooled)
        .await;
    assert_eq!(received.unwrap().status, 200);
}
