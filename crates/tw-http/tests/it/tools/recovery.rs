//! A server that dies while a call is under way, and what its successor makes of the call, also
//! when the tool was changed or deleted in between.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio::runtime;
use tw_core::tool::EffectClass;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest, ReplyPiece};
use tw_wire::format::WireFormat;

use super::lab::{ToolLab, model, reaching};
use crate::app::{CHAT, ask};

/// The tasks of one process, which end all at once and in the middle of what they do.
struct Process(Option<runtime::Runtime>);

impl Process {
    fn start() -> Self {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        Self(Some(runtime.unwrap()))
    }

    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.0.as_ref().unwrap().spawn(work).await.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The tests wait for nothing here: a process that is killed does not tidy up.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What becomes of the tool while no server runs.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    Patched,
    Deleted,
}

/// How the call must go on.
struct Case {
    effect: EffectClass,
    /// What the look-up answers.
    found: u16,
    /// Method and target of everything that the service is asked, from before the death on.
    asked: &'static [&'static str],
    ended: &'static str,
    attempts: &'static [&'static str],
}

const SENT: &str = "POST /old";
const LOOKED_UP: &str = "GET /old/look_up?reference=KEY";

fn cases() -> [Case; 6] {
    let case = |effect, found, asked, ended, attempts| Case {
        effect,
        found,
        asked,
        ended,
        attempts,
    };
    let again: &[&str] = &["interrupted", "ok"];
    let known: &[&str] = &["interrupted"];
    [
        case(EffectClass::Read, 500, &[SENT, SENT], "completed", again),
        case(
            EffectClass::Idempotent,
            500,
            &[SENT, SENT],
            "completed",
            again,
        ),
        case(
            EffectClass::Queryable,
            200,
            &[SENT, LOOKED_UP],
            "completed",
            known,
        ),
        case(
            EffectClass::Queryable,
            404,
            &[SENT, LOOKED_UP, SENT],
            "completed",
            again,
        ),
        case(
            EffectClass::Queryable,
            500,
            &[SENT, LOOKED_UP],
            "failed outcome_unknown",
            known,
        ),
        case(
            EffectClass::Once,
            500,
            &[SENT],
            "failed outcome_unknown",
            known,
        ),
    ]
}

/// Holds the first call for ever, and answers the others.
async fn service(found: u16) -> Listener {
    let sent = AtomicU32::new(0);
    let answer = move |asked: &ReceivedRequest| {
        if asked.target.contains("look_up") {
            return ListenerReply::status(found, r#"{"done":"before"}"#);
        }
        if sent.fetch_add(1, Ordering::SeqCst) == 0 {
            return ListenerReply::pieces("application/json", vec![ReplyPiece::HeadGate("never")]);
        }
        ListenerReply::json(r#"{"done":"again"}"#)
    };
    Listener::start(answer).await.unwrap()
}

fn definition(lab: &ToolLab, effect: EffectClass) -> Value {
    let mut members = json!({
        "method": "POST", "parameters": { "who": { "mode": "ai" } },
        "policy": { "effect": effect.as_str(), "backoff_ms": 0 },
        "response": { "select": "$.done" },
    });
    if effect == EffectClass::Queryable {
        let url = lab.service.url("/old/look_up?reference={{reference}}");
        members["look_up"] = json!({ "url": url, "absent": [404] });
    }
    members
}

impl Meanwhile {
    const ALL: [Self; 3] = [Self::Nothing, Self::Patched, Self::Deleted];

    /// A patch turns the effect round: what must not be repeated now may, and the reverse.
    async fn happen(self, lab: &ToolLab, id: &str, effect: EffectClass) {
        match self {
            Self::Nothing => {}
            Self::Deleted => lab.delete(id).await,
            Self::Patched => {
                let other = match effect {
                    EffectClass::Read | EffectClass::Idempotent => EffectClass::Once,
                    EffectClass::Queryable | EffectClass::Once => EffectClass::Read,
                };
                let patch = json!({
                    "url": lab.service.url("/new"), "look_up": null,
                    "policy": { "effect": other.as_str(), "attempts_max": 1 },
                    "response": { "select": "$.nothing" },
                });
                lab.patch(id, patch).await;
            }
        }
    }
}

/// A server that died with a call under way; the lab's server is its successor, which has taken
/// nothing over yet. The turn's id and the tool's are beside it.
async fn after_death(case: &Case) -> (ToolLab, String, String) {
    let (model, service) = (model().await, service(case.found).await);
    let process = Process::start();
    let wanted = reaching(&[&service], Vec::new());
    let mut lab = process.run(ToolLab::behind(model, service, wanted)).await;
    let id = lab.make("act", "/old", definition(&lab, case.effect)).await;
    let client = lab.app.client.clone();
    let asking = tokio::spawn(async move {
        let body = ask(r#"act {"who":"x"}"#).to_string();
        client
            .send("POST", CHAT, &[("idempotency-key", "k")], body)
            .await
    });
    lab.service.asked_times(1).await;
    let turn = lab.app.running_turn(WireFormat::OpenAiChat, "k").await;
    drop(process);
    lab.service.abandoned_times(1).await;
    assert!(
        asking.await.unwrap().is_err(),
        "its connections died with it"
    );
    let wanted = reaching(&[&lab.service], Vec::new());
    lab.app = lab.app.again(&lab.model, wanted).await;
    lab.editor = lab.app.with_key(lab.editor.key.clone());
    (lab, turn, id)
}

#[tokio::test]
async fn the_call_ends_as_its_effect_asks_and_by_the_version_it_began_with() {
    for case in cases() {
        for meanwhile in Meanwhile::ALL {
            let label = format!("{:?} {} {meanwhile:?}", case.effect, case.found);
            let (lab, turn, id) = after_death(&case).await;
            meanwhile.happen(&lab, &id, case.effect).await;
            assert_eq!(lab.app.runtime.recover().await.unwrap(), 1, "{label}");
            let record = lab.app.turn(&turn).await;
            assert_eq!(record["status"], "completed", "{label}: {record}");
            check_call(&case, &record["rounds"][0]["calls"][0], &id, &label);
            check_service(&case, &lab, &record, &label);
            let asked = lab.model.asked();
            let told = &asked.last().unwrap().json()["messages"][2]["content"];
            assert_eq!(*told, record["rounds"][0]["calls"][0]["shown"], "{label}");
        }
    }
}

fn check_call(case: &Case, call: &Value, id: &str, label: &str) {
    let ended = match call["reason"].as_str() {
        Some(reason) => format!("{} {reason}", call["status"].as_str().unwrap()),
        None => call["status"].as_str().unwrap().to_owned(),
    };
    assert_eq!(ended, case.ended, "{label}");
    assert_eq!(call["effect"], case.effect.as_str(), "{label}");
    assert_eq!(
        (&call["tool_id"], &call["tool_version"]),
        (&json!(id), &json!(1))
    );
    let attempts = call["attempts"].as_array().unwrap().iter();
    let outcomes: Vec<&str> = attempts.map(|a| a["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, case.attempts, "{label}");
    let shown = call["shown"].as_str().unwrap();
    if case.ended == "completed" {
        // Selected as the old version says.
        let found = if case.found == 200 {
            "\"before\""
        } else {
            "\"again\""
        };
        assert_eq!(shown, found, "{label}");
    } else {
        assert!(
            shown.contains("must not simply be repeated"),
            "{label}: {shown}"
        );
    }
}

fn check_service(case: &Case, lab: &ToolLab, record: &Value, label: &str) {
    let id = record["rounds"][0]["calls"][0]["id"].as_str().unwrap();
    let key = format!("tw_{}", id.replace('-', ""));
    let all = lab.service.asked();
    let asked: Vec<String> = all
        .iter()
        .map(|asked| format!("{} {}", asked.method, asked.target.replace(&key, "KEY")))
        .collect();
    assert_eq!(asked, case.asked, "{label}");
    for asked in all.iter().filter(|asked| asked.method == "POST") {
        let sent = if case.effect == EffectClass::Read {
            ""
        } else {
            &key
        };
        assert_eq!(asked.header("idempotency-key"), sent, "{label}");
        assert_eq!(asked.json(), json!({ "who": "x" }), "{label}");
    }
}
