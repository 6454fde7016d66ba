use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Networks, NotANetwork, source};

fn networks(texts: &[&str]) -> Result<Networks, NotANetwork> {
    let owned: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    Networks::parse(&owned)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn networks_are_read_and_contain_their_addresses() {
    let some = networks(&["203.0.113.0/24", "198.51.100.7", "2001:db8::/32"]).unwrap();
    for (text, is_in) in [
        ("203.0.113.9", true),
        ("::ffff:203.0.113.9", true),
        ("203.0.114.9", false),
        ("198.51.100.7", true),
        ("198.51.100.8", false),
        ("2001:db8::1", true),
        ("2001:db9::1", false),
    ] {
        assert_eq!(some.contain(address(text)), is_in, "{text}");
    }
    for text in ["", "home", "203.0.113.0/33", "203.0.113"] {
        assert_eq!(networks(&[text]), Err(NotANetwork(text.to_owned())));
    }
}

#[test]
fn only_trusted_proxies_say_where_a_callback_came_from() {
    let trusted = networks(&["10.0.0.0/8"]).unwrap();
    for (peer, told, expected) in [
        ("192.0.2.1", &[][..], "192.0.2.1"),
        ("192.0.2.1", &["203.0.113.9"], "192.0.2.1"),
        ("10.0.0.1", &[], "10.0.0.1"),
        ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
        ("::ffff:10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
        // What stands before the first that is not trusted, anybody may have written.
        (
            "10.0.0.1",
            &["1.2.3.4, 203.0.113.9, 10.0.0.2"],
            "203.0.113.9",
        ),
        ("10.0.0.1", &["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", &["203.0.113.9, unknown"], "10.0.0.1"),
    ] {
        let name = HeaderName::from_static("x-forwarded-for");
        let mut headers = HeaderMap::new();
        for value in told {
            headers.append(&name, HeaderValue::from_static(value));
        }
        let found = source(address(peer), &headers, &trusted);
        assert_eq!(found, address(expected), "{peer} {told:?}");
    }
}
