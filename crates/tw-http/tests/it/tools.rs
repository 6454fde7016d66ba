//! Tools as data: the API that keeps them, and turns that call them, over real sockets.

pub mod lab;
mod raw;

mod access;
mod api;
mod approvals;
mod bad_bodies;
mod bad_definitions;

mod cache;
mod guard;
mod noticed;
mod recovery;
mod secrets;
mod sent;
mod variables;
mod versions;
