//! What of a request its upstream gets otherwise than the client wrote it, or not at all.

use std::borrow::Cow;
use std::fmt;

/// Names of what was changed or left out, each with the number of its places.
///
/// A name is that of a field as the client wrote it, or of a kind of content. Names come from outside, too, and all of
/// it goes into a header: there are at most [`RequestChanges::NAMES_MAX`], of letters, digits, `_`, `-` and `.`; the rest
/// is counted as `other`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestChanges {
    named: Vec<(Cow<'static, str>, u32)>,
}

impl RequestChanges {
    pub const NAMES_MAX: usize = 24;
    /// Longest name, in bytes.
    const NAME_BYTES_MAX: usize = 64;
    const OTHER: &'static str = "other";

    /// Counts one place.
    pub fn add(&mut self, name: impl Into<Cow<'static, str>>) {
        self.add_times(name, 1);
    }

    /// Counts so many places; none is no change.
    pub fn add_times(&mut self, name: impl Into<Cow<'static, str>>, times: u32) {
        if times == 0 {
            return;
        }
        let name = name.into();
        let is_other = name == Self::OTHER;
        let has_room = self.named.len() < Self::NAMES_MAX - 1 && is_plain(&name);
        match self.named.iter_mut().find(|(have, _)| *have == name) {
            Some((_, count)) => *count = count.saturating_add(times),
            // There is always room for this one.
            None if is_other || has_room => self.named.push((name, times)),
            None => self.add_times(Self::OTHER, times),
        }
    }

    pub fn add_all(&mut self, others: &Self) {
        for (name, count) in &others.named {
            self.add_times(name.clone(), *count);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    pub fn has(&self, name: &str) -> bool {
        self.named.iter().any(|(have, _)| have == name)
    }

    /// The names in the order in which they came up, each with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.named.iter().map(|(name, count)| (&**name, *count))
    }
}

fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=RequestChanges::NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

impl fmt::Display for RequestChanges {
    /// The form of the header: `seed=1, reasoning=3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, count)) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{name}={count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::RequestChanges;

    #[test]
    fn names_are_counted_and_bounded() {
        let mut changes = RequestChanges::default();
        assert!(changes.is_empty());
        for name in ["seed", "image", "seed", "a\r\nb", "", "é"] {
            changes.add(name);
        }
        changes.add_times("none", 0);
        changes.add("x".repeat(65));
        assert_eq!(changes.to_string(), "seed=2, image=1, other=4");
        assert!(changes.has("image") && !changes.has("none"));
        for number in 0..100 {
            changes.add(format!("field_{number}"));
        }
        changes.add_times("seed", u32::MAX);
        assert!(changes.iter().count() <= RequestChanges::NAMES_MAX);
        let counts: Vec<(&str, u32)> = changes.iter().collect();
        assert_eq!(counts[0], ("seed", u32::MAX));
        assert!(changes.to_string().len() < 2048);
    }
}
