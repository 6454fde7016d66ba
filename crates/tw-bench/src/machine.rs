//! The machine under the measurement: which thread runs where, and what each process took.

pub mod cpus;
pub mod usage;
