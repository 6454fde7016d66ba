//! The text of a statement, for each engine.

/// A statement's text; where the engines differ, the two stand side by side.
#[derive(Clone, Copy, Debug)]
pub struct Sql {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self {
            sqlite: text,
            postgres: text,
        }
    }
}

/// Where a text stands in the program: its address and its length, since one text may be the beginning of another.
pub type TextPlace = (usize, usize);

pub fn place(text: &'static str) -> TextPlace {
    (text.as_ptr().addr(), text.len())
}
