//! The answers before the answer (1xx), of which there could be any number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;

/// Most interim answers to one request; those who send them at all send one or two.
const ANSWERS_MAX: usize = 8;
/// Most bytes of their headers, together; as many as one head may have.
const HEADERS_BYTES_MAX: usize = 64 * 1024;

/// What came before the answer to one request.
///
/// hyper reads past interim answers for as long as there is something to read, and nobody else
/// on that thread gets a turn. So whoever reads the connection for it looks here first.
#[derive(Clone, Debug, Default)]
pub(super) struct Interim(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    answers: AtomicUsize,
    header_bytes: AtomicUsize,
}

impl Interim {
    /// Begins anew, for the next request.
    pub fn begin(&self) {
        self.0.answers.store(0, Ordering::Relaxed);
        self.0.header_bytes.store(0, Ordering::Relaxed);
    }

    pub fn add(&self, headers: &HeaderMap) {
        let bytes_of = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + ": \r\n".len()
        };
        let bytes = headers.iter().map(bytes_of).sum();
        self.0.answers.fetch_add(1, Ordering::Relaxed);
        self.0.header_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether nothing more is to be read.
    pub fn is_too_much(&self) -> bool {
        self.0.answers.load(Ordering::Relaxed) > ANSWERS_MAX
            || self.0.header_bytes.load(Ordering::Relaxed) > HEADERS_BYTES_MAX
    }
}
