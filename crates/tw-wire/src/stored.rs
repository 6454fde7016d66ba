//! The one codec of the JSON that we store: log events, message blocks, a turn's context.
//!
//! Values are JSON arrays and objects with short keys; literals and foreign JSON are spliced in
//! as they are. Decoding is strict: an unknown word or kind is an error, so a record of a newer
//! version is refused instead of misread. The turn's `projector_version` names this version.

pub mod blocks;
pub mod client_events;
pub mod context;
pub mod events;
pub mod imported;
pub mod responses_options;
pub mod sensitive_call;
pub mod tool;

/// The version of the stored form and of the folds over it.
pub const PROJECTOR_VERSION: i64 = 1;

/// A stored text that this version cannot read: it is damaged, or newer than this program.
#[derive(Debug, thiserror::Error)]
#[error("stored {what}: {problem}")]
pub struct DamagedRecord {
    pub what: &'static str,
    pub problem: String,
}

impl DamagedRecord {
    fn new(what: &'static str, problem: impl ToString) -> Self {
        Self {
            what,
            problem: problem.to_string(),
        }
    }
}

pub use crate::native_words::format as format_named;

#[cfg(test)]
mod tests;
