//! Calls that run only once their client has approved them: `mcp_approval_request` and `mcp_approval_response`.

use std::time::Duration;

use serde_json::{Value, json};
use tw_core::tool::EffectClass;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::Listener;

use super::chain::{called, plain, result, said, user};
use super::{DID, Lab, RESPONSES, Said, create, events, id, items, response};
use crate::app::{AppOptions, probe};

/// The model wants `pay`, which has to be approved.
const PAYS: Said = ("I have to pay.", &[("up_1", "pay", "{\"n\":1}")]);
const PAID: Said = ("Paid.", &[]);
const NEXT: Said = ("Next.", &[]);

fn guarded(tool: &Listener) -> AppOptions {
    let mut pay = probe("pay", EffectClass::Once, tool.url("/"));
    pay.policy.requires_approval = true;
    AppOptions::with_tools(vec![pay, probe("act", EffectClass::Read, tool.url("/"))])
}

async fn lab(answers: &[Said]) -> Lab {
    Lab::with(answers, guarded).await
}

/// The only question of a response.
#[track_caller]
fn question(response: &Value) -> &Value {
    let questions = items(response, "mcp_approval_request");
    assert_eq!(questions.len(), 1, "{response}");
    questions[0]
}

fn approve(question: &Value) -> Value {
    json!({ "type": "mcp_approval_response", "approval_request_id": question["id"], "approve": true })
}

fn deny(question: &Value, reason: &str) -> Value {
    json!({ "type": "mcp_approval_response", "approval_request_id": question["id"], "approve": false, "reason": reason })
}

/// The first response of a lab, which asks.
async fn asked(lab: &Lab, streamed: bool) -> Value {
    let got = lab
        .create(json!({ "input": "go", "stream": streamed }))
        .await;
    ended(&got, streamed)
}

fn ended(got: &ReadAnswer, streamed: bool) -> Value {
    if !streamed {
        return response(got);
    }
    assert_eq!(got.status, 200, "{}", got.text());
    let last = events(got).pop().unwrap();
    assert_eq!(last["type"], "response.completed", "{last}");
    last["response"].clone()
}

async fn fetched(lab: &Lab, name: &str) -> Value {
    let path = format!("{RESPONSES}/{name}");
    response(&lab.app.client.send("GET", &path, &[], "").await.unwrap())
}

/// The whole way to a result by an approval, as the model is told of it.
fn paid(result_said: &str) -> Vec<Value> {
    vec![
        user("go"),
        json!({ "role": "assistant", "content": "I have to pay.", "tool_calls": [called("up_1", "pay", "{\"n\":1}")] }),
        result("up_1", result_said),
    ]
}

#[tokio::test]
async fn an_approved_call_runs_in_the_turn_that_brings_the_answer() {
    for streamed in [false, true] {
        let lab = lab(&[PAYS, PAID, NEXT]).await;
        let one = asked(&lab, streamed).await;
        let question = question(&one);
        assert_eq!(
            (
                &question["server_label"],
                &question["name"],
                &question["arguments"]
            ),
            (&json!("turnwright"), &json!("pay"), &json!("{\"n\":1}"))
        );
        assert!(
            question["id"].as_str().unwrap().starts_with("mcpr_"),
            "{question}"
        );
        assert_eq!(one["status"], "completed");
        assert_eq!(items(&one, "mcp_call").len(), 0, "{one}");
        assert_eq!(lab.tool.asked().len(), 0);
        assert_eq!(fetched(&lab, id(&one)).await["output"], one["output"]);

        let body = json!({ "input": [approve(question)], "previous_response_id": id(&one), "stream": streamed });
        let got = lab.create(body).await;
        let two = ended(&got, streamed);
        assert_eq!(got.header("turnwright-repaired"), "");
        let call = items(&two, "mcp_call")[0];
        assert_eq!(
            (
                &call["approval_request_id"],
                &call["status"],
                &call["output"],
                &call["name"]
            ),
            (
                &question["id"],
                &json!("completed"),
                &json!(DID),
                &json!("pay")
            )
        );
        assert_eq!(two["output"][0], *call, "the call comes first: {two}");
        assert_eq!(lab.tool.asked().len(), 1);
        assert_eq!(plain(&lab.sent()), paid(DID));
        assert_eq!(fetched(&lab, id(&two)).await["output"], two["output"]);

        // It is the result of the call for every later turn.
        let got = lab
            .create(json!({ "input": "and?", "previous_response_id": id(&two) }))
            .await;
        response(&got);
        let mut whole = paid(DID);
        whole.extend([said("Paid."), user("and?")]);
        assert_eq!(plain(&lab.sent()), whole);
        // Also for one that goes on from the question.
        let got = lab
            .create(json!({ "input": "well?", "previous_response_id": id(&one) }))
            .await;
        response(&got);
        let mut branch = paid(DID);
        branch.push(user("well?"));
        assert_eq!(plain(&lab.sent()), branch);
        assert_eq!(lab.tool.asked().len(), 1, "nothing ran again");
    }
}

#[tokio::test]
async fn a_question_of_a_conversation_is_answered_in_it() {
    for streamed in [false, true] {
        let lab = lab(&[PAYS, PAID, NEXT]).await;
        let client = &lab.app.client;
        let conversations = "/v1/conversations";
        let made = client.send("POST", conversations, &[], "{}").await;
        let conversation = response(&made.unwrap())["id"].clone();
        let say = async |input: Value| {
            let body = json!({ "input": input, "conversation": conversation, "stream": streamed });
            ended(&lab.create(body).await, streamed)
        };
        let one = say(json!("go")).await;
        let question = question(&one);
        assert_eq!(lab.tool.asked().len(), 0);
        let two = say(json!([approve(question)])).await;
        let call = items(&two, "mcp_call")[0];
        assert_eq!(
            (&call["approval_request_id"], &call["output"]),
            (&question["id"], &json!(DID))
        );
        assert_eq!(plain(&lab.sent()), paid(DID));
        say(json!("and?")).await;
        let mut whole = paid(DID);
        whole.extend([said("Paid."), user("and?")]);
        assert_eq!(plain(&lab.sent()), whole);
        assert_eq!(lab.tool.asked().len(), 1, "nothing ran again");

        let path = format!(
            "{conversations}/{}/items?order=asc",
            conversation.as_str().unwrap()
        );
        let listed = response(&client.send("GET", &path, &[], "").await.unwrap());
        let listed = listed["data"].as_array().unwrap().iter();
        let types: Vec<&Value> = listed.map(|item| &item["type"]).collect();
        assert_eq!(
            types,
            [
                "message",
                "message",
                "mcp_approval_request",
                "mcp_approval_response",
                "mcp_call",
                "message",
                "message",
                "message"
            ]
        );
    }
}

#[tokio::test]
async fn a_client_that_keeps_the_history_answers_in_it() {
    let lab = lab(&[PAYS, PAID, NEXT]).await;
    let mut input = vec![user("go")];
    let one = response(&lab.create(json!({ "input": input, "store": false })).await);
    input.extend(one["output"].as_array().unwrap().iter().cloned());
    input.push(approve(question(&one)));
    let two = response(&lab.create(json!({ "input": input, "store": false })).await);
    assert_eq!(items(&two, "mcp_call")[0]["output"], DID, "{two}");
    let shape = |sent: &Value| -> Vec<(String, Value, usize)> {
        let messages = sent.as_array().unwrap().iter();
        let of = |message: &Value| {
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            (
                message["role"].as_str().unwrap().to_owned(),
                message["content"].clone(),
                calls,
            )
        };
        messages.map(of).collect()
    };
    let mut wanted = vec![
        ("user".to_owned(), json!("go"), 0),
        ("assistant".to_owned(), json!("I have to pay."), 1),
        ("tool".to_owned(), json!(DID), 0),
    ];
    assert_eq!(shape(&lab.sent()), wanted);
    input.extend(two["output"].as_array().unwrap().iter().cloned());
    input.push(user("and?"));
    response(&lab.create(json!({ "input": input, "store": false })).await);
    wanted.extend([
        ("assistant".to_owned(), json!("Paid."), 0),
        ("user".to_owned(), json!("and?"), 0),
    ]);
    assert_eq!(shape(&lab.sent()), wanted);
    assert_eq!(lab.tool.asked().len(), 1);
}

#[tokio::test]
async fn a_denied_call_is_told_to_the_model_with_its_reason() {
    let lab = lab(&[PAYS, ("As you like.", &[])]).await;
    let one = asked(&lab, false).await;
    let body =
        json!({ "input": [deny(question(&one), "too much")], "previous_response_id": id(&one) });
    let got = lab.create(body).await;
    let two = response(&got);
    let call = items(&two, "mcp_call")[0];
    let told = "This call was denied, so it was not run: too much";
    assert_eq!(
        (&call["status"], &call["error"]),
        (&json!("failed"), &json!(told))
    );
    assert_eq!(plain(&lab.sent()), paid(told));
    assert_eq!(lab.tool.asked().len(), 0);
    let record = lab.app.turn_of(&got).await;
    let call = &record["rounds"][0]["calls"][0];
    assert_eq!(
        (&call["status"], &call["reason"]),
        (&json!("failed"), &json!("denied"))
    );
}

#[tokio::test]
async fn the_record_says_who_approved_and_when() {
    let lab = lab(&[PAYS, PAID]).await;
    let one = asked(&lab, false).await;
    let of = |record: &Value, round: usize| record["rounds"][round]["calls"][0].clone();
    let before = of(&lab.app.turn(id(&one)).await, 0);
    assert_eq!(
        (
            &before["status"],
            &before["reason"],
            &before["approval"]["status"]
        ),
        (
            &json!("pending"),
            &json!("awaiting_approval"),
            &json!("asked")
        )
    );
    assert!(
        before["approval"]["expires_us"].as_i64().unwrap() > before["created_us"].as_i64().unwrap()
    );
    assert_eq!(before["approval"]["answered_by"], Value::Null);
    let body = json!({ "input": [approve(question(&one))], "previous_response_id": id(&one) });
    let got = lab.create(body).await;
    let two = lab.app.turn_of(&got).await;
    let after = of(&lab.app.turn(id(&one)).await, 0);
    assert_eq!(
        (&after["status"], &after["approval"]["status"]),
        (&json!("completed"), &json!("approved"))
    );
    let by = &after["approval"]["answered_by"];
    assert_eq!((&by["turn"], &by["user"]), (&two["id"], &Value::Null));
    assert!(
        lab.app
            .client
            .key
            .as_ref()
            .unwrap()
            .starts_with(by["key"].as_str().unwrap().trim_end_matches('…'))
    );
    assert_eq!(two["rounds"][0]["round"], 0);
    let ran = of(&two, 0);
    assert_eq!(
        (&ran["approves"], &ran["status"]),
        (&after["id"], &json!("completed"))
    );
    assert_eq!(two["parent"], lab.app.turn(id(&one)).await["id"]);
}

#[tokio::test]
async fn ours_of_the_round_run_before_the_question() {
    const BOTH: Said = (
        "Both.",
        &[
            ("up_1", "pay", "{}"),
            ("up_2", "act", "{}"),
            ("up_3", "pay", "{\"n\":2}"),
        ],
    );
    let lab = lab(&[BOTH, PAID]).await;
    let one = asked(&lab, false).await;
    assert_eq!(items(&one, "mcp_call").len(), 1, "{one}");
    let questions = items(&one, "mcp_approval_request");
    assert_eq!(questions.len(), 2, "{one}");
    // One answer each, and both are results where the calls stood.
    let answers = [deny(questions[1], "once is enough"), approve(questions[0])];
    let body = json!({ "input": answers, "previous_response_id": id(&one) });
    let two = response(&lab.create(body).await);
    assert_eq!(items(&two, "mcp_call").len(), 2, "{two}");
    let results: Vec<(Value, Value)> = plain(&lab.sent())
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| (message["tool_call_id"].clone(), message["content"].clone()))
        .collect();
    let denied = "This call was denied, so it was not run: once is enough";
    assert_eq!(
        results,
        [
            (json!("up_1"), json!(DID)),
            (json!("up_2"), json!(DID)),
            (json!("up_3"), json!(denied)),
        ]
    );
    assert_eq!(lab.tool.asked().len(), 2);
}

#[tokio::test]
async fn a_question_that_is_not_answered_was_not_approved() {
    let lab = lab(&[PAYS, NEXT, PAID]).await;
    let one = asked(&lab, false).await;
    let body = json!({ "input": "something else", "previous_response_id": id(&one) });
    let two = response(&lab.create(body).await);
    let mut wanted = paid("Nobody approved this call, so it was not run.");
    wanted.push(user("something else"));
    assert_eq!(plain(&lab.sent()), wanted);
    // Behind another answer it is too late; in its own place it is not.
    let late = json!({ "input": [approve(question(&one))], "previous_response_id": id(&two) });
    let got = lab.create(late).await;
    assert_eq!(
        (got.status, &got.json()["error"]["code"]),
        (404, &json!("approval_request_not_found"))
    );
    let body = json!({ "input": [approve(question(&one))], "previous_response_id": id(&one) });
    response(&lab.create(body).await);
    assert_eq!(lab.tool.asked().len(), 1);
    // From then on every branch knows.
    let body = json!({ "input": "well?", "previous_response_id": id(&two) });
    response(&lab.create(body).await);
    assert_eq!(plain(&lab.sent())[2], result("up_1", DID));
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let lab = lab(&[PAYS, PAID, NEXT]).await;
    let one = asked(&lab, false).await;
    let body = |input: Value| json!({ "input": input, "previous_response_id": id(&one) });
    let yes = body(json!([approve(question(&one))]));
    let two = response(&lab.create(yes.clone()).await);
    // The same request is the same turn, though nothing marks it.
    let again = response(&lab.create(yes).await);
    assert_eq!(again["id"], two["id"]);
    for other in [
        json!([approve(question(&one)), user("please")]),
        json!([deny(question(&one), "no")]),
    ] {
        let got = lab.create(body(other)).await;
        assert_eq!(
            (got.status, &got.json()["error"]["code"]),
            (409, &json!("approval_request_answered"))
        );
    }
    assert_eq!(lab.tool.asked().len(), 1);
    assert_eq!(lab.upstream.asked().len(), 2);
}

#[tokio::test]
async fn parallel_answers_run_the_call_once() {
    let lab = lab(&[PAYS, PAID]).await;
    let one = asked(&lab, false).await;
    let tries = (0..8).map(|n| {
        let said = user(&format!("try {}", n / 2));
        let input = json!([approve(question(&one)), said]);
        lab.create(json!({ "input": input, "previous_response_id": id(&one) }))
    });
    let mut answered = Vec::new();
    for got in futures_util::future::join_all(tries).await {
        match got.status {
            200 => answered.push(got.json()["id"].clone()),
            409 => {}
            status => panic!("{status}: {}", got.text()),
        }
    }
    answered.dedup();
    assert_eq!(answered.len(), 1, "{answered:?}");
    assert_eq!(lab.tool.asked().len(), 1);
}

#[tokio::test]
async fn what_comes_too_late_does_not_run() {
    let short = |tool: &Listener| {
        let options = guarded(tool);
        AppOptions {
            config: Box::new(|config| config.turn.approval_max = Duration::ZERO),
            ..options
        }
    };
    let lab = Lab::with(&[PAYS, PAID], short).await;
    let one = asked(&lab, false).await;
    let body = json!({ "input": [approve(question(&one))], "previous_response_id": id(&one) });
    let got = lab.create(body).await;
    let two = response(&got);
    let told = "This call was approved too late, so it was not run.";
    assert_eq!(items(&two, "mcp_call")[0]["error"], told);
    assert_eq!(plain(&lab.sent()), paid(told));
    assert_eq!(lab.tool.asked().len(), 0);
    let record = lab.app.turn_of(&got).await;
    assert_eq!(
        record["rounds"][0]["calls"][0]["reason"],
        "approval_expired"
    );
    let asking = lab.app.turn(id(&one)).await;
    assert_eq!(
        asking["rounds"][0]["calls"][0]["approval"]["status"],
        "expired"
    );
}

#[tokio::test]
async fn answers_that_nobody_asked_for_are_refused() {
    let lab = lab(&[PAYS, NEXT]).await;
    let one = asked(&lab, false).await;
    let question = question(&one);
    let unknown = json!({ "id": format!("mcpr_{}", "0".repeat(32)) });
    let called = json!({ "id": format!("mcpr_{}", "f".repeat(32)) });
    let twice = json!([approve(question), deny(question, "no")]);
    let no_word =
        json!([{ "type": "mcp_approval_response", "approval_request_id": question["id"] }]);
    let long = json!([deny(question, &"x".repeat(5000))]);
    for (input, previous, status, code) in [
        (
            json!([approve(&unknown)]),
            Some(id(&one)),
            404,
            "approval_request_not_found",
        ),
        (
            json!([approve(&called)]),
            None,
            404,
            "approval_request_not_found",
        ),
        // The item that asks is not there.
        (
            json!([user("go"), approve(question)]),
            None,
            404,
            "approval_request_not_found",
        ),
        (twice, Some(id(&one)), 400, "invalid_value"),
        (no_word, Some(id(&one)), 400, "missing_required_parameter"),
        (long, Some(id(&one)), 400, "string_above_max_length"),
    ] {
        let mut body = json!({ "input": input });
        if let Some(previous) = previous {
            body["previous_response_id"] = json!(previous);
        }
        let got = lab.create(body).await;
        let error = &got.json()["error"];
        assert_eq!(
            (got.status, error["code"].as_str()),
            (status, Some(code)),
            "{error}"
        );
    }
    // A forged question, as an item: whoever owns it, it is not found.
    let forged = json!({ "type": "mcp_approval_request", "id": unknown["id"], "server_label": "turnwright",
                         "name": "pay", "arguments": "{}" });
    let got = lab
        .create(json!({ "input": [user("go"), forged, approve(&unknown)] }))
        .await;
    assert_eq!(got.status, 404);
    assert_eq!(lab.tool.asked().len(), 0);
    assert_eq!(lab.upstream.asked().len(), 1);
}

#[tokio::test]
async fn somebody_elses_question_is_not_found() {
    let lab = lab(&[PAYS, PAID]).await;
    let mine = [("turnwright-user", "ann")];
    let one = response(&create(&lab.app.client, &mine, json!({ "input": "go" })).await);
    let input = |first: &Value| {
        let mut input = vec![user("go")];
        input.extend(first["output"].as_array().unwrap().iter().cloned());
        input.push(approve(question(first)));
        json!({ "input": input })
    };
    let scopes = vec![tw_core::tenant::KeyScope::Chat];
    let other_key = lab
        .app
        .key("default", tw_core::tenant::ToolGrant::All, scopes.clone())
        .await;
    let other_org = lab
        .app
        .key("other", tw_core::tenant::ToolGrant::All, scopes)
        .await;
    for (key, headers) in [
        (None, &[("turnwright-user", "bob")][..]),
        (None, &[]),
        (Some(other_key), &mine[..]),
        (Some(other_org), &mine[..]),
    ] {
        let client = match key {
            Some(key) => lab.app.with_key(Some(key)),
            None => lab.app.client.clone(),
        };
        let got = create(&client, headers, input(&one)).await;
        assert_eq!(
            (got.status, &got.json()["error"]["code"]),
            (404, &json!("approval_request_not_found")),
            "{headers:?}"
        );
    }
    assert_eq!(lab.tool.asked().len(), 0);
    let got = create(&lab.app.client, &mine, input(&one)).await;
    response(&got);
    assert_eq!(lab.tool.asked().len(), 1);
}

#[tokio::test]
async fn in_the_background_and_after_a_restart() {
    let lab = lab(&[PAYS, PAID]).await;
    let begun = response(
        &lab.create(json!({ "input": "go", "background": true }))
            .await,
    );
    let name = id(&begun).to_owned();
    let one = super::background::ended(&lab.app.client, &name).await;
    let question = question(&one).clone();
    let lab = lab.again_with(&[PAID], guarded).await;
    let body =
        json!({ "input": [approve(&question)], "previous_response_id": name, "background": true });
    let begun = response(&lab.create(body).await);
    let two = super::background::ended(&lab.app.client, id(&begun)).await;
    assert_eq!(items(&two, "mcp_call")[0]["output"], DID, "{two}");
    assert_eq!(plain(&lab.sent()), paid(DID));
    assert_eq!(lab.tool.asked().len(), 1);
}

#[tokio::test]
async fn surfaces_without_words_for_it_leave_the_tool_out() {
    let lab = lab(&[NEXT]).await;
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": [user("go")] }),
        ),
        (
            "/v1/messages",
            json!({ "model": "m", "max_tokens": 9, "messages": [user("go")] }),
        ),
    ] {
        let got = lab
            .app
            .client
            .send("POST", path, &[], body.to_string())
            .await
            .unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.header("turnwright-tools-left-out"), "pay");
        let offered = lab.upstream.asked().last().unwrap().json()["tools"].clone();
        assert_eq!(offered.as_array().unwrap().len(), 1, "{offered}");
        assert_eq!(offered[0]["function"]["name"], "act");
    }
    // Nor does a client get it by its name, and no call of it.
    let named = json!({ "model": "m", "messages": [user("go")],
                        "tools": [{ "type": "function", "function": { "name": "pay" } }] });
    let got = lab
        .app
        .client
        .send("POST", "/v1/chat/completions", &[], named.to_string());
    let got = got.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(got.header("turnwright-tools-left-out"), "pay");
    let asked = lab.upstream.asked().last().unwrap().json();
    assert!(
        asked["tools"].is_null() || asked["tools"] == json!([]),
        "{asked}"
    );
    // On Responses all of them are there.
    let got = lab.create(json!({ "input": "go" })).await;
    assert_eq!(got.header("turnwright-tools-left-out"), "");
}
