//! Anthropic's Messages, driven through the codec's public functions.

mod answers;
mod encoding;
mod recordings;
pub mod requests;
mod writing;

mod log;
#[path = "../it/shared.rs"]
mod shared;
