//! Tools that are data, against a listener that plays what a test says.

mod guard;
mod look_up;
mod outcomes;
mod played;
mod secrets;
mod sent;

use std::sync::Arc;
use std::time::Duration;

use tw_core::arguments;
use tw_core::id::CallId;
use tw_core::limits::RequestLimits;
use tw_core::time::Timestamp;
use tw_core::tool::{EffectClass, LookUp, Tool, ToolKind, ToolOutcome, ToolOutput};
use tw_core::variables::Variables;
use tw_egress::api_request::ApiCaller;
use tw_egress::client::host_port::AllowedDestination;
use tw_egress::client::{ClientOptions, EgressClient};
use tw_egress::probe::Prober;
use tw_egress::secret::Secret;
use tw_egress::secrets::{SecretGrant, Secrets, Tenancy};
use tw_egress::tools::{self, AttemptContext, AttemptReport, ToolExecutors};
use tw_wire::stored::tool;

use crate::client::options;

/// The slug of whoever calls, unless a test says otherwise.
const ACME: &str = "acme";

/// Everything that an attempt takes, to be changed by a test.
struct Lab {
    executors: ToolExecutors,
    attempt: AttemptContext,
}

impl Lab {
    /// A server that may send to `place` for [`ACME`].
    fn reaching(place: &str) -> Self {
        Self::new(
            ClientOptions {
                allowed: vec![allowed(place)],
                ..options()
            },
            Vec::new(),
        )
    }

    fn new(options: ClientOptions, grants: Vec<SecretGrant>) -> Self {
        let secrets = Arc::new(Secrets::new(grants).unwrap());
        let mut variables = Variables::default();
        variables.set("organization", ACME.to_owned());
        Self {
            executors: ToolExecutors {
                prober: Prober::new(&[]).unwrap(),
                api: ApiCaller::new(EgressClient::new(options), secrets),
            },
            attempt: AttemptContext {
                call: CallId(uuid::Uuid::nil()),
                args: arguments::read_stored("{}").unwrap(),
                idempotency_key: "key-1".to_owned(),
                now: Timestamp(0),
                organization: ACME.into(),
                tenancy: Tenancy::Several,
                variables: Arc::new(variables),
                trace: None,
            },
        }
    }

    fn with_args(mut self, args: &str) -> Self {
        self.attempt.args = arguments::read_stored(args).unwrap();
        self
    }

    fn with_variable(mut self, name: &str, value: &str) -> Self {
        Arc::make_mut(&mut self.attempt.variables).set(name, value.to_owned());
        self
    }

    async fn run(&self, tool: &Tool) -> ToolOutcome {
        self.report(tool).await.outcome
    }

    async fn report(&self, tool: &Tool) -> AttemptReport {
        tools::run(&self.executors, tool, &self.attempt).await
    }

    async fn look_up(&self, tool: &Tool) -> LookUp {
        let looked_up = tools::look_up(&self.executors, tool, &self.attempt);
        looked_up.await.found
    }
}

fn allowed(place: &str) -> AllowedDestination {
    AllowedDestination::parse(place, Some(vec![ACME.to_owned()])).unwrap()
}

fn grant(name: &str, value: &str, hosts: &[&str]) -> SecretGrant {
    SecretGrant {
        name: name.to_owned(),
        value: Secret::new(value.to_owned()),
        organizations: vec![ACME.to_owned()],
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
    }
}

/// Reads, checks and offers a definition, as a server does.
#[track_caller]
fn tool(definition: &str) -> Tool {
    let definition = tool::decode(definition).unwrap();
    definition.check(&RequestLimits::defaults()).unwrap();
    let definition = Arc::new(definition);
    definition.tool(None, &Variables::default()).unwrap()
}

/// One without parameters; `more` begins with a comma, or is empty.
#[track_caller]
fn bare(method: &str, url: &str, effect: EffectClass, more: &str) -> Tool {
    let look_up = match effect {
        EffectClass::Queryable => {
            r#","look_up":{"url":"https://127.0.0.1/{{reference}}","absent":[404]}"#
        }
        EffectClass::Read | EffectClass::Idempotent | EffectClass::Once => "",
    };
    tool(&format!(
        r#"{{"name":"t","description":"d","type":"api_request","method":"{method}","url":"{url}",
            "policy":{{"effect":"{}","timeout_ms":5000}}{look_up}{more}}}"#,
        effect.as_str()
    ))
}

/// Gives the tool 60 ms, less than a definition may say.
fn shorten(tool: &mut Tool) {
    let ToolKind::ApiRequest(definition) = &mut tool.kind else {
        panic!("no api_request");
    };
    Arc::make_mut(definition).policy.timeout = Duration::from_millis(60);
}

/// One line for an outcome; long texts by their length.
fn told(outcome: &ToolOutcome) -> String {
    let word = outcome.as_str();
    match outcome {
        ToolOutcome::Answered(output) => format!("{word} {}", told_output(output)),
        ToolOutcome::Accepted { external_id } => format!("{word} {external_id:?}"),
        ToolOutcome::Unavailable {
            message,
            retry_after: Some(wait),
        }
        | ToolOutcome::Gateway {
            message,
            retry_after: Some(wait),
        } => format!("{word} for {wait:?}: {message}"),
        ToolOutcome::Unavailable {
            message,
            retry_after: None,
        }
        | ToolOutcome::Gateway {
            message,
            retry_after: None,
        }
        | ToolOutcome::Unclear { message }
        | ToolOutcome::Refused { message }
        | ToolOutcome::NotStarted { message }
        | ToolOutcome::Unsendable { message }
        | ToolOutcome::NotSent { message }
        | ToolOutcome::NotAllowed { message }
        | ToolOutcome::Reset { message } => format!("{word}: {message}"),
        ToolOutcome::TimedOut | ToolOutcome::Panicked | ToolOutcome::Aborted => word.to_owned(),
    }
}

fn told_output(output: &ToolOutput) -> String {
    match output {
        ToolOutput::Text {
            text,
            cut,
            selected,
        } => {
            let text = if text.len() > 100 {
                format!("{} bytes", text.len())
            } else {
                format!("{text:?}")
            };
            let cut = if *cut { " cut" } else { "" };
            let selected = selected
                .as_ref()
                .map(|selected| format!(" shown {}", selected.text));
            format!("{text}{cut}{}", selected.unwrap_or_default())
        }
        ToolOutput::Opaque {
            content_type,
            bytes,
            ..
        } => format!("{bytes} bytes of {content_type:?}"),
    }
}
