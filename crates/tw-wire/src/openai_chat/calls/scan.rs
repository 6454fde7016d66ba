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
/// bits, and the length in bytes. Nobody gains by a collision, which makes one call of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectFingerprint {
    hash: u64,
    pub bytes: usize,
}

impl Default for ObjectFingerprint {
    fn default() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            bytes: 0,
        }
    }
}

impl ObjectFingerprint {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        self.bytes += bytes.len();
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
        let bytes = literal.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let (byte, used) = unescape(bytes, at);
            let was_complete = self.is_complete;
            self.step(byte);
            if self.has_begun && !was_complete {
                // A cut escape is shorter than it says.
                self.print.add(&bytes[at..bytes.len().min(at + used)]);
            }
            at += used;
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        if byte.is_ascii_whitespace() {
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
    let bytes = literal.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (byte, used) = unescape(bytes, at);
        if !byte.is_ascii_whitespace() {
            return byte == b'{';
        }
        at += used;
    }
    false
}

/// The byte that stands at `at` once escapes are decoded, and its length as written.
/// What is not ASCII comes back as some byte that is not ASCII, which is all that matters here.
fn unescape(bytes: &[u8], at: usize) -> (u8, usize) {
    const NOT_ASCII: u8 = 0xff;
    if bytes[at] != b'\\' {
        return (bytes[at], 1);
    }
    match bytes.get(at + 1) {
        Some(b'n') => (b'\n', 2),
        Some(b't') => (b'\t', 2),
        Some(b'r') => (b'\r', 2),
        Some(b'b' | b'f') => (NOT_ASCII, 2),
        Some(b'u') => {
            let hex = bytes
                .get(at + 2..at + 6)
                .and_then(|hex| std::str::from_utf8(hex).ok());
            let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
            let byte = code
                .and_then(|code| u8::try_from(code).ok())
                .filter(u8::is_ascii);
            (byte.unwrap_or(NOT_ASCII), 6)
        }
        Some(&other) => (other, 2),
        None => (NOT_ASCII, 1),
    }
}
