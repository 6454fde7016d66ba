use super::{SseError, SseReader};

const EVENT_BYTES_MAX: usize = 64;

fn frames(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, SseError> {
    let mut reader = SseReader::new(EVENT_BYTES_MAX);
    let mut frames = Vec::new();
    for piece in pieces {
        reader.push(piece);
        while let Some(frame) = reader.next_frame()? {
            frames.push((frame.event.to_owned(), frame.data.to_owned()));
        }
    }
    reader.end();
    while let Some(frame) = reader.next_frame()? {
        frames.push((frame.event.to_owned(), frame.data.to_owned()));
    }
    Ok(frames)
}

/// `expected` holds `event|data` for each frame; every way to cut the bytes in two gives the same.
fn check(bytes: &str, expected: &[&str]) {
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|row| row.split_once('|').expect("a row has a bar"))
        .map(|(event, data)| (event.to_owned(), data.to_owned()))
        .collect();
    let bytes = bytes.as_bytes();
    for cut in 0..=bytes.len() {
        assert_eq!(
            frames(&[&bytes[..cut], &bytes[cut..]]).as_ref(),
            Ok(&expected),
            "cut at {cut}"
        );
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(
        frames(&single).as_ref(),
        Ok(&expected),
        "one byte at a time"
    );
}

#[test]
fn line_feed() {
    check("data: a\n\ndata: b\n\n", &["|a", "|b"]);
}

#[test]
fn carriage_return_and_line_feed() {
    check(
        "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n",
        &["|a\nb", "|c"],
    );
}

#[test]
fn carriage_return_alone() {
    check("data: a\rdata: b\r\rdata: c\r\r", &["|a\nb", "|c"]);
}

#[test]
fn comments_are_skipped() {
    check(": hello\n\n:\ndata: a\n: inside\ndata: b\n\n", &["|a\nb"]);
}

#[test]
fn no_space_behind_the_colon() {
    check("data:a\n\ndata:  b\n\n", &["|a", "| b"]);
}

#[test]
fn event_name() {
    check("event: error\ndata: a\n\ndata: b\n\n", &["error|a", "|b"]);
}

#[test]
fn last_block_without_a_blank_line() {
    check("data: a\n\ndata: b", &["|a", "|b"]);
    check("data: a\n\ndata: b\n", &["|a", "|b"]);
    check("data: a\n\ndata: b\r\n", &["|a", "|b"]);
}

#[test]
fn byte_order_mark() {
    check("\u{feff}data: a\n\n", &["|a"]);
}

#[test]
fn empty_data_is_no_event() {
    check("data\n\ndata:\n\nevent: x\n\ndata: a\n\n", &["|a"]);
}

#[test]
fn characters_are_cut_anywhere() {
    check("data: žluťoučký 東京 🦊\n\n", &["|žluťoučký 東京 🦊"]);
}

#[test]
fn other_fields_are_skipped() {
    check("id: 7\nretry: 10\nunknown: x\ndata: a\n\n", &["|a"]);
}

#[test]
fn an_event_has_a_largest_size() {
    let too_long = SseError::TooLong {
        bytes_max: EVENT_BYTES_MAX,
    };
    let whole = format!("data: {}\n\n", "x".repeat(EVENT_BYTES_MAX + 1));
    assert_eq!(frames(&[whole.as_bytes()]), Err(too_long));

    let endless = "x".repeat(EVENT_BYTES_MAX + 1);
    assert!(frames(&[endless.as_bytes()]).is_err());

    let many_lines = "data: xxxxxxxx\n".repeat(EVENT_BYTES_MAX);
    assert!(frames(&[many_lines.as_bytes()]).is_err());

    let many_comments = ": comment\n".repeat(EVENT_BYTES_MAX);
    assert_eq!(frames(&[many_comments.as_bytes()]), Ok(Vec::new()));
}

#[test]
fn bytes_that_are_not_utf8_are_an_error() {
    assert_eq!(frames(&[b"data: \xff\n\n"]), Err(SseError::NotUtf8));
}
