//! The answers before the answer (1xx), of which there could be any number.

/// Most interim answers to one request; those who send them at all send one or two.
const ANSWERS_MAX: usize = 8;
/// Most bytes of interim answers, together; as many as one head may have.
const BYTES_MAX: usize = 64 * 1024;

/// Count and size of the interim answers to one request.
#[derive(Debug, Default)]
pub(super) struct InterimResponses {
    answers: usize,
    bytes: usize,
}

impl InterimResponses {
    pub fn add(&mut self, bytes: usize) {
        self.answers += 1;
        self.bytes += bytes;
    }

    /// Whether the interim answers are too many or too large to be read further.
    pub fn is_too_much(&self) -> bool {
        self.answers > ANSWERS_MAX || self.bytes > BYTES_MAX
    }
}
