//! `GET /v1/responses/{id}/input_items`

use serde_json::{Value, json};

use super::{Lab, RESPONSES, id, response};

async fn listed(lab: &Lab, name: &str, query: &str) -> Value {
    let path = format!("{RESPONSES}/{name}/input_items{query}");
    let got = lab.app.client.send("GET", &path, &[], "").await.unwrap();
    response(&got)
}

fn ids(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap().iter();
    data.map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn items_are_listed_whole_and_in_pages() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let image = json!({ "type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto" });
    let input = json!([
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": "Calling." },
        { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c1", "output": "1" },
        { "id": "msg_own", "type": "message", "role": "user", "content": [image] },
    ]);
    let one = response(&lab.create(json!({ "input": input })).await);
    let turn = id(&one).replace("resp_", "");
    let at = |prefix: &str, place: u32| format!("{prefix}{turn}_0_{place}");
    let all = [
        at("msg_", 0),
        at("msg_", 1),
        at("fc_", 2),
        at("fco_", 3),
        "msg_own".to_owned(),
    ];
    let list = listed(&lab, id(&one), "?order=asc").await;
    assert_eq!(ids(&list), all);
    assert_eq!(list["object"], "list");
    assert_eq!(
        (&list["first_id"], &list["last_id"]),
        (&json!(all[0]), &json!("msg_own"))
    );
    assert_eq!(list["has_more"], false);
    let data = &list["data"];
    let message = |id: &str, role: &str, part: Value| json!({ "id": id, "type": "message", "role": role, "status": "completed", "content": [part] });
    assert_eq!(
        data[0],
        message(
            &all[0],
            "user",
            json!({ "type": "input_text", "text": "go" })
        )
    );
    let said = json!({ "type": "output_text", "text": "Calling.", "annotations": [] });
    assert_eq!(data[1], message(&all[1], "assistant", said));
    assert_eq!(
        (&data[2]["call_id"], &data[2]["status"]),
        (&json!("c1"), &json!("completed"))
    );
    assert_eq!(data[3]["output"], "1");
    assert_eq!(data[4], message("msg_own", "user", image));

    // Newest first unless the request says otherwise.
    let newest: Vec<&str> = all.iter().rev().map(String::as_str).collect();
    assert_eq!(ids(&listed(&lab, id(&one), "").await), newest);
    let mut paged: Vec<String> = Vec::new();
    loop {
        let after = paged
            .last()
            .map_or(String::new(), |last| format!("&after={last}"));
        let page = listed(&lab, id(&one), &format!("?limit=2{after}")).await;
        paged.extend(ids(&page).into_iter().map(str::to_owned));
        if page["has_more"] == false {
            break;
        }
        assert_eq!(ids(&page).len(), 2);
    }
    assert_eq!(paged, newest);
    for (query, param) in [
        ("?limit=0", "limit"),
        ("?order=up", "order"),
        ("?after=msg_1", "after"),
        ("?x=1", "x"),
    ] {
        let path = format!("{RESPONSES}/{}/input_items{query}", id(&one));
        let got = lab.app.client.send("GET", &path, &[], "").await.unwrap();
        assert_eq!(got.status, 400, "{query}");
        assert_eq!(got.json()["error"]["param"], param);
    }
}

#[tokio::test]
async fn a_text_is_an_item_and_no_input_is_none() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let one = response(&lab.create(json!({ "input": "g\"o" })).await);
    let list = listed(&lab, id(&one), "").await;
    assert_eq!(
        list["data"][0]["content"],
        json!([{ "type": "input_text", "text": "g\"o" }])
    );
    let two = lab
        .create(json!({ "previous_response_id": id(&one) }))
        .await;
    let two = response(&two);
    let list = listed(&lab, id(&two), "").await;
    assert_eq!(
        (&list["data"], &list["first_id"]),
        (&json!([]), &Value::Null)
    );
}
