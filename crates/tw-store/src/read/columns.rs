//! Columns into core types.

use tw_core::model::TokenUsage;
use tw_core::time::Timestamp;
use tw_wire::stored;

use super::ReadError;
use crate::session::row::{Column, FromColumn, Row};

/// A column whose text names a value.
pub fn word<T>(
    row: Row<'_>,
    column: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, ReadError> {
    read(text(row, column)?).ok_or(ReadError::Column { column })
}

/// A column's text where it stands.
pub fn text<'a>(row: Row<'a>, column: &'static str) -> Result<&'a str, ReadError> {
    let found = row.column(column)?.as_text();
    found.ok_or(ReadError::Column { column })
}

/// The same for a column that may be null.
pub fn optional_word<T>(
    row: Row<'_>,
    column: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ReadError> {
    if let Column::Null = row.column(column)? {
        return Ok(None);
    }
    word(row, column, read).map(Some)
}

pub fn time(row: Row<'_>, column: &'static str) -> Result<Timestamp, ReadError> {
    Ok(Timestamp(row.get(column)?))
}

pub fn optional_time(row: Row<'_>, column: &'static str) -> Result<Option<Timestamp>, ReadError> {
    Ok(row.get::<Option<i64>>(column)?.map(Timestamp))
}

pub fn usage(row: Row<'_>, column: &'static str) -> Result<Option<TokenUsage>, ReadError> {
    let text: Option<String> = row.get(column)?;
    Ok(text
        .map(|text| stored::events::decode_usage(&text))
        .transpose()?)
}

pub fn get<T: FromColumn>(row: Row<'_>, column: &'static str) -> Result<T, ReadError> {
    Ok(row.get(column)?)
}

/// A count or number that is never negative.
pub fn unsigned(row: Row<'_>, column: &'static str) -> Result<u64, ReadError> {
    u64::try_from(row.get::<i64>(column)?).map_err(|_| ReadError::Column { column })
}
