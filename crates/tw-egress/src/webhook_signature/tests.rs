use http::{HeaderMap, HeaderName, HeaderValue};
use standardwebhooks::Webhook;
use tw_core::hmac_rule::{
    HmacAlgorithm, HmacRule, MessageTime, SignatureEncoding, SignatureForm, SignedPart, TimePlace,
};
use tw_core::time::Timestamp;

use super::hmac_rule::{self, SignedRequest};
use super::{
    ID_HEADER, SIGNATURE_HEADER, SignatureFault, SignedHeaders, SigningSecret, TIMESTAMP_HEADER,
    is_shared_secret, sign, verify,
};
use crate::env::Env;

/// The example of the standard's own libraries.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const AT_S: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

fn secret(text: &str) -> SigningSecret {
    SigningSecret::parse(text).unwrap()
}

fn headers(of: &[(&str, &str)]) -> HeaderMap {
    let pairs = of.iter().map(|(name, value)| {
        let name: HeaderName = name.parse().unwrap();
        (name, HeaderValue::from_str(value).unwrap())
    });
    pairs.collect()
}

#[test]
fn the_standards_example_is_signed_and_verified() {
    assert_eq!(sign(&[secret(SECRET)], ID, AT_S, BODY), SIGNATURE);
    let at_s = AT_S.to_string();
    let headers = SignedHeaders {
        id: Some(ID),
        timestamp: Some(&at_s),
        signature: Some(SIGNATURE),
    };
    assert_eq!(verify(&[secret(SECRET)], headers, AT_S, BODY), Ok(()));
}

#[test]
fn the_standards_library_takes_ours_and_we_take_its() {
    let env = Env::seeded(7, Timestamp(0));
    let now_s = Env::system().now().seconds();
    let (old, new) = (SigningSecret::random(&env), SigningSecret::random(&env));
    let body = "{\"type\":\"turn.completed\",\"text\":\"\u{1f600}\"}";
    let signature = sign(&[new.clone(), old.clone()], "evt_1", now_s, body.as_bytes());
    let sent = headers(&[
        (ID_HEADER, "evt_1"),
        (TIMESTAMP_HEADER, &now_s.to_string()),
        (SIGNATURE_HEADER, &signature),
    ]);
    for secret in [&old, &new] {
        let theirs = Webhook::new(&secret.reveal()).unwrap();
        theirs.verify(body.as_bytes(), &sent).unwrap();
        let signature = theirs.sign("evt_2", now_s, body.as_bytes()).unwrap();
        let at_s = now_s.to_string();
        let headers = SignedHeaders {
            id: Some("evt_2"),
            timestamp: Some(&at_s),
            signature: Some(&signature),
        };
        let both = [new.clone(), old.clone()];
        assert_eq!(verify(&both, headers, now_s, body.as_bytes()), Ok(()));
    }
    let stranger = Webhook::new(&SigningSecret::random(&env).reveal()).unwrap();
    assert!(stranger.verify(body.as_bytes(), &sent).is_err());
}

#[test]
fn what_is_changed_missing_or_old_does_not_count() {
    let signature = "v1a,AAAA v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE";
    type Row<'a> = (
        Option<&'a str>,
        Option<&'a str>,
        Option<&'a str>,
        i64,
        &'a [u8],
    );
    let (id, at, by) = (Some(ID), Some("1614265330"), Some(signature));
    let rows: [(Row<'_>, Result<(), SignatureFault>); 14] = [
        ((id, at, by, AT_S, BODY), Ok(())),
        ((id, at, by, AT_S + 300, BODY), Ok(())),
        ((id, at, by, AT_S - 300, BODY), Ok(())),
        ((id, at, by, AT_S + 301, BODY), Err(SignatureFault::TooOld)),
        ((id, at, by, AT_S - 301, BODY), Err(SignatureFault::TooNew)),
        ((None, at, by, AT_S, BODY), Err(SignatureFault::Missing)),
        ((id, None, by, AT_S, BODY), Err(SignatureFault::Missing)),
        ((id, at, None, AT_S, BODY), Err(SignatureFault::Missing)),
        (
            (id, Some("soon"), by, AT_S, BODY),
            Err(SignatureFault::Malformed),
        ),
        (
            (id, at, Some(""), AT_S, BODY),
            Err(SignatureFault::Malformed),
        ),
        (
            (id, at, Some("v2,AAAA"), AT_S, BODY),
            Err(SignatureFault::Malformed),
        ),
        (
            (Some("msg_q"), at, by, AT_S, BODY),
            Err(SignatureFault::Wrong),
        ),
        (
            (id, Some("1614265331"), by, AT_S, BODY),
            Err(SignatureFault::Wrong),
        ),
        ((id, at, by, AT_S, b"{}"), Err(SignatureFault::Wrong)),
    ];
    for ((id, timestamp, signature, now_s, body), expected) in rows {
        let headers = SignedHeaders {
            id,
            timestamp,
            signature,
        };
        let verified = verify(&[secret(SECRET)], headers, now_s, body);
        assert_eq!(verified, expected, "{headers:?} {now_s}");
        let nobody = verify(&[], headers, now_s, body);
        assert!(nobody.is_err(), "{headers:?} {now_s}");
    }
}

#[test]
fn a_secret_is_24_to_64_bytes_of_base64_and_is_not_shown() {
    let of_bytes = |bytes: usize| SigningSecret::of_bytes(vec![0xfb; bytes]);
    for (bytes, fits) in [(23, false), (24, true), (25, true), (64, true), (65, false)] {
        let text = of_bytes(bytes).map(|secret| secret.reveal());
        assert_eq!(text.is_some(), fits, "{bytes}");
        for text in text
            .iter()
            .flat_map(|text| [text.as_str(), text.trim_end_matches('=')])
        {
            assert_eq!(SigningSecret::parse(text), of_bytes(bytes), "{text}");
        }
    }
    for text in ["", "whsec_", "whsec_AAAA", "whsec_!!!", &SECRET[6..]] {
        assert_eq!(SigningSecret::parse(text), None, "{text}");
    }
    assert!(!format!("{:?}", secret(SECRET)).contains("MfKQ"));
    assert!(!format!("{:?}", secret(SECRET)).contains("49"));
}

#[test]
fn a_shared_secret_is_one_of_those_there_are() {
    let secrets: [&[u8]; 2] = [b"old secret", b"new secret"];
    for (given, is_one) in [
        (&b"old secret"[..], true),
        (b"new secret", true),
        (b"new secre", false),
        (b"", false),
    ] {
        assert_eq!(is_shared_secret(&secrets, given), is_one);
    }
}

fn whole(header: &str, prefix: &str, signed: Vec<SignedPart>) -> HmacRule {
    HmacRule {
        header: header.to_owned(),
        form: SignatureForm::Whole {
            prefix: prefix.to_owned(),
        },
        algorithm: HmacAlgorithm::Sha256,
        encoding: SignatureEncoding::Hex,
        signed,
        time: None,
    }
}

/// `docs.github.com`, "Validating webhook deliveries": its example.
#[test]
fn githubs_example() {
    let rule = whole("x-hub-signature-256", "sha256=", vec![SignedPart::Body]);
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    fn request(headers: &HeaderMap) -> SignedRequest<'_> {
        SignedRequest {
            headers,
            url: "",
            body: b"Hello, World!",
        }
    }
    let secrets: [&[u8]; 2] = [b"another", b"It's a Secret to Everybody"];
    let sent = headers(&[("X-Hub-Signature-256", signature)]);
    assert_eq!(
        hmac_rule::verify(&rule, &secrets, request(&sent), 0),
        Ok(())
    );
    let wrong = Err(SignatureFault::Wrong);
    assert_eq!(
        hmac_rule::verify(&rule, &secrets[..1], request(&sent), 0),
        wrong
    );
    for value in [&signature[7..], "sha256=7", "sha256=zz", "sha256=", ""] {
        let sent = headers(&[("x-hub-signature-256", value)]);
        let malformed = Err(SignatureFault::Malformed);
        assert_eq!(
            hmac_rule::verify(&rule, &secrets, request(&sent), 0),
            malformed,
            "{value}"
        );
    }
    let twice = headers(&[
        ("x-hub-signature-256", signature),
        ("x-hub-signature-256", signature),
    ]);
    assert_eq!(
        hmac_rule::verify(&rule, &secrets, request(&twice), 0),
        Err(SignatureFault::Malformed)
    );
    let none = Err(SignatureFault::Missing);
    assert_eq!(
        hmac_rule::verify(&rule, &secrets, request(&HeaderMap::new()), 0),
        none
    );
}

/// `docs.stripe.com`, "Verify webhook signatures manually": the header's documented form, `v0` included, which does not
/// count. Stripe publishes no secret with it, so the signature was computed with Python's `hmac`.
#[test]
fn stripes_form() {
    let rule = HmacRule {
        form: SignatureForm::Named {
            name: "v1".to_owned(),
        },
        time: Some(MessageTime {
            place: TimePlace::Element("t".to_owned()),
            tolerance_s: 300,
        }),
        ..whole(
            "stripe-signature",
            "",
            vec![
                SignedPart::Element("t".to_owned()),
                SignedPart::Text(".".to_owned()),
                SignedPart::Body,
            ],
        )
    };
    let good = "654b43d3508ecadb3f8cefc4bc7d3d2bdc5ba9e03bf2c89b2d0657a8e24e4543";
    let other = "5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd";
    let rows = [
        (format!("t=1492774577,v1={good},v0={other}"), 0, Ok(())),
        (format!("t=1492774577,v1={other},v1={good}"), 0, Ok(())),
        (
            format!("t=1492774577,v1={other},v0={good}"),
            0,
            Err(SignatureFault::Wrong),
        ),
        (
            format!("t=1492774577,v0={good}"),
            0,
            Err(SignatureFault::Malformed),
        ),
        (format!("v1={good}"), 0, Err(SignatureFault::Missing)),
        (
            format!("t=1492774577,v1={good}"),
            301,
            Err(SignatureFault::TooOld),
        ),
        (
            format!("t=1492774578,v1={good}"),
            0,
            Err(SignatureFault::Wrong),
        ),
    ];
    for (value, later_s, expected) in rows {
        let sent = headers(&[("Stripe-Signature", &value)]);
        let request = SignedRequest {
            headers: &sent,
            url: "",
            body: br#"{"id":"evt_1","object":"event"}"#,
        };
        let secrets: [&[u8]; 1] = [b"whsec_test_secret"];
        let verified = hmac_rule::verify(&rule, &secrets, request, 1_492_774_577 + later_s);
        assert_eq!(verified, expected, "{value}");
    }
}

/// `twilio/twilio-node`, `examples/WebhookSignatureValidation.md` and the vector of Twilio's security documentation.
#[test]
fn twilios_example() {
    let rule = HmacRule {
        algorithm: HmacAlgorithm::Sha1,
        encoding: SignatureEncoding::Base64,
        ..whole(
            "x-twilio-signature",
            "",
            vec![SignedPart::Url, SignedPart::SortedForm],
        )
    };
    let form = "To=%2B18005551212&From=%2B14158675309&CallSid=CA1234567890ABCDE\
                &Digits=1234&Caller=%2B14158675309&Digits=1234";
    let sha256 = HmacRule {
        algorithm: HmacAlgorithm::Sha256,
        ..rule.clone()
    };
    let json = "https://example.com/hook?bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
    let by_url = HmacRule {
        signed: vec![SignedPart::Url],
        ..rule.clone()
    };
    let rows = [
        (
            &rule,
            "https://mycompany.com/myapp.php?foo=1&bar=2",
            form,
            "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
        ),
        (
            &rule,
            "https://example.com/webhook",
            form,
            "cfJqzGVdE9ybH+ZMXcwNWa+2c7w=",
        ),
        (
            &sha256,
            "https://example.com/webhook",
            form,
            "gGGkpJhf4BIfKOIZ85t3us0im9bt+YGoC2GKDm0ZZWs=",
        ),
        (
            &by_url,
            json,
            r#"{"property": "value", "boolean": true}"#,
            "8zP4BSOTLR1x1Op1u6j899rpPJU=",
        ),
    ];
    for (rule, url, body, signature) in rows {
        let sent = headers(&[("X-Twilio-Signature", signature)]);
        let request = SignedRequest {
            headers: &sent,
            url,
            body: body.as_bytes(),
        };
        let secrets: [&[u8]; 1] = [b"12345"];
        assert_eq!(
            hmac_rule::verify(rule, &secrets, request, 0),
            Ok(()),
            "{url}"
        );
        let elsewhere = SignedRequest {
            url: "https://example.org/",
            ..request
        };
        let wrong = Err(SignatureFault::Wrong);
        assert_eq!(
            hmac_rule::verify(rule, &secrets, elsewhere, 0),
            wrong,
            "{url}"
        );
    }
}

/// A sender whose headers are those of the standard and whose secret is not.
#[test]
fn a_time_in_a_header_of_its_own() {
    let rule = HmacRule {
        time: Some(MessageTime {
            place: TimePlace::Header("webhook-timestamp".to_owned()),
            tolerance_s: 60,
        }),
        encoding: SignatureEncoding::Base64,
        ..whole(
            "webhook-signature",
            "v1,",
            vec![
                SignedPart::Header("webhook-id".to_owned()),
                SignedPart::Text(".".to_owned()),
                SignedPart::Header("webhook-timestamp".to_owned()),
                SignedPart::Text(".".to_owned()),
                SignedPart::Body,
            ],
        )
    };
    let sent = headers(&[
        (ID_HEADER, ID),
        (TIMESTAMP_HEADER, "1614265330"),
        (SIGNATURE_HEADER, SIGNATURE),
    ]);
    let request = SignedRequest {
        headers: &sent,
        url: "",
        body: BODY,
    };
    let secret = secret(SECRET);
    let secrets = [secret.reveal_bytes()];
    assert_eq!(hmac_rule::verify(&rule, &secrets, request, AT_S), Ok(()));
    assert_eq!(
        hmac_rule::verify(&rule, &secrets, request, AT_S + 61),
        Err(SignatureFault::TooOld)
    );
}

/// kie.ai signs a value of the body and the time, and nothing else of what it says.
#[test]
fn a_value_of_the_body_is_signed() {
    const SIGNATURE: &str = "LnPznEgb/tn9ITJQG9XeKp61trz55beBAwKig+mN+uo=";
    let path = |text: &str| serde_json_path::JsonPath::parse(text).unwrap();
    let rule = HmacRule {
        encoding: SignatureEncoding::Base64,
        ..whole(
            "x-webhook-signature",
            "",
            vec![
                SignedPart::BodyValue(path("$.data.taskId")),
                SignedPart::Text(".".to_owned()),
                SignedPart::Header("x-webhook-timestamp".to_owned()),
            ],
        )
    };
    for (body, expected) in [
        (
            r#"{"data":{"taskId":"task_12345678","state":"success"}}"#,
            Ok(()),
        ),
        (
            r#"{"data":{"taskId":"task_12345678","state":"fail"}}"#,
            Ok(()),
        ),
        (
            r#"{"data":{"taskId":"task_12345679"}}"#,
            Err(SignatureFault::Wrong),
        ),
        (r#"{"data":{"taskId":null}}"#, Err(SignatureFault::Missing)),
        (r#"{"data":{}}"#, Err(SignatureFault::Missing)),
        ("task_12345678", Err(SignatureFault::Missing)),
    ] {
        let sent = headers(&[
            ("x-webhook-signature", SIGNATURE),
            ("x-webhook-timestamp", "1755599644"),
        ]);
        let request = SignedRequest {
            headers: &sent,
            url: "https://ai.example/hooks/draw/t",
            body: body.as_bytes(),
        };
        let verified = hmac_rule::verify(&rule, &[b"kie_test_key"], request, 1_755_599_644);
        assert_eq!(verified, expected, "{body}");
    }
}
