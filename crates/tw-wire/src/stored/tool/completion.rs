//! The way in which calls of a tool come to their end.

mod verification;

use std::time::Duration;

use serde_json::Value;
use serde_json_path::JsonPath;
use tw_core::api_request::{Method, PollRequest, UrlTemplate};
use tw_core::definition::{
    CallbackRules, CallbackVerification, DefinitionError, FileRules, JobMapping, JobRules,
    JobStart, JobStatus, PollRules,
};
use tw_core::limits::CALLBACK_DEADLINE_DEFAULT;
use tw_core::tool::{CallCompletion, JobCompletion, JobPolls};

use super::value_at_path::{KnownObject, ValueAtPath};
use super::{response, values};

const OF_A_COMPLETION: &[&str] = &[
    "completes",
    "waits",
    "deadline_s",
    "external_id",
    "start",
    "json_in",
    "callback",
    "poll",
    "files",
];
const OF_A_START: &[&str] = &["status", "accepted", "again", "unknown", "error"];
const OF_A_CALLBACK: &[&str] = &[
    "external_id",
    "verification",
    "addresses",
    "status",
    "completed",
    "failed",
    "result",
    "error",
];
const OF_A_POLL: &[&str] = &[
    "method",
    "url",
    "headers",
    "query",
    "body",
    "every_s",
    "confirms",
    "status",
    "completed",
    "failed",
    "result",
    "error",
];

const OF_FILES: &[&str] = &["urls", "content_types", "bytes_max", "files_max"];

/// Room for a large photograph.
const FILE_BYTES_DEFAULT: usize = 20 * 1024 * 1024;
const FILES_DEFAULT: usize = 8;

const INLINE: &str = "inline";
const WEBHOOK: &str = "webhook";
const POLL: &str = "poll";

/// Waits of a definition that says nothing of them, in seconds.
const EVERY_S_DEFAULT: [u64; 5] = [30, 60, 120, 300, 600];

/// A tool's completion: how its calls are treated, and the rules of its jobs if it has some.
pub struct ReadCompletion {
    pub completion: CallCompletion,
    pub job: Option<JobRules>,
}

pub fn read(place: Option<&ValueAtPath<'_>>) -> Result<ReadCompletion, DefinitionError> {
    let Some((written, end)) = of_job(place)? else {
        return Ok(ReadCompletion {
            completion: CallCompletion::Inline,
            job: None,
        });
    };
    let deadline = match written.optional("deadline_s") {
        Some(seconds) => Duration::from_secs(seconds.whole::<u32>()?.into()),
        None => CALLBACK_DEADLINE_DEFAULT,
    };
    // Neither is what a reader would expect of the other.
    let waits = written.required("waits")?.boolean()?;
    let callback = match (end, written.optional("callback")) {
        (JobEnds::ByCallback, place) => Some(callback(place)?),
        (JobEnds::ByPoll, None) => None,
        (JobEnds::ByPoll, Some(place)) => {
            return Err(place.error("may stand with \"completes\": \"webhook\" only"));
        }
    };
    let poll = match end {
        JobEnds::ByCallback => written.optional("poll"),
        JobEnds::ByPoll => Some(written.required("poll")?),
    };
    let job = JobRules {
        start: written.optional("start").map(start).transpose()?,
        external_id: places(written.optional("external_id"))?,
        json_in: places(written.optional("json_in"))?,
        callback,
        poll: poll.map(read_poll).transpose()?,
        files: written.optional("files").map(files).transpose()?,
    };
    let polls = job.poll.as_ref().map(|poll| JobPolls {
        first: poll.every.first().copied().unwrap_or_default(),
        by_id: poll.request.names_external_id(),
    });
    Ok(ReadCompletion {
        completion: CallCompletion::Job(JobCompletion {
            waits,
            deadline,
            calls_back: job.callback.is_some(),
            polls,
        }),
        job: Some(job),
    })
}

/// Paths, or one alone.
fn places(place: Option<&ValueAtPath<'_>>) -> Result<Vec<JsonPath>, DefinitionError> {
    match place {
        None => Ok(Vec::new()),
        Some(place) if place.is_array() => place.elements()?.iter().map(response::path).collect(),
        Some(place) => Ok(vec![response::path(place)?]),
    }
}

fn start(place: &ValueAtPath<'_>) -> Result<JobStart, DefinitionError> {
    let written = place.object(OF_A_START)?;
    let words = |name| written.optional(name).map_or(Ok(Vec::new()), scalars);
    Ok(JobStart {
        path: response::path(written.required("status")?)?,
        accepted: scalars(written.required("accepted")?)?,
        again: words("again")?,
        unknown: words("unknown")?,
        error: written.optional("error").map(response::path).transpose()?,
    })
}

fn callback(place: Option<&ValueAtPath<'_>>) -> Result<CallbackRules, DefinitionError> {
    let Some(place) = place else {
        return Ok(CallbackRules {
            external_id: Vec::new(),
            verification: CallbackVerification::TokenAlone,
            addresses: Vec::new(),
            says: JobMapping {
                status: None,
                result: None,
                error: None,
            },
        });
    };
    let written = place.object(OF_A_CALLBACK)?;
    Ok(CallbackRules {
        external_id: places(written.optional("external_id"))?,
        verification: match written.optional("verification") {
            Some(place) => verification::read(place)?,
            None => CallbackVerification::TokenAlone,
        },
        addresses: match written.optional("addresses") {
            Some(place) => verification::texts(place)?,
            None => Vec::new(),
        },
        says: mapping(&written)?,
    })
}

fn read_poll(place: &ValueAtPath<'_>) -> Result<PollRules, DefinitionError> {
    let written = place.object(OF_A_POLL)?;
    let words = Method::ALL.map(Method::as_str);
    let url = written.required("url")?;
    // Without it the first answer would be the end, and nothing would have to be asked twice.
    written.required("status")?;
    let seconds = match written.optional("every_s") {
        Some(place) => {
            let elements = place.elements()?;
            let seconds = elements.iter().map(|place| place.whole::<u32>());
            let seconds: Result<Vec<_>, _> = seconds.collect();
            seconds?.into_iter().map(u64::from).collect()
        }
        None => EVERY_S_DEFAULT.to_vec(),
    };
    Ok(PollRules {
        request: PollRequest {
            method: match written.optional("method") {
                Some(method) => method.one_of(&words, Method::parse)?,
                None => Method::Get,
            },
            url: UrlTemplate::parse(&url.text()?).map_err(|bad| url.error(bad))?,
            headers: written
                .optional("headers")
                .map_or(Ok(Vec::new()), values::headers)?,
            query: written
                .optional("query")
                .map_or(Ok(Vec::new()), values::query)?,
            body: written
                .optional("body")
                .map_or(Ok(Vec::new()), values::object)?,
        },
        every: seconds.into_iter().map(Duration::from_secs).collect(),
        confirms: match written.optional("confirms") {
            Some(confirms) => confirms.boolean()?,
            None => false,
        },
        says: mapping(&written)?,
    })
}

fn files(place: &ValueAtPath<'_>) -> Result<FileRules, DefinitionError> {
    let written = place.object(OF_FILES)?;
    let number = |name: &str, default: usize| match written.optional(name) {
        Some(place) => Ok(place.whole::<u32>()? as usize),
        None => Ok(default),
    };
    Ok(FileRules {
        urls: response::path(written.required("urls")?)?,
        content_types: match written.optional("content_types") {
            Some(types) => {
                let elements = types.elements()?;
                let lower = elements
                    .iter()
                    .map(|place| Ok(place.text()?.to_ascii_lowercase()));
                lower.collect::<Result<_, _>>()?
            }
            None => vec!["image/*".to_owned()],
        },
        bytes_max: number("bytes_max", FILE_BYTES_DEFAULT)?,
        files_max: number("files_max", FILES_DEFAULT)?,
    })
}

/// Those members of a callback or a poll that say what it says.
fn mapping(of: &KnownObject<'_>) -> Result<JobMapping, DefinitionError> {
    Ok(JobMapping {
        status: status(of)?,
        result: of
            .optional("result")
            .map(response::read_select)
            .transpose()?,
        error: of.optional("error").map(response::path).transpose()?,
    })
}

fn status(of: &KnownObject<'_>) -> Result<Option<JobStatus>, DefinitionError> {
    let Some(path) = of.optional("status") else {
        for name in ["completed", "failed", "error"] {
            if let Some(place) = of.optional(name) {
                return Err(place.error("may stand with \"status\" only"));
            }
        }
        return Ok(None);
    };
    Ok(Some(JobStatus {
        path: response::path(path)?,
        completed: scalars(of.required("completed")?)?,
        failed: match of.optional("failed") {
            Some(place) => scalars(place)?,
            None => Vec::new(),
        },
    }))
}

fn scalars(place: &ValueAtPath<'_>) -> Result<Vec<Value>, DefinitionError> {
    let elements = place.elements()?;
    let scalar = |place: &ValueAtPath<'_>| match place.json().to_value() {
        Value::Array(_) | Value::Object(_) => {
            Err(place.wrong_type("a string, a number, a boolean or null"))
        }
        value => Ok(value),
    };
    elements.iter().map(scalar).collect()
}

/// What ends the calls of a tool with jobs.
#[derive(Clone, Copy)]
enum JobEnds {
    /// Polls may help.
    ByCallback,
    ByPoll,
}

/// The members of a completion by a job; `None` for a tool whose answer is the result.
fn of_job<'a>(
    place: Option<&ValueAtPath<'a>>,
) -> Result<Option<(KnownObject<'a>, JobEnds)>, DefinitionError> {
    let Some(place) = place else {
        return Ok(None);
    };
    let written = place.object(OF_A_COMPLETION)?;
    let word = written.required("completes")?;
    let ends = word.one_of(&[INLINE, WEBHOOK, POLL], |word| match word {
        INLINE => Some(None),
        WEBHOOK => Some(Some(JobEnds::ByCallback)),
        POLL => Some(Some(JobEnds::ByPoll)),
        _ => None,
    })?;
    if let Some(ends) = ends {
        return Ok(Some((written, ends)));
    }
    for name in &OF_A_COMPLETION[1..] {
        if let Some(place) = written.optional(name) {
            let problem = "may stand with \"completes\": \"webhook\" or \"poll\" only";
            return Err(place.error(problem));
        }
    }
    Ok(None)
}
