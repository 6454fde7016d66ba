//! Callbacks: what tools that complete by webhook tell of their jobs.
//!
//! What a callback does is one transaction, whose outcome is told only then. The turn that waits for it, if there is one
//! in this process, is told afterwards; what it missed it finds in the record.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use sha2::{Digest, Sha256};
use tw_core::callback::{CallbackMeaning, CallbackOutcome, CallbackVerdict, TakenCallback};
use tw_core::change::{Change, Outcome};
use tw_core::definition::{CallbackRules, JobReading, ToolDefinition};
use tw_core::id::{CallRef, TurnId};
use tw_core::time::Timestamp;
use tw_egress::callbacks::{self, IncomingCallback};
use tw_egress::off_thread::aside;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::system::callbacks::{CallbackTarget, callback_target};
use tw_store::system::ended_calls::ended_calls;
use tw_wire::stored::tool;

use crate::runtime::{Runtime, RuntimeInner};

/// The path under which callbacks come in; the tool's name and the call's token follow.
pub const CALLBACK_PATH: &str = "/hooks";
/// Longest body of a callback, in bytes.
pub const CALLBACK_BYTES_MAX: usize = 256 * 1024;
/// A body that is longer may take milliseconds to take apart.
const ASIDE_BYTES_MIN: usize = 32 * 1024;
/// Longest name and token that are looked at, in bytes.
const ADDRESS_BYTES_MAX: usize = 64;
/// Callbacks in a minute that are refused and get a row all the same: strangers make as many as they like.
const REFUSED_KEPT_MAX: u32 = 60;
const MINUTE_US: i64 = 60_000_000;
/// Text in place of a call's token.
const MASK: &str = "***";

/// A callback that has no effect, and what its sender is told: the same whether it is unknown or forged.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    #[error("this is the address of no call, or its signature is wrong")]
    NotAccepted,
    #[error("the body does not say what it must")]
    Malformed,
    #[error("reading a call")]
    Read(#[from] ReadError),
    #[error("writing a callback")]
    Write(#[from] StoreApplyError),
}

/// A request to the address of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallbackRequest<'a> {
    pub tool: &'a str,
    pub token: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
    /// The other side of the connection.
    pub peer: IpAddr,
}

/// The refused callbacks of this minute that got a row.
#[derive(Debug, Default)]
pub(crate) struct RefusedCallbacks(Mutex<(i64, u32)>);

impl RefusedCallbacks {
    fn has_room(&self, now: Timestamp) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now.0.div_euclid(MINUTE_US);
        if kept.0 != minute {
            *kept = (minute, 0);
        }
        kept.1 = kept.1.saturating_add(1);
        kept.1 <= REFUSED_KEPT_MAX
    }
}

/// The URL at which a callback ends a call.
pub(crate) fn url(base: &str, tool: &str, token: &str) -> String {
    format!("{base}{CALLBACK_PATH}/{tool}/{token}")
}

impl Runtime {
    /// Takes a callback: what it came to is durable when this ends.
    ///
    /// # Errors
    /// [`CallbackError::NotAccepted`] for one that is unknown or forged.
    pub async fn take_callback(
        &self,
        request: CallbackRequest<'_>,
    ) -> Result<CallbackOutcome, CallbackError> {
        let inner = &self.0;
        let is_fit = |text: &str| !text.is_empty() && text.len() <= ADDRESS_BYTES_MAX;
        let target = if is_fit(request.token) && is_fit(request.tool) {
            callback_target(&inner.store, request.token).await?
        } else {
            None
        };
        let target = target.filter(|target| target.tool_name == request.tool);
        let definition = target.as_ref().and_then(|target| {
            let read = tool::decode(&target.definition).ok();
            read.filter(|definition| callback_rules(definition).is_some())
        });
        let source =
            callbacks::source(request.peer, request.headers, &inner.config.trusted_proxies);
        let (Some(target), Some(definition)) = (target, definition) else {
            let unknown = self.taken(&request, source, (CallbackVerdict::Unknown, None));
            return self.refuse(unknown).await;
        };
        if let Err(fault) = self.verify(&request, source, &target, &definition) {
            let mut forged = self.taken(&request, source, (CallbackVerdict::Forged, Some(fault)));
            forged.call = Some((target.organization, target.id));
            return self.refuse(forged).await;
        }
        let reading = reading(&definition, &request);
        let meaning = reading.meaning;
        let mut taken = self.taken(&request, source, (CallbackVerdict::Genuine, None));
        taken.call = Some((target.organization, target.id));
        let rules = callback_rules(&definition);
        if let Some(id) = rules.and_then(|rules| callbacks::sender_id(rules, request.headers)) {
            taken.sender_id = id;
        }
        taken.meaning = meaning.clone();
        taken.external_id = reading.external_id;
        let (runtime, turn, call) = (self.clone(), target.turn, target.call);
        // The turn hears of it even if the sender does not wait for the answer.
        let writing = async move {
            let outcome = runtime.write(taken).await?;
            runtime.tell(turn, call, outcome, meaning);
            Ok(outcome)
        };
        let written = inner.tasks.spawn(writing).await;
        let unknown = || CallbackError::Write(StoreApplyError::Unknown { source: None });
        let outcome = written.unwrap_or_else(|_| Err(unknown()))?;
        tracing::info!(
            organization = target.organization_slug,
            turn.id = %target.turn,
            tool = target.tool_name,
            outcome = outcome.as_str(),
            "callback taken"
        );
        match outcome {
            CallbackOutcome::Malformed => Err(CallbackError::Malformed),
            CallbackOutcome::Refused => Err(CallbackError::NotAccepted),
            CallbackOutcome::Completed
            | CallbackOutcome::Failed
            | CallbackOutcome::Progress
            | CallbackOutcome::Kept
            | CallbackOutcome::Duplicate
            | CallbackOutcome::Late => Ok(outcome),
        }
    }

    /// Tells whoever waits in this process of what a callback has done.
    fn tell(
        &self,
        turn: TurnId,
        call: CallRef,
        outcome: CallbackOutcome,
        meaning: CallbackMeaning,
    ) {
        let inner = &self.0;
        if matches!(
            outcome,
            CallbackOutcome::Completed | CallbackOutcome::Failed
        ) && let CallbackMeaning::Ended(end) = meaning
            && let Some(live) = inner.live.get(turn)
        {
            live.call_ended(call, end);
        }
        if outcome == CallbackOutcome::Kept {
            inner.jobs_due.notify_one();
        }
    }

    fn verify(
        &self,
        request: &CallbackRequest<'_>,
        source: IpAddr,
        target: &CallbackTarget,
        definition: &ToolDefinition,
    ) -> Result<(), &'static str> {
        let rules = callback_rules(definition).ok_or("signature_missing")?;
        let config = &self.0.config;
        let base = config.callback_base.as_deref().unwrap_or_default();
        let incoming = IncomingCallback {
            headers: request.headers,
            body: request.body,
            url: &url(base, request.tool, request.token),
            source,
        };
        let now_s = self.0.env.now().seconds();
        let slug = &target.organization_slug;
        callbacks::verify(rules, &config.secrets, slug, incoming, now_s)
    }

    /// A callback that nobody asks what it says.
    fn taken(
        &self,
        request: &CallbackRequest<'_>,
        source: IpAddr,
        (verdict, fault): (CallbackVerdict, Option<&'static str>),
    ) -> TakenCallback {
        let env = &self.0.env;
        let body_hash: [u8; 32] = Sha256::digest(request.body).into();
        TakenCallback {
            id: format!("cb_{}", env.ordered_id().simple()),
            call: None,
            tool: request.tool.chars().take(ADDRESS_BYTES_MAX).collect(),
            sender_id: body_hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            source: source.to_string(),
            verdict,
            fault,
            meaning: CallbackMeaning::Refused,
            external_id: None,
            body: request.body.to_vec(),
            body_hash,
            at: env.now(),
        }
    }

    async fn refuse(&self, refused: TakenCallback) -> Result<CallbackOutcome, CallbackError> {
        tracing::info!(
            verdict = refused.verdict.as_str(),
            fault = refused.fault,
            source = refused.source,
            "callback refused"
        );
        if self.0.refused_callbacks.has_room(refused.at) {
            self.write(refused).await?;
        }
        Err(CallbackError::NotAccepted)
    }

    async fn write(&self, taken: TakenCallback) -> Result<CallbackOutcome, CallbackError> {
        let change = Change::TakeCallback(Box::new(taken));
        let outcomes = self.0.store.apply(vec![change]).await?;
        match outcomes.first() {
            Some(Outcome::CallbackTaken(outcome)) => Ok(*outcome),
            _ => Ok(CallbackOutcome::Refused),
        }
    }
}

/// Tells the turns of this process of calls that others have ended: another server, or a sweep.
pub(crate) async fn tell_ended(inner: &RuntimeInner) -> Result<(), ReadError> {
    if inner.live.count() == 0 {
        return Ok(());
    }
    for ended in ended_calls(&inner.store, &inner.boot).await? {
        if let Some(live) = inner.live.get(ended.turn) {
            live.call_ended(ended.call, ended.end);
        }
    }
    Ok(())
}

fn callback_rules(definition: &ToolDefinition) -> Option<&CallbackRules> {
    definition.job.as_ref()?.callback.as_ref()
}

/// What the body says; the call's token is not in it any more.
fn reading(definition: &ToolDefinition, request: &CallbackRequest<'_>) -> JobReading {
    let Ok(body) = std::str::from_utf8(request.body) else {
        return JobReading {
            meaning: CallbackMeaning::Malformed,
            external_id: None,
        };
    };
    let body = masked(body, request.token);
    let mut reading = aside(body.len() > ASIDE_BYTES_MIN, || {
        definition.callback_reading(&body)
    });
    if let CallbackMeaning::Ended(end) = &reading.meaning
        && let Some(job) = &definition.job
    {
        let confirms = job.poll.as_ref().is_some_and(|poll| poll.confirms);
        if confirms {
            reading.meaning = CallbackMeaning::Over { answer: None };
        } else if job.files.is_some() && end.reason.is_none() {
            // Its files are copied first, which takes longer than whoever calls back waits.
            let answer = Some(body);
            reading.meaning = CallbackMeaning::Over { answer };
        }
    }
    reading
}

/// What a tool says of a job, without the call's token: some say the callback's URL again.
pub(crate) fn masked(said: &str, token: &str) -> String {
    said.replace(token, MASK)
}
