//! Values that are bound to the places of a statement.

use std::borrow::Cow;
use std::sync::Arc;

/// A value as it is bound; nothing is copied for it.
#[derive(Clone, Copy, Debug)]
pub enum Bound<'a> {
    Null(ColumnKind),
    Int(i64),
    Bool(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// The kinds of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Int,
    Bool,
    Text,
    Bytes,
}

impl Bound<'_> {
    pub fn kind(&self) -> ColumnKind {
        match self {
            Self::Null(kind) => *kind,
            Self::Int(_) => ColumnKind::Int,
            Self::Bool(_) => ColumnKind::Bool,
            Self::Text(_) => ColumnKind::Text,
            Self::Bytes(_) => ColumnKind::Bytes,
        }
    }
}

/// Whether a text holds NUL, which not every database can hold: it is bound as [`without_nul`], by each engine.
pub fn has_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// The text with NUL made visible.
pub fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A value that can be bound.
pub trait BindValue {
    fn bound(&self) -> Bound<'_>;
}

/// A type whose values are all of one kind, so that none of them is one, too.
pub trait BindKind: BindValue {
    const KIND: ColumnKind;
}

/// The values for the places of a statement, in order.
pub type Params<'a> = &'a [&'a dyn BindValue];

/// The values for the places of a statement, in order.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::session::bound::BindValue),*] as $crate::session::bound::Params<'_>
    };
}
pub(crate) use params;

/// Binds types by an expression of their value.
macro_rules! bind {
    ($($kind:ident: $($of:ty)|+ => |$value:ident| $bound:expr;)+) => {
        $($(
            impl BindValue for $of {
                fn bound(&self) -> Bound<'_> {
                    let $value = self;
                    Bound::$kind($bound)
                }
            }
            impl BindKind for $of {
                const KIND: ColumnKind = ColumnKind::$kind;
            }
        )+)+
    };
}

bind! {
    Int: i64 => |value| *value;
    Int: u8 | u16 | u32 | i32 => |value| i64::from(*value);
    Bool: bool => |value| *value;
    Text: str | String | Box<str> | Arc<str> => |value| value;
    Bytes: [u8] | Vec<u8> => |value| value;
}

impl<const N: usize> BindValue for [u8; N] {
    fn bound(&self) -> Bound<'_> {
        Bound::Bytes(self)
    }
}

impl<const N: usize> BindKind for [u8; N] {
    const KIND: ColumnKind = ColumnKind::Bytes;
}

impl BindValue for Cow<'_, str> {
    fn bound(&self) -> Bound<'_> {
        Bound::Text(self)
    }
}

impl BindKind for Cow<'_, str> {
    const KIND: ColumnKind = ColumnKind::Text;
}

impl<T: BindValue + ?Sized> BindValue for &T {
    fn bound(&self) -> Bound<'_> {
        (**self).bound()
    }
}

impl<T: BindKind + ?Sized> BindKind for &T {
    const KIND: ColumnKind = T::KIND;
}

impl<T: BindKind> BindValue for Option<T> {
    fn bound(&self) -> Bound<'_> {
        self.as_ref().map_or(Bound::Null(T::KIND), T::bound)
    }
}

impl<T: BindKind> BindKind for Option<T> {
    const KIND: ColumnKind = T::KIND;
}
