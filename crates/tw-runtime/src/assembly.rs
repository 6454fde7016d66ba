//! The assembly of a turn: how its machine is set up and what its driver works with, the same for a turn that begins
//! and for one that is taken over.

use std::sync::Arc;

use tw_core::id::TurnId;
use tw_core::limits::TurnLimits;
use tw_core::request::ModelInput;
use tw_core::time::Timestamp;
use tw_core::turn::{ToolOffer, TurnSetup};
use tw_core::turn_policy::{OnLeave, RecordPolicy};
use tw_egress::part_downloads::DownloadedParts;
use tw_egress::upstream::Upstream;
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::trace_context::TraceContext;

use crate::approvals::ActedAnswers;
use crate::driver::{CallContext, TurnWork};
use crate::logged_owner::LoggedOwner;
use crate::prepared_history::PreparedHistory;
use crate::runtime::RuntimeInner;
use crate::tool_book::ToolBookPage;
use crate::variables::VariableSubject;

/// The identity of a turn: from the request that begins it, or from its row.
#[derive(Debug)]
pub(crate) struct TurnIdentity<'a> {
    pub(crate) id: TurnId,
    pub(crate) logged: LoggedOwner,
    pub(crate) end_user: Option<&'a str>,
    pub(crate) conversation: &'a str,
    pub(crate) created: Timestamp,
    pub(crate) deadline: Timestamp,
    pub(crate) streamed: bool,
    pub(crate) on_leave: OnLeave,
    pub(crate) record: RecordPolicy,
    /// The name under which the client asked for a model.
    pub(crate) model: &'a str,
    /// Most calls of this server's tools, where the request sets a limit.
    pub(crate) calls_max: Option<u32>,
}

/// The parts of a turn beside its identity.
#[derive(Debug)]
pub(crate) struct TurnParts<'a> {
    pub(crate) input: Arc<ModelInput>,
    pub(crate) prepared: PreparedHistory,
    pub(crate) offer: ToolOffer,
    /// Calls of an earlier turn that the request answers for, and what they need.
    pub(crate) answered: ActedAnswers,
    /// Names of tools that must not run in this turn.
    pub(crate) withheld: Vec<String>,
    /// The tools of the organization; `None` for a relay.
    pub(crate) page: Option<&'a ToolBookPage>,
    /// In the order in which they are asked; never empty.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// Headers of the request that go to upstreams.
    pub(crate) passed: PassedHeaders,
    /// The client's trace, if the turn is a part of one.
    pub(crate) trace: Option<TraceContext>,
}

/// A turn that its machine can be made of and its driver can begin with.
#[derive(Debug)]
pub(crate) struct AssembledTurn {
    pub(crate) setup: TurnSetup,
    pub(crate) work: TurnWork,
}

/// The limits of a turn: those of the configuration, or less where its request says so.
fn limits_of(inner: &RuntimeInner, identity: &TurnIdentity<'_>) -> TurnLimits {
    let mut limits = inner.config.turn.clone();
    if let Some(max) = identity.calls_max {
        limits.calls_per_turn_max = limits.calls_per_turn_max.min(max);
    }
    limits
}

pub(crate) fn assemble(
    inner: &RuntimeInner,
    identity: &TurnIdentity<'_>,
    parts: TurnParts<'_>,
) -> AssembledTurn {
    let TurnParts {
        input,
        prepared,
        offer,
        answered,
        withheld,
        page,
        upstreams,
        passed,
        trace,
    } = parts;
    let calls = page.map(|page| {
        let subject = VariableSubject {
            end_user: identity.end_user,
            conversation: identity.conversation,
            turn: identity.id,
            created: identity.created,
        };
        CallContext::new(page, subject, &input)
    });
    let offer = match &calls {
        Some(calls) => calls.variables.in_prompts(offer),
        None => offer,
    };
    let setup = TurnSetup {
        id: identity.id,
        created: identity.created,
        deadline: identity.deadline,
        streamed: identity.streamed,
        on_leave: identity.on_leave,
        record: identity.record,
        model: identity.model.to_owned(),
        choices: input.choices,
        choice_is_forced: input.tool_choice.is_forced(),
        is_structured: input.is_structured,
        completion_tokens_max: input.completion_tokens_max,
        offer,
        answered: answered.answered,
        withheld,
        limits: limits_of(inner, identity),
        upstreams: upstreams
            .iter()
            .map(|upstream| Arc::new(upstream.origin(&input.model)))
            .collect(),
        prices: Arc::clone(&inner.config.prices),
        counts_tokens: !inner.config.quotas.tokens.is_empty(),
        memory: prepared.memory.of_turn,
    };
    let traced = inner.telemetry.as_ref();
    let trace =
        traced.map(|telemetry| telemetry.of_turn(identity.id, trace, identity.conversation));
    let work = TurnWork {
        input,
        histories: prepared.into_histories(),
        upstreams,
        calls,
        answered_calls: answered.calls,
        passed,
        downloaded: DownloadedParts::default(),
        logged: identity.logged.clone(),
        trace,
    };
    AssembledTurn { setup, work }
}
