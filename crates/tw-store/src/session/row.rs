//! A row that a statement returned, and the values in it.

use super::postgres;
use crate::db_error::{DbError, Failure};

/// A row; whoever reads it copies what is to stay.
#[derive(Clone, Copy)]
pub enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// A value in a row.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    Null,
    Int(i64),
    Bool(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A column of a row, by its place from 0 or by its name.
#[derive(Clone, Copy, Debug)]
pub enum ColumnAt<'a> {
    Place(usize),
    Name(&'a str),
}

impl From<usize> for ColumnAt<'_> {
    fn from(place: usize) -> Self {
        Self::Place(place)
    }
}

impl<'a> From<&'a str> for ColumnAt<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl ColumnAt<'_> {
    fn failed(self) -> DbError {
        let column = match self {
            Self::Place(place) => place.to_string(),
            Self::Name(name) => name.to_owned(),
        };
        Failure::Column { column }.into()
    }
}

impl<'a> Row<'a> {
    /// The value of a column where it stands.
    pub fn column<'n>(self, at: impl Into<ColumnAt<'n>>) -> Result<Column<'a>, DbError> {
        let at = at.into();
        match self {
            Self::Sqlite(row) => sqlite_column(row, at),
            Self::Postgres(row) => postgres::column(row, at),
        }
    }

    /// The value of a column, copied.
    pub fn get<'n, T: FromColumn>(self, at: impl Into<ColumnAt<'n>>) -> Result<T, DbError> {
        let at = at.into();
        T::from_column(self.column(at)?).ok_or_else(|| at.failed())
    }
}

fn sqlite_column<'a>(row: &'a rusqlite::Row<'a>, at: ColumnAt<'_>) -> Result<Column<'a>, DbError> {
    use rusqlite::types::ValueRef;
    let found = match at {
        ColumnAt::Place(place) => row.get_ref(place)?,
        ColumnAt::Name(name) => row.get_ref(name)?,
    };
    match found {
        ValueRef::Null => Ok(Column::Null),
        ValueRef::Integer(number) => Ok(Column::Int(number)),
        ValueRef::Text(text) => std::str::from_utf8(text)
            .map(Column::Text)
            .map_err(|_| at.failed()),
        ValueRef::Blob(bytes) => Ok(Column::Bytes(bytes)),
        ValueRef::Real(_) => Err(at.failed()),
    }
}

impl<'a> Column<'a> {
    /// The text; `None` where there is another kind of value.
    pub fn as_text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Int(_) | Self::Bool(_) | Self::Bytes(_) => None,
        }
    }

    /// The bytes; `None` where there is another kind of value.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Null | Self::Int(_) | Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

/// A type that a column's value can be copied into.
pub trait FromColumn: Sized {
    /// `None` where the value is of another kind, or does not fit.
    fn from_column(value: Column<'_>) -> Option<Self>;
}

macro_rules! from_integer {
    ($($of:ty),+) => {
        $(impl FromColumn for $of {
            fn from_column(value: Column<'_>) -> Option<Self> {
                match value {
                    Column::Int(number) => number.try_into().ok(),
                    Column::Null | Column::Bool(_) | Column::Text(_) | Column::Bytes(_) => None,
                }
            }
        })+
    };
}

from_integer!(i64, u16, u32);

impl FromColumn for bool {
    fn from_column(value: Column<'_>) -> Option<Self> {
        match value {
            Column::Int(number) => Some(number != 0),
            Column::Bool(said) => Some(said),
            Column::Null | Column::Text(_) | Column::Bytes(_) => None,
        }
    }
}

impl FromColumn for String {
    fn from_column(value: Column<'_>) -> Option<Self> {
        value.as_text().map(str::to_owned)
    }
}

impl FromColumn for Vec<u8> {
    fn from_column(value: Column<'_>) -> Option<Self> {
        match value {
            Column::Bytes(bytes) => Some(bytes.to_vec()),
            Column::Null | Column::Int(_) | Column::Bool(_) | Column::Text(_) => None,
        }
    }
}

impl<const N: usize> FromColumn for [u8; N] {
    fn from_column(value: Column<'_>) -> Option<Self> {
        match value {
            Column::Bytes(bytes) => bytes.try_into().ok(),
            Column::Null | Column::Int(_) | Column::Bool(_) | Column::Text(_) => None,
        }
    }
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(value: Column<'_>) -> Option<Self> {
        match value {
            Column::Null => Some(None),
            Column::Int(_) | Column::Bool(_) | Column::Text(_) | Column::Bytes(_) => {
                T::from_column(value).map(Some)
            }
        }
    }
}
