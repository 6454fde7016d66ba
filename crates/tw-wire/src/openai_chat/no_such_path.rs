//! Answers by which servers say that there is nothing at a path, as distinct from a model that they
//! have not.
//!
//! Seen: no body (nginx behind some gateways, axum); `404 page not found` (Go: Ollama);
//! `{"detail":"Not Found"}` (FastAPI: vLLM, SGLang); `{"error":{"message":"File Not Found"}}`
//! (llama.cpp); `Cannot POST /…` (Express); `Invalid URL (POST /…)` (OpenAI); `Unexpected endpoint
//! or method. (POST /…)` (LM Studio); a web page.

use super::reported;

/// Whole messages, in small letters.
const MESSAGES: [&str; 5] = [
    "not found",
    "file not found",
    "404 page not found",
    "404 not found",
    "page not found",
];
/// Beginnings of messages that go on with the path, in small letters.
const BEGINNINGS: [&str; 4] = [
    "cannot post ",
    "invalid url (",
    "unexpected endpoint or method",
    "no route for ",
];

/// Whether an answer with status 404 or 405 says that the path is a wrong one.
pub fn says_no_such_path(status: u16, content_type: Option<&str>, body: &[u8]) -> bool {
    if !matches!(status, 404 | 405) {
        return false;
    }
    let is_page = content_type.is_some_and(|kind| kind.contains("html"));
    let text = String::from_utf8_lossy(body);
    let said = serde_json::from_str(&text)
        .ok()
        .map(|value| reported::message_of(&value));
    let message = match said {
        Some(Some(message)) => message,
        // JSON that says nothing.
        Some(None) => return true,
        None => text.trim().to_owned(),
    };
    let message = message.trim_end_matches('.').to_lowercase();
    status == 405
        || is_page
        || message.is_empty()
        || message.starts_with('<')
        || MESSAGES.contains(&message.as_str())
        || BEGINNINGS.iter().any(|begins| message.starts_with(begins))
}

#[cfg(test)]
mod tests;
