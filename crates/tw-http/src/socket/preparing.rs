//! Responses that are prepared and not made: their input is taken, and the next message goes on from there.

use tw_core::event::{LogEvent, TurnEnd};
use tw_core::id::TurnId;
use tw_core::model::Finish;
use tw_core::tenant::KeyScope;
use tw_core::time::Timestamp;
use tw_core::turn_status::TurnStatus;
use tw_wire::format::StreamFold;
use tw_wire::response_socket::{CreateMessage, PreparedInput};

use super::SocketSession;
use crate::access;
use crate::error::ApiError;
use crate::gateway::{HeldAnswer, RequestOrigin};
use crate::responses::SURFACE;
use crate::server::RequestId;

/// Input that was taken on a connection. It is there for as long as the connection, and in no record.
#[derive(Debug)]
pub(super) struct PreparedResponse {
    /// The name by which it is continued.
    pub name: String,
    pub input: PreparedInput,
    /// The response of the connection that it continues.
    pub behind: Option<HeldAnswer>,
}

/// A prepared response, and what its client is told of it.
pub(super) struct Preparation {
    pub response: PreparedResponse,
    /// Server-sent events.
    pub events: Vec<u8>,
}

impl SocketSession {
    /// Takes the input of a message. What is wrong with it is told now, and not when the model is asked.
    pub(super) async fn prepare(
        &self,
        id: &RequestId,
        message: CreateMessage,
    ) -> Result<Preparation, ApiError> {
        let of = RequestOrigin {
            surface: &SURFACE,
            surfaces: &self.surfaces,
            id,
        };
        let runtime = self.surfaces.runtime();
        let scope = Some(KeyScope::Chat);
        let caller = access::authenticated(&self.surfaces, &self.key, scope, id).await?;
        let own = PreparedInput::of(&message.body);
        let goes_on = message.continues.clone();
        let message = if own.is_empty() {
            // Settings alone are prepared, too: they are checked with a text in the place of the input.
            let body = PreparedInput::stand_in(&message.body).before(&message.body);
            CreateMessage { body, ..message }
        } else {
            message
        };
        let wanted = self.read(&of, &caller, message).await?;
        let prepared = self.prepared.as_ref();
        let prepared = prepared.filter(|it| goes_on.as_deref() == Some(&*it.name));
        let input = match prepared {
            Some(prepared) if own.is_empty() => prepared.input.clone(),
            None if own.is_empty() => own,
            Some(_) | None => PreparedInput::of(&wanted.body),
        };
        let turn = TurnId(runtime.env().ordered_id());
        let name = SURFACE.format.name_of_answer(turn);
        let name = name.ok_or_else(|| ApiError::unavailable("This response has no name."))?;
        let mut projection = wanted.projection;
        let continues = projection.continues().map(str::to_owned);
        let named = |held: &&HeldAnswer| Some(&held.name) == continues.as_ref();
        let held = [
            self.held.as_ref(),
            self.prepared.as_ref().and_then(|it| it.behind.as_ref()),
        ];
        let behind = held.into_iter().flatten().find(named).cloned();
        projection.set_kept(false);
        let mut fold = StreamFold::new(turn, projection);
        let mut events = Vec::new();
        for event in log_of(turn, wanted.input.model.clone(), runtime.env().now()) {
            fold.push(&event, &mut events);
        }
        let response = PreparedResponse {
            name,
            input,
            behind,
        };
        Ok(Preparation { response, events })
    }
}

/// The log of a turn that says nothing.
fn log_of(turn: TurnId, model: String, now: Timestamp) -> [LogEvent; 4] {
    [
        LogEvent::Start {
            model,
            created_s: turn.created_s(),
        },
        LogEvent::Finish {
            choice: 0,
            reason: Finish::Stop,
        },
        LogEvent::Usage(Box::default()),
        LogEvent::End(Box::new(TurnEnd {
            status: TurnStatus::Completed,
            reason: None,
            fault: None,
            effects: Vec::new(),
            at: Some(now),
        })),
    ]
}
