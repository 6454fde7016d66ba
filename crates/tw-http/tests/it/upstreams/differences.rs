//! Each upstream gets the request as it accepts it, and the client hears what that changed.

use serde_json::{Value, json};
use tw_core::accepts::{Accepts, SchemaDialect, StrictTools, SystemRole, TokenLimit};
use tw_testkit::listener::{Listener, ListenerReply};

use super::{in_front_of, says, upstream};

fn request() -> Value {
    let image = json!({ "type": "image_url", "image_url": { "url": "data:x" } });
    let odd = json!({ "type": "object", "properties": { "a": { "$ref": "#" } } });
    json!({
        "model": "m",
        "messages": [
            { "role": "developer", "content": "Be kind." },
            { "role": "user", "content": "Look." },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c", "type": "function", "function": { "name": "look", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "c", "content": [image] },
        ],
        "tools": [
            { "type": "function", "function": { "name": "look", "strict": true, "parameters": { "type": "object", "properties": {} } } },
            { "type": "function", "function": { "name": "odd", "parameters": odd } },
        ],
        "max_completion_tokens": 7,
    })
}

fn particular() -> Accepts {
    Accepts {
        system_role: SystemRole::System,
        token_limit: TokenLimit::MaxTokens,
        images_in_results: false,
        strict: StrictTools::WhereItFits,
        schemas: SchemaDialect::OpenApi,
        ..Accepts::everything()
    }
}

#[tokio::test]
async fn what_an_upstream_takes_otherwise_is_written_so_and_reported() {
    let listener = says("Hello").await;
    let mut particular_one = upstream("u", listener.url("/v1"));
    particular_one.accepts = particular();
    let app = in_front_of(vec![particular_one]).await;
    let got = app.post(&[], &request()).await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(
        got.header("turnwright-repaired"),
        "moved_part=1, tool_left_out=1, not_strict=1"
    );
    let sent = listener.asked()[0].json();
    assert_eq!(sent["messages"][0]["role"], json!("system"));
    assert_eq!(sent["messages"][4]["role"], json!("user"));
    assert_eq!(
        sent["messages"][4]["content"][1],
        request()["messages"][3]["content"][0]
    );
    assert_eq!(sent["max_tokens"], json!(7));
    assert_eq!(sent["max_completion_tokens"], Value::Null);
    let look = json!({ "name": "look", "parameters": { "type": "object", "properties": {} } });
    assert_eq!(
        sent["tools"],
        json!([{ "type": "function", "function": look }])
    );
    // A request that needs nothing of it says nothing of it.
    let plain = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    assert_eq!(
        app.post(&[], &plain).await.header("turnwright-repaired"),
        ""
    );
    assert_eq!(listener.asked()[1].json(), plain);
}

#[tokio::test]
async fn the_next_upstream_gets_the_request_in_its_own_form() {
    let busy = Listener::in_turn(vec![ListenerReply::status(503, "{}")])
        .await
        .unwrap();
    let good = says("Hello").await;
    let mut first = upstream("first", busy.url("/v1"));
    first.accepts = particular();
    let app = in_front_of(vec![first, upstream("second", good.url("/v1"))]).await;
    let got = app.post(&[], &request()).await;
    assert_eq!(got.status, 200, "{}", got.text());
    assert_eq!(busy.asked()[0].json()["max_tokens"], json!(7));
    assert_eq!(good.asked()[0].json(), request());
}
