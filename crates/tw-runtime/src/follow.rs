//! Reading a turn's log, live or afterwards, without slowing anybody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tw_core::event::{LogEvent, TurnEnd};
use tw_core::id::{OrgId, TurnId};
use tw_core::turn_status::{TurnReason, TurnStatus};
use tw_store::read::ReadError;
use tw_store::read::events::NumberedEvent;

use crate::live_turns::WaitingClient;
use crate::replica_messages::TurnMessages;
use crate::runtime::{Runtime, RuntimeInner};

/// Events of one read.
const PAGE_EVENTS_MAX: usize = 1024;
/// Time after which a turn that this process does not drive is looked at again: another one drives it, or it is being
/// recovered. What is told over NATS is looked at at once.
const ORPHAN_LOOK: Duration = Duration::from_millis(200);

/// An observer of a turn's log, from its start.
#[derive(Debug)]
pub struct Follower {
    inner: Arc<RuntimeInner>,
    organization: OrgId,
    turn: TurnId,
    after: u64,
    ended: bool,
    /// The client that waits for the turn while this is held.
    client: Option<WaitingClient>,
    /// What is told of the turn by the process that drives it.
    messages: Option<TurnMessages>,
}

impl Follower {
    /// Follows as somebody whose leaving stops nothing.
    pub(crate) fn new(inner: &Arc<RuntimeInner>, organization: OrgId, turn: TurnId) -> Self {
        Self {
            inner: Arc::clone(inner),
            organization,
            turn,
            after: 0,
            ended: false,
            client: None,
            messages: None,
        }
    }

    /// Follows as a client that waits for the answer.
    pub(crate) fn attach(inner: &Arc<RuntimeInner>, organization: OrgId, turn: TurnId) -> Self {
        let client = inner
            .live
            .get(turn)
            .map(|live| WaitingClient::attached(&live));
        Self {
            client,
            ..Self::new(inner, organization, turn)
        }
    }

    /// The next events; `None` after the last one, or when the log no longer holds them. Of a turn
    /// that was deleted nothing follows but an end.
    ///
    /// # Errors
    /// When the store cannot be read.
    ///
    /// # Cancel safety
    /// Events are either returned or read again.
    pub async fn next(&mut self) -> Result<Option<Vec<LogEvent>>, ReadError> {
        let numbered = self.next_numbered().await?;
        Ok(numbered.map(|events| events.into_iter().map(|numbered| numbered.event).collect()))
    }

    /// [`Follower::next`], with the events' numbers.
    ///
    /// # Errors
    /// When the store cannot be read.
    ///
    /// # Cancel safety
    /// Events are either returned or read again.
    pub async fn next_numbered(&mut self) -> Result<Option<Vec<NumberedEvent>>, ReadError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            let news = self.listen();
            let page = self
                .inner
                .store
                .events_after(self.organization, self.turn, self.after, PAGE_EVENTS_MAX)
                .await?;
            let Some(page) = page else {
                self.ended = true;
                return Ok(None);
            };
            if page.deleted {
                self.ended = true;
                let number = self.after + 1;
                return Ok(Some(vec![end_of_deleted(number, page.fence)]));
            }
            if let Some(first) = page.events.first()
                && first.number != self.after + 1
            {
                // The log was cut; what is left cannot be read from its start.
                self.ended = true;
                return Ok(None);
            }
            if !page.events.is_empty() {
                self.after += page.events.len() as u64;
                self.ended = page
                    .events
                    .last()
                    .is_some_and(|last| matches!(last.event, LogEvent::End(_)));
                return Ok(Some(page.events));
            }
            if page.status.is_final() {
                self.ended = true;
                return Ok(None);
            }
            self.wait_for_more(news, self.after).await;
        }
    }

    /// Waits for the end; the client, if any, is held until then.
    pub(crate) async fn wait_for_end(mut self) -> Result<(), ReadError> {
        loop {
            let news = self.listen();
            let store = &self.inner.store;
            let status = store.turn_status(self.organization, self.turn).await?;
            if status.is_none_or(TurnStatus::is_final) {
                self.client = None;
                return Ok(());
            }
            self.wait_for_more(news, 0).await;
        }
    }

    /// Listens for news of the turn. To be called before the record is read, so that what is written meanwhile is heard.
    fn listen(&mut self) -> TurnNews {
        if let Some(live) = self.inner.live.get(self.turn) {
            self.messages = None;
            return TurnNews::Here(live.durable.subscribe());
        }
        if self.messages.is_none() {
            let messages = self.inner.replicas.messages.get();
            self.messages = messages.and_then(|messages| messages.of_turn(self.turn));
        }
        TurnNews::Elsewhere {
            listened: Instant::now(),
        }
    }

    /// Waits until the turn's rows may say more than they do up to the event `after`.
    async fn wait_for_more(&mut self, news: TurnNews, after: u64) {
        match news {
            TurnNews::Here(mut durable) => {
                // An error means that the driver is gone; the next read sees what it left.
                let _ = durable.changed().await;
            }
            TurnNews::Elsewhere { listened } => {
                let told = async {
                    match &mut self.messages {
                        Some(messages) => messages.told_of_more(after, listened).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = told => {}
                    () = sleep(ORPHAN_LOOK) => {}
                }
            }
        }
    }
}

/// Whence a follower hears of a turn.
enum TurnNews {
    /// This process drives it.
    Here(watch::Receiver<u64>),
    Elsewhere {
        /// When it was last looked at.
        listened: Instant,
    },
}

/// The end of a deleted turn as its readers see it, whatever its log still held.
fn end_of_deleted(number: u64, fence: i64) -> NumberedEvent {
    NumberedEvent {
        number,
        fence,
        event: LogEvent::End(Box::new(TurnEnd {
            status: TurnStatus::Cancelled,
            reason: Some(TurnReason::Requested),
            fault: None,
            effects: Vec::new(),
            at: None,
        })),
    }
}

/// A position in a turn's log: the fence under which an event was written, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCursor {
    pub fence: i64,
    pub number: u64,
}

impl LogCursor {
    /// Reads `FENCE.NUMBER`.
    pub fn parse(text: &str) -> Option<Self> {
        let (fence, number) = text.split_once('.')?;
        Some(Self {
            fence: fence.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

/// Reasons for which a log cannot be followed from a cursor.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The log does not hold the event of the cursor, or holds nothing any more.
    #[error("the log does not reach to this place")]
    Lost,
    #[error("there is no such turn")]
    NoTurn,
    #[error("reading the log")]
    Read(#[from] ReadError),
}

impl Runtime {
    /// Follows a turn's log from its start. Leaving stops nothing.
    ///
    /// `from` is checked, not skipped to: it must be an event that the log holds. Formats are
    /// folds from the start, so what stands before it is read all the same.
    ///
    /// # Errors
    /// [`FollowError::Lost`] when `from` was never written, or the log is gone;
    /// [`FollowError::NoTurn`] when there is no turn, or it was deleted.
    pub async fn follow(
        &self,
        organization: OrgId,
        turn: TurnId,
        from: Option<LogCursor>,
    ) -> Result<Follower, FollowError> {
        let before = from.map_or(0, |cursor| cursor.number.saturating_sub(1));
        let page = self
            .store()
            .events_after(organization, turn, before, 1)
            .await?;
        let page = page.filter(|page| !page.deleted);
        let page = page.ok_or(FollowError::NoTurn)?;
        if page.erased {
            return Err(FollowError::Lost);
        }
        if let Some(cursor) = from.filter(|cursor| cursor.number > 0) {
            let held = page
                .events
                .first()
                .is_some_and(|event| event.number == cursor.number && event.fence == cursor.fence);
            if !held {
                return Err(FollowError::Lost);
            }
        }
        Ok(Follower::new(&self.0, organization, turn))
    }
}
