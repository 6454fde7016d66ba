//! Answers to questions whether calls may run: which of them a request may give, and what became of the calls that a
//! history holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use tw_core::approval::{AnsweredCall, ApprovalGiven, ApprovalState, ApprovalVerdict};
use tw_core::call::CallEnd;
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::request::{Message, ModelInput, Role};
use tw_core::tenant::KeyScope;
use tw_core::time::Timestamp;
use tw_core::tool::Tool;
use tw_core::turn::{APPROVED_AND_RUNNING, with_result};
use tw_core::turn_policy::Surface;
use tw_store::read::ReadError;
use tw_store::read::approvals::{ActedCall, ApprovalRow};
use tw_store::read::turn::CallRow;
use tw_wire::client_request::body_text;

use crate::accept::TurnRequest;
use crate::auth::Principal;
use crate::driver::CallContext;
use crate::recover::accepted_limits;
use crate::runtime::RuntimeInner;
use crate::tool_book;
use crate::variables::VariableSubject;

/// Text for the model in place of a result that was erased.
const LOST_RESULT: &str = "This call was approved and has ended, but its result is no longer kept.";

/// What is done with a request's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswersUse {
    Act,
    /// They were acted on before, or nothing is to run: the record says what came of them.
    Recall,
}

/// Reasons for which a request's answers are not acted on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswersRefused {
    /// Nobody may know more: there is no such question for this request.
    #[error("there is no such question")]
    NotFound,
    #[error("the question was answered before")]
    Closed,
    /// An equal request brought the answer before.
    #[error("an equal request brought the answer before")]
    Repeated { turn: TurnId },
    #[error("reading the questions")]
    Read(#[from] ReadError),
}

/// Whoever continues a history in which there are questions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuestionReader<'a> {
    pub(crate) organization: OrgId,
    pub(crate) surface: Surface,
    pub(crate) end_user: Option<&'a str>,
    /// `None` for one who may see the turns of every key.
    pub(crate) api_key: Option<ApiKeyId>,
}

/// The answers that a turn acts on.
#[derive(Debug, Default)]
pub(crate) struct ActedAnswers {
    pub(crate) answered: Vec<AnsweredCall>,
    /// What the calls need to run; `None` if nothing does.
    pub(crate) calls: Option<CallContext>,
}

/// A request whose answers were read.
#[derive(Debug)]
pub(crate) struct SettledRequest {
    pub(crate) input: Arc<ModelInput>,
    pub(crate) acts: ActedAnswers,
    /// The turn that asked about them, and its conversation.
    pub(crate) asked_by: Option<(TurnId, String)>,
}

impl<'a> QuestionReader<'a> {
    pub(crate) fn of(request: &TurnRequest, caller: &Principal, end_user: Option<&'a str>) -> Self {
        let sees_all = caller.may(KeyScope::TurnsReadAll);
        Self {
            organization: caller.organization,
            surface: request.surface,
            end_user,
            api_key: (!sees_all).then_some(caller.api_key),
        }
    }

    fn sees(&self, row: &ApprovalRow) -> bool {
        row.surface == self.surface
            && row.end_user.as_deref() == self.end_user
            && self.api_key.is_none_or(|key| key == row.api_key)
    }

    async fn read(
        &self,
        inner: &RuntimeInner,
        asked: BTreeSet<CallId>,
    ) -> Result<Vec<ApprovalRow>, ReadError> {
        let asked = asked.into_iter().collect();
        let rows = inner.store.approvals(self.organization, asked).await?;
        Ok(rows.into_iter().filter(|row| self.sees(row)).collect())
    }
}

/// Reads what a request answers, and puts into its history what became of other calls that were asked about.
pub(crate) async fn settle(
    inner: &RuntimeInner,
    request: &TurnRequest,
    reader: QuestionReader<'_>,
    input: Arc<ModelInput>,
    (using, body_hash): (AnswersUse, [u8; 32]),
) -> Result<SettledRequest, AnswersRefused> {
    let given = match using {
        AnswersUse::Act => request.projection.approvals(),
        AnswersUse::Recall => Vec::new(),
    };
    let mut asked: BTreeSet<CallId> = given.iter().map(|answer| answer.asked).collect();
    asked.extend(awaited(&input.messages));
    if asked.is_empty() {
        return Ok(SettledRequest {
            input,
            acts: ActedAnswers::default(),
            asked_by: None,
        });
    }
    let rows = reader.read(inner, asked).await?;
    let now = inner.env.now();
    let open = open_questions(&input.messages);
    let mut answered = Vec::new();
    let mut asking: Option<&ApprovalRow> = None;
    for answer in given {
        let row = rows.iter().find(|row| row.asked == answer.asked);
        let row = row.filter(|row| open.contains(&row.asked));
        let row = row.ok_or(AnswersRefused::NotFound)?;
        // One round makes all the calls that are asked about at once.
        if asking.is_some_and(|asking| asking.turn != row.turn) {
            return Err(AnswersRefused::NotFound);
        }
        asking = Some(row);
        let verdict = verdict(row, &answer, now, |acted| {
            acted.body_hash == body_hash && acted.api_key == request.caller.api_key
        })?;
        let tool = tool_of(inner, &request.caller, row).await?;
        answered.push(AnsweredCall {
            asked: row.asked,
            verdict,
            tool_name: row.tool_name.clone(),
            tool,
            effect: row.effect,
            sent_id: row.sent_id.clone(),
            arguments: row.arguments.clone(),
        });
    }
    let mine: BTreeSet<CallId> = answered.iter().map(|call| call.asked).collect();
    let calls = match asking {
        Some(row) => context_of(inner, reader.organization, row).await?,
        None => None,
    };
    if calls.is_none() {
        for call in &mut answered {
            call.tool = None;
        }
    }
    Ok(SettledRequest {
        input: recalled(input, &rows, &mine),
        acts: ActedAnswers { answered, calls },
        asked_by: asking.map(|row| (row.turn, row.conversation.clone())),
    })
}

/// The verdict of an answer that may be acted on.
fn verdict(
    row: &ApprovalRow,
    answer: &ApprovalGiven,
    now: Timestamp,
    is_repeated: impl Fn(&ActedCall) -> bool,
) -> Result<ApprovalVerdict, AnswersRefused> {
    if let Some(acted) = &row.acted {
        return Err(if is_repeated(acted) {
            AnswersRefused::Repeated { turn: acted.turn }
        } else {
            AnswersRefused::Closed
        });
    }
    let is_late = row.erased || row.until.is_none_or(|until| now > until);
    match row.state {
        ApprovalState::Expired => Ok(ApprovalVerdict::Expired),
        ApprovalState::Asked if is_late => Ok(ApprovalVerdict::Expired),
        ApprovalState::Asked => Ok(answer.verdict.clone()),
        ApprovalState::Needed | ApprovalState::Approved | ApprovalState::Denied => {
            Err(AnswersRefused::Closed)
        }
    }
}

/// The tool of a call in the version that it was made with, unless it was deleted or the key may not use it any more.
async fn tool_of(
    inner: &RuntimeInner,
    caller: &Principal,
    row: &ApprovalRow,
) -> Result<Option<Arc<Tool>>, ReadError> {
    if !inner.config.tools_enabled || !caller.tools.allows(&row.tool_name) {
        return Ok(None);
    }
    let Some(version) = row.tool_version else {
        return Ok(built_in(inner, &row.tool_name));
    };
    let found = inner.store.tool_version(caller.organization, version);
    let found = found.await?.filter(|found| !found.deleted);
    Ok(found.as_ref().and_then(tool_book::compiled))
}

/// A tool that comes with the program.
fn built_in(inner: &RuntimeInner, name: &str) -> Option<Arc<Tool>> {
    let mut tools = inner.book.built_in().iter();
    tools.find(|tool| tool.name == name).cloned()
}

/// What calls of a turn need to run in a later one: the variables are those of the request that made them.
async fn context_of(
    inner: &RuntimeInner,
    organization: OrgId,
    row: &ApprovalRow,
) -> Result<Option<CallContext>, ReadError> {
    let now = inner.env.now();
    let page = inner.book.page(&inner.store, organization, now).await?;
    let Some(page) = page else {
        return Ok(None);
    };
    let subject = VariableSubject {
        end_user: row.end_user.as_deref(),
        conversation: &row.conversation,
        turn: row.turn,
        created: row.created,
    };
    let input = input_of(inner, organization, row.turn).await?;
    Ok(input.map(|input| CallContext::new(&page, subject, &input)))
}

/// The request of a turn; `None` if it is not kept or cannot be read.
async fn input_of(
    inner: &RuntimeInner,
    organization: OrgId,
    turn: TurnId,
) -> Result<Option<ModelInput>, ReadError> {
    let body = inner.store.turn_body(organization, turn).await?;
    let context = inner.store.turn_context(organization, turn).await?;
    let (Some(body), Some(context)) = (body, context) else {
        return Ok(None);
    };
    let format = context.projection.format();
    let request = body_text(body).and_then(|body| format.decode_request(&body, &accepted_limits()));
    match request {
        Ok(request) => Ok(Some(request.input)),
        Err(error) => {
            tracing::error!(turn.id = %turn, error = %error, "a stored request cannot be read");
            Ok(None)
        }
    }
}

/// The answers that a turn which is taken over acts on, from its own calls.
pub(crate) async fn of_recovered(
    inner: &RuntimeInner,
    organization: OrgId,
    rows: &[CallRow],
) -> Result<ActedAnswers, ReadError> {
    let mut found = ActedAnswers::default();
    for row in rows {
        let Some(asked) = row.call.approves else {
            continue;
        };
        let tool = match row.call.tool_version {
            Some(version) => {
                let found = inner.store.tool_version(organization, version).await?;
                found.as_ref().and_then(tool_book::compiled)
            }
            None => built_in(inner, &row.call.tool_name),
        };
        found.answered.push(AnsweredCall {
            asked,
            verdict: ApprovalVerdict::Approved,
            tool_name: row.call.tool_name.clone(),
            tool,
            effect: row.call.effect,
            sent_id: row.call.tool_call_id.clone(),
            arguments: row.call.arguments.clone(),
        });
    }
    if let Some(call) = found.answered.first() {
        let rows = inner
            .store
            .approvals(organization, vec![call.asked])
            .await?;
        if let Some(row) = rows.first() {
            found.calls = context_of(inner, organization, row).await?;
        }
        if found.calls.is_none() {
            // What they need is gone with the request that made them.
            for call in &mut found.answered {
                call.tool = None;
            }
        }
    }
    Ok(found)
}

/// The input with what became of calls that were asked about, but for those that this turn acts on itself.
pub(crate) async fn settle_recovered(
    inner: &RuntimeInner,
    reader: QuestionReader<'_>,
    input: Arc<ModelInput>,
    answered: &[AnsweredCall],
) -> Result<Arc<ModelInput>, ReadError> {
    let asked: BTreeSet<CallId> = awaited(&input.messages).collect();
    if asked.is_empty() {
        return Ok(input);
    }
    let rows = reader.read(inner, asked).await?;
    let mine = answered.iter().map(|call| call.asked).collect();
    Ok(recalled(input, &rows, &mine))
}

fn awaited(messages: &[Message]) -> impl Iterator<Item = CallId> {
    messages.iter().filter_map(|message| message.awaits)
}

/// The questions behind which nothing was said yet: those of the last message of the model.
fn open_questions(messages: &[Message]) -> BTreeSet<CallId> {
    let said = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let behind = messages[said.map_or(messages.len(), |at| at + 1)..].iter();
    behind
        .take_while(|message| message.role == Role::Tool)
        .filter_map(|message| message.awaits)
        .collect()
}

/// The input with what the record says of calls that were asked about. `mine` are answered by the turn itself, at its
/// own time.
fn recalled(
    input: Arc<ModelInput>,
    rows: &[ApprovalRow],
    mine: &BTreeSet<CallId>,
) -> Arc<ModelInput> {
    let acted = |message: &Message| {
        let asked = message.awaits.filter(|asked| !mine.contains(asked))?;
        let row = rows.iter().find(|row| row.asked == asked)?;
        row.acted.as_ref()
    };
    if !input
        .messages
        .iter()
        .any(|message| acted(message).is_some())
    {
        return input;
    }
    let messages = input.messages.iter().map(|message| match acted(message) {
        Some(acted) => with_result(message, &told(acted).shown),
        None => message.clone(),
    });
    Arc::new(ModelInput {
        messages: messages.collect(),
        ..ModelInput::clone(&input)
    })
}

/// The end of a call as a later turn's model is told of it.
fn told(acted: &ActedCall) -> CallEnd {
    let text = |shown: &str| CallEnd {
        reason: None,
        result: None,
        shown: shown.to_owned(),
        is_error: false,
        cached: false,
    };
    match &acted.end {
        Some(_) if acted.erased => text(LOST_RESULT),
        Some(end) => end.clone(),
        None => text(APPROVED_AND_RUNNING),
    }
}
