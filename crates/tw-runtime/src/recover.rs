//! Taking over turns that nobody drives.

mod without_machine;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use tw_core::call::CallRunner;
use tw_core::change::{Change, ClaimTurn, Fence, Outcome, TurnChange};
use tw_core::id::{OrgId, ToolVersionKey, TurnId};
use tw_core::limits::{self, RequestLimits};
use tw_core::request::{ModelInput, Role};
use tw_core::tool::Tool;
use tw_core::turn::{
    FoundAttempt, FoundCall, FoundRound, FoundTurn, MixedListEntry, Now, Step, ToolOffer, Turn,
};
use tw_core::turn_status::TurnReason;
use tw_egress::upstream::Upstream;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::read::turn::{RecoveredTurn, TurnRow};
use tw_store::system;
use tw_wire::client_request::body_text;
use tw_wire::stored::DamagedRecord;
use tw_wire::stored::context::{self, ListedTool, OfferedTool, TurnContext};

use crate::approvals::{self, ActedAnswers, QuestionReader};
use crate::assembly::{self, AssembledTurn, TurnIdentity, TurnParts};
use crate::chain::{self, ChainError, ChainHistory};
use crate::driver::{self, DriverParts, TurnDriver};
use crate::error_chain::ErrorChain;
use crate::fail_point::FailPoint;
use crate::limiter::BodyPermit;
use crate::live_turns::LiveTurn;
use crate::logged_owner::LoggedOwner;
use crate::memory::MemorySource;
use crate::orphaned_turns::{AFTER_FAILED_WRITE, OrphanedTurn};
use crate::prepared_history::{self, PreparedHistory};
use crate::recall::HistoryOwner;
use crate::replicas;
use crate::runtime::{Runtime, RuntimeInner};
use crate::tool_book::{self, ToolBookPage};

use crate::recovery_pace::{CLAIMS_OPEN_MAX, RecoveryPermit};

/// Turns that are read and claimed at once, if their bytes have room, so that a start after a crash does not flood
/// the store, the tools and the upstreams at one moment.
const RECOVERIES_PARALLEL_MAX: usize = 4;
/// More than ever run at once; each entry of the list takes 24 bytes.
const RECOVERIES_LISTED_MAX: u32 = 1_000_000;
/// Longest wait between two tries to take a turn over.
const BETWEEN_TRIES_MAX: Duration = Duration::from_secs(60);

/// Reasons for which a turn cannot be taken over now.
#[derive(Debug, thiserror::Error)]
enum RecoverError {
    #[error("reading the turn")]
    Read(#[from] ReadError),
    #[error("writing the turn")]
    Write(#[from] StoreApplyError),
    #[error("the lease on the database is over")]
    NoLease,
    /// Its claim stays counted.
    #[error("loading the turn panicked")]
    Panicked,
}

/// Reasons for which a turn can never be taken over.
#[derive(Debug, thiserror::Error)]
enum UnreadableError {
    #[error("the stored context")]
    Context(#[from] DamagedRecord),
    #[error("the stored request: {0}")]
    Input(String),
    #[error("no upstream serves its model")]
    NoUpstream,
    #[error("what it continues")]
    Before(#[from] ChainError),
}

impl Runtime {
    /// Takes over every turn that a process left which is gone, and returns how many are driven now. As many are loaded
    /// at once as there is room for; those of which a claim came to nothing before come last, one at a time.
    ///
    /// # Errors
    /// When the list cannot be read; a single turn's failure is logged.
    pub async fn recover(&self) -> Result<usize, ReadError> {
        let inner = &self.0;
        let found =
            system::unfinished_turns(self.store(), &inner.boot, RECOVERIES_LISTED_MAX).await?;
        // What is in hand is tried again by itself.
        let found = found
            .into_iter()
            .filter(|(_, turn)| !inner.orphaned.has(*turn));
        let (mut driven, suspects) = futures_util::stream::iter(found)
            .map(|(organization, turn)| async move {
                let taken = take_over(inner, organization, turn, Suspects::Left).await;
                (organization, turn, taken)
            })
            .buffer_unordered(RECOVERIES_PARALLEL_MAX)
            .fold(
                (0, Vec::new()),
                |(driven, mut suspects), (organization, turn, taken)| async move {
                    if matches!(taken, Ok(TakenOver::Suspect)) {
                        suspects.push((organization, turn));
                    }
                    (
                        driven + self.note_taken(organization, turn, taken),
                        suspects,
                    )
                },
            )
            .await;
        for (organization, turn) in suspects {
            let taken = take_over(inner, organization, turn, Suspects::Taken).await;
            driven += self.note_taken(organization, turn, taken);
        }
        Ok(driven)
    }

    /// [`Runtime::recover`] beside everything else. What is not taken over when the runtime is shut down is left for
    /// the next start. Where other processes serve, too, what they leave is taken over for as long as this one serves.
    pub fn recover_meanwhile(&self) {
        let runtime = self.clone();
        self.0.tasks.spawn(async move {
            let inner = &runtime.0;
            let mut wait = AFTER_FAILED_WRITE;
            loop {
                tokio::select! {
                    () = inner.refusing.cancelled() => return,
                    () = inner.replicas.held() => {}
                }
                let is_listed = match runtime.recover().await {
                    Ok(0) => true,
                    Ok(turns) => {
                        tracing::info!(turns, "turns of a process that is gone go on");
                        true
                    }
                    Err(error) => {
                        tracing::error!(error = %ErrorChain(&error), "unfinished turns cannot be listed");
                        false
                    }
                };
                if is_listed && !inner.replicas.is_joined() {
                    return;
                }
                let next = async {
                    if is_listed {
                        replicas::something_may_be_free(inner).await;
                    } else {
                        tokio::time::sleep(wait).await;
                    }
                };
                tokio::select! {
                    () = inner.refusing.cancelled() => return,
                    () = next => {}
                }
                wait = if is_listed {
                    AFTER_FAILED_WRITE
                } else {
                    wait.saturating_mul(2).min(BETWEEN_TRIES_MAX)
                };
            }
        });
    }

    /// How many that are.
    fn note_taken(
        &self,
        organization: OrgId,
        turn: TurnId,
        taken: Result<TakenOver, RecoverError>,
    ) -> usize {
        match taken {
            Ok(TakenOver::Driven) => 1,
            Ok(TakenOver::Left | TakenOver::Suspect) => 0,
            Err(error) => {
                tracing::error!(turn.id = %turn, error = %ErrorChain(&error), "a turn could not be taken over");
                self.0.orphaned.add(OrphanedTurn {
                    organization,
                    turn,
                    after: AFTER_FAILED_WRITE,
                });
                0
            }
        }
    }
}

/// Gives a driver to each turn whose driver stopped before its end, until the process ends.
pub(crate) async fn adopt(inner: Arc<RuntimeInner>) {
    loop {
        let orphans = tokio::select! {
            () = inner.refusing.cancelled() => return,
            orphans = inner.orphaned.taken() => orphans,
        };
        for orphan in orphans {
            take_over_after(Arc::clone(&inner), orphan);
        }
    }
}

/// Takes the turn over after a while, and tries again until it can.
fn take_over_after(inner: Arc<RuntimeInner>, orphan: OrphanedTurn) {
    let OrphanedTurn {
        organization,
        turn,
        after,
    } = orphan;
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        let mut wait = after;
        loop {
            let may_try = async {
                tokio::time::sleep(wait).await;
                inner.replicas.held().await;
            };
            tokio::select! {
                () = inner.refusing.cancelled() => return,
                () = may_try => {}
            }
            let taken = match written_before(&inner, organization, turn).await {
                Ok(()) => take_over(&inner, organization, turn, Suspects::Taken).await,
                Err(error) => Err(error.into()),
            };
            match taken {
                Ok(_) => {
                    inner.orphaned.settle(turn);
                    return;
                }
                Err(error) => {
                    tracing::error!(turn.id = %turn, error = %ErrorChain(&error), "a turn could not be taken over");
                }
            }
            wait = wait
                .saturating_mul(2)
                .clamp(AFTER_FAILED_WRITE, BETWEEN_TRIES_MAX);
        }
    });
}

/// A fence that no claim has.
const NO_FENCE: i64 = 0;

/// Waits until all is written that a turn's last driver gave the writers, also the turn's own row.
async fn written_before(
    inner: &RuntimeInner,
    organization: OrgId,
    turn: TurnId,
) -> Result<(), StoreApplyError> {
    let at = inner.env.now();
    inner
        .store
        .apply(vec![Change::CheckWritable { at }])
        .await?;
    // Writes of one turn keep their order. This one is never written.
    let behind = Fence {
        organization,
        turn,
        fence: NO_FENCE,
    };
    match inner.store.apply_to_turn(behind, Vec::new()).await {
        Ok(_) | Err(StoreApplyError::Fenced { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The outcome of a take-over.
enum TakenOver {
    /// It is driven on, or was ended.
    Driven,
    /// It has ended, somebody else has it, or the process ends.
    Left,
    /// Claims of it came to nothing before.
    Suspect,
}

/// The treatment of turns of which claims came to nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspects {
    Left,
    Taken,
}

/// Room for a turn that is to be loaded.
struct Room {
    body: BodyPermit,
    recovery: RecoveryPermit,
}

/// [`claim_and_load`], whose panic is an error: other turns wait behind this one.
async fn take_over(
    inner: &Arc<RuntimeInner>,
    organization: OrgId,
    turn: TurnId,
    suspects: Suspects,
) -> Result<TakenOver, RecoverError> {
    // What it made is dropped with it, so nothing half-done is seen again.
    let taken = AssertUnwindSafe(claim_and_load(inner, organization, turn, suspects));
    let taken = taken.catch_unwind().await;
    taken.unwrap_or(Err(RecoverError::Panicked))
}

/// Waits until there is room for the turn, claims it, which counts it as tried, and only then loads it and drives it on.
/// One whose record cannot be understood is ended, since nobody would ever drive it.
async fn claim_and_load(
    inner: &Arc<RuntimeInner>,
    organization: OrgId,
    turn: TurnId,
    suspects: Suspects,
) -> Result<TakenOver, RecoverError> {
    let Some(unfinished) = inner.store.unfinished_turn(organization, turn).await? else {
        return Ok(TakenOver::Left);
    };
    if unfinished.claims_open > 0 && suspects == Suspects::Left {
        return Ok(TakenOver::Suspect);
    }
    let room = async {
        Room {
            body: inner.limiter.body_permit(unfinished.body_bytes).await,
            recovery: inner.recovery_pace.permit(&unfinished).await,
        }
    };
    let room = tokio::select! {
        biased;
        // A turn that nobody claims any more waits for the next start, and is not counted.
        () = inner.refusing.cancelled() => return Ok(TakenOver::Left),
        room = room => room,
    };
    if !inner.replicas.may_drive() {
        // Whoever finds it free then takes it.
        return Err(RecoverError::NoLease);
    }
    let claim = Change::ClaimTurn(ClaimTurn {
        organization,
        turn,
        owner: format!("{}:{}", inner.boot, inner.env.random_id().simple()),
        at: inner.env.now(),
    });
    let outcomes = inner.store.apply(vec![claim]).await?;
    let Some(&Outcome::Claimed { fence, open }) = outcomes.first() else {
        return Ok(TakenOver::Left);
    };
    let fence = Fence {
        organization,
        turn,
        fence,
    };
    if open >= CLAIMS_OPEN_MAX {
        tracing::error!(turn.id = %turn, claims = open, "a turn was claimed too often without going on; it is ended");
        without_machine::end(inner, fence).await?;
        return Ok(TakenOver::Driven);
    }
    if inner.driver_panics.are_too_many(turn) {
        tracing::error!(turn.id = %turn, "every driver of a turn panicked; it is ended");
        without_machine::end(inner, fence).await?;
        inner.driver_panics.forget(turn);
        return Ok(TakenOver::Driven);
    }
    FailPoint::Claimed.reach(inner.config.fail_point);
    let loaded = load(inner, fence, room).await;
    if loaded.is_err() {
        // This process goes on, so what failed is no reason to count the claim. If that cannot be written, nor can
        // the next claim.
        let at = inner.env.now();
        let _ = inner
            .store
            .apply_to_turn(fence, vec![TurnChange::NoteResumed { at }])
            .await;
    }
    loaded
}

/// Loads a claimed turn and drives it on.
async fn load(
    inner: &Arc<RuntimeInner>,
    fence: Fence,
    room: Room,
) -> Result<TakenOver, RecoverError> {
    let Fence {
        organization, turn, ..
    } = fence;
    let mut found = match inner.store.turn_to_drive(organization, turn).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(TakenOver::Left),
        Err(error @ (ReadError::Db { .. } | ReadError::Closed)) => return Err(error.into()),
        Err(error) => {
            tracing::error!(turn.id = %turn, error = %ErrorChain(&error), "a turn's record is damaged");
            without_machine::end(inner, fence).await?;
            return Ok(TakenOver::Driven);
        }
    };
    let (context, input) = match request_of(&mut found) {
        Ok(read) => read,
        Err(error) => return end_unreadable(inner, fence, &error).await,
    };
    let (offer, page) = offer_of(inner, organization, &context).await?;
    let acts = approvals::of_recovered(inner, organization, &found.calls).await?;
    let row = &found.turn;
    let is_named = context.projection.follows_others();
    let input = match before(inner, row, &context).await {
        Ok(Some(chain)) => chain.before(&input),
        Ok(None) => input,
        Err(ChainError::Read(error)) => return Err(error.into()),
        Err(error) => return end_unreadable(inner, fence, &error.into()).await,
    };
    let reader = QuestionReader {
        organization,
        surface: row.surface,
        end_user: row.end_user.as_deref(),
        // Whoever continued a turn by its name was allowed to.
        api_key: (!is_named).then_some(row.api_key),
    };
    let input = approvals::settle_recovered(inner, reader, Arc::new(input), &acts.answered).await?;
    let owner = HistoryOwner {
        organization: row.organization,
        api_key: row.api_key,
        end_user: row.end_user.as_deref(),
        conversation: row.conversation_named.then_some(row.conversation.as_str()),
    };
    let source = if is_named {
        MemorySource::Named
    } else {
        MemorySource::Row(row)
    };
    let prepared = prepared_history::prepare(inner, owner, source, &input, &offer).await?;
    let calls_max = context.projection.calls_max();
    match parts_of(
        inner,
        context,
        input,
        prepared,
        offer,
        acts,
        page.as_deref(),
    ) {
        Ok(parts) => {
            let identity = identity_of(&found, calls_max);
            let assembled = assembly::assemble(inner, &identity, parts);
            drive_on(inner, fence, &found, assembled, room);
            stop_if_asked(inner, organization, turn).await;
            Ok(TakenOver::Driven)
        }
        Err(error) => end_unreadable(inner, fence, &error).await,
    }
}

/// What the turn's request was put behind, of what it continues by name.
async fn before(
    inner: &Arc<RuntimeInner>,
    row: &TurnRow,
    context: &TurnContext,
) -> Result<Option<ChainHistory>, ChainError> {
    if context.projection.conversation().is_some() {
        return chain::in_conversation(&Runtime(Arc::clone(inner)), row).await;
    }
    if context.projection.continues().is_none() {
        return Ok(None);
    }
    let chain = chain::of_accepted(inner, row.organization, row.parent).await?;
    Ok(Some(chain))
}

async fn end_unreadable(
    inner: &Arc<RuntimeInner>,
    fence: Fence,
    error: &UnreadableError,
) -> Result<TakenOver, RecoverError> {
    tracing::error!(turn.id = %fence.turn, error = %ErrorChain(error), "a turn's request is damaged");
    without_machine::end(inner, fence).await?;
    Ok(TakenOver::Driven)
}

/// Whoever deleted the turn, or asked it to stop, after it was read here found no driver to tell.
async fn stop_if_asked(inner: &RuntimeInner, organization: OrgId, turn: TurnId) {
    match inner.store.repeat_state(organization, turn).await {
        Ok(Some(state)) if state.deleted || state.stop.is_some() => {
            if let Some(live) = inner.live.get(turn) {
                live.cancel();
            }
        }
        Ok(_) => {}
        // It is driven on; what is deleted of it is erased at its end all the same.
        Err(error) => {
            tracing::warn!(turn.id = %turn, error = %ErrorChain(&error), "looking whether a turn is to stop failed");
        }
    }
}

fn identity_of(found: &RecoveredTurn, calls_max: Option<u32>) -> TurnIdentity<'_> {
    let row = &found.turn;
    TurnIdentity {
        id: row.id,
        logged: LoggedOwner {
            organization: found.organization_slug.as_str().into(),
            key: found.key_shown.as_str().into(),
        },
        end_user: row.end_user.as_deref(),
        conversation: &row.conversation,
        created: row.created,
        deadline: row.deadline,
        streamed: row.streamed,
        on_leave: row.on_leave,
        record: row.record,
        model: &row.model,
        calls_max,
    }
}

fn parts_of<'a>(
    inner: &RuntimeInner,
    context: TurnContext,
    input: Arc<ModelInput>,
    prepared: PreparedHistory,
    offer: ToolOffer,
    answered: ActedAnswers,
    page: Option<&'a ToolBookPage>,
) -> Result<TurnParts<'a>, UnreadableError> {
    let named = context.upstreams.iter();
    let mut upstreams: Vec<Arc<Upstream>> = named
        .filter_map(|name| inner.upstream(name).cloned())
        .collect();
    if upstreams.is_empty() {
        // The config knows none of them any more.
        upstreams = inner.upstreams_of(&input.model);
    }
    if upstreams.is_empty() {
        return Err(UnreadableError::NoUpstream);
    }
    Ok(TurnParts {
        input,
        prepared,
        offer,
        answered,
        withheld: context.withheld,
        page,
        upstreams,
        passed: context.passed,
        trace: context.trace,
    })
}

/// The request and its context. It was within the limits when it was accepted, whatever they are now.
fn request_of(found: &mut RecoveredTurn) -> Result<(TurnContext, ModelInput), UnreadableError> {
    let context = context::decode(&found.context)?;
    let format = context.projection.format();
    let body = std::mem::take(&mut found.body);
    let request = body_text(body)
        .and_then(|body| format.decode_request(&body, &accepted_limits()))
        .map_err(|error| UnreadableError::Input(error.message))?;
    Ok((context, request.input))
}

/// The limits of a request that was accepted before: it was within them, whatever they are now.
pub(crate) fn accepted_limits() -> RequestLimits {
    RequestLimits {
        body_bytes_max: usize::MAX,
        json_depth_max: limits::JSON_DEPTH_DEFAULT,
        messages_max: usize::MAX,
        client_result_bytes_max: usize::MAX,
        tools_max: usize::MAX,
        schema_bytes_max: usize::MAX,
        schema_depth_max: limits::JSON_DEPTH_DEFAULT,
    }
}

fn drive_on(
    inner: &Arc<RuntimeInner>,
    fence: Fence,
    found: &RecoveredTurn,
    assembled: AssembledTurn,
    room: Room,
) {
    let AssembledTurn { setup, work } = assembled;
    let events_stored = found.events.last().map_or(0, |event| event.number);
    let mut step = Step::default();
    let mut now = Now {
        at: inner.env.now(),
        fresh_id: &mut || inner.env.ordered_id(),
    };
    let machine = Turn::recover(setup, &found_turn(found), &mut now, &mut step);
    if step.write.iter().any(ends_by_our_fault) {
        let rounds = found.attempts.iter().map(|attempt| attempt.round).max();
        tracing::error!(turn.id = %fence.turn, round = rounds, "a round was interrupted in every attempt; its turn is ended");
    }
    let live = LiveTurn::new(events_stored);
    let permit = inner
        .limiter
        .taken_over(fence.organization, found.turn.api_key, room.body);
    let driver = TurnDriver::new(DriverParts {
        inner: Arc::clone(inner),
        turn: machine,
        fence,
        work: Arc::new(work),
        live: Arc::clone(&live),
        client: None,
        permit,
        recovery: Some(room.recovery),
        events_stored,
    });
    inner.live.add(fence.turn, live);
    driver::spawn(inner, fence, driver.resume(step));
}

fn ends_by_our_fault(write: &TurnChange) -> bool {
    matches!(write, TurnChange::EndTurn(end) if end.reason == Some(TurnReason::Internal))
}

/// The tools of the turn, each in the version that it was offered in; one that comes with the
/// program and is gone is left out.
async fn offer_of(
    inner: &RuntimeInner,
    organization: OrgId,
    context: &TurnContext,
) -> Result<(ToolOffer, Option<Arc<ToolBookPage>>), RecoverError> {
    let Some(offered) = &context.tools else {
        return Ok((ToolOffer::Relay, None));
    };
    let now = inner.env.now();
    let page = inner.book.page(&inner.store, organization, now).await?;
    let mut listed = Vec::new();
    for tool in offered {
        match tool {
            ListedTool::Client(name) => listed.push(MixedListEntry::Client(name.clone())),
            // Its calls could not run; what was pending ends as no longer available.
            ListedTool::Ours(_) if page.is_none() => {}
            ListedTool::Ours(tool) => {
                let tool = tool_of(inner, organization, tool).await?;
                listed.extend(tool.map(MixedListEntry::Ours));
            }
        }
    }
    Ok((ToolOffer::of_list(listed), page))
}

async fn tool_of(
    inner: &RuntimeInner,
    organization: OrgId,
    OfferedTool { name, version }: &OfferedTool,
) -> Result<Option<Arc<Tool>>, RecoverError> {
    let Some(key) = version else {
        let mut built_in = inner.book.built_in().iter();
        return Ok(built_in.find(|tool| tool.name == *name).cloned());
    };
    let row = inner
        .store
        .tool_version(organization, ToolVersionKey(*key))
        .await?;
    Ok(row.as_ref().and_then(tool_book::compiled))
}

/// The record of a turn from which its machine is rebuilt.
pub fn found_turn(found: &RecoveredTurn) -> FoundTurn {
    FoundTurn {
        rounds: found
            .messages
            .iter()
            .filter(|message| message.role == Role::Assistant && message.round > 0)
            .map(|message| FoundRound {
                round: message.round,
                blocks: message.blocks.clone(),
                origin: message.origin.clone(),
            })
            .collect(),
        calls: found
            .calls
            .iter()
            .filter(|row| row.call.runs != CallRunner::Outside)
            .map(|row| FoundCall {
                call: row.call.call,
                id: row.call.id,
                runs: row.call.runs,
                tool_name: row.call.tool_name.clone(),
                sent_id: row.call.tool_call_id.clone(),
                effect: row.call.effect,
                arguments: row.call.arguments.clone(),
                idempotency_key: row.call.idempotency_key.clone(),
                callback_token: row.call.callback_token.clone(),
                awaits_callback: row.awaits_callback(),
                told: row.told.clone(),
                approval: row.call.approval,
                approves: row.call.approves,
                status: row.call.status,
                end: row.call.end.clone(),
            })
            .collect(),
        attempts: found
            .attempts
            .iter()
            .map(|row| FoundAttempt {
                round: row.round,
                position: row.position,
                n: row.n,
                upstream: row.upstream.clone(),
                outcome: row.end.as_ref().map(|end| end.outcome.as_str().to_owned()),
                usage: row.end.as_ref().and_then(|end| end.usage.clone()),
            })
            .collect(),
        events: found
            .events
            .iter()
            .map(|numbered| numbered.event.clone())
            .collect(),
        stopping: found.turn.stop,
    }
}
