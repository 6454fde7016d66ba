//! The charset of an answer's text, and the text read by it.

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The text of a body by the charset that its content type names, UTF-8 where it names none; `None` where it is no
/// text in that charset, where the charset is unknown, and where two are named.
///
/// The charsets are those of the web, by all the labels that it has for them. UTF-7 and UTF-32 are none of them. A byte
/// order mark says which UTF-16 it is.
///
/// Of a body that was `cut`, a character that is not whole at its end is left out.
pub(super) fn text(headers: &HeaderMap, body: &[u8], cut: bool) -> Option<String> {
    // An empty body is the same in all of them.
    if body.is_empty() {
        return Some(String::new());
    }
    decoded(named(headers)?, body, cut)
}

/// Whether the headers name one charset that is not UTF-8.
pub(super) fn is_other(headers: &HeaderMap) -> bool {
    named(headers).is_some_and(|encoding| encoding != UTF_8)
}

/// The one encoding that all charsets in the headers name: readers differ in which of several they take. That a
/// semicolon may stand in quotes only makes more of them.
fn named(headers: &HeaderMap) -> Option<&'static Encoding> {
    let mut found = None;
    for value in headers.get_all(CONTENT_TYPE) {
        let content_type = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        let charsets = content_type
            .split(';')
            .skip(1)
            .filter_map(|parameter| parameter.split_once('='))
            .filter(|(name, _)| name.trim() == "charset");
        for (_, charset) in charsets {
            let encoding = of_label(charset.trim().trim_matches('"').trim())?;
            if *found.get_or_insert(encoding) != encoding {
                return None;
            }
        }
    }
    Some(found.unwrap_or(UTF_8))
}

fn of_label(label: &str) -> Option<&'static Encoding> {
    match label {
        // The web reads ASCII as windows-1252; whoever says it and sends more sends UTF-8.
        "" | "us-ascii" | "ascii" => Some(UTF_8),
        _ => Encoding::for_label_no_replacement(label.as_bytes()),
    }
}

fn decoded(encoding: &'static Encoding, body: &[u8], cut: bool) -> Option<String> {
    let mut decoder = if encoding == UTF_16LE || encoding == UTF_16BE {
        encoding.new_decoder()
    } else {
        encoding.new_decoder_with_bom_removal()
    };
    let room = decoder.max_utf8_buffer_length_without_replacement(body.len())?;
    let mut text = String::with_capacity(room);
    match decoder.decode_to_string_without_replacement(body, &mut text, !cut) {
        (DecoderResult::InputEmpty, _) => {
            text.shrink_to_fit();
            Some(text)
        }
        (DecoderResult::OutputFull | DecoderResult::Malformed(..), _) => None,
    }
}
