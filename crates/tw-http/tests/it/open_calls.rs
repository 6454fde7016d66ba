//! Calls that wait for somebody outside: the list of those that are stuck, and what an operator does with them.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::job_api::{JobFault, JobState};

use crate::jobs::{JobLab, polled};

struct Operator {
    lab: JobLab,
    admin: TestClient,
}

impl Operator {
    async fn start() -> Self {
        let lab = JobLab::start(|api| polled(api, json!({}))).await;
        let app = &lab.lab.app;
        let key = app
            .key("default", ToolGrant::None, vec![KeyScope::Admin])
            .await;
        let admin = app.with_key(Some(key));
        Self { lab, admin }
    }

    async fn list(&self, query: &str) -> Value {
        let path = format!("/api/default/open-calls{query}");
        let got = self.admin.send("GET", &path, &[], "").await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        got.json()["data"].clone()
    }

    async fn act(&self, call: &Value, deed: &str, body: Value) -> ReadAnswer {
        let call = call["id"].as_str().unwrap();
        let path = format!("/api/default/open-calls/{call}/{deed}");
        let sent = self.admin.send("POST", &path, &[], body.to_string());
        sent.await.unwrap()
    }
}

#[tokio::test]
async fn calls_that_are_stuck_are_listed_and_asked_about() {
    let operator = Operator::start().await;
    let lab = &operator.lab;
    for _ in 0..3 {
        lab.api
            .fault_record(JobFault::Code(404, "The task does not exist"));
    }
    let (ran, job) = lab.run().await;
    assert_eq!(operator.list("").await, json!([]));
    assert_eq!(
        operator.list("?which=all").await.as_array().map(Vec::len),
        Some(1)
    );
    for (later_s, polls) in [(30, 1), (90, 2), (150, 3)] {
        lab.later(later_s);
        lab.polled_times(polls).await;
        lab.settled(later_s).await;
    }
    let stuck = operator.list("").await;
    assert_eq!(stuck[0]["job"]["fault"], "malformed", "{stuck}");
    assert_eq!(stuck[0]["job"]["faults"], 3);
    assert_eq!(stuck[0]["overdue"], false);
    assert_eq!(stuck[0]["external_id"], job);
    lab.api.set(&job, JobState::Success);
    let got = operator.act(&stuck[0], "poll", json!({})).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let call = lab.ended(&ran).await;
    assert_eq!(call["status"], "completed", "{call}");
    assert_eq!(operator.list("?which=all").await, json!([]));
    let late = operator
        .act(&stuck[0], "fail", json!({ "error": "late" }))
        .await;
    assert_eq!(late.status, 404, "{}", late.text());
}

#[tokio::test]
async fn an_open_call_is_ended_by_hand() {
    for (deed, body, expected) in [
        (
            "fail",
            json!({ "error": "no credits" }),
            ["failed", "The job was ended by hand: no credits"],
        ),
        (
            "complete",
            json!({ "result": "a cat" }),
            ["completed", "a cat"],
        ),
    ] {
        let operator = Operator::start().await;
        let (ran, _) = operator.lab.run().await;
        let open = operator.list("?which=all").await;
        let got = operator.act(&open[0], deed, body).await;
        assert_eq!(got.status, 200, "{}", got.text());
        let call = operator.lab.call(ran.turn["id"].as_str().unwrap()).await;
        assert_eq!([&call["status"], &call["shown"]], expected, "{call}");
    }
}

#[tokio::test]
async fn deeds_that_make_no_sense_are_refused() {
    let operator = Operator::start().await;
    operator.lab.run().await;
    let open = operator.list("?which=all").await[0].clone();
    let nobody = json!({ "id": "0197a3b2-0000-7000-8000-000000000000" });
    for (call, deed, body, status) in [
        (&open, "fail", json!({}), 400),
        (&open, "fail", json!({ "error": "" }), 400),
        (&open, "fail", json!({ "error": "x".repeat(2_001) }), 400),
        (&open, "complete", json!({ "result": 7 }), 400),
        (&open, "complete", json!({ "result": "a", "more": 1 }), 400),
        (&nobody, "poll", json!({}), 404),
        (&json!({ "id": "x" }), "poll", json!({}), 404),
    ] {
        let got = operator.act(call, deed, body).await;
        assert_eq!(got.status, status, "{deed}: {}", got.text());
    }
    let got = operator
        .admin
        .send("GET", "/api/default/open-calls?which=new", &[], "")
        .await;
    assert_eq!(got.unwrap().status, 400);
    let plain = operator
        .lab
        .lab
        .app
        .client
        .send("GET", "/api/default/open-calls", &[], "")
        .await;
    assert_eq!(plain.unwrap().status, 403);
    let elsewhere = operator
        .admin
        .send("GET", "/api/other/open-calls", &[], "")
        .await;
    assert_eq!(elsewhere.unwrap().status, 404);
    let app = &operator.lab.lab.app;
    let key = app
        .key("other", ToolGrant::None, vec![KeyScope::Admin])
        .await;
    let other = Operator {
        admin: app.with_key(Some(key)),
        ..operator
    };
    let call = open["id"].as_str().unwrap();
    let path = format!("/api/other/open-calls/{call}/fail");
    let body = json!({ "error": "not mine" }).to_string();
    let foreign = other.admin.send("POST", &path, &[], body).await.unwrap();
    assert_eq!(foreign.status, 404, "{}", foreign.text());
    let list = other
        .admin
        .send("GET", "/api/other/open-calls?which=all", &[], "")
        .await;
    assert_eq!(list.unwrap().json()["data"], json!([]));
}
