//! Calls that have a table of their own, led beside their turns.

use rusqlite::types::ValueRef;
use rusqlite::{Rows, Statement};

use super::super::{ForeignError, NamedForeignRow};
use super::FileTable;

/// The calls of a file, in the order of their turns, which they are told apart by.
pub struct CallRows<'c> {
    statement: Statement<'c>,
    table: &'c FileTable,
}

/// Calls that are being read.
pub struct CallsRead<'s> {
    rows: Rows<'s>,
    table: &'s FileTable,
    /// The turn of the call that was read, and that call.
    next: Option<(KeyValue, NamedForeignRow)>,
}

impl<'c> CallRows<'c> {
    pub fn of(statement: Statement<'c>, table: &'c FileTable) -> Self {
        Self { statement, table }
    }

    pub fn begin(&mut self) -> Result<CallsRead<'_>, ForeignError> {
        let mut read = CallsRead {
            rows: self.statement.query([])?,
            table: self.table,
            next: None,
        };
        read.step()?;
        Ok(read)
    }
}

impl CallsRead<'_> {
    fn step(&mut self) -> Result<(), ForeignError> {
        self.next = match self.rows.next()? {
            Some(row) => Some((KeyValue::of(row.get_ref(0)?), self.table.row(row, 1)?)),
            None => None,
        };
        Ok(())
    }

    /// The calls of a turn, which is the next one in order.
    pub fn take_of(&mut self, turn: &KeyValue) -> Result<Vec<NamedForeignRow>, ForeignError> {
        let mut calls = Vec::new();
        while let Some((_, call)) = self.next.take_if(|next| next.0 == *turn) {
            calls.push(call);
            self.step()?;
        }
        Ok(calls)
    }
}

/// A value that is compared with others of its column. A text may be no UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyValue {
    Null,
    Integer(i64),
    /// By its bits.
    Real(u64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl KeyValue {
    pub fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number.to_bits()),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}
