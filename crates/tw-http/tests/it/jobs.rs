//! Jobs of tools: created, asked about, called back about, and confirmed.

use serde_json::{Value, json};
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::job_api::{CREATE, JobApi, JobApiOptions, JobFault, JobState, RECORD};
use tw_testkit::listener::{ListenerReply, ReplyPiece};
use tw_testkit::polling::poll_until;

use crate::app::{AppOptions, CHAT, ask};
use crate::tools::lab::{Ran, ToolLab, create, grant, made, reaching};

const START: Timestamp = Timestamp(1_800_000_000_000_000);
const NOW_S: u64 = 1_800_000_000;
const BASE: &str = "https://ai.example";
const KEY: &str = "kie_key";
const HMAC_KEY: &str = "kie_test_key";
const GATE: &str = "the service answers";

/// A server with a tool `draw` whose jobs the stand-in takes; the clock stands until it is moved.
pub struct JobLab {
    pub lab: ToolLab,
    pub api: JobApi,
    pub env: Env,
    pub caller: TestClient,
}

/// The members of `completion` for the job API, with these over them.
fn completion(api: &JobApi, members: Value) -> Value {
    let mut completion = json!({
        "completes": "webhook", "waits": false, "deadline_s": 900,
        "external_id": ["$.data.taskId", "$.data.task_id"],
        "start": {
            "status": "$.code", "accepted": [200], "again": [429, 433, 455], "unknown": [500],
            "error": "$.msg",
        },
        "json_in": ["$.data.resultJson", "$.data.param"],
        "callback": {
            "external_id": ["$.data.taskId", "$.data.task_id"],
            "verification": {
                "type": "hmac", "secrets": ["HMAC_KEY"], "header": "x-webhook-signature",
                "encoding": "base64",
                "signed": [
                    { "body": "$.data.taskId" }, { "text": "." },
                    { "header": "x-webhook-timestamp" },
                ],
                "timestamp": { "header": "x-webhook-timestamp" },
            },
            "status": "$.data.state", "completed": ["success"], "failed": ["fail"],
        },
        "poll": poll(api, json!({ "confirms": true })),
    });
    let members = members.as_object().unwrap().clone();
    completion.as_object_mut().unwrap().extend(members);
    completion
}

fn poll(api: &JobApi, members: Value) -> Value {
    let mut poll = json!({
        "url": api.listener.url(RECORD),
        "headers": { "authorization": { "secret": "KEY", "prefix": "Bearer " } },
        "query": { "taskId": "{{external_id}}" },
        "every_s": [30, 60],
        "status": "$.data.state", "completed": ["success"], "failed": ["fail"],
        "result": "$.data.resultJson.resultUrls", "error": "$.data.failMsg",
    });
    let members = members.as_object().unwrap().clone();
    poll.as_object_mut().unwrap().extend(members);
    poll
}

fn tool(completion: Value) -> Value {
    json!({
        "method": "POST",
        "headers": { "authorization": { "secret": "KEY", "prefix": "Bearer " } },
        "body": { "model": "google/nano-banana", "callBackUrl": "{{callback_url}}" },
        "parameters": {
            "input": { "mode": "fixed", "value": { "prompt": "a cat" } },
        },
        "completion": completion,
    })
}

/// A tool of which nobody tells anything: it is asked.
pub fn polled(api: &JobApi, members: Value) -> Value {
    let mut completion = completion(
        api,
        json!({ "completes": "poll", "poll": poll(api, json!({})) }),
    );
    completion.as_object_mut().unwrap().remove("callback");
    let members = members.as_object().unwrap().clone();
    completion.as_object_mut().unwrap().extend(members);
    let mut tool = tool(completion);
    tool["body"] = json!({ "model": "google/nano-banana" });
    tool
}

async fn job_api() -> JobApi {
    let options = JobApiOptions {
        key: KEY.to_owned(),
        hmac_key: Some(HMAC_KEY.to_owned()),
        takes: None,
        images: 2,
    };
    JobApi::start(options).await.unwrap()
}

impl JobLab {
    pub async fn start(tool: impl FnOnce(&JobApi) -> Value) -> Self {
        Self::with(job_api().await, tool).await
    }

    async fn with(api: JobApi, tool: impl FnOnce(&JobApi) -> Value) -> Self {
        Self::keeping(api, u64::MAX, tool).await
    }

    /// With so much room for files.
    async fn keeping(
        api: JobApi,
        files_bytes_max: u64,
        tool: impl FnOnce(&JobApi) -> Value,
    ) -> Self {
        let env = Env::seeded(1, START);
        let service = api.listener.clone();
        let address = service.url("").replace("http://", "");
        let secrets = vec![
            grant("HMAC_KEY", HMAC_KEY, &["default"], &["none.example"]),
            grant("KEY", KEY, &["default"], &[address.as_str()]),
        ];
        let wanted = reaching(&[&service], secrets);
        let of_tools = wanted.config;
        let wanted = AppOptions {
            env: env.clone(),
            config: Box::new(move |config| {
                of_tools(config);
                config.callback_base = Some(BASE.to_owned());
                config.files.organization_bytes_max = files_bytes_max;
            }),
            ..wanted
        };
        let lab = ToolLab::start(service, wanted).await;
        lab.make("draw", CREATE, tool(&api)).await;
        let caller = lab.app.with_key(None);
        Self {
            lab,
            api,
            env,
            caller,
        }
    }

    /// A turn with one job, and the job's id.
    pub async fn run(&self) -> (Ran, String) {
        let ran = self.lab.run("draw").await;
        let job = self.api.created().last().unwrap().clone();
        (ran, job)
    }

    pub fn later(&self, seconds: i64) {
        self.env
            .move_clock(Timestamp(START.0 + seconds * 1_000_000));
    }

    /// Sends the callback of a job as it is now.
    pub async fn call_back(&self, job: &str) -> ReadAnswer {
        let callback = self.api.callback_at(job, NOW_S).unwrap();
        let path = callback.url.strip_prefix(BASE).unwrap().to_owned();
        callback.send_by(&self.caller, &path).await.unwrap()
    }

    fn polls(&self) -> usize {
        let asked = self.lab.service.asked();
        let polls = asked
            .iter()
            .filter(|asked| asked.target.starts_with(RECORD));
        polls.count()
    }

    pub async fn polled_times(&self, times: usize) {
        let service = &self.lab.service;
        loop {
            let asked = service.asked().len();
            if self.polls() >= times {
                return;
            }
            service.asked_times(asked + 1).await;
        }
    }

    /// The only call of a turn, as its record has it.
    pub async fn call(&self, turn: &str) -> Value {
        let path = format!("/v1/turns/{turn}?full=1");
        let got = self.lab.app.client.send("GET", &path, &[], "").await;
        got.unwrap().json()["rounds"][0]["calls"][0].clone()
    }

    pub async fn ended(&self, ran: &Ran) -> Value {
        let turn = ran.turn["id"].as_str().unwrap().to_owned();
        poll_until("the end of a call", async || {
            let call = self.call(&turn).await;
            (call["status"] != "processing").then_some(call)
        })
        .await
    }
}

#[tokio::test]
async fn a_callback_is_confirmed_before_its_call_ends() {
    let lab = JobLab::start(|api| tool(completion(api, json!({})))).await;
    let (ran, job) = lab.run().await;
    assert_eq!(ran.call()["external_id"], job);
    lab.api.set(&job, JobState::Success);
    let got = lab.call_back(&job).await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(got.json()["outcome"], "kept");
    let call = lab.ended(&ran).await;
    assert_eq!(call["status"], "completed", "{call}");
    let shown: Value = serde_json::from_str(call["shown"].as_str().unwrap()).unwrap();
    assert_eq!(shown.as_array().map(Vec::len), Some(2), "{call}");
    let token = lab.api.request(&job)["callBackUrl"]
        .as_str()
        .unwrap()
        .to_owned();
    let token = token.rsplit('/').next().unwrap();
    assert!(
        !call.to_string().contains(token),
        "the API repeats the URL: {call}"
    );
    assert_eq!(lab.polls(), 1);
    let again = lab.call_back(&job).await;
    assert_eq!(again.json()["outcome"], "duplicate", "{}", again.text());
}

/// Whoever has seen a signature may write any body; the record of the API decides.
#[tokio::test]
async fn what_a_callback_says_is_not_believed() {
    let lab = JobLab::start(|api| tool(completion(api, json!({})))).await;
    let (ran, job) = lab.run().await;
    lab.api.set(&job, JobState::Success);
    let early = lab.api.callback_at(&job, NOW_S).unwrap();
    lab.api.set(&job, JobState::Generating);
    let path = early.url.strip_prefix(BASE).unwrap().to_owned();
    let got = early.send_by(&lab.caller, &path).await.unwrap();
    assert_eq!(got.json()["outcome"], "kept");
    lab.polled_times(1).await;
    let turn = ran.turn["id"].as_str().unwrap();
    assert_eq!(lab.call(turn).await["status"], "processing");
    // Asked again five seconds later, not after the tool's own wait.
    lab.api.fail(&job, "500", "Internal server error");
    lab.later(5);
    let call = lab.ended(&ran).await;
    assert_eq!(call["reason"], "tool_error", "{call}");
    assert_eq!(call["shown"], "The job failed: Internal server error");
}

#[tokio::test]
async fn a_callback_of_another_job_or_a_wrong_signature_changes_nothing() {
    let lab = JobLab::start(|api| tool(completion(api, json!({})))).await;
    let (_, job) = lab.run().await;
    let (ran, other) = lab.run().await;
    lab.api.set(&job, JobState::Success);
    let of_job = lab.api.callback_at(&job, NOW_S).unwrap();
    let place = lab.api.callback_at(&other, NOW_S).unwrap().url;
    let path = place.strip_prefix(BASE).unwrap();
    let got = of_job.send_by(&lab.caller, path).await.unwrap();
    assert_eq!(got.status, 400, "{}", got.text());
    for (second, status) in [(NOW_S - 301, 401), (NOW_S + 301, 401)] {
        let old = lab.api.callback_at(&other, second).unwrap();
        let got = old.send_by(&lab.caller, path).await.unwrap();
        assert_eq!(got.status, status, "{second}: {}", got.text());
    }
    let mut forged = lab.api.callback_at(&other, NOW_S).unwrap();
    forged.headers[1].1 = "AAAA".to_owned();
    let got = forged.send_by(&lab.caller, path).await.unwrap();
    assert_eq!(got.status, 401);
    let call = lab.call(ran.turn["id"].as_str().unwrap()).await;
    assert_eq!(call["status"], "processing", "{call}");
}

/// Each row is the time that passes, and the polls until then.
#[tokio::test]
async fn a_job_that_nobody_calls_back_about_is_asked_about() {
    for with_callbacks in [true, false] {
        let lab = JobLab::start(|api| {
            if with_callbacks {
                tool(completion(api, json!({})))
            } else {
                polled(api, json!({}))
            }
        })
        .await;
        let (ran, job) = lab.run().await;
        for (later_s, polls) in [(30, 1), (90, 2), (150, 3)] {
            lab.later(later_s);
            lab.polled_times(polls).await;
            assert_eq!(lab.polls(), polls, "{later_s}");
            // Until it is settled the next wait has not begun.
            lab.settled(later_s).await;
        }
        lab.api.set(&job, JobState::Success);
        lab.later(210);
        let call = lab.ended(&ran).await;
        assert_eq!(call["status"], "completed", "{call}");
    }
}

#[tokio::test]
async fn polls_that_say_nothing_go_on_until_the_deadline() {
    let lab = JobLab::start(|api| polled(api, json!({ "deadline_s": 100 }))).await;
    lab.api
        .fault_record(JobFault::Code(404, "The task does not exist"));
    lab.api
        .fault_record(JobFault::Reply(ListenerReply::status(502, "<html>")));
    let (ran, job) = lab.run().await;
    for (later_s, polls) in [(30, 1), (90, 2)] {
        lab.later(later_s);
        lab.polled_times(polls).await;
        lab.settled(later_s).await;
    }
    // The last one is at the deadline itself.
    lab.later(100);
    let call = lab.ended(&ran).await;
    assert_eq!(call["reason"], "deadline", "{call}");
    assert_eq!(lab.polls(), 3);
    lab.api.set(&job, JobState::Success);
}

#[tokio::test]
async fn a_job_that_ends_at_its_deadline_has_ended() {
    let lab = JobLab::start(|api| polled(api, json!({ "deadline_s": 20 }))).await;
    let (ran, job) = lab.run().await;
    lab.api.set(&job, JobState::Success);
    lab.later(21);
    let call = lab.ended(&ran).await;
    assert_eq!(call["status"], "completed", "{call}");
}

/// Each row is an answer to the request, and how its call ends or goes on.
#[tokio::test]
async fn errors_inside_an_answer_count() {
    const NO_CREDITS: JobFault = JobFault::Code(402, "The credits are insufficient");
    let busy = || JobFault::Code(429, "Your call frequency is too high");
    for (faults, polls, expected, said) in [
        (
            vec![NO_CREDITS],
            true,
            "failed tool_error",
            "The credits are insufficient",
        ),
        (vec![busy()], true, "processing awaiting_callback", ""),
        (
            vec![busy(), busy(), busy()],
            true,
            "failed tool_error",
            "frequency is too high",
        ),
        (
            vec![JobFault::Code(500, "Server error")],
            true,
            "failed outcome_unknown",
            "",
        ),
        (
            vec![JobFault::Code(500, "Server error")],
            false,
            "processing awaiting_callback",
            "",
        ),
        (
            vec![JobFault::Reply(ListenerReply::json("<html>"))],
            true,
            "failed outcome_unknown",
            "",
        ),
        (
            vec![JobFault::Reply(ListenerReply::hang_up())],
            true,
            "failed outcome_unknown",
            "",
        ),
    ] {
        let lab = JobLab::start(|api| {
            if polls {
                polled(api, json!({}))
            } else {
                tool(completion(api, json!({})))
            }
        })
        .await;
        for fault in faults {
            lab.api.fault_create(fault);
        }
        let ran = lab.lab.run("draw").await;
        assert_eq!(ran.ended(), expected, "{}", ran.call());
        let shown = ran.call()["shown"].as_str().unwrap_or_default();
        assert!(shown.contains(said), "{shown}");
    }
}

/// The answer is lost, so nobody knows the job's id until a callback says it.
#[tokio::test]
async fn a_callback_tells_the_id_of_a_job_whose_answer_was_lost() {
    let lab = JobLab::start(|api| tool(completion(api, json!({})))).await;
    lab.api
        .fault_create(JobFault::CreatedAnd(ListenerReply::hang_up()));
    let (ran, job) = lab.run().await;
    assert_eq!(ran.call()["external_id"], Value::Null);
    lab.api.set(&job, JobState::Success);
    assert_eq!(lab.call_back(&job).await.json()["outcome"], "kept");
    let call = lab.ended(&ran).await;
    assert_eq!(call["status"], "completed", "{call}");
    assert_eq!(call["external_id"], job);
}

/// The callback arrives before our own request has told the id.
#[tokio::test]
async fn a_callback_that_outruns_the_answer_is_confirmed_all_the_same() {
    let api = job_api().await;
    let id = json!({ "code": 200, "data": { "taskId": "task_12345678" } }).to_string();
    let held = vec![ReplyPiece::HeadGate(GATE), ReplyPiece::Bytes(id.into())];
    let held = ListenerReply::pieces("application/json", held);
    api.fault_create(JobFault::CreatedAnd(held));
    let lab = JobLab::with(api, |api| tool(completion(api, json!({ "waits": true })))).await;
    let request = ask("draw").to_string();
    let (got, ()) = tokio::join!(lab.lab.app.client.send("POST", CHAT, &[], request), async {
        lab.lab.service.asked_times(1).await;
        let job = lab.api.created().remove(0);
        lab.api.set(&job, JobState::Success);
        assert_eq!(lab.call_back(&job).await.json()["outcome"], "kept");
        lab.polled_times(1).await;
        lab.lab.service.open(GATE);
    });
    let ran = lab.lab.ran(&lab.lab.app.client, got.unwrap()).await;
    assert_eq!(ran.ended(), "completed");
}

#[tokio::test]
async fn a_turn_waits_for_a_job_that_is_polled() {
    let lab = JobLab::start(|api| polled(api, json!({ "waits": true }))).await;
    let request = ask("draw").to_string();
    let (got, ()) = tokio::join!(lab.lab.app.client.send("POST", CHAT, &[], request), async {
        lab.lab.service.asked_times(1).await;
        let job = lab.api.created().remove(0);
        lab.api.set(&job, JobState::Success);
        // It is due once the answer is on disk.
        lab.job_is_there().await;
        lab.later(31);
    });
    let ran = lab.lab.ran(&lab.lab.app.client, got.unwrap()).await;
    assert_eq!(ran.ended(), "completed");
    assert_eq!(ran.call()["told"], Value::Null);
}

#[tokio::test]
async fn an_empty_result_and_one_that_is_no_json_are_as_they_are() {
    for (result, shown) in [
        ("{\"resultUrls\":[]}", "[]"),
        ("{\"resultUrls\":", "null"),
        ("", "null"),
    ] {
        let lab = JobLab::start(|api| {
            let result = json!({ "result": "$.data.resultJson.resultUrls" });
            polled(api, json!({ "poll": poll(api, result) }))
        })
        .await;
        let (ran, job) = lab.run().await;
        lab.api.succeed_with(&job, result);
        lab.later(31);
        let call = lab.ended(&ran).await;
        assert_eq!(call["status"], "completed", "{call}");
        let got: Value = serde_json::from_str(call["shown"].as_str().unwrap()).unwrap();
        assert_eq!(got.to_string(), shown, "{result}");
    }
}

/// The kind `image` is a preset: what is not written follows the job API.
#[tokio::test]
async fn an_image_is_a_job_of_its_api() {
    for calls_back in [true, false] {
        let lab = JobLab::start(|api| polled(api, json!({}))).await;
        let mut image = json!({
            "name": "generate_image", "type": "image", "api_url": lab.api.listener.url("/"),
            "key": { "secret": "KEY" }, "options": { "output_format": "png" }, "waits": false,
            "callbacks": calls_back,
        });
        if calls_back {
            image["callback_secrets"] = json!(["HMAC_KEY"]);
        }
        made(&lab.lab.editor, "default", &image).await;
        let call = r#"generate_image {"prompt":"A sunset","image_size":"1:1"}"#;
        let ran = lab.lab.run(call).await;
        let job = lab.api.created().remove(0);
        let request = lab.api.request(&job);
        assert_eq!(request["model"], "google/nano-banana");
        let input = json!({ "prompt": "A sunset", "image_size": "1:1", "output_format": "png" });
        assert_eq!(request["input"], input);
        lab.api.set(&job, JobState::Success);
        if calls_back {
            assert_eq!(lab.call_back(&job).await.json()["outcome"], "kept");
        } else {
            lab.later(31);
        }
        let call = lab.ended(&ran).await;
        assert_eq!(call["status"], "completed", "{call}");
        let shown: Value = serde_json::from_str(call["shown"].as_str().unwrap()).unwrap();
        assert_eq!(shown["images"].as_array().map(Vec::len), Some(2), "{call}");
    }
}

#[tokio::test]
async fn a_member_that_an_image_has_not_is_refused() {
    let lab = JobLab::start(|api| polled(api, json!({}))).await;
    let image = |members: Value| {
        let mut image = json!({ "name": "i", "type": "image", "key": { "secret": "KEY" } });
        let members = members.as_object().unwrap().clone();
        image.as_object_mut().unwrap().extend(members);
        image
    };
    for (members, param) in [
        (json!({ "url": "https://a.example/" }), "url"),
        (json!({ "key": "kie" }), "key"),
        (json!({ "options": [] }), "options"),
        (
            json!({ "callbacks": false, "callback_secrets": [] }),
            "callback_secrets",
        ),
        (json!({ "policy": { "effect": "twice" } }), "policy.effect"),
        (json!({ "deadline_s": 0 }), "completion.deadline_s"),
    ] {
        let got = create(&lab.lab.editor, "default", image(members).to_string()).await;
        assert_eq!(got.status, 400, "{param}: {}", got.text());
        assert_eq!(got.json()["error"]["param"], param, "{}", got.text());
    }
}

#[tokio::test]
async fn definitions_of_jobs_that_could_not_work_are_refused() {
    let lab = JobLab::start(|api| polled(api, json!({}))).await;
    let api = &lab.api;
    let with_poll = |members: Value| polled(api, json!({ "poll": poll(api, members) }));
    let unconfirmed = completion(api, json!({ "poll": poll(api, json!({})) }));
    let mut no_id = polled(api, json!({}));
    no_id["completion"]
        .as_object_mut()
        .unwrap()
        .remove("external_id");
    for (members, param) in [
        (
            with_poll(json!({ "every_s": [] })),
            "completion.poll.every_s",
        ),
        (
            with_poll(json!({ "every_s": [0] })),
            "completion.poll.every_s",
        ),
        (
            with_poll(json!({ "method": "PUT" })),
            "completion.poll.method",
        ),
        (
            with_poll(json!({ "body": { "a": 1 } })),
            "completion.poll.body",
        ),
        (
            with_poll(json!({ "query": { "id": "7" } })),
            "completion.poll",
        ),
        (
            with_poll(json!({ "query": { "id": "{{now}}" } })),
            "completion.poll.query.id",
        ),
        (
            with_poll(json!({ "confirms": true })),
            "completion.poll.confirms",
        ),
        (
            with_poll(json!({ "completed": [] })),
            "completion.poll.completed",
        ),
        (
            with_poll(json!({ "url": "http://10.0.0.1/" })),
            "completion.poll.url",
        ),
        (
            with_poll(json!({ "headers": { "x-key": { "secret": "OTHERS" } } })),
            "completion.poll.headers.x-key",
        ),
        (no_id, "completion.external_id"),
        (
            polled(api, json!({ "json_in": ["$.data[*]"] })),
            "completion.json_in[0]",
        ),
        (
            polled(
                api,
                json!({ "start": { "status": "$.code", "accepted": [200], "again": [200] } }),
            ),
            "completion.start.again",
        ),
        (tool(unconfirmed), "completion.callback.verification.signed"),
    ] {
        let definition = lab.lab.define("paint", CREATE, members);
        let got = create(&lab.lab.editor, "default", definition.to_string()).await;
        assert_eq!(got.status, 400, "{param}: {}", got.text());
        assert_eq!(got.json()["error"]["param"], param, "{}", got.text());
    }
}

impl JobLab {
    /// Waits until the poll that was made at this time is settled.
    pub async fn settled(&self, later_s: i64) {
        let now = Timestamp(START.0 + later_s * 1_000_000);
        let after = now.after(std::time::Duration::from_secs(0));
        poll_until("a settled poll", async || {
            let due = self.next_due().await?;
            // A claim lasts for two minutes, which no wait of the tool does.
            let waits = due.since(after).as_secs();
            (due > after && waits <= 60).then_some(())
        })
        .await;
    }

    async fn job_is_there(&self) {
        poll_until("a job", async || self.next_due().await).await;
    }

    async fn next_due(&self) -> Option<Timestamp> {
        let due = tw_store::system::jobs::due(&self.lab.app.store).await;
        due.unwrap().iter().map(|of| of.due).min()
    }
}

/// A tool whose pictures are copied.
fn copied(api: &JobApi, members: Value) -> Value {
    let mut files = json!({ "urls": "$.data.resultJson.resultUrls[*]" });
    let members = members.as_object().unwrap().clone();
    files.as_object_mut().unwrap().extend(members);
    polled(api, json!({ "files": files }))
}

#[tokio::test]
async fn files_are_copied_before_their_links_expire() {
    let lab = JobLab::start(|api| copied(api, json!({}))).await;
    let (ran, job) = lab.run().await;
    lab.api.set(&job, JobState::Success);
    lab.later(31);
    let call = lab.ended(&ran).await;
    assert_eq!(call["status"], "completed", "{call}");
    let shown: Vec<String> = serde_json::from_str(call["shown"].as_str().unwrap()).unwrap();
    assert_eq!(shown.len(), 2, "{call}");
    let files = call["files"].as_array().unwrap();
    for (n, (link, file)) in shown.iter().zip(files).enumerate() {
        let links = [link.as_str(), file["url"].as_str().unwrap()];
        for link in links {
            let path = link.strip_prefix(BASE).unwrap();
            let got = lab.caller.send("GET", path, &[], "").await.unwrap();
            assert_eq!(got.status, 200, "{}", got.text());
            assert_eq!(got.header("content-type"), "image/png");
            assert!(got.header("content-security-policy").contains("sandbox"));
            assert_eq!(got.body, lab.api.image(&job, n));
        }
        assert_eq!(file["bytes"], lab.api.image(&job, n).len());
        assert_eq!(file["fault"], Value::Null);
    }
    let link = shown[0].strip_prefix(BASE).unwrap();
    let other = shown[1].strip_prefix(BASE).unwrap();
    let signature = |link: &str| link.rsplit('=').next().unwrap().to_owned();
    let forged = link.replace(&signature(link), &signature(other));
    for (link, status, code) in [
        (forged.as_str(), 404, "file_not_found"),
        (link.split('?').next().unwrap(), 404, "file_not_found"),
        ("/files/%ff", 404, "file_not_found"),
    ] {
        let got = lab.caller.send("GET", link, &[], "").await.unwrap();
        assert_eq!(got.status, status, "{link}: {}", got.text());
        assert_eq!(got.json()["error"]["code"], code);
    }
    // A week later the model's link has expired, and the record gives a new one.
    lab.later(8 * 24 * 3600);
    let got = lab.caller.send("GET", link, &[], "").await.unwrap();
    assert_eq!(got.status, 410, "{}", got.text());
    assert_eq!(got.json()["error"]["code"], "link_expired");
    let call = lab.call(ran.turn["id"].as_str().unwrap()).await;
    let fresh = call["files"][0]["url"].as_str().unwrap();
    let path = fresh.strip_prefix(BASE).unwrap();
    let got = lab.caller.send("GET", path, &[], "").await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
}

/// Each row is what the file's place answers, and what the record says of it.
#[tokio::test]
async fn a_file_that_cannot_be_copied_stays_where_it_is() {
    let page = || ListenerReply::status(200, "gone").with_header("x-note", "no picture");
    let lying = ListenerReply::pieces("image/png", vec![ReplyPiece::Bytes("<html>".into())]);
    for (reply, members, fault) in [
        (Some(ListenerReply::status(404, "")), json!({}), "gone"),
        (Some(ListenerReply::status(403, "")), json!({}), "gone"),
        (Some(page()), json!({}), "wrong_type"),
        (Some(lying), json!({}), "wrong_type"),
        (None, json!({ "bytes_max": 10 }), "too_large"),
        (None, json!({ "content_types": ["video/*"] }), "wrong_type"),
    ] {
        let lab = JobLab::start(|api| copied(api, members)).await;
        let (ran, job) = lab.run().await;
        lab.api.set(&job, JobState::Success);
        if let Some(reply) = reply {
            lab.api.fault_file(reply.clone());
            lab.api.fault_file(reply);
        }
        lab.later(31);
        let call = lab.ended(&ran).await;
        assert_eq!(call["status"], "completed", "{call}");
        assert_eq!(call["files"][0]["fault"], fault, "{call}");
        assert_eq!(call["files"][0]["url"], Value::Null);
        let shown: Vec<String> = serde_json::from_str(call["shown"].as_str().unwrap()).unwrap();
        assert!(
            shown[0].starts_with(&lab.api.listener.url("/files/")),
            "{call}"
        );
    }
}

#[tokio::test]
async fn a_file_that_nobody_gives_at_the_moment_is_asked_for_again() {
    let lab = JobLab::start(|api| copied(api, json!({}))).await;
    let (ran, job) = lab.run().await;
    lab.api.set(&job, JobState::Success);
    lab.api.fault_file(ListenerReply::status(503, ""));
    lab.later(31);
    lab.polled_times(1).await;
    lab.settled(31).await;
    let call = lab.call(ran.turn["id"].as_str().unwrap()).await;
    assert_eq!(call["status"], "processing", "{call}");
    lab.later(100);
    let call = lab.ended(&ran).await;
    assert_eq!(call["files"][0]["fault"], Value::Null, "{call}");
}

/// Room for one of two pictures is none for both; what is beyond stays at its place.
#[tokio::test]
async fn an_organization_has_room_for_so_many_bytes_of_files() {
    let api = job_api().await;
    let size = api.image("task_12345678", 0).len() as u64;
    for (room, fault) in [(2 * size, json!(null)), (2 * size - 1, json!("no_room"))] {
        let lab = JobLab::keeping(job_api().await, room, |api| copied(api, json!({}))).await;
        let (ran, job) = lab.run().await;
        lab.api.set(&job, JobState::Success);
        lab.later(31);
        let call = lab.ended(&ran).await;
        assert_eq!(call["files"][0]["fault"], fault, "{call}");
        let shown: Vec<String> = serde_json::from_str(call["shown"].as_str().unwrap()).unwrap();
        let is_ours = shown[0].starts_with(BASE);
        assert_eq!(is_ours, fault.is_null(), "{call}");
    }
}

/// A callback that is believed is answered before the files are there.
#[tokio::test]
async fn files_of_a_callback_are_copied_after_it() {
    let lab = JobLab::start(|api| {
        let mut completion = completion(
            api,
            json!({
                "files": { "urls": "$.data.resultJson.resultUrls[*]" },
            }),
        );
        let callback = completion["callback"].as_object_mut().unwrap();
        callback.remove("verification");
        callback.insert("result".to_owned(), json!("$.data.resultJson.resultUrls"));
        completion.as_object_mut().unwrap().remove("poll");
        tool(completion)
    })
    .await;
    let (ran, job) = lab.run().await;
    lab.api.set(&job, JobState::Success);
    assert_eq!(lab.call_back(&job).await.json()["outcome"], "kept");
    let call = lab.ended(&ran).await;
    assert_eq!(call["files"].as_array().map(Vec::len), Some(2), "{call}");
    assert!(call["shown"].as_str().unwrap().contains(BASE), "{call}");
    assert_eq!(lab.polls(), 0);
}
