//! What an upstream is sent.

use tw_egress::secret::Secret;
use tw_egress::upstream::UpstreamKind;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{EMBEDDED, EMBEDDINGS, ROUTES, RelayedRow, embeds, post, rows};
use crate::app::{App, AppOptions};
use crate::upstreams::{in_front_of, serves, upstream};

#[tokio::test]
async fn each_route_leads_to_its_place_with_the_body_as_it_was() {
    let listener = embeds().await;
    let app = App::start(&listener, AppOptions::plain()).await;
    let body = r#"{ "model" : "m", "input": [[1, 27182818e-7]], "user": "ada" }"#;
    for (n, (route, _)) in ROUTES.into_iter().enumerate() {
        let got = post(&app, route, body).await;
        assert_eq!((got.status, &*got.text()), (200, EMBEDDED), "{route}");
        let asked = listener.asked().pop().unwrap();
        assert_eq!((&*asked.method, &*asked.target), ("POST", route));
        assert_eq!(asked.body, body, "{route}");
        let row = rows(&app, n + 1).await.pop().unwrap();
        let expected = RelayedRow {
            end_user: Some("ada".to_owned()),
            path: route.to_owned(),
            model: "m".to_owned(),
            upstream: "test".to_owned(),
            attempts: 1,
            outcome: "completed".to_owned(),
            http_status: Some(200),
            tokens: (Some(5), None),
            bytes: (body.len() as i64, EMBEDDED.len() as i64),
            request_id: got.header("x-request-id").to_owned(),
        };
        assert_eq!(row, expected);
    }
    let files = app.files();
    for said in ["27182818e-7", "AACAPw"] {
        let found = files.windows(said.len()).any(|at| at == said.as_bytes());
        assert!(!found, "{said} is in the database");
    }
}

#[tokio::test]
async fn a_model_is_called_by_the_name_that_its_upstream_has_for_it() {
    let (small, large) = (embeds().await, embeds().await);
    let mut first = upstream("first", small.url("/v1"));
    first.models = serves(&["e5*"], &[("any", "bge-m3"), ("dall-e-2", "flux")]);
    let second = upstream("second", large.url("/v1"));
    let app = in_front_of(vec![first, second]).await;
    let form = "multipart/form-data; boundary=b";
    let file =
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n\r\nRIFF\r\n";
    let named = |name: &str| {
        format!(
            "{file}--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{name}\r\n--b--\r\n"
        )
    };
    for (path, content_type, body, upstream, sent) in [
        (
            EMBEDDINGS,
            "application/json",
            r#"{"model":"e5"}"#.to_owned(),
            "first",
            r#"{"model":"e5"}"#.to_owned(),
        ),
        (
            EMBEDDINGS,
            "application/json",
            r#"{"model":"any"}"#.to_owned(),
            "first",
            r#"{"model":"bge-m3"}"#.to_owned(),
        ),
        (
            EMBEDDINGS,
            "application/json",
            r#"{"model":"x"}"#.to_owned(),
            "second",
            r#"{"model":"x"}"#.to_owned(),
        ),
        (
            "/v1/audio/transcriptions",
            form,
            named("any"),
            "first",
            named("bge-m3"),
        ),
        (
            "/v1/audio/transcriptions",
            form,
            named("whisper-1"),
            "second",
            named("whisper-1"),
        ),
        (
            "/v1/images/generations",
            "application/json",
            r#"{"prompt":"p"}"#.to_owned(),
            "first",
            r#"{"model":"flux","prompt":"p"}"#.to_owned(),
        ),
        (
            "/v1/moderations",
            "application/json",
            r#"{"input":"p"}"#.to_owned(),
            "second",
            r#"{"input":"p"}"#.to_owned(),
        ),
        (
            "/v1/moderations",
            "text/plain",
            "model".to_owned(),
            "second",
            "model".to_owned(),
        ),
    ] {
        let headers = [("content-type", content_type)];
        let got = app.client.send("POST", path, &headers, body).await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        let listener = if upstream == "first" { &small } else { &large };
        let asked = listener.asked().pop().unwrap();
        assert_eq!(String::from_utf8(asked.body.to_vec()).unwrap(), sent);
        assert_eq!(asked.header("content-type"), content_type);
    }
}

#[tokio::test]
async fn an_upstream_gets_its_own_key_and_no_header_that_it_need_not_see() {
    const OWN: &str = "sk-upstream";
    let listener = embeds().await;
    let kinds = |key: Option<Secret>| {
        [
            (
                UpstreamKind::Http {
                    base_url: listener.url("/v1"),
                    api_key: key.clone(),
                },
                "/v1/embeddings",
                ("authorization", format!("Bearer {OWN}")),
            ),
            (
                UpstreamKind::Azure {
                    base_url: listener.url(""),
                    api_key: key,
                    api_version: Some("2025-01-01".to_owned()),
                },
                "/openai/deployments/m/embeddings?api-version=2025-01-01",
                ("api-key", OWN.to_owned()),
            ),
        ]
    };
    for (kind, target, (header, value)) in kinds(Some(Secret::new(OWN.to_owned()))) {
        let mut one = upstream("one", String::new());
        one.kind = kind;
        let app = in_front_of(vec![one]).await;
        let headers = [
            ("accept", "application/json"),
            ("accept-encoding", "gzip"),
            ("cookie", "a=b"),
            ("turnwright-user", "ada"),
            ("x-stainless-lang", "js"),
            ("connection", "x-mine"),
            ("x-mine", "1"),
        ];
        let body = r#"{"model":"m"}"#;
        let got = app.client.send("POST", EMBEDDINGS, &headers, body).await;
        assert_eq!(got.unwrap().status, 200);
        let asked = listener.asked().pop().unwrap();
        assert_eq!(asked.target, target);
        assert_eq!(asked.header(header), value);
        let mut names: Vec<&str> = asked.headers.keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        let mut expected = vec![
            "accept",
            "accept-encoding",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            header,
        ];
        expected.sort_unstable();
        assert_eq!(names, expected);
        assert_eq!(asked.header("accept-encoding"), "identity");
        let row = rows(&app, 1).await.pop().unwrap();
        assert_eq!(row.end_user.as_deref(), Some("ada"));
    }
}

#[tokio::test]
async fn an_answer_shows_what_its_body_is_and_nothing_of_the_upstream() {
    let reply = ListenerReply::pieces(
        "audio/mpeg",
        vec![ReplyPiece::Bytes(vec![0, 255, 13, 10].into())],
    )
    .with_header("content-disposition", "attachment; filename=a.mp3")
    .with_header("set-cookie", "a=b")
    .with_header("x-request-id", "req_upstream")
    .with_header("openai-organization", "org-secret")
    .with_header("x-ratelimit-remaining-requests", "7")
    .with_header("connection", "x-between")
    .with_header("x-between", "1");
    let listener = Listener::in_turn(vec![reply]).await.unwrap();
    let app = App::start(&listener, AppOptions::plain()).await;
    let got = post(&app, "/v1/audio/speech", r#"{"model":"tts-1"}"#).await;
    assert_eq!((got.status, &got.body[..]), (200, &[0, 255, 13, 10][..]));
    let mut names: Vec<&str> = got.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "content-disposition",
        "content-type",
        "date",
        "transfer-encoding",
        "x-request-id",
    ];
    assert_eq!(names, expected);
    assert_eq!(got.header("content-type"), "audio/mpeg");
    assert!(got.header("x-request-id").starts_with("req_"));
    assert_ne!(got.header("x-request-id"), "req_upstream");
}
