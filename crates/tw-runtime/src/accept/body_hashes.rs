//! Hashes of a request's body and of its beginnings, read in one pass.

use sha2::{Digest, Sha256};
use tw_core::change::{BodyCuts, BodyPrefix};
use tw_core::request::MessageEnds;

pub(super) struct BodyHashes {
    /// SHA-256 of the whole body.
    pub(super) whole: [u8; 32],
    pub(super) cuts: BodyCuts,
}

impl BodyHashes {
    /// Hashes a body; `ends` are those of this body.
    pub(super) fn read(body: &[u8], ends: MessageEnds) -> Self {
        let mut reading = Reading {
            body,
            hash: Sha256::new(),
            bytes: 0,
        };
        let before_answer = ends.before_answer.map(|end| reading.up_to(end));
        let start = reading.up_to(ends.last);
        let end_hash = Sha256::digest(&body[start.bytes..]).into();
        let whole = reading.up_to(body.len()).hash;
        Self {
            whole,
            cuts: BodyCuts {
                before_answer,
                start,
                end_hash,
            },
        }
    }
}

struct Reading<'a> {
    body: &'a [u8],
    hash: Sha256,
    /// Bytes that were read.
    bytes: usize,
}

impl Reading<'_> {
    fn up_to(&mut self, end: usize) -> BodyPrefix {
        let end = end.clamp(self.bytes, self.body.len());
        self.hash.update(&self.body[self.bytes..end]);
        self.bytes = end;
        BodyPrefix {
            bytes: end,
            hash: self.hash.clone().finalize().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_has_the_hash_that_it_has_by_itself() {
        let body = b"before, more and behind";
        let hash = |text: &[u8]| -> [u8; 32] { Sha256::digest(text).into() };
        let stretch = |bytes: usize| BodyPrefix {
            bytes,
            hash: hash(&body[..bytes]),
        };
        for (before_answer, last) in [(Some(6), 12), (None, 12), (Some(0), 0), (None, body.len())] {
            let ends = MessageEnds {
                before_answer,
                last,
            };
            let read = BodyHashes::read(body, ends);
            assert_eq!(read.whole, hash(body), "{ends:?}");
            let cuts = BodyCuts {
                before_answer: before_answer.map(stretch),
                start: stretch(last),
                end_hash: hash(&body[last..]),
            };
            assert_eq!(read.cuts, cuts, "{ends:?}");
        }
    }
}
