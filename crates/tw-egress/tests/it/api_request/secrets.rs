//! A secret goes out to where it is granted, and comes back in nothing.

use tw_core::tool::{EffectClass, Tool, ToolOutcome, ToolOutput};
use tw_egress::client::ClientOptions;
use tw_egress::secrets::{SecretGrant, Tenancy};

use super::played::{Act, Player};
use super::{Lab, allowed, bare, grant, told};
use crate::client::options;

const CANARY: &str = "canary-7f3a9b";
const NOT_GRANTED: &str =
    "not_allowed: a secret that the tool needs may not be sent to its address";
const WITH_KEY: &str = r#","headers":{"x-key":{"secret":"KEY"}}"#;

fn lab(player: &Player, grants: Vec<SecretGrant>) -> Lab {
    let options = ClientOptions {
        allowed: vec![allowed(&player.address.to_string())],
        ..options()
    };
    Lab::new(options, grants)
}

fn keyed(player: &Player) -> Tool {
    bare("POST", &player.url("/"), EffectClass::Once, WITH_KEY)
}

#[tokio::test]
async fn what_is_not_granted_is_not_sent() {
    let player = Player::start([Act::answer("200 OK", "", "")]).await;
    let here = player.address.to_string();
    let other_port = "127.0.0.1:1".to_owned();
    let sent = r#"answered """#;
    for (name, owner, hosts, tenancy, expected) in [
        ("KEY", "acme", vec![&*here], Tenancy::Several, sent),
        ("KEY", "acme", vec![&*here], Tenancy::Single, sent),
        ("KEY", "acme", vec![], Tenancy::Single, sent),
        ("KEY", "acme", vec![], Tenancy::Several, NOT_GRANTED),
        ("OTHER", "acme", vec![&*here], Tenancy::Single, NOT_GRANTED),
        ("KEY", "other", vec![&*here], Tenancy::Single, NOT_GRANTED),
        // For port 80, or for another port, or for another host.
        (
            "KEY",
            "acme",
            vec!["127.0.0.1"],
            Tenancy::Single,
            NOT_GRANTED,
        ),
        (
            "KEY",
            "acme",
            vec![&*other_port],
            Tenancy::Single,
            NOT_GRANTED,
        ),
        (
            "KEY",
            "acme",
            vec!["a.example"],
            Tenancy::Single,
            NOT_GRANTED,
        ),
    ] {
        let granted = SecretGrant {
            organizations: vec![owner.to_owned()],
            ..grant(name, CANARY, &hosts)
        };
        let mut lab = lab(&player, vec![granted]);
        lab.attempt.tenancy = tenancy;
        let before = player.heard().len();
        let outcome = lab.run(&keyed(&player)).await;
        assert_eq!(
            told(&outcome),
            expected,
            "{name} {owner} {hosts:?} {tenancy:?}"
        );
        let was_sent = player.heard().len() > before;
        assert_eq!(was_sent, expected == sent);
    }
    for heard in player.heard() {
        assert!(heard.contains("x-key: canary-7f3a9b\r\n"), "{heard}");
    }
}

#[tokio::test]
async fn the_environment_is_no_secret() {
    let player = Player::start([Act::answer("200 OK", "", "")]).await;
    let here = player.address.to_string();
    let lab = lab(&player, vec![grant("KEY", CANARY, &[&here])]);
    for name in ["OPENAI_API_KEY", "PATH", "HOME"] {
        let more = format!(r#","headers":{{"x-key":{{"secret":"{name}"}}}}"#);
        let tool = bare("POST", &player.url("/"), EffectClass::Once, &more);
        assert_eq!(told(&lab.run(&tool).await), NOT_GRANTED);
    }
    assert_eq!(player.connections(), 0);
}

/// Everything that an echo can be part of.
#[tokio::test]
async fn an_echo_comes_back_masked() {
    let text = "content-type: text/plain\r\n";
    let pad = "p".repeat(50);
    let error = format!("bad key {CANARY}, {}{CANARY}", "x".repeat(2018));
    for (act, more, expected) in [
        (
            Act::answer("200 OK", text, format!("you sent {CANARY}.")),
            "",
            r#"answered "you sent ***.""#.to_owned(),
        ),
        (
            Act::json(&format!(r#"{{"a":{{"b":"{CANARY}"}},"c":1}}"#)),
            r#","response":{"select":"$.a"}"#,
            r#"answered "{\"a\":{\"b\":\"***\"},\"c\":1}" shown {"b":"***"}"#.to_owned(),
        ),
        // Cut in the middle of the value.
        (
            Act::answer("200 OK", text, format!("{pad}{CANARY}")),
            r#","response":{"kept_bytes_max":60}"#,
            format!("answered {:?} cut", format!("{pad}***")),
        ),
        (
            Act::answer(
                "200 OK",
                &format!("content-type: image/{CANARY}\r\n"),
                "png",
            ),
            "",
            r#"answered 3 bytes of "image/***""#.to_owned(),
        ),
        (
            Act::answer("400 Bad", text, format!("bad key {CANARY}")),
            "",
            "refused: the tool answered with status 400 Bad Request. It will fail again with \
             the same arguments. By this answer, the call took no effect. It said: bad key ***"
                .to_owned(),
        ),
        (
            Act::answer(&format!("401 {CANARY}"), text, ""),
            "",
            "refused: the tool answered with status 401 Unauthorized. It will fail again with \
             the same arguments. By this answer, the call took no effect."
                .to_owned(),
        ),
        // Masked before it is cut: no part of it is left at the end.
        (
            Act::answer("503 Oh", text, error),
            "",
            format!(
                "gateway: the tool answered with status 503 Service Unavailable. It is not known \
                 whether this call took effect. It must not simply be repeated. It said: bad key ***, {}***",
                "x".repeat(2018)
            ),
        ),
        (
            Act::answer(
                "302 Found",
                &format!("location: /?key={CANARY}\r\n"),
                CANARY,
            ),
            "",
            "unclear: redirect_not_followed: the tool answered with status 302 Found. The call may \
             have taken effect all the same. It must not simply be repeated."
                .to_owned(),
        ),
        (
            Act::say(format!("{CANARY}\r\n\r\n")),
            "",
            "reset: the tool's answer is not HTTP".to_owned(),
        ),
    ] {
        let player = Player::start([act]).await;
        let here = player.address.to_string();
        let lab = lab(&player, vec![grant("KEY", CANARY, &[&here])]);
        let more = format!("{WITH_KEY}{more}");
        let tool = bare("POST", &player.url("/"), EffectClass::Once, &more);
        let outcome = lab.run(&tool).await;
        let seen = format!("{outcome:?}");
        assert!(!seen.contains("canary"), "{seen}");
        assert_eq!(told(&outcome), expected);
        assert_eq!(player.heard().len(), 1);
    }
}

/// Whole, and cut anywhere.
#[tokio::test]
async fn an_echo_in_another_charset_comes_back_masked() {
    let utf_16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    // The charset, the body, and what stands before the secret, in UTF-8.
    for (charset, said, before) in [
        (
            "utf-16le",
            utf_16(&format!("you sent {CANARY}.")),
            "you sent ",
        ),
        (
            "latin1",
            [b"caf\xe9 ", CANARY.as_bytes(), b"."].concat(),
            "caf\u{e9} ",
        ),
        (
            "iso-2022-jp",
            [b"\x1b$B\x46\x7c\x1b(B", CANARY.as_bytes(), b"."].concat(),
            "\u{65e5}",
        ),
    ] {
        let length = before.len() + CANARY.len() + 1;
        for kept in [1_000].into_iter().chain(1..60) {
            let head = format!("content-type: text/plain; charset={charset}\r\n");
            let player = Player::start([Act::answer("200 OK", &head, said.clone())]).await;
            let here = player.address.to_string();
            let lab = lab(&player, vec![grant("KEY", CANARY, &[&here])]);
            let more = format!(r#"{WITH_KEY},"response":{{"kept_bytes_max":{kept}}}"#);
            let tool = bare("POST", &player.url("/"), EffectClass::Once, &more);
            let outcome = lab.run(&tool).await;
            let seen = told(&outcome);
            for length in 3..=CANARY.len() {
                assert!(
                    !seen.contains(&CANARY[..length]),
                    "{charset}, {kept}: {seen}"
                );
            }
            let is_whole = seen.contains("***.");
            assert_eq!(is_whole, kept >= length, "{charset}, {kept}: {seen}");
        }
    }
}

/// Whatever a tool may ask for, its answer does not tell what else the server knows.
#[tokio::test]
async fn what_was_not_sent_is_not_masked() {
    let text = "content-type: text/plain\r\n";
    let keyed = [WITH_KEY, r#","body":{"key":{"secret":"KEY"}}"#];
    let hook = "the-webhook-secret";
    let pad = "p".repeat(50);
    for (more, guess) in [("", CANARY), ("", hook), (keyed[0], hook), (keyed[1], hook)] {
        for (act, rules, expected) in [
            (
                Act::answer("200 OK", text, format!("is it {guess}?")),
                "",
                format!("answered \"is it {guess}?\""),
            ),
            // The guess is right up to the cut.
            (
                Act::answer("200 OK", text, format!("{pad}{}", &guess[..10])),
                r#","response":{"kept_bytes_max":59}"#,
                format!("answered \"{pad}{}\" cut", &guess[..9]),
            ),
            (
                Act::answer("200 OK", &format!("content-type: image/{guess}\r\n"), "png"),
                "",
                format!("answered 3 bytes of \"image/{guess}\""),
            ),
            (
                Act::json(&format!(r#"{{"a":"{guess}"}}"#)),
                r#","response":{"select":"$.a"}"#,
                format!(r#"answered "{{\"a\":\"{guess}\"}}" shown "{guess}""#),
            ),
            (
                Act::answer("400 Bad", text, format!("bad key {guess}")),
                "",
                format!(
                    "refused: the tool answered with status 400 Bad Request. It will fail again \
                     with the same arguments. By this answer, the call took no effect. It said: \
                     bad key {guess}"
                ),
            ),
        ] {
            let player = Player::start([act]).await;
            let here = player.address.to_string();
            let grants = vec![
                grant("KEY", CANARY, &[&here]),
                grant("HOOK", hook, &[&here]),
            ];
            let more = format!("{more}{rules}");
            let tool = bare("POST", &player.url("/"), EffectClass::Once, &more);
            let outcome = lab(&player, grants).run(&tool).await;
            assert_eq!(told(&outcome), expected, "{more}");
        }
    }
}

/// At the cut only the whole secret counts, which is looked for beyond it: else a service that
/// repeats what it is asked would tell whether the next character was guessed.
#[tokio::test]
async fn a_guess_at_the_cut_tells_nothing() {
    let text = "content-type: text/plain\r\n";
    let pad = "p".repeat(50);
    for (said, expected) in [
        (format!("{pad}canary-7f3"), format!("{pad}canary-7f3")),
        (format!("{pad}canary-7f3a9bc"), format!("{pad}***")),
        (format!("{pad}canary-7f3a9c"), format!("{pad}canary-7f3")),
        (
            format!("{pad}canary-7f3 and more"),
            format!("{pad}canary-7f3"),
        ),
        (
            format!("{pad}{CANARY}{}", "p".repeat(5000)),
            format!("{pad}***"),
        ),
        (
            format!("{pad}canary-7f3{}", "p".repeat(5000)),
            format!("{pad}canary-7f3"),
        ),
        (
            format!("{}{CANARY}!", &pad[..47]),
            format!("{}***", &pad[..47]),
        ),
    ] {
        let player = Player::start([Act::answer("200 OK", text, &said)]).await;
        let here = player.address.to_string();
        let more = format!(r#"{WITH_KEY},"response":{{"kept_bytes_max":60}}"#);
        let tool = bare("POST", &player.url("/"), EffectClass::Once, &more);
        let lab = lab(&player, vec![grant("KEY", CANARY, &[&here])]);
        let cut = if said.len() > 60 { " cut" } else { "" };
        assert_eq!(
            told(&lab.run(&tool).await),
            format!("answered {expected:?}{cut}"),
            "{said}"
        );
    }
}

/// The reading itself may end within a secret, when more is kept than is read.
#[tokio::test]
async fn a_secret_at_the_end_of_what_is_read_is_left_off() {
    let said = format!("{}{CANARY}", "p".repeat(50));
    let act = Act::answer(
        "200 OK",
        "content-type: text/plain\r\n",
        said.repeat(20_000),
    );
    for read_bytes_max in 1..2 * said.len() as u64 {
        let player = Player::start([act.clone()]).await;
        let here = player.address.to_string();
        let options = ClientOptions {
            allowed: vec![allowed(&here)],
            read_bytes_max,
            ..options()
        };
        let lab = Lab::new(options, vec![grant("KEY", CANARY, &[&here])]);
        let seen = format!("{:?}", lab.run(&keyed(&player)).await);
        assert!(
            seen.contains("cut: true"),
            "{read_bytes_max}: {} {}",
            seen.len(),
            &seen[..seen.len().min(300)]
        );
        assert!(!seen.contains("canar"), "{}", &seen[seen.len() - 100..]);
    }
}

#[tokio::test]
async fn a_selection_that_is_cut_holds_no_part_of_a_secret() {
    for length in 900..1100 {
        let body = format!(
            r#"{{"a":"{}{CANARY}{}"}}"#,
            "p".repeat(length),
            "q".repeat(2000)
        );
        let player = Player::start([Act::json(&body)]).await;
        let here = player.address.to_string();
        let more = format!(r#"{WITH_KEY},"response":{{"select":"$.a","shown_bytes_max":1024}}"#);
        let tool = bare("POST", &player.url("/"), EffectClass::Once, &more);
        let lab = lab(&player, vec![grant("KEY", CANARY, &[&here])]);
        let outcome = lab.run(&tool).await;
        let ToolOutcome::Answered(ToolOutput::Text {
            selected: Some(selected),
            ..
        }) = outcome
        else {
            panic!("{outcome:?}");
        };
        assert!(selected.cut);
        assert!(!selected.text.contains("cana"), "{}", selected.text);
    }
}

#[tokio::test]
async fn a_secret_is_in_no_debug_output() {
    let player = Player::start([Act::Hang]).await;
    let here = player.address.to_string();
    let lab = lab(&player, vec![grant("KEY", CANARY, &[&here])]);
    let seen = format!("{:?} {:?} {:?}", lab.executors, lab.attempt, keyed(&player));
    assert!(seen.contains("KEY"));
    assert!(!seen.contains("canary"), "{seen}");
}

#[tokio::test]
async fn a_secret_that_no_header_can_hold_is_not_sent_and_not_told() {
    let player = Player::start([Act::answer("200 OK", "", "")]).await;
    let here = player.address.to_string();
    let lab = lab(&player, vec![grant("KEY", "canary\r\nX-Evil: 1", &[&here])]);
    let outcome = lab.run(&keyed(&player)).await;
    let ToolOutcome::Unsendable { message } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        !message.contains("canary") && !message.contains("Evil"),
        "{message}"
    );
    assert_eq!(player.connections(), 0);
}
