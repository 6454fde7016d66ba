//! Integration tests of the outside world's edge, through its public functions.

mod client;
mod scripted;
