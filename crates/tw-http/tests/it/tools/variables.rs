//! Variables: from the request to what is sent and to what the model is told, and never further.

use serde_json::{Value, json};
use tw_testkit::listener::{ListenerReply, ReceivedRequest};

use super::lab::ToolLab;
use crate::app::ask;

async fn lab() -> ToolLab {
    ToolLab::answering(ListenerReply::json("{}")).await
}

fn with_metadata(text: &str, metadata: Value) -> Value {
    let mut request = ask(text);
    request["metadata"] = metadata;
    request
}

fn last(lab: &ToolLab) -> ReceivedRequest {
    lab.service.asked().pop().unwrap()
}

/// Everywhere that a variable may stand.
fn everywhere() -> Value {
    json!({
        "method": "POST",
        "description": "For {{caller}}.",
        "url": "URL",
        "headers": { "x-caller": "is {{caller}}" },
        "query": { "q": "<{{caller}}>" },
        "body": { "static": { "caller": "{{caller}}" } },
        "parameters": {
            "fixed": { "mode": "fixed", "value": ["{{caller}}"] },
            "link": { "mode": "fixed", "value": "https://x.example/?c={{caller}}", "format": "uri" },
            "note": { "mode": "ai", "prompt": "A note for {{caller}}" },
        },
        "variables": { "caller": { "description": "Who calls", "default": "no one" } },
    })
}

async fn make_everywhere(lab: &ToolLab) -> String {
    let mut members = everywhere();
    members["url"] = json!(lab.service.url("/of/{{caller}}?c={{caller}}"));
    lab.make("act", "/", members).await
}

#[tokio::test]
async fn a_value_is_escaped_for_where_it_lands() {
    let lab = lab().await;
    make_everywhere(&lab).await;
    // The value, and how it stands in a URL.
    for (value, in_url) in [
        ("Ann", "Ann"),
        ("a/b?c#d&e=f+g h%2F", "a%2Fb%3Fc%23d%26e%3Df%2Bg%20h%252F"),
        ("\"}],\"x\":1\\", "%22%7D%5D%2C%22x%22%3A1%5C"),
        (
            "{{today}} {{caller}}",
            "%7B%7Btoday%7D%7D%20%7B%7Bcaller%7D%7D",
        ),
        (
            "{note} {\"secret\":\"KEY\"}",
            "%7Bnote%7D%20%7B%22secret%22%3A%22KEY%22%7D",
        ),
        (
            "$& \\1 %s ${x} `y`",
            "%24%26%20%5C1%20%25s%20%24%7Bx%7D%20%60y%60",
        ),
    ] {
        let body = with_metadata(r#"act {"note":"{{caller}}"}"#, json!({ "caller": value }));
        let ran = lab.run_with(&lab.app.client, &[], &body).await;
        assert_eq!(ran.ended(), "completed", "{value}: {}", ran.call());
        let asked = last(&lab);
        let target = format!("/of/{in_url}?c={in_url}&q=%3C{in_url}%3E");
        assert_eq!(asked.target, target);
        assert_eq!(asked.header("x-caller"), format!("is {value}"));
        let wanted = json!({
            "fixed": [value], "link": format!("https://x.example/?c={in_url}"),
            "note": "{{caller}}", "static": { "caller": value },
        });
        assert_eq!(asked.json(), wanted, "{value}");
        let function = lab.offered()[0]["function"].clone();
        assert_eq!(function["description"], format!("For {value}."));
        let note = &function["parameters"]["properties"]["note"];
        assert_eq!(note["description"], format!("A note for {value}"));
    }
}

#[tokio::test]
async fn a_value_that_cannot_stand_there_sends_nothing() {
    let lab = lab().await;
    make_everywhere(&lab).await;
    for value in ["a\r\nx-evil: 1", "a\nb", "a\u{0}b", "\u{7f}", ".", ".."] {
        let body = with_metadata(r#"act {"note":"n"}"#, json!({ "caller": value }));
        let ran = lab.run_with(&lab.app.client, &[], &body).await;
        assert_eq!(ran.ended(), "failed not_sent", "{value:?}");
    }
    assert!(lab.service.asked().is_empty());
}

#[tokio::test]
async fn the_default_holds_unless_the_request_gives_a_text() {
    let lab = lab().await;
    let members = json!({
        "description": "For {{caller}}.",
        "url": lab.service.url("/{{caller}}"),
        "variables": { "caller": { "default": "no one" } },
    });
    lab.make("act", "/", members).await;
    for (metadata, told) in [
        (Value::Null, "no one"),
        (json!({}), "no one"),
        (json!({ "Caller": "x", "caller ": "y" }), "no one"),
        (json!({ "caller": null }), "no one"),
        (json!({ "caller": "Ann" }), "Ann"),
        (json!({ "caller": 7 }), "7"),
        (json!({ "caller": true }), "true"),
        (json!({ "caller": ["x"] }), "no one"),
        (json!({ "caller": { "x": "y" } }), "no one"),
        // What the server knows is not for the request to say.
        (
            json!({ "caller": "Bob", "organization": "other", "today": "x" }),
            "Bob",
        ),
    ] {
        let body = with_metadata("act", metadata.clone());
        let ran = lab.run_with(&lab.app.client, &[], &body).await;
        assert_eq!(ran.ended(), "completed", "{metadata}");
        assert_eq!(last(&lab).target, format!("/{}", told.replace(' ', "%20")));
        let description = lab.offered()[0]["function"]["description"].clone();
        assert_eq!(description, format!("For {told}."), "{metadata}");
        // It is for the tools, and many upstreams refuse it.
        let asked = lab.model.asked().pop().unwrap().json();
        assert_eq!(asked["metadata"], Value::Null);
    }
}

#[tokio::test]
async fn a_missing_value_is_named_and_nothing_is_sent() {
    let lab = lab().await;
    let declared = json!({ "caller": {} });
    for (name, members) in [
        (
            "in_path",
            json!({ "url": lab.service.url("/{{caller}}"), "variables": declared }),
        ),
        (
            "in_query",
            json!({ "url": lab.service.url("/?q={{caller}}"), "variables": declared }),
        ),
        (
            "in_header",
            json!({ "headers": { "x": "{{caller}}" }, "variables": declared }),
        ),
        (
            "in_static",
            json!({ "query": { "x": "{{caller}}" }, "variables": declared }),
        ),
        (
            "in_body",
            json!({ "method": "POST", "body": { "x": ["{{caller}}"] }, "variables": declared }),
        ),
        (
            "in_fixed",
            json!({
                "parameters": { "x": { "mode": "fixed", "value": "{{caller}}" } },
                "variables": declared,
            }),
        ),
    ] {
        let mut members = members;
        members["description"] = json!("For <{{caller}}>.");
        let id = lab.make(name, "/", members).await;
        for metadata in [
            json!({}),
            json!({ "caller": null }),
            json!({ "caller": [] }),
        ] {
            let body = with_metadata(name, metadata);
            let ran = lab.run_with(&lab.app.client, &[], &body).await;
            assert_eq!(ran.ended(), "failed not_sent", "{name}");
            let shown = ran.call()["shown"].as_str().unwrap();
            assert!(shown.contains("\"caller\""), "{name}: {shown}");
            // In a prompt it is nothing.
            let description = &lab.offered()[0]["function"]["description"];
            assert_eq!(description, "For <>.", "{name}");
        }
        lab.delete(&id).await;
    }
    // One that the server would know is missing when nobody is named.
    lab.make("act", "/", json!({ "headers": { "x": "{{end_user}}" } }))
        .await;
    let ran = lab.run("act").await;
    assert_eq!(ran.ended(), "failed not_sent");
    assert!(ran.call()["shown"].as_str().unwrap().contains("end_user"));
    assert!(lab.service.asked().is_empty());
}

#[tokio::test]
async fn what_is_always_there_is_of_this_turn() {
    let lab = lab().await;
    let names = [
        "organization",
        "end_user",
        "conversation",
        "turn",
        "tool_call",
        "now",
        "today",
    ];
    let query: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), json!(format!("{{{{{name}}}}}"))))
        .collect();
    let told = json!({
        "query": query,
        "description": "{{organization}} {{end_user}} {{conversation}} {{today}}",
    });
    lab.make("act", "/", told).await;
    let headers = [
        ("turnwright-user", "Ann B"),
        ("turnwright-conversation", "c 1"),
    ];
    let ran = lab.run_with(&lab.app.client, &headers, &ask("act")).await;
    let target = last(&lab).target;
    let (_, query) = target.split_once('?').unwrap();
    let sent: Vec<(String, String)> = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let sent = |name: &str| {
        sent.iter()
            .find(|(other, _)| other == name)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(sent("organization"), "default");
    assert_eq!(sent("end_user"), "Ann B");
    assert_eq!(sent("conversation"), "c 1");
    assert_eq!(sent("turn"), ran.turn["id"].as_str().unwrap());
    assert_eq!(sent("tool_call"), ran.call()["id"].as_str().unwrap());
    let today = sent("today");
    assert_eq!(sent("now").split_once('T').unwrap().0, today);
    assert_eq!(
        (today.len(), sent("now").len()),
        (10, 20),
        "{}",
        sent("now")
    );
    let description = lab.offered()[0]["function"]["description"].clone();
    assert_eq!(description, format!("default Ann B c 1 {today}"));
}

#[tokio::test]
async fn two_people_in_one_conversation_are_told_apart() {
    let lab = lab().await;
    let members = json!({
        "description": "For {{caller}}, {{end_user}}.",
        "headers": { "x-who": "{{caller}} {{end_user}}" },
        "variables": { "caller": {} },
    });
    lab.make("act", "/", members).await;
    for (user, caller) in [("ann", "+1"), ("bob", "+2"), ("ann", "+3")] {
        let headers = [("turnwright-user", user), ("turnwright-conversation", "c")];
        let body = with_metadata("act", json!({ "caller": caller }));
        lab.run_with(&lab.app.client, &headers, &body).await;
        assert_eq!(last(&lab).header("x-who"), format!("{caller} {user}"));
        for asked in lab.model.asked().iter().rev().take(2) {
            let function = asked.json()["tools"][0]["function"].clone();
            assert_eq!(function["description"], format!("For {caller}, {user}."));
        }
    }
}

#[tokio::test]
async fn turns_at_the_same_time_do_not_mix() {
    let lab = lab().await;
    let members = json!({
        "headers": { "x-who": "{{caller}}" }, "variables": { "caller": {} },
        "parameters": { "n": { "mode": "ai", "schema": { "type": "integer" } } },
    });
    lab.make("act", "/", members).await;
    let running = (0..20).map(|n| {
        let body = with_metadata(
            &format!("act {{\"n\":{n}}}"),
            json!({ "caller": format!("caller {n}") }),
        );
        let client = lab.app.client.clone();
        async move { client.chat(&body).await.unwrap().status }
    });
    let statuses = futures_util::future::join_all(running).await;
    assert_eq!(statuses, [200; 20]);
    let mut sent: Vec<(String, String)> = lab
        .service
        .asked()
        .iter()
        .map(|asked| (asked.target.clone(), asked.header("x-who").to_owned()))
        .collect();
    sent.sort();
    let mut wanted: Vec<(String, String)> = (0..20)
        .map(|n| (format!("/?n={n}"), format!("caller {n}")))
        .collect();
    wanted.sort();
    assert_eq!(sent, wanted);
}
