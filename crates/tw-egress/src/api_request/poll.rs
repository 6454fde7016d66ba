//! One poll of a job: the request, and what of its answer is one.

use std::time::Duration;

use tw_core::definition::ToolDefinition;
use tw_core::job::PollFault;
use tw_core::tool::ToolOutput;
use tw_core::variables::Variables;

use super::{ApiCaller, NotBuilt, RequestAsker, kept, masked, outgoing, output_of};
use crate::client::ConnectionReuse;
use crate::client::failure::FailureKind;
use crate::exchange::retry_after;
use crate::secrets::Tenancy;

/// The job that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct PollContext<'a> {
    /// Slug of the organization whose call started it.
    pub organization: &'a str,
    pub tenancy: Tenancy,
    /// Those of `tw_core::variables::IN_POLLS`.
    pub variables: &'a Variables,
    /// The call's idempotency key.
    pub reference: &'a str,
    pub external_id: Option<&'a str>,
}

/// What came of a poll.
#[derive(Debug)]
pub struct PollReport {
    /// The body of an answer, without secrets.
    pub answer: Result<String, PollFault>,
    pub http_status: Option<u16>,
    /// Time for which the tool asks to be left alone.
    pub retry_after: Option<Duration>,
    /// As `AttemptReport::cause`.
    pub cause: Option<String>,
}

impl PollReport {
    fn without_answer(fault: PollFault, cause: Option<String>) -> Self {
        Self {
            answer: Err(fault),
            http_status: None,
            retry_after: None,
            cause,
        }
    }
}

impl ApiCaller {
    /// Asks about a job. Holds the tool's timeout.
    ///
    /// # Cancel safety
    /// That of `EgressClient::send`.
    pub async fn poll(&self, definition: &ToolDefinition, job: PollContext<'_>) -> PollReport {
        let poll = definition.job.as_ref().and_then(|job| job.poll.as_ref());
        let Some(poll) = poll else {
            return PollReport::without_answer(PollFault::Unsendable, None);
        };
        let asker = RequestAsker {
            organization: job.organization,
            tenancy: job.tenancy,
            variables: job.variables,
            reference: job.reference,
        };
        let built = self.build(&poll.request.url, asker, |given| {
            definition.poll_request(job.external_id, given)
        });
        let (built, secrets) = match built {
            Ok(built) => built,
            Err(NotBuilt::NotGranted) => {
                return PollReport::without_answer(PollFault::Unsendable, None);
            }
            Err(NotBuilt::Unsendable(message)) => {
                return PollReport::without_answer(PollFault::Unsendable, Some(message));
            }
        };
        let request = outgoing(built, definition, &secrets);
        let sent = self
            .client
            .send(request, job.organization, ConnectionReuse::Pooled)
            .await;
        let received = match sent {
            Ok(received) => kept(received, definition, &secrets),
            Err(failure) => {
                let fault = match failure.kind {
                    FailureKind::TargetNotAllowed
                    | FailureKind::Unresolved
                    | FailureKind::NotHttps => PollFault::NotAllowed,
                    FailureKind::BadUrl | FailureKind::BadRequest => PollFault::Unsendable,
                    FailureKind::TimedOut(_)
                    | FailureKind::LookUpFailed
                    | FailureKind::Connect
                    | FailureKind::Proxy
                    | FailureKind::Tls(_)
                    | FailureKind::Reset
                    | FailureKind::NotHttp
                    | FailureKind::HeadersTooLarge => PollFault::Unanswered,
                };
                return PollReport::without_answer(fault, Some(failure.cause));
            }
        };
        let http_status = Some(received.status);
        if !definition.accepts(received.status) {
            return PollReport {
                answer: Err(PollFault::Status),
                http_status,
                retry_after: retry_after(&received.headers),
                cause: None,
            };
        }
        let answer = match masked(output_of(definition, received), &secrets) {
            ToolOutput::Text {
                text, cut: false, ..
            } => Ok(text),
            ToolOutput::Text { cut: true, .. } | ToolOutput::Opaque { .. } => {
                Err(PollFault::Malformed)
            }
        };
        PollReport {
            answer,
            http_status,
            retry_after: None,
            cause: None,
        }
    }
}
