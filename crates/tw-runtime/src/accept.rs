//! From a decoded request to a turn that runs, or to the answer of an earlier one.

mod body_hashes;
pub mod counting;
mod prepared;
mod repeat;
mod row;

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tw_core::change::{Change, NewTurn};
use tw_core::conversation::{AddedItems, ItemPlace, ItemSource};
use tw_core::event::{EffectRan, LogEvent};
use tw_core::history::{FeltDifferences, HistoryRepairs};
use tw_core::id::{OrgId, TurnId};
use tw_core::json::shared::SharedText;
use tw_core::memory::MemoryVerdict;
use tw_core::request::{Message, ModelInput};
use tw_core::request_changes::RequestChanges;
use tw_core::tenant::ToolsMode;
use tw_core::time::Timestamp;
use tw_core::turn::{Now, Step, Turn, TurnSetup};
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_egress::idle_timer::IdleTimer;
use tw_egress::upstream::Upstream;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_wire::format::Projection;
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::stored::context;
use tw_wire::trace_context::TraceContext;

use crate::answered_notes;
use crate::approvals::AnswersUse;
use crate::assembly::{self, AssembledTurn, TurnIdentity, TurnParts};
use crate::auth::Principal;
use crate::chain::ChainHistory;
use crate::driver::{self, AcceptedTurn, DriverParts, TurnDriver, TurnWork};
use crate::equal_requests::{PassMode, RequestFingerprint, TurnstilePass};
use crate::follow::Follower;
use crate::limiter::{RoomPermit, RoomRefused};
use crate::live_turns::{LiveTurn, WaitingClient};
use crate::logged_owner::LoggedOwner;
use crate::quotas::TokensReached;
use crate::runtime::{Runtime, RuntimeInner};
use crate::spending::SpentLimit;
use crate::to_client::{self, FromDriver};

use body_hashes::BodyHashes;
use prepared::{NotPrepared, PreparedRequest};
use repeat::EarlierTry;
use row::new_turn;
pub(crate) use row::stored_role;

/// A request for a turn, decoded.
#[derive(Debug)]
pub struct TurnRequest {
    pub caller: Principal,
    pub surface: Surface,
    /// The body as it came.
    pub body: SharedText,
    pub input: Arc<ModelInput>,
    /// The form of the answer.
    pub projection: Projection,
    /// From the header that names the end user; else the request's own fields count.
    pub end_user: Option<String>,
    /// From `turnwright-conversation`.
    pub conversation: Option<String>,
    /// What the request is put behind, of the turn or the conversation that it continues by name.
    pub previous: Option<Arc<ChainHistory>>,
    /// The conversation that it and its answer are added to, which is `conversation`.
    pub added_to: Option<ConversationAddedTo>,
    pub on_leave: Option<OnLeave>,
    /// From `turnwright-tools`; else the key's.
    pub tools_mode: Option<ToolsMode>,
    pub idempotency_key: Option<String>,
    pub try_mark: TryMark,
    /// Headers that go to upstreams.
    pub passed: PassedHeaders,
    /// The client's trace, if it says one.
    pub trace: Option<TraceContext>,
    pub request_id: String,
}

/// A conversation as it was when a request that is added to it was read.
#[derive(Clone, Debug)]
pub struct ConversationAddedTo {
    /// The turn at its end, whoever's that is.
    pub head: Option<TurnId>,
    /// Another turn was about to add to it.
    pub is_busy: bool,
    /// The end user whose it is, if it is somebody's.
    pub end_user: Option<String>,
}

/// The mark of a client library that counts how often it sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryMark {
    /// The client does not count.
    None,
    First,
    /// The client has sent this before.
    Repetition,
}

/// A turn that answers a request.
#[derive(Debug)]
pub struct TurnTaken {
    pub turn: TurnId,
    /// The public id of its conversation.
    pub conversation: String,
    pub memory: MemoryVerdict,
    pub repairs: HistoryRepairs,
    /// What of the request the upstream that is asked first does not get as it was written.
    pub changes: RequestChanges,
    /// Tools that were to be added and that the client's list names already.
    pub names_shared: Vec<String>,
    /// Tools that are not offered since their calls need an approval, for which the request's format has no words.
    pub left_out: Vec<String>,
    pub answer: TurnAnswer,
}

/// Reasons for which a request gets no turn.
#[derive(Debug, thiserror::Error)]
pub enum TurnRefused {
    #[error("{message}")]
    Invalid {
        message: String,
        param: &'static str,
        code: &'static str,
    },
    #[error("this idempotency key was used with another request body, or in another conversation")]
    KeyReused,
    /// An earlier try of this request ended badly after calls that must not be repeated.
    #[error("an earlier try of this request ran calls that are not repeated")]
    EffectsRan {
        turn: TurnId,
        effects: Vec<EffectRan>,
    },
    /// The same of an earlier try whose conversation was deleted.
    #[error("an earlier try of this request, which was deleted, ran calls that are not repeated")]
    DeletedEffectsRan,
    #[error("there is no room for another turn")]
    NoRoom(RoomRefused),
    #[error("a month's money is spent")]
    Spent(SpentLimit),
    #[error("a quota of tokens is used up")]
    TokensReached(TokensReached),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("no upstream serves the model")]
    UnknownModel,
    /// The turn that the request continues by name was deleted meanwhile.
    #[error("the turn that the request continues is gone")]
    PreviousGone,
    /// The request answers a question that is not one for it: it was not asked just before, or of somebody else.
    #[error("there is no such question to answer")]
    NoSuchQuestion,
    #[error("the question was answered before, by another request")]
    QuestionClosed,
    /// Another turn is about to add to the conversation, or has since the request was read.
    #[error("another turn works on the conversation")]
    ConversationBusy,
    #[error("accepting the request")]
    Write(#[source] Option<StoreApplyError>),
    #[error("looking up earlier requests")]
    Read(#[from] ReadError),
}

impl TurnRequest {
    /// The end user that it is for: who is named, or else whose turn it continues, since what one person was told is
    /// continued as theirs.
    fn whose(&self) -> Option<String> {
        let named = self.end_user.as_ref().or(self.input.user.as_ref());
        let continued = || self.previous.as_ref()?.end_user.as_ref();
        let of_conversation = || self.added_to.as_ref()?.end_user.as_ref();
        named.or_else(continued).or_else(of_conversation).cloned()
    }

    fn adds_items(&self) -> Option<AddedItems> {
        let added_to = self.added_to.as_ref()?;
        Some(AddedItems {
            source: ItemSource::Answer,
            place: ItemPlace::Behind {
                head: added_to.head,
            },
        })
    }

    /// The parameter by which it names what it continues.
    fn previous_param(&self) -> &'static str {
        if self.added_to.is_some() {
            "conversation"
        } else {
            "previous_response_id"
        }
    }
}

impl TurnRefused {
    fn too_many_before(messages_max: usize, param: &'static str) -> Self {
        Self::Invalid {
            message: format!(
                "the request and what it continues are more than {messages_max} messages"
            ),
            param,
            code: "context_length_exceeded",
        }
    }
}

/// The log of a turn as it comes, for the client that waits for it.
#[derive(Debug)]
pub struct TurnAnswer {
    answer: Answer,
    idle: Option<IdleTimer>,
}

/// The next part of an answer.
#[derive(Debug)]
pub enum NextAnswerPart {
    Events(Vec<LogEvent>),
    /// Nothing came for the time that was given.
    Silence,
    /// The end was reached, or the turn's driver is gone before it.
    Over,
}

#[derive(Debug)]
enum Answer {
    Live {
        events: FromDriver,
        _client: WaitingClient,
    },
    Followed(Box<Follower>),
}

impl TurnAnswer {
    fn new(answer: Answer) -> Self {
        Self { answer, idle: None }
    }

    /// The next events; `None` after the last, or when the turn's driver is gone before it.
    ///
    /// # Errors
    /// When the store cannot be read.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Result<Option<Vec<LogEvent>>, ReadError> {
        match &mut self.answer {
            Answer::Live { events, .. } => Ok(events.next().await),
            Answer::Followed(follower) => follower.next().await,
        }
    }

    /// [`TurnAnswer::next`], unless nothing comes for `span` after what came last.
    ///
    /// # Errors
    /// When the store cannot be read.
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next_within(&mut self, span: Duration) -> Result<NextAnswerPart, ReadError> {
        let mut idle = self.idle.take().unwrap_or_else(|| IdleTimer::new(span));
        let next = tokio::select! {
            biased;
            next = self.next() => Some(next),
            () = idle.passed() => None,
        };
        idle.begin_anew(span);
        self.idle = Some(idle);
        match next {
            Some(next) => Ok(next?.map_or(NextAnswerPart::Over, NextAnswerPart::Events)),
            None => Ok(NextAnswerPart::Silence),
        }
    }
}

impl Runtime {
    /// Takes a request: starts a turn, or attaches to the one that answers the same request.
    ///
    /// When this returns, the turn is durable.
    ///
    /// # Errors
    /// [`TurnRefused`]; then nothing was started.
    pub async fn take(&self, request: TurnRequest) -> Result<TurnTaken, TurnRefused> {
        if self.is_refusing() {
            return Err(TurnRefused::ShuttingDown);
        }
        let hashed = BodyHashes::read(request.body.as_str().as_bytes(), request.input.ends);
        let body_hash = hashed.whole;
        let end_user = request.whose();
        let equal = equal_of(&request, end_user.as_deref(), body_hash);
        let passes = pass_mode(&request);
        // Of a first try whose own repetition came before it; known to it alone, however often it has to look.
        let mut behind = None;
        let mut using = AnswersUse::Act;
        loop {
            let passing = self.0.turnstile.pass(equal, passes).await;
            if request.try_mark == TryMark::First && request.idempotency_key.is_none() {
                let now = self.env().now();
                behind = behind.or_else(|| self.0.early_retries.take(equal, now));
            }
            let (keys_since, is_early) = match self
                .repeated(&request, end_user.as_deref(), body_hash, behind)
                .await?
            {
                EarlierTry::Answers(taken) => return Ok(*taken),
                EarlierTry::StillEnding(follower) => {
                    // Others need not wait for this one.
                    drop(passing);
                    follower.wait_for_end().await?;
                    continue;
                }
                EarlierTry::Nothing {
                    keys_since,
                    is_early,
                } => (keys_since, is_early),
            };
            // The transaction tells as well, but the model is asked before that.
            if request.added_to.as_ref().is_some_and(|to| to.is_busy) {
                return Err(TurnRefused::ConversationBusy);
            }
            let end_user = end_user.clone();
            let earlier = EarlierKnown {
                keys_since,
                early: is_early.then_some(equal),
                using,
            };
            match self
                .begin(&request, end_user, &hashed, earlier, passing)
                .await?
            {
                Begun::Taken(taken) => return Ok(*taken),
                Begun::Answered { turn } => match self.answered_before(&request, turn).await? {
                    EarlierTry::Answers(taken) => return Ok(*taken),
                    EarlierTry::StillEnding(follower) => follower.wait_for_end().await?,
                    // What it did is told; nothing of it is done again.
                    EarlierTry::Nothing { .. } => using = AnswersUse::Recall,
                },
                // Another request was faster, and what it began is found now.
                Begun::ApprovalClosed => {}
                // Another request with the same key was faster; what it began answers this one.
                Begun::KeyTaken { same_request: true } => {}
                Begun::ConversationBusy => return Err(TurnRefused::ConversationBusy),
                Begun::ParentDeleted if request.added_to.is_some() => {
                    return Err(TurnRefused::ConversationBusy);
                }
                Begun::ParentDeleted if request.previous.is_some() => {
                    return Err(TurnRefused::PreviousGone);
                }
                // What was remembered of it is gone with it.
                Begun::ParentDeleted => {}
                Begun::KeyTaken {
                    same_request: false,
                } => return Err(TurnRefused::KeyReused),
            }
        }
    }

    /// Notes that the whole answer was handed to the client's connection, so that a later
    /// request with the same body is a new one. Nobody waits for the note.
    pub fn mark_answered(&self, caller: &Principal, turn: TurnId) {
        let mark = Change::MarkAnswered {
            organization: caller.organization,
            turn,
            at: self.env().now(),
        };
        answered_notes::add(&self.0, mark);
    }

    /// Asks a turn to stop, which may still wait for a driver: then it is written down for the one who takes it over.
    /// Whether it may be stopped is the caller's question.
    ///
    /// # Errors
    /// When that cannot be written; after `Unknown` it may be.
    pub async fn cancel(&self, organization: OrgId, turn: TurnId) -> Result<(), StoreApplyError> {
        if self.cancel_live(turn) {
            return Ok(());
        }
        let ask = Change::AskStop {
            organization,
            turn,
            at: self.env().now(),
        };
        self.store().apply(vec![ask]).await?;
        // Whoever took it over meanwhile may have read the row before that.
        self.cancel_live(turn);
        Ok(())
    }

    /// `false` when no driver of this process has the turn.
    pub(crate) fn cancel_live(&self, turn: TurnId) -> bool {
        let live = self.0.live.get(turn);
        if let Some(live) = &live {
            live.cancel();
        }
        live.is_some()
    }

    /// Waits until a turn has ended.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn wait_for_end(&self, caller: &Principal, turn: TurnId) -> Result<(), ReadError> {
        Follower::new(&self.0, caller.organization, turn)
            .wait_for_end()
            .await
    }

    async fn begin(
        &self,
        request: &TurnRequest,
        end_user: Option<String>,
        hashed: &BodyHashes,
        earlier: EarlierKnown,
        passing: TurnstilePass,
    ) -> Result<Begun, TurnRefused> {
        let EarlierKnown {
            keys_since,
            early,
            using,
        } = earlier;
        let inner = &self.0;
        let upstreams = inner.upstreams_of(&request.input.model);
        if upstreams.is_empty() {
            return Err(TurnRefused::UnknownModel);
        }
        let spent = self.spent_limit(&request.caller, end_user.as_deref());
        if let Some(limit) = spent.await? {
            return Err(TurnRefused::Spent(limit));
        }
        let tokens = self.tokens_reached(&request.caller, end_user.as_deref());
        if let Some(reached) = tokens.await? {
            return Err(TurnRefused::TokensReached(reached));
        }
        let record = record_of(request);
        let PreparedRequest {
            offered,
            page,
            input,
            prepared,
            conversation,
            acts,
        } = match self
            .prepared(request, end_user.as_deref(), (using, hashed.whole))
            .await
        {
            Err(NotPrepared::Answered { turn }) => return Ok(Begun::Answered { turn }),
            prepared => prepared?,
        };
        let created = inner.env.now();
        let limits = &inner.config.turn;
        let identity = TurnIdentity {
            id: TurnId(inner.env.ordered_id()),
            logged: LoggedOwner::of(&request.caller),
            end_user: end_user.as_deref(),
            conversation: &conversation,
            created,
            // Only whoever waits for a whole answer gives up early.
            deadline: created.after(if input.stream || request.projection.is_background() {
                limits.streamed_max
            } else {
                limits.plain_max
            }),
            streamed: input.stream,
            on_leave: request.on_leave.unwrap_or(OnLeave::Stop),
            record,
            model: &input.model,
            calls_max: request.projection.calls_max(),
        };
        if let Some(fingerprint) = early {
            let known = &inner.early_retries;
            known.add(fingerprint, identity.id, created);
        }
        let (repairs, memory) = (prepared.repairs, prepared.memory.verdict);
        let parent = prepared.continued.as_ref().map(|(parent, _)| *parent);
        let continues = prepared.memory.continues.as_ref();
        let memory_turn = continues.and_then(|turn| turn.memory_turn);
        let is_remembered = prepared.memory.of_turn.is_some();
        let parts = TurnParts {
            input: Arc::clone(&input),
            withheld: prepared.withheld.clone(),
            prepared,
            offer: offered.offer,
            answered: acts,
            page: page.as_deref(),
            upstreams,
            passed: request.passed.clone(),
            trace: request.trace.clone(),
        };
        let assembled = assembly::assemble(inner, &identity, parts);
        let setup = &assembled.setup;
        let mut accept = new_turn(inner, request, setup, end_user, &conversation, hashed);
        accept.memory_turn = memory_turn;
        accept.memory = memory;
        accept.parent = parent;
        if parent.is_some() || is_remembered {
            accept.cuts = Some(hashed.cuts);
        }
        if let Some(since) = keys_since {
            accept.keys_since = accept.keys_since.max(since);
        }
        let beginning = Beginning {
            assembled,
            accept,
            repairs,
            memory,
            names_shared: offered.names_shared,
            left_out: offered.left_out,
        };
        self.start(request, beginning, passing).await
    }

    /// Starts the machine of a new turn and its driver, and waits until the turn is durable.
    async fn start(
        &self,
        request: &TurnRequest,
        beginning: Beginning,
        pass: TurnstilePass,
    ) -> Result<Begun, TurnRefused> {
        let inner = &self.0;
        let Beginning {
            assembled: AssembledTurn { setup, work },
            mut accept,
            mut repairs,
            memory,
            names_shared,
            left_out,
        } = beginning;
        let (turn, conversation) = (accept.id, accept.conversation.clone());
        let mut context = row::context(request, &setup);
        let mut step = Step::default();
        let machine = machine_of(inner, setup, &mut step);
        let repaired = work.histories.repaired();
        let (differences, changes) = told_of(&machine, &work.input, repaired, &work.upstreams);
        repairs.differences = differences;
        context.changes = changes.clone();
        accept.context = context::encode(&context);
        let permit = inner.limiter.begin(&request.caller, bytes_held(request));
        let permit = permit.map_err(TurnRefused::NoRoom)?;
        let (answer, outcome) = self.drive(StartedTurn {
            machine,
            accept: Box::new(accept),
            work,
            permit,
            step,
            pass,
        });
        match outcome.await {
            Ok(Ok(AcceptedTurn::New)) => Ok(Begun::Taken(Box::new(TurnTaken {
                turn,
                conversation,
                memory,
                repairs,
                changes,
                names_shared,
                left_out,
                answer,
            }))),
            Ok(Ok(AcceptedTurn::KeyTaken { same_request, .. })) => {
                Ok(Begun::KeyTaken { same_request })
            }
            Ok(Ok(AcceptedTurn::ParentDeleted)) => Ok(Begun::ParentDeleted),
            Ok(Ok(AcceptedTurn::ApprovalClosed)) => Ok(Begun::ApprovalClosed),
            Ok(Ok(AcceptedTurn::ConversationBusy)) => Ok(Begun::ConversationBusy),
            Ok(Err(error)) => Err(TurnRefused::Write(Some(error))),
            Err(_driver_gone) => Err(TurnRefused::Write(None)),
        }
    }

    /// Starts the driver of a new turn.
    fn drive(
        &self,
        started: StartedTurn,
    ) -> (
        TurnAnswer,
        oneshot::Receiver<Result<AcceptedTurn, StoreApplyError>>,
    ) {
        let inner = &self.0;
        let StartedTurn {
            machine,
            accept,
            work,
            permit,
            step,
            pass,
        } = started;
        let fence = accept.fence();
        let live = LiveTurn::new(0);
        let client = WaitingClient::starter(&live);
        let (to_client, events) = to_client::new();
        let (accepted, outcome) = oneshot::channel();
        let driver = TurnDriver::new(DriverParts {
            inner: Arc::clone(inner),
            turn: machine,
            fence,
            work: Arc::new(work),
            live: Arc::clone(&live),
            client: Some(to_client),
            permit,
            recovery: None,
            events_stored: 0,
        });
        inner.live.add(fence.turn, live);
        driver::spawn(inner, fence, driver.accept(accept, step, pass, accepted));
        let answer = TurnAnswer::new(Answer::Live {
            events,
            _client: client,
        });
        (answer, outcome)
    }
}

/// The store itself tells equal idempotency keys apart, but a request that attaches must not be refused for want of
/// room meanwhile.
fn pass_mode(request: &TurnRequest) -> PassMode {
    let is_retry = request.try_mark == TryMark::Repetition;
    if is_retry || request.idempotency_key.is_some() {
        PassMode::Repetition
    } else {
        PassMode::First
    }
}

fn machine_of(inner: &RuntimeInner, setup: TurnSetup, step: &mut Step) -> Turn {
    let mut now = Now {
        at: setup.created,
        fresh_id: &mut || inner.env.ordered_id(),
    };
    Turn::start(setup, &mut now, step)
}

/// The differences between what the client wrote and what the upstream that is asked first gets.
fn told_of(
    machine: &Turn,
    input: &ModelInput,
    repaired: Option<&[Message]>,
    upstreams: &[Arc<Upstream>],
) -> (FeltDifferences, RequestChanges) {
    let Some(first) = upstreams.first() else {
        return (FeltDifferences::default(), RequestChanges::default());
    };
    let messages = repaired.unwrap_or(&input.messages).iter().collect();
    let origin = machine.origin_of(1);
    let sent = machine.model_request(input, messages, &origin, false);
    let (format, accepts) = (first.format, &first.accepts);
    let is_written_anew = format.format_name() != input.format;
    let differences = if is_written_anew || !accepts.images_in_results || !accepts.all_tools() {
        format.differences(&sent, accepts)
    } else {
        FeltDifferences::default()
    };
    (differences, format.changes(&sent, accepts))
}

/// What earlier tries of a request mean for the turn that it begins.
#[derive(Clone, Copy)]
struct EarlierKnown {
    /// Idempotency keys that were made before do not count.
    keys_since: Option<Timestamp>,
    /// Of a repetition whose first try was not seen.
    early: Option<RequestFingerprint>,
    using: AnswersUse,
}

/// A turn that is about to begin.
struct Beginning {
    assembled: AssembledTurn,
    accept: NewTurn,
    repairs: HistoryRepairs,
    memory: MemoryVerdict,
    names_shared: Vec<String>,
    left_out: Vec<String>,
}

/// A turn whose machine has taken its first step, with what its driver is made of.
struct StartedTurn {
    machine: Turn,
    accept: Box<NewTurn>,
    work: TurnWork,
    permit: RoomPermit,
    /// The first writes, beside the turn's own, and effects.
    step: Step,
    /// Held until the turn is accepted.
    pass: TurnstilePass,
}

enum Begun {
    Taken(Box<TurnTaken>),
    KeyTaken {
        same_request: bool,
    },
    ParentDeleted,
    /// An equal request brought the answers before, and this turn acted on them.
    Answered {
        turn: TurnId,
    },
    /// Another request answered meanwhile.
    ApprovalClosed,
    ConversationBusy,
}

/// The fingerprint that a repetition of the request has in common with it.
fn equal_of(
    request: &TurnRequest,
    end_user: Option<&str>,
    body_hash: [u8; 32],
) -> RequestFingerprint {
    let mut hash = Sha256::new();
    hash.update(request.caller.organization.0.to_le_bytes());
    hash.update(request.caller.api_key.0.to_le_bytes());
    for name in [
        end_user,
        request.conversation.as_deref(),
        request.idempotency_key.as_deref(),
    ] {
        let name = name.unwrap_or_default();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
    }
    hash.update(body_hash);
    hash.finalize().into()
}

/// Bytes that the request takes while its turn runs.
fn bytes_held(request: &TurnRequest) -> u64 {
    let before = request.previous.as_ref().map_or(0, |chain| chain.bytes());
    let bytes = request.body.len() + request.input.parts_bytes() + before;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn record_of(request: &TurnRequest) -> RecordPolicy {
    match request.input.store {
        // Its items stay in the conversation, as in the OpenAI API; only the response is not kept.
        Some(false) if request.added_to.is_some() => request.caller.record,
        Some(false) => RecordPolicy::Minimal,
        Some(true) | None => request.caller.record,
    }
}
