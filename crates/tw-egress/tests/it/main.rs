//! Integration tests of the outside world's edge, through its public functions.

mod api_request;
mod client;
mod scripted;
