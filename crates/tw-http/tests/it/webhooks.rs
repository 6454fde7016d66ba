//! Webhooks: the API that keeps them, and what real listeners are sent.

mod api;
mod sent;

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_egress::webhook_signature::{SignedHeaders, SigningSecret, verify};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest};
use tw_testkit::polling::poll_until;

use crate::app::{App, AppOptions};
use crate::tools::lab::{ToolLab, reaching};

pub const START: Timestamp = Timestamp(1_800_000_000_000_000);
const BASE: &str = "/api/default/webhooks";

/// A server with tools, webhooks that reach these receivers, and a clock that stands.
struct HookLab {
    lab: ToolLab,
    env: Env,
    admin: TestClient,
}

impl HookLab {
    async fn reaching(receivers: &[&Listener]) -> Self {
        let service = Listener::start(|_| ListenerReply::json(r#"{"said":"DE00 1 is known"}"#));
        let service = service.await.unwrap();
        let env = Env::seeded(1, START);
        let all: Vec<&Listener> = receivers.iter().copied().chain([&service]).collect();
        let wanted = AppOptions {
            env: env.clone(),
            ..reaching(&all, Vec::new())
        };
        let lab = ToolLab::start(service.clone(), wanted).await;
        let admin = manager(&lab.app, "default").await;
        Self { lab, env, admin }
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> ReadAnswer {
        send(&self.admin, method, &format!("{BASE}{path}"), body).await
    }

    /// Makes a webhook, which must work: its id and secret.
    async fn make(&self, receiver: &Listener, members: Value) -> (String, SigningSecret) {
        let mut body = json!({ "url": receiver.url("/hook") });
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        let got = self.send("POST", "", body).await;
        assert_eq!(got.status, 201, "{}", got.text());
        let made = got.json();
        let secret = SigningSecret::parse(made["secret"].as_str().unwrap()).unwrap();
        (made["id"].as_str().unwrap().to_owned(), secret)
    }

    async fn webhook(&self, id: &str) -> Value {
        self.send("GET", &format!("/{id}"), Value::Null)
            .await
            .json()
    }

    async fn deliveries(&self, id: &str) -> Vec<Value> {
        let got = self
            .send("GET", &format!("/{id}/deliveries"), Value::Null)
            .await;
        got.json()["data"].as_array().unwrap().clone()
    }

    /// The deliveries, newest first, once all of them are as is asked.
    async fn settled(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
        poll_until("deliveries that are settled", async || {
            let found = self.deliveries(id).await;
            (!found.is_empty() && found.iter().all(&is_so)).then_some(found)
        })
        .await
    }

    /// Moves the clock and lets what is due be sent.
    fn later(&self, seconds: i64) {
        self.env
            .move_clock(Timestamp(self.env.now().0 + seconds * 1_000_000));
        self.lab.app.store.wake_sender();
    }
}

async fn send(client: &TestClient, method: &str, path: &str, body: Value) -> ReadAnswer {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    client.send(method, path, &[], body).await.unwrap()
}

/// A client that may do everything with an organization's webhooks.
async fn manager(app: &App, slug: &str) -> TestClient {
    let scopes = vec![
        KeyScope::WebhooksRead,
        KeyScope::WebhooksWrite,
        KeyScope::TurnsReadAll,
    ];
    app.with_key(Some(app.key(slug, ToolGrant::None, scopes).await))
}

async fn receiver(replies: Vec<ListenerReply>) -> Listener {
    Listener::in_turn(replies).await.unwrap()
}

fn taken() -> ListenerReply {
    ListenerReply::status(204, "")
}

/// What was sent, whose signature is right.
#[track_caller]
fn verified(received: &ReceivedRequest, secrets: &[SigningSecret], now: Timestamp) -> Value {
    let headers = SignedHeaders {
        id: Some(received.header("webhook-id")),
        timestamp: Some(received.header("webhook-timestamp")),
        signature: Some(received.header("webhook-signature")),
    };
    assert_eq!(
        verify(secrets, headers, now.seconds(), &received.body),
        Ok(())
    );
    assert_eq!(received.method, "POST");
    assert_eq!(received.header("content-type"), "application/json");
    assert!(received.header("user-agent").starts_with("turnwright/"));
    received.json()
}

fn is_in(state: &'static str) -> impl Fn(&Value) -> bool {
    move |delivery| delivery["state"] == state
}
