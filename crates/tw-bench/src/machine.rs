//! The machine under the measurement: the CPU of each thread, and what each process took.

pub mod cpus;
pub mod usage;
