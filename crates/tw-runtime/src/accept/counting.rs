//! Counting the tokens of a request: what its turn's model would be asked first goes to an upstream that counts.
//!
//! No turn begins, and nothing is remembered. Of the upstreams that serve the model only those are asked whose format has
//! a place for it, in the order in which they would be asked for an answer.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use tw_core::fault::{FaultClass, TurnFault};
use tw_core::id::TurnId;
use tw_core::turn::{Step, Turn};
use tw_core::turn_policy::OnLeave;
use tw_egress::upstream::relayed_exchange::RelayedSent;
use tw_egress::upstream::{Upstream, UpstreamKind};
use tw_wire::format::WireFormat;
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::token_count;

use super::{PreparedRequest, TurnRefused, TurnRequest, machine_of, record_of};
use crate::approvals::{ActedAnswers, AnswersUse};
use crate::assembly::{self, AssembledTurn, TurnIdentity, TurnParts};
use crate::driver::TurnWork;
use crate::logged_owner::LoggedOwner;
use crate::relay::{RelayRefused, RelaySubject, RelayedResponse};
use crate::runtime::Runtime;

/// Longest answer of an upstream, in bytes; a count takes a few dozen.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Reasons for which a request is not counted.
#[derive(Debug, thiserror::Error)]
pub enum CountRefused {
    #[error("the request would get no turn")]
    Turn(#[from] TurnRefused),
    /// Upstreams serve the model, and none of them counts.
    #[error("no upstream that serves the model counts tokens")]
    NoCounter,
    #[error("no upstream counted")]
    Relay(#[from] RelayRefused),
}

impl Runtime {
    /// Counts the tokens of a request that came by `route`, and gives the answer in a format: an upstream's own, if it
    /// has that format.
    ///
    /// # Errors
    /// [`CountRefused`].
    ///
    /// # Cancel safety
    /// As [`Runtime::relay`].
    pub async fn count_tokens(
        &self,
        request: TurnRequest,
        route: &'static str,
        format: WireFormat,
    ) -> Result<Bytes, CountRefused> {
        if self.is_refusing() {
            return Err(RelayRefused::ShuttingDown.into());
        }
        let serving = self.0.upstreams_of(&request.input.model);
        if serving.is_empty() {
            return Err(RelayRefused::UnknownModel.into());
        }
        let counting: Vec<Arc<Upstream>> = serving.into_iter().filter(|one| counts(one)).collect();
        if counting.is_empty() {
            return Err(CountRefused::NoCounter);
        }
        let end_user = request.whose();
        let asked = self.asked(&request, end_user.as_deref(), &counting).await?;
        let subject = RelaySubject {
            caller: request.caller,
            route,
            model: request.input.model.clone(),
            end_user,
            request_id: request.request_id,
            body_bytes: request.body.len() as u64,
            streamed: false,
        };
        let sent = Box::new(move |upstream: &Upstream| asked.sent_to(upstream));
        let answer = self.relay_to(counting, subject, sent).await?;
        read(answer, format).await.map_err(CountRefused::Relay)
    }

    /// What a turn of the request would ask its model first.
    async fn asked(
        &self,
        request: &TurnRequest,
        end_user: Option<&str>,
        upstreams: &[Arc<Upstream>],
    ) -> Result<AskedFirst, TurnRefused> {
        let inner = &self.0;
        let PreparedRequest {
            offered,
            page,
            input,
            prepared,
            conversation,
            acts: _,
        } = self
            .prepared(request, end_user, (AnswersUse::Recall, [0; 32]))
            .await?;
        let created = inner.env.now();
        let identity = TurnIdentity {
            id: TurnId(inner.env.ordered_id()),
            logged: LoggedOwner::of(&request.caller),
            end_user,
            conversation: &conversation,
            created,
            deadline: created.after(inner.config.turn.plain_max),
            streamed: false,
            on_leave: OnLeave::Stop,
            record: record_of(request),
            model: &request.input.model,
            calls_max: None,
        };
        let parts = TurnParts {
            input,
            withheld: prepared.withheld.clone(),
            prepared,
            offer: offered.offer,
            answered: ActedAnswers::default(),
            page: page.as_deref(),
            upstreams: upstreams.to_vec(),
            passed: request.passed.clone(),
            trace: None,
        };
        let AssembledTurn { setup, work } = assembly::assemble(inner, &identity, parts);
        // Its first step is to ask; nobody performs it.
        let turn = machine_of(inner, setup, &mut Step::default());
        Ok(AskedFirst { turn, work })
    }
}

/// Whether an upstream can be asked for a count.
fn counts(upstream: &Upstream) -> bool {
    let is_inside = matches!(upstream.kind, UpstreamKind::Scripted(_));
    !is_inside && upstream.format.count_path().is_some()
}

/// The first question of a turn that does not run.
struct AskedFirst {
    turn: Turn,
    work: TurnWork,
}

impl AskedFirst {
    fn sent_to(&self, upstream: &Upstream) -> RelayedSent {
        let Self { turn, work } = self;
        let origin = upstream.origin(&work.input.model);
        let messages = work.histories.sent(&work.input, turn);
        let request = turn.model_request(&work.input, messages, &origin, false);
        let body = upstream.format.encode_count(&request, &upstream.accepts);
        RelayedSent {
            // Upstreams without one are not asked.
            path: upstream.format.count_path().unwrap_or_default(),
            model: origin.model.to_string(),
            content_type: HeaderValue::from_static("application/json"),
            accept: Some(HeaderValue::from_static("application/json")),
            passed: PassedHeaders::clone(&work.passed),
            body: body.into(),
            streamed: false,
        }
    }
}

/// Reads the count and gives it in this format.
async fn read(mut answer: RelayedResponse, format: WireFormat) -> Result<Bytes, RelayRefused> {
    let mut body = Vec::new();
    while let Some(bytes) = answer.next().await {
        let bytes = bytes.map_err(RelayRefused::Failed)?;
        if body.len() + bytes.len() > ANSWER_BYTES_MAX {
            return Err(no_count());
        }
        body.extend_from_slice(&bytes);
    }
    let tokens = token_count::read(&body).ok_or_else(no_count)?;
    if answer.format() == format {
        return Ok(body.into());
    }
    Ok(format.render_count(tokens).into())
}

fn no_count() -> RelayRefused {
    let message = "the upstream's answer is no count of tokens";
    RelayRefused::Failed(TurnFault::new(FaultClass::UpstreamFailed, message))
}
