//! Who may do what with tools: every route, asked by everybody who may not, and by one who may.

use serde_json::{Value, json};
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::ListenerReply;

use super::lab::{ToolLab, editor};
use crate::app::App;
use crate::tenants::{ROUTES, Takes, UNKNOWN, client_of, error_of};

/// A route of the tools API, as one asks for it.
struct Route {
    method: &'static str,
    path: &'static str,
    takes: Takes,
}

impl Route {
    fn all() -> Vec<Self> {
        let of_tools = ROUTES.into_iter().filter_map(|(method, path, takes)| {
            let is_of_tools = match takes {
                Takes::Slug | Takes::ToolId => true,
                Takes::TurnId
                | Takes::ResponseId
                | Takes::KeyId
                | Takes::WebhookId
                | Takes::UsageSlug
                | Takes::OpenCallId
                | Takes::UserName
                | Takes::Conversation
                | Takes::Names
                | Takes::Nothing => false,
            };
            is_of_tools.then_some(Self {
                method,
                path,
                takes,
            })
        });
        of_tools.collect()
    }

    fn scope(&self) -> KeyScope {
        if self.method == "GET" {
            KeyScope::ToolsRead
        } else {
            KeyScope::ToolsWrite
        }
    }

    /// A body with which the route does what it is for.
    fn body(&self, lab: &ToolLab) -> String {
        let definition = lab.define("new", "/", json!({}));
        match (self.method, self.path.rsplit('/').next().unwrap()) {
            ("POST", "tools") => definition.to_string(),
            ("POST", "preview") => json!({ "tool": definition }).to_string(),
            ("POST", "test") => json!({ "dry": false }).to_string(),
            ("PATCH", _) => json!({ "label": "Changed" }).to_string(),
            _ => String::new(),
        }
    }

    async fn ask(&self, lab: &ToolLab, client: &TestClient, slug: &str, id: &str) -> ReadAnswer {
        let path = self.path.replace("{slug}", slug).replace("{id}", id);
        let sent = client.send(self.method, &path, &[], self.body(lab));
        sent.await.unwrap()
    }

    fn label(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Who may not, and the answer: status and code.
async fn strangers(
    app: &App,
    scope: KeyScope,
) -> Vec<(&'static str, TestClient, u16, &'static str)> {
    let lacking: Vec<KeyScope> = KeyScope::ALL
        .into_iter()
        .filter(|other| *other != scope && *other != KeyScope::Admin)
        .collect();
    let wrong = format!("tw-{}", "0".repeat(64));
    vec![
        ("nobody", app.with_key(None), 401, "missing_api_key"),
        (
            "a key that is none",
            app.with_key(Some(wrong)),
            401,
            "invalid_api_key",
        ),
        ("an expired key", expired(app).await, 401, "expired_api_key"),
        (
            "a key without the scope",
            client_of(app, "default", lacking).await,
            403,
            "insufficient_scope",
        ),
    ]
}

async fn expired(app: &App) -> TestClient {
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "old".to_owned(),
        scopes: KeyScope::ALL.to_vec(),
        tools: ToolGrant::All,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: tw_core::rate::RateLimits::default(),
        expires: Some(Timestamp(1)),
    };
    let key = create_key(&app.store, &Env::system(), wanted).await;
    app.with_key(Some(key.unwrap()))
}

async fn lab() -> ToolLab {
    ToolLab::answering(ListenerReply::json("{}")).await
}

async fn all_tools(lab: &ToolLab) -> Value {
    let path = "/api/default/tools";
    let got = lab.editor.send("GET", path, &[], "").await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()
}

#[tokio::test]
async fn every_route_refuses_whoever_may_not() {
    let lab = lab().await;
    let id = lab.make("mine", "/", json!({})).await;
    let before = all_tools(&lab).await;
    for route in Route::all() {
        for (who, client, status, code) in strangers(&lab.app, route.scope()).await {
            for id in [id.as_str(), UNKNOWN, "junk"] {
                let got = route.ask(&lab, &client, "default", id).await;
                let label = format!("{who}: {} {id}: {}", route.label(), got.text());
                assert_eq!(got.status, status, "{label}");
                assert_eq!(got.json()["error"]["code"], code, "{label}");
            }
        }
    }
    assert_eq!(all_tools(&lab).await, before);
    assert!(lab.service.asked().is_empty());
}

#[tokio::test]
async fn every_route_answers_a_foreign_organization_like_one_that_is_not_there() {
    let lab = lab().await;
    let id = lab.make("mine", "/", json!({})).await;
    let before = all_tools(&lab).await;
    let scopes = KeyScope::ALL.to_vec();
    let other = client_of(&lab.app, "other", scopes).await;
    for route in Route::all() {
        let label = route.label();
        let unknown = route.ask(&lab, &other, "nowhere", UNKNOWN).await;
        assert_eq!(unknown.status, 404, "{label}");
        for slug in ["default", "DEFAULT", "default%20", "%FF", "*"] {
            let foreign = route.ask(&lab, &other, slug, &id).await;
            assert_eq!(foreign.status, 404, "{label} {slug}: {}", foreign.text());
            if slug != "%FF" {
                assert_eq!(error_of(&foreign), error_of(&unknown), "{label} {slug}");
            }
        }
        if route.takes != Takes::ToolId {
            continue;
        }
        let unknown = route.ask(&lab, &other, "other", UNKNOWN).await;
        let longer = format!("{id}0");
        for foreign_id in [id.as_str(), &longer, "junk", "%FF", "preview%20"] {
            let foreign = route.ask(&lab, &other, "other", foreign_id).await;
            assert_eq!(foreign.status, 404, "{label} {foreign_id}");
            assert_eq!(
                error_of(&foreign),
                error_of(&unknown),
                "{label} {foreign_id}"
            );
            // Also for its own organization, as long as the id is none of a tool.
            if foreign_id != id {
                let own = route.ask(&lab, &lab.editor, "default", foreign_id).await;
                assert_eq!(error_of(&own), error_of(&unknown), "{label} {foreign_id}");
            }
        }
    }
    assert_eq!(all_tools(&lab).await, before);
    assert!(lab.service.asked().is_empty());
}

#[tokio::test]
async fn every_route_serves_whoever_may() {
    for scopes in [
        vec![KeyScope::ToolsRead, KeyScope::ToolsWrite],
        vec![KeyScope::Admin],
    ] {
        for route in Route::all() {
            let lab = lab().await;
            let id = lab.make("mine", "/", json!({})).await;
            let narrow = match scopes[..] {
                [KeyScope::Admin] => KeyScope::Admin,
                _ => route.scope(),
            };
            let client = client_of(&lab.app, "default", vec![narrow]).await;
            let got = route.ask(&lab, &client, "default", &id).await;
            let label = format!("{narrow:?} {}: {}", route.label(), got.text());
            assert!((200..=201).contains(&got.status), "{label}");
        }
    }
}

#[tokio::test]
async fn the_list_holds_the_tools_of_one_organization() {
    let lab = lab().await;
    let mine = lab.make("mine", "/", json!({})).await;
    let theirs = editor(&lab.app, "other").await;
    let definition = lab.define("mine", "/theirs", json!({}));
    let their_id = super::lab::made(&theirs, "other", &definition).await;
    assert_ne!(mine, their_id, "names are taken within an organization");
    let listed = theirs.send("GET", "/api/other/tools", &[], "").await;
    let listed = listed.unwrap().json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(listed["data"][0]["id"], their_id);
    assert_eq!(all_tools(&lab).await["data"][0]["id"], mine);
    let after = format!("/api/other/tools?after={mine}");
    let foreign_cursor = theirs.send("GET", &after, &[], "").await.unwrap();
    assert_eq!(foreign_cursor.status, 400);
    assert_eq!(foreign_cursor.json()["error"]["param"], "after");
}
