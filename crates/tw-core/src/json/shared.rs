//! Text of which many parts are kept, each in the place where it came in.

use std::fmt;
use std::sync::Arc;

/// A text that is held once, whatever holds parts of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SharedText(Arc<String>);

/// Shortest part that is referred to and not copied, in bytes: a copy takes about what the reference to a part does,
/// and keeps no text that is a hundred thousand times its size.
const SHARED_BYTES_MIN: usize = 256;

impl SharedText {
    pub fn new(text: String) -> Self {
        Self(Arc::new(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The range of `part` in this text, as its start and end; `None` if it is no part of it.
    fn range_of(&self, part: &str) -> Option<(u32, u32)> {
        let start = part.as_ptr().addr().checked_sub(self.0.as_ptr().addr())?;
        let end = start.checked_add(part.len())?;
        self.0.get(start..end)?;
        Some((u32::try_from(start).ok()?, u32::try_from(end).ok()?))
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self::new(text.to_owned())
    }
}

/// The length alone, since what people say is not for logs.
impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedText({} bytes)", self.len())
    }
}

/// A text that is never changed: one of its own, or a part of a shared one.
#[derive(Clone)]
pub(super) enum JsonText {
    Own(Box<str>),
    Part {
        whole: SharedText,
        start: u32,
        end: u32,
    },
}

impl JsonText {
    /// The text `part`, which stands in `whole`. One that does not, that is short, or that stands beyond 4 GiB is
    /// copied.
    pub(super) fn part(whole: &SharedText, part: &str) -> Self {
        match whole.range_of(part) {
            Some((start, end)) if part.len() >= SHARED_BYTES_MIN => Self::Part {
                whole: whole.clone(),
                start,
                end,
            },
            Some(_) | None => Self::Own(part.into()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            // The range was one of this text when it was made.
            Self::Part { whole, start, end } => whole
                .0
                .get(*start as usize..*end as usize)
                .unwrap_or_default(),
        }
    }
}

impl<T: Into<Box<str>>> From<T> for JsonText {
    fn from(text: T) -> Self {
        Self::Own(text.into())
    }
}

impl Default for JsonText {
    fn default() -> Self {
        Self::Own(Box::default())
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonText {}

#[cfg(test)]
mod tests;
