//! Rows that an application appends to a conversation: what it said and ran elsewhere.
//!
//! They are a turn that asked no model, like items that a client adds. A call that they make is a row that the
//! application runs itself, and a result completes its call: those that answer none are refused.

use std::sync::Arc;

use tw_core::call::{CallEnd, CallReason, CallRunner, CallStatus};
use tw_core::change::{NewCall, TurnChange};
use tw_core::id::{CallId, CallRef, QueuedRowId, TurnId};
use tw_core::shape::Shape;
use tw_core::tenant::TurnOwner;
use tw_core::time::Timestamp;
use tw_store::read::ReadError;
use tw_store::read::conversations::ListOrder;
use tw_store::read::head_path::{PathPage, PathPageWanted};
use tw_store::read::items::PathStart;
use tw_store::read::view::ResultDetail;
use tw_wire::client_request::RequestError;
use tw_wire::format::WireFormat;
use tw_wire::shapes::rows::{MadeCall, PairedCalls, RowMessage, pair};
use tw_wire::shapes::{SaidEntry, SaidTurn, ShapeRow, WaitingCall, rows_of};

use crate::auth::Principal;
use crate::conversation_items::{AddItemsError, AddTo, ItemsSent};
use crate::runtime::Runtime;

/// Rows as they were sent.
#[derive(Debug)]
pub struct RowsSent<'a> {
    pub caller: &'a Principal,
    /// The end user whose they are, if they are somebody's.
    pub end_user: Option<String>,
    pub shape: Shape,
    pub rows: Vec<RowMessage>,
    /// SHA-256 of the request, by which a repetition of it is known.
    pub sent_hash: [u8; 32],
    /// The request is marked as a repetition.
    pub is_repetition: bool,
    /// The row that waits for it, where it was inserted by SQL.
    pub queued: Option<QueuedRowId>,
    pub request_id: String,
}

/// Reasons for which no row was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendRowsError {
    #[error(transparent)]
    Refused(#[from] RequestError),
    #[error(transparent)]
    NotAdded(#[from] AddItemsError),
    /// There is such a conversation, which the caller does not see.
    #[error("the conversation is somebody else's")]
    NotSeen,
    #[error("reading the conversation")]
    Read(#[from] ReadError),
}

/// Longest name under which a conversation is made, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// Whether a conversation may be made under this name: printable ASCII, and not blank.
pub fn is_conversation_name(name: &str) -> bool {
    let is_printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    !name.trim().is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_printable)
}

/// Messages and calls of turns that are read at once, the newest first, to find the calls that wait.
const TAIL_MESSAGES_MAX: usize = 256;

impl Runtime {
    /// Appends rows to a conversation, which is made if nobody has one of this name. Returns them as they stand in it.
    ///
    /// # Errors
    /// [`AppendRowsError`].
    pub async fn append_rows(
        &self,
        sent: RowsSent<'_>,
        conversation: &str,
    ) -> Result<Vec<ShapeRow>, AppendRowsError> {
        let caller = sent.caller;
        let whose = TurnOwner {
            api_key: Some(caller.api_key),
            end_user: sent.end_user.clone(),
        };
        let (organization, name) = (caller.organization, conversation.to_owned());
        let path = self.store().conversation_path(
            organization,
            name.clone(),
            whose.clone(),
            PathStart::Head,
        );
        let path = path.await?;
        if let Some(path) = path.as_ref().filter(|_| sent.is_repetition)
            && let Some(turn) = self.added_before(caller, path, sent.sent_hash).await?
        {
            return Ok(self
                .rows_of(caller, conversation, whose, turn, sent.shape)
                .await?);
        }
        let is_new = path.is_none();
        let waiting = match &path {
            None => Vec::new(),
            Some(_) => {
                self.waiting_calls(caller, conversation, whose.clone())
                    .await?
            }
        };
        let calls = pair(&sent.rows, waiting)?;
        let messages: Vec<_> = sent.rows.into_iter().map(|row| row.message).collect();
        let body = WireFormat::body_of_messages(&messages);
        let read = WireFormat::OF_ITEMS.decode_request(&body, self.request_limits())?;
        let mut input = read.input;
        // As the rows have them: their items stand one by one in the body.
        input.messages = messages;
        let items = ItemsSent {
            caller,
            end_user: sent.end_user,
            body,
            input: Arc::new(input),
            sent_hash: sent.sent_hash,
            request_id: sent.request_id,
        };
        let to = match path {
            None => AddTo::Named { conversation: name },
            Some(path) => AddTo::Known {
                conversation: name,
                path,
            },
        };
        let new = self.turn_of_items(items, to);
        let mut changes = self.changes_of(&calls, new.at);
        changes.extend(sent.queued.map(TurnChange::TakeQueuedRow));
        let added = self.accept_items(new, changes).await;
        let turn = match added {
            Ok((turn, _)) => turn,
            Err(AddItemsError::Busy) if is_new => return Err(AppendRowsError::NotSeen),
            Err(error) => return Err(error.into()),
        };
        Ok(self
            .rows_of(caller, conversation, whose, turn, sent.shape)
            .await?)
    }

    fn changes_of(&self, calls: &PairedCalls, at: Timestamp) -> Vec<TurnChange> {
        let made = calls.made.iter().zip(0..).map(|(made, position)| {
            let call = CallRef { round: 0, position };
            TurnChange::AddCall(Box::new(self.outside_call(made, call, at)))
        });
        let completed = calls.completed.iter().filter_map(|(open, given)| {
            let row = open.row.as_ref()?;
            match row.runs {
                // One whose result was deleted has ended before.
                CallRunner::Outside if !row.is_final => Some(TurnChange::EndOutsideCall {
                    call: row.id,
                    is_error: given.is_error,
                    at,
                }),
                // A call that was handed over has ended with that.
                CallRunner::Outside | CallRunner::Client | CallRunner::Server => None,
            }
        });
        made.chain(completed).collect()
    }

    fn outside_call(&self, made: &MadeCall, call: CallRef, at: Timestamp) -> NewCall {
        let end = made.result.as_ref().map(|given| CallEnd {
            reason: given.is_error.then_some(CallReason::ToolError),
            // The result is a block of the turn.
            result: None,
            shown: String::new(),
            is_error: given.is_error,
            cached: false,
        });
        NewCall {
            call,
            id: CallId(self.env().ordered_id()),
            runs: CallRunner::Outside,
            effect: None,
            tool_version: None,
            tool_name: made.tool_name.clone(),
            tool_call_id: made.tool_call_id.clone(),
            arguments: made.arguments.clone(),
            sensitive: None,
            status: end.as_ref().map_or(CallStatus::Pending, CallEnd::status),
            end,
            idempotency_key: String::new(),
            callback_token: None,
            approval: None,
            approves: None,
            at,
        }
    }

    /// The calls at the end of a conversation that wait for a result of the client's.
    async fn waiting_calls(
        &self,
        caller: &Principal,
        conversation: &str,
        whose: TurnOwner,
    ) -> Result<Vec<WaitingCall>, ReadError> {
        let mut from = None;
        loop {
            let wanted = PathPageWanted {
                order: ListOrder::NewestFirst,
                from,
                messages_max: TAIL_MESSAGES_MAX,
                detail: ResultDetail::Shown,
            };
            let name = conversation.to_owned();
            let page = self
                .store()
                .head_path(caller.organization, name, whose.clone(), wanted);
            let PathPage::Page(page) = page.await? else {
                return Ok(Vec::new());
            };
            for of_turn in page.items.iter().skip(usize::from(from.is_some())) {
                let turn = SaidTurn::of(self.record_of(of_turn).await?);
                let is_message = |said: &SaidEntry| matches!(said, SaidEntry::Message(_));
                if turn.said.iter().any(is_message) {
                    return Ok(turn.open);
                }
            }
            // Results may have come in many turns, or in large ones.
            from = match page.items.last() {
                Some(last) if page.has_more => Some(last.view.turn.id),
                Some(_) | None => return Ok(Vec::new()),
            };
        }
    }

    async fn rows_of(
        &self,
        caller: &Principal,
        conversation: &str,
        whose: TurnOwner,
        turn: TurnId,
        shape: Shape,
    ) -> Result<Vec<ShapeRow>, ReadError> {
        let wanted = PathPageWanted {
            order: ListOrder::OldestFirst,
            from: Some(turn),
            messages_max: 1,
            detail: ResultDetail::Shown,
        };
        let name = conversation.to_owned();
        let page = self
            .store()
            .head_path(caller.organization, name, whose, wanted);
        let PathPage::Page(page) = page.await? else {
            return Ok(Vec::new());
        };
        match page.items.first() {
            None => Ok(Vec::new()),
            Some(of_turn) => Ok(rows_of(
                shape,
                &SaidTurn::of(self.record_of(of_turn).await?),
            )),
        }
    }
}
