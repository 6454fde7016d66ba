//! What a page of another origin may ask and read.

use tw_http::cors::CorsOrigins;
use tw_http::server::SurfaceOptions;
use tw_testkit::client::ReadAnswer;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, CHAT, ask, ask_streamed, upstream_body, upstream_stream};
use crate::tenants::ROUTES;

const PAGE: &str = "https://chat.example.com";
const ALLOW_ORIGIN: &str = "access-control-allow-origin";

async fn start(origins: &[&str]) -> (App, Listener) {
    let upstream = Listener::start(|asked| {
        if asked.json()["stream"] == serde_json::json!(true) {
            ListenerReply::sse(upstream_stream("Hi", &[]))
        } else {
            ListenerReply::json(upstream_body("Hi", &[]))
        }
    });
    let origins: Vec<String> = origins.iter().map(|text| (*text).to_owned()).collect();
    let wanted = AppOptions {
        options: SurfaceOptions {
            cors_origins: CorsOrigins::parse(&origins).unwrap(),
            ..SurfaceOptions::defaults()
        },
        ..AppOptions::plain()
    };
    let upstream = upstream.await.unwrap();
    (App::start(&upstream, wanted).await, upstream)
}

async fn preflight(app: &App, path: &str, method: &str, origin: &str) -> ReadAnswer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        (
            "access-control-request-headers",
            "authorization,content-type,idempotency-key,turnwright-user,x-stainless-lang",
        ),
    ];
    app.with_key(None)
        .send("OPTIONS", path, &headers, "")
        .await
        .unwrap()
}

#[tokio::test]
async fn a_preflight_of_every_route_is_answered_without_a_key() {
    let (app, _upstream) = start(&[PAGE, "http://localhost:3000"]).await;
    for (method, path, _) in ROUTES {
        let got = preflight(&app, path, method, PAGE).await;
        assert_eq!(got.status, 200, "{path}");
        assert_eq!(got.header(ALLOW_ORIGIN), PAGE);
        let allowed = got.header("access-control-allow-methods");
        assert!(allowed.split(',').any(|one| one == method), "{allowed}");
        assert_eq!(
            got.header("access-control-allow-headers"),
            "authorization,content-type,idempotency-key,turnwright-user,x-stainless-lang"
        );
        assert_eq!(got.header("access-control-max-age"), "7200");
        assert!(
            got.header("vary").contains("origin"),
            "{}",
            got.header("vary")
        );
        assert_eq!(got.header("access-control-allow-credentials"), "");
    }
}

#[tokio::test]
async fn whose_page_may_read_an_answer() {
    for (configured, asks, allowed) in [
        (&[][..], PAGE, ""),
        (&[PAGE], PAGE, PAGE),
        (&[PAGE], "https://evil.example", ""),
        (&[PAGE], "https://chat.example.com.evil.example", ""),
        (&[PAGE], "null", ""),
        (&["http://localhost:3000", PAGE], PAGE, PAGE),
        (&["*"], "https://evil.example", "*"),
    ] {
        let (app, _upstream) = start(configured).await;
        let origin = [("origin", asks)];
        let bare = app.with_key(None);
        let body = ask("Hi").to_string();
        let answers = [
            ("plain", 200, app.post(&origin, &ask("Hi")).await),
            (
                "streamed",
                200,
                app.post(&origin, &ask_streamed("Hi")).await,
            ),
            (
                "no key",
                401,
                bare.send("POST", CHAT, &origin, body).await.unwrap(),
            ),
            (
                "wrong body",
                400,
                app.client.send("POST", CHAT, &origin, "").await.unwrap(),
            ),
            (
                "no route",
                404,
                app.client.send("GET", "/x", &origin, "").await.unwrap(),
            ),
            (
                "no method",
                405,
                app.client.send("PUT", CHAT, &origin, "").await.unwrap(),
            ),
        ];
        for (what, status, got) in answers {
            assert_eq!(got.status, status, "{what}");
            assert_eq!(
                got.header(ALLOW_ORIGIN),
                allowed,
                "{what} of {configured:?} to {asks}"
            );
            assert_eq!(got.header("access-control-allow-credentials"), "");
            let exposed = got.header("access-control-expose-headers");
            for name in [
                "x-request-id",
                "turnwright-turn",
                "retry-after",
                "x-ratelimit-reset-requests",
            ] {
                let is_exposed = exposed.split(',').any(|one| one == name);
                assert_eq!(is_exposed, !configured.is_empty(), "{what}: {exposed}");
            }
            let varies = got.header("vary").contains("origin");
            assert_eq!(
                varies,
                !configured.is_empty() && configured != ["*"],
                "{what}"
            );
        }
        let got = preflight(&app, CHAT, "POST", asks).await;
        assert_eq!(got.header(ALLOW_ORIGIN), allowed);
        assert_eq!(got.status, if configured.is_empty() { 405 } else { 200 });
    }
}
