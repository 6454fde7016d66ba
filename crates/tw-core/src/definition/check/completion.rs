//! The rules of a tool with jobs.

mod poll;

use std::time::Duration;

use serde_json_path::JsonPath;

use super::{CheckedDefinition, refuse, rules};
use crate::definition::{
    CallbackRules, CallbackVerification, FileRules, JobMapping, JobRules, JobStart, ToolDefinition,
    select, walk,
};
use crate::hmac_rule::{HmacRule, SignedPart, TimePlace};
use crate::tool::CallCompletion;
use crate::variables::CALLBACK_URL;

const STATUSES_MAX: usize = 32;
const ADDRESSES_MAX: usize = 32;
/// Places in which something may stand.
const PLACES_MAX: usize = 4;
/// Largest file, which is held in memory while it is copied.
const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;
const FILES_MAX: usize = 32;
/// Bytes of all files of a job, which are held in memory together.
const JOB_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Secrets at once: an old and a new one, and a few more.
const SECRETS_MAX: usize = 8;
const DEADLINE_MIN: Duration = Duration::from_secs(1);
/// Longer than any job that somebody still waits for.
const DEADLINE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

pub(super) fn check(definition: &ToolDefinition) -> CheckedDefinition {
    let (CallCompletion::Job(completion), Some(job)) =
        (&definition.policy.completion, &definition.job)
    else {
        return Ok(());
    };
    if !(DEADLINE_MIN..=DEADLINE_MAX).contains(&completion.deadline) {
        return refuse(
            "completion.deadline_s",
            format!(
                "must be from {} to {}",
                DEADLINE_MIN.as_secs(),
                DEADLINE_MAX.as_secs()
            ),
        );
    }
    if definition.policy.cache.is_some() {
        return refuse("policy.cache", "may not stand with a completion by a job");
    }
    check_ids("completion.external_id", &job.external_id)?;
    if let Some(start) = &job.start {
        check_start(start)?;
    }
    if job.json_in.len() > PLACES_MAX {
        let problem = format!("must be at most {PLACES_MAX}");
        return refuse("completion.json_in", problem);
    }
    for (index, path) in job.json_in.iter().enumerate() {
        check_single(&format!("completion.json_in[{index}]"), path)?;
    }
    if let Some(callback) = &job.callback {
        if !names_callback_url(definition) {
            return refuse(
                "completion",
                format!(
                    "the request must name the variable {{{{{CALLBACK_URL}}}}}, or nobody could call back"
                ),
            );
        }
        check_callback(job, callback)?;
    }
    if let Some(poll) = &job.poll {
        poll::check(definition, job, poll)?;
    }
    match &job.files {
        Some(files) => check_files(files),
        None => Ok(()),
    }
}

fn check_files(files: &FileRules) -> CheckedDefinition {
    const FIELD: &str = "completion.files";
    let urls = format!("{FIELD}.urls");
    select::check(&files.urls).or_else(|problem| refuse(&urls, problem))?;
    rules::check_types(&format!("{FIELD}.content_types"), &files.content_types)?;
    if !(1..=FILE_BYTES_MAX).contains(&files.bytes_max) {
        let problem = format!("must be from 1 to {FILE_BYTES_MAX}");
        return refuse(&format!("{FIELD}.bytes_max"), problem);
    }
    if !(1..=FILES_MAX).contains(&files.files_max) {
        let problem = format!("must be from 1 to {FILES_MAX}");
        return refuse(&format!("{FIELD}.files_max"), problem);
    }
    if files.bytes_max.saturating_mul(files.files_max) > JOB_BYTES_MAX {
        let problem = format!("times \"bytes_max\" must be at most {JOB_BYTES_MAX}");
        return refuse(&format!("{FIELD}.files_max"), problem);
    }
    Ok(())
}

fn check_start(start: &JobStart) -> CheckedDefinition {
    const FIELD: &str = "completion.start";
    check_single(&format!("{FIELD}.status"), &start.path)?;
    if let Some(path) = &start.error {
        check_single(&format!("{FIELD}.error"), path)?;
    }
    let lists = [
        ("accepted", &start.accepted),
        ("again", &start.again),
        ("unknown", &start.unknown),
    ];
    if start.accepted.is_empty() || lists.iter().any(|(_, words)| words.len() > STATUSES_MAX) {
        let problem = format!("must be 1 to {STATUSES_MAX} values, as must each other list");
        return refuse(&format!("{FIELD}.accepted"), problem);
    }
    for (at, (name, words)) in lists.iter().enumerate() {
        for (other, others) in &lists[..at] {
            if words.iter().any(|word| others.contains(word)) {
                let problem = format!("must not hold a value of \"{other}\"");
                return refuse(&format!("{FIELD}.{name}"), problem);
            }
        }
    }
    Ok(())
}

fn check_callback(job: &JobRules, callback: &CallbackRules) -> CheckedDefinition {
    check_ids("completion.callback.external_id", &callback.external_id)?;
    check_mapping("completion.callback", &callback.says)?;
    if callback.addresses.len() > ADDRESSES_MAX {
        let problem = format!("must be at most {ADDRESSES_MAX}");
        return refuse("completion.callback.addresses", problem);
    }
    check_verification(&callback.verification)?;
    let confirms = job.poll.as_ref().is_some_and(|poll| poll.confirms);
    if !confirms && !signs_body(&callback.verification) {
        return refuse(
            "completion.callback.verification.signed",
            "does not hold the body, so whoever has seen one signature could write any: \
             what callbacks say has to be confirmed (completion.poll.confirms)",
        );
    }
    Ok(())
}

fn check_ids(field: &str, paths: &[JsonPath]) -> CheckedDefinition {
    if paths.len() > PLACES_MAX {
        return refuse(field, format!("must be at most {PLACES_MAX}"));
    }
    paths.iter().try_for_each(|path| check_single(field, path))
}

pub(super) fn check_mapping(field: &str, says: &JobMapping) -> CheckedDefinition {
    let status = says.status.as_ref();
    for (name, path) in [
        ("status", status.map(|status| &status.path)),
        ("error", says.error.as_ref()),
    ] {
        path.map_or(Ok(()), |path| {
            check_single(&format!("{field}.{name}"), path)
        })?;
    }
    if let Some(result) = &says.result {
        rules::check_select(&format!("{field}.result"), result)?;
    }
    if let Some(status) = status {
        let (completed, failed) = (&status.completed, &status.failed);
        if completed.is_empty() || completed.len() + failed.len() > STATUSES_MAX {
            let problem = format!("must be 1 to {STATUSES_MAX} values with those of \"failed\"");
            return refuse(&format!("{field}.completed"), problem);
        }
        if failed.iter().any(|value| completed.contains(value)) {
            let problem = "must not hold a value of \"completed\"";
            return refuse(&format!("{field}.failed"), problem);
        }
    }
    Ok(())
}

/// Whether a signature covers what a callback says; the token's secrecy vouches for one without signature.
fn signs_body(verification: &CallbackVerification) -> bool {
    match verification {
        CallbackVerification::Hmac { rule, .. } => rule
            .signed
            .iter()
            .any(|part| matches!(part, SignedPart::Body | SignedPart::SortedForm)),
        CallbackVerification::TokenAlone
        | CallbackVerification::StandardWebhooks { .. }
        | CallbackVerification::SharedSecret { .. } => true,
    }
}

/// Whether the time of a message, if one is looked at, is signed.
fn vouches_for_time(rule: &HmacRule) -> bool {
    let Some(time) = &rule.time else { return true };
    rule.signed.iter().any(|part| match (&time.place, part) {
        (TimePlace::Header(of), SignedPart::Header(signed)) => of.eq_ignore_ascii_case(signed),
        (TimePlace::Element(of), SignedPart::Element(signed)) => of == signed,
        _ => false,
    })
}

fn check_verification(verification: &CallbackVerification) -> CheckedDefinition {
    let field = "completion.callback.verification";
    let secrets = verification.secrets();
    match verification {
        CallbackVerification::TokenAlone => return Ok(()),
        CallbackVerification::StandardWebhooks { .. } => {}
        CallbackVerification::Hmac { rule, .. } => {
            for part in &rule.signed {
                if let SignedPart::BodyValue(path) = part {
                    check_single(&format!("{field}.signed"), path)?;
                }
            }
            if !vouches_for_time(rule) {
                return refuse(
                    &format!("{field}.timestamp"),
                    "must be among what is signed, or whoever has seen one callback could send it again later",
                );
            }
            if !rule.signed.iter().any(is_of_request) {
                let problem =
                    "must hold the body, or a header, or nothing of the message is signed";
                return refuse(&format!("{field}.signed"), problem);
            }
        }
        CallbackVerification::SharedSecret { .. } => {}
    }
    if !(1..=SECRETS_MAX).contains(&secrets.len()) {
        let problem = format!("must be 1 to {SECRETS_MAX} names");
        return refuse(&format!("{field}.secrets"), problem);
    }
    Ok(())
}

fn is_of_request(part: &SignedPart) -> bool {
    match part {
        SignedPart::Body
        | SignedPart::SortedForm
        | SignedPart::Header(_)
        | SignedPart::BodyValue(_) => true,
        SignedPart::Url | SignedPart::Element(_) | SignedPart::Text(_) => false,
    }
}

/// A path that finds one node at most.
fn check_single(field: &str, path: &JsonPath) -> CheckedDefinition {
    select::check(path).or_else(|problem| refuse(field, problem))?;
    if select::is_singular(path) {
        Ok(())
    } else {
        refuse(field, "must be a path that finds one value at most")
    }
}

fn names_callback_url(definition: &ToolDefinition) -> bool {
    let mut is_named = definition
        .request
        .url
        .variables()
        .any(|name| name == CALLBACK_URL);
    walk::request(definition, &mut |_, value| {
        is_named |= value.names(CALLBACK_URL);
    });
    is_named
}
