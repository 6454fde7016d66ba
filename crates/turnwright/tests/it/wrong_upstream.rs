//! An upstream that is set up wrongly: what its operator and its clients are told.

use std::process::Command;

use serde_json::json;
use tempfile::TempDir;
use tw_testkit::client::TestClient;
use tw_testkit::listener::{Listener, ListenerReply, ReceivedRequest};

use crate::process::{SECRET, ServerProcess, create_key, key_of, serve, turnwright};

/// Has its routes under `/v1`, for one key.
async fn provider(key: &'static str) -> Listener {
    Listener::start(move |asked: &ReceivedRequest| {
        if !["/v1/models", "/v1/chat/completions"].contains(&asked.target.as_str()) {
            ListenerReply::status(404, "")
        } else if asked.header("authorization") != format!("Bearer {key}") {
            let said = json!({ "error": { "message": format!("wrong: {SECRET}") } });
            ListenerReply::status(401, said.to_string())
        } else {
            ListenerReply::json(r#"{"object":"list","data":[{"id":"m"}]}"#)
        }
    })
    .await
    .unwrap()
}

struct Case {
    right_key: &'static str,
    base_url: &'static str,
    key: Option<&'static str>,
    /// What the log and the doctor say, with `@` for the provider's own.
    operator: &'static str,
    /// What a client reads of the list and of a chat.
    list: &'static str,
    chat: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        right_key: SECRET,
        base_url: "",
        key: Some(SECRET),
        operator: "GET @/models: the upstream answered with status 404; \
                   @/v1 answers: set OPENAI_BASE_URL to it",
        list: "'openai' has no list of models at its address; its base URL may lack /v1",
        chat: "the upstream 'openai' answered 404: there are no chat completions at its address",
    },
    // The right place is found although the key is wrong, too.
    Case {
        right_key: "another",
        base_url: "/v1/chat/completions",
        key: Some(SECRET),
        operator: "GET @/v1/chat/completions/models: the upstream answered with status 404; \
                   @/v1 answers: set OPENAI_BASE_URL to it",
        list: "'openai' has no list of models at its address; its base URL may lack /v1",
        chat: "the upstream 'openai' answered 404: there are no chat completions at its address",
    },
    Case {
        right_key: "another",
        base_url: "/v1",
        key: Some(SECRET),
        operator: "GET @/v1/models: the upstream answered with status 401; the key of \
                   OPENAI_API_KEY was refused: look whether it is whole, and for this server",
        list: "'openai' refused this server's credentials",
        chat: "the upstream refused this server's credentials",
    },
    Case {
        right_key: "another",
        base_url: "/v1",
        key: None,
        operator: "GET @/v1/models: the upstream answered with status 401; it wants a key, \
                   and none is set: set it with OPENAI_API_KEY",
        list: "'openai' refused this server's credentials",
        chat: "the upstream refused this server's credentials",
    },
];

impl Case {
    fn environment(&self, command: &mut Command, upstream: &Listener) {
        command.env("OPENAI_BASE_URL", upstream.url(self.base_url));
        match self.key {
            Some(key) => command.env("OPENAI_API_KEY", key),
            None => command.env_remove("OPENAI_API_KEY"),
        };
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_doctor_and_clients_say_what_is_wrong() {
    for case in CASES {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let upstream = provider(case.right_key).await;
        let operator = case.operator.replace('@', &upstream.url(""));

        let mut doctor = turnwright();
        doctor.args(["doctor", "--ask", "--data"]).arg(&data);
        case.environment(&mut doctor, &upstream);
        let output = doctor.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains(&format!("fail upstream openai: {operator}")),
            "{said}"
        );
        assert!(!said.contains(SECRET), "{said}");
        assert_eq!(output.status.code(), Some(1));

        let key = key_of(&create_key(&data, &[]));
        let mut command = serve(&data, &upstream);
        command.env("TURNWRIGHT_CHECK_UPSTREAMS", "true");
        case.environment(&mut command, &upstream);
        let server = ServerProcess::start(command, &data);
        let client = TestClient {
            key: Some(key),
            ..server.client.clone()
        };
        let listed = client.send("GET", "/v1/models", &[], "").await.unwrap();
        assert_eq!(listed.status, 502, "{}", listed.text());
        let ask = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
        let chatted = client.chat(&ask).await.unwrap();
        for (got, expected) in [(&listed, case.list), (&chatted, case.chat)] {
            let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("127.0.0.1"), "{message}");
        }
        // The list was asked for before this client came, or as it came; what the log says is
        // said before the client is answered.
        let log = server.log();
        assert!(log.contains(&operator), "{log}");
        assert!(log.contains(&upstream.url(case.base_url)), "{log}");
        let failed = log
            .lines()
            .find(|line| line.contains("a model request failed"));
        let failed = failed.unwrap_or_else(|| panic!("{log}"));
        assert!(failed.contains("WARN"), "{failed}");
        assert!(failed.contains("/chat/completions"), "{failed}");
        assert!(failed.contains("OPENAI_"), "{failed}");
        assert!(!log.contains(SECRET), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_asks_once_and_waits_for_nobody() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    // It takes the request and never answers.
    let upstream = Listener::start(|_| {
        ListenerReply::pieces(
            "application/json",
            vec![tw_testkit::listener::ReplyPiece::HeadGate("never")],
        )
    })
    .await
    .unwrap();
    let mut command = serve(&data, &upstream);
    command.env("TURNWRIGHT_CHECK_UPSTREAMS", "true");
    let mut server = ServerProcess::start(command, &data);
    let healthy = server
        .client
        .send("GET", "/healthz", &[], "")
        .await
        .unwrap();
    assert_eq!(healthy.status, 200);
    upstream.asked_times(1).await;
    assert_eq!(upstream.asked()[0].target, "/v1/models");
    // The end does not wait for it either.
    server.terminate();
    assert_eq!(server.end().0, Some(0));
    assert_eq!(upstream.asked().len(), 1);
}
