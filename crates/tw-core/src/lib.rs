//! Turns, tool calls and tenants: what each of them is, and what may happen to it next.
//!
//! Nothing here does I/O, reads a clock, draws a random number or is `async`:
//! time and fresh ids arrive as arguments, and what shall happen to the world leaves as
//! [`change::TurnChange`]s to write and [`turn::Effect`]s to start.
//! This crate depends on no other crate of ours.
//! Start reading at [`turn::Turn::on`].

pub mod turn;

pub mod accepts;
pub mod change;
pub mod conversation;
pub mod effect_words;
pub mod event;
pub mod fault;
pub mod history;
pub mod imported;
pub mod memory;
pub mod model;
pub mod model_names;
pub mod native;
pub mod price;
pub mod quota;
pub mod recall;
pub mod relayed_request;
pub mod request;
pub mod request_changes;
pub mod request_settings;
pub mod shape;
pub mod tenant;
pub mod tool;
pub mod turn_policy;
pub mod turn_status;
pub mod upstream_chain;
pub mod webhook;

pub mod call_file;
pub mod callback;
pub mod hmac_rule;
pub mod job;

pub mod api_request;
pub mod definition;
pub mod parameters;
pub mod template;
pub mod variables;

pub mod approval;
pub mod arguments;
pub mod call;
pub mod call_ids;
pub mod id;
pub mod json;
pub mod limits;
pub mod rate;
pub mod time;
