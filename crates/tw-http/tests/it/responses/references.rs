//! Items of earlier responses that a request refers to by their ids.

use serde_json::{Value, json};
use tw_core::tenant::{KeyScope, ToolGrant};

use super::{DID, Lab, create, id, items, response};

fn reference(id: &Value) -> Value {
    json!({ "type": "item_reference", "id": id })
}

#[tokio::test]
async fn items_stand_where_they_are_referred_to() {
    let answers = [
        ("", &[("up_1", "act", "{}")] as &[_]),
        ("Done.", &[]),
        ("Two.", &[]),
    ];
    let lab = Lab::start(&answers).await;
    let input = json!([{ "role": "user", "content": "go" }]);
    let one = response(&lab.create(json!({ "input": input })).await);
    let turn = id(&one).strip_prefix("resp_").unwrap();
    let asked = json!(format!("msg_{turn}_0_0"));
    let ran = &items(&one, "mcp_call")[0]["id"];
    let said = &items(&one, "message")[0]["id"];
    let more = json!([
        reference(&asked),
        reference(ran),
        { "id": said },
        { "role": "user", "content": "and?" },
    ]);
    lab.app.settled().await;
    for later in [&lab, &lab.again(&[("Two.", &[])]).await] {
        response(&later.create(json!({ "input": more })).await);
        let sent = later.sent();
        let roles: Vec<&str> = sent
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(
            roles,
            ["user", "assistant", "tool", "assistant", "user"],
            "{sent}"
        );
        assert_eq!(sent[0]["content"], "go", "{sent}");
        assert_eq!(sent[1]["tool_calls"][0]["function"]["name"], "act");
        assert_eq!(sent[2]["content"], DID);
        assert_eq!(sent[3]["content"], "Done.");
    }
    assert_eq!(lab.tool.asked().len(), 1);
}

#[tokio::test]
async fn an_item_that_is_not_there_is_not_found_whoever_has_it() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let one = response(&lab.create(json!({ "input": "go" })).await);
    let unstored = response(&lab.create(json!({ "input": "go", "store": false })).await);
    let message = |response: &Value| items(response, "message")[0]["id"].clone();
    let narrow = lab.app.key("default", ToolGrant::All, vec![KeyScope::Chat]);
    let narrow = lab.app.with_key(Some(narrow.await));
    let own = &lab.app.client;
    let bob: &[(&str, &str)] = &[("turnwright-user", "bob")];
    let rows = [
        (own, &[] as &[_], json!("msg_1")),
        (own, &[], json!("msg_0189000000007000800000000000000a_1_0")),
        (own, &[], json!("mcp_0189000000007000800000000000000a")),
        (
            own,
            &[],
            json!(message(&one).as_str().unwrap().replace("_1_0", "_7_0")),
        ),
        (own, &[], message(&unstored)),
        (own, bob, message(&one)),
        (&narrow, &[], message(&one)),
    ];
    let asked = lab.upstream.asked().len();
    for (client, headers, item) in rows {
        let got = create(client, headers, json!({ "input": [reference(&item)] })).await;
        assert_eq!(got.status, 404, "{item}: {}", got.text());
        let error = &got.json()["error"];
        assert_eq!(error["code"], "item_not_found", "{error}");
        assert_eq!(error["param"], "input");
        let message = format!("Item with id '{}' not found.", item.as_str().unwrap());
        assert_eq!(error["message"], message);
    }
    assert_eq!(lab.upstream.asked().len(), asked);
}
