use tw_egress::client::failure::FailureKind;
use tw_egress::client::host_port::ORGANIZATION_DEFAULT;

use tw_egress::client::web_roots;

use super::*;

fn settings(places: &[&str]) -> EgressSettings {
    let entry = |place: &&str| AllowSettings {
        place: (*place).to_owned(),
        organizations: None,
    };
    EgressSettings {
        allow: places.iter().map(entry).collect(),
        certificate: Vec::new(),
        proxy: None,
        no_proxy: Vec::new(),
        proxy_looks_up: false,
    }
}

/// Whether a tool of the default organization may reach what the URL names, as far as that shows
/// without a look-up.
fn may(listener: &str, allowed: &[&str], url: &str) -> bool {
    let client = settings(allowed)
        .client(&[listener.parse().unwrap()], web_roots())
        .unwrap();
    match client.check_url(url, ORGANIZATION_DEFAULT) {
        Ok(()) => true,
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::TargetNotAllowed, "{url}");
            false
        }
    }
}

#[test]
fn no_entry_leads_to_our_own_listener() {
    for (listener, place, url) in [
        ("127.0.0.1:8787", "127.0.0.1:8787", "http://127.0.0.1:8787/"),
        (
            "127.0.0.1:8787",
            "127.0.0.1:8787",
            "http://[::ffff:127.0.0.1]:8787/",
        ),
        (
            "127.0.0.1:8787",
            "127.0.0.0/8:8787",
            "http://127.0.0.1:8787/",
        ),
        ("10.0.0.7:8787", "10.0.0.0/8:8787", "http://10.0.0.7:8787/"),
        ("[::1]:8787", "[::1]:8787", "http://[::1]:8787/"),
        (
            "[fd00::1%3]:8787",
            "[fd00::/8]:8787",
            "http://[fd00::1]:8787/",
        ),
        ("0.0.0.0:8787", "127.0.0.1:8787", "http://127.0.0.1:8787/"),
        ("0.0.0.0:8787", "[::1]:8787", "http://[::1]:8787/"),
        ("[::]:8787", "127.0.0.0/8:8787", "http://127.3.2.1:8787/"),
        ("[::]:8787", "[::1]:8787", "http://[::1]:8787/"),
    ] {
        assert!(!may(listener, &[place], url), "{listener}: {url}");
        // It is the listener that keeps it out.
        assert!(may("127.0.0.1:1", &[place], url), "{url}");
    }
}

#[test]
fn other_ports_and_addresses_are_reached_where_allowed() {
    for (listener, place, url) in [
        ("127.0.0.1:8787", "127.0.0.1:8788", "http://127.0.0.1:8788/"),
        ("127.0.0.1:8787", "10.0.0.7:8787", "http://10.0.0.7:8787/"),
        ("0.0.0.0:8787", "10.0.0.7:8787", "http://10.0.0.7:8787/"),
        // The port is still to be chosen.
        ("127.0.0.1:0", "127.0.0.1:8787", "http://127.0.0.1:8787/"),
    ] {
        assert!(may(listener, &[place], url), "{listener}: {url}");
        assert!(!may(listener, &[], url), "{listener}: {url}");
    }
}
