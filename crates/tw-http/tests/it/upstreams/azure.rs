//! Azure: paths, the version and the key's header.

use serde_json::json;
use tw_egress::secret::Secret;
use tw_egress::upstream::{Upstream, UpstreamKind};
use tw_testkit::listener::{Listener, ListenerReply};

use super::{ask_of, attempts, in_front_of, says, serves, upstream};

fn azure(listener: &Listener, api_version: Option<&str>) -> Upstream {
    let mut azure = upstream("azure", String::new());
    azure.kind = UpstreamKind::Azure {
        base_url: listener.url(""),
        api_key: Some(Secret::new("azure-4711".to_owned())),
        api_version: api_version.map(str::to_owned),
    };
    azure.models = serves(&[], &[("gpt-4o", "my-deployment")]);
    azure
}

#[tokio::test]
async fn the_deployment_stands_in_the_path_and_the_key_in_its_own_header() {
    for (version, target) in [
        (
            Some("2024-10-21"),
            "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21",
        ),
        (None, "/openai/v1/chat/completions"),
    ] {
        let listener = says("Hello").await;
        let app = in_front_of(vec![azure(&listener, version)]).await;
        for stream in [false, true] {
            let mut request = ask_of("gpt-4o");
            request["stream"] = json!(stream);
            let got = app.post(&[], &request).await;
            assert_eq!(got.status, 200, "{}", got.text());
            let asked = listener.asked().pop().unwrap();
            assert_eq!(asked.target, target);
            assert_eq!(asked.header("api-key"), "azure-4711");
            assert_eq!(asked.header("authorization"), "");
            assert_eq!(asked.json()["model"], json!("my-deployment"));
        }
    }
}

#[tokio::test]
async fn a_name_that_can_be_no_deployment_reaches_nobody() {
    let listener = says("Hello").await;
    let app = in_front_of(vec![azure(&listener, Some("2024-10-21"))]).await;
    for model in ["../../admin", "a/b", "a?x=1", "..", "ä"] {
        let got = app.post(&[], &ask_of(model)).await;
        assert_eq!(got.status, 404, "{model}: {}", got.text());
    }
    assert_eq!(listener.asked().len(), 0);
}

#[tokio::test]
async fn the_key_is_not_shown_when_azure_quotes_it() {
    let error = r#"{"error":{"code":"400","message":"bad key azure-4711"}}"#;
    let listener = Listener::in_turn(vec![ListenerReply::status(400, error)])
        .await
        .unwrap();
    let app = in_front_of(vec![azure(&listener, None)]).await;
    let got = app.post(&[], &ask_of("gpt-4o")).await;
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["message"], json!("bad key ***"));
}

#[tokio::test]
async fn azure_is_what_another_upstream_falls_back_to() {
    let listener = says("Hello").await;
    let nowhere = upstream("openai", "http://127.0.0.1:1/v1".to_owned());
    let app = in_front_of(vec![nowhere, azure(&listener, Some("2024-10-21"))]).await;
    let got = app.post(&[], &ask_of("gpt-4o")).await;
    assert_eq!(got.status, 200, "{}", got.text());
    let attempts = attempts(&app.turn_of(&got).await);
    let names: Vec<&str> = attempts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["openai", "azure"]);
}
