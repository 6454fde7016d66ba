//! Who may do what with webhooks, and what bad input is told.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};
use tw_core::webhook::WEBHOOKS_MAX;

use super::{BASE, HookLab, manager, receiver, send, taken};

const UNKNOWN: &str = "01890000-0000-7000-8000-000000000000";

#[tokio::test]
async fn a_webhook_is_made_listed_changed_and_deleted_and_its_secret_is_told_once() {
    let there = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let body = json!({ "url": there.url("/hook"), "description": "billing", "events": ["call.failed", "turn.completed"] });
    let made = hooks.send("POST", "", body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let mut made = made.json();
    let secret = made.as_object_mut().unwrap().remove("secret").unwrap();
    assert!(secret.as_str().unwrap().starts_with("whsec_"));
    assert_eq!(
        (&made["events"], &made["contents"]),
        (&json!(["turn.completed", "call.failed"]), &json!("none"))
    );
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(hooks.webhook(&id).await, made);
    let listed = hooks.send("GET", "", Value::Null).await;
    assert_eq!(listed.json()["data"], json!([made]));
    let patch = json!({ "events": ["turn.failed"], "enabled": false, "contents": "full" });
    let changed = hooks.send("PATCH", &format!("/{id}"), patch).await.json();
    assert_eq!(
        (&changed["events"], &changed["enabled"]),
        (&json!(["turn.failed"]), &json!(false))
    );
    assert_eq!(
        (&changed["description"], &changed["contents"]),
        (&json!("billing"), &json!("full"))
    );
    assert_eq!(changed["disabled_reason"], "by_hand");
    for text in [listed.text(), changed.to_string()] {
        assert!(!text.contains("whsec_"), "{text}");
    }
    let deleted = hooks.send("DELETE", &format!("/{id}"), Value::Null).await;
    assert_eq!(
        deleted.json(),
        json!({ "id": id, "object": "webhook.deleted", "deleted": true })
    );
    assert_eq!(
        hooks
            .send("GET", &format!("/{id}"), Value::Null)
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn bad_input_is_refused_with_the_field() {
    let there = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let url = there.url("/hook");
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    let rows = [
        (json!({}), "invalid_json", None),
        (json!({ "url": url, "colour": 1 }), "invalid_json", None),
        (json!({ "url": 1 }), "invalid_json", None),
        (json!({ "url": "" }), "invalid_webhook", Some("url")),
        (
            json!({ "url": "ftp://example.com" }),
            "invalid_webhook",
            Some("url"),
        ),
        (
            json!({ "url": "http://example.com/hook" }),
            "invalid_webhook",
            Some("url"),
        ),
        (
            json!({ "url": "https://127.0.0.1:1/" }),
            "invalid_webhook",
            Some("url"),
        ),
        (
            json!({ "url": "https://user:pw@example.com/" }),
            "invalid_webhook",
            Some("url"),
        ),
        (json!({ "url": long }), "invalid_webhook", Some("url")),
        (
            json!({ "url": url, "events": [] }),
            "invalid_webhook",
            Some("events"),
        ),
        (
            json!({ "url": url, "events": ["turn.begun"] }),
            "invalid_webhook",
            Some("events"),
        ),
        (
            json!({ "url": url, "events": ["webhook.test"] }),
            "invalid_webhook",
            Some("events"),
        ),
        (
            json!({ "url": url, "contents": "some" }),
            "invalid_webhook",
            Some("contents"),
        ),
        (
            json!({ "url": url, "secret": "whsec_AAAA" }),
            "invalid_webhook",
            Some("secret"),
        ),
        (
            json!({ "url": url, "description": "a".repeat(201) }),
            "invalid_webhook",
            Some("description"),
        ),
    ];
    for (body, code, param) in rows {
        let got = hooks.send("POST", "", body.clone()).await;
        let error = &got.json()["error"];
        assert_eq!(
            (got.status, &error["code"]),
            (400, &json!(code)),
            "{body}: {}",
            got.text()
        );
        assert_eq!(error["param"], json!(param), "{body}");
    }
    let (id, _) = hooks.make(&there, json!({})).await;
    let rotate = json!({ "overlap_s": 604_801 });
    let rows = [
        (
            "PATCH",
            format!("/{id}"),
            json!({ "url": "http://10.0.0.1/" }),
        ),
        ("POST", format!("/{id}/rotate"), rotate),
        ("GET", format!("/{id}/deliveries?state=lost"), Value::Null),
        ("GET", format!("/{id}/deliveries?event=lost"), Value::Null),
        ("GET", format!("/{id}/deliveries?limit=0"), Value::Null),
        ("GET", format!("/{id}/deliveries?limit=1001"), Value::Null),
        ("GET", format!("/{id}/deliveries?after=evt_1"), Value::Null),
    ];
    for (method, path, body) in rows {
        let got = hooks.send(method, &path, body).await;
        assert_eq!(got.status, 400, "{path}: {}", got.text());
    }
    for _ in 1..WEBHOOKS_MAX {
        hooks.make(&there, json!({})).await;
    }
    let more = hooks.send("POST", "", json!({ "url": url })).await;
    assert_eq!(
        (more.status, &more.json()["error"]["code"]),
        (409, &json!("too_many_webhooks"))
    );
}

/// Every route, with the scope that it needs.
fn routes(id: &str, event: &str) -> [(&'static str, String, KeyScope); 11] {
    let (read, write) = (KeyScope::WebhooksRead, KeyScope::WebhooksWrite);
    [
        ("GET", String::new(), read),
        ("POST", String::new(), write),
        ("GET", format!("/{id}"), read),
        ("PATCH", format!("/{id}"), write),
        ("GET", format!("/{id}/deliveries"), read),
        ("GET", format!("/{id}/deliveries/{event}"), read),
        ("POST", format!("/{id}/deliveries/{event}/replay"), write),
        ("POST", format!("/{id}/replay"), write),
        ("POST", format!("/{id}/test"), write),
        ("POST", format!("/{id}/rotate"), write),
        ("DELETE", format!("/{id}"), write),
    ]
}

#[tokio::test]
async fn a_webhook_is_its_organizations_alone_and_each_route_needs_its_scope() {
    let there = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let (id, _) = hooks.make(&there, json!({})).await;
    hooks
        .send("POST", &format!("/{id}/test"), Value::Null)
        .await;
    let event = hooks.settled(&id, |one| one["state"] == "delivered").await[0]["id"].clone();
    let event = event.as_str().unwrap();
    let app = &hooks.lab.app;
    let stranger = manager(app, "other").await;
    for (method, path, scope) in routes(&id, event) {
        let ask = json!({});
        let nobody = app.with_key(None);
        let got = send(&nobody, method, &format!("{BASE}{path}"), ask.clone()).await;
        assert_eq!(got.status, 401, "{method} {path}");
        // As if neither were there.
        let foreign = send(&stranger, method, &format!("{BASE}{path}"), ask.clone()).await;
        assert_eq!(foreign.status, 404, "{method} {path}");
        if path.contains(&id) {
            let own = path.replace(&id, UNKNOWN);
            let unknown = send(
                &stranger,
                method,
                &format!("/api/other/webhooks{own}"),
                ask.clone(),
            )
            .await;
            let other = send(
                &stranger,
                method,
                &format!("/api/other/webhooks{path}"),
                ask.clone(),
            )
            .await;
            let error = |got: tw_testkit::client::ReadAnswer| {
                let mut body = got.json();
                body["error"]["request_id"] = Value::Null;
                (got.status, body)
            };
            assert_eq!(error(unknown), error(other), "{method} {path}");
        }
        let others = KeyScope::ALL.into_iter();
        let others = others.filter(|one| *one != scope && *one != KeyScope::Admin);
        let narrow = app.key("default", ToolGrant::All, others.collect()).await;
        let narrow = app.with_key(Some(narrow));
        let got = send(&narrow, method, &format!("{BASE}{path}"), ask).await;
        assert_eq!(got.status, 403, "{method} {path}");
    }
    assert_eq!(hooks.webhook(&id).await["enabled"], true);
}

/// Whoever may not read turns cannot have them sent to a place of its own.
#[tokio::test]
async fn contents_are_for_those_who_may_read_turns() {
    let there = receiver(vec![taken()]).await;
    let hooks = HookLab::reaching(&[&there]).await;
    let app = &hooks.lab.app;
    let scopes = vec![KeyScope::WebhooksRead, KeyScope::WebhooksWrite];
    let narrow = app.with_key(Some(app.key("default", ToolGrant::None, scopes).await));
    let (full, _) = hooks.make(&there, json!({ "contents": "full" })).await;
    let (thin, _) = hooks.make(&there, json!({})).await;
    let rows = [
        (
            "POST",
            String::new(),
            json!({ "url": there.url("/"), "contents": "full" }),
            403,
        ),
        (
            "PATCH",
            format!("/{thin}"),
            json!({ "contents": "full" }),
            403,
        ),
        (
            "PATCH",
            format!("/{full}"),
            json!({ "url": there.url("/mine") }),
            403,
        ),
        (
            "PATCH",
            format!("/{full}"),
            json!({ "description": "theirs" }),
            200,
        ),
        (
            "PATCH",
            format!("/{full}"),
            json!({ "contents": "none", "url": there.url("/") }),
            200,
        ),
        (
            "PATCH",
            format!("/{thin}"),
            json!({ "url": there.url("/mine") }),
            200,
        ),
    ];
    for (method, path, body, status) in rows {
        let got = send(&narrow, method, &format!("{BASE}{path}"), body.clone()).await;
        assert_eq!(got.status, status, "{body}: {}", got.text());
        if status == 403 {
            assert_eq!(got.json()["error"]["code"], "insufficient_scope");
        }
    }
}
