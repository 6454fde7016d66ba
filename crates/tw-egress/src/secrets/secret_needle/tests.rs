use proptest::prelude::*;

use super::{SecretNeedle, cut, masked};
use crate::secret::Secret;

fn hidden(secret: &str) -> SecretNeedle {
    SecretNeedle::new(&Secret::new(secret.to_owned()))
}

/// The text as it is shown to whoever may not see the secret.
fn shown(secret: &str, text: &str) -> String {
    masked(&[&hidden(secret)], text.to_owned())
}

/// What is seen in the wild of one secret, and what nobody had thought of.
#[test]
fn no_way_to_write_a_secret_shows_it() {
    let secret = "sk-live~a_B.9/x+=";
    for echo in [
        "sk-live%7Ea_B.9/x+=",
        "sk%2Dlive%7ea%5FB%2E9%2Fx%2B%3D",
        "%73%6B%2d%6C%69%76%65%7E%61%5F%42%2E%39%2F%78%2B%3D",
        "sk&#x2d;live&#126;a&#x5F;B&period;9&sol;x&plus;&equals;",
        "sk&#0045;live&#x0007e;a&lowbar;B&#46;9&#x0000002f;x&#43;&#X3D;",
        "sk%252Dlive%257Ea_B.9%252Fx%252B%253D",
        "sk%26%2345%3Blive%26%23x7E%3Ba_B.9/x+=",
        "sk&#37;2Dlive&#x25;7Ea_B.9/x&amp;#43;&amp;equals;",
        r"sk\u002dlive\u007Ea\u005fB.9\/x\u002b\u003D",
        r"sk\\u002dlive\\u007Ea_B.9\\/x\\u002b\\u003D",
        r"\x73k\x2Dlive~a_B.9/x+=",
        r"sk\u0026#45;live~a_B.9/x+=",
        "sk-live%5Cu007Ea_B.9/x+=",
    ] {
        assert_eq!(shown(secret, &format!("[{echo}]")), "[***]", "{echo}");
        assert!(echo.len() <= hidden(secret).longest(), "{echo}");
    }
    // Neither part of it nor what is like it, and nothing beyond two encoders in a row.
    for other in [
        "sk-live%7Fa_B.9/x+=",
        "sk-live%7",
        "sk%25252Dlive~a_B.9/x+=",
        "sk&#00000000000045;live~a_B.9/x+=",
        "sk&#x2d live~a_B.9/x+=",
        r"sk\u002live~a_B.9/x+=",
    ] {
        assert_eq!(shown(secret, other), other);
    }
}

/// The standard alphabet without its end marks, written anew: what is looked for must not be what is compared with.
fn base64(bytes: &[u8], last: [char; 2]) -> String {
    let alphabet: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(last)
        .collect();
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, at| {
            number << 8 | usize::from(*three.get(at).unwrap_or(&0))
        });
        for at in 0..=three.len() {
            text.push(alphabet[number >> (18 - 6 * at) & 63]);
        }
    }
    text
}

#[test]
fn a_secret_in_base64_is_masked_with_all_its_bits() {
    assert_eq!(
        base64(b"any carnal pleas", ['+', '/']),
        "YW55IGNhcm5hbCBwbGVhcw"
    );
    for secret in [
        "s3cr?t~>>key",
        "\u{3ff}\u{3ff}\u{3ff}>>??\u{fb}~",
        "abcdefgh",
    ] {
        for before in ["", "u", "us", "user:", "user:x", "user:xy"] {
            for after in ["", "!", "?~", " and more"] {
                for last in [['+', '/'], ['-', '_']] {
                    let whole = format!("{before}{secret}{after}");
                    let text = base64(whole.as_bytes(), last);
                    // The characters that hold a bit of it, of both its neighbours too.
                    let (first, end) = (
                        before.len() * 8 / 6,
                        ((before.len() + secret.len()) * 8).div_ceil(6),
                    );
                    let expected = format!("<{}***{}>", &text[..first], &text[end..]);
                    assert_eq!(shown(secret, &format!("<{text}>")), expected, "{whole}");
                    let in_url = text.replace('+', "%2B").replace('/', "%2f");
                    let masked = shown(secret, &format!("<{in_url}>"));
                    assert!(masked.contains("***"), "{in_url}");
                }
            }
        }
    }
}

/// One character in one of the ways of an encoder.
fn encoded(character: char, way: u8, zeros: usize) -> String {
    let percent = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<String>()
    };
    let units = |prefix: &str| {
        let units = character.encode_utf16(&mut [0; 2]).to_vec();
        units
            .iter()
            .map(|unit| format!("{prefix}u{unit:04x}"))
            .collect::<String>()
    };
    let plain = character.to_string();
    let number = u32::from(character);
    let zeros = "0".repeat(zeros);
    match way {
        0 => percent(&plain),
        1 => percent(&plain).to_lowercase(),
        2 => percent(&plain).replace('%', "%25"),
        3 => units("\\"),
        4 => units("\\\\"),
        5 => format!("&#{zeros}{number};"),
        6 => format!("&#x{zeros}{number:x};"),
        7 => format!("&#X{zeros}{number:X};"),
        8 => format!("&amp;#{number};"),
        9 => units("%5C"),
        10 => percent(&plain).replace('%', "&#37;"),
        11 if matches!(character, '"' | '\\' | '/') => format!("\\{character}"),
        12 if matches!(character, '"' | '\\' | '/') => format!("\\\\\\{character}"),
        _ => plain,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_mix_of_encodings_is_masked(
        written in prop::collection::vec((prop::char::ranges(vec![' '..='~', '\u{a1}'..='\u{24f}', '\u{1f600}'..='\u{1f64f}'].into()), 0u8..16, 0usize..3), 8..40),
    ) {
        let secret: String = written.iter().map(|(character, _, _)| *character).collect();
        let echo: String = written.iter().map(|(character, way, zeros)| encoded(*character, *way, *zeros)).collect();
        // What comes before and behind belongs to no escape.
        let text = format!("<p>{echo}<p>");
        let shown = shown(&secret, &text);
        prop_assert!(shown.starts_with("<p>***") && shown.ends_with("<p>") && shown.len() <= 12, "{} of {}", shown, echo);
        prop_assert!(echo.len() <= hidden(&secret).longest());
        // Nothing of it is left in front of a cut that goes through it.
        let middle = text.len() / 2;
        let mut cut_off = text.into_bytes();
        cut(&[&hidden(&secret)], &mut cut_off, middle);
        prop_assert!(cut_off == b"<p>***", "{:?}", String::from_utf8_lossy(&cut_off));
    }

    /// Digits and escapes alone make no letter eight times in a row.
    #[test]
    fn a_text_without_the_secret_is_untouched(text in r#"([%\\&#;+u "xn2d0-9]|&amp;|&#x2d;|%25|é){0,200}"#) {
        prop_assert_eq!(shown("QZ-QZ~QZ_QZ", &text), text);
    }
}

/// As long as anybody can send it: each place costs a bounded number of steps, whatever stands around it.
#[test]
fn nothing_that_can_be_sent_takes_long() {
    for part in [
        "\\",
        "%25",
        "&amp;",
        "&#x0000",
        "+",
        "\\u00",
        "%5C",
        "%26%23",
        "QZ-Q",
        "QZ%2DQZ%7",
        "UVot",
    ] {
        let text = part.repeat(16 * 1024 / part.len());
        assert_eq!(shown("QZ-QZ~QZ_QZ", &text), text);
    }
}
