//! The ways in which a secret may come back in a text.

use std::collections::BTreeSet;

use url::form_urlencoded;

use crate::secret::Secret;

/// Shorter values are left in place: they are in every other text by chance, and what was cut
/// out would tell as much.
const MASKED_CHARS_MIN: usize = 8;

/// Beginnings of a secret at the end of a text that was cut are taken off from this length on.
const BEGINNING_BYTES_MIN: usize = 4;

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
        let percent = percent_encoded(plain);
        let spellings = BTreeSet::from([
            json.replace('/', "\\/"),
            ascii_only(&json),
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

/// Takes off the end what may be the beginning of a secret.
pub(super) fn masked_end(spellings: &[&str], mut text: String) -> String {
    let beginning = |spelling: &&str| {
        (BEGINNING_BYTES_MIN..spelling.len())
            .rev()
            .filter_map(|length| spelling.get(..length))
            .find(|beginning| text.ends_with(beginning))
            .map(str::len)
    };
    if let Some(length) = spellings.iter().filter_map(beginning).max() {
        text.truncate(text.len() - length);
        text.push_str(MASK);
    }
    text
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

/// As a query's value is written: everything but unreserved characters.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
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
