use super::{AllowedDestination, BadHostPort, HostPort};

#[test]
fn every_notation_is_read() {
    for text in [
        "api.example.com:443",
        "API.Example.Com.:443",
        "db:5432",
        "10.0.0.7:80",
        "10.0.0.0/8:80",
        "[::1]:80",
        "[fd00::/8]:443",
    ] {
        assert!(HostPort::parse(text).is_ok(), "{text}");
    }
    let place = HostPort::parse("API.Example.Com.:443").unwrap();
    assert!(place.is_named("api.example.com", 443));
    assert!(!place.is_named("api.example.com", 80));
}

#[test]
fn what_is_no_place_says_why() {
    for (text, expected) in [
        ("", BadHostPort::NoPort),
        ("example.com", BadHostPort::NoPort),
        ("example.com:", BadHostPort::BadPort),
        ("example.com:0", BadHostPort::BadPort),
        ("example.com:65536", BadHostPort::BadPort),
        ("::1:80", BadHostPort::BadHost),
        ("[10.0.0.1]:80", BadHostPort::BadHost),
        ("[example.com]:80", BadHostPort::BadHost),
        ("http://example.com:80", BadHostPort::BadHost),
        ("*.example.com:80", BadHostPort::BadHost),
        ("10.0.0.0/33:80", BadHostPort::BadHost),
        ("exa mple.com:80", BadHostPort::BadHost),
        (":80", BadHostPort::BadHost),
        ("127.1:80", BadHostPort::BadHost),
        ("10.0.0.256:80", BadHostPort::BadHost),
    ] {
        assert_eq!(HostPort::parse(text), Err(expected), "{text}");
    }
}

#[test]
fn a_network_holds_addresses_in_every_form() {
    let place = HostPort::parse("10.0.0.0/8:80").unwrap();
    for address in ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"] {
        assert!(place.holds(address.parse().unwrap(), 80), "{address}");
    }
    assert!(!place.holds("11.0.0.1".parse().unwrap(), 80));
    assert!(!place.holds("10.1.2.3".parse().unwrap(), 81));
}

#[test]
fn a_listener_everywhere_is_reached_by_loopback() {
    let place = HostPort::parse("0.0.0.0:8787").unwrap();
    for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert!(
            place.listens_at(address.parse().unwrap(), 8787),
            "{address}"
        );
    }
    assert!(!place.listens_at("10.0.0.1".parse().unwrap(), 8787));
    assert!(!place.listens_at("127.0.0.1".parse().unwrap(), 8788));
}

#[test]
fn an_entry_without_organizations_is_for_the_default_one() {
    let entry = AllowedDestination::parse("10.0.0.7:80", None).unwrap();
    assert!(entry.is_for("default"));
    assert!(!entry.is_for("other"));
}
