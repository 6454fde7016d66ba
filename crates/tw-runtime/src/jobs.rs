//! Jobs that tools have started, and that are asked about until their calls end.
//!
//! No task waits with a job: what is due is a row, claimed in the store by whichever process looks first.

pub(crate) mod poller;
