//! A scripted model's answer, played in this process.

use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::scripted::{Script, ScriptedPiece};

pub(super) struct ScriptedBody {
    pieces: VecDeque<ScriptedPiece>,
    /// Time when the pause that is under way ends.
    pause_until: Option<Instant>,
}

impl ScriptedBody {
    /// Waits for the script's head delay and gives status, headers and body.
    pub(super) async fn start(
        script: &Script,
        request: &[u8],
        serial: u64,
    ) -> (u16, HeaderMap, Self) {
        let answer = script.answer(request, serial);
        tokio::time::sleep(answer.head_delay).await;
        let mut headers = HeaderMap::new();
        for (name, value) in &answer.headers {
            if let (Ok(name), Ok(value)) = (
                HeaderName::try_from(name.as_str()),
                HeaderValue::try_from(value.as_str()),
            ) {
                headers.append(name, value);
            }
        }
        (
            answer.status,
            headers,
            Self {
                pieces: answer.body.into(),
                pause_until: None,
            },
        )
    }

    /// # Cancel safety
    /// A pause goes on where it was; no piece is lost.
    pub(super) async fn read(&mut self) -> Option<Result<Bytes, ()>> {
        loop {
            if let Some(until) = self.pause_until {
                tokio::time::sleep_until(until).await;
                self.pause_until = None;
            }
            match self.pieces.pop_front()? {
                ScriptedPiece::Bytes(bytes) => return Some(Ok(bytes)),
                ScriptedPiece::Wait(pause) => self.pause_until = Some(Instant::now() + pause),
                ScriptedPiece::Cut => return Some(Err(())),
                ScriptedPiece::Silence => {
                    self.pieces.push_front(ScriptedPiece::Silence);
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}
