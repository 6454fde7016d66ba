//! Items of calls that this server ran, or asked about: the model knows them as calls like any other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use tw_core::approval::APPROVAL_REASON_BYTES_MAX;
use tw_core::id::CallId;
use tw_core::json::Literal;
use tw_core::model::CallForm;
use tw_core::request::{Block, CallBlock, Message, ResultBlock, Role};
use tw_core::turn::NOT_APPROVED;

use super::{ItemsReader, required_string};
use crate::client_request::RequestError;
use crate::openai_chat::raw::{self, ObjectFields};
use crate::openai_chat::request::{Place, check_result, object};
use crate::openai_responses::options::ApprovalAnswer;
use crate::openai_responses::{SERVER_LABEL, ids};

/// The questions whether calls of this server may run, and what became of those calls.
#[derive(Default)]
pub(super) struct AskedCalls<'a> {
    asked: BTreeSet<CallId>,
    /// The items of the calls that ran, or were denied.
    ran: BTreeMap<CallId, &'a RawValue>,
}

impl<'a> AskedCalls<'a> {
    pub(super) fn of(items: &[&'a RawValue]) -> Self {
        let mut found = Self::default();
        for item in items {
            let Ok(fields) = ObjectFields::parse(item.get()) else {
                continue;
            };
            if !is_ours(&fields) {
                continue;
            }
            let text = |name: &str| raw::filled_string(fields.get(name));
            match text("type").as_deref() {
                Some("mcp_approval_request") => {
                    let asked = text("id").and_then(|id| ids::parse_approval_id(&id));
                    found.asked.extend(asked);
                }
                Some("mcp_call") => {
                    if let Some(asked) = approved_by(&fields) {
                        found.ran.insert(asked, item);
                    }
                }
                Some(_) | None => {}
            }
        }
        found
    }
}

/// The call that an item's call was asked for by.
fn approved_by(fields: &ObjectFields<'_>) -> Option<CallId> {
    let id = raw::filled_string(fields.get("approval_request_id"))?;
    ids::parse_approval_id(&id)
}

pub(super) fn is_ours(fields: &ObjectFields<'_>) -> bool {
    raw::filled_string(fields.get("server_label")).is_some_and(|label| label == SERVER_LABEL)
}

impl ItemsReader<'_> {
    /// A call that this server ran, as it was shown: the model knows it as a call like any other.
    pub(super) fn own_call(
        &mut self,
        fields: &ObjectFields<'_>,
        end: usize,
        place: Place<'_>,
    ) -> Result<(), RequestError> {
        if approved_by(fields).is_some_and(|asked| self.asked.asked.contains(&asked)) {
            // It stands where it was asked for; what comes behind it was said with its result.
            self.approvals.clear();
            self.close();
            return Ok(());
        }
        let id = required_string(fields, "id", place)?;
        let id = ids::parse_own_call_id(&id).map_or(id, |call| call.handed());
        let call = self.call_of_ours(id.clone(), fields, place)?;
        self.model(end, [Block::Call(call)]);
        self.shown_calls.insert(id.clone());
        self.own_result(id, fields, place)
    }

    fn call_of_ours(
        &self,
        id: String,
        fields: &ObjectFields<'_>,
        place: Place<'_>,
    ) -> Result<CallBlock, RequestError> {
        Ok(CallBlock {
            id,
            name: required_string(fields, "name", place)?,
            form: CallForm::Function,
            arguments: self
                .text_of(fields, "arguments", place)?
                .unwrap_or_default(),
            native: None,
        })
    }

    /// A call of this server about which was asked, with what became of it as far as the input says so.
    pub(super) fn asked(
        &mut self,
        fields: &ObjectFields<'_>,
        end: usize,
        place: Place<'_>,
    ) -> Result<(), RequestError> {
        let id = required_string(fields, "id", place)?;
        let Some(asked) = ids::parse_approval_id(&id) else {
            return Ok(());
        };
        let id = asked.handed();
        let call = self.call_of_ours(id.clone(), fields, place)?;
        self.say(end, [Block::Call(call)]);
        match self.asked.ran.get(&asked) {
            Some(ran) => {
                let ran = object(ran, place)?;
                self.own_result(id, &ran, place)
            }
            None => {
                let said = Literal::from_text(NOT_APPROVED);
                let result = Block::Result(ResultBlock::of_text(id, said));
                self.group.results.push(Message {
                    awaits: Some(asked),
                    ..Message::made(Role::Tool, vec![result])
                });
                Ok(())
            }
        }
    }

    fn own_result(
        &mut self,
        id: String,
        fields: &ObjectFields<'_>,
        place: Place<'_>,
    ) -> Result<(), RequestError> {
        let output = self.text_of(fields, "output", place)?;
        let failure = fields.get("error").map(|raw| match raw::literal(raw) {
            Some(text) => text,
            None => Literal::from_text(raw.get()),
        });
        let is_error = failure.is_some();
        // One that was under way when it was shown has neither.
        if let Some(said) = output.or(failure) {
            let result = ResultBlock {
                is_error,
                ..ResultBlock::of_text(id, said)
            };
            let message = Message::made(Role::Tool, vec![Block::Result(result)]);
            check_result(&message, place.field("output"), self.reading.limits)?;
            self.group.results.push(message);
        }
        Ok(())
    }

    pub(super) fn approval(
        &mut self,
        text: &str,
        fields: &ObjectFields<'_>,
        end: usize,
        place: Place<'_>,
    ) -> Result<(), RequestError> {
        let request_id = required_string(fields, "approval_request_id", place)?;
        if ids::parse_approval_id(&request_id).is_none() {
            self.of_client(text, end);
            return Ok(());
        }
        if self
            .approvals
            .iter()
            .any(|answer| answer.request_id == request_id)
        {
            let message = format!("Invalid '{place}': '{request_id}' is answered twice.");
            return Err(RequestError::wrong_value(place, message));
        }
        let reason_place = place.field("reason");
        let reason = match fields.get("reason") {
            Some(raw) => Some(
                raw::string(raw)
                    .ok_or_else(|| RequestError::wrong_type(reason_place, "a string"))?,
            ),
            None => None,
        };
        if let Some(reason) = &reason
            && reason.len() > APPROVAL_REASON_BYTES_MAX
        {
            let message = format!(
                "Invalid '{reason_place}': string too long. Expected a string with maximum length {APPROVAL_REASON_BYTES_MAX}."
            );
            return Err(RequestError {
                code: Some("string_above_max_length"),
                ..RequestError::invalid(reason_place, message)
            });
        }
        let place = place.field("approve");
        let approve = fields
            .get("approve")
            .ok_or_else(|| RequestError::missing(place))?;
        self.approvals.push(ApprovalAnswer {
            request_id,
            approve: raw::boolean(approve)
                .ok_or_else(|| RequestError::wrong_type(place, "a boolean"))?,
            reason: reason
                .filter(|reason| !reason.is_empty())
                .map(|reason| reason.into_owned()),
        });
        Ok(())
    }
}
