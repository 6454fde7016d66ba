//! Codecs: bytes of foreign formats into the types of `tw-core`, and back.
//!
//! Nothing here opens a socket, reads a clock or is `async`, and no format converts into another
//! one directly: each converts from and to the core types.
//! This crate depends on `tw-core` only.
//! Start reading at [`format::WireFormat`]: nothing outside names a format's own module.

pub mod format;

pub mod anthropic_messages;
pub mod openai_chat;
pub mod openai_responses;

pub mod client_error;
pub mod client_request;
pub mod model_list;
pub mod otlp;
pub mod trace_context;
pub mod upstream_answer;
pub mod webhook_payload;

pub mod crossing;
mod fitting;
pub mod native_words;
mod unshared;

pub mod compaction;
pub mod conversation_request;
pub mod foreign_rows;

pub mod part_addresses;
pub mod passed_headers;
pub mod relayed;
pub mod response_socket;
pub mod shapes;
pub mod sse;
pub mod stored;
pub mod token_count;
