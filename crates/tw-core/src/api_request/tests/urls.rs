use serde_json::json;

use super::built;
use crate::api_request::{Method, UrlTemplate};

#[test]
fn a_url_is_read_as_its_host_would_be() {
    for (written, origin, host) in [
        (
            "https://API.Example.com",
            "https://api.example.com",
            "api.example.com",
        ),
        (
            "HTTPS://example.com:443/x",
            "https://example.com",
            "example.com",
        ),
        (
            "http://example.com.:8080?x=1",
            "http://example.com:8080",
            "example.com",
        ),
        ("http://0x7f.1/", "http://127.0.0.1", "127.0.0.1"),
        ("http://[::1]:9/", "http://[::1]:9", "[::1]"),
        (
            "https://bücher.example/ü",
            "https://xn--bcher-kva.example",
            "xn--bcher-kva.example",
        ),
        (
            "https://example.com/{a}/{{b}}?c={d}",
            "https://example.com",
            "example.com",
        ),
    ] {
        let url = UrlTemplate::parse(written).unwrap();
        assert_eq!((url.origin(), url.host()), (origin, host), "{written}");
        assert_eq!(url.written(), written);
    }
    let url = UrlTemplate::parse("http://h:81/").unwrap();
    assert_eq!(url.host_and_port(), "h:81");
}

#[test]
fn urls_that_could_be_read_in_two_ways_are_refused() {
    for (written, says) in [
        ("", "begin with"),
        ("example.com/x", "begin with"),
        ("ftp://example.com/", "begin with"),
        ("file:///etc/passwd", "begin with"),
        (" https://example.com/", "begin with"),
        ("java\nscript://x", "begin with"),
        ("https:///example.com/", "name a host"),
        ("https://", "name a host"),
        ("https://?x", "name a host"),
        ("https://../x", "host"),
        ("https://exa mple.com/", "name a host"),
        ("https://exa\tmple.com/", "name a host"),
        ("https://example.com:99999/", "not a URL"),
        ("https://256.256.256.256/", "not a URL"),
        ("https://user@example.com/", "user name"),
        ("https://user:pass@example.com/", "user name"),
        ("https://{{host}}/", "literal"),
        ("https://{host}/", "literal"),
        ("https://example.com:{port}/", "literal"),
        ("{{scheme}}://example.com/", "begin with"),
        ("https://example.com\\@evil.example/", "percent-encoded"),
        ("https://example.com/a\\b", "percent-encoded"),
        ("https://example.com/a#b", "fragment"),
        ("https://example.com#b", "fragment"),
        ("https://example.com/a b", "white space"),
        ("https://example.com/a\r\nb", "white space"),
        ("https://example.com/a\u{0}b", "white space"),
        ("https://example.com/a%2", "hexadecimal"),
        ("https://example.com/a%zz", "hexadecimal"),
        ("https://example.com/../b", "segments"),
        ("https://example.com/a/%2E%2e", "segments"),
        ("https://example.com/./b", "segments"),
        ("https://example.com/..;x/b", "segments"),
        ("https://example.com/{}", "name of a parameter"),
        ("https://example.com/{a", "name of a parameter"),
        ("https://example.com/{a/b}", "name of a parameter"),
        ("https://example.com/a}", "percent-encoded"),
        ("https://example.com/{{a}", "name of a variable"),
        ("https://example.com/?{a}", "literal"),
        ("https://example.com/?{a}=1", "literal"),
        ("https://example.com/?x{{a}}=1", "literal"),
        ("https://example.com/?x=1&{{a}}", "literal"),
    ] {
        let problem = UrlTemplate::parse(written).expect_err(written).0;
        assert!(problem.contains(says), "{written}: {problem}");
    }
    assert!(UrlTemplate::parse(&format!("https://a/{}", "x".repeat(2048))).is_err());
}

#[test]
fn methods_are_written_as_in_http() {
    for method in Method::ALL {
        assert_eq!(Method::parse(method.as_str()), Some(method));
    }
    assert_eq!(Method::parse("get"), None);
    assert_eq!(Method::parse("CONNECT"), None);
}

fn lookup(url: &str, schema: &serde_json::Value) -> serde_json::Value {
    json!({"url": url, "parameters": {"x": {"mode": "ai", "schema": schema}}})
}

#[test]
fn values_stay_inside_their_segment_or_member() {
    let string = json!({"type": "string"});
    let any = json!({"type": ["string", "number", "boolean", "null"]});
    for (url, schema, args, expected) in [
        (
            "https://h/a/{x}/b",
            &string,
            r#"{"x":"1/2?3#4%5\\6 é"}"#,
            "https://h/a/1%2F2%3F3%234%255%5C6%20%C3%A9/b",
        ),
        (
            "https://h/a/{x}.json",
            &string,
            r#"{"x":"{{organization}}"}"#,
            "https://h/a/%7B%7Borganization%7D%7D.json",
        ),
        (
            "https://h/{x}",
            &string,
            r#"{"x":"%2e%2e%2f"}"#,
            "https://h/%252e%252e%252f",
        ),
        ("https://h/{x}", &string, r#"{"x":"..."}"#, "https://h/..."),
        (
            "https://h/{x}",
            &string,
            r#"{"x":"\r\nHost: evil"}"#,
            "https://h/%0D%0AHost%3A%20evil",
        ),
        (
            "https://h/@{x}",
            &string,
            r#"{"x":"evil.example:80@"}"#,
            "https://h/@evil.example%3A80%40",
        ),
        (
            "https://h?q={x}&r={x}",
            &string,
            r#"{"x":"a&b=c+d e"}"#,
            "https://h/?q=a%26b%3Dc%2Bd%20e&r=a%26b%3Dc%2Bd%20e",
        ),
        (
            "https://h/{x}",
            &any,
            r#"{"x":9007199254740993}"#,
            "https://h/9007199254740993",
        ),
        ("https://h/{x}", &any, r#"{"x":1.50}"#, "https://h/1.50"),
        ("https://h/{x}", &any, r#"{"x":-1E+2}"#, "https://h/-1E%2B2"),
        ("https://h/{x}", &any, r#"{"x":true}"#, "https://h/true"),
        (
            "https://h/p?q={x}&k=1",
            &any,
            r#"{"x":null}"#,
            "https://h/p?k=1",
        ),
        ("https://h/p?q={x}", &any, r#"{"x":null}"#, "https://h/p"),
        (
            "https://h/p?q={x}",
            &string,
            r#"{"x":""}"#,
            "https://h/p?q=",
        ),
        (
            "https://h/é/{{organization}}?ö={{end_user}}&q={x}",
            &string,
            r#"{"x":"1"}"#,
            "https://h/%C3%A9/acme?%C3%B6=a%2Fb%3Fc%3Dd%26e%23f%2541%5C%20%22g%22%7B%7Borganization%7D%7D&q=1",
        ),
    ] {
        let text = built(&lookup(url, schema), args);
        assert_eq!(text, Ok(format!("GET {expected}")), "{url} {args}");
    }
}

#[test]
fn values_that_would_leave_their_segment_are_refused() {
    let string = json!({"type": "string"});
    for (url, args, says) in [
        (
            "https://h/a/{x}",
            r#"{"x":".."}"#,
            "\"x\" must not be . or ..",
        ),
        ("https://h/a/{x}/b", r#"{"x":"."}"#, "must not be"),
        ("https://h/a/{x}", r#"{"x":"%2e%2E"}"#, "must not be"),
        ("https://h/a/{x}", r#"{"x":".%2e"}"#, "must not be"),
        ("https://h/a/{x}", r#"{"x":"../../admin"}"#, "must not be"),
        ("https://h/a/{x}", r#"{"x":"b\\..\\admin"}"#, "must not be"),
        ("https://h/a/{x}", r#"{"x":"b/..;/admin"}"#, "must not be"),
        ("https://h/a/{x}", r#"{"x":""}"#, "\"x\" must not be empty"),
        ("https://h/a/.{x}", r#"{"x":"."}"#, "must not"),
        ("https://h/a/{x}{x}", r#"{"x":"."}"#, "must not"),
        ("https://h/a/.{x}", r#"{"x":"%2e"}"#, ""),
        (
            "https://h/{{conversation}}/{x}",
            r#"{"x":"a"}"#,
            "\"conversation\" must not be",
        ),
        (
            "https://h/{{tool_call}}/{x}",
            r#"{"x":"a"}"#,
            "\"tool_call\" must not be empty",
        ),
        (
            "https://h/{{now}}/{x}",
            r#"{"x":"a"}"#,
            "\"now\" has no value",
        ),
        (
            "https://h/?n={{now}}&x={x}",
            r#"{"x":"a"}"#,
            "\"now\" has no value",
        ),
    ] {
        let problem = built(&lookup(url, &string), args).expect_err(url);
        assert!(problem.contains(says), "{url} {args}: {problem}");
    }
    let nullable = json!({"type": ["string", "null"]});
    let problem = built(&lookup("https://h/{x}", &nullable), r#"{"x":null}"#).unwrap_err();
    assert!(problem.contains("\"x\" is missing"), "{problem}");
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(9000));
    let problem = built(&lookup("https://h/{x}", &string), &long).unwrap_err();
    assert!(problem.contains("2048"), "{problem}");
}

/// Servers that read brackets take the last one.
#[test]
fn what_stands_in_the_url_cannot_be_given_again_in_another_form() {
    let tool = json!({
        "url": "https://h/p?f%5Brole%5D=user",
        "parameters": {"f": {"mode": "ai", "schema": {"type": "object"}}},
    });
    for (args, expected) in [
        (r#"{"f":{"role":"evil"}}"#, ""),
        (
            r#"{"f":{"role":{"a":"evil"},"name":"n"}}"#,
            "&f%5Bname%5D=n",
        ),
        (r#"{"f":{"roles":"r"}}"#, "&f%5Broles%5D=r"),
    ] {
        let url = built(&tool, args).unwrap();
        assert_eq!(
            url,
            format!("GET https://h/p?f%5Brole%5D=user{expected}"),
            "{args}"
        );
    }
}

#[test]
fn a_query_is_written_from_the_url_the_arguments_and_the_static_members() {
    let tool = json!({
        "url": "https://h/p?v=2&&opt={opt}",
        "query": {"source": "agent {{organization}}", "n": 1.50, "tags": ["a", true], "filter[status]": "open",
                  "key": {"secret": "KEY"}},
        "parameters": {
            "opt": {"mode": "ai", "required": false},
            "q": {"mode": "ai"},
            "source": {"mode": "ai", "required": false},
            "ids": {"mode": "ai", "schema": {"type": "array"}, "required": false},
            "filter": {"mode": "ai", "schema": {"type": "object"}, "required": false},
            "nothing": {"mode": "fixed", "value": null},
        },
    });
    let source = "source=agent%20acme";
    let fixed = "n=1.5&tags=a&tags=true&filter%5Bstatus%5D=open&key=s3cr3t";
    for (args, expected) in [
        (r#"{"q":"x"}"#, format!("v=2&q=x&{source}&{fixed}")),
        (
            r#"{"q":"x","opt":"y","source":"model","ids":[1,"b",null]}"#,
            format!("v=2&opt=y&q=x&{source}&ids=1&ids=b&{fixed}"),
        ),
        (
            r#"{"q":"x","filter":{"status":"all","by":{"a":[1,2]},"in":[{"k":1},[2,3]]}}"#,
            format!(
                "v=2&q=x&filter%5Bby%5D%5Ba%5D=1&filter%5Bby%5D%5Ba%5D=2&filter%5Bin%5D%5B0%5D%5Bk%5D=1&filter%5Bin%5D%5B1%5D=2&filter%5Bin%5D%5B1%5D=3&{source}&{fixed}"
            ),
        ),
        (
            r#"{"q":"x","filter":{"status":{"deep":1}}}"#,
            format!("v=2&q=x&{source}&{fixed}"),
        ),
    ] {
        assert_eq!(
            built(&tool, args),
            Ok(format!("GET https://h/p?{expected}")),
            "{args}"
        );
    }
}
