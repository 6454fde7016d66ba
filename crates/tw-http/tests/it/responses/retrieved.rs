//! `GET /v1/responses/{id}`: the same response again, and its stream from any place on.

use serde_json::{Value, json};
use tw_core::change::Change;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::turn_policy::RecordPolicy;
use tw_egress::env::Env;
use tw_runtime::admin::{KeyWanted, create_key};
use tw_testkit::client::{ReadAnswer, TestClient};
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{Lab, RESPONSES, create, events, id, response};
use crate::app::{App, AppOptions, upstream_stream};

const ANSWERS: [super::Said; 3] = [
    ("Let me see.", &[("up_1", "act", "{\"n\":1}")]),
    ("It is done.", &[]),
    ("Two.", &[]),
];

async fn get(client: &TestClient, name: &str, query: &str) -> ReadAnswer {
    let path = format!("{RESPONSES}/{name}{query}");
    client.send("GET", &path, &[], "").await.unwrap()
}

/// Every field that the Open Responses document demands, and whether it may be null.
const FIELDS: [(&str, bool); 31] = [
    ("id", false),
    ("object", false),
    ("created_at", false),
    ("completed_at", true),
    ("status", false),
    ("incomplete_details", true),
    ("model", false),
    ("previous_response_id", true),
    ("instructions", true),
    ("output", false),
    ("error", true),
    ("tools", false),
    ("tool_choice", false),
    ("truncation", false),
    ("parallel_tool_calls", false),
    ("text", false),
    ("top_p", false),
    ("presence_penalty", false),
    ("frequency_penalty", false),
    ("top_logprobs", false),
    ("temperature", false),
    ("reasoning", true),
    ("usage", true),
    ("max_output_tokens", true),
    ("max_tool_calls", true),
    ("store", false),
    ("background", false),
    ("service_tier", false),
    ("metadata", true),
    ("safety_identifier", true),
    ("prompt_cache_key", true),
];

fn check_fields(response: &Value) {
    for (name, may_be_null) in FIELDS {
        let field = response.get(name);
        let field = field.unwrap_or_else(|| panic!("no {name}: {response}"));
        assert!(may_be_null || !field.is_null(), "{name}: {response}");
    }
}

#[tokio::test]
async fn a_response_is_given_again_as_it_was_created() {
    let lab = Lab::start(&ANSWERS).await;
    let asked = json!({ "input": "go", "metadata": { "a": "b" }, "max_tool_calls": 7, "truncation": "auto",
        "instructions": "be brief", "safety_identifier": "ann" });
    let created = lab.create(asked).await;
    let one = response(&created);
    check_fields(&one);
    let times = [&one["created_at"], &one["completed_at"]].map(|time| time.as_i64().unwrap());
    assert!(
        times[0] <= times[1] && times[1] - times[0] < 60,
        "{times:?}"
    );
    assert_eq!(
        (&one["store"], &one["background"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(one["metadata"], json!({ "a": "b" }));
    assert_eq!(
        (&one["max_tool_calls"], &one["truncation"]),
        (&json!(7), &json!("auto"))
    );
    assert_eq!(one.get("conversation"), None);
    let next = json!({ "input": "and?", "stream": true, "previous_response_id": id(&one) });
    let streamed = lab.create(next).await;
    let two = events(&streamed).pop().unwrap()["response"].clone();
    check_fields(&two);
    lab.app.settled().await;
    for later in [lab.app.client.clone(), lab.app.restarted().await] {
        let again = get(&later, id(&one), "").await;
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.body, created.body);
        assert_eq!(get(&later, id(&two), "?include[]=x").await.json(), two);
    }
}

/// Whether a response is kept is the request's word, as far as the key keeps anything.
#[tokio::test]
async fn what_is_not_stored_is_not_found() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let wanted = KeyWanted {
        organization: "default".to_owned(),
        name: "keeps less".to_owned(),
        scopes: vec![KeyScope::Chat],
        tools: ToolGrant::None,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Minimal,
        memory: KeyMemory::Off,
        expires: None,
        limits: tw_core::rate::RateLimits::default(),
    };
    let key = create_key(&lab.app.store, &Env::system(), wanted).await;
    let minimal = &lab.app.with_key(Some(key.unwrap()));
    let full = &lab.app.client;
    let rows = [
        (full, json!(true), true),
        (full, Value::Null, true),
        (full, json!(false), false),
        (minimal, json!(true), false),
        (minimal, Value::Null, false),
    ];
    for (client, store, is_kept) in rows {
        let one = create(client, &[], json!({ "input": "go", "store": store })).await;
        let one = response(&one);
        assert_eq!(one["store"], is_kept);
        let again = get(client, id(&one), "").await;
        let wanted = if is_kept { 200 } else { 404 };
        assert_eq!(again.status, wanted, "{store}: {}", again.text());
    }
    let later = json!({ "input": "go", "background": true });
    let refused = create(minimal, &[], later).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!(refused.json()["error"]["param"], "background");
}

/// The events of a stream behind a number, as they were sent.
fn behind(stream: &str, number: u64) -> String {
    let events = stream.split_inclusive("\n\n").filter(|event| {
        let data = event.lines().find_map(|line| line.strip_prefix("data: "));
        match data.and_then(|data| serde_json::from_str::<Value>(data).ok()) {
            Some(event) => event["sequence_number"].as_u64().unwrap() > number,
            None => true,
        }
    });
    events.collect()
}

#[tokio::test]
async fn a_stream_is_resumed_behind_each_of_its_events() {
    for background in [false, true] {
        let lab = Lab::start(&ANSWERS).await;
        let body = json!({ "input": "go", "stream": true, "background": background });
        let live = lab.create(body).await;
        let all = events(&live);
        let name = all[0]["response"]["id"].as_str().unwrap();
        let numbers: Vec<u64> = all
            .iter()
            .map(|event| event["sequence_number"].as_u64().unwrap())
            .collect();
        let count = u64::try_from(all.len()).unwrap();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        assert!(live.text().ends_with("data: [DONE]\n\n"));
        lab.app.settled().await;
        for client in [lab.app.client.clone(), lab.app.restarted().await] {
            let whole = get(&client, name, "?stream=true").await;
            assert_eq!(whole.text(), live.text());
            for number in 0..count {
                let query = format!("?stream=true&starting_after={number}");
                let rest = get(&client, name, &query).await;
                assert_eq!(rest.status, 200, "{number}: {}", rest.text());
                assert_eq!(rest.text(), behind(&live.text(), number), "{number}");
            }
            // What nobody was ever shown is no place in the stream.
            let query = format!("?stream=true&starting_after={count}");
            let lost = get(&client, name, &query).await;
            assert_eq!(lost.status, 410, "{}", lost.text());
            assert_eq!(lost.json()["error"]["code"], "offset_lost");
        }
    }
}

#[tokio::test]
async fn a_stream_is_resumed_while_it_comes() {
    let text = upstream_stream("Hello", &[]);
    let (start, rest) = text.split_at(text.find("\n\n").unwrap() + 2);
    let (said, end) = rest.split_at(rest.find("\n\n").unwrap() + 2);
    let pieces = vec![
        ReplyPiece::Bytes(start.to_owned().into()),
        ReplyPiece::Bytes(said.to_owned().into()),
        ReplyPiece::Gate("rest"),
        ReplyPiece::Bytes(end.to_owned().into()),
    ];
    let reply = ListenerReply::pieces("text/event-stream", pieces);
    let upstream = Listener::in_turn(vec![reply]).await.unwrap();
    let app = App::start(&upstream, AppOptions::plain()).await;
    let body = json!({ "model": "m", "input": "go", "stream": true }).to_string();
    let mut live = app.client.open("POST", RESPONSES, &[], body).await.unwrap();
    let mut seen = live.until("output_text.delta").await;
    let first = seen.lines().find_map(|line| line.strip_prefix("data: "));
    let first: Value = serde_json::from_str(first.unwrap()).unwrap();
    let name = first["response"]["id"].as_str().unwrap().to_owned();
    let last = seen.matches("event: ").count() - 1;

    let far = get(&app.client, &name, "?stream=true&starting_after=1000").await;
    assert_eq!(far.status, 410, "{}", far.text());
    let path = format!("{RESPONSES}/{name}?stream=true&starting_after={last}");
    let resumed = app.client.open("GET", &path, &[], "").await.unwrap();
    assert_eq!(resumed.status, 200);
    let now = get(&app.client, &name, "").await.json();
    assert_eq!(now["status"], "in_progress");
    upstream.open("rest");
    seen.push_str(&live.read().await.text());
    let behind = behind(&seen, u64::try_from(last).unwrap());
    assert_eq!(resumed.read().await.text(), behind);
}

/// The log is gone after a day, and the record gives the response all the same.
#[tokio::test]
async fn a_response_outlives_its_log() {
    const MIXED: super::Said = (
        "Let me see.",
        &[("up_1", "pick", "{\"n\":1}"), ("up_2", "act", "{}")],
    );
    const FAILS: super::Said = ("", &[("up_1", "act", "no json")]);
    let rows: [(&str, &[super::Said]); 4] = [
        ("a call of ours", &ANSWERS),
        ("a call of the client's", &[("", &[("up_1", "pick", "{}")])]),
        ("both", &[MIXED]),
        ("a call that failed", &[FAILS, ("Sorry.", &[])]),
    ];
    let schema = json!({ "type": "object" });
    let tools = json!([
        { "type": "function", "name": "act", "parameters": schema, "strict": false },
        { "type": "function", "name": "pick", "parameters": schema, "strict": false },
    ]);
    for (name, answers) in rows {
        for streamed in [false, true] {
            let lab = Lab::start(answers).await;
            let body = json!({ "input": "go", "tools": tools, "stream": streamed });
            let got = lab.create(body).await;
            let id = got.header("turnwright-turn").replace('-', "");
            let id = format!("resp_{id}");
            lab.app.settled().await;
            let mut before = response(&get(&lab.app.client, &id, "").await);
            let expire = Change::ExpireEvents {
                before: Timestamp(i64::MAX),
                turns_max: 10,
            };
            lab.app.store.apply(vec![expire]).await.unwrap();
            let after = response(&get(&lab.app.client, &id, "").await);
            // What the upstream called itself stood in the log alone.
            assert_eq!(before["model"], "m-1");
            before["model"] = json!("m");
            assert_eq!(after, before, "{name}, streamed: {streamed}");
            let query = "?stream=true&starting_after=0";
            let stream = get(&lab.app.client, &id, query).await;
            assert_eq!(stream.status, 410, "{}", stream.text());
            assert_eq!(stream.json()["error"]["code"], "offset_lost");
            let next = json!({ "input": "and?", "previous_response_id": id });
            response(&lab.create(next).await);
        }
    }
}

#[tokio::test]
async fn wrong_parameters_are_refused() {
    let lab = Lab::start(&[("One.", &[])]).await;
    let one = response(&create(&lab.app.client, &[], json!({ "input": "go" })).await);
    let rows = [
        ("?stream=yes", "stream"),
        ("?starting_after=1", "starting_after"),
        ("?stream=true&starting_after=x", "starting_after"),
        ("?stream=true&starting_after=-1", "starting_after"),
        ("?streem=true", "streem"),
    ];
    for (query, param) in rows {
        let got = get(&lab.app.client, id(&one), query).await;
        assert_eq!(got.status, 400, "{query}: {}", got.text());
        assert_eq!(got.json()["error"]["param"], param, "{query}");
    }
}
