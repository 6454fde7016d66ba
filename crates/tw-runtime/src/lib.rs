//! Performs what the core decides.
//!
//! A turn has one driver, a task that feeds the machine with events, applies what it writes and
//! starts what it wants started. Everybody else reads the turn's log from the store.
//! This crate knows no HTTP server and no SQL. Start reading at [`driver`] and [`accept`].

pub mod accept;
mod driver;
pub mod driver_panics;

pub mod chain;
pub mod conversation_items;
pub mod conversation_messages;
pub mod conversation_rows;
pub mod conversations;
pub mod export;
pub mod follow;
pub mod forgetting;
pub mod import;
pub mod kept_answer;
pub mod keys;
pub mod models;
pub mod relay;
mod replica_messages;
mod replicas;
pub mod runtime;
pub mod tools;

pub mod admin;
mod answered_notes;
mod approvals;
mod assembly;
pub mod auth;
mod byte_units;
pub mod callbacks;
mod early_retries;
mod equal_requests;
pub mod error_chain;
pub mod fail_point;
pub mod files;
mod jobs;
pub mod limiter;
mod live_turns;
mod logged_owner;
mod masking;
mod memory;
pub mod metrics;
pub mod open_calls;
mod orphaned_turns;
mod owned_tasks;
mod prepared_history;
pub mod queued_rows;
pub mod quotas;
mod recall;
pub mod recover;
pub mod recovery_pace;
mod results;
pub mod retention;
pub mod retold;
pub mod sealing;
mod slots;
pub mod spending;
pub mod telemetry;
mod to_client;
mod tool_book;
mod tool_time;
mod variables;
pub mod webhooks;
