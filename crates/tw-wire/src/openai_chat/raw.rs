//! Reading JSON without re-encoding it: objects as lists of fields whose values stay text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tw_core::json::Literal;

/// A field's name, borrowed unless it holds escapes.
pub struct FieldName<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for FieldName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = FieldName<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(FieldName(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(FieldName(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// A record that an object is read into, field by field; a later field of the same name wins.
pub trait FieldRecord<'a>: Default {
    /// Takes the value of `key` from `map`, which must be asked for exactly one value.
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error>;
}

/// A [`FieldRecord`] that can be deserialized.
#[derive(Default)]
pub struct RecordOf<T>(pub T);

impl<'de, T: FieldRecord<'de>> Deserialize<'de> for RecordOf<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RecordVisitor<T>(PhantomData<T>);
        impl<'de, T: FieldRecord<'de>> Visitor<'de> for RecordVisitor<T> {
            type Value = RecordOf<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut record = T::default();
                while let Some(FieldName(key)) = map.next_key()? {
                    record.read(key, &mut map)?;
                }
                Ok(RecordOf(record))
            }
        }
        deserializer.deserialize_map(RecordVisitor(PhantomData))
    }
}

/// A list of which `N` need no allocation.
pub struct SmallList<T, const N: usize> {
    inline: [Option<T>; N],
    more: Vec<T>,
}

impl<T, const N: usize> Default for SmallList<T, N> {
    fn default() -> Self {
        Self {
            inline: std::array::from_fn(|_| None),
            more: Vec::new(),
        }
    }
}

impl<T, const N: usize> SmallList<T, N> {
    pub fn is_empty(&self) -> bool {
        self.inline.iter().all(Option::is_none) && self.more.is_empty()
    }

    /// The item of a list that has one.
    pub fn only(&self) -> Option<&T> {
        let mut items = self.iter();
        let first = items.next()?;
        items.next().is_none().then_some(first)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.inline.iter().flatten().chain(&self.more)
    }

    pub fn push(&mut self, item: T) {
        match self.inline.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(item),
            None => self.more.push(item),
        }
    }
}

impl<T, const N: usize> IntoIterator for SmallList<T, N> {
    type Item = T;
    type IntoIter = std::iter::Chain<
        std::iter::Flatten<std::array::IntoIter<Option<T>, N>>,
        std::vec::IntoIter<T>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.inline.into_iter().flatten().chain(self.more)
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for SmallList<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for ListVisitor<T, N> {
            type Value = SmallList<T, N>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = SmallList::default();
                // A null in the place of an item says nothing.
                while let Some(item) = seq.next_element::<Option<T>>()? {
                    item.into_iter().for_each(|item| list.push(item));
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

/// The fields of an object in the order written.
#[derive(Debug, Default)]
pub struct ObjectFields<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

/// Number of names that are compared with each other in less time than they are hashed.
const FEW_FIELDS: usize = 8;

/// The reason for which a text could not be read as [`ObjectFields`].
#[derive(Debug)]
pub enum NotFields {
    /// The text is not JSON, or not an object.
    Json(serde_json::Error),
    Duplicate(String),
}

impl<'a> FieldRecord<'a> for ObjectFields<'a> {
    fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        self.0.push((key, map.next_value()?));
        Ok(())
    }
}

impl<'a> ObjectFields<'a> {
    /// Reads an object in which no name stands twice: readers disagree about which one counts.
    pub fn parse(text: &'a str) -> Result<Self, NotFields> {
        let RecordOf(fields): RecordOf<Self> =
            serde_json::from_str(text).map_err(NotFields::Json)?;
        if let Some(twice) = fields.twice() {
            return Err(NotFields::Duplicate(twice.to_owned()));
        }
        Ok(fields)
    }

    /// A name that stands twice.
    pub fn twice(&self) -> Option<&str> {
        let fields = &self.0;
        let mut names = fields.iter().map(|(name, _)| &**name);
        if fields.len() <= FEW_FIELDS {
            return names.enumerate().find_map(|(at, name)| {
                let is_before = fields[..at].iter().any(|(before, _)| before == name);
                is_before.then_some(name)
            });
        }
        let mut seen = HashSet::with_capacity(fields.len());
        names.find(|name| !seen.insert(*name))
    }

    /// The object in the `text` that it was read from; `None` if nothing of it tells where it is.
    pub fn text_in(&self, text: &'a str) -> Option<&'a str> {
        let (Cow::Borrowed(first), _) = self.0.first()? else {
            return None;
        };
        let (_, last) = self.0.last()?;
        let place = |piece: &str| piece.as_ptr().addr().checked_sub(text.as_ptr().addr());
        let before = text.get(..place(first)?)?.strip_suffix('"')?;
        let before = before.trim_ascii_end().strip_suffix('{')?;
        let behind = text.get(place(last.get())? + last.get().len()..)?;
        let behind = behind.trim_ascii_start().strip_prefix('}')?;
        text.get(before.len()..text.len() - behind.len())
    }

    /// The value of `name`; `None` also for null.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.written(name).filter(|raw| !is_null(raw))
    }

    /// The value of `name`, null included.
    pub fn written(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find(|(have, _)| have == name)
            .map(|&(_, raw)| raw)
    }
}

pub fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// The inside of a string, as written.
pub fn literal(raw: &RawValue) -> Option<Literal> {
    Literal::of_raw(raw)
}

fn inside(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// A string, decoded; half a surrogate pair becomes U+FFFD.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inside = inside(raw)?;
    if memchr::memchr(b'\\', inside.as_bytes()).is_some() {
        return Some(Cow::Owned(Literal::of_raw(raw)?.to_text()));
    }
    Some(Cow::Borrowed(inside))
}

/// A string that is not empty, decoded.
pub fn filled_string(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    raw.and_then(string).filter(|text| !text.is_empty())
}

/// A whole number, written as one.
pub fn integer(raw: &RawValue) -> Option<u64> {
    raw.get().parse().ok()
}

/// A count as some upstreams write it: `12`, `12.0` or null.
pub fn count(raw: &RawValue) -> Option<u64> {
    integer(raw).or_else(|| {
        let number: f64 = raw.get().parse().ok()?;
        // Larger counts of tokens or seconds do not occur, and f64 is exact up to here.
        (0.0..=9_007_199_254_740_992.0)
            .contains(&number)
            .then_some(number as u64)
    })
}

pub fn boolean(raw: &RawValue) -> Option<bool> {
    match raw.get() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

pub fn array(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}
