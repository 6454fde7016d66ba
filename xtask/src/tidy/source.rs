//! A Rust file without its comments and literals, so that a rule's text in a string or a comment does not break the rule.

/// The code alone: every byte of a comment, string or character literal becomes a space, line ends stay.
///
/// A small scanner, not a parser: it knows nested comments, raw strings, escapes, and lifetimes from character literals.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match blank_end(bytes, at) {
            Some(end) => {
                let blank = |byte: &u8| if *byte == b'\n' { b'\n' } else { b' ' };
                out.extend(bytes[at..end].iter().map(blank));
                at = end;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    // Blanks replace whole characters, so what is left is still UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}

/// Line numbers, from 1, of the lines of `code` that hold `word` as a whole identifier.
pub fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines()
        .enumerate()
        .filter(move |(_, line)| has_word(line, word))
        .map(|(index, _)| index + 1)
}

/// Whether `line` holds `word` with no identifier character on either side.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_word_char) && !after.is_some_and(is_word_char)
    })
}

/// The line, from 1, on which byte `offset` of `text` stands.
pub fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The end of the comment or literal that starts at `at`, if one does.
fn blank_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let length = rest.iter().position(|byte| *byte == b'\n');
        return Some(length.map_or(bytes.len(), |length| at + length));
    }
    if rest.starts_with(b"/*") {
        return Some(block_comment_end(bytes, at));
    }
    match bytes[at] {
        b'"' => Some(quoted_end(bytes, at + 1, b'"')),
        b'\'' => char_end(bytes, at),
        b'r' if starts_raw(bytes, at) => raw_string_end(bytes, at),
        _ => None,
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn quoted_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `None` for a lifetime: one character and no closing quote after it.
fn char_end(bytes: &[u8], at: usize) -> Option<usize> {
    let first = *bytes.get(at + 1)?;
    if first == b'\\' {
        return Some(quoted_end(bytes, at + 1, b'\''));
    }
    let width = match first {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    };
    (bytes.get(at + 1 + width) == Some(&b'\'')).then_some(at + 2 + width)
}

/// Whether the `r` at `at` may begin a raw string: it begins a word, or follows the `b` or `c` that does.
fn starts_raw(bytes: &[u8], at: usize) -> bool {
    let word = |index: usize| bytes[index].is_ascii_alphanumeric() || bytes[index] == b'_';
    match at {
        0 => true,
        1 => !word(0) || matches!(bytes[0], b'b' | b'c'),
        _ if !word(at - 1) => true,
        _ => matches!(bytes[at - 1], b'b' | b'c') && !word(at - 2),
    }
}

fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let length = bytes[open + 1..]
        .windows(close.len())
        .position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| open + 1 + length + close.len()))
}

#[cfg(test)]
mod tests;
