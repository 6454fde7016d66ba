//! OpenAI Responses, both ways: requests, answers of upstreams, and turns as responses.

mod answers;
mod folds;
mod requests;
mod sent;
