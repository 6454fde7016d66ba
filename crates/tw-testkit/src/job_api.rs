//! A stand-in of an API for image jobs: a job is created, asked about, and calls back, as kie.ai's job API does.
//!
//! It follows that API's pages as of 2026-09: application errors come as HTTP 200 with another `code` in the body,
//! `resultJson` and `param` are JSON in a string, callbacks are signed without their body, may come twice or never,
//! and results are there for a while only.

mod callbacks;
mod png;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::listener::{Listener, ListenerReply, ReceivedRequest, ReplyPiece};

pub use callbacks::JobCallback;

/// The paths of the API.
pub const CREATE: &str = "/api/v1/jobs/createTask";
pub const RECORD: &str = "/api/v1/jobs/recordInfo";
const FILES: &str = "/files/";
/// Longest prompt, in characters.
const PROMPT_CHARS_MAX: usize = 5_000;
/// New tasks of an account in [`WINDOW`].
const NEW_TASKS_MAX: usize = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// The state of a job, by the API's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Waiting,
    Queuing,
    Generating,
    Success,
    Fail,
}

impl JobState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Queuing => "queuing",
            Self::Generating => "generating",
            Self::Success => "success",
            Self::Fail => "fail",
        }
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug)]
pub struct JobApiOptions {
    /// The key that every request must bring.
    pub key: String,
    /// Key by which callbacks are signed.
    pub hmac_key: Option<String>,
    /// Time after which a job succeeds by itself and calls back; `None` for jobs whose test moves them.
    pub takes: Option<Duration>,
    /// Images of a result.
    pub images: usize,
}

/// A fault of the next answers of one kind, in turn.
#[derive(Clone, Debug)]
pub enum JobFault {
    /// HTTP 200 with this `code` and message in the body.
    Code(i64, &'static str),
    /// Another answer altogether.
    Reply(ListenerReply),
    /// The job is created, and the answer is this one.
    CreatedAnd(ListenerReply),
}

/// The stand-in; it ends when it is dropped.
#[derive(Clone)]
pub struct JobApi {
    pub listener: Listener,
    state: Arc<Mutex<JobApiState>>,
}

struct JobApiState {
    options: JobApiOptions,
    base: String,
    jobs: HashMap<String, Job>,
    /// Ids in the order of their creation.
    created: Vec<String>,
    creations: VecDeque<Instant>,
    create_faults: VecDeque<JobFault>,
    record_faults: VecDeque<JobFault>,
    file_faults: VecDeque<ListenerReply>,
}

#[derive(Clone, Debug)]
struct Job {
    id: String,
    request: Value,
    state: JobState,
    fail: Option<(String, String)>,
    /// In place of the usual one.
    result: Option<String>,
    created_ms: u64,
    completed_ms: Option<u64>,
}

impl JobApi {
    /// # Errors
    /// When no port is free.
    pub async fn start(options: JobApiOptions) -> std::io::Result<Self> {
        let state = Arc::new(Mutex::new(JobApiState {
            options,
            base: String::new(),
            jobs: HashMap::new(),
            created: Vec::new(),
            creations: VecDeque::new(),
            create_faults: VecDeque::new(),
            record_faults: VecDeque::new(),
            file_faults: VecDeque::new(),
        }));
        let answering = Arc::clone(&state);
        let listener = Listener::start(move |request| answer(&answering, request)).await?;
        let api = Self { listener, state };
        api.lock().base = api.listener.url("");
        Ok(api)
    }

    /// The ids of the jobs, in the order of their creation.
    pub fn created(&self) -> Vec<String> {
        self.lock().created.clone()
    }

    /// The request that created a job.
    pub fn request(&self, job: &str) -> Value {
        self.lock()
            .jobs
            .get(job)
            .map_or(Value::Null, |job| job.request.clone())
    }

    pub fn set(&self, job: &str, state: JobState) {
        self.change(job, |job| {
            job.state = state;
            job.completed_ms = match state {
                JobState::Success | JobState::Fail => Some(now_ms()),
                JobState::Waiting | JobState::Queuing | JobState::Generating => None,
            };
        });
    }

    pub fn fail(&self, job: &str, code: &str, message: &str) {
        self.set(job, JobState::Fail);
        self.change(job, |job| {
            job.fail = Some((code.to_owned(), message.to_owned()));
        });
    }

    /// A job succeeds with this text as its `resultJson`.
    pub fn succeed_with(&self, job: &str, result: &str) {
        self.set(job, JobState::Success);
        self.change(job, |job| job.result = Some(result.to_owned()));
    }

    /// The callback of a job as it is now; `None` for a job that asked for none.
    pub fn callback(&self, job: &str) -> Option<JobCallback> {
        callbacks::of(&self.lock(), job, now_ms() / 1000)
    }

    /// The same, signed at this second.
    pub fn callback_at(&self, job: &str, second: u64) -> Option<JobCallback> {
        callbacks::of(&self.lock(), job, second)
    }

    /// Faults of the next answers to [`CREATE`].
    pub fn fault_create(&self, fault: JobFault) {
        self.lock().create_faults.push_back(fault);
    }

    /// Faults of the next answers to [`RECORD`].
    pub fn fault_record(&self, fault: JobFault) {
        self.lock().record_faults.push_back(fault);
    }

    /// The next downloads get these answers.
    pub fn fault_file(&self, reply: ListenerReply) {
        self.lock().file_faults.push_back(reply);
    }

    /// The bytes of a job's image.
    pub fn image(&self, job: &str, n: usize) -> Vec<u8> {
        png::picture(&format!("{job}-{n}"))
    }

    fn change(&self, job: &str, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.lock().jobs.get_mut(job) {
            change(job);
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobApiState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<JobApiState>) -> MutexGuard<'_, JobApiState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

fn answer(state: &Arc<Mutex<JobApiState>>, request: &ReceivedRequest) -> ListenerReply {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((&request.target, ""));
    let mut locked = lock(state);
    if let Some(file) = path.strip_prefix(FILES) {
        return locked.file(file);
    }
    if request.header("authorization") != format!("Bearer {}", locked.options.key) {
        return said(401, "You do not have access permissions", Value::Null);
    }
    match (request.method.as_str(), path) {
        ("POST", CREATE) => {
            let (created, reply) = locked.create(&request.json());
            let takes = locked.options.takes;
            drop(locked);
            if let (Some(job), Some(takes)) = (created, takes) {
                let state = Arc::clone(state);
                tokio::spawn(async move { finish(&state, &job, takes).await });
            }
            reply
        }
        ("GET", RECORD) => locked.record(query),
        _ => ListenerReply::status(404, r#"{"code":404,"msg":"Not Found"}"#),
    }
}

/// A job that ends by itself, and calls back once.
async fn finish(state: &Arc<Mutex<JobApiState>>, job: &str, takes: Duration) {
    tokio::time::sleep(takes).await;
    let callback = {
        let mut locked = lock(state);
        let Some(found) = locked.jobs.get_mut(job) else {
            return;
        };
        found.state = JobState::Success;
        found.completed_ms = Some(now_ms());
        callbacks::of(&locked, job, now_ms() / 1000)
    };
    if let Some(callback) = callback {
        // What does not arrive is found by asking.
        let _ = callback.send().await;
    }
}

fn said(code: i64, message: &str, data: Value) -> ListenerReply {
    ListenerReply::json(json!({ "code": code, "msg": message, "data": data }).to_string())
}

impl JobApiState {
    /// The id of the job, if there is one, and the answer.
    fn create(&mut self, request: &Value) -> (Option<String>, ListenerReply) {
        let fault = self.create_faults.pop_front();
        let instead = match fault {
            Some(JobFault::Code(code, message)) => return (None, said(code, message, Value::Null)),
            Some(JobFault::Reply(reply)) => return (None, reply),
            Some(JobFault::CreatedAnd(reply)) => Some(reply),
            None => None,
        };
        let prompt = request["input"]["prompt"].as_str().unwrap_or_default();
        let length = prompt.chars().count();
        if request["model"].as_str().is_none() || length == 0 || length > PROMPT_CHARS_MAX {
            let message = "The model and a prompt of up to 5000 characters are required";
            return (None, said(422, message, Value::Null));
        }
        let now = Instant::now();
        while self
            .creations
            .front()
            .is_some_and(|at| now.duration_since(*at) > WINDOW)
        {
            self.creations.pop_front();
        }
        if self.creations.len() >= NEW_TASKS_MAX {
            let message = "Your call frequency is too high. Please try again later.";
            return (None, said(429, message, Value::Null));
        }
        self.creations.push_back(now);
        let id = format!("task_{}", 12_345_678 + self.created.len());
        let job = Job {
            id: id.clone(),
            request: request.clone(),
            state: JobState::Waiting,
            fail: None,
            result: None,
            created_ms: now_ms(),
            completed_ms: None,
        };
        self.jobs.insert(id.clone(), job);
        self.created.push(id.clone());
        let reply = instead.unwrap_or_else(|| said(200, "success", json!({ "taskId": id })));
        (Some(id), reply)
    }

    fn record(&mut self, query: &str) -> ListenerReply {
        match self.record_faults.pop_front() {
            Some(JobFault::Code(code, message)) => return said(code, message, Value::Null),
            Some(JobFault::Reply(reply) | JobFault::CreatedAnd(reply)) => return reply,
            None => {}
        }
        let id = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("taskId="));
        match id.and_then(|id| self.jobs.get(id)) {
            Some(job) => said(200, "success", self.data_of(job)),
            None => said(404, "The task does not exist", Value::Null),
        }
    }

    fn data_of(&self, job: &Job) -> Value {
        let (fail_code, fail_message) = job.fail.clone().unwrap_or_default();
        let result = match (&job.result, job.state) {
            (Some(result), _) => result.clone(),
            (None, JobState::Success) => {
                let urls = (0..self.options.images)
                    .map(|n| format!("{}{FILES}{}-{n}.png", self.base, job.id));
                json!({ "resultUrls": urls.collect::<Vec<_>>() }).to_string()
            }
            (None, _) => String::new(),
        };
        json!({
            "taskId": job.id,
            "model": job.request["model"],
            "state": job.state.as_str(),
            "param": job.request.to_string(),
            "resultJson": result,
            "failCode": fail_code,
            "failMsg": fail_message,
            "costTime": job.completed_ms.map(|at| at.saturating_sub(job.created_ms) / 1000),
            "completeTime": job.completed_ms,
            "createTime": job.created_ms,
            "updateTime": job.completed_ms.unwrap_or(job.created_ms),
        })
    }

    fn file(&mut self, name: &str) -> ListenerReply {
        if let Some(reply) = self.file_faults.pop_front() {
            return reply;
        }
        let found = name
            .strip_suffix(".png")
            .and_then(|name| name.rsplit_once('-'))
            .and_then(|(job, n)| Some((self.jobs.get(job)?, n.parse::<usize>().ok()?)));
        match found {
            Some((job, n)) if n < self.options.images => {
                let picture = png::picture(&format!("{}-{n}", job.id));
                let bytes = ReplyPiece::Bytes(Bytes::from(picture));
                ListenerReply::pieces("image/png", vec![bytes])
            }
            Some(_) | None => ListenerReply::status(404, "no such file"),
        }
    }
}
