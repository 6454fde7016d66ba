//! Limits of keys and organizations, with what they hold now, and those of the server in all.
//!
//! Everything is counted in this process and begins anew with it, except that turns which are
//! taken over count again. Where several processes serve, each holds to its part of a limit. A limit that is off costs
//! nothing: then no lock is taken.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tw_core::id::{ApiKeyId, OrgId};
use tw_core::rate::{BucketStanding, RateLimits, TokenBucket};
use tw_core::time::Timestamp;
use tw_egress::env::Env;

use crate::auth::Principal;
use crate::byte_units::units;
use crate::replicas::LimitShare;
use crate::runtime::Runtime;

/// The limits of a server; those of a single key stand in its row.
#[derive(Clone, Debug)]
pub struct LimiterRules {
    /// Turns that may run at once, in all.
    pub turns_max: usize,
    /// Streams that may be open at once, in all.
    pub streams_max: usize,
    /// Bytes of the bodies of turns that run, in all.
    pub running_bodies_bytes_max: u64,
    /// Limits of every key that has none of its own.
    pub key: RateLimits,
    /// Limits of every organization that has none of its own.
    pub organization: RateLimits,
    /// Limits of organizations, by slug.
    pub organizations: BTreeMap<String, RateLimits>,
}

/// Turns that may run at once (design, section 12: open streams).
pub const TURNS_DEFAULT: usize = 10_000;
/// Design, section 12.
pub const STREAMS_DEFAULT: usize = 10_000;
/// Bytes of the bodies of turns that run, as many as of bodies that are being read: sixteen of the
/// largest, or [`TURNS_DEFAULT`] of 52 KiB, which is some 13,000 tokens.
pub const RUNNING_BODIES_BYTES_DEFAULT: u64 = 512 * 1024 * 1024;
/// Keys and organizations that are counted at once; further ones are refused, since nobody would
/// hold them to their limits. Each takes about 100 bytes.
pub const COUNTED_MAX: usize = 100_000;
/// Count of keys and organizations beyond which those that need no counting are forgotten.
const SWEPT_AT: usize = 1_024;
/// Least time between two sweeps, since each looks at everybody.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(1);
/// Time after which to come back to a limit of things at once, of which nobody knows when one ends.
const AT_ONCE_RETRY_AFTER: Duration = Duration::from_secs(1);

impl LimiterRules {
    /// The limits of the server as a whole alone.
    pub fn defaults() -> Self {
        Self {
            turns_max: TURNS_DEFAULT,
            streams_max: STREAMS_DEFAULT,
            running_bodies_bytes_max: RUNNING_BODIES_BYTES_DEFAULT,
            key: RateLimits::default(),
            organization: RateLimits::default(),
            organizations: BTreeMap::new(),
        }
    }
}

/// Reasons for which there is no room for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomRefused {
    /// The server as a whole has no room, whoever asks.
    Overloaded,
    /// The key or the organization of the caller is at a limit.
    Limited(ReachedLimit),
}

/// A limit of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachedLimit {
    pub whose: LimitSubject,
    pub what: LimitKind,
    pub max: NonZeroU32,
    pub retry_after: Duration,
    /// Standing of the tightest limit of requests, if there is one.
    pub requests: Option<BucketStanding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSubject {
    Key,
    Organization,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    RequestsPerMinute,
    TurnsAtOnce,
    StreamsAtOnce,
}

#[derive(Debug)]
pub(crate) struct Limiter {
    rules: LimiterRules,
    /// The part of the limits of keys and organizations that is this process's.
    share: Arc<LimitShare>,
    env: Env,
    turns: AtomicUsize,
    streams: AtomicUsize,
    bodies: Arc<Semaphore>,
    bodies_units_max: u32,
    counts: Mutex<LimitCounts>,
}

#[derive(Debug)]
struct LimitCounts {
    of: HashMap<Subject, Count>,
    swept: Timestamp,
}

/// The key or organization that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Key(ApiKeyId),
    Organization(OrgId),
}

#[derive(Clone, Copy, Debug)]
struct Count {
    requests: TokenBucket,
    turns: u32,
    streams: u32,
}

/// The key and the organization that ask, with their limits.
type Askers = [(Subject, RateLimits); 2];

impl Limiter {
    pub(crate) fn new(rules: LimiterRules, share: Arc<LimitShare>, env: Env) -> Arc<Self> {
        let bodies_units_max = units(rules.running_bodies_bytes_max).max(1);
        Arc::new(Self {
            rules,
            share,
            bodies: Arc::new(Semaphore::new(bodies_units_max as usize)),
            bodies_units_max,
            turns: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            counts: Mutex::new(LimitCounts {
                of: HashMap::new(),
                swept: env.now(),
            }),
            env,
        })
    }

    /// Whether a turn could begin now; takes nothing.
    fn may_begin(&self, caller: &Principal) -> Result<(), RoomRefused> {
        if self.turns.load(Ordering::Acquire) >= self.rules.turns_max {
            return Err(RoomRefused::Overloaded);
        }
        if self.bodies.available_permits() == 0 {
            return Err(RoomRefused::Overloaded);
        }
        let askers = self.askers(caller);
        if !askers.iter().any(|(_, limits)| counts_turns(limits)) {
            return Ok(());
        }
        // The clock is read under the lock, so that no two readings change places.
        let counts = self.lock();
        counts.check_turn(&askers, self.env.now())
    }

    /// Takes one request and one turn at once of each limit, and room for the turn's body; or
    /// nothing, when one is reached.
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: &Principal,
        body_bytes: u64,
    ) -> Result<RoomPermit, RoomRefused> {
        let mut place = RoomPermit::of_server(self, Kind::Turn, self.rules.turns_max)?;
        let held = Arc::clone(&self.bodies).try_acquire_many_owned(self.body_units(body_bytes));
        place.body = Some(held.map_err(|_full| RoomRefused::Overloaded)?);
        let askers = self.askers(caller);
        if !askers.iter().any(|(_, limits)| counts_turns(limits)) {
            return Ok(place);
        }
        let mut counts = self.lock();
        let now = self.env.now();
        counts.check_turn(&askers, now)?;
        counts.make_room(now)?;
        for (subject, limits) in askers {
            if !counts_turns(&limits) {
                continue;
            }
            let count = counts.entry(subject, now);
            count.turns = count.turns.saturating_add(1);
            if let Some(limit) = limits.requests_per_minute() {
                count.requests.take(limit, now);
                place.charged = Some(now);
            }
            place.counted_for(subject);
        }
        drop(counts);
        Ok(place)
    }

    /// Takes the permit of a turn that was accepted by an earlier process, or before its driver
    /// failed: it runs whatever the limits are, and counts for those who come later. Only for its
    /// body there must be room.
    pub(crate) fn taken_over(
        self: &Arc<Self>,
        organization: OrgId,
        key: ApiKeyId,
        body: BodyPermit,
    ) -> RoomPermit {
        self.turns.fetch_add(1, Ordering::AcqRel);
        let mut place = RoomPermit::empty(self, Kind::Turn);
        place.body = body.0;
        let mut counts = self.lock();
        let now = self.env.now();
        for subject in [Subject::Key(key), Subject::Organization(organization)] {
            let count = counts.entry(subject, now);
            count.turns = count.turns.saturating_add(1);
            place.counted_for(subject);
        }
        drop(counts);
        place
    }

    /// Waits until there is room for the body of a turn that is to be taken over. Whoever waits is served before turns
    /// that are new.
    ///
    /// # Cancel safety
    /// A dropped call takes nothing.
    pub(crate) async fn body_permit(&self, body_bytes: u64) -> BodyPermit {
        let bodies = Arc::clone(&self.bodies);
        // It is never closed.
        BodyPermit(
            bodies
                .acquire_many_owned(self.body_units(body_bytes))
                .await
                .ok(),
        )
    }

    /// Permits that a body takes; one that is larger than all the room takes all of it.
    fn body_units(&self, body_bytes: u64) -> u32 {
        units(body_bytes).clamp(1, self.bodies_units_max)
    }

    fn open_stream(self: &Arc<Self>, caller: &Principal) -> Result<RoomPermit, RoomRefused> {
        let mut place = RoomPermit::of_server(self, Kind::Stream, self.rules.streams_max)?;
        let askers = self.askers(caller);
        if askers
            .iter()
            .all(|(_, limits)| limits.streams_max().is_none())
        {
            return Ok(place);
        }
        let mut counts = self.lock();
        let now = self.env.now();
        for (subject, limits) in askers {
            let open = counts.of.get(&subject).map_or(0, |count| count.streams);
            if let Some(max) = limits.streams_max().filter(|max| open >= max.get()) {
                return Err(RoomRefused::Limited(ReachedLimit {
                    whose: subject.whose(),
                    what: LimitKind::StreamsAtOnce,
                    max,
                    retry_after: AT_ONCE_RETRY_AFTER,
                    requests: counts.requests(&askers, now),
                }));
            }
        }
        counts.make_room(now)?;
        for (subject, limits) in askers {
            if limits.streams_max().is_some() {
                let count = counts.entry(subject, now);
                count.streams = count.streams.saturating_add(1);
                place.counted_for(subject);
            }
        }
        drop(counts);
        Ok(place)
    }

    fn requests(&self, caller: &Principal) -> Option<BucketStanding> {
        let askers = self.askers(caller);
        askers
            .iter()
            .find_map(|(_, limits)| limits.requests_per_minute())?;
        let counts = self.lock();
        counts.requests(&askers, self.env.now())
    }

    fn askers(&self, caller: &Principal) -> Askers {
        let rules = &self.rules;
        let organization = match rules.organizations.get(&*caller.organization_slug) {
            Some(own) => own.or(rules.organization),
            None => rules.organization,
        };
        [
            (
                Subject::Key(caller.api_key),
                self.share.of_all(caller.limits.or(rules.key)),
            ),
            (
                Subject::Organization(caller.organization),
                self.share.of_all(organization),
            ),
        ]
    }

    /// Streams that are open now.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, LimitCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn counts_turns(limits: &RateLimits) -> bool {
    limits.requests_per_minute().is_some() || limits.concurrency_max().is_some()
}

impl Subject {
    fn whose(self) -> LimitSubject {
        match self {
            Self::Key(_) => LimitSubject::Key,
            Self::Organization(_) => LimitSubject::Organization,
        }
    }
}

impl LimitCounts {
    fn entry(&mut self, subject: Subject, now: Timestamp) -> &mut Count {
        self.of.entry(subject).or_insert_with(|| Count {
            requests: TokenBucket::full(now),
            turns: 0,
            streams: 0,
        })
    }

    /// Checks whether a turn may begin; of several limits that are reached, the one that keeps longest is told.
    fn check_turn(&self, askers: &Askers, now: Timestamp) -> Result<(), RoomRefused> {
        let mut longest: Option<ReachedLimit> = None;
        for (subject, limits) in askers {
            let running = self.of.get(subject).map_or(0, |count| count.turns);
            let no_turn = limits
                .concurrency_max()
                .filter(|max| running >= max.get())
                .map(|max| (LimitKind::TurnsAtOnce, max, AT_ONCE_RETRY_AFTER));
            let no_request = limits.requests_per_minute().and_then(|limit| {
                let standing = self.standing(*subject, limit, now);
                (standing.remaining == 0).then_some((
                    LimitKind::RequestsPerMinute,
                    limit,
                    standing.next_in,
                ))
            });
            for (what, max, retry_after) in no_turn.into_iter().chain(no_request) {
                if longest.is_none_or(|so_far| retry_after > so_far.retry_after) {
                    longest = Some(ReachedLimit {
                        whose: subject.whose(),
                        what,
                        max,
                        retry_after,
                        requests: None,
                    });
                }
            }
        }
        match longest {
            Some(limited) => Err(RoomRefused::Limited(ReachedLimit {
                requests: self.requests(askers, now),
                ..limited
            })),
            None => Ok(()),
        }
    }

    /// Standing of the limit of requests that lets the fewest pass now.
    fn requests(&self, askers: &Askers, now: Timestamp) -> Option<BucketStanding> {
        askers
            .iter()
            .filter_map(|(subject, limits)| {
                let limit = limits.requests_per_minute()?;
                Some(self.standing(*subject, limit, now))
            })
            .min_by_key(|standing| (standing.remaining, std::cmp::Reverse(standing.next_in)))
    }

    fn standing(&self, subject: Subject, limit: NonZeroU32, now: Timestamp) -> BucketStanding {
        let bucket = self.of.get(&subject).map(|count| count.requests);
        bucket
            .unwrap_or_else(|| TokenBucket::full(now))
            .standing(limit, now)
    }

    /// Forgets those who hold nothing and whose bucket is full, when there are many.
    fn make_room(&mut self, now: Timestamp) -> Result<(), RoomRefused> {
        let long_ago = now < self.swept || now.since(self.swept) >= BETWEEN_SWEEPS;
        if self.of.len() >= SWEPT_AT && long_ago {
            self.swept = now;
            self.of.retain(|_, count| !count.is_idle(now));
        }
        if self.of.len() >= COUNTED_MAX {
            return Err(RoomRefused::Overloaded);
        }
        Ok(())
    }
}

impl Count {
    fn is_idle(&self, now: Timestamp) -> bool {
        self.turns == 0 && self.streams == 0 && self.requests.is_full(now)
    }
}

/// Room for the body of a turn that is taken over.
#[derive(Debug)]
pub(crate) struct BodyPermit(Option<OwnedSemaphorePermit>);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Turn,
    Stream,
}

/// A permit for one turn or one stream, of the server and of those who are counted for it; free again when dropped.
#[derive(Debug)]
pub struct RoomPermit {
    limiter: Arc<Limiter>,
    kind: Kind,
    counted: [Option<Subject>; 2],
    /// Permit for the body of a turn.
    body: Option<OwnedSemaphorePermit>,
    /// Time when a request was taken for the turn.
    charged: Option<Timestamp>,
}

impl RoomPermit {
    fn of_server(limiter: &Arc<Limiter>, kind: Kind, max: usize) -> Result<Self, RoomRefused> {
        limiter
            .held(kind)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |held| {
                (held < max).then_some(held + 1)
            })
            .map_err(|_full| RoomRefused::Overloaded)?;
        Ok(Self::empty(limiter, kind))
    }

    /// The permit for a place of the server that is taken already.
    fn empty(limiter: &Arc<Limiter>, kind: Kind) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            kind,
            counted: [None, None],
            body: None,
            charged: None,
        }
    }

    fn counted_for(&mut self, subject: Subject) {
        if let Some(free) = self.counted.iter_mut().find(|place| place.is_none()) {
            *free = Some(subject);
        }
    }

    /// Gives back the room of the body, and keeps all else.
    pub(crate) fn release_body(&mut self) {
        self.body = None;
    }

    /// Gives back the request, too, since the turn did not begin.
    pub(crate) fn give_back(mut self) {
        let Some(charged) = self.charged.take() else {
            return;
        };
        let mut counts = self.limiter.lock();
        let now = self.limiter.env.now();
        for subject in self.counted.iter().flatten() {
            if let Some(count) = counts.of.get_mut(subject) {
                count.requests.give_back(charged, now);
            }
        }
        drop(counts);
    }
}

impl Limiter {
    fn held(&self, kind: Kind) -> &AtomicUsize {
        match kind {
            Kind::Turn => &self.turns,
            Kind::Stream => &self.streams,
        }
    }
}

impl Drop for RoomPermit {
    fn drop(&mut self) {
        self.limiter.held(self.kind).fetch_sub(1, Ordering::AcqRel);
        if self.counted == [None, None] {
            return;
        }
        let mut counts = self.limiter.lock();
        let now = self.limiter.env.now();
        for subject in self.counted.iter().flatten() {
            let Some(count) = counts.of.get_mut(subject) else {
                continue;
            };
            match self.kind {
                Kind::Turn => count.turns = count.turns.saturating_sub(1),
                Kind::Stream => count.streams = count.streams.saturating_sub(1),
            }
            if count.is_idle(now) {
                counts.of.remove(subject);
            }
        }
    }
}

impl Runtime {
    /// Whether a turn of this caller could begin now, to be asked before its body is read.
    /// Nothing is taken: the turn itself asks again.
    ///
    /// # Errors
    /// [`RoomRefused`].
    pub fn may_begin(&self, caller: &Principal) -> Result<(), RoomRefused> {
        if !self.may_drive() {
            return Err(RoomRefused::Overloaded);
        }
        self.0.limiter.may_begin(caller)?;
        if self.store().is_full() {
            return Err(RoomRefused::Overloaded);
        }
        Ok(())
    }

    /// Takes the permit of a stream, which is free again when it is dropped.
    ///
    /// # Errors
    /// [`RoomRefused`].
    pub fn open_stream(&self, caller: &Principal) -> Result<RoomPermit, RoomRefused> {
        self.0.limiter.open_stream(caller)
    }

    /// Standing of the caller's limit of requests, the tightest of several; `None` without one.
    pub fn requests_left(&self, caller: &Principal) -> Option<BucketStanding> {
        self.0.limiter.requests(caller)
    }
}

#[cfg(test)]
mod tests;
