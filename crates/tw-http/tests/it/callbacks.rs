//! Tools that complete by webhook: what the model is told, and what becomes of each callback.

use serde_json::{Value, json};
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_egress::webhook_signature::{SigningSecret, sign};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use crate::app::{AppOptions, CHAT, ask, ask_streamed};
use crate::tools::lab::{ToolLab, create, grant, reaching};

const START: Timestamp = Timestamp(1_800_000_000_000_000);
const NOW_S: i64 = 1_800_000_000;
const BASE: &str = "https://ai.example";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const GATE: &str = "the service answers";
/// How a service says that it has the job.
const ACCEPTED: &str = r#"{"code":200,"data":{"taskId":"task_7"}}"#;
const DONE: &str = r#"{"code":200,"data":{"state":"success","url":"https://pictures.example/7"}}"#;
const FAILED: &str = r#"{"code":501,"data":{"state":"fail","failMsg":"no such style"}}"#;
const RUNS: &str = r#"{"code":200,"data":{"state":"generating"}}"#;

/// A server with a tool `draw` whose jobs a service takes; the clock stands.
struct CallbackLab {
    lab: ToolLab,
    env: Env,
    caller: TestClient,
}

/// A completion with these members over it.
fn completion(members: Value) -> Value {
    let mut completion = json!({
        "completes": "webhook", "waits": false, "deadline_s": 900, "external_id": "$.data.taskId",
        "callback": {
            "status": "$.data.state", "completed": ["success"], "failed": ["fail"],
            "result": "$.data.url", "error": "$.data.failMsg",
        },
    });
    let members = members.as_object().unwrap().clone();
    completion.as_object_mut().unwrap().extend(members);
    completion
}

fn tool(completion: Value) -> Value {
    json!({
        "method": "POST", "body": { "callBackUrl": "{{callback_url}}" }, "completion": completion,
    })
}

impl CallbackLab {
    async fn start(completion: Value) -> Self {
        let service = Listener::start(|_| ListenerReply::json(ACCEPTED)).await;
        Self::of(service.unwrap(), completion).await
    }

    async fn of(service: Listener, completion: Value) -> Self {
        let env = Env::seeded(1, START);
        let secrets = vec![
            grant("HOOK", SECRET, &["default"], &["none.example"]),
            grant("OLD_HOOK", OLD_SECRET, &["default"], &["none.example"]),
            grant("GITHUB", "It's a Secret to Everybody", &["default"], &[]),
            grant("STRIPE", "whsec_stripe_test", &["default"], &[]),
            grant("SHARED", "open sesame", &["default"], &[]),
            grant("OTHERS", "theirs", &["other"], &[]),
        ];
        let wanted = reaching(&[&service], secrets);
        let of_tools = wanted.config;
        let wanted = AppOptions {
            env: env.clone(),
            config: Box::new(move |config| {
                of_tools(config);
                config.callback_base = Some(BASE.to_owned());
            }),
            ..wanted
        };
        let lab = ToolLab::start(service, wanted).await;
        lab.make("draw", "/jobs", tool(completion)).await;
        let caller = lab.app.with_key(None);
        Self { lab, env, caller }
    }

    /// The path of the callback of the newest job.
    fn path(&self) -> String {
        let asked = self.lab.service.asked();
        let url = asked.last().unwrap().json()["callBackUrl"].clone();
        let path = url.as_str().unwrap().strip_prefix(BASE).unwrap();
        assert!(path.starts_with("/hooks/draw/"), "{path}");
        path.to_owned()
    }

    async fn call_back(&self, path: &str, headers: &[(&str, &str)], body: &str) -> ReadAnswer {
        let sent = self.caller.send("POST", path, headers, body.to_owned());
        sent.await.unwrap()
    }

    /// The only call of a turn, as its record has it.
    async fn call(&self, turn: &str) -> Value {
        let path = format!("/v1/turns/{turn}?full=1");
        let got = self.lab.app.client.send("GET", &path, &[], "").await;
        got.unwrap().json()["rounds"][0]["calls"][0].clone()
    }
}

fn members(call: &Value) -> [&Value; 4] {
    ["status", "reason", "shown", "result"].map(|name| &call[name])
}

#[tokio::test]
async fn a_detached_call_ends_when_its_turn_is_long_over() {
    for (body, expected) in [
        (
            DONE,
            [
                json!("completed"),
                json!(null),
                json!("\"https://pictures.example/7\""),
                json!(DONE),
            ],
        ),
        (
            FAILED,
            [
                json!("failed"),
                json!("tool_error"),
                json!("The job failed: no such style"),
                json!(null),
            ],
        ),
    ] {
        let lab = CallbackLab::start(completion(json!({}))).await;
        let ran = lab.lab.run("draw").await;
        let turn = ran.turn["id"].as_str().unwrap().to_owned();
        let call = ran.call();
        assert_eq!(call["status"], "processing", "{call}");
        assert_eq!(call["reason"], "awaiting_callback");
        assert_eq!(call["external_id"], "task_7");
        let told = call["told"].as_str().unwrap().to_owned();
        assert!(
            told.contains("has started") && told.contains("task_7"),
            "{told}"
        );
        let asked = lab.lab.model.asked();
        let request = asked.last().unwrap().json();
        let shown = &request["messages"].as_array().unwrap().last().unwrap()["content"];
        assert_eq!(*shown, told, "the model is told the same");

        let got = lab.call_back(&lab.path(), &[], body).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.json()["outcome"], expected[0]);
        let call = lab.call(&turn).await;
        assert_eq!(members(&call), expected.each_ref(), "{call}");
        assert_eq!(call["told"], told, "what the model was told stays");
    }
}

/// Each row is what comes in and what is answered, one after the other, to the same call.
#[tokio::test]
async fn each_callback_has_an_outcome() {
    let lab = CallbackLab::start(completion(json!({}))).await;
    let ran = lab.lab.run("draw").await;
    let path = lab.path();
    let elsewhere = path.replace("/draw/", "/paint/");
    let unknown = format!("{}0", &path[..path.len() - 1]);
    for (path, body, status, outcome) in [
        (&elsewhere, DONE, 401, "callback_refused"),
        (&unknown, DONE, 401, "callback_refused"),
        (&path, "{", 400, "callback_malformed"),
        (&path, r#"{"data":{}}"#, 400, "callback_malformed"),
        (&path, RUNS, 200, "progress"),
        (&path, RUNS, 200, "duplicate"),
        (&path, DONE, 200, "completed"),
        (&path, DONE, 200, "duplicate"),
        (&path, FAILED, 200, "late"),
        (&path, FAILED, 200, "duplicate"),
        (&path, r#"{"data":{"state":"waiting"}}"#, 200, "late"),
    ] {
        let got = lab.call_back(path, &[], body).await;
        let said = got.json();
        let word = if status == 200 {
            &said["outcome"]
        } else {
            &said["error"]["code"]
        };
        assert_eq!(
            (got.status, word),
            (status, &json!(outcome)),
            "{path} {body}: {said}"
        );
    }
    let large = " ".repeat(256 * 1024 + 1);
    assert_eq!(lab.call_back(&path, &[], &large).await.status, 413);
    let call = lab.call(ran.turn["id"].as_str().unwrap()).await;
    assert_eq!(call["status"], "completed", "{call}");
}

#[tokio::test]
async fn a_signature_by_any_of_the_secrets_counts() {
    let verification = json!({ "type": "standard_webhooks", "secrets": ["HOOK", "OLD_HOOK"] });
    let mut callback = completion(json!({}))["callback"].clone();
    callback["verification"] = verification;
    let lab = CallbackLab::start(completion(json!({ "callback": callback }))).await;
    let key = |text| [SigningSecret::parse(text).unwrap()];
    let stranger = SigningSecret::random(&Env::seeded(9, START)).reveal();
    for (secret, at_s, body, status) in [
        (&*stranger, NOW_S, DONE, 401),
        (SECRET, NOW_S - 301, DONE, 401),
        (SECRET, NOW_S + 301, DONE, 401),
        (SECRET, NOW_S, FAILED, 401),
        (OLD_SECRET, NOW_S, DONE, 200),
        (SECRET, NOW_S, DONE, 200),
    ] {
        lab.lab.run("draw").await;
        let at = at_s.to_string();
        let signature = sign(&key(secret), "msg_1", at_s, DONE.as_bytes());
        let headers = [
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", at.as_str()),
            ("webhook-signature", signature.as_str()),
        ];
        let path = lab.path();
        let got = lab.call_back(&path, &headers, body).await;
        assert_eq!(got.status, status, "{at_s} {body}: {}", got.text());
        let unsigned = lab.call_back(&path, &[], body).await;
        assert_eq!(unsigned.status, 401);
        let nowhere = lab.call_back("/hooks/draw/nothing", &headers, body).await;
        let error = |got: &ReadAnswer| got.json()["error"]["message"].clone();
        assert_eq!(
            error(&unsigned),
            error(&nowhere),
            "forged and unknown are told the same"
        );
    }
}

#[tokio::test]
async fn a_callback_that_outruns_the_answer_is_the_result() {
    let answer = ReplyPiece::Bytes(ACCEPTED.into());
    let held = ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate(GATE), answer]);
    let service = Listener::start(move |_| held.clone()).await.unwrap();
    let lab = CallbackLab::of(service, completion(json!({}))).await;
    let request = ask("draw").to_string();
    let (got, ()) = tokio::join!(lab.lab.app.client.send("POST", CHAT, &[], request), async {
        lab.lab.service.asked_times(1).await;
        let got = lab.call_back(&lab.path(), &[], DONE).await;
        assert_eq!(got.json()["outcome"], "completed", "{}", got.text());
        lab.lab.service.open(GATE);
    });
    let ran = lab.lab.ran(&lab.lab.app.client, got.unwrap()).await;
    assert_eq!(ran.ended(), "completed");
    let asked = lab.lab.model.asked();
    let messages = asked.last().unwrap().json()["messages"].clone();
    let last = messages.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["content"], "\"https://pictures.example/7\"");
}

#[tokio::test]
async fn a_turn_waits_for_its_callback() {
    for streamed in [false, true] {
        let lab = CallbackLab::start(completion(json!({ "waits": true }))).await;
        let request = if streamed {
            ask_streamed("draw")
        } else {
            ask("draw")
        };
        let (got, ()) = tokio::join!(
            lab.lab
                .app
                .client
                .send("POST", CHAT, &[], request.to_string()),
            async {
                lab.lab.service.asked_times(1).await;
                let got = lab.call_back(&lab.path(), &[], DONE).await;
                assert_eq!(got.json()["outcome"], "completed", "{}", got.text());
            }
        );
        let ran = lab.lab.ran(&lab.lab.app.client, got.unwrap()).await;
        assert_eq!(ran.ended(), "completed", "{streamed}");
        assert_eq!(ran.call()["told"], Value::Null, "{streamed}");
    }
}

#[tokio::test]
async fn an_answer_that_names_no_job_has_started_none() {
    const REFUSED: &str = r#"{"code":402,"msg":"no credits"}"#;
    let service = Listener::start(|_| ListenerReply::json(REFUSED)).await;
    let lab = CallbackLab::of(service.unwrap(), completion(json!({}))).await;
    let ran = lab.lab.run("draw").await;
    assert_eq!(ran.ended(), "failed tool_error");
    let shown = ran.call()["shown"].as_str().unwrap();
    assert!(shown.contains("no credits"), "{shown}");
    let got = lab.call_back(&lab.path(), &[], DONE).await;
    assert_eq!(got.json()["outcome"], "late", "{}", got.text());
}

#[tokio::test]
async fn a_call_that_nobody_calls_back_fails_at_its_deadline() {
    let lab = CallbackLab::start(completion(json!({}))).await;
    let ran = lab.lab.run("draw").await;
    let turn = ran.turn["id"].as_str().unwrap().to_owned();
    for (later_s, status) in [(899, "processing"), (902, "failed")] {
        let now = Timestamp(START.0 + later_s * 1_000_000);
        lab.env.move_clock(now);
        let sweep = tw_core::change::Change::ExpireCallbacks { now, calls_max: 10 };
        lab.lab.app.store.apply(vec![sweep]).await.unwrap();
        let call = lab.call(&turn).await;
        assert_eq!(call["status"], status, "{later_s}: {call}");
    }
    assert_eq!(lab.call(&turn).await["reason"], "deadline");
    let got = lab.call_back(&lab.path(), &[], DONE).await;
    assert_eq!(got.json()["outcome"], "late", "{}", got.text());
}

#[tokio::test]
async fn definitions_that_could_not_work_are_refused() {
    let lab = CallbackLab::start(completion(json!({}))).await;
    let with_callback = |members: Value| {
        let mut callback = completion(json!({}))["callback"].clone();
        let members = members.as_object().unwrap().clone();
        callback.as_object_mut().unwrap().extend(members);
        tool(completion(json!({ "callback": callback })))
    };
    let of_secrets = |names: Value| {
        with_callback(json!({ "verification": { "type": "standard_webhooks", "secrets": names } }))
    };
    let mut nowhere = tool(completion(json!({})));
    nowhere["body"] = json!({});
    let mut inline = tool(json!({ "completes": "inline" }));
    inline["body"] = json!({ "to": "{{callback_url}}" });
    for (members, param) in [
        (nowhere, "completion"),
        (inline, "body.to"),
        (
            tool(completion(json!({ "deadline_s": 0 }))),
            "completion.deadline_s",
        ),
        (
            tool(completion(json!({ "external_id": "$..id" }))),
            "completion.external_id",
        ),
        (
            with_callback(json!({ "failed": ["success"] })),
            "completion.callback.failed",
        ),
        (
            with_callback(json!({ "addresses": ["home"] })),
            "completion.callback.addresses",
        ),
        (
            of_secrets(json!(["OTHERS"])),
            "completion.callback.verification.secrets[0]",
        ),
        (
            of_secrets(json!([])),
            "completion.callback.verification.secrets",
        ),
        // A time that anybody could write anew.
        (
            with_callback(json!({ "verification": {
                "type": "hmac", "secrets": ["OWN"], "header": "X-Signature", "timestamp": { "header": "X-Time" },
            } })),
            "completion.callback.verification.timestamp",
        ),
    ] {
        let definition = lab.lab.define("paint", "/jobs", members);
        let got = create(&lab.lab.editor, "default", definition.to_string()).await;
        assert_eq!(got.status, 400, "{param}: {}", got.text());
        assert_eq!(got.json()["error"]["param"], param, "{}", got.text());
    }
}

#[tokio::test]
async fn a_turn_that_waited_long_enough_goes_on_without() {
    let service = Listener::start(|_| ListenerReply::json(ACCEPTED))
        .await
        .unwrap();
    let wanted = reaching(&[&service], Vec::new());
    let of_tools = wanted.config;
    let wanted = AppOptions {
        config: Box::new(move |config| {
            of_tools(config);
            config.callback_base = Some(BASE.to_owned());
            config.turn.callback_wait_max = std::time::Duration::from_millis(20);
        }),
        ..wanted
    };
    let lab = ToolLab::start(service, wanted).await;
    let waits = completion(json!({ "waits": true }));
    lab.make("draw", "/jobs", tool(waits)).await;
    let ran = lab.run("draw").await;
    let call = ran.call();
    assert_eq!(call["status"], "processing", "{call}");
    assert!(
        call["told"].as_str().unwrap().contains("has started"),
        "{call}"
    );
}

/// The documented examples of GitHub and Stripe, and a secret that is sent along; each with a header that is wrong.
#[tokio::test]
async fn senders_sign_in_ways_of_their_own() {
    const STRIPE_BODY: &str = r#"{"message":{"type":"tool-calls"}}"#;
    let github = json!({
        "type": "hmac", "secrets": ["GITHUB"], "header": "X-Hub-Signature-256", "prefix": "sha256=",
    });
    let stripe = json!({
        "type": "hmac", "secrets": ["STRIPE"], "header": "Stripe-Signature", "element": "v1",
        "signed": [{ "element": "t" }, { "text": "." }, "body"], "timestamp": { "element": "t" },
    });
    let shared = json!({ "type": "shared_secret", "secrets": ["SHARED"], "header": "x-token" });
    for (verification, at_s, header, right, wrong, body) in [
        (
            github,
            NOW_S,
            "x-hub-signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e18",
            "Hello, World!",
        ),
        (
            stripe,
            1_755_599_644,
            "stripe-signature",
            "t=1755599644,v1=9c0d09fca6c23e287a76b3a3cc42a5da4742c20a9d8b8bf506bb6cb11958923a",
            "t=1755599645,v1=9c0d09fca6c23e287a76b3a3cc42a5da4742c20a9d8b8bf506bb6cb11958923a",
            STRIPE_BODY,
        ),
        (shared, NOW_S, "x-token", "open sesame", "open", "{}"),
    ] {
        let callback = json!({ "verification": verification });
        let lab = CallbackLab::start(completion(json!({ "callback": callback }))).await;
        lab.env.move_clock(Timestamp(at_s * 1_000_000));
        let ran = lab.lab.run("draw").await;
        for (given, status) in [(wrong, 401), (right, 200)] {
            let got = lab.call_back(&lab.path(), &[(header, given)], body).await;
            assert_eq!(got.status, status, "{header}: {given}: {}", got.text());
        }
        let call = lab.call(ran.turn["id"].as_str().unwrap()).await;
        assert_eq!(call["result"], body, "{header}");
    }
}
