//! A request with its tools, its history and what it answers, before its turn begins.

use std::sync::Arc;

use tw_core::id::TurnId;
use tw_core::request::ModelInput;
use tw_core::tenant::ToolGrant;
use tw_core::turn::{OfferError, OfferOutcome, OfferRules, ToolOffer, offer};

use super::{TurnRefused, TurnRequest, record_of};
use crate::approvals::{
    self, ActedAnswers, AnswersRefused, AnswersUse, QuestionReader, SettledRequest,
};
use crate::chain;
use crate::memory::{self, MemorySource};
use crate::prepared_history::{self, PreparedHistory};
use crate::recall::HistoryOwner;
use crate::runtime::Runtime;
use crate::tool_book::ToolBookPage;

/// A request with its tools and its history, before its turn begins.
pub(super) struct PreparedRequest {
    pub(super) offered: OfferOutcome,
    /// The page of the tool book that the tools are from; `None` for a relay.
    pub(super) page: Option<Arc<ToolBookPage>>,
    /// The request, behind what it continues by name.
    pub(super) input: Arc<ModelInput>,
    pub(super) prepared: PreparedHistory,
    /// The public id of its conversation.
    pub(super) conversation: String,
    /// The answers that its turn acts on.
    pub(super) acts: ActedAnswers,
}

/// Reasons for which a request is not prepared.
pub(super) enum NotPrepared {
    Refused(TurnRefused),
    /// An equal request brought its answers before, and this turn acted on them.
    Answered {
        turn: TurnId,
    },
}

impl From<TurnRefused> for NotPrepared {
    fn from(refused: TurnRefused) -> Self {
        Self::Refused(refused)
    }
}

impl From<AnswersRefused> for NotPrepared {
    fn from(refused: AnswersRefused) -> Self {
        Self::Refused(match refused {
            AnswersRefused::Repeated { turn } => return Self::Answered { turn },
            AnswersRefused::NotFound => TurnRefused::NoSuchQuestion,
            AnswersRefused::Closed => TurnRefused::QuestionClosed,
            AnswersRefused::Read(error) => TurnRefused::Read(error),
        })
    }
}

impl From<NotPrepared> for TurnRefused {
    fn from(error: NotPrepared) -> Self {
        match error {
            NotPrepared::Refused(refused) => refused,
            // Handled before this; nothing is begun either way.
            NotPrepared::Answered { .. } => Self::QuestionClosed,
        }
    }
}

impl Runtime {
    /// What the model is offered and sent.
    pub(super) async fn prepared(
        &self,
        request: &TurnRequest,
        end_user: Option<&str>,
        answers: (AnswersUse, [u8; 32]),
    ) -> Result<PreparedRequest, NotPrepared> {
        let inner = &self.0;
        let (offered, page) = self.offered(request).await?;
        let owner = HistoryOwner {
            organization: request.caller.organization,
            api_key: request.caller.api_key,
            end_user,
            conversation: request.conversation.as_deref(),
        };
        let previous = request.previous.as_deref();
        let source = match (previous, &request.added_to) {
            (Some(_), _) | (None, Some(_)) => MemorySource::Named,
            (None, None) => {
                let (memory, record) = (request.caller.memory, record_of(request));
                MemorySource::History(memory::scope(inner, owner, memory, record))
            }
        };
        let input = chain::input_of(&request.input, previous);
        let messages_max = inner.config.request.messages_max;
        if previous.is_some() && input.messages.len() > messages_max {
            let param = request.previous_param();
            return Err(TurnRefused::too_many_before(messages_max, param).into());
        }
        let reader = QuestionReader::of(request, &request.caller, end_user);
        let SettledRequest {
            input,
            acts,
            asked_by,
        } = approvals::settle(inner, request, reader, input, answers).await?;
        let mut prepared = prepared_history::prepare(inner, owner, source, &input, &offered.offer)
            .await
            .map_err(TurnRefused::Read)?;
        if prepared.repaired.as_ref().is_some_and(Vec::is_empty) {
            return Err(TurnRefused::Invalid {
                message:
                    "Invalid 'messages': they hold only results of calls that no message makes."
                        .to_owned(),
                param: "messages",
                code: "invalid_value",
            }
            .into());
        }
        if asked_by.is_some() {
            prepared.continued = asked_by;
        }
        if let Some(previous) = previous {
            prepared.continued = Some((previous.turn, previous.conversation.clone()));
        }
        prepared.repairs.tool_schemas = offered.schemas_replaced;
        let conversation = request
            .conversation
            .clone()
            .or_else(|| prepared.continued.as_ref().map(|(_, named)| named.clone()))
            .unwrap_or_else(|| inner.env.ordered_id().hyphenated().to_string());
        Ok(PreparedRequest {
            offered,
            page,
            input,
            prepared,
            conversation,
            acts,
        })
    }

    /// The tools that the request is offered, and the page of the tool book that they are from; none for a relay.
    async fn offered(
        &self,
        request: &TurnRequest,
    ) -> Result<(OfferOutcome, Option<Arc<ToolBookPage>>), TurnRefused> {
        let relay = OfferOutcome {
            offer: ToolOffer::Relay,
            schemas_replaced: 0,
            names_shared: Vec::new(),
            left_out: Vec::new(),
        };
        let inner = &self.0;
        let caller = &request.caller;
        // A plain relay need not look into the book.
        if !inner.config.tools_enabled || caller.tools == ToolGrant::None {
            return Ok((relay, None));
        }
        let now = inner.env.now();
        let page = inner
            .book
            .page(&inner.store, caller.organization, now)
            .await?;
        let Some(page) = page else {
            return Ok((relay, None));
        };
        let rules = OfferRules {
            grant: &caller.tools,
            mode: request.tools_mode.unwrap_or(caller.tools_mode),
            approvals: request.projection.format().approval_words(),
            tools_max: inner.config.request.tools_max,
        };
        let offered = offer(&request.input, &rules, &page.tools);
        let offered = offered.map_err(|error| {
            let param = match error {
                OfferError::MixedByName => "functions",
                OfferError::TooMany { .. } | OfferError::TooLarge { .. } => "tools",
                OfferError::SeveralChoices => "n",
            };
            TurnRefused::Invalid {
                message: error.to_string(),
                param,
                code: "unsupported",
            }
        })?;
        let page = (!offered.offer.is_relay()).then_some(page);
        Ok((offered, page))
    }
}
