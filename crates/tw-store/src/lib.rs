//! Rows and SQL: what is written down, and how it is read again.
//!
//! Writes are [`tw_core::change::ChangeGroup`]s, applied by one function, `apply::apply`;
//! reads are functions of [`store::Store`], each with the organization first. What has no
//! organization to be asked for (keys by their hash, turns that nobody drives) is in [`system`].
//! Nothing here decides what may happen, reads a clock or draws a random number.
//! Start reading at [`store::Store::open`].

pub mod store;

pub mod apply;
mod blob;
mod body;
mod session;
mod writer;

pub mod read;
pub mod system;

pub mod backup;
mod connection;
pub mod copy;
pub mod db_error;
mod enum_words;
pub mod figures;
pub mod foreign;
pub mod inspection;
pub mod migrate;
pub mod shape_views;

#[cfg(feature = "faults")]
pub mod faults;
#[cfg(feature = "null-writer")]
mod null_writer;
