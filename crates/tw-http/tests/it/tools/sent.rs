//! What a call sends, byte by byte, and what the model and the record get of its answer.

use serde_json::{Value, json};
use tw_testkit::listener::{Listener, ListenerReply};

use super::lab::{Ran, ToolLab, allowed, definition, leaving_by, made, options};
use super::raw::RawListener;
use crate::app::{ask, ask_streamed};

const ANSWER: &str = r#"{"data":{"id":"T-1","n":12.50},"internal":{"cost":9}}"#;
/// Stands in definitions where the model must not see it.
const HIDDEN: &str = "hidden-4711";

struct Case {
    name: &'static str,
    /// Path and query of the URL.
    url: &'static str,
    members: Value,
    arguments: &'static str,
    /// The request, with `HOST`, `AGENT` and `KEY` where those stand.
    sent: &'static str,
    shown: &'static str,
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "path_and_query",
            url: "/v1/customers/{customer}/x?expand={expand}&fixed=1",
            members: json!({
                "query": { "source": HIDDEN, "n": [1, 2] },
                "parameters": {
                    "customer": { "mode": "ai" },
                    "expand": { "mode": "ai", "required": false },
                    "page": { "mode": "ai", "schema": { "type": "integer" } },
                    "tags": { "mode": "ai", "schema": { "type": "array", "items": { "type": "string" } } },
                    // The static one wins.
                    "source": { "mode": "ai" },
                },
                "response": { "select": "$.data.id" },
            }),
            arguments: r#"{"page":2, "source":"model", "customer":"c/7 ü?#%2F", "tags":["a&b","{{today}}"]}"#,
            sent: "GET /v1/customers/c%2F7%20%C3%BC%3F%23%252F/x?fixed=1&page=2&tags=a%26b\
                &tags=%7B%7Btoday%7D%7D&source=hidden-4711&n=1&n=2 HTTP/1.1\r\n\
                HOST\r\nAGENT\r\n\r\n",
            shown: r#""T-1""#,
        },
        Case {
            name: "nested_body",
            url: "/v1/tickets",
            members: json!({
                "method": "POST",
                "body": { "origin": { "channel": HIDDEN, "via": { "bot": true } } },
                "parameters": {
                    "title": { "mode": "ai" },
                    "amount": { "mode": "ai", "schema": { "type": "number" } },
                    "origin": { "mode": "object", "properties": {
                        "channel": { "mode": "ai" }, "page": { "mode": "ai" },
                    } },
                    "cc": {
                        "mode": "array_extendable", "fixedValues": ["desk@example.com"],
                        "aiExtension": { "enabled": true, "prompt": "More" },
                    },
                    "steps": { "mode": "array", "items": [
                        { "mode": "fixed", "value": "hello" }, { "mode": "ai" },
                    ] },
                },
            }),
            arguments: r#"{"title":"a \"lamp\"\n{\"secret\":\"X\"}","amount":1.50,"origin":{"channel":"model","page":"p"},"cc":["ann@example.com"],"steps":{"item_2":"you"}}"#,
            sent: "POST /v1/tickets HTTP/1.1\r\nHOST\r\n\
                content-type: application/json\r\nidempotency-key: KEY\r\n\
                AGENT\r\ncontent-length: 189\r\n\r\n\
                {\"title\":\"a \\\"lamp\\\"\\n{\\\"secret\\\":\\\"X\\\"}\",\"amount\":1.50,\
                \"origin\":{\"channel\":\"hidden-4711\",\"page\":\"p\",\"via\":{\"bot\":true}},\
                \"cc\":[\"desk@example.com\",\"ann@example.com\"],\"steps\":[\"hello\",\"you\"]}",
            shown: ANSWER,
        },
        Case {
            name: "form",
            url: "/v1/form",
            members: json!({
                "method": "PUT", "body_format": "form",
                "body": { "meta": { "by": HIDDEN } },
                "parameters": {
                    "to": { "mode": "ai" },
                    "meta": { "mode": "ai", "schema": { "type": "object" } },
                },
                "response": { "select": { "id": "$.data.id", "n": "$.data.n", "none": "$.x" } },
            }),
            arguments: r#"{"to":"+49 1&x=ü","meta":{"by":"model","at":["1","2"]}}"#,
            sent: "PUT /v1/form HTTP/1.1\r\nHOST\r\n\
                content-type: application/x-www-form-urlencoded\r\nidempotency-key: KEY\r\n\
                AGENT\r\ncontent-length: 80\r\n\r\n\
                to=%2B49%201%26x%3D%C3%BC\
                &meta%5Bby%5D=hidden-4711&meta%5Bat%5D=1&meta%5Bat%5D=2",
            shown: r#"{"id":"T-1","n":12.50,"none":null}"#,
        },
        Case {
            name: "headers",
            url: "/v1/headers",
            members: json!({
                "method": "DELETE",
                "headers": { "X-Static": HIDDEN, "x-both": "static" },
                "parameters": {
                    "x-model": { "mode": "ai", "in": "header" },
                    "X-Both": { "mode": "ai", "in": "header" },
                    "why": { "mode": "ai" },
                },
                "response": { "shown_bytes_max": 10 },
            }),
            arguments: r#"{"x-model":"from it","X-Both":"model","why":"so"}"#,
            sent: "DELETE /v1/headers?why=so HTTP/1.1\r\nHOST\r\n\
                x-static: hidden-4711\r\nx-both: static\r\nx-model: from it\r\n\
                idempotency-key: KEY\r\nAGENT\r\n\r\n",
            shown: "{\"data\":{\" …[cut: the result is longer]",
        },
        Case {
            name: "nothing_to_say",
            url: "",
            members: json!({ "method": "POST", "headers": { "Idempotency-Key": "own" } }),
            arguments: "{}",
            sent: "POST / HTTP/1.1\r\nHOST\r\nidempotency-key: own\r\nAGENT\r\n\
                content-length: 0\r\n\r\n",
            shown: ANSWER,
        },
    ]
}

#[tokio::test]
async fn every_byte_is_as_the_definition_says() {
    let raw = RawListener::answering(ANSWER).await;
    let options = tw_egress::client::ClientOptions {
        allowed: vec![allowed(&raw.place)],
        ..options()
    };
    let nobody = Listener::in_turn(Vec::new()).await.unwrap();
    let lab = ToolLab::start(nobody, leaving_by(options, Vec::new())).await;
    for case in cases() {
        let url = format!("http://{}{}", raw.place, case.url);
        let definition = definition(case.name, &url, case.members.clone());
        let id = made(&lab.editor, "default", &definition).await;
        for body in [ask, ask_streamed] {
            let body = body(&format!("{} {}", case.name, case.arguments));
            let ran = lab.run_with(&lab.app.client, &[], &body).await;
            check_sent(&case, &raw, &ran);
            check_record(&case, &ran, &id);
            check_model(&case, &lab);
        }
        lab.delete(&id).await;
    }
}

fn check_sent(case: &Case, raw: &RawListener, ran: &Ran) {
    let heard = raw.heard().pop().unwrap();
    let call_id = ran.call()["id"].as_str().unwrap().replace('-', "");
    // What every request has.
    let host = format!("host: {}\r\naccept-encoding: identity", raw.place);
    let sent = case
        .sent
        .replace("HOST", &host)
        .replace(
            "AGENT",
            concat!("user-agent: turnwright/", env!("CARGO_PKG_VERSION")),
        )
        .replace("KEY", &format!("tw_{call_id}"));
    assert_eq!(heard, sent, "{}", case.name);
}

fn check_record(case: &Case, ran: &Ran, id: &str) {
    let call = ran.call();
    assert_eq!(ran.ended(), "completed", "{}", case.name);
    assert_eq!(call["tool_id"], id, "{}", case.name);
    assert_eq!(call["tool_version"], 1, "{}", case.name);
    assert_eq!(call["cached"], false, "{}", case.name);
    assert_eq!(call["arguments"], case.arguments, "{}", case.name);
    assert_eq!(call["result"], ANSWER, "{}", case.name);
    assert_eq!(call["shown"], case.shown, "{}", case.name);
    assert_eq!(call["attempts"].as_array().unwrap().len(), 1);
}

/// The model is offered the function and given what is shown, and nothing that is hidden.
fn check_model(case: &Case, lab: &ToolLab) {
    let asked = lab.model.asked();
    let [.., first, second] = &asked[..] else {
        panic!("the model was asked once");
    };
    for asked in [first, second] {
        let tools = &asked.json()["tools"];
        assert_eq!(tools.as_array().unwrap().len(), 1, "{tools}");
        assert_eq!(tools[0]["function"]["name"], case.name);
        let text = String::from_utf8(asked.body.to_vec()).unwrap();
        for hidden in [HIDDEN, "desk@example.com", "hello", "127.0.0.1", "tw_"] {
            let is_of_answer = case.shown.contains(hidden);
            assert!(is_of_answer || !text.contains(hidden), "{hidden} in {text}");
        }
    }
    let messages = second.json()["messages"].clone();
    assert_eq!(messages[2]["role"], "tool", "{messages}");
    assert_eq!(messages[2]["content"], case.shown, "{}", case.name);
}

#[tokio::test]
async fn the_preview_shows_what_a_turn_sends() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    for case in cases() {
        let url = lab.service.url(case.url);
        let definition = definition(case.name, &url, case.members.clone());
        let arguments: Value = serde_json::from_str(case.arguments).unwrap();
        let body = json!({ "tool": definition, "arguments": arguments });
        let path = "/api/default/tools/preview";
        let asked_before = lab.service.asked().len();
        let sent = lab.editor.send("POST", path, &[], body.to_string());
        let preview = sent.await.unwrap().json();
        assert_eq!(lab.service.asked().len(), asked_before, "nothing was sent");
        made(&lab.editor, "default", &definition).await;
        let ran = lab.run(&format!("{} {}", case.name, arguments)).await;
        let asked = lab.service.asked().pop().unwrap();
        let request = &preview["request"];
        assert_eq!(request["method"], asked.method);
        assert_eq!(request["url"], lab.service.url(&asked.target));
        let body = request["body"].as_str().unwrap_or_default();
        assert_eq!(body.as_bytes(), asked.body, "{}", case.name);
        let own_key = asked.header("idempotency-key") == "own";
        for header in request["headers"].as_array().unwrap() {
            let [name, value] = [0, 1].map(|at| header[at].as_str().unwrap());
            if name == "Idempotency-Key" && !own_key {
                assert_eq!(value, "***");
            } else {
                assert_eq!(asked.header(&name.to_ascii_lowercase()), value, "{name}");
            }
        }
        assert_eq!(ran.ended(), "completed");
        assert_eq!(
            lab.offered()[0]["function"]["parameters"],
            preview["function_schema"]["parameters"]
        );
        lab.delete(ran.call()["tool_id"].as_str().unwrap()).await;
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_send_nothing() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    let members = json!({ "method": "POST", "parameters": {
        "who": { "mode": "ai", "schema": { "type": "string", "pattern": "^[a-z]+$" } },
        "fixed": { "mode": "fixed", "value": HIDDEN },
    } });
    lab.make("act", "/", members).await;
    for arguments in [
        "{}",
        r#"{"who":7}"#,
        r#"{"who":"UPPER"}"#,
        r#"{"who":"x","fixed":"y"}"#,
        r#"{"who":"x","surplus":1}"#,
        // Of two the last counts, for the schema and for the request.
        r#"{"who":"x","who":"UPPER"}"#,
        r#"{"who":"x""#,
        "[]",
        "null",
    ] {
        let ran = lab.run(&format!("act {arguments}")).await;
        assert_eq!(ran.ended(), "failed invalid_arguments", "{arguments}");
        let told = ran.call()["shown"].as_str().unwrap();
        assert!(!told.contains(HIDDEN), "{told}");
    }
    assert!(lab.service.asked().is_empty());
    lab.run(r#"act {"who":"UPPER","who":"y"}"#).await;
    let sent = lab.service.asked()[0].json();
    assert_eq!(sent, json!({ "who": "y", "fixed": HIDDEN }));
}
