//! The characters that an answer says its text is in.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// Whether the body can be read as UTF-8 and says what was meant.
///
/// In other characters the same bytes are another text: UTF-7 writes in ASCII what is not to be
/// seen as such. Nothing is converted.
pub(super) fn is_utf8(headers: &HeaderMap, body: &[u8]) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    // An empty body is the same in all of them.
    body.is_empty() || types.all(|value| all_read_as_utf8(value.as_bytes(), body))
}

/// Whether the body can be read as UTF-8 by every charset that is named: readers differ in which of
/// them they take. That a semicolon may stand in quotes only makes more of them.
fn all_read_as_utf8(content_type: &[u8], body: &[u8]) -> bool {
    let content_type = String::from_utf8_lossy(content_type).to_ascii_lowercase();
    let parameters = content_type.split(';').skip(1);
    parameters
        .filter_map(|parameter| parameter.split_once('='))
        .filter(|(name, _)| name.trim() == "charset")
        .all(|(_, charset)| reads_as_utf8(charset.trim().trim_matches('"').trim(), body))
}

fn reads_as_utf8(charset: &str, body: &[u8]) -> bool {
    match charset {
        "" | "utf-8" | "utf8" | "us-ascii" | "ascii" => true,
        _ => extends_ascii(charset) && body.is_ascii(),
    }
}

/// Whether ASCII is the same in the charset, escapes of every kind included.
fn extends_ascii(charset: &str) -> bool {
    let starts = |prefix: &str| {
        let rest = charset.strip_prefix(prefix);
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    charset == "latin1"
        || ["iso-8859-", "windows-125", "cp125"]
            .into_iter()
            .any(starts)
}
