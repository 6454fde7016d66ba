//! What is taken out of a conversation, and conversations that are changed and deleted.

use serde_json::{Value, json};

use super::{ACTS, CONVERSATIONS, all, delete, get, made, pairs, post, said, sent, told, user};
use crate::responses::{Lab, RESPONSES, id, response};

#[tokio::test]
async fn an_item_that_is_taken_out_is_not_there_for_the_model_either() {
    let lab = Lab::start(&[ACTS, ("Done.", &[]), ("Two.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({ "items": [user("a"), user("b")] })).await;
    said(&lab, &name, json!([user("c"), user("d")])).await;
    let path = |item: &Value| format!("{CONVERSATIONS}/{name}/items/{}", id(item));
    let whole = all(client, &name).await;
    // One that was added, one of a request, and one of an answer.
    for at in [0, 2, 4] {
        let left = response(&delete(client, &path(&whole[at])).await);
        assert_eq!(
            (&left["id"], &left["object"]),
            (&json!(name), &json!("conversation"))
        );
        for again in [
            delete(client, &path(&whole[at])).await,
            get(client, &path(&whole[at])).await,
        ] {
            assert_eq!(again.status, 404);
        }
    }
    let left = all(client, &name).await;
    let expected = [
        ("user", "b"),
        ("user", "d"),
        ("mcp_call", r#"{"did":"it"}"#),
        ("assistant", "Done."),
    ];
    assert_eq!(told(&left), pairs(&expected));
    said(&lab, &name, json!("e")).await;
    let expected = [
        ("user", "b"),
        ("user", "d"),
        ("assistant", ""),
        ("tool", r#"{"did":"it"}"#),
        ("assistant", "Done."),
        ("user", "e"),
    ];
    assert_eq!(sent(&lab), pairs(&expected));
    // A cursor that is gone is none.
    let gone = get(
        client,
        &format!("{CONVERSATIONS}/{name}/items?after={}", id(&whole[0])),
    )
    .await;
    assert_eq!(gone.status, 400);
}

#[tokio::test]
async fn the_contents_of_added_items_go_with_the_last_of_them() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({ "items": [user("a secret"), user("b")] })).await;
    let turns = format!("{CONVERSATIONS}/{name}/turns");
    for item in all(client, &name).await {
        response(
            &delete(
                client,
                &format!("{CONVERSATIONS}/{name}/items/{}", id(&item)),
            )
            .await,
        );
    }
    let left = response(&get(client, &turns).await);
    assert_eq!(left["data"], json!([]));
    // The conversation is still there, and goes on from nothing.
    said(&lab, &name, json!("go")).await;
    assert_eq!(sent(&lab), pairs(&[("user", "go")]));
}

#[tokio::test]
async fn a_deleted_response_is_out_and_the_conversation_goes_on() {
    let lab = Lab::start(&[
        ("One.", &[]),
        ("Two.", &[]),
        ("Three.", &[]),
        ("Four.", &[]),
    ])
    .await;
    let client = &lab.app.client;
    let name = made(client, json!({})).await;
    said(&lab, &name, json!("1")).await;
    let two = said(&lab, &name, json!("2")).await;
    said(&lab, &name, json!("3")).await;
    response(&delete(client, &format!("{RESPONSES}/{}", id(&two))).await);
    let four = said(&lab, &name, json!("4")).await;
    let expected = [
        ("user", "1"),
        ("assistant", "One."),
        ("user", "3"),
        ("assistant", "Three."),
        ("user", "4"),
    ];
    assert_eq!(sent(&lab), pairs(&expected));
    assert_eq!(all(client, &name).await.len(), 6);
    // By its name it is continued with all of that.
    let body = json!({ "input": "5", "previous_response_id": id(&four) });
    response(&lab.create(body).await);
    assert_eq!(sent(&lab).len(), 7);
    assert_eq!(all(client, &name).await.len(), 6, "that is another branch");
}

#[tokio::test]
async fn metadata_is_changed_and_a_deleted_conversation_is_gone() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let client = &lab.app.client;
    let name = made(client, json!({ "metadata": { "a": "1" } })).await;
    let path = format!("{CONVERSATIONS}/{name}");
    let changed = response(&post(client, &path, json!({ "metadata": { "b": "2" } })).await);
    assert_eq!(changed["metadata"], json!({ "b": "2" }));
    assert_eq!(response(&get(client, &path).await), changed);
    let list = response(&get(client, CONVERSATIONS).await);
    assert_eq!(
        list["data"],
        json!([changed]),
        "one without turns is listed, too"
    );
    said(&lab, &name, json!("go")).await;
    let gone = response(&delete(client, &path).await);
    assert_eq!(
        gone,
        json!({ "id": name, "object": "conversation.deleted", "deleted": true })
    );
    for got in [
        get(client, &path).await,
        delete(client, &path).await,
        get(client, &format!("{path}/items")).await,
        post(client, &path, json!({ "metadata": {} })).await,
        post(
            client,
            &format!("{path}/items"),
            json!({ "items": [user("x")] }),
        )
        .await,
        lab.create(json!({ "input": "x", "conversation": name }))
            .await,
    ] {
        assert_eq!(got.status, 404, "{}", got.text());
    }
    let empty = made(client, json!({})).await;
    response(&delete(client, &format!("{CONVERSATIONS}/{empty}")).await);
    let list = response(&get(client, CONVERSATIONS).await);
    assert_eq!(list["data"], json!([]));
}
