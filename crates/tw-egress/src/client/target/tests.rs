use tw_core::limits::URL_BYTES_MAX;

use super::{Host, RequestTarget, Scheme};
use crate::client::failure::FailureKind;

#[track_caller]
fn check_host(url: &str, expected: &str) {
    let target = RequestTarget::parse(url).unwrap_or_else(|_| panic!("{url} is refused"));
    let host = match target.host {
        Host::Name(name) => format!("name {name}"),
        Host::Address(address) => address.to_string(),
    };
    assert_eq!(host, expected, "{url}");
}

#[test]
fn every_notation_of_an_address_is_that_address() {
    for url in [
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://①②⑦.0.0.1/",
        "http://127。0。0。1/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http:127.0.0.1",
        "http:\\\\127.0.0.1\\",
    ] {
        check_host(url, "127.0.0.1");
    }
    check_host("http://0/", "0.0.0.0");
    check_host("http:///169.254.169.254/", "169.254.169.254");
    check_host("http://[::ffff:127.0.0.1]/", "::ffff:127.0.0.1");
    check_host("http://[0:0:0:0:0:0:7f00:1]/", "::7f00:1");
}

#[test]
fn names_are_normalised() {
    check_host("https://EXAMPLE.com./", "name example.com");
    check_host("http://localhost./", "name localhost");
    check_host("https://ｌｏｃａｌｈｏｓｔ/", "name localhost");
    check_host("https://bücher.example/", "name xn--bcher-kva.example");
    // Other parsers see 127.0.0.1 here; we connect to what was judged.
    check_host("http://example.com\\@127.0.0.1/", "name example.com");
}

#[test]
fn what_is_no_url_is_refused() {
    let long = format!("https://example.com/{}", "a".repeat(URL_BYTES_MAX));
    let encoded = format!("https://example.com/{}", "ü".repeat(URL_BYTES_MAX / 4));
    for url in [
        "",
        "example.com",
        "/path",
        "//example.com/",
        "https://",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://127.0.0.1:6379/_",
        "data:text/plain,x",
        "javascript:alert(1)",
        "unix:/run/docker.sock",
        "http://[fe80::1%25eth0]/",
        "http://256.256.256.256/",
        "http://1.2.3.4.5/",
        "http://foo@127.0.0.1:80@example.com/",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://:password@example.com/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:port/",
        "https://{{host}}/",
        "https://{{host}}.example.com/",
        "https://%7B%7Bhost%7D%7D/",
        "https://example.com:{{port}}/",
        "{{scheme}}://example.com/",
        "https://$(host)/",
        "https://*.example.com/",
        "https://a..example.com/",
        "https://example.com../",
        "https://.example.com/",
        "https://exam\nple.com/",
        "https://example.com/\r\nHost: localhost",
        "https://example.com/a b",
        "\thttps://example.com/",
        &long,
        &encoded,
    ] {
        assert_eq!(
            RequestTarget::parse(url),
            Err(FailureKind::BadUrl),
            "{url:?}"
        );
    }
}

#[test]
fn the_fragment_is_dropped_and_the_query_kept() {
    let target =
        RequestTarget::parse("https://example.com:8443/a/%7B/../b?q=1&r=%20#secret").unwrap();
    assert_eq!(target.path_and_query, "/a/b?q=1&r=%20");
    assert_eq!(target.authority(), "example.com:8443");
    assert_eq!(target.scheme, Scheme::Https);
    let target = RequestTarget::parse("http://[2606:4700::1111]:80/").unwrap();
    assert_eq!(target.authority(), "[2606:4700::1111]");
}
