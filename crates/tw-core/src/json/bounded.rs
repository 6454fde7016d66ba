//! Text that is written up to a limit.

use std::io;

/// Takes text until it is full; what does not fit is never held.
#[derive(Debug)]
pub struct BoundedText {
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// More was written than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextFull;

impl BoundedText {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            bytes_max,
        }
    }

    /// # Errors
    /// [`TextFull`] when only a part fits, which is taken all the same.
    pub fn push(&mut self, text: &str) -> Result<(), TextFull> {
        let room = self.bytes_max - self.bytes.len();
        let fits = text.len().min(room);
        self.bytes.extend_from_slice(&text.as_bytes()[..fits]);
        if fits < text.len() {
            Err(TextFull)
        } else {
            Ok(())
        }
    }

    /// The text, without a character that fits in part only.
    pub fn into_text(self) -> String {
        match String::from_utf8(self.bytes) {
            Ok(text) => text,
            Err(error) => {
                let whole = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                bytes.truncate(whole);
                String::from_utf8(bytes).unwrap_or_default()
            }
        }
    }
}

/// The way in for writers of other crates, who hand over texts in pieces.
impl io::Write for BoundedText {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = self.bytes_max - self.bytes.len();
        if room == 0 && !piece.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let fits = piece.len().min(room);
        self.bytes.extend_from_slice(&piece[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
