//! Rows on their way from one database to another, and their sum.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, BytesMut};
use sha2::{Digest, Sha256};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::session::bound::{has_nul, without_nul};

/// Rows and bytes at which a batch is handed on. One row may be longer.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 1024 * 1024;

/// Bytes that a value takes beside what it holds.
const VALUE_BYTES: usize = size_of::<CopiedValue>();

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopiedValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// What becomes of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRule {
    AsItIs,
    /// NUL becomes U+FFFD, as in all that is written to a server.
    WithoutNul,
}

/// Rows of one table.
#[derive(Debug)]
pub struct RowBatch {
    columns: usize,
    /// Row by row.
    values: Vec<CopiedValue>,
    bytes: usize,
    pub texts_changed: u64,
}

impl RowBatch {
    pub fn new(columns: usize) -> Self {
        Self {
            columns: columns.max(1),
            values: Vec::new(),
            bytes: 0,
            texts_changed: 0,
        }
    }

    /// Adds the next value of the last row.
    pub fn push(&mut self, value: CopiedValue) {
        self.bytes += VALUE_BYTES;
        self.bytes += match &value {
            CopiedValue::Null | CopiedValue::Int(_) => 0,
            CopiedValue::Text(text) => text.len(),
            CopiedValue::Bytes(bytes) => bytes.len(),
        };
        self.values.push(value);
    }

    /// [`RowBatch::push`] of a text by the rule.
    pub fn push_text(&mut self, text: &str, rule: TextRule) {
        if rule == TextRule::WithoutNul && has_nul(text) {
            self.texts_changed += 1;
            self.push(CopiedValue::Text(without_nul(text)));
        } else {
            self.push(CopiedValue::Text(text.to_owned()));
        }
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES || self.values.len() >= BATCH_ROWS * self.columns
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn rows(&self) -> u64 {
        u64::try_from(self.values.len() / self.columns).unwrap_or(u64::MAX)
    }

    pub fn iter(&self) -> std::slice::ChunksExact<'_, CopiedValue> {
        self.values.chunks_exact(self.columns)
    }
}

/// The rows of a table: how many, and a checksum in which their order does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSum {
    pub rows: u64,
    /// Of each row the first half of the SHA-256 of its values, added up.
    pub checksum: u128,
}

impl fmt::Display for TableSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {:032x}", self.rows, self.checksum)
    }
}

impl TableSum {
    pub fn add(&mut self, batch: &RowBatch) {
        for row in batch.iter() {
            self.rows += 1;
            self.checksum = self.checksum.wrapping_add(row_checksum(row));
        }
    }
}

fn row_checksum(row: &[CopiedValue]) -> u128 {
    let mut hasher = Sha256::new();
    for value in row {
        match value {
            CopiedValue::Null => hasher.update([0]),
            CopiedValue::Int(number) => {
                hasher.update([1]);
                hasher.update(number.to_be_bytes());
            }
            CopiedValue::Text(text) => add_bytes(&mut hasher, 2, text.as_bytes()),
            CopiedValue::Bytes(bytes) => add_bytes(&mut hasher, 3, bytes),
        }
    }
    let digest: [u8; 32] = hasher.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(half)
}

/// With their length, so that no two lists of values are hashed alike.
fn add_bytes(hasher: &mut Sha256, kind: u8, bytes: &[u8]) {
    hasher.update([kind]);
    hasher.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
    hasher.update(bytes);
}

impl ToSql for CopiedValue {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Int(number) if *ty == Type::INT2 => out.put_i16(i16::try_from(*number)?),
            Self::Int(number) if *ty == Type::INT4 => out.put_i32(i32::try_from(*number)?),
            Self::Int(number) => out.put_i64(*number),
            Self::Text(text) => out.put_slice(text.as_bytes()),
            Self::Bytes(bytes) => out.put_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        [
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::TEXT,
            Type::VARCHAR,
            Type::BYTEA,
        ]
        .contains(ty)
    }

    to_sql_checked!();
}
