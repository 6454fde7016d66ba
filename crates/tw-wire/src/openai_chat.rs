//! OpenAI's Chat Completions, as upstreams answer it and as clients are answered.
//!
//! Follows the types of openai-python 3.3.1 (`types/chat/`), and recorded answers of some forty
//! vendors where they do otherwise; what they do is listed in each module.

use tw_core::json::Literal;
use tw_core::request::ROUND_GAP;

pub mod request;

pub mod body;
pub mod stream;

pub mod chunks;
pub mod completion;
pub mod error;
pub mod limit_headers;
pub mod no_such_path;
pub mod outcome;

/// The text between those of two rounds.
fn round_gap() -> Literal {
    Literal::from_text(ROUND_GAP)
}

mod answer;
mod calls;
mod chunk_template;
mod client_calls;
mod content;
mod delta;
mod ending;
pub(crate) mod raw;
mod reported;
mod surrogates;
pub(crate) mod write;
