//! What names a proxy, and what goes past it.

use super::{BadProxy, Proxy, WithoutProxy};
use crate::client::target::RequestTarget;

#[test]
fn a_proxy_is_a_place_and_perhaps_a_user() {
    for (text, place, authorization) in [
        ("http://proxy.example:3128", "proxy.example:3128", None),
        ("http://Proxy.Example:3128/", "proxy.example:3128", None),
        ("proxy.example:3128", "proxy.example:3128", None),
        (" http://10.0.0.1 ", "10.0.0.1:80", None),
        ("http://[fd00::1]:8080", "[fd00::1]:8080", None),
        // user:pass
        ("http://user:pass@p:1", "p:1", Some("Basic dXNlcjpwYXNz")),
        ("user:pass@p:1", "p:1", Some("Basic dXNlcjpwYXNz")),
        // user:p@s%
        (
            "http://user:p%40s%25@p:1",
            "p:1",
            Some("Basic dXNlcjpwQHMl"),
        ),
        // user without a password
        ("http://user@p:1", "p:1", Some("Basic dXNlcjo=")),
    ] {
        let proxy = Proxy::parse(text).unwrap();
        assert_eq!(proxy.place(), place, "{text}");
        let said = proxy.authorization().map(|value| value.to_str().unwrap());
        assert_eq!(said, authorization, "{text}");
        let shown = format!("{proxy:?}");
        assert!(
            !shown.contains("pass") && !shown.contains("Basic"),
            "{shown}"
        );
    }
    for (text, expected) in [
        ("", BadProxy::NotProxy),
        ("http://", BadProxy::NotProxy),
        ("http://p:1/path", BadProxy::NotProxy),
        ("http://p:99999", BadProxy::NotProxy),
        ("http://p q:1", BadProxy::NotProxy),
        ("https://p:1", BadProxy::Scheme),
        ("socks5h://p:1", BadProxy::Scheme),
    ] {
        assert_eq!(Proxy::parse(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn what_goes_past_it_is_read_as_curl_reads_it() {
    for (list, host, past) in [
        ("", "a.example", false),
        ("*", "a.example", true),
        ("example", "a.example", true),
        (".example", "a.example", true),
        ("a.example", "A.Example.", true),
        ("a.example", "b.a.example", true),
        ("a.example", "ba.example", false),
        ("b.example, a.example", "a.example", true),
        ("b.example a.example", "a.example", true),
        ("a.example.", "a.example", true),
        ("10.0.0.1", "10.0.0.1", true),
        ("10.0.0.0/8", "10.9.9.9", true),
        ("10.0.0.0/8", "11.0.0.1", false),
        ("10.0.0.0/8", "ten.example", false),
        ("[fd00::1]", "[fd00::1]", true),
        ("fd00::/8", "[fd12::1]", true),
        // Curl knows no ports there.
        ("a.example:443", "a.example", false),
    ] {
        let target = RequestTarget::parse(&format!("https://{host}/")).unwrap();
        let without = WithoutProxy::parse(list);
        assert_eq!(without.holds(&target.host), past, "{list:?} {host}");
    }
}
