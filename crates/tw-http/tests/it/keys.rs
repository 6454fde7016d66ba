//! `/api/{slug}/keys…`

use serde_json::{Value, json};
use tw_core::change::Change;
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, ask, probe, upstream_body};

const KEYS: &str = "/api/default/keys";
const UNKNOWN: &str = "0194f2a0-0000-7000-8000-00000000ffff";

struct Lab {
    app: App,
    /// Its key may everything.
    admin: TestClient,
    upstream: Listener,
}

async fn lab() -> Lab {
    let upstream = Listener::in_turn(vec![ListenerReply::json(upstream_body("Hello", &[]))])
        .await
        .unwrap();
    let tools = ["act", "look"]
        .map(|name| probe(name, EffectClass::Read, "http://127.0.0.1:9/".to_owned()));
    let app = App::start(&upstream, AppOptions::with_tools(tools.into())).await;
    let admin = of(&app, ToolGrant::All, RateLimits::default(), None).await;
    Lab {
        app,
        admin,
        upstream,
    }
}

/// A client whose key has the scope `admin`.
async fn of(
    app: &App,
    tools: ToolGrant,
    limits: RateLimits,
    expires: Option<Timestamp>,
) -> TestClient {
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "admin".to_owned(),
        scopes: vec![KeyScope::Admin],
        tools,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits,
        expires,
    };
    let key = create_key(&app.store, &Env::system(), wanted).await;
    app.with_key(Some(key.unwrap()))
}

async fn send(client: &TestClient, method: &str, path: &str, body: &Value) -> ReadAnswer {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    client.send(method, path, &[], body).await.unwrap()
}

/// Makes a key, and returns what was told of it.
async fn made(client: &TestClient, body: &Value) -> Value {
    let got = send(client, "POST", KEYS, body).await;
    assert_eq!(got.status, 201, "{body}: {}", got.text());
    got.json()
}

fn without_key(told: &Value) -> Value {
    let mut told = told.clone();
    told.as_object_mut().unwrap().remove("key").unwrap();
    told
}

fn path_of(told: &Value) -> String {
    format!("{KEYS}/{}", told["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_key_is_made_used_listed_changed_and_ended() {
    let lab = lab().await;
    let body = json!({ "name": "phone", "scopes": ["chat"], "tools": ["act"], "tools_mode": "add", "record": "minimal",
        "memory": "key", "limits": { "requests_per_minute": 60, "streams": 0 }, "expires_days": 1 });
    let told = made(&lab.admin, &body).await;
    let key = told["key"].as_str().unwrap();
    assert!(key.starts_with("tw-") && key.starts_with(told["begins_with"].as_str().unwrap()));
    for (field, expected) in [
        ("object", json!("api_key")),
        ("name", json!("phone")),
        ("status", json!("active")),
        ("scopes", json!(["chat"])),
        ("tools", json!(["act"])),
        ("tools_mode", json!("add")),
        ("record", json!("minimal")),
        ("memory", json!("key")),
        (
            "limits",
            json!({ "requests_per_minute": 60, "concurrency": null, "streams": 0 }),
        ),
        ("last_used_at", Value::Null),
    ] {
        assert_eq!(told[field], expected, "{field}");
    }
    let (made_at, ends_at) = (
        told["created_at"].as_i64().unwrap(),
        told["expires_at"].as_i64().unwrap(),
    );
    assert_eq!(ends_at - made_at, 24 * 3600);

    // It works at once, and the key itself is told once.
    let client = lab.app.with_key(Some(key.to_owned()));
    let got = client.chat(&ask("Hi")).await.unwrap();
    assert_eq!(
        (got.status, got.header("x-ratelimit-limit-requests")),
        (200, "60")
    );
    assert_eq!(
        lab.upstream.asked()[0].json()["tools"][0]["function"]["name"],
        "act"
    );
    lab.app.settled().await;
    let path = path_of(&told);
    let shown = send(&lab.admin, "GET", &path, &Value::Null).await;
    assert!(!shown.text().contains(key), "{}", shown.text());
    let mut shown = shown.json();
    assert!(shown["last_used_at"].is_i64(), "{shown}");
    shown["last_used_at"] = Value::Null;
    assert_eq!(shown, without_key(&told));

    // What is not named stays.
    let change =
        json!({ "name": "tablet", "limits": { "requests_per_minute": null, "concurrency": 2 } });
    let changed = send(&lab.admin, "PATCH", &path, &change).await.json();
    assert_eq!(changed["name"], "tablet");
    assert_eq!(
        changed["limits"],
        json!({ "requests_per_minute": null, "concurrency": 2, "streams": 0 })
    );
    assert_eq!(
        (&changed["tools"], &changed["tools_mode"]),
        (&json!(["act"]), &json!("add"))
    );
    let change = json!({ "tools": ["look"], "tools_mode": "replace" });
    let changed = send(&lab.admin, "PATCH", &path, &change).await.json();
    assert_eq!(
        (&changed["tools"], &changed["tools_mode"]),
        (&json!(["look"]), &json!("replace"))
    );
    assert_eq!(
        (&changed["name"], &changed["limits"]["concurrency"]),
        (&json!("tablet"), &json!(2))
    );

    for _ in 0..2 {
        let ended = send(&lab.admin, "DELETE", &path, &Value::Null).await;
        assert_eq!((ended.status, &ended.json()["ended"]), (200, &json!(true)));
    }
    assert_eq!(
        send(&lab.admin, "GET", &path, &Value::Null).await.json()["status"],
        "ended"
    );
    let refused = send(&lab.admin, "PATCH", &path, &json!({ "name": "x" })).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (409, &json!("key_ended"))
    );
    // A server that has not seen it yet; this one may remember it for a second.
    let other = lab.app.restarted().await;
    let other = TestClient {
        key: Some(key.to_owned()),
        ..other
    };
    let got = other.chat(&ask("Hi")).await.unwrap();
    assert_eq!(got.json()["error"]["code"], "expired_api_key");
}

#[tokio::test]
async fn keys_are_listed_by_page_and_say_who_made_them() {
    let lab = lab().await;
    let first = made(&lab.admin, &json!({ "name": "first" })).await;
    let second = made(&lab.admin, &json!({ "name": "second" })).await;
    assert_eq!(first["scopes"], json!(["chat", "turns:read", "tools:read"]));
    let all = send(&lab.admin, "GET", KEYS, &Value::Null).await.json();
    let names: Vec<&Value> = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| &key["name"])
        .collect();
    assert_eq!(names, ["test", "admin", "first", "second"]);
    assert_eq!(all["has_more"], false);
    // One that a command has made has no maker.
    assert_eq!(all["data"][1]["created_by"], Value::Null);
    assert_eq!(all["data"][2]["created_by"], all["data"][1]["id"]);
    let id = all["data"][1]["id"].as_str().unwrap();
    for (query, names, has_more) in [
        (format!("?limit=1&after={id}"), vec!["first"], true),
        (
            format!("?limit=2&after={id}"),
            vec!["first", "second"],
            false,
        ),
        (
            format!("?after={}", second["id"].as_str().unwrap()),
            vec![],
            false,
        ),
    ] {
        let page = send(&lab.admin, "GET", &format!("{KEYS}{query}"), &Value::Null)
            .await
            .json();
        let found: Vec<&str> = page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            (found, &page["has_more"]),
            (names, &json!(has_more)),
            "{query}"
        );
    }
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("after=x", "after"),
        (&format!("after={UNKNOWN}"), "after"),
    ] {
        let got = send(&lab.admin, "GET", &format!("{KEYS}?{query}"), &Value::Null).await;
        assert_eq!(
            (got.status, &got.json()["error"]["param"]),
            (400, &json!(param)),
            "{query}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name_and_makes_nothing() {
    let lab = lab().await;
    let told = made(&lab.admin, &json!({})).await;
    let before = keys_of(&lab.admin).await;
    for (body, param, says) in [
        (
            json!({ "scopes": ["turns:write"] }),
            json!("scopes"),
            "turns:read_all",
        ),
        (json!({ "scopes": [] }), json!("scopes"), "needs a scope"),
        (json!({ "tools": "All" }), json!("tools"), "'all', 'none'"),
        (
            json!({ "tools": ["atc"] }),
            json!("tools"),
            "there is no tool",
        ),
        (
            json!({ "tools": ["lok"] }),
            json!("tools"),
            "did you mean look?",
        ),
        (
            json!({ "tools": ["a b"] }),
            json!("tools"),
            "no name of a tool",
        ),
        (
            json!({ "tools": ["act", "all"] }),
            json!("tools"),
            "no name of a tool",
        ),
        (
            json!({ "tools_mode": "both" }),
            json!("tools_mode"),
            "'replace' or 'add'",
        ),
        (
            json!({ "record": "some" }),
            json!("record"),
            "'full' or 'minimal'",
        ),
        (json!({ "memory": "on" }), json!("memory"), "'off' or 'key'"),
        (
            json!({ "expires_days": 0 }),
            json!("expires_days"),
            "from 1 to",
        ),
        (
            json!({ "expires_days": 36_501 }),
            json!("expires_days"),
            "from 1 to",
        ),
        (
            json!({ "name": "n".repeat(201) }),
            json!("name"),
            "200 bytes",
        ),
        (json!({ "limits": { "stream": 1 } }), Value::Null, "stream"),
        (
            json!({ "limits": { "streams": -1 } }),
            Value::Null,
            "does not fit",
        ),
        (json!({ "scope": "chat" }), Value::Null, "scope"),
        (json!([]), Value::Null, "does not fit"),
    ] {
        let got = send(&lab.admin, "POST", KEYS, &body).await;
        let error = got.json()["error"].clone();
        assert_eq!(
            (got.status, &error["param"]),
            (400, &param),
            "{body}: {error}"
        );
        assert!(
            error["message"].as_str().unwrap().contains(says),
            "{body}: {error}"
        );
    }
    for body in [
        json!({ "scopes": ["admin"] }),
        json!({ "expires_days": 1 }),
        json!({ "tools": ["lok"] }),
        json!({ "limits": { "streams": "1" } }),
    ] {
        let got = send(&lab.admin, "PATCH", &path_of(&told), &body).await;
        assert_eq!(got.status, 400, "{body}: {}", got.text());
    }
    assert_eq!(keys_of(&lab.admin).await, before);
    // What is only refused because it is not there yet can be had.
    let later = made(
        &lab.admin,
        &json!({ "tools": ["later"], "allow_unknown_tools": true }),
    )
    .await;
    assert_eq!(later["tools"], json!(["later"]));
}

#[tokio::test]
async fn a_key_gives_no_more_than_it_has() {
    let lab = lab().await;
    let own = RateLimits {
        requests_per_minute: Some(60),
        concurrency_max: Some(0),
        streams_max: None,
    };
    let ends = Timestamp(Env::system().now().0 + 48 * 3600 * 1_000_000);
    let narrow = of(
        &lab.app,
        ToolGrant::Named(vec!["act".to_owned()]),
        own,
        Some(ends),
    )
    .await;
    let free = made(&lab.admin, &json!({ "tools": "all" })).await;
    for (body, param) in [
        (json!({ "tools": "all" }), "tools"),
        (json!({ "tools": ["act", "look"] }), "tools"),
        (
            json!({ "limits": { "requests_per_minute": 61 } }),
            "limits.requests_per_minute",
        ),
        (
            json!({ "limits": { "requests_per_minute": 0 } }),
            "limits.requests_per_minute",
        ),
        (json!({ "expires_days": 3 }), "expires_days"),
    ] {
        let got = send(&narrow, "POST", KEYS, &body).await;
        let error = got.json()["error"].clone();
        assert_eq!(
            (got.status, &error["code"], &error["param"]),
            (403, &json!("insufficient_key"), &json!(param)),
            "{body}: {error}"
        );
        if param != "expires_days" {
            let got = send(&narrow, "PATCH", &path_of(&free), &body).await;
            assert_eq!(got.status, 403, "{body}: {}", got.text());
        }
    }
    // What is as wide is given, and what is not said is as wide.
    let same = made(&narrow, &json!({ "tools": ["act"], "limits": { "requests_per_minute": 60, "streams": 9 }, "expires_days": 1 })).await;
    assert_eq!(
        same["limits"],
        json!({ "requests_per_minute": 60, "concurrency": null, "streams": 9 })
    );
    let unsaid = made(&narrow, &json!({})).await;
    assert_eq!(unsaid["limits"]["requests_per_minute"], 60);
    assert_eq!(unsaid["expires_at"], ends.seconds());
    // Nobody's limits change with a name.
    let named = send(&narrow, "PATCH", &path_of(&free), &json!({ "name": "x" }))
        .await
        .json();
    assert_eq!(
        (&named["tools"], &named["limits"]["requests_per_minute"]),
        (&json!("all"), &Value::Null)
    );
}

/// The keys of an organization without the time of their last use, which is noted when it may be.
async fn keys_of(admin: &TestClient) -> Vec<Value> {
    let listed = send(admin, "GET", KEYS, &Value::Null).await.json();
    let mut keys = listed["data"].as_array().unwrap().clone();
    for key in &mut keys {
        assert!(
            key.as_object_mut()
                .unwrap()
                .remove("last_used_at")
                .is_some()
        );
    }
    keys
}

#[tokio::test]
async fn only_administrators_of_the_organization_see_its_keys() {
    let lab = lab().await;
    let told = made(&lab.admin, &json!({})).await;
    let path = path_of(&told);
    let before = keys_of(&lab.admin).await;
    let lacking: Vec<KeyScope> = KeyScope::ALL
        .into_iter()
        .filter(|scope| *scope != KeyScope::Admin)
        .collect();
    let lacking = lab.app.key("default", ToolGrant::All, lacking).await;
    let other = lab
        .app
        .key("other", ToolGrant::All, vec![KeyScope::Admin])
        .await;
    for (key, status, code) in [
        (None, 401, "missing_api_key"),
        (Some("tw-wrong".to_owned()), 401, "invalid_api_key"),
        (Some(lacking), 403, "insufficient_scope"),
        (Some(other.clone()), 404, "not_found"),
    ] {
        let client = lab.app.with_key(key);
        for (method, path) in [
            ("GET", KEYS),
            ("POST", KEYS),
            ("GET", &path),
            ("PATCH", &path),
            ("DELETE", &path),
        ] {
            let got = send(&client, method, path, &json!({})).await;
            assert_eq!(
                (got.status, &got.json()["error"]["code"]),
                (status, &json!(code)),
                "{method} {path}"
            );
        }
    }
    // By its own path another organization's key is not there, and neither is one that nobody has.
    let other = lab.app.with_key(Some(other));
    let foreign = path.replace("/default/", "/other/");
    for path in [
        foreign.as_str(),
        "/api/other/keys/junk",
        &format!("/api/other/keys/{UNKNOWN}"),
    ] {
        for method in ["GET", "PATCH", "DELETE"] {
            let got = send(&other, method, path, &json!({})).await;
            assert_eq!(got.status, 404, "{method} {path}");
        }
    }
    // One was made meanwhile, by the test itself.
    assert_eq!(keys_of(&lab.admin).await[..3], before[..3]);
    // A change that names another organization's key touches nothing.
    let org = tw_core::id::OrgId(2);
    let listed = async || {
        let mut keys = lab.app.store.api_keys(org, None, 9).await.unwrap();
        for key in &mut keys {
            key.last_used = None;
        }
        keys
    };
    let before = listed().await;
    let change = Change::ChangeApiKey(tw_core::change::ChangeApiKey {
        organization: tw_core::id::OrgId(1),
        key: before[0].id,
        name: "taken".to_owned(),
        tools: ToolGrant::All,
        tools_mode: ToolsMode::Add,
        limits: RateLimits::default(),
        at: Timestamp(1),
    });
    lab.app.store.apply(vec![change]).await.unwrap();
    assert_eq!(listed().await, before);
}
