use super::{BadGrant, SecretGrant, Secrets, SentSecrets, Tenancy};
use crate::secret::Secret;

fn grant(name: &str, value: &str, organizations: &[&str], hosts: &[&str]) -> SecretGrant {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    SecretGrant {
        name: name.to_owned(),
        value: Secret::new(value.to_owned()),
        organizations: owned(organizations),
        hosts: owned(hosts),
    }
}

fn secrets(grants: &[SecretGrant]) -> Secrets {
    Secrets::new(grants.to_vec()).unwrap()
}

fn resolved<'a>(
    secrets: &'a Secrets,
    name: &str,
    organization: &str,
    host: &str,
    tenancy: Tenancy,
) -> Option<&'a str> {
    let found = secrets.resolve(name, organization, host, tenancy);
    found.map(Secret::reveal)
}

#[test]
fn a_secret_goes_where_it_is_granted_and_nowhere_else() {
    let secrets = secrets(&[
        grant(
            "KEY",
            "value-of-key",
            &["acme", "default"],
            &[
                "api.example.com",
                "other.example.com:8443",
                "BÜCHER.example.",
                "10.0.0.7:8080",
                "[fd00::7]",
                "[fd00::8]:9000",
            ],
        ),
        grant("ANYWHERE", "value-of-anywhere", &["default"], &[]),
    ]);
    for tenancy in [Tenancy::Single, Tenancy::Several] {
        for (name, organization, host, is_granted) in [
            ("KEY", "acme", "api.example.com", true),
            ("KEY", "default", "api.example.com", true),
            ("KEY", "acme", "API.example.com", true),
            ("KEY", "acme", "api.example.com.", true),
            ("KEY", "acme", "other.example.com:8443", true),
            ("KEY", "acme", "xn--bcher-kva.example", true),
            ("KEY", "acme", "10.0.0.7:8080", true),
            ("KEY", "acme", "[fd00:0::7]", true),
            ("KEY", "acme", "[fd00::8]:9000", true),
            // Another port.
            ("KEY", "acme", "api.example.com:8443", false),
            ("KEY", "acme", "api.example.com:443", false),
            ("KEY", "acme", "other.example.com", false),
            ("KEY", "acme", "other.example.com:84430", false),
            ("KEY", "acme", "other.example.com:+8443", false),
            ("KEY", "acme", "10.0.0.7", false),
            ("KEY", "acme", "[fd00::7]:9000", false),
            ("KEY", "acme", "[fd00::8]", false),
            // Another host.
            ("KEY", "acme", "evil.example.com", false),
            ("KEY", "acme", "a.api.example.com", false),
            ("KEY", "acme", "api.example.com.evil.example", false),
            ("KEY", "acme", "api.example.com@evil.example", false),
            ("KEY", "acme", "example.com", false),
            ("KEY", "acme", "", false),
            // Somebody else.
            ("KEY", "other", "api.example.com", false),
            ("KEY", "", "api.example.com", false),
            ("KEY", "Acme", "api.example.com", false),
            ("ANYWHERE", "acme", "api.example.com", false),
            // Another name.
            ("key", "acme", "api.example.com", false),
            ("KEY ", "acme", "api.example.com", false),
            ("", "acme", "api.example.com", false),
        ] {
            assert_eq!(
                resolved(&secrets, name, organization, host, tenancy),
                is_granted.then_some("value-of-key"),
                "{name} of {organization} to {host} with {tenancy:?}"
            );
        }
    }
}

#[test]
fn without_hosts_only_the_only_organization_sends_it() {
    let secrets = secrets(&[grant("KEY", "value", &["default"], &[])]);
    for host in ["api.example.com", "other.example.com:8443"] {
        let single = resolved(&secrets, "KEY", "default", host, Tenancy::Single);
        assert_eq!(single, Some("value"));
        let several = resolved(&secrets, "KEY", "default", host, Tenancy::Several);
        assert_eq!(several, None);
    }
}

#[test]
fn nothing_of_the_environment_can_be_named() {
    let granted = secrets(&[grant("MY_KEY", "value-of-mine", &["default"], &[])]);
    for name in [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "PATH",
        "HOME",
        "CARGO_MANIFEST_DIR",
        "TURNWRIGHT_SECRET_MY_KEY",
    ] {
        let found = resolved(&granted, name, "default", "example.com", Tenancy::Single);
        assert_eq!(found, None, "{name}");
    }
    let under_that_name = secrets(&[grant("OPENAI_API_KEY", "theirs", &["default"], &[])]);
    assert_eq!(
        resolved(
            &under_that_name,
            "OPENAI_API_KEY",
            "default",
            "example.com",
            Tenancy::Single
        ),
        Some("theirs")
    );
}

#[test]
fn an_organizations_first_grant_of_a_name_decides() {
    let secrets = secrets(&[
        grant("KEY", "of acme", &["acme"], &["a.example"]),
        grant("KEY", "of both", &["acme", "default"], &[]),
    ]);
    let found = |organization, host| resolved(&secrets, "KEY", organization, host, Tenancy::Single);
    assert_eq!(found("acme", "a.example"), Some("of acme"));
    // The second grant does not widen the first one.
    assert_eq!(found("acme", "b.example"), None);
    assert_eq!(found("default", "b.example"), Some("of both"));
}

#[test]
fn grants_that_cannot_be_meant_are_refused() {
    let refused = |grant: SecretGrant| Secrets::new(vec![grant]).unwrap_err();
    let name = || "KEY".to_owned();
    assert_eq!(
        refused(grant("KEY", "", &["default"], &[])),
        BadGrant::Empty { name: name() }
    );
    assert_eq!(
        refused(grant("KEY", "canary-value", &[], &[])),
        BadGrant::Nobody { name: name() }
    );
    for entry in [
        "",
        "https://api.example.com",
        "api.example.com/v1",
        "*.example.com",
        "user@api.example.com",
        "api.example.com:",
        "api.example.com:0",
        "api.example.com:x",
        "api.example.com:+1",
        "api.example.com:65536",
        "api example.com",
        "fd00::7",
        "[fd00::7",
        "999.1.1.1",
    ] {
        let error = refused(grant(
            "KEY",
            "canary-value",
            &["default"],
            &["ok.example", entry],
        ));
        let expected = BadGrant::BadHost {
            name: name(),
            place: 1,
        };
        assert_eq!(error, expected, "{entry}");
    }
    for entry in ["api.example.com:443", "api.example.com:80"] {
        let error = refused(grant("KEY", "canary-value", &["default"], &[entry]));
        let expected = BadGrant::DefaultPort {
            name: name(),
            place: 0,
        };
        assert_eq!(error, expected, "{entry}");
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}

#[test]
fn values_are_in_no_debug_output() {
    let one = grant("KEY", "canary-value", &["default"], &[]);
    let seen = format!(
        "{one:?} {:?} {:#?}",
        secrets(std::slice::from_ref(&one)),
        one
    );
    assert!(seen.contains("KEY"));
    assert!(!seen.contains("canary"), "{seen}");
}

/// A request that these secrets of [`grant`]s for `acme` without hosts were put into.
fn sent<'a>(secrets: &'a Secrets, names: &[&str]) -> SentSecrets<'a> {
    let mut sent = SentSecrets::default();
    for name in names {
        let value = secrets.send(name, "acme", "a.example", Tenancy::Single, &mut sent);
        assert!(value.is_some(), "{name}");
    }
    sent
}

/// The value is echoed in as many ways as there are common notations.
#[test]
fn a_secret_is_masked_in_every_notation() {
    let value = "s3cr\"t/ü+ \\key";
    let secrets = secrets(&[grant("KEY", value, &["acme"], &["a.example"])]);
    for echo in [
        "s3cr\"t/ü+ \\key",
        r#"s3cr\"t/ü+ \\key"#,
        r#"s3cr\"t\/ü+ \\key"#,
        r#"s3cr\"t/\u00fc+ \\key"#,
        r#"s3cr\\\"t/ü+ \\\\key"#,
        "s3cr%22t%2F%C3%BC%2B%20%5Ckey",
        "s3cr%22t%2f%c3%bc%2b%20%5ckey",
        "s3cr%22t%2F%C3%BC%2B+%5Ckey",
        "s3cr%22t%2f%c3%bc%2b+%5ckey",
        // As Go, .NET, PHP and HTML templates write what could be HTML, and JavaScript a part of a URL.
        r#"s3cr\u0022t/\u00FC\u002B \\key"#,
        r#"s3cr\u0022t\/\u00fc\u002b\u0020\u005Ckey"#,
        r#"s3cr\\u0022t/\\u00fc+ \\\\key"#,
        "s3cr&quot;t/ü+ \\key",
        "s3cr&#34;t&#x2F;&#252;&#43; &#92;key",
        "s3cr%22t/%C3%BC+%20%5Ckey",
    ] {
        let text = format!("before {echo} between {echo}{echo}");
        assert_eq!(
            sent(&secrets, &["KEY"]).masked(text.clone()),
            "before *** between ******",
            "{echo}"
        );
        assert_eq!(sent(&secrets, &[]).masked(text.clone()), text);
    }
}

#[test]
fn whatever_encoders_escape_is_masked() {
    let value = "abc+def/ghi&jkl<mno>='q'x==\u{1f600}";
    let secrets = secrets(&[grant("KEY", value, &["acme"], &[])]);
    let sent = sent(&secrets, &["KEY"]);
    for echo in [
        value,
        r"abc+def/ghi\u0026jkl\u003cmno\u003e='q'x==\ud83d\ude00",
        r"abc\u002Bdef/ghi\u0026jkl\u003Cmno\u003E=\u0027q\u0027x==\uD83D\uDE00",
        r"abc+def\/ghi\u0026jkl\u003Cmno\u003E=\u0027q\u0027x==\ud83d\ude00",
        r"abc\\u002Bdef/ghi\\u0026jkl\\u003Cmno\\u003E=\\u0027q\\u0027x==\\uD83D\\uDE00",
        "abc+def/ghi&amp;jkl&lt;mno&gt;=&#39;q&#39;x==&#x1f600;",
        "abc%2Bdef/ghi%26jkl%3Cmno%3E%3D'q'x%3D%3D%F0%9F%98%80",
    ] {
        assert_eq!(sent.masked(format!("<{echo}>")), "<***>", "{echo}");
        assert!(echo.len() <= sent.look_ahead() + 1, "{echo}");
    }
    // Another text, however like it.
    for other in [
        r"abc+def/ghi\u0027jkl<mno>='q'x==\ud83d\ude00",
        r"abc+def/ghi&jkl<mno>='q'x==\ud83d",
        "abc+def/ghi&amp",
        "abc%2",
        r"abc\u00",
    ] {
        assert_eq!(sent.masked(other.to_owned()), other);
    }
}

#[test]
fn secrets_that_overlap_have_one_mask() {
    let secrets = secrets(&[
        grant("ONE", "12345678", &["acme"], &[]),
        grant("TWO", "5678abcdefgh", &["acme"], &[]),
    ]);
    let sent = sent(&secrets, &["ONE", "TWO"]);
    assert_eq!(sent.masked("x12345678abcdefghx".to_owned()), "x***x");
    assert_eq!(sent.masked("12345678 5678abcdefgh".to_owned()), "*** ***");
}

#[test]
fn what_is_not_granted_is_not_sent() {
    let secrets = secrets(&[grant("KEY", "abcdefgh", &["acme"], &["a.example"])]);
    for (name, organization, host) in [
        ("KEY", "other", "a.example"),
        ("KEY", "acme", "b.example"),
        ("OTHER", "acme", "a.example"),
    ] {
        let mut sent = SentSecrets::default();
        let value = secrets.send(name, organization, host, Tenancy::Several, &mut sent);
        assert!(value.is_none());
        assert_eq!(sent.masked("abcdefgh".to_owned()), "abcdefgh");
        assert_eq!(sent.look_ahead(), 0);
    }
}

#[test]
fn short_values_stay_and_long_ones_go_first() {
    let secrets = secrets(&[
        grant("SHORT", "1234567", &["acme"], &[]),
        // Bytes do not count.
        grant("WIDE", "ääääääü", &["acme"], &[]),
        grant("PART", "abcdefgh", &["acme"], &[]),
        grant("WHOLE", "abcdefgh-ijkl", &["acme"], &[]),
    ]);
    // In whatever order they were put in.
    for names in [
        ["SHORT", "WIDE", "PART", "WHOLE"],
        ["WHOLE", "PART", "WIDE", "SHORT"],
    ] {
        let sent = sent(&secrets, &names);
        let masked = |text: &str| sent.masked(text.to_owned());
        assert_eq!(masked("1234567 ääääääü"), "1234567 ääääääü");
        assert_eq!(masked("abcdefgh"), "***");
        assert_eq!(masked("abcdefgh-ijkl"), "***");
        // Twelve for each character of the longest.
        assert_eq!(sent.look_ahead(), 13 * 12 - 1);
    }
}

#[test]
fn only_a_whole_secret_is_masked_at_a_cut() {
    let secrets = secrets(&[
        grant("KEY", "abcdefghijkl", &["acme"], &[]),
        grant("OVER", "ijkl-mnopqrs", &["acme"], &[]),
        grant("WIDE", "äöüäöüäö", &["acme"], &[]),
    ]);
    let sent = sent(&secrets, &["KEY", "OVER", "WIDE"]);
    for (text, at, expected) in [
        ("x abcdefghijkl", 13, "x ***"),
        ("x abcdefghijkl", 3, "x ***"),
        // It begins at the cut, or ends there.
        ("x abcdefghijkl", 2, "x "),
        ("x abcdefghijkl y", 14, "x abcdefghijkl"),
        // No whole one.
        ("x abcdefghijk", 12, "x abcdefghij"),
        ("x abcdefghij- and more", 12, "x abcdefghij"),
        // One over another.
        ("x abcdefghijkl-mnopqrs", 18, "x ***"),
        ("x äöüäöüäö", 5, "x ***"),
        ("abcdefghijkl", 0, ""),
        ("", 0, ""),
    ] {
        let mut bytes = text.as_bytes().to_vec();
        sent.cut(&mut bytes, at);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            expected,
            "{text} at {at}"
        );
    }
}

#[test]
fn nothing_of_a_secret_is_left_where_a_text_breaks_off() {
    let secrets = secrets(&[grant("KEY", "äbcdefghijkl", &["acme"], &[])]);
    let sent = sent(&secrets, &["KEY"]);
    let whole = format!("{}äbcdefghijkl{}", "é".repeat(60), "ü".repeat(60));
    for (at, _) in whole.char_indices() {
        let text = sent.masked_cut(whole[..at].to_owned());
        assert!(!text.contains("äb"), "{text}");
        assert!(text.len() + sent.look_ahead() + 12 >= at, "{text}");
    }
    assert_eq!(SentSecrets::default().masked_cut("abc".to_owned()), "abc");
}
