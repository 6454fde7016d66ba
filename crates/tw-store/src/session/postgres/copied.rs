//! Rows as PostgreSQL's `COPY` takes them in its binary form.

use bytes::{BufMut, Bytes, BytesMut};

use crate::db_error::{DbError, Failure};
use crate::session::bound::{Bound, Params, has_nul, without_nul};

/// What stands before the rows: the signature, no flags, no more of a head.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What stands behind them.
const END: i16 = -1;
const NULL: i32 = -1;

/// Bytes of rows that are sent at once.
const PIECE_BYTES: usize = 256 * 1024;

/// Rows that wait to be sent.
#[derive(Debug, Default)]
pub struct CopiedRows(BytesMut);

impl CopiedRows {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, bound: Params<'_>) -> Result<(), DbError> {
        let out = &mut self.0;
        if out.is_empty() {
            out.put_slice(HEAD);
        }
        out.put_i16(i16::try_from(bound.len()).map_err(|_| Failure::TooLong)?);
        for value in bound {
            match value.bound() {
                Bound::Null(_) => out.put_i32(NULL),
                Bound::Int(number) => {
                    out.put_i32(8);
                    out.put_i64(number);
                }
                Bound::Bool(said) => {
                    out.put_i32(2);
                    out.put_i16(i16::from(said));
                }
                Bound::Text(text) if has_nul(text) => put(out, without_nul(text).as_bytes())?,
                Bound::Text(text) => put(out, text.as_bytes())?,
                Bound::Bytes(bytes) => put(out, bytes)?,
            }
        }
        Ok(())
    }

    /// All of it, in pieces.
    pub fn into_pieces(mut self) -> impl Iterator<Item = Bytes> + Send {
        self.0.put_i16(END);
        std::iter::from_fn(move || {
            let piece = self.0.len().min(PIECE_BYTES);
            (piece > 0).then(|| self.0.split_to(piece).freeze())
        })
    }
}

fn put(out: &mut BytesMut, bytes: &[u8]) -> Result<(), DbError> {
    out.put_i32(i32::try_from(bytes.len()).map_err(|_| Failure::TooLong)?);
    out.put_slice(bytes);
    Ok(())
}
