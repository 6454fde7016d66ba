//! Taking over turns that nobody drives.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tw_core::call::Runs;
use tw_core::change::{Change, ClaimTurn, Fence, Outcome};
use tw_core::history;
use tw_core::id::{OrgId, TurnId};
use tw_core::request::Role;
use tw_core::turn::{FoundAttempt, FoundCall, FoundTurn, Now, Offer, Step, Turn, TurnSetup};
use tw_store::apply::ApplyError;
use tw_store::read::ReadError;
use tw_store::read::turn::RecoveredTurn;
use tw_store::system;
use tw_wire::own::DamagedRecord;
use tw_wire::own::context;

use crate::driver::{self, Driver, DriverParts, Work};
use crate::live::Live;
use crate::runtime::{Inner, Runtime};

/// Turns that are taken over at once, so that a start after a crash does not flood tools and
/// upstreams.
const RECOVERIES_PARALLEL_MAX: usize = 4;
/// Turns looked up at a time.
const RECOVERIES_LISTED_MAX: u32 = 10_000;
/// After a failed write, the store is given this long before the turn is taken over.
const AFTER_FAILED_WRITE: Duration = Duration::from_secs(1);

/// Why a turn could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("reading the turn")]
    Read(#[from] ReadError),
    #[error("claiming the turn")]
    Claim(#[from] ApplyError),
    #[error("the stored context")]
    Context(#[from] DamagedRecord),
    #[error("the stored request: {0}")]
    Input(String),
    #[error("the upstream {0:?} is no longer configured")]
    Upstream(String),
}

impl Runtime {
    /// Takes over every turn that an earlier process left, and returns how many are driven now.
    ///
    /// # Errors
    /// When the list cannot be read; a single turn's failure is logged.
    pub async fn recover(&self) -> Result<usize, ReadError> {
        let found =
            system::unfinished_turns(self.store(), &self.0.boot, RECOVERIES_LISTED_MAX).await?;
        let driven = futures_util::stream::iter(found)
            .map(|(organization, turn)| async move {
                match take_over(&self.0, organization, turn).await {
                    Ok(taken) => usize::from(taken),
                    Err(error) => {
                        tracing::error!(turn.id = %turn, error = %error, "a turn could not be taken over");
                        0
                    }
                }
            })
            .buffer_unordered(RECOVERIES_PARALLEL_MAX)
            .fold(0, |sum, taken| async move { sum + taken })
            .await;
        Ok(driven)
    }
}

/// Takes the turn over after a while; its driver could not write.
pub(crate) fn later(inner: Arc<Inner>, organization: OrgId, turn: TurnId) {
    let tasks = inner.tasks.clone();
    tasks.spawn(async move {
        loop {
            tokio::select! {
                () = inner.refusing.cancelled() => return,
                () = tokio::time::sleep(AFTER_FAILED_WRITE) => {}
            }
            match take_over(&inner, organization, turn).await {
                Ok(_) => return,
                Err(error) => {
                    tracing::error!(turn.id = %turn, error = %error, "a turn could not be taken over");
                }
            }
        }
    });
}

async fn take_over(
    inner: &Arc<Inner>,
    organization: OrgId,
    turn: TurnId,
) -> Result<bool, RecoverError> {
    let claim = Change::ClaimTurn(ClaimTurn {
        organization,
        turn,
        owner: format!("{}:{}", inner.boot, inner.env.random_id().simple()),
        at: inner.env.now(),
    });
    let outcomes = inner.store.apply(vec![claim], None).await?;
    let Some(Outcome::Claimed { fence }) = outcomes.first() else {
        return Ok(false);
    };
    let fence = Fence {
        organization,
        turn,
        fence: *fence,
    };
    let Some(found) = inner.store.turn_for_recovery(organization, turn).await? else {
        return Ok(false);
    };
    let context = context::decode(&found.context)?;
    let input = tw_wire::openai_chat::request::decode(&found.body, &inner.config.request)
        .map_err(|error| RecoverError::Input(error.message))?;
    let upstream = inner
        .upstream(&context.upstream)
        .or_else(|| inner.config.upstreams.first())
        .ok_or_else(|| RecoverError::Upstream(context.upstream.clone()))?;
    let setup = TurnSetup {
        id: turn,
        created: found.turn.created,
        deadline: found.turn.deadline,
        streamed: found.turn.streamed,
        on_leave: found.turn.on_leave,
        record: found.turn.record,
        model: found.turn.model.clone(),
        choices: input.choices,
        choice_is_forced: input.tool_choice.is_forced(),
        completion_tokens_max: input.completion_tokens_max,
        offer: offer_of(inner, context.tools.as_deref()),
        limits: inner.config.turn.clone(),
        upstream: upstream.name.clone(),
    };
    let events_stored = found.events.last().map_or(0, |event| event.number);
    let mut step = Step::default();
    let mut now = Now {
        at: inner.env.now(),
        fresh_id: &mut || inner.env.random_id(),
    };
    let machine = Turn::recover(setup, &found_turn(&found), &mut now, &mut step);
    let (messages, _) = history::repair(input.messages.clone());
    let live = Live::new(events_stored);
    let driver = Driver::new(DriverParts {
        inner: Arc::clone(inner),
        turn: machine,
        fence,
        work: Arc::new(Work {
            input,
            messages,
            upstream: Arc::clone(upstream),
        }),
        live: Arc::clone(&live),
        client: None,
        events_stored,
    });
    inner.live.add(turn, live);
    driver::spawn(inner, fence, driver.resume(step));
    Ok(true)
}

/// The tools of the turn as far as they still exist.
fn offer_of(inner: &Inner, names: Option<&[String]>) -> Offer {
    match names {
        None => Offer::Relay,
        Some(names) => Offer::Ours(
            names
                .iter()
                .filter_map(|name| {
                    inner
                        .config
                        .tools
                        .iter()
                        .find(|tool| tool.name == *name)
                        .cloned()
                })
                .collect(),
        ),
    }
}

/// What the machine is rebuilt from.
pub fn found_turn(found: &RecoveredTurn) -> FoundTurn {
    FoundTurn {
        rounds: found
            .messages
            .iter()
            .filter(|message| message.role == Role::Assistant && message.round > 0)
            .map(|message| (message.round, message.blocks.clone()))
            .collect(),
        calls: found
            .calls
            .iter()
            .filter(|row| row.call.runs == Runs::Server)
            .map(|row| FoundCall {
                call: row.call.call,
                id: row.call.id,
                tool_name: row.call.tool_name.clone(),
                sent_id: row.call.tool_call_id.clone(),
                effect: row.call.effect,
                arguments: row.call.arguments.clone(),
                idempotency_key: row.call.idempotency_key.clone(),
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
