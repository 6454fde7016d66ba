//! Running calls: slots, attempts, look-ups, and the log line of each call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinError;
use tw_core::call::{CallEnd, CallReason, CallStatus};
use tw_core::change::TurnChange;
use tw_core::id::CallRef;
use tw_core::time::Timestamp;
use tw_core::tool::{CallCompletion, LookUp, ToolOutcome, ToolOutput};
use tw_core::turn::CallToRun;
use tw_egress::tools::{self, AttemptContext};

use super::metering::MeteredEvent;
use super::{Happened, TurnDriver};
use crate::callbacks;
use crate::fail_point::FailPoint;
use crate::quotas;
use crate::results::ResultKey;
use crate::slots::CallSlot;
use crate::tool_time;

pub(super) type WaitingForSlot = Pin<Box<dyn Future<Output = (CallRef, MayStart)> + Send>>;

/// Reasons for which a call need not wait any more.
#[derive(Debug)]
pub(super) enum MayStart {
    /// The call has a slot, or its tool is gone and needs none.
    Slot(Option<CallSlot>),
    /// An earlier answer holds.
    Cached(ToolOutput),
    /// A quota has no room; what the model is told.
    QuotaReached(String),
}

/// Kinds of tasks that run for a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallTaskKind {
    Attempt,
    LookUp,
}

/// The end of something that ran for a call.
#[derive(Debug)]
pub(super) enum CallEnded {
    Ran {
        call: CallRef,
        n: u32,
        outcome: ToolOutcome,
        http_status: Option<u16>,
        /// See [`tools::AttemptReport::cause`].
        cause: Option<String>,
    },
    LookedUp {
        call: CallRef,
        n: u32,
        found: LookUp,
        cause: Option<String>,
    },
}

impl TurnDriver {
    pub(super) fn wait_for_slot(&mut self, call: CallRef) {
        if let Some(output) = self.cached(call) {
            let cached = std::future::ready((call, MayStart::Cached(output)));
            self.waiting_for_slots.push(Box::pin(cached));
            return;
        }
        let tool = self.turn.tool_of(call);
        let slot = self.inner.slots.wait(tool.map(Arc::as_ref));
        let counted = self.counted(call);
        self.waiting_for_slots.push(Box::pin(async move {
            let slot = slot.await;
            let reached = match counted {
                Some(counted) => counted.await,
                None => None,
            };
            let may = reached.map_or(MayStart::Slot(slot), MayStart::QuotaReached);
            (call, may)
        }));
    }

    /// Counts a call that is to be started for the first time in its quotas; `None` where it has none.
    fn counted(
        &self,
        call: CallRef,
    ) -> Option<impl Future<Output = Option<String>> + Send + use<>> {
        let rules = &self.inner.config.quotas;
        if rules.calls.is_empty() || !self.turn.starts_anew(call) {
            return None;
        }
        let context = self.work.context_of(call)?;
        let tool = self.turn.tool_of(call)?.name.clone();
        let quotas = rules.of_call(&context.organization, &tool, context.names_user);
        if quotas.is_empty() {
            return None;
        }
        let (store, env) = (self.inner.store.clone(), self.inner.env.clone());
        let place = (self.fence.organization, self.fence.turn, call);
        Some(quotas::take(store, env, place, (tool, quotas)))
    }

    /// An earlier answer that holds for this call; else it is noted that its answer is to be kept.
    fn cached(&mut self, call: CallRef) -> Option<ToolOutput> {
        let context = self.work.context_of(call)?;
        let run = self.turn.call_waiting(call)?;
        let variables = context.variables.of_tool(&run.tool, run.id, None);
        let key = ResultKey::of(self.fence.organization, &run.tool, &run.args, &variables)?;
        let found = self.inner.results.get(key);
        if found.is_none() {
            self.results_to_keep.insert(call, key);
        }
        found
    }

    /// Keeps the answer of a call for others, if its tool says so. A failed attempt is none; one
    /// after it may bring an answer yet.
    pub(super) fn keep_result(&mut self, call: CallRef, outcome: &ToolOutcome) {
        let ToolOutcome::Answered(output) = outcome else {
            return;
        };
        let Some(key) = self.results_to_keep.remove(&call) else {
            return;
        };
        if let Some(rules) = self.turn.tool_of(call).and_then(|tool| tool.policy.cache) {
            self.inner.results.put(key, rules.lifetime, output.clone());
        }
    }

    pub(super) fn dispatch(&mut self, call: CallRef, n: u32) {
        self.run_task(call, n, CallTaskKind::Attempt);
        self.reach(FailPoint::Dispatched);
    }

    pub(super) fn look_up(&mut self, call: CallRef, n: u32) {
        self.run_task(call, n, CallTaskKind::LookUp);
    }

    fn run_task(&mut self, call: CallRef, n: u32, kind: CallTaskKind) {
        let Some(run) = self.turn.call_to_run(call) else {
            debug_assert!(false, "the machine starts only what can run");
            return;
        };
        let Some(context) = self.work.context_of(call) else {
            debug_assert!(false, "a turn that offers no tool of ours runs no call");
            return;
        };
        let callback_url = self.callback_url(&run);
        let variables = context.variables.of_tool(&run.tool, run.id, callback_url);
        let attempt = AttemptContext {
            call: run.id,
            variables: Arc::new(variables),
            args: run.args,
            idempotency_key: run.idempotency_key,
            now: self.inner.env.now(),
            organization: Arc::clone(&context.organization),
            tenancy: context.tenancy,
            trace: self.trace_of_call(call, n),
        };
        let executors = self.inner.executors.clone();
        let tool = run.tool;
        let running = self.tools.spawn(async move {
            let timeout = tool_time::longest(&tool);
            match kind {
                CallTaskKind::Attempt => {
                    let run = tools::run(&executors, &tool, &attempt);
                    let ran = tokio::time::timeout(timeout, run).await;
                    let report = ran.unwrap_or_else(|_| ToolOutcome::TimedOut.into());
                    CallEnded::Ran {
                        call,
                        n,
                        outcome: report.outcome,
                        http_status: report.http_status,
                        cause: report.cause,
                    }
                }
                CallTaskKind::LookUp => {
                    let ask = tools::look_up(&executors, &tool, &attempt);
                    let asked = tokio::time::timeout(timeout, ask).await;
                    let report = asked.unwrap_or_else(|_| LookUp::Unknown.into());
                    CallEnded::LookedUp {
                        call,
                        n,
                        found: report.found,
                        cause: report.cause,
                    }
                }
            }
        });
        self.attempts.insert(running.id(), (call, n, kind));
        self.aborts.insert(call, running);
    }

    /// The URL at which a callback ends the call; `None` where none may.
    fn callback_url(&self, run: &CallToRun) -> Option<String> {
        let base = self.inner.config.callback_base.as_deref()?;
        match run.tool.policy.completion {
            CallCompletion::Inline => None,
            CallCompletion::Job(_) => {
                let token = run.callback_token.as_deref()?;
                Some(callbacks::url(base, &run.tool.name, token))
            }
        }
    }

    /// The end of a task, also of one that panicked or was aborted.
    pub(super) fn ended(
        &mut self,
        ended: Result<(tokio::task::Id, CallEnded), JoinError>,
    ) -> Happened {
        let error = match ended {
            Ok((id, ended)) => {
                self.attempts.remove(&id);
                return Happened::Call(ended);
            }
            Err(error) => error,
        };
        // Every task is noted when it starts; a call that does not exist is ignored.
        let nothing = (
            CallRef {
                round: 0,
                position: 0,
            },
            0,
            CallTaskKind::Attempt,
        );
        let (call, n, kind) = self.attempts.remove(&error.id()).unwrap_or(nothing);
        Happened::Call(match kind {
            CallTaskKind::Attempt => {
                let outcome = if error.is_panic() {
                    ToolOutcome::Panicked
                } else {
                    ToolOutcome::Aborted
                };
                CallEnded::Ran {
                    call,
                    n,
                    outcome,
                    http_status: None,
                    cause: None,
                }
            }
            CallTaskKind::LookUp => CallEnded::LookedUp {
                call,
                n,
                found: LookUp::Unknown,
                cause: None,
            },
        })
    }

    /// Logs a line for each call that ends, never arguments or results, and returns what is to be
    /// counted once the changes are written.
    pub(super) fn note(&mut self, changes: &[TurnChange]) -> Vec<MeteredEvent> {
        let mut noted = Vec::new();
        if let Some(tracing) = &mut self.tracing {
            let spans = tracing.note(&self.turn, &self.work, changes);
            noted.extend(spans.into_iter().map(MeteredEvent::Span));
        }
        for change in changes {
            match change {
                TurnChange::StartCall { call, at } => {
                    self.calls_began.insert(*call, *at);
                }
                TurnChange::EndCall { call, end, at } => {
                    noted.push(self.note_end(*call, end, *at));
                }
                TurnChange::HandOverCall(handed) => {
                    self.log_call(handed.call, &handed.tool_name, CallStatus::Completed, None);
                }
                TurnChange::AddCall(added) => {
                    if let Some(end) = &added.end {
                        self.log_call(added.call, &added.tool_name, end.status(), end.reason);
                        noted.push(self.call_noted(added.call, end, added.at));
                    }
                }
                TurnChange::OpenAttempt(open) => self.note_asked(open),
                TurnChange::CloseAttempt(close) => noted.extend(self.attempt_noted(close)),
                TurnChange::EndTurn(end) => noted.push(self.end_noted(end)),
                TurnChange::AddMessage(_)
                | TurnChange::EndOutsideCall { .. }
                | TurnChange::TakeQueuedRow(_)
                | TurnChange::AskApproval { .. }
                | TurnChange::AwaitCallback(_)
                | TurnChange::DetachCall { .. }
                | TurnChange::Charge(_)
                | TurnChange::CountTokens { .. }
                | TurnChange::AppendEvents(_)
                | TurnChange::NoteStop { .. }
                | TurnChange::NoteResumed { .. } => {}
            }
        }
        noted
    }

    /// Logs the end of a call of ours, and returns what is to be counted of it.
    pub(super) fn note_end(&self, call: CallRef, end: &CallEnd, at: Timestamp) -> MeteredEvent {
        let tool = self.turn.tool_of(call);
        let name = tool.map_or_else(String::new, |tool| tool.name.clone());
        self.log_call(call, &name, end.status(), end.reason);
        self.call_noted(call, end, at)
    }

    /// Logs what of the network kept an answer away, for the operator: the names and addresses in
    /// it are nobody else's business.
    pub(super) fn log_unanswered(&self, call: CallRef, n: u32, kind: CallTaskKind, cause: &str) {
        let what = match kind {
            CallTaskKind::Attempt => "attempt",
            CallTaskKind::LookUp => "look-up",
        };
        tracing::info!(
            organization = &*self.work.logged.organization,
            turn.id = %self.fence.turn,
            round = call.round,
            position = call.position,
            tool = self.turn.tool_of(call).map(|tool| tool.name.as_str()),
            attempt = n,
            what,
            cause,
            "a tool gave no answer"
        );
    }

    fn log_call(&self, call: CallRef, tool: &str, status: CallStatus, reason: Option<CallReason>) {
        let began = self.calls_began.get(&call).copied();
        let duration_ms = began.map_or(0, |began| self.inner.env.now().since(began).as_millis());
        // The name comes from the model; one that is not a tool's name is not repeated.
        let tool = if self.turn.tool_of(call).is_some() || is_name(tool) {
            tool
        } else {
            "(not a name)"
        };
        tracing::info!(
            organization = &*self.work.logged.organization,
            turn.id = %self.fence.turn,
            round = call.round,
            position = call.position,
            tool,
            status = status.as_str(),
            reason = reason.map(CallReason::as_str),
            duration_ms = u64::try_from(duration_ms).unwrap_or(u64::MAX),
            "tool call ended"
        );
    }
}

pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
