//! The kind of a body, by its first bytes: content types are wrong in every direction.

/// The kind of a body, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyStart {
    /// An object, a list or a string: an answer or an error, whatever stands behind it.
    Json,
    EventStream,
    WebPage,
    /// Text that is none of these.
    Other,
    /// Too few bytes to tell.
    Unclear,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Beginnings of the first line of an event stream.
const FIELDS: [&[u8]; 5] = [b":", b"data", b"event", b"id:", b"retry"];

/// Tells the kind of the body, and where it begins; white space and a byte order mark before it are no part of it.
pub fn begins(read: &[u8]) -> (BodyStart, usize) {
    if !read.is_empty() && read.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(read) {
        return (BodyStart::Unclear, 0);
    }
    let text = read.strip_prefix(BYTE_ORDER_MARK).unwrap_or(read);
    let text = text.trim_ascii_start();
    let begins = match text {
        [] => BodyStart::Unclear,
        [b'{' | b'[' | b'"', ..] => BodyStart::Json,
        [b'<', ..] => BodyStart::WebPage,
        _ if FIELDS.iter().any(|field| text.starts_with(field)) => BodyStart::EventStream,
        _ if FIELDS.iter().any(|field| field.starts_with(text)) => BodyStart::Unclear,
        [..] => BodyStart::Other,
    };
    (begins, read.len() - text.len())
}

#[cfg(test)]
mod tests {
    use super::{BodyStart, begins};

    #[test]
    fn a_body_is_known_by_how_it_begins() {
        let rows: [(&[u8], BodyStart, usize); 12] = [
            (b"{\"a\"", BodyStart::Json, 0),
            (b"\xEF\xBB\xBF \r\n[", BodyStart::Json, 6),
            (b"\xEF\xBB", BodyStart::Unclear, 0),
            (b"", BodyStart::Unclear, 0),
            (b"\n\n", BodyStart::Unclear, 2),
            (b"d", BodyStart::Unclear, 0),
            (b"  data", BodyStart::EventStream, 2),
            (b": x", BodyStart::EventStream, 0),
            (b"event: error", BodyStart::EventStream, 0),
            (b"<!DOCTYPE", BodyStart::WebPage, 0),
            (b"dat ", BodyStart::Other, 0),
            (b"overloaded", BodyStart::Other, 0),
        ];
        for (read, expected, from) in rows {
            assert_eq!(begins(read), (expected, from), "{read:?}");
        }
    }
}
