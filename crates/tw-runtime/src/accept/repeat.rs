//! Requests that are sent again, and what their earlier tries mean for them.

use std::time::Duration;

use tw_core::event::{EffectRan, LogEvent};
use tw_core::history::HistoryRepairs;
use tw_core::id::{OrgId, TurnId};
use tw_core::memory::MemoryVerdict;
use tw_core::request_changes::RequestChanges;
use tw_core::time::Timestamp;
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::ReadError;
use tw_store::read::requests::{KeySent, RepeatSent};

use super::{Answer, TryMark, TurnAnswer, TurnRefused, TurnRequest, TurnTaken};
use crate::answered_notes;
use crate::auth::Principal;
use crate::follow::Follower;
use crate::runtime::Runtime;

/// Meanings of an earlier try of a request for this one.
pub(super) enum EarlierTry {
    Answers(Box<TurnTaken>),
    /// The earlier turn is being stopped; what it means is known at its end.
    StillEnding(Box<Follower>),
    /// There was no earlier turn, or it came to nothing: then the key that it used is free again,
    /// and only one made after it counts.
    Nothing {
        keys_since: Option<Timestamp>,
        /// The request is a repetition whose first try was not seen.
        is_early: bool,
    },
}

/// The step of the clock by which keys are told apart.
const CLOCK_TICK: Duration = Duration::from_micros(1);

/// Windows of repetitions in which a turn that had effects is found. The official clients repeat
/// twice, each time after up to ten minutes: the last repetition comes twenty minutes after the
/// first answer was lost.
const WINDOWS_OF_EFFECTS: u32 = 3;

/// An earlier try of a request.
struct Found {
    turn: TurnId,
    status: TurnStatus,
    reason: Option<TurnReason>,
    erased: bool,
    deleted: bool,
    stopping: bool,
    dispatched_effects: bool,
    conversation: String,
    memory: MemoryVerdict,
    /// Time when its idempotency key was made, if it was found by one.
    key_made: Option<Timestamp>,
}

/// The outcome of a search for an earlier try.
enum Search {
    Found(Found),
    Nothing,
    /// Nothing for a repetition, which says that there is something.
    NothingSeen,
}

enum Repeat {
    WaitForEnd,
    Attach,
    Anew,
    EffectsRan,
}

impl Found {
    fn decide(&self) -> Repeat {
        let came_to_nothing = match (self.status, self.reason) {
            (TurnStatus::Running, _) => {
                return if self.stopping {
                    Repeat::WaitForEnd
                } else {
                    Repeat::Attach
                };
            }
            (TurnStatus::Failed, _)
            | (TurnStatus::Cancelled, Some(TurnReason::ClientLeft))
            | (TurnStatus::Incomplete, Some(TurnReason::Interrupted)) => true,
            // An answer that is no longer kept cannot be given again.
            (TurnStatus::Completed | TurnStatus::Incomplete | TurnStatus::Cancelled, _) => {
                self.erased || self.deleted
            }
        };
        match (came_to_nothing, self.dispatched_effects) {
            (false, _) => Repeat::Attach,
            (true, false) => Repeat::Anew,
            (true, true) => Repeat::EffectsRan,
        }
    }
}

impl Runtime {
    /// The turn of an earlier try of the same request, if it answers this one.
    pub(super) async fn repeated(
        &self,
        request: &TurnRequest,
        end_user: Option<&str>,
        body_hash: [u8; 32],
        behind: Option<TurnId>,
    ) -> Result<EarlierTry, TurnRefused> {
        let search = self.find_repeat(request, end_user, body_hash, behind);
        match search.await? {
            Search::Found(found) => self.what_follows(found, request.caller.organization).await,
            Search::Nothing => Ok(EarlierTry::Nothing {
                keys_since: None,
                is_early: false,
            }),
            Search::NothingSeen => Ok(EarlierTry::Nothing {
                keys_since: None,
                is_early: true,
            }),
        }
    }

    /// What an equal request that brought the same answers means for this one.
    pub(super) async fn answered_before(
        &self,
        request: &TurnRequest,
        turn: TurnId,
    ) -> Result<EarlierTry, TurnRefused> {
        let caller = &request.caller;
        match self.found(caller, turn, None).await? {
            Some(found) => self.what_follows(found, caller.organization).await,
            None => Err(TurnRefused::QuestionClosed),
        }
    }

    /// Decides the meaning of an earlier turn for this request.
    async fn what_follows(
        &self,
        found: Found,
        organization: OrgId,
    ) -> Result<EarlierTry, TurnRefused> {
        match found.decide() {
            Repeat::WaitForEnd => Ok(EarlierTry::StillEnding(Box::new(Follower::new(
                &self.0,
                organization,
                found.turn,
            )))),
            Repeat::Attach => {
                let follower = Follower::attach(&self.0, organization, found.turn);
                Ok(EarlierTry::Answers(Box::new(TurnTaken {
                    turn: found.turn,
                    conversation: found.conversation,
                    memory: found.memory,
                    repairs: HistoryRepairs::default(),
                    changes: RequestChanges::default(),
                    names_shared: Vec::new(),
                    left_out: Vec::new(),
                    answer: TurnAnswer::new(Answer::Followed(Box::new(follower))),
                })))
            }
            Repeat::Anew => Ok(EarlierTry::Nothing {
                keys_since: found.key_made.map(|made| made.after(CLOCK_TICK)),
                is_early: false,
            }),
            Repeat::EffectsRan if found.deleted => Err(TurnRefused::DeletedEffectsRan),
            Repeat::EffectsRan => {
                let effects = self.effects_of(organization, found.turn).await?;
                Err(TurnRefused::EffectsRan {
                    turn: found.turn,
                    effects,
                })
            }
        }
    }

    async fn find_repeat(
        &self,
        request: &TurnRequest,
        end_user: Option<&str>,
        body_hash: [u8; 32],
        behind: Option<TurnId>,
    ) -> Result<Search, TurnRefused> {
        let caller = &request.caller;
        let store = self.store();
        let now = self.env().now();
        let search = |found: Option<Found>| found.map_or(Search::Nothing, Search::Found);
        if let Some(key) = &request.idempotency_key {
            let sent = KeySent {
                api_key: caller.api_key,
                end_user: end_user.map(str::to_owned),
                surface: request.surface,
                key: key.clone(),
            };
            let since = now.before(self.0.config.request_keys_kept);
            let row = store.request_key(caller.organization, sent).await?;
            let Some(row) = row.filter(|row| row.created >= since) else {
                return Ok(Search::Nothing);
            };
            if row.body_hash != body_hash || row.conversation != request.conversation {
                return Err(TurnRefused::KeyReused);
            }
            let key_made = Some(row.created);
            return Ok(search(self.found(caller, row.turn, key_made).await?));
        }
        match request.try_mark {
            TryMark::Repetition => self.find_marked(request, end_user, body_hash).await,
            TryMark::First | TryMark::None => match behind {
                Some(turn) => Ok(search(self.found(caller, turn, None).await?)),
                None => Ok(Search::Nothing),
            },
        }
    }

    /// The turn that a request which is marked as a repetition repeats.
    ///
    /// None only where no equal turn has run anything but `read` calls, or may yet.
    async fn find_marked(
        &self,
        request: &TurnRequest,
        end_user: Option<&str>,
        body_hash: [u8; 32],
    ) -> Result<Search, TurnRefused> {
        let caller = &request.caller;
        let config = &self.0.config;
        let now = self.env().now();
        let effects_window = config.repeat_window.saturating_mul(WINDOWS_OF_EFFECTS);
        let lasts_max = config.turn.streamed_max.max(config.turn.plain_max);
        let sent = RepeatSent {
            api_key: caller.api_key,
            surface: request.surface,
            end_user: end_user.map(str::to_owned),
            conversation: request.conversation.clone(),
            body_hash,
            accepted_since: now.before(effects_window.saturating_add(lasts_max)),
            since: now.before(config.repeat_window),
            effects_since: now.before(effects_window),
        };
        // Whoever was not answered comes first.
        answered_notes::written(&self.0).await;
        let store = self.store();
        let rows = store.repeat_candidates(caller.organization, sent).await?;
        if rows.is_empty() {
            return Ok(Search::NothingSeen);
        }
        for row in rows {
            let found = self.found(caller, row.turn, None).await?;
            if let Some(found) = found
                && !matches!(found.decide(), Repeat::Anew)
            {
                return Ok(Search::Found(found));
            }
        }
        Ok(Search::Nothing)
    }

    async fn found(
        &self,
        caller: &Principal,
        turn: TurnId,
        key_made: Option<Timestamp>,
    ) -> Result<Option<Found>, ReadError> {
        // Taken before the row is read: a turn that ends in between is known to be stopping, or
        // the row already tells its end.
        let live = self.0.live.get(turn);
        let row = self.store().repeat_state(caller.organization, turn).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let stopping = live.is_some_and(|live| live.is_stopping());
        Ok(Some(Found {
            turn: row.turn,
            status: row.status,
            reason: row.reason,
            erased: row.erased,
            deleted: row.deleted,
            stopping: stopping || row.stop.is_some(),
            dispatched_effects: row.dispatched_effects,
            conversation: row.conversation,
            memory: row.memory,
            key_made,
        }))
    }

    async fn effects_of(
        &self,
        organization: OrgId,
        turn: TurnId,
    ) -> Result<Vec<EffectRan>, ReadError> {
        let mut follower = Follower::new(&self.0, organization, turn);
        let mut effects = Vec::new();
        while let Some(events) = follower.next().await? {
            if let Some(LogEvent::End(end)) = events.last() {
                effects.clone_from(&end.effects);
            }
        }
        Ok(effects)
    }
}
