//! Foreign conversations: answered like unknown ones, whoever owns them.

use serde_json::{Value, json};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_testkit::client::{ReadAnswer, TestClient};

use super::{CONVERSATIONS, all, made, post, user};
use crate::responses::{Lab, create, id, response};
use crate::tenants::error_of;

/// Each request about a conversation and one of its items.
async fn each(
    client: &TestClient,
    headers: &[(&str, &str)],
    name: &str,
    item: &str,
) -> Vec<ReadAnswer> {
    let one = format!("{CONVERSATIONS}/{name}");
    let items = format!("{one}/items");
    let of_item = format!("{items}/{item}");
    let change = json!({ "metadata": { "x": "y" } }).to_string();
    let added = json!({ "items": [user("x")] }).to_string();
    let mut answers = Vec::new();
    for (method, path, body) in [
        ("GET", &one, String::new()),
        ("POST", &one, change),
        ("GET", &items, String::new()),
        ("POST", &items, added),
        ("GET", &of_item, String::new()),
        ("DELETE", &of_item, String::new()),
        ("DELETE", &one, String::new()),
    ] {
        answers.push(client.send(method, path, headers, body).await.unwrap());
    }
    answers.push(
        create(
            client,
            headers,
            json!({ "input": "x", "conversation": name }),
        )
        .await,
    );
    answers
}

fn errors(answers: &[ReadAnswer]) -> Vec<(u16, Value)> {
    let errors = answers.iter().map(|got| (got.status, error_of(got)));
    errors.collect()
}

/// What it is, who asks, with which headers, and for which conversation.
type Row<'a> = (&'a str, &'a TestClient, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
async fn a_foreign_conversation_is_answered_like_an_unknown_one() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let app = &lab.app;
    let body = json!({ "items": [user("a secret")], "metadata": { "a": "secret" } });
    let name = made(&app.client, body.clone()).await;
    let item = all(&app.client, &name).await[0].clone();
    let unknown = each(&app.client, &[], "conv_0", "msg_0").await;
    let unknown = errors(&unknown);
    assert!(
        unknown.iter().all(|(status, _)| *status == 404),
        "{unknown:?}"
    );

    let narrow = app
        .key("default", ToolGrant::All, vec![KeyScope::Chat])
        .await;
    let narrow = app.with_key(Some(narrow));
    let everything = vec![KeyScope::Chat, KeyScope::TurnsReadAll, KeyScope::Admin];
    let elsewhere = app.key("other", ToolGrant::All, everything).await;
    let elsewhere = app.with_key(Some(elsewhere));
    let of_ann = [("turnwright-user", "ann")];
    let ann = app
        .client
        .send("POST", CONVERSATIONS, &of_ann, body.to_string());
    let ann = response(&ann.await.unwrap());
    let bob: &[(&str, &str)] = &[("turnwright-user", "bob")];
    let rows: [Row<'_>; 3] = [
        ("another key", &narrow, &[], &name),
        ("another organization", &elsewhere, &[], &name),
        ("another end user", &app.client, bob, id(&ann)),
    ];
    for (what, client, headers, name) in rows {
        let got = each(client, headers, name, id(&item)).await;
        assert_eq!(errors(&got), unknown, "{what}");
        assert!(
            !got.iter().any(|got| got.text().contains("secret")),
            "{what}"
        );
    }
    assert_eq!(lab.upstream.asked().len(), 0, "no model was asked");
    assert_eq!(all(&app.client, &name).await.len(), 1);
    // An item of another conversation is none of this one.
    let other = made(&app.client, json!({ "items": [user("x")] })).await;
    let path = format!("{CONVERSATIONS}/{other}/items/{}", id(&item));
    let got = app.client.send("GET", &path, &[], "").await.unwrap();
    assert_eq!(got.status, 404);
}

/// What is made for nobody in particular is theirs whom its first turn is for.
#[tokio::test]
async fn a_conversation_becomes_that_of_whom_it_is_used_for() {
    let lab = Lab::start(&[("One.", &[]), ("Two.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({})).await;
    let as_ann = json!({ "input": "go", "conversation": name, "safety_identifier": "ann" });
    response(&create(client, &[], as_ann).await);
    for (headers, body) in [
        (
            vec![],
            json!({ "input": "x", "conversation": name, "user": "bob" }),
        ),
        (
            vec![("turnwright-user", "bob")],
            json!({ "input": "x", "conversation": name }),
        ),
    ] {
        assert_eq!(create(client, &headers, body).await.status, 404);
    }
    // Who is not named goes on as her.
    let next = create(client, &[], json!({ "input": "x", "conversation": name })).await;
    response(&next);
    assert_eq!(lab.app.turn_of(&next).await["user"], "ann");
}

#[tokio::test]
async fn a_key_that_keeps_nothing_has_no_conversations() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "minimal".to_owned(),
        scopes: vec![KeyScope::Chat],
        tools: ToolGrant::None,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Minimal,
        memory: KeyMemory::Off,
        limits: RateLimits::default(),
        expires: None,
    };
    let key = create_key(&lab.app.store, &Env::system(), wanted).await;
    let client = lab.app.with_key(Some(key.unwrap()));
    let got = post(&client, CONVERSATIONS, json!({})).await;
    assert_eq!(
        (got.status, &got.json()["error"]["param"]),
        (400, &json!("conversation"))
    );
    let got = create(&client, &[], json!({ "input": "x", "conversation": "c" })).await;
    assert_eq!(
        (got.status, &got.json()["error"]["param"]),
        (400, &json!("conversation"))
    );
}
