//! The ways in which a secret may come back in a text.

use std::collections::BTreeSet;

use tw_core::template::url_part;
use url::form_urlencoded;

use crate::secret::Secret;

/// Shorter values are left in place: they are in every other text by chance, and what was cut
/// out would tell as much.
const MASKED_CHARS_MIN: usize = 8;

const MASK: &str = "***";

/// The spellings of one secret; none of one that is too short.
#[derive(Debug)]
pub(super) struct Hidden(Vec<Secret>);

impl Hidden {
    pub fn new(value: &Secret) -> Self {
        let plain = value.reveal();
        if plain.chars().count() < MASKED_CHARS_MIN {
            return Self(Vec::new());
        }
        let json = json_string(plain);
        let form: String = form_urlencoded::byte_serialize(plain.as_bytes()).collect();
        let percent = url_part(plain);
        let spellings = BTreeSet::from([
            json.replace('/', "\\/"),
            ascii_only(&json),
            // A body of JSON that comes back as a string in JSON.
            json_string(&json),
            json,
            in_lower_hexadecimal(&percent),
            percent,
            in_lower_hexadecimal(&form),
            form,
            plain.to_owned(),
        ]);
        Self(spellings.into_iter().map(Secret::new).collect())
    }

    pub fn spellings(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Secret::reveal)
    }
}

/// The text with the mask in place of every one of `spellings`, of which none may stand before a
/// longer one: a secret may be part of another.
pub(super) fn masked(spellings: &[&str], mut text: String) -> String {
    for spelling in spellings {
        if text.contains(spelling) {
            text = text.replace(spelling, MASK);
        }
    }
    text
}

/// Cuts a text before `at`, with the mask in place of a secret that goes on beyond it.
///
/// Only a whole secret counts. Else whoever can have a text repeated, and cut where they like,
/// would learn of each next character whether it is the right one.
pub(super) fn cut(spellings: &[&str], text: &mut Vec<u8>, at: usize) {
    let begins = |end: usize| {
        let of_one = |spelling: &&str| {
            let (secret, length) = (spelling.as_bytes(), spelling.len());
            let first = (end + 1).saturating_sub(length);
            (first..end).find(|&begin| text.get(begin..begin + length) == Some(secret))
        };
        spellings.iter().filter_map(of_one).min()
    };
    let (mut end, mut mask) = (at, "");
    // Secrets may overlap.
    while let Some(begin) = begins(end) {
        (end, mask) = (begin, MASK);
    }
    text.truncate(end);
    text.extend_from_slice(mask.as_bytes());
}

/// Without the quotes around it.
fn json_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// As JSON is written by those who escape everything beyond ASCII.
fn ascii_only(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

/// `%2F` as `%2f`.
fn in_lower_hexadecimal(encoded: &str) -> String {
    let mut lower = String::with_capacity(encoded.len());
    let mut digits = 0;
    for character in encoded.chars() {
        if digits > 0 {
            digits -= 1;
            lower.push(character.to_ascii_lowercase());
        } else {
            digits = if character == '%' { 2 } else { 0 };
            lower.push(character);
        }
    }
    lower
}
