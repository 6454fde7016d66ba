//! Values to and from PostgreSQL, in its binary form.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use futures_util::TryStreamExt;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error as PgError, Row as PgRow, Statement as PgStatement};

use crate::db_error::DbError;
use crate::session::bound::{Bound, Params, has_nul, without_nul};
use crate::session::row::{Column, ColumnAt};

impl ToSql for Bound<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            Self::Null(_) => return Ok(IsNull::Yes),
            Self::Int(number) => out.put_i64(number),
            Self::Bool(said) => out.put_i64(i64::from(said)),
            Self::Text(text) if has_nul(text) => out.put_slice(without_nul(text).as_bytes()),
            Self::Text(text) => out.put_slice(text.as_bytes()),
            Self::Bytes(bytes) => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    /// The places were given the types of the values.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A value that outlives whoever bound it.
#[derive(Debug)]
pub enum OwnedValue {
    Null,
    Int(i64),
    Bytes(Box<[u8]>),
}

impl OwnedValue {
    pub fn all(bound: Params<'_>) -> Vec<Self> {
        let of = |bound: Bound<'_>| match bound {
            Bound::Null(_) => Self::Null,
            Bound::Int(number) => Self::Int(number),
            Bound::Bool(said) => Self::Int(i64::from(said)),
            Bound::Text(text) if has_nul(text) => {
                Self::Bytes(without_nul(text).into_bytes().into())
            }
            Bound::Text(text) => Self::Bytes(text.as_bytes().into()),
            Bound::Bytes(bytes) => Self::Bytes(bytes.into()),
        };
        bound.iter().map(|value| of(value.bound())).collect()
    }
}

impl ToSql for OwnedValue {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Int(number) => out.put_i64(*number),
            Self::Bytes(bytes) => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The rows of a statement.
pub async fn query(
    client: &Client,
    statement: &PgStatement,
    bound: Params<'_>,
) -> Result<Vec<PgRow>, PgError> {
    let values = bound.iter().map(|value| value.bound());
    let rows = client
        .query_raw(statement, values.collect::<Vec<_>>())
        .await?;
    rows.try_collect().await
}

impl<'a> FromSql<'a> for Column<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *ty {
            Type::BOOL => Self::Bool(bool::from_sql(ty, raw)?),
            Type::INT2 => Self::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Self::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::BYTEA => Self::Bytes(raw),
            _ => Self::Text(std::str::from_utf8(raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(ty: &Type) -> bool {
        [
            Type::BOOL,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::BYTEA,
            Type::TEXT,
            Type::VARCHAR,
        ]
        .contains(ty)
    }
}

/// The value of a column of a row.
pub fn column<'a>(row: &'a PgRow, at: ColumnAt<'_>) -> Result<Column<'a>, DbError> {
    Ok(match at {
        ColumnAt::Place(place) => row.try_get(place)?,
        ColumnAt::Name(name) => row.try_get(name)?,
    })
}
