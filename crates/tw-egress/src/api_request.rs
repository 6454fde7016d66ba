//! Tools of the kind `api_request`: one attempt, one look-up, or one poll of a job, over HTTP.
//!
//! The definition makes the request and says what of its answer is one (`tw-core`); here it gets
//! its secrets, leaves through the guarded client, and what comes back loses them again.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tw_core::api_request::{BuildError, BuiltRequest, Method, RequestInputs, UrlTemplate};
use tw_core::definition::{JobAnswer, ToolDefinition};
use tw_core::parameters::SecretRef;
use tw_core::tool::{LookUp, SelectedAnswer, ToolOutcome, ToolOutput};
use tw_core::variables::Variables;
use tw_wire::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};

use crate::client::{
    ConnectionReuse, EgressClient, OutgoingRequest, ReceivedAnswer, RequestTimeouts,
};
use crate::exchange::{output, refused, reuse_for, to_utf8};
use crate::off_thread::aside;
use crate::secret::Secret;
use crate::secrets::{Secrets, SentSecrets, Tenancy};
use crate::tools::{AttemptContext, AttemptReport, LookUpReport};

pub mod poll;

/// Longest time for the look-up of a host, TCP and TLS together (the design, section 12).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the requests of all tools that are data.
///
/// Cheap to clone; clones share connections and secrets.
#[derive(Clone, Debug)]
pub struct ApiCaller {
    client: EgressClient,
    secrets: Arc<Secrets>,
}

impl ApiCaller {
    pub fn new(client: EgressClient, secrets: Arc<Secrets>) -> Self {
        Self { client, secrets }
    }

    /// Sends the request of one attempt and says what its answer means.
    ///
    /// Holds the tool's timeout.
    ///
    /// # Cancel safety
    /// That of [`EgressClient::send`].
    pub(crate) async fn send(
        &self,
        definition: &ToolDefinition,
        attempt: &AttemptContext,
    ) -> AttemptReport {
        let url = &definition.request.url;
        let built = self.build(url, attempt.asker(), |given| {
            definition.request(&attempt.args, given)
        });
        let (built, secrets) = match built {
            Ok(built) => built,
            Err(NotBuilt::NotGranted) => {
                let message = "a secret that the tool needs may not be sent to its address";
                return ToolOutcome::NotAllowed {
                    message: message.to_owned(),
                }
                .into();
            }
            Err(NotBuilt::Unsendable(message)) => {
                return ToolOutcome::Unsendable { message }.into();
            }
        };
        let effect = definition.policy.effect;
        let mut request = outgoing(built, definition, &secrets);
        if let Some(trace) = &attempt.trace {
            put_trace(&mut request.headers, trace);
        }
        let sent = self
            .client
            .send(request, &attempt.organization, reuse_for(effect))
            .await;
        let received = match sent {
            Ok(received) => kept(received, definition, &secrets),
            Err(failure) => return AttemptReport::unanswered(failure),
        };
        let status = received.status;
        let headers = received.headers.clone();
        let outcome = if definition.accepts(status) && definition.job.is_some() {
            accepted(definition, received, &secrets)
        } else if definition.accepts(status) {
            ToolOutcome::Answered(answer(definition, received, &secrets))
        } else {
            let said = masked(output_of(definition, received), &secrets);
            refused(status, &headers, effect, &said)
        };
        AttemptReport::answered(status, outcome)
    }

    /// Asks the provider whether an attempt happened.
    pub(crate) async fn look_up(
        &self,
        definition: &ToolDefinition,
        attempt: &AttemptContext,
    ) -> LookUpReport {
        let Some(look_up) = &definition.request.look_up else {
            return LookUp::Unknown.into();
        };
        let built = self.build(&look_up.url, attempt.asker(), |given| {
            definition.look_up_request(given)
        });
        let Ok((built, secrets)) = built else {
            return LookUp::Unknown.into();
        };
        // It comes after a failure, and is asked once: no connection is good enough for it that
        // may be closing.
        let sent = self
            .client
            .send(
                outgoing(built, definition, &secrets),
                &attempt.organization,
                ConnectionReuse::Fresh,
            )
            .await;
        match sent {
            Ok(received) if look_up.absent.contains(&received.status) => LookUp::Absent.into(),
            Ok(received) if (200..300).contains(&received.status) => {
                let received = kept(received, definition, &secrets);
                LookUp::Happened(answer(definition, received, &secrets)).into()
            }
            Ok(_) => LookUp::Unknown.into(),
            Err(failure) => LookUpReport::unanswered(failure),
        }
    }

    /// The request, and the secrets that are in it.
    fn build(
        &self,
        url: &UrlTemplate,
        asker: RequestAsker<'_>,
        build: impl FnOnce(&RequestInputs<'_>) -> Result<BuiltRequest, BuildError>,
    ) -> Result<(BuiltRequest, SentSecrets<'_>), NotBuilt> {
        let not_granted = Cell::new(false);
        let sent = RefCell::new(SentSecrets::default());
        let secret = |named: &SecretRef| {
            let found = self.secrets.send(
                &named.name,
                asker.organization,
                url.host_and_port(),
                asker.tenancy,
                &mut sent.borrow_mut(),
            );
            not_granted.set(not_granted.get() || found.is_none());
            found.map(Secret::reveal).map(str::to_owned)
        };
        let built = build(&RequestInputs {
            variables: asker.variables,
            secret: &secret,
            reference: asker.reference,
        });
        if not_granted.get() {
            // It was granted when the tool was saved.
            return Err(NotBuilt::NotGranted);
        }
        let sent = sent.into_inner();
        let built = built.map_err(|error| NotBuilt::Unsendable(sent.masked(error.0)))?;
        Ok((built, sent))
    }
}

/// The call that a request is made for.
#[derive(Clone, Copy)]
struct RequestAsker<'a> {
    organization: &'a str,
    tenancy: Tenancy,
    variables: &'a Variables,
    /// The call's idempotency key.
    reference: &'a str,
}

impl AttemptContext {
    fn asker(&self) -> RequestAsker<'_> {
        RequestAsker {
            organization: &self.organization,
            tenancy: self.tenancy,
            variables: &self.variables,
            reference: &self.idempotency_key,
        }
    }
}

/// Reasons for which a definition and its arguments make no request.
enum NotBuilt {
    NotGranted,
    /// A request that cannot be sent; the text is for the model.
    Unsendable(String),
}

/// The answer with only as much of its body as the tool keeps, and no part of a secret at the end.
fn kept(
    mut received: ReceivedAnswer,
    definition: &ToolDefinition,
    secrets: &SentSecrets<'_>,
) -> ReceivedAnswer {
    // A secret in another charset is one all the same.
    to_utf8(&mut received, |content_type| {
        is_text(definition, content_type)
    });
    let read = received.body.len();
    // A secret that begins further on may go on in what was not read.
    let known = if received.cut {
        read.saturating_sub(secrets.look_ahead())
    } else {
        read
    };
    let at = known.min(definition.response.kept_bytes_max);
    if at < read {
        received.shorten(|body| secrets.cut(body, at));
    }
    received
}

/// An answer that is larger than this may take milliseconds to select from and to look through for secrets, in bytes.
const ASIDE_BYTES_MIN: usize = 32 * 1024;

/// Longest part of an answer that started no job that the model is shown, in bytes.
const REFUSAL_BYTES_MAX: usize = 2048;

fn answer(
    definition: &ToolDefinition,
    received: ReceivedAnswer,
    secrets: &SentSecrets<'_>,
) -> ToolOutput {
    let mut output = output_of(definition, received);
    let mut is_large = false;
    if let ToolOutput::Text {
        text,
        cut,
        selected,
    } = &mut output
    {
        // Before anything is masked: a number that is a secret leaves no JSON behind.
        is_large = text.len() > ASIDE_BYTES_MIN;
        *selected = aside(is_large, || definition.selected(text, *cut));
    }
    aside(is_large, || masked(output, secrets))
}

/// What the answer says of the job that it should have started.
fn accepted(
    definition: &ToolDefinition,
    received: ReceivedAnswer,
    secrets: &SentSecrets<'_>,
) -> ToolOutcome {
    let output = output_of(definition, received);
    let answer = match &output {
        ToolOutput::Text { text, .. } => definition.job_answer(text),
        ToolOutput::Opaque { .. } => definition.job_answer(""),
    };
    // What the definition finds to be said, else all of it.
    let said = |found: Option<String>| match found {
        Some(found) => secrets.masked(found),
        None => masked(output, secrets).shown(REFUSAL_BYTES_MAX),
    };
    match answer {
        JobAnswer::Started { external_id } => ToolOutcome::Accepted {
            external_id: external_id.map(|id| secrets.masked(id)),
        },
        JobAnswer::Refused(found) => ToolOutcome::Refused {
            message: format!("The tool answered without starting a job: {}", said(found)),
        },
        JobAnswer::NotNow(found) => ToolOutcome::NotStarted {
            message: format!("The tool did not start the job: {}", said(found)),
        },
        JobAnswer::Unknown(found) => ToolOutcome::Gateway {
            message: format!(
                "The tool answered that something went wrong: {}",
                said(found)
            ),
            retry_after: None,
        },
    }
}

fn masked(output: ToolOutput, secrets: &SentSecrets<'_>) -> ToolOutput {
    match output {
        ToolOutput::Text {
            text,
            cut,
            selected,
        } => ToolOutput::Text {
            text: secrets.masked(text),
            cut,
            selected: selected.map(|part| SelectedAnswer {
                text: if part.cut {
                    secrets.masked_cut(part.text)
                } else {
                    secrets.masked(part.text)
                },
                cut: part.cut,
            }),
        },
        ToolOutput::Opaque {
            content_type,
            bytes,
            sha256,
        } => ToolOutput::Opaque {
            content_type: secrets.masked(content_type),
            bytes,
            sha256,
        },
    }
}

fn output_of(definition: &ToolDefinition, received: ReceivedAnswer) -> ToolOutput {
    output(received, |content_type| is_text(definition, content_type))
}

/// Some servers leave the type out; then UTF-8 is as good a sign of text as there is.
fn is_text(definition: &ToolDefinition, content_type: &str) -> bool {
    content_type.is_empty() || definition.is_text(content_type)
}

/// Adds the headers of a trace, unless the definition has its own.
fn put_trace(headers: &mut Vec<(String, String)>, trace: &TraceContext) {
    let is_own = |(name, _): &(String, String)| name.eq_ignore_ascii_case(TRACEPARENT);
    if headers.iter().any(is_own) {
        return;
    }
    headers.push((TRACEPARENT.to_owned(), trace.parent.to_string()));
    let has_state = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case(TRACESTATE));
    if let Some(state) = trace.state.as_deref().filter(|_| !has_state) {
        headers.push((TRACESTATE.to_owned(), state.to_owned()));
    }
}

fn outgoing(
    built: BuiltRequest,
    definition: &ToolDefinition,
    secrets: &SentSecrets<'_>,
) -> OutgoingRequest {
    let total = definition.policy.timeout;
    OutgoingRequest {
        method: match built.method {
            Method::Get => http::Method::GET,
            Method::Head => http::Method::HEAD,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Patch => http::Method::PATCH,
            Method::Delete => http::Method::DELETE,
        },
        url: built.url,
        headers: built.headers,
        body: built.body.map(Bytes::from).unwrap_or_default(),
        timeouts: RequestTimeouts {
            connect: CONNECT_TIMEOUT.min(total),
            first_byte: total,
            idle: total,
            total,
        },
        response_bytes_max: definition
            .response
            .kept_bytes_max
            .saturating_add(secrets.look_ahead()),
    }
}
