//! The rules by which a job is asked about.

use std::time::Duration;

use super::super::values::{self, StaticValuePlace};
use super::super::{CheckedDefinition, Scope, check_used, refuse, request};
use super::check_mapping;
use crate::api_request::Method;
use crate::definition::{JobRules, PollRules, ToolDefinition};

const WAITS_MAX: usize = 16;
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const BODY_MEMBERS_MAX: usize = 64;

pub(super) fn check(
    definition: &ToolDefinition,
    job: &JobRules,
    poll: &PollRules,
) -> CheckedDefinition {
    let asked = &poll.request;
    match asked.method {
        Method::Get | Method::Post => {}
        Method::Head | Method::Put | Method::Patch | Method::Delete => {
            return refuse("completion.poll.method", "must be GET or POST");
        }
    }
    let mut parameters = asked.url.path_parameters();
    if parameters.next().is_some() || asked.url.query_parameters().next().is_some() {
        return refuse(
            "completion.poll.url",
            "a poll has no arguments; only {{variables}} may stand in its URL",
        );
    }
    let url = "completion.poll.url";
    check_used(definition, Scope::Poll, url, asked.url.variables())?;
    let headers = "completion.poll.headers";
    request::check_headers(definition, Scope::Poll, headers, &asked.headers)?;
    let taken: Vec<_> = asked.url.query_names().collect();
    let query = "completion.poll.query";
    request::check_query(definition, Scope::Poll, query, &asked.query, &taken)?;
    check_body(definition, poll)?;
    if !asked.names_external_id() && !asked.names_reference() {
        return refuse(
            "completion.poll",
            "must name the variable {{external_id}} or {{reference}}, or it would ask for no job in particular",
        );
    }
    if asked.names_external_id() && job.external_id.is_empty() {
        return refuse(
            "completion.external_id",
            "is required, since the poll asks by it",
        );
    }
    if !(1..=WAITS_MAX).contains(&poll.every.len()) {
        let problem = format!("must be 1 to {WAITS_MAX} numbers");
        return refuse("completion.poll.every_s", problem);
    }
    if poll
        .every
        .iter()
        .any(|wait| !(WAIT_MIN..=WAIT_MAX).contains(wait))
    {
        let (low, high) = (WAIT_MIN.as_secs(), WAIT_MAX.as_secs());
        let problem = format!("must be from {low} to {high}");
        return refuse("completion.poll.every_s", problem);
    }
    if poll.confirms && job.callback.is_none() {
        let problem = "there are no callbacks that it could confirm";
        return refuse("completion.poll.confirms", problem);
    }
    check_mapping("completion.poll", &poll.says)
}

fn check_body(definition: &ToolDefinition, poll: &PollRules) -> CheckedDefinition {
    let asked = &poll.request;
    let field = "completion.poll.body";
    if !asked.body.is_empty() && !asked.method.may_have_body() {
        return refuse(field, "a GET request has no body");
    }
    if asked.body.len() > BODY_MEMBERS_MAX {
        return refuse(field, format!("must be at most {BODY_MEMBERS_MAX}"));
    }
    for (index, (name, value)) in asked.body.iter().enumerate() {
        let field = format!("{field}.{name}");
        if asked.body[..index].iter().any(|(other, _)| other == name) {
            return refuse(&field, "is given twice");
        }
        values::check(
            definition,
            Scope::Poll,
            StaticValuePlace::Json,
            &field,
            value,
        )?;
    }
    Ok(())
}
