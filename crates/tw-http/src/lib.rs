//! The HTTP surfaces.
//!
//! A handler decodes, checks access, calls one function of the runtime and encodes; it never
//! retries, spawns or speaks SQL. Start reading at `routes`.

pub mod server;

mod open_calls;
mod openapi;
mod routes;

mod chat;
mod gateway;
mod messages;
mod responses;

mod compact;

mod calls;
mod conversations;
mod kept;
mod keys;
mod relay;
mod tools;
mod turns;
mod usage;
mod users;
mod webhooks;

mod events;

mod files;
mod health;
mod hooks;
pub mod metrics;
mod models;

mod access;
mod answer_body;
pub mod cors;
pub mod error;
mod render_turn;
mod request_body;
mod sealed;
mod socket;
mod surface_format;
