//! Anthropic's Messages, driven through the codec's public functions.

mod answers;
mod encoding;
mod recordings;
mod requests;
mod writing;

mod log;
