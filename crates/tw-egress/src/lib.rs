//! The outside world: model providers, tools, the clock and randomness.
//!
//! Every outgoing request leaves from here. This crate knows no database and no HTTP server.
//! Start reading at [`upstream::ModelExchange`] (a model request) and [`tools::run`] (a tool call).

pub mod upstream;

pub mod tools;

pub mod api_request;
pub mod builtin;
pub mod callbacks;
pub mod client;
pub mod env;
pub mod file_downloads;
pub mod idle_timer;
pub mod nats;
pub mod off_thread;
pub mod otlp_sender;
pub mod part_downloads;
pub mod probe;
pub mod scripted;
pub mod secret;
pub mod secrets;
pub mod webhook_sender;
pub mod webhook_signature;

mod exchange;
