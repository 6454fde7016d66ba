//! What a tool with jobs says in its answers, in its callbacks, and when it is polled.

use std::borrow::Cow;

use serde_json::Value;
use serde_json_path::{JsonPath, PathElement};

use super::response::matches_any;
use super::{FileRules, JobMapping, JobRules, JobStart, ToolDefinition, select};
use crate::call::{CallEnd, CallReason};
use crate::callback::CallbackMeaning;
use crate::json::Json;
use crate::json::tree::{JsonTree, MemberOrder};
use crate::limits::EXTERNAL_ID_BYTES_MAX;
use crate::tool::ToolOutput;
use crate::variables::beginning;

/// Longest text of what went wrong that the model is shown, in bytes.
const ERROR_BYTES_MAX: usize = 2048;

/// What the answer to a request says of the job that it should have started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobAnswer {
    Started {
        external_id: Option<String>,
    },
    /// It has started nothing, and says why as far as it says anything.
    Refused(Option<String>),
    /// The same, and another request may do better.
    NotNow(Option<String>),
    /// Nobody knows whether it has started.
    Unknown(Option<String>),
}

/// What a callback, or the answer to a poll, says.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReading {
    pub meaning: CallbackMeaning,
    /// The id of the job that it is about, if it says one.
    pub external_id: Option<String>,
}

impl ToolDefinition {
    /// What the body of a callback says of its call.
    pub fn callback_reading(&self, body: &str) -> JobReading {
        let rules = self.job.as_ref();
        let Some((rules, callback)) =
            rules.and_then(|rules| Some((rules, rules.callback.as_ref()?)))
        else {
            return JobReading {
                meaning: CallbackMeaning::Malformed,
                external_id: None,
            };
        };
        let body = &*unfolded(rules, body);
        let external_id = match &*callback.external_id {
            [] => None,
            paths => select::parse(body).and_then(|body| id_at(paths, &body)),
        };
        JobReading {
            meaning: self.meaning(&callback.says, body),
            external_id,
        }
    }

    /// What the answer to a poll says of its call.
    pub fn poll_meaning(&self, body: &str) -> CallbackMeaning {
        let rules = self.job.as_ref();
        match rules.and_then(|rules| Some((rules, rules.poll.as_ref()?))) {
            None => CallbackMeaning::Malformed,
            Some((rules, poll)) => self.meaning(&poll.says, &unfolded(rules, body)),
        }
    }

    /// The URLs of files that are to be copied, each once, in the order in which the body names them.
    pub fn files_named(&self, body: &str) -> Vec<String> {
        let Some((rules, files)) = self.file_rules() else {
            return Vec::new();
        };
        let Some(value) = select::parse(&unfolded(rules, body)) else {
            return Vec::new();
        };
        let mut named: Vec<String> = Vec::new();
        for url in files.urls.query(&value) {
            let Value::String(url) = url else {
                continue;
            };
            if named.len() < files.files_max && !named.contains(url) {
                named.push(url.clone());
            }
        }
        named
    }

    /// The body with other links in place of those of its files.
    pub fn with_links(&self, body: &str, links: &[(String, String)]) -> String {
        let linked = || {
            let (rules, _) = self.file_rules()?;
            let body = unfolded(rules, body);
            let mut tree = JsonTree::read(&Json::parse(&body).ok()?)?;
            put_links(&mut tree, links);
            Some(tree.write(MemberOrder::AsItIs))
        };
        linked().unwrap_or_else(|| body.to_owned())
    }

    fn file_rules(&self) -> Option<(&JobRules, &FileRules)> {
        let rules = self.job.as_ref()?;
        Some((rules, rules.files.as_ref()?))
    }

    /// Whether a file may be of this media type, in lower case.
    pub fn takes_file(&self, content_type: &str) -> bool {
        self.file_rules()
            .is_some_and(|(_, files)| matches_any(&files.content_types, content_type))
    }

    fn meaning(&self, says: &JobMapping, body: &str) -> CallbackMeaning {
        let Some(status) = &says.status else {
            return self.completed_by(says, body);
        };
        let Some(value) = select::parse(body) else {
            return CallbackMeaning::Malformed;
        };
        match node(&status.path, &value) {
            None => CallbackMeaning::Malformed,
            Some(word) if status.completed.contains(word) => self.completed_by(says, body),
            Some(word) if status.failed.contains(word) => {
                CallbackMeaning::Ended(failed(says, &value))
            }
            Some(_) => CallbackMeaning::Progress,
        }
    }

    fn completed_by(&self, says: &JobMapping, body: &str) -> CallbackMeaning {
        let shown_max = self.policy.shown_bytes_max;
        let selected = match &says.result {
            None => None,
            Some(result) => match select::apply(result, body, shown_max) {
                Some(selected) => Some(selected),
                None => return CallbackMeaning::Malformed,
            },
        };
        let output = ToolOutput::Text {
            text: body.to_owned(),
            cut: false,
            selected,
        };
        CallbackMeaning::Ended(output.end(shown_max, self.response.kept_bytes_max))
    }

    /// What an answer says of the job that it should have started. For a tool without jobs it has started none.
    pub fn job_answer(&self, answer: &str) -> JobAnswer {
        let Some(rules) = &self.job else {
            return JobAnswer::Refused(None);
        };
        if rules.start.is_none() && rules.external_id.is_empty() {
            return JobAnswer::Started { external_id: None };
        }
        // Whoever says what an answer means is told of a job by no other one.
        let unreadable = || match rules.start {
            Some(_) => JobAnswer::Unknown(None),
            None => JobAnswer::Refused(None),
        };
        let Some(answer) = select::parse(answer) else {
            return unreadable();
        };
        if let Some(start) = &rules.start
            && let Some(not_started) = not_started(start, &answer)
        {
            return not_started;
        }
        match (&*rules.external_id, id_at(&rules.external_id, &answer)) {
            ([], _) => JobAnswer::Started { external_id: None },
            (_, Some(id)) => JobAnswer::Started {
                external_id: Some(id),
            },
            // It was accepted, and nobody knows as what.
            (_, None) => unreadable(),
        }
    }
}

fn not_started(start: &JobStart, answer: &Value) -> Option<JobAnswer> {
    let word = node(&start.path, answer);
    let is_one_of = |words: &[Value]| word.is_some_and(|word| words.contains(word));
    if is_one_of(&start.accepted) {
        return None;
    }
    let said = said(start.error.as_ref(), answer);
    Some(if is_one_of(&start.again) {
        JobAnswer::NotNow(said)
    } else if is_one_of(&start.unknown) {
        JobAnswer::Unknown(said)
    } else {
        JobAnswer::Refused(said)
    })
}

/// The first id that stands in one of these places.
fn id_at(paths: &[JsonPath], value: &Value) -> Option<String> {
    let id = |path: &JsonPath| match node(path, value) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    let is_fit = |id: &String| {
        !id.is_empty() && id.len() <= EXTERNAL_ID_BYTES_MAX && !id.contains(char::is_control)
    };
    paths.iter().filter_map(id).find(is_fit)
}

/// The body with JSON in place of the texts that hold some; what holds none stays as it is.
fn unfolded<'a>(rules: &JobRules, body: &'a str) -> Cow<'a, str> {
    if rules.json_in.is_empty() {
        return Cow::Borrowed(body);
    }
    let read = || {
        let value = select::parse(body)?;
        let mut tree = JsonTree::read(&Json::parse(body).ok()?)?;
        for path in &rules.json_in {
            unfold(path, &value, &mut tree);
        }
        Some(tree.write(MemberOrder::AsItIs))
    };
    read().map_or(Cow::Borrowed(body), Cow::Owned)
}

fn unfold(path: &JsonPath, value: &Value, tree: &mut JsonTree) {
    let found = path.query_located(value);
    let Some(found) = found.iter().next() else {
        return;
    };
    let mut place = tree;
    for element in found.location().iter() {
        let inner = match (element, place) {
            (PathElement::Name(name), JsonTree::Object(members)) => members
                .iter_mut()
                .find_map(|(member, value)| (member == name).then_some(value)),
            (PathElement::Index(index), JsonTree::Array(items)) => items.get_mut(*index),
            (PathElement::Name(_) | PathElement::Index(_), _) => None,
        };
        match inner {
            Some(inner) => place = inner,
            None => return,
        }
    }
    let JsonTree::Text(text) = place else {
        return;
    };
    // Within the same bounds as the body itself.
    let held = select::parse(text).and_then(|_| JsonTree::read(&Json::parse(text).ok()?));
    if let Some(held) = held {
        *place = held;
    }
}

fn put_links(tree: &mut JsonTree, links: &[(String, String)]) {
    match tree {
        JsonTree::Scalar(_) => {}
        JsonTree::Text(text) => {
            let link = links.iter().find(|(url, _)| url == text);
            if let Some((_, link)) = link {
                link.clone_into(text);
            }
        }
        JsonTree::Array(items) => items.iter_mut().for_each(|item| put_links(item, links)),
        JsonTree::Object(members) => members
            .iter_mut()
            .for_each(|(_, value)| put_links(value, links)),
    }
}

fn failed(says: &JobMapping, body: &Value) -> CallEnd {
    let shown = match said(says.error.as_ref(), body) {
        None => "The job failed.".to_owned(),
        Some(said) => format!("The job failed: {said}"),
    };
    CallEnd {
        reason: Some(CallReason::ToolError),
        result: None,
        shown,
        is_error: true,
        cached: false,
    }
}

/// The words about what went wrong, if there are any.
fn said(path: Option<&JsonPath>, body: &Value) -> Option<String> {
    let said = match node(path?, body)? {
        Value::Null => return None,
        Value::String(text) => text.replace('\0', "\u{fffd}"),
        value => value.to_string(),
    };
    let said = beginning(&said, ERROR_BYTES_MAX);
    (!said.is_empty()).then(|| said.to_owned())
}

/// The first node that a path finds.
fn node<'a>(path: &JsonPath, value: &'a Value) -> Option<&'a Value> {
    path.query(value).first()
}
