//! The asker of jobs: one task, which takes what is due and asks about it, some at once.
//!
//! A job is claimed in the store before it is asked about and settled there afterwards, so a crash in between only means
//! that it is asked about again: a poll changes nothing at its tool.
//!
//! An organization whose service hangs holds its own slots for as long as a poll may take, and leaves some for every other one.

pub(crate) mod copying;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tw_core::call::{CallEnd, CallReason};
use tw_core::callback::CallbackMeaning;
use tw_core::change::{Change, Outcome};
use tw_core::definition::{PollRules, ToolDefinition};
use tw_core::effect_words;
use tw_core::id::OrgId;
use tw_core::job::{JobChange, JobClaim, JobEnding, JobProgress, PollFault, PolledJob, SettleJob};
use tw_core::time::Timestamp;
use tw_core::variables::Variables;
use tw_egress::api_request::poll::{PollContext, PollReport};
use tw_egress::off_thread::aside;
use tw_egress::secrets::Tenancy;
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::system;
use tw_store::system::jobs::{self, DueJobs, JobToAsk};
use tw_wire::stored::tool;

use crate::callbacks::masked;
use crate::error_chain::ErrorChain;
use crate::owned_tasks::OwnedTasks;
use crate::runtime::RuntimeInner;

/// Jobs that are asked about at once.
const SLOTS: usize = 256;
/// Those of one organization.
const SLOTS_OF_ONE: usize = 64;
/// Longest time between two looks at what is due: what another process writes wakes nobody here.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a job that was claimed and not settled is due again: longer than any tool's timeout.
const CLAIM_MAX: Duration = Duration::from_secs(120);
/// Time that polls get to end when the process is to end.
const LAST_POLLS_MAX: Duration = Duration::from_secs(5);
/// Tries of the write that settles a job.
const SETTLES_MAX: u32 = 3;
/// An answer that is larger than this may take milliseconds to take apart, in bytes.
const ASIDE_BYTES_MIN: usize = 32 * 1024;

pub(crate) async fn run(inner: Arc<RuntimeInner>) {
    let mut asking = OwnedTasks::default();
    let mut slots = PollSlots::default();
    let mut may_free = true;
    loop {
        if may_free {
            may_free = !free_claims(&inner).await;
        }
        let next = take_due(&inner, &mut asking, &mut slots).await;
        let wait = next.map_or(LOOK_INTERVAL, |at| {
            at.since(inner.env.now()).min(LOOK_INTERVAL)
        });
        tokio::select! {
            () = inner.refusing.cancelled() => break,
            () = inner.jobs_due.notified() => {}
            () = inner.replicas.gone_for_jobs.notified() => may_free = true,
            organization = asking.ended() => slots.give_back(organization, 1),
            () = tokio::time::sleep(wait) => {}
        }
        while let Some(organization) = asking.ended_already() {
            slots.give_back(organization, 1);
        }
    }
    // What is cut off is asked about again by the next process.
    let _ = tokio::time::timeout(LAST_POLLS_MAX, asking.all_ended()).await;
}

/// Slots in use.
#[derive(Debug, Default)]
struct PollSlots {
    of: HashMap<OrgId, usize>,
    used: usize,
}

impl PollSlots {
    /// Slots that an organization may take now: at most half of what is free, so that whoever comes next finds some.
    fn room(&self, organization: OrgId) -> usize {
        let left = SLOTS.saturating_sub(self.used);
        let own_left = SLOTS_OF_ONE.saturating_sub(self.in_use(organization));
        left.div_ceil(2).min(own_left)
    }

    fn in_use(&self, organization: OrgId) -> usize {
        self.of.get(&organization).copied().unwrap_or(0)
    }

    /// Takes slots for organizations that have jobs which are due, as far as there is room. Whoever has fewest in use
    /// is first, so that a slot that comes back goes to somebody who has none; among those, whoever has waited longest.
    fn share(&mut self, due: &mut [DueJobs]) -> Vec<(OrgId, usize)> {
        due.sort_by_key(|of| (self.in_use(of.organization), of.due));
        let mut shares = Vec::new();
        for DueJobs { organization, .. } in due {
            let room = self.room(*organization);
            if room > 0 {
                self.take(*organization, room);
                shares.push((*organization, room));
            }
        }
        shares
    }

    fn take(&mut self, organization: OrgId, slots: usize) {
        *self.of.entry(organization).or_default() += slots;
        self.used += slots;
    }

    fn give_back(&mut self, organization: OrgId, slots: usize) {
        let Some(own) = self.of.get_mut(&organization) else {
            return;
        };
        let slots = slots.min(*own);
        *own -= slots;
        self.used = self.used.saturating_sub(slots);
        if *own == 0 {
            self.of.remove(&organization);
        }
    }
}

/// Organizations that want slots for jobs that are due, of which only a claim tells how many there are.
struct SlotSharing {
    due: Vec<DueJobs>,
    /// Nothing came back of what was shared out last.
    is_over: bool,
}

impl SlotSharing {
    fn new(due: Vec<DueJobs>) -> Self {
        Self {
            due,
            is_over: false,
        }
    }

    /// Slots to claim jobs for. They are taken as if there were as many jobs, so that nobody after takes them.
    fn next(&mut self, slots: &mut PollSlots) -> Option<Vec<(OrgId, usize)>> {
        if self.is_over {
            return None;
        }
        let shares = slots.share(&mut self.due);
        (!shares.is_empty()).then_some(shares)
    }

    /// Takes back what the shares were more than the jobs that were claimed, for those who were passed by.
    fn claimed(&mut self, slots: &mut PollSlots, shares: &[(OrgId, usize)], claimed: &[usize]) {
        let mut satisfied = HashSet::new();
        for ((organization, room), claimed) in shares.iter().zip(claimed) {
            if claimed < room {
                slots.give_back(*organization, room - claimed);
                satisfied.insert(*organization);
            }
        }
        self.is_over = satisfied.is_empty();
        self.due.retain(|of| !satisfied.contains(&of.organization));
    }
}

/// Whether it is done.
async fn free_claims(inner: &RuntimeInner) -> bool {
    let free = JobChange::FreeClaims {
        owner: inner.boot.clone(),
        at: inner.env.now(),
    };
    match inner.store.apply(vec![free.into()]).await {
        Ok(_) => true,
        Err(error) => {
            tracing::warn!(error = %ErrorChain(&error), "jobs of an earlier process were not freed");
            false
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TakeJobsError {
    #[error("reading what is due")]
    Read(#[from] ReadError),
    #[error("claiming jobs")]
    Write(#[from] StoreApplyError),
}

/// Begins to ask about what is due, as far as there is room; when the next of the others is due.
async fn take_due(
    inner: &Arc<RuntimeInner>,
    asking: &mut OwnedTasks<OrgId>,
    slots: &mut PollSlots,
) -> Option<Timestamp> {
    if inner.refusing.is_cancelled() || !inner.replicas.may_drive() {
        return None;
    }
    match try_take_due(inner, asking, slots).await {
        Ok(next) => next,
        Err(error) => {
            tracing::warn!(error = %ErrorChain(&error), "jobs cannot be asked about now");
            None
        }
    }
}

async fn try_take_due(
    inner: &Arc<RuntimeInner>,
    asking: &mut OwnedTasks<OrgId>,
    slots: &mut PollSlots,
) -> Result<Option<Timestamp>, TakeJobsError> {
    let now = inner.env.now();
    let mut known = jobs::due(&inner.store).await?;
    let next = known.iter().map(|of| of.due).filter(|due| *due > now).min();
    known.retain(|of| of.due <= now);
    let mut sharing = SlotSharing::new(known);
    while let Some(shares) = sharing.next(slots) {
        let claims = shares
            .iter()
            .map(|(organization, room)| claim(inner, *organization, *room, now));
        let outcomes = inner.store.apply(claims.collect()).await;
        let mut counts = Vec::new();
        for ((organization, _), claimed) in shares.iter().zip(of_each(&outcomes)) {
            for claim in claimed {
                let (inner, claim) = (Arc::clone(inner), claim.clone());
                asking.spawn(*organization, async move { ask(&inner, claim).await });
            }
            counts.push(claimed.len());
        }
        sharing.claimed(slots, &shares, &counts);
        outcomes?;
    }
    Ok(next)
}

/// The jobs of each claim; none of claims that were not written.
fn of_each(outcomes: &Result<Vec<Outcome>, StoreApplyError>) -> impl Iterator<Item = &[JobClaim]> {
    let outcomes = outcomes.as_deref().unwrap_or_default().iter();
    let claimed = outcomes.map(|outcome| match outcome {
        Outcome::Jobs(claimed) => claimed.as_slice(),
        _ => &[],
    });
    claimed.chain(std::iter::repeat(&[][..]))
}

fn claim(inner: &RuntimeInner, organization: OrgId, room: usize, at: Timestamp) -> Change {
    JobChange::Claim {
        organization,
        owner: inner.boot.clone(),
        jobs_max: u32::try_from(room).unwrap_or(u32::MAX),
        at,
        until: at.after(CLAIM_MAX),
    }
    .into()
}

/// Asks about a job once and notes what became of it.
async fn ask(inner: &RuntimeInner, claim: JobClaim) {
    let asked = match try_ask(inner, claim).await {
        Ok(asked) => asked,
        // The database may be well again in a moment; the claim ends by itself.
        Err(error) => {
            tracing::warn!(error = %ErrorChain(&error), "a job cannot be read now");
            return;
        }
    };
    settle(inner, asked).await;
}

async fn try_ask(inner: &RuntimeInner, claim: JobClaim) -> Result<AskedJob, ReadError> {
    let Some(job) = jobs::job_to_ask(&inner.store, claim.job).await? else {
        return Ok(AskedJob::over(claim));
    };
    if job.has_ended {
        return Ok(AskedJob::over(claim));
    }
    let definition = job.definition.as_deref();
    let Some(definition) = definition.and_then(|text| tool::decode(text).ok()) else {
        // Its deadline ends the call, which nobody can ask about.
        let end = inner.not_ended(&job, &[], Heard::nothing(PollFault::Unsendable));
        return Ok(AskedJob {
            claim,
            end,
            plain: None,
            room: None,
            job: Some(job),
        });
    };
    let heard = hear(inner, &definition, &job).await?;
    let every = poll_rules(&definition).map_or(&[][..], |rules| &rules.every);
    let end = match heard.meaning {
        Ok(CallbackMeaning::Ended(end)) => {
            let body = heard.body.unwrap_or_default();
            let copied = copying::copy(inner, &definition, &job, (end, &body)).await?;
            match copied {
                Some(copied) => {
                    return Ok(AskedJob {
                        claim,
                        end: copied.ending,
                        plain: Some(copied.plain),
                        room: copied.room,
                        job: Some(job),
                    });
                }
                None => {
                    let again = Heard {
                        meaning: Err(PollFault::Files),
                        body: None,
                        ..heard
                    };
                    inner.not_ended(&job, every, again)
                }
            }
        }
        _ => inner.not_ended(&job, every, heard),
    };
    Ok(AskedJob {
        claim,
        end,
        plain: None,
        room: None,
        job: Some(job),
    })
}

fn poll_rules(definition: &ToolDefinition) -> Option<&PollRules> {
    definition.job.as_ref()?.poll.as_ref()
}

/// What a callback has said already, or what a poll says.
async fn hear(
    inner: &RuntimeInner,
    definition: &ToolDefinition,
    job: &JobToAsk,
) -> Result<Heard, ReadError> {
    if let Some(answer) = &job.answer {
        return Ok(Heard {
            meaning: Ok(definition.callback_reading(answer).meaning),
            body: Some(answer.clone()),
            http_status: None,
            retry_after: None,
        });
    }
    match poll_rules(definition) {
        None => Ok(Heard::nothing(PollFault::Unsendable)),
        Some(rules) if job.external_id.is_none() && rules.request.names_external_id() => {
            Ok(Heard::nothing(PollFault::NoId))
        }
        Some(_) => poll(inner, definition, job).await,
    }
}

/// What a poll came to.
struct Heard {
    meaning: Result<CallbackMeaning, PollFault>,
    /// The answer itself.
    body: Option<String>,
    http_status: Option<u16>,
    retry_after: Option<Duration>,
}

impl Heard {
    fn nothing(fault: PollFault) -> Self {
        Self {
            meaning: Err(fault),
            body: None,
            http_status: None,
            retry_after: None,
        }
    }
}

async fn poll(
    inner: &RuntimeInner,
    definition: &ToolDefinition,
    job: &JobToAsk,
) -> Result<Heard, ReadError> {
    let tools = system::organization_tools(&inner.store, job.organization).await?;
    let tenancy = if tools.is_none_or(|tools| tools.organizations > 1) {
        Tenancy::Several
    } else {
        Tenancy::Single
    };
    let mut variables = Variables::default();
    variables.set("organization", job.organization_slug.clone());
    variables.set("turn", job.turn.to_string());
    variables.set("tool_call", job.id.to_string());
    let context = PollContext {
        organization: &job.organization_slug,
        tenancy,
        variables: &variables,
        reference: &job.idempotency_key,
        external_id: job.external_id.as_deref(),
    };
    let report = inner.executors.api.poll(definition, context).await;
    let PollReport {
        answer,
        http_status,
        retry_after,
        cause,
    } = report;
    if let Some(cause) = cause {
        tracing::info!(
            organization = job.organization_slug,
            turn.id = %job.turn,
            tool = job.tool_name,
            cause,
            "a poll gave no answer"
        );
    }
    let body = answer.map(|answer| masked(&answer, &job.callback_token));
    let meaning = body.as_ref().map_err(|fault| *fault).and_then(|body| {
        let is_large = body.len() > ASIDE_BYTES_MIN;
        match aside(is_large, || definition.poll_meaning(body)) {
            CallbackMeaning::Malformed => Err(PollFault::Malformed),
            meaning => Ok(meaning),
        }
    });
    Ok(Heard {
        meaning,
        body: body.ok(),
        http_status,
        retry_after,
    })
}

impl RuntimeInner {
    /// What is to become of a job that has not ended, as far as was heard.
    fn not_ended(&self, job: &JobToAsk, every: &[Duration], heard: Heard) -> JobEnding {
        let fault = heard.meaning.err();
        let progress = JobProgress {
            polls: job.polls,
            called_back: job.called_back,
            deadline: job.deadline,
        };
        match progress.next(every, heard.retry_after, self.env.now()) {
            Some(due) => JobEnding::Again {
                due,
                poll: PolledJob {
                    http_status: heard.http_status,
                    fault,
                },
            },
            None => JobEnding::Ended {
                organization: job.organization,
                call: job.id,
                end: CallEnd {
                    reason: Some(CallReason::Deadline),
                    result: None,
                    shown: effect_words::NO_CALLBACK.to_owned(),
                    is_error: true,
                    cached: false,
                },
                files: Vec::new(),
                files_bytes_max: 0,
            },
        }
    }
}

/// A job that was asked about, and what is to become of it.
struct AskedJob {
    claim: JobClaim,
    end: JobEnding,
    /// The call's end where there is no room for copies of its files.
    plain: Option<CallEnd>,
    /// Room for those copies.
    room: Option<OwnedSemaphorePermit>,
    /// `None` for one whose call had ended before.
    job: Option<JobToAsk>,
}

impl AskedJob {
    fn over(claim: JobClaim) -> Self {
        Self {
            claim,
            end: JobEnding::Over,
            plain: None,
            room: None,
            job: None,
        }
    }
}

async fn settle(inner: &RuntimeInner, asked: AskedJob) {
    let AskedJob {
        claim,
        end,
        mut plain,
        room: _room,
        job,
    } = asked;
    let mut settle = SettleJob {
        claim,
        end,
        at: inner.env.now(),
    };
    for _ in 0..SETTLES_MAX {
        let change = JobChange::Settle(settle.clone());
        match inner.store.apply(vec![change.into()]).await {
            Ok(outcomes) => {
                if outcomes.first() == Some(&Outcome::TooMany)
                    && let Some(plain) = plain.take()
                {
                    settle.end = copying::without_room(settle.end, plain);
                    continue;
                }
                if let (Some(Outcome::Done), Some(job)) = (outcomes.first(), &job) {
                    tell(inner, &settle.end, job);
                }
                return;
            }
            Err(error) => {
                tracing::warn!(error = %ErrorChain(&error), "what became of a job was not noted");
            }
        }
    }
}

/// Tells the turn that waits for the call, if there is one in this process.
fn tell(inner: &RuntimeInner, ending: &JobEnding, job: &JobToAsk) {
    let JobEnding::Ended { end, .. } = ending else {
        return;
    };
    tracing::info!(
        organization = job.organization_slug,
        turn.id = %job.turn,
        tool = job.tool_name,
        status = end.status().as_str(),
        reason = end.reason.map(CallReason::as_str),
        "job ended"
    );
    if let Some(live) = inner.live.get(job.turn) {
        live.call_ended(job.call, end.clone());
    }
}

#[cfg(test)]
mod tests;
