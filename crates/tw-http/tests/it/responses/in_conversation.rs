//! `conversation`: requests and answers that are added to one, and its items.

mod changed;
mod foreign;
mod running;

use serde_json::{Value, json};
use tw_testkit::client::{ReadAnswer, TestClient};

use super::{DID, Lab, RESPONSES, create, id, items, response};
use crate::app::CHAT;

const CONVERSATIONS: &str = "/v1/conversations";

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

async fn post(client: &TestClient, path: &str, body: Value) -> ReadAnswer {
    client
        .send("POST", path, &[], body.to_string())
        .await
        .unwrap()
}

async fn get(client: &TestClient, path: &str) -> ReadAnswer {
    client.send("GET", path, &[], "").await.unwrap()
}

async fn delete(client: &TestClient, path: &str) -> ReadAnswer {
    client.send("DELETE", path, &[], "").await.unwrap()
}

/// A new conversation; its id.
async fn made(client: &TestClient, body: Value) -> String {
    let made = response(&post(client, CONVERSATIONS, body).await);
    id(&made).to_owned()
}

/// A response in a conversation.
async fn said(lab: &Lab, conversation: &str, input: Value) -> Value {
    let body = json!({ "input": input, "conversation": conversation });
    response(&lab.create(body).await)
}

/// All items of a conversation, oldest first.
async fn all(client: &TestClient, conversation: &str) -> Vec<Value> {
    let path = format!("{CONVERSATIONS}/{conversation}/items?order=asc&limit=100");
    let list = response(&get(client, &path).await);
    list["data"].as_array().unwrap().clone()
}

/// Kind and text of each item.
fn told(items: &[Value]) -> Vec<(String, String)> {
    let text = |item: &Value| match item["type"].as_str().unwrap() {
        "message" => item["content"][0]["text"].as_str().unwrap().to_owned(),
        "mcp_call" => item["output"].as_str().unwrap().to_owned(),
        "function_call" => item["arguments"].as_str().unwrap().to_owned(),
        "function_call_output" => item["output"].as_str().unwrap().to_owned(),
        other => panic!("{other}"),
    };
    let kind = |item: &Value| match item["role"].as_str() {
        Some(role) => role.to_owned(),
        None => item["type"].as_str().unwrap().to_owned(),
    };
    items.iter().map(|item| (kind(item), text(item))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(kind, text): &(&str, &str)| ((*kind).to_owned(), (*text).to_owned());
    expected.iter().map(own).collect()
}

/// Role and text of what the model was sent last.
fn sent(lab: &Lab) -> Vec<(String, String)> {
    let messages = lab.sent();
    let messages = messages.as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages
        .map(|message| (text(&message["role"]), text(&message["content"])))
        .collect()
}

const ACTS: super::Said = ("Let me see.", &[("up_1", "act", "{\"n\":1}")]);

#[tokio::test]
async fn a_request_and_its_answer_are_added_and_stand_before_the_next() {
    let lab = Lab::start(&[ACTS, ("Done.", &[]), ("Two.", &[])]).await;
    let client = &lab.app.client;
    let body = json!({ "items": [user("I am Ann."), { "role": "assistant", "content": "Hi." }],
        "metadata": { "topic": "x" } });
    let made = response(&post(client, CONVERSATIONS, body).await);
    assert_eq!(
        (&made["object"], &made["metadata"]["topic"]),
        (&json!("conversation"), &json!("x"))
    );
    let name = id(&made);
    assert!(name.starts_with("conv_"), "{name}");

    let got = lab
        .create(json!({ "input": "go", "conversation": { "id": name } }))
        .await;
    assert_eq!(got.header("turnwright-conversation"), name);
    let one = response(&got);
    assert_eq!(one["conversation"], json!({ "id": name }));
    assert_eq!(one["previous_response_id"], Value::Null);
    let before = [("user", "I am Ann."), ("assistant", "Hi."), ("user", "go")];
    let asked = lab.upstream.asked();
    let messages = asked[0].json()["messages"].clone();
    let messages = messages.as_array().unwrap().iter();
    let messages = messages.map(|message| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&message["role"]), text(&message["content"]))
    });
    assert_eq!(messages.collect::<Vec<_>>(), pairs(&before));

    let mut expected = before.to_vec();
    expected.extend([
        ("assistant", "Let me see."),
        ("mcp_call", DID),
        ("assistant", "Done."),
    ]);
    assert_eq!(told(&all(client, name).await), pairs(&expected));
    for item in items(&one, "message") {
        assert!(all(client, name).await.contains(item), "{item}");
    }

    said(&lab, name, json!([user("and?")])).await;
    let told_model = [
        ("user", "I am Ann."),
        ("assistant", "Hi."),
        ("user", "go"),
        ("assistant", "Let me see."),
        ("tool", DID),
        ("assistant", "Done."),
        ("user", "and?"),
    ];
    assert_eq!(sent(&lab), pairs(&told_model));
    expected.extend([("user", "and?"), ("assistant", "Two.")]);
    assert_eq!(told(&all(client, name).await), pairs(&expected));
    assert_eq!(lab.tool.asked().len(), 1, "nothing ran again");

    // The record is the same as of any conversation.
    let row = response(&get(client, &format!("{CONVERSATIONS}/{name}")).await);
    assert_eq!(row["turn_count"], 3);
    let turns = response(&get(client, &format!("{CONVERSATIONS}/{name}/turns")).await);
    assert_eq!(turns["data"][0]["items_of"], "client");
    assert_eq!(turns["data"][2]["parent"], turns["data"][1]["id"]);
}

#[tokio::test]
async fn items_come_in_pages_from_behind_any_of_them() {
    let lab = Lab::start(&[ACTS, ("Done.", &[]), ("Two.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({ "items": [user("a"), user("b")] })).await;
    said(&lab, &name, json!("go")).await;
    let path = format!("{CONVERSATIONS}/{name}/items");
    let more = json!({ "items": [user("c"), { "type": "function_call", "call_id": "x", "name": "f", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "x", "output": "1" }] });
    let added = response(&post(client, &path, more).await);
    assert_eq!(added["data"].as_array().unwrap().len(), 3);
    assert_eq!(added["has_more"], false);
    let whole = all(client, &name).await;
    assert_eq!(whole.len(), 9);
    assert_eq!(whole[6..], added["data"].as_array().unwrap()[..]);
    for order in ["asc", "desc"] {
        let mut expected = whole.clone();
        if order == "desc" {
            expected.reverse();
        }
        for (at, item) in expected.iter().enumerate() {
            for limit in [1, 2, 9] {
                let page = format!("{path}?order={order}&limit={limit}&after={}", id(item));
                let page = response(&get(client, &page).await);
                let rest = &expected[at + 1..];
                let shown = &rest[..rest.len().min(limit)];
                assert_eq!(page["data"], json!(shown), "{order} {limit} {at}");
                assert_eq!(
                    page["has_more"],
                    json!(rest.len() > limit),
                    "{order} {limit} {at}"
                );
            }
            let one = response(&get(client, &format!("{path}/{}", id(item))).await);
            assert_eq!(&one, item);
        }
    }
    let newest = response(&get(client, &format!("{path}?limit=1")).await);
    assert_eq!(newest["data"][0], whole[8], "the newest come first");
    let no_cursor = get(client, &format!("{path}?after=msg_1")).await;
    assert_eq!(
        (no_cursor.status, &no_cursor.json()["error"]["param"]),
        (400, &json!("after"))
    );
    let no_item = get(client, &format!("{path}/msg_1")).await;
    assert_eq!(no_item.status, 404);
}

#[tokio::test]
async fn what_is_wrong_is_told_and_nothing_is_asked() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({})).await;
    let items = format!("{CONVERSATIONS}/{name}/items");
    let items = items.as_str();
    let rows = [
        (
            RESPONSES,
            json!({ "model": "m", "input": "x", "conversation": name, "previous_response_id": "resp_1" }),
            400,
            "previous_response_id",
            "mutually_exclusive_parameters",
        ),
        (
            RESPONSES,
            json!({ "model": "m", "input": "x", "conversation": 1 }),
            400,
            "conversation",
            "invalid_type",
        ),
        (
            RESPONSES,
            json!({ "model": "m", "input": "x", "conversation": {} }),
            400,
            "conversation.id",
            "missing_required_parameter",
        ),
        (
            RESPONSES,
            json!({ "model": "m", "input": "x", "conversation": "conv_1" }),
            404,
            "conversation",
            "conversation_not_found",
        ),
        (
            "/v1/responses/compact",
            json!({ "model": "m", "input": "x", "conversation": name }),
            400,
            "conversation",
            "unsupported_parameter",
        ),
        (
            CONVERSATIONS,
            json!({ "items": vec![user("x"); 21] }),
            400,
            "items",
            "array_above_max_length",
        ),
        (
            CONVERSATIONS,
            json!({ "items": [{ "role": "nobody", "content": "x" }] }),
            400,
            "items[0].role",
            "invalid_value",
        ),
        (
            CONVERSATIONS,
            json!({ "title": "x" }),
            400,
            "title",
            "unknown_parameter",
        ),
        (items, json!({ "items": [] }), 400, "items", "empty_array"),
        (
            items,
            json!({ "items": [{ "type": "item_reference", "id": "msg_1" }] }),
            404,
            "items",
            "item_not_found",
        ),
    ];
    for (path, body, status, param, code) in rows {
        let got = post(client, path, body.clone()).await;
        let error = &got.json()["error"];
        let found = (got.status, error["param"].as_str(), error["code"].as_str());
        assert_eq!(found, (status, Some(param), Some(code)), "{body}: {error}");
    }
    let headers = [("turnwright-conversation", "another")];
    let two = create(
        client,
        &headers,
        json!({ "input": "x", "conversation": name }),
    )
    .await;
    assert_eq!(
        (two.status, &two.json()["error"]["param"]),
        (400, &json!("conversation"))
    );
    assert_eq!(lab.upstream.asked().len(), 0);
    assert_eq!(all(client, &name).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_answer_that_is_not_to_be_stored_stays_in_its_conversation_alone() {
    let lab = Lab::start(&[("One.", &[]), ("Two.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({})).await;
    let body = json!({ "input": "go", "conversation": name, "store": false });
    let one = response(&lab.create(body).await);
    assert_eq!(one["store"], false);
    let read = get(client, &format!("{RESPONSES}/{}", id(&one))).await;
    assert_eq!(read.status, 404);
    let next = lab
        .create(json!({ "input": "x", "previous_response_id": id(&one) }))
        .await;
    assert_eq!(next.status, 404);
    said(&lab, &name, json!("and?")).await;
    let expected = [
        ("user", "go"),
        ("assistant", "One."),
        ("user", "and?"),
        ("assistant", "Two."),
    ];
    assert_eq!(told(&all(client, &name).await), pairs(&expected));
    assert_eq!(sent(&lab), pairs(&expected[..3]));
}

/// A conversation that turns made by its name is the same record.
#[tokio::test]
async fn a_name_has_items_and_a_header_may_name_what_was_made() {
    let lab = Lab::start(&[("One.", &[]), ("Two.", &[]), ("Three.", &[])]).await;
    let client = &lab.app.client;
    let chat = json!({ "model": "m", "messages": [{ "role": "system", "content": "Be brief." }, user("Hi")] });
    let headers = [("turnwright-conversation", "ideas")];
    let got = client
        .send("POST", CHAT, &headers, chat.to_string())
        .await
        .unwrap();
    assert_eq!(got.status, 200);
    let expected = [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("assistant", "One."),
    ];
    assert_eq!(told(&all(client, "ideas").await), pairs(&expected));
    let answer = said(&lab, "ideas", json!("and?")).await;
    assert_eq!(answer["conversation"]["id"], "ideas");
    let expected = [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("assistant", "One."),
        ("user", "and?"),
    ];
    assert_eq!(sent(&lab), pairs(&expected));

    // A client that keeps the history itself adds nothing to a conversation that was made.
    let name = made(client, json!({ "items": [user("a")] })).await;
    let headers = [("turnwright-conversation", name.as_str())];
    let got = client
        .send("POST", CHAT, &headers, chat.to_string())
        .await
        .unwrap();
    assert_eq!(got.status, 200);
    assert_eq!(told(&all(client, &name).await), pairs(&[("user", "a")]));
    let row = response(&get(client, &format!("{CONVERSATIONS}/{name}")).await);
    assert_eq!(row["turn_count"], 2);
    // Metadata is of those that were made.
    let refused = post(client, "/v1/conversations/ideas", json!({ "metadata": {} })).await;
    assert_eq!(refused.status, 400);
}
