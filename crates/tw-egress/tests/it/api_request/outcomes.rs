//! What an answer, or none, comes to, by what the listener does and by the tool's effect.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Builder;
use tw_core::tool::{EffectClass, ToolOutcome, ToolOutput};
use tw_egress::client::ClientOptions;

use super::played::{Act, Player};
use super::{Lab, allowed, bare, shorten, told};
use crate::client::{Trap, options};

const CLOSED_EARLY: &str = "reset: the tool closed the connection before its answer was complete";
const FOR_EVER: &str = "It will fail again with the same arguments.";
const LATER: &str = "It may work later.";
const NO_EFFECT: &str = "By this answer, the call took no effect.";

const TOO_LARGE: &str = "reset: the tool's answer has too large headers";
const HINT: &str = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The bytes of a gzip stream are never looked at.
const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0";

fn with_type(content_type: &str, body: impl AsRef<[u8]>) -> Act {
    Act::answer("200 OK", &format!("content-type: {content_type}\r\n"), body)
}

fn long_hint(bytes: usize) -> String {
    format!(
        "HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n",
        "x".repeat(bytes)
    )
}

/// What the listener does, more of the definition, and what it comes to for any effect.
fn rows() -> Vec<(&'static str, Act, &'static str, &'static str)> {
    let early = CLOSED_EARLY;
    vec![
        (
            "json",
            Act::json(r#"{"a":1}"#),
            "",
            r#"answered "{\"a\":1}""#,
        ),
        (
            "selected",
            Act::json(r#"{"data":{"id":12.50},"rest":true}"#),
            r#","response":{"select":"$.data.id"}"#,
            r#"answered "{\"data\":{\"id\":12.50},\"rest\":true}" shown 12.50"#,
        ),
        (
            "nothing to select from",
            Act::answer("200 OK", "content-type: text/plain\r\n", "no json"),
            r#","response":{"select":"$.data.id"}"#,
            "answered \"no json\" shown The call succeeded. Its answer cannot be shown: it is not JSON, or too large to \
             select from.",
        ),
        ("reset before it is read", Act::ResetUnread, "", early),
        ("reset after it was read", Act::Reset, "", early),
        ("close without an answer", Act::Close, "", early),
        (
            "an answer that breaks off",
            Act::SayAndClose(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()),
            "",
            early,
        ),
        (
            "a chunk that breaks off",
            Act::SayAndClose(
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe".to_vec(),
            ),
            "",
            early,
        ),
        (
            "not HTTP",
            Act::say("SSH-2.0-OpenSSH_9.9\r\n"),
            "",
            "reset: the tool's answer is not HTTP",
        ),
        (
            "too many headers",
            Act::say(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(200))),
            "",
            "reset: the tool's answer has too large headers",
        ),
        (
            "50 MB",
            Act::Megabytes("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n", 50),
            "",
            "answered 1048576 bytes cut",
        ),
        (
            "a character cut in the middle",
            with_type("text/plain", "aé"),
            r#","response":{"kept_bytes_max":2}"#,
            r#"answered "a" cut"#,
        ),
        (
            "invalid UTF-8",
            with_type("text/plain", b"\xff\xfeok"),
            "",
            r#"answered 4 bytes of "text/plain""#,
        ),
        (
            "a wrong type",
            with_type("image/png", "png"),
            "",
            r#"answered 3 bytes of "image/png""#,
        ),
        (
            "a type that the tool does not take",
            with_type("text/html", "<p>"),
            r#","response":{"content_types":["application/json"]}"#,
            r#"answered 3 bytes of "text/html""#,
        ),
        (
            "a type with parameters",
            with_type("Application/Problem+JSON; charset=utf-8", "{}"),
            "",
            r#"answered "{}""#,
        ),
        (
            "no type",
            Act::answer("200 OK", "", "plain"),
            "",
            r#"answered "plain""#,
        ),
        (
            "an endless type",
            with_type(&"x".repeat(10_000), "plain"),
            "",
            concat!(
                "answered 5 bytes of \"",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                "\"",
            ),
        ),
        (
            "a gzip bomb",
            Act::answer(
                "200 OK",
                "content-type: application/json\r\ncontent-encoding: gzip\r\n",
                GZIP,
            ),
            "",
            r#"answered 20 bytes of "application/json""#,
        ),
        (
            "one of two encodings",
            Act::answer(
                "200 OK",
                "content-type: text/plain\r\ncontent-encoding: identity\r\n\
                 content-encoding: br\r\n",
                "text",
            ),
            "",
            r#"answered 4 bytes of "text/plain""#,
        ),
        (
            "an empty body",
            Act::answer("200 OK", "", ""),
            "",
            r#"answered """#,
        ),
        (
            "an empty picture",
            with_type("image/png", ""),
            "",
            r#"answered """#,
        ),
        (
            "204",
            Act::say("HTTP/1.1 204 No Content\r\n\r\n"),
            "",
            r#"answered """#,
        ),
        (
            "chunks and trailers",
            Act::say(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\
                 trailer: x-sum\r\n\r\n3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\nx-sum: 5\r\n\r\n",
            ),
            "",
            r#"answered "abcde""#,
        ),
        (
            "early hints",
            Act::say(
                "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n\
                 HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            ),
            "",
            r#"answered "ok""#,
        ),
        (
            "as many early hints as are taken",
            Act::say(format!("{}{OK}", HINT.repeat(8))),
            "",
            r#"answered "ok""#,
        ),
        (
            "one too many",
            Act::say(format!("{}{OK}", HINT.repeat(9))),
            "",
            TOO_LARGE,
        ),
        (
            "few early hints that are long",
            Act::say(format!("{}{OK}", long_hint(20_000).repeat(3))),
            "",
            r#"answered "ok""#,
        ),
        (
            "too long ones",
            Act::say(format!("{}{OK}", long_hint(60_000).repeat(8))),
            "",
            TOO_LARGE,
        ),
        (
            "early hints for ever",
            Act::Flood("", "HTTP/1.1 103 E\r\na:b\r\n\r\n"),
            "",
            TOO_LARGE,
        ),
        (
            "an error that is an answer here",
            Act::answer("404 Not Found", "", "no such customer"),
            r#","response":{"statuses":["2xx",404]}"#,
            r#"answered "no such customer""#,
        ),
    ]
}

#[tokio::test]
async fn what_the_listener_does_is_what_the_call_comes_to() {
    let mut names = BTreeSet::new();
    for (name, act, more, expected) in rows() {
        assert!(names.insert(name), "{name} twice");
        for effect in EffectClass::ALL {
            let player = Player::start([act.clone()]).await;
            let lab = Lab::reaching(&player.address.to_string());
            let outcome = lab.run(&bare("POST", &player.url("/"), effect, more)).await;
            assert_eq!(told(&outcome), expected, "{name}, {effect:?}");
            assert!(player.heard().len() <= 1, "{name} was sent again");
        }
    }
}

/// The charset that the type names, the body, and the text that the model is shown; `None` for a description.
#[tokio::test]
async fn a_text_is_read_by_the_charset_that_it_names() {
    for (charset, body, text) in [
        ("; charset=utf-8", &b"a\xc3\xa9"[..], Some("a\u{e9}")),
        ("; charset=UTF8", b"ok", Some("ok")),
        ("; Charset = \"Utf-8\" ; x=y", b"ok", Some("ok")),
        ("; charset=utf-8", b"\xef\xbb\xbfok", Some("ok")),
        ("; charset=utf-8", b"a\xe9", None),
        ("; charset=us-ascii", b"a\xc3\xa9", Some("a\u{e9}")),
        ("; charset=", b"ok", Some("ok")),
        ("; charset=iso-8859-1", b"caf\xe9", Some("caf\u{e9}")),
        ("; charset=ISO-8859-15", b"5 \xa4", Some("5 \u{20ac}")),
        (
            "; charset=latin1",
            b"\x93ok\x94",
            Some("\u{201c}ok\u{201d}"),
        ),
        ("; charset=windows-1252", b"\x80", Some("\u{20ac}")),
        ("; charset=cp1252", b"\x80", Some("\u{20ac}")),
        (
            "; charset=windows-1251",
            b"\xcf\xf0\xe8\xe2\xe5\xf2",
            Some("\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
        ),
        ("; charset=koi8-r", b"\xd0", Some("\u{43f}")),
        // These bytes are an e with an accent in UTF-8.
        ("; charset=iso-8859-1", b"a\xc3\xa9", Some("a\u{c3}\u{a9}")),
        (
            "; charset=GBK",
            b"\xc4\xe3\xba\xc3",
            Some("\u{4f60}\u{597d}"),
        ),
        ("; charset=gb2312", b"\xc4\xe3", Some("\u{4f60}")),
        ("; charset=gb18030", b"\x81\x30\x81\x30", Some("\u{80}")),
        ("; charset=big5", b"\xa7\x41", Some("\u{4f60}")),
        (
            "; charset=shift_jis",
            b"\x93\xfa\x96\x7b",
            Some("\u{65e5}\u{672c}"),
        ),
        ("; charset=windows-31j", b"\x87\x40", Some("\u{2460}")),
        ("; charset=euc-jp", b"\xc6\xfc", Some("\u{65e5}")),
        (
            "; charset=iso-2022-jp",
            b"\x1b$B\x46\x7c\x1b(B",
            Some("\u{65e5}"),
        ),
        ("; charset=euc-kr", b"\xb0\xa1", Some("\u{ac00}")),
        ("; charset=utf-16", b"o\0k\0", Some("ok")),
        ("; charset=utf-16", b"\xfe\xff\0o\0k", Some("ok")),
        ("; charset=UTF-16LE", b"o\0k\0", Some("ok")),
        ("; charset=utf-16be", b"\0o\0k", Some("ok")),
        // No text in that charset.
        ("; charset=shift_jis", b"\x93", None),
        ("; charset=gbk", b"\xff", None),
        ("; charset=utf-16le", b"\0\xd8", None),
        // The web reads none of these.
        ("; charset=utf-7", b"+AGsAZQB5-", None),
        ("; charset=utf-7", b"ok", None),
        ("; charset=utf-32", b"ok", None),
        ("; charset=ebcdic", b"ok", None),
        ("; charset=iso-2022-kr", b"ok", None),
        // Whichever of them holds.
        ("; charset=utf-8; charset=utf-7", b"ok", None),
        ("; charset=utf-7; charset=utf-8", b"ok", None),
        ("; charset=utf-8; charset=latin1", b"ok", None),
        ("; charset=latin1; charset=cp1252", b"ok", Some("ok")),
        (
            "; charset=utf-8\r\ncontent-type: text/plain; charset=utf-7",
            b"ok",
            None,
        ),
        ("; x=\"a;b\"; charset=utf-7", b"ok", None),
        // A header that is no text is read all the same.
        ("; x=\u{e9}; charset=utf-7", b"ok", None),
        // Nothing is nothing.
        ("; charset=utf-7", b"", Some("")),
    ] {
        let player = Player::start([with_type(&format!("text/plain{charset}"), body)]).await;
        let lab = Lab::reaching(&player.address.to_string());
        let tool = bare("GET", &player.url("/"), EffectClass::Read, "");
        let outcome = lab.run(&tool).await;
        let seen = told(&outcome);
        match (&outcome, text) {
            (ToolOutcome::Answered(ToolOutput::Text { text: read, .. }), Some(text)) => {
                assert_eq!(read, text, "{charset}, {body:?}");
            }
            (ToolOutcome::Answered(ToolOutput::Opaque { .. }), None) => {}
            _ => panic!("{charset}, {body:?}: {seen}"),
        }
    }
}

/// One that has too much to say is heard no further, whoever has the time.
#[tokio::test]
async fn a_flood_of_hints_ends_by_its_size() {
    let hints = Act::Flood("", "HTTP/1.1 103 E\r\na:b\r\n\r\n");
    let player = Player::start([hints]).await;
    let lab = Lab::reaching(&player.address.to_string());
    let tool = bare("GET", &player.url("/"), EffectClass::Read, "");
    assert_eq!(told(&lab.run(&tool).await), TOO_LARGE);
}

/// Some times what is read between two turns of the others.
const FLOOD_READ_BYTES_MAX: u64 = 1024 * 1024;
/// Fits into what systems keep for a connection.
const FLOOD_LYING_BYTES: usize = 128 * 1024;

/// The timeout gets its due although there is always something to read.
///
/// Somebody else on the same thread moves the time; a flood that the time does not stop ends as an answer that was cut.
#[tokio::test(start_paused = true)]
async fn a_flood_does_not_outlast_the_timeout() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    // While this runs, the time is not moved by anybody else.
    let (end, ended) = mpsc::sync_channel::<()>(0);
    let still = tokio::task::spawn_blocking(move || ended.recv());
    // The flood comes from elsewhere, so that there is always more of it.
    let elsewhere = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let player = elsewhere.spawn(Player::start([Act::Flood(CHUNKED, "1\r\nx\r\n")]));
    let player = player.await.unwrap();
    let lab = Lab::new(
        ClientOptions {
            allowed: vec![allowed(&player.address.to_string())],
            read_bytes_max: FLOOD_READ_BYTES_MAX,
            ..options()
        },
        Vec::new(),
    );
    let tool = bare("GET", &player.url("/"), EffectClass::Read, "");
    let other = tokio::spawn(async move {
        player.has_heard().await;
        // Nobody reads meanwhile.
        player.wait_for_flood(FLOOD_LYING_BYTES);
        for _ in 0..2 {
            // The reader's turn: from now on there is always something to read.
            tokio::task::yield_now().await;
        }
        tokio::time::advance(Duration::from_secs(5)).await;
    });
    assert_eq!(told(&lab.run(&tool).await), "timeout");
    other.await.unwrap();
    drop(end);
    let _ = still.await.unwrap();
    elsewhere.shutdown_background();
}

#[tokio::test]
async fn a_refused_connection_has_sent_nothing() {
    for effect in EffectClass::ALL {
        let address = Trap::new().address();
        let lab = Lab::reaching(&address.to_string());
        let outcome = lab
            .run(&bare("POST", &format!("http://{address}/"), effect, ""))
            .await;
        assert_eq!(
            told(&outcome),
            "not_sent: the tool cannot be reached: it takes no connection"
        );
    }
}

/// Each of these would take for ever.
#[tokio::test]
async fn the_tools_own_timeout_ends_whatever_goes_on() {
    for act in [
        Act::Hang,
        Act::Drip("HTTP/1.1 200 OK\r\nx-slow: "),
        Act::Drip("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"),
        Act::Drip("HTTP/1.1 200 OK\r\n\r\n"),
        Act::Drip("HTTP/1.1 500 Oh\r\n\r\n"),
    ] {
        for effect in EffectClass::ALL {
            let player = Player::start([act.clone()]).await;
            let lab = Lab::reaching(&player.address.to_string());
            let mut tool = bare("POST", &player.url("/"), effect, "");
            shorten(&mut tool);
            assert_eq!(lab.run(&tool).await, ToolOutcome::TimedOut);
            assert_eq!(player.heard().len(), 1);
        }
    }
}

/// What is said of an answer by its status: to `read`, to `idempotent`, and to the others.
#[derive(Clone, Copy)]
struct Said {
    word: &'static str,
    read: &'static str,
    idempotent: &'static str,
    others: &'static str,
}

const REFUSED: Said = Said {
    word: "refused",
    read: "It will fail again with the same arguments.",
    idempotent: "It will fail again with the same arguments. By this answer, the call took no effect.",
    others: "It will fail again with the same arguments. By this answer, the call took no effect.",
};
const NOT_NOW: Said = Said {
    word: "unavailable",
    read: "It may work later.",
    idempotent: "It may work later. By this answer, the call took no effect.",
    others: "It may work later. By this answer, the call took no effect.",
};
const BROKEN: Said = Said {
    word: "unclear",
    read: "It may work later.",
    idempotent: "It may work later. The call may have taken effect all the same. Made again with the same \
                 arguments before the request is answered, it takes no second effect.",
    others: "The call may have taken effect all the same. It must not simply be repeated.",
};
const GATEWAY: Said = Said {
    word: "gateway",
    others: "It is not known whether this call took effect. It must not simply be repeated.",
    ..BROKEN
};
const REDIRECT: Said = Said {
    read: "It will fail again with the same arguments.",
    idempotent: "The call may have taken effect all the same. Made again with the same arguments before the \
                 request is answered, it takes no second effect.",
    ..BROKEN
};

#[tokio::test]
async fn a_status_tells_whether_trying_again_helps_and_whether_the_call_may_have_acted() {
    for (status, said) in [
        ("400 Bad Request", REFUSED),
        ("401 Unauthorized", REFUSED),
        ("403 Forbidden", REFUSED),
        ("404 Not Found", REFUSED),
        ("408 Request Timeout", GATEWAY),
        ("409 Conflict", REFUSED),
        ("410 Gone", REFUSED),
        ("413 Payload Too Large", REFUSED),
        ("422 Unprocessable Entity", REFUSED),
        ("425 Too Early", NOT_NOW),
        ("429 Too Many Requests", NOT_NOW),
        ("499", REFUSED),
        ("500 Internal Server Error", BROKEN),
        ("501 Not Implemented", BROKEN),
        ("502 Bad Gateway", GATEWAY),
        ("503 Service Unavailable", GATEWAY),
        ("504 Gateway Timeout", GATEWAY),
        ("505 HTTP Version Not Supported", BROKEN),
        ("519", BROKEN),
        ("520", GATEWAY),
        ("521", GATEWAY),
        ("522", GATEWAY),
        ("523", GATEWAY),
        ("524", GATEWAY),
        ("525", BROKEN),
        ("599", BROKEN),
        ("301 Moved Permanently", REDIRECT),
        ("302 Found", REDIRECT),
        ("303 See Other", REDIRECT),
        ("307 Temporary Redirect", REDIRECT),
        ("308 Permanent Redirect", REDIRECT),
    ] {
        for effect in EffectClass::ALL {
            let hint = match effect {
                EffectClass::Read => said.read,
                EffectClass::Idempotent => said.idempotent,
                EffectClass::Queryable | EffectClass::Once => said.others,
            };
            let (redirect, why) = if status.starts_with('3') {
                ("redirect_not_followed: ", "")
            } else {
                ("", " It said: why")
            };
            // The server's own words for a status are not repeated.
            let line = format!("{} Secret words", &status[..3]);
            let player = Player::start([Act::answer(&line, "", "why\n")]).await;
            let lab = Lab::reaching(&player.address.to_string());
            let outcome = lab.run(&bare("POST", &player.url("/"), effect, "")).await;
            assert_eq!(
                told(&outcome),
                format!(
                    "{}: {redirect}the tool answered with status {status}. {hint}{why}",
                    said.word
                ),
                "{effect:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_error_says_at_most_2_kib() {
    for (act, ends) in [
        (
            Act::answer("400 X", "", "é".repeat(5000)),
            "é …[cut: the result is longer]",
        ),
        (Act::answer("400 X", "", ""), NO_EFFECT),
        (Act::answer("400 X", "", " \n"), NO_EFFECT),
        (Act::answer("400 X", "", b"\xff"), NO_EFFECT),
        (
            Act::answer("400 X", "content-type: image/png\r\n", "png"),
            NO_EFFECT,
        ),
        (
            Act::answer("400 X", "content-encoding: gzip\r\n", GZIP),
            NO_EFFECT,
        ),
        (Act::answer("400 X", "", "a\0b"), "It said: a\u{fffd}b"),
    ] {
        let player = Player::start([act]).await;
        let lab = Lab::reaching(&player.address.to_string());
        let outcome = lab
            .run(&bare("POST", &player.url("/"), EffectClass::Once, ""))
            .await;
        let ToolOutcome::Refused { message } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(message.ends_with(ends), "{message}");
        assert!(message.len() < 2048 + 200, "{}", message.len());
    }
}

#[tokio::test]
async fn a_server_may_say_when_to_come_back() {
    for (header, wait) in [
        ("retry-after: 7\r\n", " for 7s"),
        ("Retry-After: 0.5\r\n", " for 500ms"),
        ("retry-after: -1\r\n", ""),
        ("retry-after: soon\r\n", ""),
        // A date counts from that of the answer; the three ways to write one (RFC 9110, 5.6.7).
        (
            "date: Fri, 31 Dec 1999 23:59:30 GMT\r\n\
             retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n",
            " for 29s",
        ),
        (
            "date: Fri, 31 Dec 1999 23:59:30 GMT\r\n\
             retry-after: Friday, 31-Dec-99 23:59:59 GMT\r\n",
            " for 29s",
        ),
        (
            "date: Fri, 31 Dec 1999 23:59:30 GMT\r\n\
             retry-after: Fri Dec 31 23:59:59 1999\r\n",
            " for 29s",
        ),
        // In the past, by the answer's clock or by ours.
        (
            "date: Sat, 01 Jan 2000 00:00:00 GMT\r\n\
             retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n",
            "",
        ),
        ("retry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n", ""),
        (
            "date: soon\r\nretry-after: Fri, 31 Dec 1999 23:59:59 GMT\r\n",
            "",
        ),
        ("retry-after: 1e400\r\n", ""),
        ("", ""),
    ] {
        let player = Player::start([Act::answer("429 X", header, "")]).await;
        let lab = Lab::reaching(&player.address.to_string());
        let outcome = lab
            .run(&bare("GET", &player.url("/"), EffectClass::Read, ""))
            .await;
        assert_eq!(
            told(&outcome),
            format!(
                "unavailable{wait}: the tool answered with status 429 Too Many Requests. {LATER}"
            ),
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_not_told() {
    let trap = Trap::new();
    for (status, words) in [
        (300, "Multiple Choices"),
        (301, "Moved Permanently"),
        (302, "Found"),
        (303, "See Other"),
        (307, "Temporary Redirect"),
        (308, "Permanent Redirect"),
    ] {
        for location in [
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            "//169.254.169.254/".to_owned(),
            format!("http://{}/", trap.address()),
        ] {
            let headers = format!("location: {location}\r\n");
            let act = Act::answer(&format!("{status} X"), &headers, format!("see {location}"));
            let player = Player::start([act]).await;
            let options = ClientOptions {
                allowed: vec![
                    allowed(&player.address.to_string()),
                    allowed(&trap.address().to_string()),
                ],
                ..options()
            };
            let lab = Lab::new(options, Vec::new());
            let outcome = lab
                .run(&bare("GET", &player.url("/"), EffectClass::Read, ""))
                .await;
            assert_eq!(
                told(&outcome),
                format!(
                    "unclear: redirect_not_followed: the tool answered with status {status} \
                     {words}. {FOR_EVER}"
                )
            );
            assert_eq!(player.heard().len(), 1);
        }
    }
    trap.assert_untouched();
}

#[tokio::test]
async fn a_body_after_head_is_no_answer_to_anything() {
    let player = Player::start([
        Act::say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        Act::answer("200 OK", "", "second"),
    ])
    .await;
    let lab = Lab::reaching(&player.address.to_string());
    let tool = bare("HEAD", &player.url("/"), EffectClass::Read, "");
    assert_eq!(told(&lab.run(&tool).await), r#"answered """#);
    let tool = bare("GET", &player.url("/"), EffectClass::Read, "");
    assert_eq!(told(&lab.run(&tool).await), r#"answered "second""#);
    assert_eq!(player.connections(), 2);
}

/// The answer comes, says nothing of closing, and the connection is closed behind it.
#[tokio::test]
async fn a_tool_that_closes_behind_its_answer_makes_no_outcome_unknown() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec();
    let player = Player::start([Act::SayAndClose(answer)]).await;
    let lab = Lab::reaching(&player.address.to_string());
    for effect in [EffectClass::Once, EffectClass::Queryable] {
        let tool = bare("POST", &player.url("/"), effect, "");
        for n in 0..200 {
            assert_eq!(told(&lab.run(&tool).await), r#"answered "ok""#, "{n}");
        }
    }
    assert_eq!(player.heard().len(), 400);
}
