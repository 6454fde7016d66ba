//! The bodies of answers, which know when they were handed over whole.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tw_core::id::TurnId;
use tw_runtime::admin::Caller;
use tw_runtime::runtime::Runtime;

/// Notes that a turn's answer was handed over, once.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) runtime: Runtime,
    pub(crate) caller: Caller,
    pub(crate) turn: TurnId,
}

impl Note {
    pub(crate) fn write(self) {
        self.runtime.mark_answered(&self.caller, self.turn);
    }
}

/// A plain answer.
pub(crate) struct Whole {
    bytes: Option<Bytes>,
    note: Option<Note>,
}

impl Whole {
    pub(crate) fn new(bytes: Vec<u8>, note: Note) -> Self {
        Self {
            bytes: Some(bytes.into()),
            note: Some(note),
        }
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        if let Some(note) = self.note.take() {
            note.write();
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
