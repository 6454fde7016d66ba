//! Requests that go to an upstream as they are: what is read of their bodies and of the answers.
//!
//! Follows OpenAI's API reference for embeddings, completions, moderations, images and audio, and
//! what vLLM, Jina and Cohere take for reranking. Only the fields that say where a request goes,
//! for whom, and whether its answer is streamed are read; the rest is nobody's business here.

pub mod body;
pub mod usage;

mod form;
