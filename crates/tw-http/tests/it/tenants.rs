//! Nothing of one organization is found by another, and nothing of one key by a narrower one.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::tool::EffectClass;
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_wire::format::WireFormat;

use crate::app::{App, AppOptions, ask, probe, upstream_body};
use crate::openapi;
use crate::surfaces::{self, assert_refused, on_each_surface};

on_each_surface!(
    a_foreign_turn_is_answered_like_an_unknown_one_on_every_route,
    a_foreign_cancel_stops_nothing,
    names_of_another_organization_or_key_lead_to_nothing_of_theirs,
    a_key_without_turns_read_sees_only_its_own_turns,
    a_key_that_may_not_ask_is_refused_in_the_surfaces_own_shape,
    a_tool_granted_to_one_key_is_not_offered_to_another,
    the_name_of_a_tool_that_the_key_may_not_use_is_the_clients_own,
    whoever_names_an_end_user_sees_only_their_turns,
);

/// All routes, and whether a foreign id or key can be given to each.
pub const ROUTES: [(&str, &str, Takes); 74] = [
    ("POST", "/v1/chat/completions", Takes::Names),
    ("POST", "/v1/messages", Takes::Names),
    ("POST", "/v1/messages/count_tokens", Takes::Names),
    ("POST", "/v1/responses", Takes::Names),
    ("GET", "/v1/responses", Takes::Names),
    ("POST", "/v1/responses/compact", Takes::Names),
    ("POST", "/v1/responses/input_tokens", Takes::Names),
    ("GET", "/v1/responses/{id}", Takes::ResponseId),
    ("DELETE", "/v1/responses/{id}", Takes::ResponseId),
    ("POST", "/v1/responses/{id}/cancel", Takes::ResponseId),
    ("GET", "/v1/responses/{id}/input_items", Takes::ResponseId),
    ("GET", "/v1/models", Takes::Nothing),
    ("GET", "/v1/models/{*id}", Takes::Nothing),
    ("GET", "/v1/turns/{id}", Takes::TurnId),
    ("POST", "/v1/turns/{id}/cancel", Takes::TurnId),
    ("GET", "/v1/turns/{id}/events", Takes::TurnId),
    ("GET", "/v1/conversations", Takes::Names),
    ("POST", "/v1/conversations", Takes::Names),
    ("GET", "/v1/conversations/{id}", Takes::Conversation),
    ("POST", "/v1/conversations/{id}", Takes::Conversation),
    ("DELETE", "/v1/conversations/{id}", Takes::Conversation),
    ("GET", "/v1/conversations/{id}/turns", Takes::Conversation),
    (
        "GET",
        "/v1/conversations/{id}/messages",
        Takes::Conversation,
    ),
    ("POST", "/v1/conversations/{id}/rows", Takes::Names),
    ("GET", "/v1/calls", Takes::Names),
    ("GET", "/v1/conversations/{id}/items", Takes::Conversation),
    ("POST", "/v1/conversations/{id}/items", Takes::Conversation),
    (
        "GET",
        "/v1/conversations/{id}/items/{item}",
        Takes::Conversation,
    ),
    (
        "DELETE",
        "/v1/conversations/{id}/items/{item}",
        Takes::Conversation,
    ),
    ("GET", "/api/{slug}/tools", Takes::Slug),
    ("POST", "/api/{slug}/tools", Takes::Slug),
    ("POST", "/api/{slug}/tools/preview", Takes::Slug),
    ("GET", "/api/{slug}/tools/{id}", Takes::ToolId),
    ("PATCH", "/api/{slug}/tools/{id}", Takes::ToolId),
    ("DELETE", "/api/{slug}/tools/{id}", Takes::ToolId),
    ("POST", "/api/{slug}/tools/{id}/test", Takes::ToolId),
    ("GET", "/api/{slug}/keys", Takes::KeyId),
    ("POST", "/api/{slug}/keys", Takes::KeyId),
    ("GET", "/api/{slug}/keys/{id}", Takes::KeyId),
    ("PATCH", "/api/{slug}/keys/{id}", Takes::KeyId),
    ("DELETE", "/api/{slug}/keys/{id}", Takes::KeyId),
    ("DELETE", "/api/{slug}/users/{name}", Takes::UserName),
    ("GET", "/api/{slug}/webhooks", Takes::WebhookId),
    ("POST", "/api/{slug}/webhooks", Takes::WebhookId),
    ("GET", "/api/{slug}/webhooks/{id}", Takes::WebhookId),
    ("PATCH", "/api/{slug}/webhooks/{id}", Takes::WebhookId),
    ("DELETE", "/api/{slug}/webhooks/{id}", Takes::WebhookId),
    ("POST", "/api/{slug}/webhooks/{id}/rotate", Takes::WebhookId),
    ("POST", "/api/{slug}/webhooks/{id}/test", Takes::WebhookId),
    ("POST", "/api/{slug}/webhooks/{id}/replay", Takes::WebhookId),
    (
        "GET",
        "/api/{slug}/webhooks/{id}/deliveries",
        Takes::WebhookId,
    ),
    (
        "GET",
        "/api/{slug}/webhooks/{id}/deliveries/{event}",
        Takes::WebhookId,
    ),
    (
        "POST",
        "/api/{slug}/webhooks/{id}/deliveries/{event}/replay",
        Takes::WebhookId,
    ),
    ("GET", "/api/{slug}/usage", Takes::UsageSlug),
    ("GET", "/api/{slug}/open-calls", Takes::OpenCallId),
    (
        "POST",
        "/api/{slug}/open-calls/{id}/poll",
        Takes::OpenCallId,
    ),
    (
        "POST",
        "/api/{slug}/open-calls/{id}/fail",
        Takes::OpenCallId,
    ),
    (
        "POST",
        "/api/{slug}/open-calls/{id}/complete",
        Takes::OpenCallId,
    ),
    // Of these an end user is recorded, and nothing is looked up.
    ("POST", "/v1/embeddings", Takes::Nothing),
    ("POST", "/v1/completions", Takes::Nothing),
    ("POST", "/v1/moderations", Takes::Nothing),
    ("POST", "/v1/rerank", Takes::Nothing),
    ("POST", "/v1/images/generations", Takes::Nothing),
    ("POST", "/v1/images/edits", Takes::Nothing),
    ("POST", "/v1/images/variations", Takes::Nothing),
    ("POST", "/v1/audio/speech", Takes::Nothing),
    ("POST", "/v1/audio/transcriptions", Takes::Nothing),
    ("POST", "/v1/audio/translations", Takes::Nothing),
    // Who has the token needs nothing else; see `callbacks.rs`.
    ("POST", "/hooks/{tool}/{token}", Takes::Nothing),
    // The same of who has a link; see `jobs.rs`.
    ("GET", "/files/{id}", Takes::Nothing),
    ("GET", "/healthz", Takes::Nothing),
    ("GET", "/readyz", Takes::Nothing),
    ("GET", "/metrics", Takes::Nothing),
    ("GET", "/openapi.json", Takes::Nothing),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    TurnId,
    /// See `responses/foreign.rs`.
    ResponseId,
    /// See `tools/access.rs`.
    Slug,
    /// Beside a slug; see there, too.
    ToolId,
    /// Or a slug; see `keys.rs`.
    KeyId,
    /// Or a slug; see `webhooks/api.rs`.
    WebhookId,
    /// Or a slug; see `open_calls.rs`.
    OpenCallId,
    /// See `money.rs`.
    UsageSlug,
    /// Or a slug; see `keeping.rs`.
    UserName,
    /// See `conversations/access.rs` and `responses/in_conversation/foreign.rs`.
    Conversation,
    /// Idempotency keys, conversations and end users.
    Names,
    Nothing,
}

/// An id that nothing has.
pub const UNKNOWN: &str = "01890000-0000-7000-8000-000000000000";

async fn start(upstream: &Listener) -> App {
    App::start(upstream, AppOptions::plain()).await
}

async fn hello() -> Listener {
    Listener::in_turn(vec![ListenerReply::json(upstream_body("Hello", &[]))])
        .await
        .unwrap()
}

pub async fn client_of(app: &App, organization: &str, scopes: Vec<KeyScope>) -> TestClient {
    let key = app.key(organization, ToolGrant::All, scopes).await;
    app.with_key(Some(key))
}

/// The error without what differs between two requests.
pub fn error_of(got: &ReadAnswer) -> Value {
    let mut body = got.json();
    body["error"]["request_id"] = Value::Null;
    body
}

#[tokio::test]
async fn the_table_of_routes_is_whole() {
    let app = start(&hello().await).await;
    let mut routed = openapi::operations(&openapi::document(&app).await);
    routed.sort();
    let mut listed: Vec<_> = ROUTES
        .iter()
        .map(|(method, path, _)| ((*method).to_owned(), path.replace("{*", "{")))
        .collect();
    listed.sort();
    assert_eq!(routed, listed);
    // What is routed is in the document: nothing is routed beside it.
    let source = include_str!("../../src/server.rs");
    for way in [".route(", ".nest(", ".merge(", ".route_service("] {
        assert!(!source.contains(way), "{way}");
    }
}

async fn a_foreign_turn_is_answered_like_an_unknown_one_on_every_route(surface: WireFormat) {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let got = surfaces::send(&app.client, surface, &[], &ask("Hi")).await;
    let turn = got.header("turnwright-turn").to_owned();
    let answer_id = got.json()["id"].as_str().unwrap().to_owned();
    let scopes = vec![KeyScope::Chat, KeyScope::TurnsReadAll, KeyScope::Admin];
    let other = client_of(&app, "other", scopes).await;
    for (method, path, takes) in ROUTES {
        if takes != Takes::TurnId {
            continue;
        }
        for query in ["", "?full=1", "?format=chat"] {
            let at = |id: &str| format!("{}{query}", path.replace("{id}", id));
            let unknown = other.send(method, &at(UNKNOWN), &[], "").await.unwrap();
            assert_eq!(unknown.status, 404, "{method} {path}");
            for id in [turn.as_str(), answer_id.as_str()] {
                let own = app.client.send(method, &at(id), &[], "").await.unwrap();
                assert_eq!(own.status, 200, "{method} {}: {}", at(id), own.text());
                let foreign = other.send(method, &at(id), &[], "").await.unwrap();
                assert_eq!(foreign.status, 404, "{method} {}", at(id));
                assert_eq!(error_of(&foreign), error_of(&unknown));
                assert_eq!(foreign.header("turnwright-turn"), "");
            }
        }
    }
}

async fn a_foreign_cancel_stops_nothing(surface: WireFormat) {
    let reply = ListenerReply::pieces(
        "application/json",
        vec![
            ReplyPiece::HeadGate("go"),
            ReplyPiece::Bytes(upstream_body("Hello", &[]).into()),
        ],
    );
    let upstream = Listener::in_turn(vec![reply]).await.unwrap();
    let app = start(&upstream).await;
    let client = app.client.clone();
    let asking = tokio::spawn(async move {
        let headers = [("idempotency-key", "k")];
        surfaces::send(&client, surface, &headers, &ask("Hi")).await
    });
    upstream.asked_times(1).await;
    let turn = app.running_turn(surface, "k").await;
    let other = client_of(&app, "other", vec![KeyScope::Chat, KeyScope::Admin]).await;
    let path = format!("/v1/turns/{turn}/cancel");
    let refused = other.send("POST", &path, &[], "").await.unwrap();
    assert_eq!(refused.status, 404);
    upstream.open("go");
    let got = asking.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(app.turn(&turn).await["status"], "completed");
}

async fn names_of_another_organization_or_key_lead_to_nothing_of_theirs(surface: WireFormat) {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let names = [
        ("idempotency-key", "k"),
        ("turnwright-conversation", "c"),
        ("turnwright-user", "u"),
        ("x-stainless-retry-count", "1"),
    ];
    let body = ask("Hi");
    let first = surfaces::send(&app.client, surface, &names, &body).await;
    let turn = first.header("turnwright-turn").to_owned();
    assert_eq!(
        surfaces::send(&app.client, surface, &names, &body)
            .await
            .header("turnwright-turn"),
        turn
    );
    let scopes = vec![KeyScope::Chat, KeyScope::TurnsReadAll];
    for organization in ["other", "default"] {
        let other = client_of(&app, organization, scopes.clone()).await;
        // All names, then each alone beside the mark of a retry.
        let mut tries = vec![names.to_vec()];
        tries.extend(names[..3].iter().map(|name| vec![*name, names[3]]));
        tries.push(vec![names[3]]);
        for headers in tries {
            let got = surfaces::send(&other, surface, &headers, &body).await;
            assert_eq!(got.status, 200, "{}", got.text());
            assert_ne!(got.header("turnwright-turn"), turn, "{headers:?}");
        }
        // With another body the key would be refused if it were known.
        let got =
            surfaces::send(&other, surface, &[("idempotency-key", "k2")], &ask("Other")).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
    for asked in upstream.asked() {
        assert_eq!(asked.json()["messages"].as_array().unwrap().len(), 1);
    }
}

async fn a_key_without_turns_read_sees_only_its_own_turns(surface: WireFormat) {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let narrow = client_of(&app, "default", vec![KeyScope::Chat]).await;
    let of_wide = surfaces::send(&app.client, surface, &[], &ask("Hi")).await;
    let of_narrow = surfaces::send(&narrow, surface, &[], &ask("Hi")).await;
    let path = |got: &ReadAnswer| format!("/v1/turns/{}", got.header("turnwright-turn"));
    let see = async |client: &TestClient, path: String| {
        let got = client.send("GET", &path, &[], "").await.unwrap();
        got.status
    };
    assert_eq!(see(&narrow, path(&of_narrow)).await, 200);
    assert_eq!(see(&narrow, path(&of_wide)).await, 404);
    assert_eq!(see(&app.client, path(&of_narrow)).await, 200);
    let cancel = format!("{}/cancel", path(&of_wide));
    let refused = narrow.send("POST", &cancel, &[], "").await.unwrap();
    assert_eq!(refused.status, 404);
    // Its own, of which it has none.
    let reader = client_of(&app, "default", vec![KeyScope::TurnsRead]).await;
    assert_eq!(see(&reader, path(&of_wide)).await, 404);
    let reader = client_of(&app, "default", vec![KeyScope::TurnsReadAll]).await;
    assert_eq!(see(&reader, path(&of_wide)).await, 200);
    assert_eq!(
        surfaces::send(&reader, surface, &[], &ask("Hi"))
            .await
            .status,
        403
    );
}

async fn a_key_that_may_not_ask_is_refused_in_the_surfaces_own_shape(surface: WireFormat) {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let unscoped = app.key("default", ToolGrant::None, vec![KeyScope::TurnsRead]);
    for (key, status, code) in [
        (None, 401, "missing_api_key"),
        (Some("tw-wrong".to_owned()), 401, "invalid_api_key"),
        (Some(unscoped.await), 403, "insufficient_scope"),
    ] {
        let client = app.with_key(key);
        for streamed in [false, true] {
            let mut body = ask("Hi");
            body["stream"] = json!(streamed);
            let got = surfaces::send(&client, surface, &[], &body).await;
            assert_refused(surface, &got, status, code);
        }
    }
    assert!(upstream.asked().is_empty());
    // Clients of Messages have their key in a header of their own.
    let key = app.client.key.clone().unwrap();
    let own = [("x-api-key", key.as_str())];
    let got = surfaces::send(&app.with_key(None), surface, &own, &ask("Hi")).await;
    let is_taken = surface == WireFormat::AnthropicMessages;
    assert_eq!(
        got.status,
        if is_taken { 200 } else { 401 },
        "{}",
        got.text()
    );
}

async fn a_tool_granted_to_one_key_is_not_offered_to_another(surface: WireFormat) {
    let upstream = hello().await;
    let tools = ["alpha", "beta"]
        .map(|name| probe(name, EffectClass::Read, "http://127.0.0.1:9/".to_owned()));
    let app = App::start(&upstream, AppOptions::with_tools(tools.into())).await;
    let grants = [
        (ToolGrant::Named(vec!["alpha".to_owned()]), json!(["alpha"])),
        (ToolGrant::Named(vec!["beta".to_owned()]), json!(["beta"])),
        (ToolGrant::Named(vec!["gamma".to_owned()]), Value::Null),
        (ToolGrant::None, Value::Null),
    ];
    for (at, (grant, offered)) in grants.into_iter().enumerate() {
        let key = app.key("default", grant, vec![KeyScope::Chat]).await;
        let client = app.with_key(Some(key));
        let got = surfaces::send(&client, surface, &[], &ask("Hi")).await;
        assert_eq!(got.status, 200);
        let asked = upstream.asked()[at].json();
        let names = asked["tools"].as_array().map(|tools| {
            let names = tools.iter().map(|tool| tool["function"]["name"].clone());
            Value::Array(names.collect())
        });
        assert_eq!(names.unwrap_or(Value::Null), offered);
    }
}

async fn the_name_of_a_tool_that_the_key_may_not_use_is_the_clients_own(surface: WireFormat) {
    let tool = hello().await;
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body(
        "",
        &[("c1", "alpha", "{}")],
    ))])
    .await
    .unwrap();
    let alpha = probe("alpha", EffectClass::Read, tool.url("/"));
    let app = App::start(&upstream, AppOptions::with_tools(vec![alpha])).await;
    let key = app
        .key("other", ToolGrant::None, vec![KeyScope::Chat])
        .await;
    let mut request = ask("Hi");
    request["tools"] = json!([{ "type": "function", "function": { "name": "alpha" } }]);
    let client = app.with_key(Some(key));
    let got = surfaces::send(&client, surface, &[], &request).await;
    let calls = surfaces::read(surface, &got).calls();
    assert_eq!(calls[0]["function"]["name"], "alpha");
    assert!(tool.asked().is_empty());
}

async fn whoever_names_an_end_user_sees_only_their_turns(surface: WireFormat) {
    let upstream = hello().await;
    let app = start(&upstream).await;
    let ann = ("turnwright-user", "ann");
    let bob = ("turnwright-user", "bob");
    let anns = surfaces::send(&app.client, surface, &[ann], &ask("Hi")).await;
    let nobodys = surfaces::send(&app.client, surface, &[], &ask("Hi")).await;
    for (got, headers, status) in [
        (&anns, vec![ann], 200),
        (&anns, vec![], 200),
        (&anns, vec![bob], 404),
        (&nobodys, vec![], 200),
        (&nobodys, vec![ann], 404),
        (&anns, vec![ann, ann], 400),
    ] {
        let turn = got.header("turnwright-turn");
        for (method, path) in [("GET", ""), ("GET", "/events"), ("POST", "/cancel")] {
            let path = format!("/v1/turns/{turn}{path}");
            let got = app.client.send(method, &path, &headers, "").await.unwrap();
            assert_eq!(got.status, status, "{method} {path} {headers:?}");
        }
    }
}
