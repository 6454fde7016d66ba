//! Stored tools that require approval: which version runs, and with what.

use serde_json::{Value, json};
use tw_testkit::listener::ListenerReply;

use super::lab::ToolLab;

const RESPONSES: &str = "/v1/responses";

async fn respond(lab: &ToolLab, body: Value) -> Value {
    let got = lab.editor.send("POST", RESPONSES, &[], body.to_string());
    let got = got.await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()
}

/// The items of a response of a type.
fn item<'a>(response: &'a Value, kind: &str) -> &'a Value {
    let items = response["output"].as_array().unwrap();
    let found = items.iter().find(|item| item["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {response}"))
}

/// A lab with a tool that has to be approved, and a response that asks.
async fn asking() -> (ToolLab, String, Value) {
    let lab = ToolLab::answering(ListenerReply::json(r#"{"paid":true}"#)).await;
    let members = json!({
        "method": "POST",
        "query": { "customer": "{{customer}}" },
        "variables": { "customer": { "default": "nobody" } },
        "policy": { "requires_approval": true },
    });
    let id = lab.make("pay", "/old", members).await;
    let body = json!({ "model": "m", "input": "pay {}", "metadata": { "customer": "ann" } });
    let response = respond(&lab, body).await;
    (lab, id, response)
}

fn approval(asked: &Value) -> Value {
    json!({ "model": "m", "previous_response_id": asked["id"], "metadata": { "customer": "bob" }, "input": [{
        "type": "mcp_approval_response",
        "approval_request_id": item(asked, "mcp_approval_request")["id"],
        "approve": true,
    }] })
}

#[tokio::test]
async fn the_version_that_was_called_runs_with_the_variables_of_its_request() {
    let (lab, id, asked) = asking().await;
    assert_eq!(lab.service.asked().len(), 0);
    lab.patch(&id, json!({ "url": lab.service.url("/new") }))
        .await;
    let told = respond(&lab, approval(&asked)).await;
    assert_eq!(item(&told, "mcp_call")["status"], "completed", "{told}");
    let sent: Vec<String> = lab
        .service
        .asked()
        .iter()
        .map(|asked| asked.target.clone())
        .collect();
    assert_eq!(sent, ["/old?customer=ann"]);
}

#[tokio::test]
async fn a_tool_that_was_deleted_meanwhile_does_not_run() {
    let (lab, id, asked) = asking().await;
    lab.delete(&id).await;
    let told = respond(&lab, approval(&asked)).await;
    let call = item(&told, "mcp_call");
    assert_eq!(
        (&call["status"], &call["error"]),
        (
            &json!("failed"),
            &json!("This tool is no longer available.")
        )
    );
    assert_eq!(lab.service.asked().len(), 0);
}

#[tokio::test]
async fn the_policy_is_told_as_it_was_written() {
    let (lab, id, _) = asking().await;
    let path = format!("/api/default/tools/{id}");
    let tool = lab.editor.send("GET", &path, &[], "").await.unwrap().json();
    assert_eq!(tool["policy"], json!({ "requires_approval": true }));
}
