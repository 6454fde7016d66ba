//! Writing a step, showing it, and starting what it wants started.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::future::{join, poll_immediate};
use tokio::time::{Instant, timeout};
use tw_core::call::CallEnd;
use tw_core::change::{Outcome, TurnChange};
use tw_core::event::LogEvent;
use tw_core::id::CallRef;
use tw_core::turn::{Effect, Step};
use tw_store::apply::StoreApplyError;

use super::{DriverStop, TurnDriver};
use crate::fail_point::FailPoint;
use crate::live_turns::WantedSignals;
use crate::to_client::ReceiverGone;

impl TurnDriver {
    /// Performs a step: one transaction for all that it writes, the log's pending events included;
    /// then the step is shown, then its effects start.
    pub(super) async fn perform(&mut self, step: &mut Step) -> Result<(), DriverStop> {
        if !step.write.is_empty() {
            self.write(step).await?;
        } else {
            self.settle().await?;
            self.log_shown(&step.show);
        }
        let shows_end = self.turn.is_ended();
        if shows_end {
            // Whoever sees the end may begin the next turn at once.
            self.permit = None;
        }
        self.send(std::mem::take(&mut step.show)).await;
        if shows_end {
            self.reach(FailPoint::FinishShown);
        }
        for effect in std::mem::take(&mut step.then) {
            if effect == Effect::HandOver {
                return Err(DriverStop::HandOver);
            }
            self.start(effect);
        }
        Ok(())
    }

    async fn write(&mut self, step: &mut Step) -> Result<(), DriverStop> {
        if self.inner.config.fail_point.is_some() && !self.holds_acceptance() {
            // Such a place is between two transactions.
            self.settle().await?;
        }
        if self.log.is_flushing() {
            let flushed = self.log.flushed().await;
            self.on_flushed(flushed)?;
        }
        // Each time a call is taken out of the step that somebody else has ended, so this ends.
        // On the heap, since the driver's future has room for all that it ever awaits, and writes seldom.
        while let Some((call, end)) = Box::pin(self.write_unless_late(step)).await? {
            self.end_found(call, end, step);
        }
        Ok(())
    }

    /// Writes a step, or says which call of it somebody else has ended; then nothing of it is written.
    async fn write_unless_late(
        &mut self,
        step: &mut Step,
    ) -> Result<Option<(CallRef, CallEnd)>, DriverStop> {
        let now = self.inner.env.now();
        let mut changes = std::mem::take(&mut step.write);
        let may_be_late = changes.iter().any(changes_call);
        let kept = may_be_late.then(|| (changes.clone(), self.log.mark()));
        self.log.add(&step.show);
        if let Some(flush) = self.log.take(now) {
            changes.push(TurnChange::AppendEvents(flush));
        }
        let (before, after) = points_of(&changes);
        for point in before {
            self.reach(point);
        }
        let mut noted = if may_be_late {
            Vec::new()
        } else {
            self.note(&changes)
        };
        let apply = self.inner.store.apply_to_turn(self.fence, changes);
        let written = match &mut self.accepting {
            // In this order: it is asked for first, so it is written first.
            Some(accepting) => {
                let (outcome, written) = {
                    let mut both = pin!(join(accepting.apply.as_mut(), apply));
                    let asked = poll_immediate(both.as_mut()).await;
                    super::reach(&self.inner, FailPoint::BesideAccept);
                    match asked {
                        Some(written) => written,
                        None => both.await,
                    }
                };
                self.reach(FailPoint::AcceptedBeside);
                self.on_accepted(outcome)?;
                written
            }
            None => apply.await,
        };
        let first = written.map_err(DriverStop::Write)?.into_iter().next();
        if let Some((changes, mark)) = kept {
            if let Some(Outcome::CallEnded { call, end }) = first {
                self.log.go_back(mark);
                step.write = changes;
                return Ok(Some((call, end)));
            }
            noted = self.note(&changes);
        }
        self.count(noted);
        for point in after {
            self.reach(point);
        }
        self.tell_durable(self.log.numbered());
        Ok(None)
    }

    /// Tells whoever follows the turn, here and elsewhere, up to which number its log can be read.
    pub(super) fn tell_durable(&self, last: u64) {
        self.live.durable.send_replace(last);
        if let Some(messages) = self.inner.replicas.messages.get() {
            messages.tell_durable(self.fence.turn, last);
        }
    }

    pub(super) fn on_flushed(
        &mut self,
        flushed: Result<u64, StoreApplyError>,
    ) -> Result<(), DriverStop> {
        let last = flushed.map_err(DriverStop::Write)?;
        self.reach(FailPoint::AfterFlush);
        self.tell_durable(last);
        Ok(())
    }

    /// Shows events that need no write of their own.
    pub(super) async fn show(&mut self, events: Vec<LogEvent>) -> Result<(), DriverStop> {
        if events.is_empty() {
            return Ok(());
        }
        self.settle().await?;
        self.log_shown(&events);
        self.send(events).await;
        self.reach(FailPoint::ShownFirst);
        Ok(())
    }

    /// Events that are shown before they are written go to the log soon.
    fn log_shown(&mut self, events: &[LogEvent]) {
        self.log.add(events);
        if self.log.wants_due() {
            self.log
                .set_due(Instant::now() + self.inner.flush_interval());
        }
    }

    /// Gives events to the client that started the turn. While it is slow, nothing else happens
    /// in this turn; a client that takes nothing for too long counts as gone.
    pub(super) async fn send(&mut self, events: Vec<LogEvent>) {
        self.note_shown(&events);
        let Some(client) = &mut self.client else {
            return;
        };
        if events.is_empty() {
            return;
        }
        let stall_max = self.inner.config.client_stall_max;
        let room = tokio::select! {
            // In this order: what fits is given also when the turn was cancelled, since the client
            // would take a missing end for a crash and send its request again.
            biased;
            room = timeout(stall_max, client.room()) => room,
            _ = self.live.signal(WantedSignals { ends: false, cancel: true, all_left: false }) => return self.client = None,
        };
        match room {
            Ok(Ok(())) => client.give(events),
            Ok(Err(ReceiverGone)) => self.client = None,
            Err(_elapsed) => {
                // Its connection may stay open for long, since nobody reads from it.
                self.live.starter_left();
                self.client = None;
            }
        }
    }
}

/// Whether somebody else may have ended the call that a change is about.
fn changes_call(change: &TurnChange) -> bool {
    match change {
        TurnChange::StartCall { .. }
        | TurnChange::HandOverCall(_)
        | TurnChange::AwaitCallback(_)
        | TurnChange::DetachCall { .. }
        | TurnChange::EndCall { .. } => true,
        TurnChange::OpenAttempt(open) => open.position.is_some(),
        TurnChange::CloseAttempt(_)
        | TurnChange::AskApproval { .. }
        | TurnChange::Charge(_)
        | TurnChange::CountTokens { .. }
        | TurnChange::AddMessage(_)
        | TurnChange::AddCall(_)
        | TurnChange::EndOutsideCall { .. }
        | TurnChange::TakeQueuedRow(_)
        | TurnChange::AppendEvents(_)
        | TurnChange::NoteStop { .. }
        | TurnChange::NoteResumed { .. }
        | TurnChange::EndTurn(_) => false,
    }
}

/// The fail points around a transaction, by what it does.
fn points_of(changes: &[TurnChange]) -> (BTreeSet<FailPoint>, BTreeSet<FailPoint>) {
    let mut before = BTreeSet::new();
    let mut after = BTreeSet::new();
    for change in changes {
        let (first, second) = match change {
            TurnChange::AddCall(_) => (FailPoint::BeforeCalls, FailPoint::AfterCalls),
            TurnChange::StartCall { .. } => (FailPoint::BeforeCallStart, FailPoint::AfterCallStart),
            TurnChange::HandOverCall(_)
            | TurnChange::AwaitCallback(_)
            | TurnChange::DetachCall { .. }
            | TurnChange::EndCall { .. } => (FailPoint::BeforeCallEnd, FailPoint::AfterCallEnd),
            TurnChange::EndTurn(_) => (FailPoint::BeforeTurnEnd, FailPoint::AfterTurnEnd),
            TurnChange::OpenAttempt(_)
            | TurnChange::AskApproval { .. }
            | TurnChange::CloseAttempt(_)
            | TurnChange::Charge(_)
            | TurnChange::CountTokens { .. }
            | TurnChange::AddMessage(_)
            | TurnChange::EndOutsideCall { .. }
            | TurnChange::TakeQueuedRow(_)
            | TurnChange::AppendEvents(_)
            | TurnChange::NoteStop { .. }
            | TurnChange::NoteResumed { .. } => continue,
        };
        before.insert(first);
        after.insert(second);
    }
    (before, after)
}
