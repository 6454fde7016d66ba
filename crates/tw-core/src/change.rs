//! Writes as data: the complete list of what may change in the store.
//!
//! One function per engine applies a group of these in one transaction, checking the turn's
//! fence first. A group is applied whole or not at all.

use std::sync::Arc;

use crate::approval::{ApprovalGiven, ApprovalState};
use crate::call::{CallEnd, CallRunner, CallStatus};
use crate::callback::{CallbackOutcome, TakenCallback};
use crate::conversation::{AddedItems, ChangeConversation, DeleteItem, NewConversation};
use crate::definition::SensitiveCall;
use crate::id::{
    ApiKeyId, ApiKeyUuid, CallId, CallRef, OrgId, QueuedRowId, ToolId, ToolVersionKey, TurnId,
};
use crate::imported::{ImportOutcome, ImportTurns, KeptRow};
use crate::job::{JobChange, JobClaim};
use crate::json::shared::SharedText;
use crate::memory::{MemoryVerdict, RememberedHash};
use crate::model::TokenUsage;
use crate::native::AnswerOrigin;
use crate::price::MicroUsd;
use crate::quota::TakeCallQuotas;
use crate::rate::RateLimits;
use crate::relayed_request::RelayedRequest;
use crate::request::{Block, Role};
use crate::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode, TurnOwner};
use crate::time::Timestamp;
use crate::tool::{EffectClass, ToolVersion};
use crate::turn_policy::{OnLeave, RecordPolicy, Surface};
use crate::turn_status::{TurnReason, TurnStatus};
use crate::webhook::{ClaimedDelivery, WebhookChange};

/// The turn whose driver writes, and the claim under which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub organization: OrgId,
    pub turn: TurnId,
    /// The number of the claim: rises by one with each, and starts at 1.
    pub fence: i64,
}

/// The number of a turn's first claim, which its acceptance makes.
pub const FIRST_FENCE: i64 = 1;

/// Changes that are written whole or not at all, in this order. Each of them has an outcome in the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeGroup {
    /// A new turn with its first changes. The turn's own outcome comes first; unless it is `Done`, it is the only one, and
    /// nothing was written.
    Accept(Box<NewTurn>, Vec<TurnChange>),
    /// Unless the outcome is `CallEnded`; then it is the only one, and nothing was written.
    OfTurn(Fence, Vec<TurnChange>),
    Free(Vec<Change>),
}

/// A change that needs no fence.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    // Tenants.
    CreateOrganization(NewOrganization),
    CreateApiKey(NewApiKey),
    /// New settings of a key; `Already` for a key that has ended, or is not of the organization.
    ChangeApiKey(ChangeApiKey),
    /// A key is not accepted from `at` on; one that has expired before stays so.
    ExpireApiKey {
        key: ApiKeyId,
        at: Timestamp,
    },
    /// Notes that a key was used; at most once a minute per key.
    TouchApiKey {
        key: ApiKeyId,
        at: Timestamp,
    },

    // Tools.
    /// A new tool, or the next version of one.
    SaveTool(Box<SaveTool>),
    /// The tool is offered no more; its versions stay for the calls that run them.
    DeleteTool {
        organization: OrgId,
        tool: ToolId,
        at: Timestamp,
    },

    /// The claim of an orphan.
    ClaimTurn(ClaimTurn),
    /// The whole answer was handed to the client's connection.
    MarkAnswered {
        organization: OrgId,
        turn: TurnId,
        at: Timestamp,
    },

    /// The end of a call of ours that somebody else knows. The turn's driver finds it with its next write of that call;
    /// `Already` for a call that has ended, or is not there.
    CompleteCall(Box<CompleteCall>),

    /// Keeps a callback, and ends the call whose end it tells.
    TakeCallback(Box<TakenCallback>),

    /// Notes the stop of a turn that no driver of this process has; whoever takes it over stops it.
    AskStop {
        organization: OrgId,
        turn: TurnId,
        at: Timestamp,
    },

    /// Counts a call that is about to start; `QuotaReached`, and nothing counted, where one of the quotas has no room.
    TakeCallQuotas(Box<TakeCallQuotas>),

    // Conversations.
    CreateConversation(NewConversation),
    /// New metadata; `Already` unless a client made the conversation by itself.
    ChangeConversation(ChangeConversation),
    DeleteConversation(DeleteConversation),
    /// Takes an item out of its conversation; `Already` when it is out, or its turn is not there.
    DeleteItem(DeleteItem),
    /// The same of one turn.
    DeleteTurn {
        organization: OrgId,
        turn: TurnId,
        at: Timestamp,
    },
    /// Turns that another system has recorded, those of them that are not there yet. The outcome is `Imported`.
    ImportTurns(Box<ImportTurns>),

    // People.
    EraseEndUser(EraseEndUser),
    /// Deletes some turns of end users that are being erased; `Already` when there is none left.
    DeleteErased {
        at: Timestamp,
        turns_max: u32,
    },

    // Webhooks.
    OfWebhook(Box<WebhookChange>),

    // Jobs of tools.
    OfJob(Box<JobChange>),

    // Rows that applications insert by SQL.
    /// A row that an application inserted by SQL cannot be appended, and why.
    RefuseQueuedRow {
        row: QueuedRowId,
        fault: String,
        at: Timestamp,
    },

    // Requests without a turn.
    RecordRelayedRequest(Box<RelayedRequest>),

    /// Writes a time that nobody reads, to find out whether the store takes writes.
    CheckWritable {
        at: Timestamp,
    },

    // Retention.
    /// Deletes counts of quotas that were last added to before this time, at most so many.
    ExpireQuotas {
        before: Timestamp,
        rows_max: u32,
    },
    /// Erases contents (input, blocks, arguments, results, events) of final turns that are due.
    EraseDue {
        now: Timestamp,
        turns_max: u32,
    },
    /// Deletes rows that were refused before this time, at most so many.
    ExpireQueuedRows {
        before: Timestamp,
        rows_max: u32,
    },
    /// Contents of an organization's turns that ended before `before` are due to be erased.
    ExpireContents {
        organization: OrgId,
        before: Timestamp,
        now: Timestamp,
        turns_max: u32,
    },
    /// Deletes versions of tools, unless one is the newest or a call ran it.
    DeleteToolVersions {
        versions: Vec<ToolVersionKey>,
    },
    /// Deletes event logs of turns that ended before `before`.
    ExpireEvents {
        before: Timestamp,
        turns_max: u32,
    },
    ExpireRequestKeys {
        before: Timestamp,
        keys_max: u32,
    },
    /// Fails calls that neither a callback nor a poll has ended in time.
    ExpireCallbacks {
        now: Timestamp,
        calls_max: u32,
    },
    /// Deletes callbacks that came before `before`.
    ExpireCallbackDeliveries {
        before: Timestamp,
        deliveries_max: u32,
    },
    /// Ends calls whose approval was not given in time.
    ExpireApprovals {
        now: Timestamp,
        calls_max: u32,
    },
    /// Deletes records of relayed requests that ended before `before`.
    ExpireRelayedRequests {
        before: Timestamp,
        requests_max: u32,
    },
}

/// A change of a turn, which only its driver writes, under the turn's fence.
///
/// Of a call that somebody else has ended, the change comes to [`Outcome::CallEnded`]: no attempt of it starts, and it
/// neither ends again nor is handed over.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnChange {
    OpenAttempt(OpenAttempt),
    CloseAttempt(CloseAttempt),
    AddMessage(NewMessage),
    AddCall(Box<NewCall>),
    /// A call's move from `pending` to `processing`.
    StartCall {
        call: CallRef,
        at: Timestamp,
    },
    /// The cost of an attempt or a call, in the group that closes the one or starts the other.
    Charge(NewCharge),
    /// Tokens that a model request used, for the quotas of those whose turn it is.
    CountTokens {
        tokens: u64,
        at: Timestamp,
    },
    /// A call that the client is to run, as it was handed over: to `completed`.
    HandOverCall(Box<HandedCall>),
    /// A call of ours that stays `pending` until somebody approves it, `until` at the latest.
    AskApproval {
        call: CallRef,
        until: Timestamp,
        at: Timestamp,
    },
    /// A call whose request was taken, and whose end a callback or a poll will tell, by `until` at the latest.
    AwaitCallback(AwaitedCallback),
    /// The turn goes on without the end of a call: in place of its result the model has what it was `told`, for good.
    DetachCall {
        call: CallRef,
        told: String,
        at: Timestamp,
    },
    /// The end of a call, as `completed` or `failed`, from any state that is not final.
    EndCall {
        call: CallRef,
        end: CallEnd,
        at: Timestamp,
    },
    /// The result of a call of an earlier turn that an application writes itself, which this turn brings.
    EndOutsideCall {
        call: CallId,
        is_error: bool,
        at: Timestamp,
    },
    /// The turn holds what an application inserted by SQL.
    TakeQueuedRow(QueuedRowId),
    AppendEvents(EventFlush),
    /// The turn is being stopped; it ends when what runs has ended.
    NoteStop {
        reason: TurnReason,
        at: Timestamp,
    },
    /// The turn's driver goes on with it, so its claims have come to something.
    NoteResumed {
        at: Timestamp,
    },
    EndTurn(EndTurn),
}

/// The outcome of a change; outcomes come in the order of the group's changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Organization(OrgId),
    ApiKey(ApiKeyId),
    ToolSaved(ToolVersion),
    /// Another tool of the organization has this name.
    NameTaken,
    /// The organization has no room for another tool; nothing was written.
    TooManyTools,
    /// The organization's definitions would be too large together; nothing was written.
    ToolsTooLarge,
    /// The claim holds.
    Claimed {
        /// The new fence.
        fence: i64,
        /// Claims before this one since which no driver has gone on with the turn.
        open: u32,
    },
    /// The change had nothing to do: final already, claimed by this owner already, not due, or changed by somebody else
    /// meanwhile.
    Already,
    /// A change of a call came too late: somebody else has ended it, and so it stays. Nothing of the group was written.
    CallEnded {
        call: CallRef,
        end: CallEnd,
    },
    /// A turn was accepted under this idempotency key before; nothing was written.
    KeyTaken {
        turn: TurnId,
        same_request: bool,
    },
    /// A turn that the new one continues was deleted meanwhile; nothing was written.
    ParentDeleted,
    /// A question that the new turn answers is not open any more; nothing was written.
    ApprovalClosed {
        asked: CallId,
    },
    /// Another turn works on the conversation, or it is not as it was when the new turn was prepared; nothing was written.
    ConversationBusy,
    /// The turns that were meant are gone for every reader; those in `running` still have to be stopped.
    Deleted {
        running: Vec<TurnId>,
    },
    /// As many as there may be are there; nothing was written.
    TooMany,
    /// The first of the quotas, by its place in the change, that has no room for another call.
    QuotaReached {
        quota: usize,
    },
    /// What a callback came to.
    CallbackTaken(CallbackOutcome),
    /// Jobs that are the caller's to ask about.
    Jobs(Vec<JobClaim>),
    /// Deliveries of webhooks that are the caller's to send.
    Deliveries(Vec<ClaimedDelivery>),
    /// What became of each turn that was to be imported, the rows of no turn that were kept before with other values, and
    /// those that were kept, of which rows of turns with other values are in the place now.
    Imported {
        turns: Vec<ImportOutcome>,
        changed: Vec<KeptRow>,
        replaced: Vec<KeptRow>,
    },
    /// Number of rows that a retention change touched.
    Count(u64),
    /// Number of rows that a retention change touched before it stopped early: what else was due would have made the
    /// transaction too large.
    Partly(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrganization {
    pub slug: String,
    pub name: String,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewApiKey {
    pub organization: OrgId,
    pub uuid: ApiKeyUuid,
    /// The key that makes the new one; `None` for a key that a command makes.
    pub created_by: Option<ApiKeyId>,
    pub name: String,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// The first characters, for people to tell keys apart.
    pub shown: String,
    pub scopes: Vec<KeyScope>,
    pub tools: ToolGrant,
    pub tools_mode: ToolsMode,
    pub record: RecordPolicy,
    /// Whether the key is one person's, so that its requests have memory without a name.
    pub memory: KeyMemory,
    /// The key's own limits; those that it does not set are the server's.
    pub limits: RateLimits,
    pub expires: Option<Timestamp>,
    pub at: Timestamp,
}

/// The settings of a key that may be changed after it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeApiKey {
    pub organization: OrgId,
    pub key: ApiKeyId,
    pub name: String,
    pub tools: ToolGrant,
    pub tools_mode: ToolsMode,
    pub limits: RateLimits,
    pub at: Timestamp,
}

/// A version of a tool to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveTool {
    pub organization: OrgId,
    pub tool: ToolId,
    pub name: String,
    /// The definition as JSON text.
    pub definition: String,
    /// The version that this one follows, which must still be the newest; 0 makes the tool.
    pub follows: u32,
    /// The room that the organization's tools have, this one included.
    pub room: ToolRoom,
    pub at: Timestamp,
}

/// Room for the newest versions of an organization's tools together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRoom {
    pub tools_max: usize,
    /// Bytes of their definitions as JSON text.
    pub bytes_max: usize,
}

/// The beginnings and the end of a request body that the body of the turn before may have in common with it.
///
/// A client that keeps the history sends all of it again each time. What both bodies have is stored once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyCuts {
    /// The body up to and with the last message before the last answer: where the body of the turn that gave that
    /// answer ended.
    pub before_answer: Option<BodyPrefix>,
    /// The body up to and with the last message.
    pub start: BodyPrefix,
    /// SHA-256 of what stands behind the last message.
    pub end_hash: [u8; 32],
}

/// The beginning of a body, as a length and a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPrefix {
    pub bytes: usize,
    /// SHA-256.
    pub hash: [u8; 32],
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewTurn {
    pub id: TurnId,
    pub organization: OrgId,
    pub api_key: ApiKeyId,
    /// An end user's name; the row is made on first sight.
    pub end_user: Option<String>,
    /// Public id of the conversation; the row is made on first sight.
    pub conversation: String,
    /// The client named the conversation itself.
    pub conversation_named: bool,
    /// The turn's part in the items of its conversation; `None` for a turn whose client keeps the history itself.
    pub adds_items: Option<AddedItems>,
    /// The turn that this one continues.
    pub parent: Option<TurnId>,
    pub memory: MemoryVerdict,
    /// The nearest of the turns before it that has hidden calls.
    pub memory_turn: Option<TurnId>,
    pub surface: Surface,
    pub streamed: bool,
    pub on_leave: OnLeave,
    pub record: RecordPolicy,
    pub model: String,
    pub request_id: String,
    pub deadline: Timestamp,
    /// The process that drives the turn, by its boot id.
    pub owner: String,
    /// The request body as it came.
    pub body: SharedText,
    /// SHA-256 of the body.
    pub body_hash: [u8; 32],
    /// `None` for a turn that neither continues another nor is to be continued.
    pub cuts: Option<BodyCuts>,
    /// The context that recovery needs beside the body, encoded: tools offered, upstream.
    pub context: String,
    pub idempotency_key: Option<String>,
    /// Questions of earlier turns that this one answers, each of which must still be open.
    pub answers: Vec<ApprovalGiven>,
    pub messages: Vec<NewMessage>,
    /// The time before which idempotency keys do not count.
    pub keys_since: Timestamp,
    pub at: Timestamp,
}

impl NewTurn {
    /// The fence of the driver that begins with the turn.
    pub fn fence(&self) -> Fence {
        Fence {
            organization: self.organization,
            turn: self.id,
            fence: FIRST_FENCE,
        }
    }
}

/// The end of a call that runs, as told by somebody who is not the turn's driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteCall {
    pub organization: OrgId,
    pub call: CallId,
    pub end: CallEnd,
    pub at: Timestamp,
}

/// A claim by which a process takes over a turn that nobody drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimTurn {
    pub organization: OrgId,
    pub turn: TurnId,
    pub owner: String,
    pub at: Timestamp,
}

/// The deletion of a conversation's turns, as far as they belong to `whose`. Contents are due to be erased with it, and
/// those of a running turn with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteConversation {
    pub organization: OrgId,
    /// The conversation's public id.
    pub conversation: String,
    pub whose: TurnOwner,
    pub at: Timestamp,
}

/// The beginning of forgetting an end user: the name is another at once, and the turns are deleted from then on. `Already`
/// when nobody has the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EraseEndUser {
    pub organization: OrgId,
    pub name: String,
    /// The name under which counts and costs stay.
    pub pseudonym: String,
    pub at: Timestamp,
}

/// The start of one attempt of a round's model request (`position` is `None`) or of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAttempt {
    pub round: u32,
    /// The call's position in the round.
    pub position: Option<u32>,
    /// From 1.
    pub n: u32,
    pub upstream: Option<String>,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CloseAttempt {
    pub round: u32,
    pub position: Option<u32>,
    pub n: u32,
    pub outcome: AttemptOutcome,
    pub http_status: Option<u16>,
    pub usage: Option<TokenUsage>,
    pub at: Timestamp,
}

/// What is paid for: it is charged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargedUse {
    /// Attempt `n` of a round's model request.
    ModelRequest {
        round: u32,
        n: u32,
    },
    Call(CallRef),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewCharge {
    pub of: ChargedUse,
    pub cost: MicroUsd,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The model answered in full, or the tool answered.
    Ok,
    /// The attempt failed, in a word of the log.
    Failed(String),
    /// The attempt ended because the turn was ended.
    Cancelled,
    /// The attempt was found open after a crash.
    Interrupted,
}

impl AttemptOutcome {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Ok => "ok",
            Self::Failed(word) => word,
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A message of a turn: the user's, or an assistant round.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    /// Number of the round; 0 for messages that the request brought.
    pub round: u32,
    pub seq: u32,
    pub role: Role,
    pub blocks: Vec<Block>,
    /// Where the model's answer that it is came from.
    pub origin: Option<Arc<AnswerOrigin>>,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewCall {
    pub call: CallRef,
    pub id: CallId,
    pub runs: CallRunner,
    /// The effect of repeating the call; `None` for a call that the client runs.
    pub effect: Option<EffectClass>,
    /// The version of a stored tool that the call runs.
    pub tool_version: Option<ToolVersionKey>,
    pub tool_name: String,
    /// The call's id as sent back to the upstream: its own, or one that we minted.
    pub tool_call_id: String,
    /// Arguments as the model wrote them.
    pub arguments: String,
    /// Of a call whose tool has sensitive parameters.
    pub sensitive: Option<SensitiveCall>,
    pub status: CallStatus,
    /// Set when `status` is final.
    pub end: Option<CallEnd>,
    /// The key sent with every attempt, stable over attempts.
    pub idempotency_key: String,
    /// The guard of a callback that ends this call; `None` where none may.
    pub callback_token: Option<String>,
    /// Of a call whose tool requires approval.
    pub approval: Option<ApprovalState>,
    /// The call of an earlier turn whose approval it acts on; no two calls act on the same.
    pub approves: Option<CallId>,
    pub at: Timestamp,
}

/// A call whose job has started, or may have, and whose end is told later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedCallback {
    pub call: CallRef,
    /// The id by which its tool knows the job, if it said one.
    pub external_id: Option<String>,
    pub until: Timestamp,
    /// Time of the first poll, of a job that is polled.
    pub poll_at: Option<Timestamp>,
    pub at: Timestamp,
}

/// A call that the client runs, once all of it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct HandedCall {
    pub call: CallRef,
    pub tool_name: String,
    /// The call's id as sent back to the upstream.
    pub tool_call_id: String,
    /// Arguments as the model wrote them, valid or not.
    pub arguments: String,
    pub at: Timestamp,
}

/// Consecutive events of a turn's log, to be appended to it.
#[derive(Clone, Debug, PartialEq)]
pub struct EventFlush {
    /// Number of the first one; numbers start at 1 and have no gaps.
    pub first: u64,
    pub events: Vec<crate::event::LogEvent>,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EndTurn {
    pub status: TurnStatus,
    pub reason: Option<TurnReason>,
    pub usage: Option<TokenUsage>,
    pub has_tool_calls: bool,
    pub tool_count: u32,
    /// A call of ours that is not `read` may have changed the world.
    pub had_effects: bool,
    /// Hashes by which a later request finds the turn; `None` for a turn that nobody can continue.
    pub remembered: Option<RememberedHash>,
    /// Contents are erased after this, if the turn's record is minimal.
    pub erase_after: Option<Timestamp>,
    pub at: Timestamp,
}
