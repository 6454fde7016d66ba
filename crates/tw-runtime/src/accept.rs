//! From a decoded request to a turn that runs, or to the answer of an earlier one.

mod body_hashes;
pub mod counting;
mod repeat;
mod row;

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tw_core::change::{Change, NewTurn};
use tw_core::event::{EffectRan, LogEvent};
use tw_core::history::{FeltDifferences, HistoryRepairs};
use tw_core::id::{OrgId, TurnId};
use tw_core::json::shared::SharedText;
use tw_core::memory::MemoryVerdict;
use tw_core::request::{Message, ModelInput};
use tw_core::request_changes::RequestChanges;
use tw_core::tenant::{ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn::{Now, OfferError, OfferOutcome, Step, ToolOffer, Turn, TurnSetup, offer};
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_egress::idle_timer::IdleTimer;
use tw_egress::upstream::Upstream;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_wire::format::Projection;
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::stored::context;

use crate::answered_notes;
use crate::assembly::{self, AssembledTurn, TurnIdentity, TurnParts};
use crate::auth::Principal;
use crate::chain::{self, ChainHistory};
use crate::driver::{self, AcceptedTurn, DriverParts, TurnDriver, TurnWork};
use crate::equal_requests::{PassMode, RequestFingerprint, TurnstilePass};
use crate::follow::Follower;
use crate::limiter::{RoomPermit, RoomRefused};
use crate::live_turns::{LiveTurn, WaitingClient};
use crate::logged_owner::LoggedOwner;
use crate::memory::{self, MemorySource};
use crate::prepared_history::{self, PreparedHistory};
use crate::recall::HistoryOwner;
use crate::runtime::{Runtime, RuntimeInner};
use crate::spending::SpentLimit;
use crate::to_client::{self, FromDriver};
use crate::tool_book::ToolBookPage;

use body_hashes::BodyHashes;
use repeat::EarlierTry;
use row::new_turn;

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
    /// What the request is put behind, of the turn that it continues by name.
    pub previous: Option<Arc<ChainHistory>>,
    pub on_leave: Option<OnLeave>,
    /// From `turnwright-tools`; else the key's.
    pub tools_mode: Option<ToolsMode>,
    pub idempotency_key: Option<String>,
    pub try_mark: TryMark,
    /// Headers that go to upstreams.
    pub passed: PassedHeaders,
    pub request_id: String,
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
    #[error("this idempotency key was used with another request body")]
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
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("no upstream serves the model")]
    UnknownModel,
    /// The turn that the request continues by name was deleted meanwhile.
    #[error("the turn that the request continues is gone")]
    PreviousGone,
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
        named.or_else(continued).cloned()
    }
}

impl TurnRefused {
    fn too_many_before(messages_max: usize) -> Self {
        Self::Invalid {
            message: format!(
                "the request and what it continues are more than {messages_max} messages"
            ),
            param: "previous_response_id",
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
        // The store itself tells equal idempotency keys apart, but one that attaches must not be
        // refused for want of room meanwhile.
        let is_retry = request.try_mark == TryMark::Repetition;
        let passes = if is_retry || request.idempotency_key.is_some() {
            PassMode::Repetition
        } else {
            PassMode::First
        };
        // Of a first try whose own repetition came before it; known to it alone, however often it has to look.
        let mut behind = None;
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
            let end_user = end_user.clone();
            match self
                .begin(
                    &request,
                    end_user,
                    &hashed,
                    keys_since,
                    is_early.then_some(equal),
                    passing,
                )
                .await?
            {
                Begun::Taken(taken) => return Ok(*taken),
                // Another request with the same key was faster; what it began answers this one.
                Begun::KeyTaken { same_body: true } => {}
                Begun::ParentDeleted if request.previous.is_some() => {
                    return Err(TurnRefused::PreviousGone);
                }
                // What was remembered of it is gone with it.
                Begun::ParentDeleted => {}
                Begun::KeyTaken { same_body: false } => return Err(TurnRefused::KeyReused),
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
        keys_since: Option<Timestamp>,
        early: Option<RequestFingerprint>,
        passing: TurnstilePass,
    ) -> Result<Begun, TurnRefused> {
        let inner = &self.0;
        let upstreams = inner.upstreams_of(&request.input.model);
        if upstreams.is_empty() {
            return Err(TurnRefused::UnknownModel);
        }
        let spent = self.spent_limit(&request.caller, end_user.as_deref());
        if let Some(limit) = spent.await? {
            return Err(TurnRefused::Spent(limit));
        }
        let record = record_of(request);
        let PreparedRequest {
            offered,
            page,
            input,
            prepared,
            conversation,
        } = self.prepared(request, end_user.as_deref()).await?;
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
            page: page.as_deref(),
            upstreams,
            passed: request.passed.clone(),
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
        };
        self.start(request, beginning, passing).await
    }

    /// What the model is offered and sent.
    async fn prepared(
        &self,
        request: &TurnRequest,
        end_user: Option<&str>,
    ) -> Result<PreparedRequest, TurnRefused> {
        let inner = &self.0;
        let (offered, page) = self.offered(request).await?;
        let owner = HistoryOwner {
            organization: request.caller.organization,
            api_key: request.caller.api_key,
            end_user,
            conversation: request.conversation.as_deref(),
        };
        let previous = request.previous.as_deref();
        let source = match previous {
            Some(_) => MemorySource::Named,
            None => {
                let (memory, record) = (request.caller.memory, record_of(request));
                MemorySource::History(memory::scope(inner, owner, memory, record))
            }
        };
        let input = chain::input_of(&request.input, previous);
        let messages_max = inner.config.request.messages_max;
        if previous.is_some() && input.messages.len() > messages_max {
            return Err(TurnRefused::too_many_before(messages_max));
        }
        let mut prepared =
            prepared_history::prepare(inner, owner, source, &input, &offered.offer).await?;
        if prepared.repaired.as_ref().is_some_and(Vec::is_empty) {
            return Err(TurnRefused::Invalid {
                message:
                    "Invalid 'messages': they hold only results of calls that no message makes."
                        .to_owned(),
                param: "messages",
                code: "invalid_value",
            });
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
        })
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
                answer,
            }))),
            Ok(Ok(AcceptedTurn::KeyTaken { same_body, .. })) => Ok(Begun::KeyTaken { same_body }),
            Ok(Ok(AcceptedTurn::ParentDeleted)) => Ok(Begun::ParentDeleted),
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

    /// The tools that the request is offered, and the page of the tool book that they are from; none for a relay.
    async fn offered(
        &self,
        request: &TurnRequest,
    ) -> Result<(OfferOutcome, Option<Arc<ToolBookPage>>), TurnRefused> {
        let relay = OfferOutcome {
            offer: ToolOffer::Relay,
            schemas_replaced: 0,
            names_shared: Vec::new(),
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
        let tools_max = inner.config.request.tools_max;
        let mode = request.tools_mode.unwrap_or(caller.tools_mode);
        let offered = offer(&request.input, &caller.tools, mode, &page.tools, tools_max);
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

fn machine_of(inner: &RuntimeInner, setup: TurnSetup, step: &mut Step) -> Turn {
    let now = Now {
        at: setup.created,
        fresh_id: &mut || inner.env.ordered_id(),
    };
    Turn::start(setup, &now, step)
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

/// A request with its tools and its history, before its turn begins.
struct PreparedRequest {
    offered: OfferOutcome,
    /// The page of the tool book that the tools are from; `None` for a relay.
    page: Option<Arc<ToolBookPage>>,
    /// The request, behind what it continues by name.
    input: Arc<ModelInput>,
    prepared: PreparedHistory,
    /// The public id of its conversation.
    conversation: String,
}

/// A turn that is about to begin.
struct Beginning {
    assembled: AssembledTurn,
    accept: NewTurn,
    repairs: HistoryRepairs,
    memory: MemoryVerdict,
    names_shared: Vec<String>,
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
    KeyTaken { same_body: bool },
    ParentDeleted,
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
        Some(false) => RecordPolicy::Minimal,
        Some(true) | None => request.caller.record,
    }
}
