//! A scan that finds out whether a JSON object, written as pieces of string literals, is complete.

/// Follows an object through the pieces of a string literal in which it is written.
#[derive(Debug, Default)]
pub struct ObjectScan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    has_begun: bool,
    /// The object ended and only white space came since.
    is_complete: bool,
    /// Text that is no object stands first, or something stands behind the object.
    is_odd: bool,
    /// The object has something in it.
    has_members: bool,
    /// The fingerprint of the object as written, without white space around it.
    print: ObjectFingerprint,
}

/// A fingerprint by which two objects are told to be equal without keeping their text: FNV-1a, 64
/// bits, over the UTF-16 units that they stand for, and their number. Escapes of the literal and white space outside
/// strings make no difference. Nobody gains by a collision, which makes one call of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFingerprint {
    hash: u64,
    pub units: usize,
}

impl Default for ObjectFingerprint {
    fn default() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            units: 0,
        }
    }
}

impl ObjectFingerprint {
    fn add(&mut self, unit: u16) {
        self.hash = (self.hash ^ u64::from(unit)).wrapping_mul(0x100_0000_01b3);
        self.units += 1;
    }
}

impl ObjectScan {
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub fn is_complete(&self) -> bool {
        self.is_complete && !self.is_odd
    }

    /// Whether the text so far is an empty object, or the beginning of one.
    pub fn may_be_empty_object(&self) -> bool {
        self.has_begun && !self.has_members && !self.is_odd
    }

    pub fn print(&self) -> ObjectFingerprint {
        self.print
    }

    /// Reads the next piece; `literal` is the inside of a string literal.
    pub fn read(&mut self, literal: &str) {
        let (mut rest, mut units) = (literal, [0; 2]);
        while let Some((units, used)) = next_character(rest, &mut units) {
            let was_complete = self.is_complete;
            let is_padding = !self.in_string && is_white_space(units[0]);
            self.step(units[0]);
            if self.has_begun && !was_complete && !is_padding {
                units.iter().for_each(|&unit| self.print.add(unit));
            }
            rest = &rest[used..];
        }
    }

    fn step(&mut self, unit: u16) {
        // What is not ASCII is the same to all that follows.
        let byte = u8::try_from(unit).ok().filter(u8::is_ascii).unwrap_or(0xff);
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        if is_white_space(unit) {
            return;
        }
        if self.is_complete || (!self.has_begun && byte != b'{') {
            self.is_odd = true;
        }
        self.has_members |= self.has_begun && !self.is_complete && byte != b'}';
        self.has_begun = true;
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_complete = self.depth == 0;
            }
            _ => {}
        }
    }
}

/// Whether the first character of the literal that is no white space opens an object.
pub fn begins_object(literal: &str) -> bool {
    let (mut rest, mut units) = (literal, [0; 2]);
    while let Some((units, used)) = next_character(rest, &mut units) {
        if !is_white_space(units[0]) {
            return units[0] == u16::from(b'{');
        }
        rest = &rest[used..];
    }
    false
}

fn is_white_space(unit: u16) -> bool {
    u8::try_from(unit).is_ok_and(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}

/// The first character of the literal in UTF-16, or half of one that an escape stands for, and its length as written,
/// in bytes.
fn next_character<'a>(literal: &str, units: &'a mut [u16; 2]) -> Option<(&'a [u16], usize)> {
    let mut written = literal.chars();
    let first = written.next()?;
    if first != '\\' {
        return Some((first.encode_utf16(units), first.len_utf8()));
    }
    let escaped = written.next();
    let hex = literal.get(2..6).filter(|_| escaped == Some('u'));
    if let Some(unit) = hex.and_then(|hex| u16::from_str_radix(hex, 16).ok()) {
        units[0] = unit;
        return Some((&units[..1], 6));
    }
    let character = match escaped {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some(other) => other,
        None => first,
    };
    Some((
        character.encode_utf16(units),
        1 + escaped.map_or(0, char::len_utf8),
    ))
}
