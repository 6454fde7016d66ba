//! Who answers when an upstream fails.

use std::time::Duration;

use serde_json::json;
use tw_egress::secret::Secret;
use tw_egress::upstream::UpstreamKind;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use super::{EMBEDDED, EMBEDDINGS, embeds, post, rows};
use crate::upstreams::{in_front_of, upstream};

const NOWHERE: &str = "http://127.0.0.1:1/v1";
const ERROR: &str = r#"{"error":{"message":"no","type":"t","code":"c","param":"input"}}"#;
const BODY: &str = r#"{"model":"m","input":"x"}"#;

#[tokio::test]
async fn when_an_upstream_fails_before_its_answer_the_next_one_is_asked() {
    for (what, reply) in [
        ("503", Some(ListenerReply::status(503, ERROR))),
        ("501", Some(ListenerReply::status(501, ERROR))),
        ("408", Some(ListenerReply::status(408, ERROR))),
        (
            "429",
            Some(ListenerReply::status(429, ERROR).with_header("retry-after", "25")),
        ),
        ("401", Some(ListenerReply::status(401, ERROR))),
        ("403", Some(ListenerReply::status(403, ERROR))),
        // Not every upstream has every path.
        ("404", Some(ListenerReply::status(404, ERROR))),
        ("405", Some(ListenerReply::status(405, ERROR))),
        ("hang up", Some(ListenerReply::hang_up())),
        (
            "page",
            Some(ListenerReply::pieces(
                "text/html",
                vec![ReplyPiece::Bytes("<html>".into())],
            )),
        ),
        (
            "cut",
            Some(ListenerReply::pieces(
                "application/json",
                vec![ReplyPiece::Cut],
            )),
        ),
        ("nowhere", None),
    ] {
        let failing = match reply {
            Some(reply) => Some(Listener::in_turn(vec![reply]).await.unwrap()),
            None => None,
        };
        let base_url = failing
            .as_ref()
            .map_or(NOWHERE.to_owned(), |listener| listener.url("/v1"));
        let good = embeds().await;
        let app = in_front_of(vec![
            upstream("bad", base_url),
            upstream("good", good.url("/v1")),
        ])
        .await;
        let got = post(&app, EMBEDDINGS, BODY).await;
        assert_eq!((got.status, &*got.text()), (200, EMBEDDED), "{what}");
        assert_eq!(good.asked().pop().unwrap().body, BODY);
        let row = rows(&app, 1).await.pop().unwrap();
        assert_eq!(
            (&*row.upstream, row.attempts, &*row.outcome),
            ("good", 2, "completed"),
            "{what}"
        );
    }
}

#[tokio::test]
async fn what_the_request_itself_is_refused_for_goes_to_no_other() {
    for status in [400, 413, 422] {
        let refusing = Listener::in_turn(vec![ListenerReply::status(status, ERROR)])
            .await
            .unwrap();
        let good = embeds().await;
        let app = in_front_of(vec![
            upstream("refusing", refusing.url("/v1")),
            upstream("good", good.url("/v1")),
        ])
        .await;
        let got = post(&app, EMBEDDINGS, BODY).await;
        assert_eq!(got.status, status);
        let error = &got.json()["error"];
        assert_eq!(
            (
                &error["message"],
                &error["type"],
                &error["code"],
                &error["param"]
            ),
            (&json!("no"), &json!("t"), &json!("c"), &json!("input"))
        );
        assert_eq!(error["request_id"], json!(got.header("x-request-id")));
        assert_eq!(good.asked().len(), 0);
        let row = rows(&app, 1).await.pop().unwrap();
        assert_eq!((&*row.outcome, row.http_status), ("failed", Some(status)));
    }
}

#[tokio::test]
async fn what_an_only_upstream_says_is_told_as_for_chat() {
    const KEY: &str = "sk-upstream-4711";
    let quotes = format!(r#"{{"error":{{"message":"bad key {KEY}","type":"t","code":"{KEY}"}}}}"#);
    for (reply, asked, status, kind, code, retry_after) in [
        (
            ListenerReply::status(401, &*quotes),
            1,
            502,
            "upstream_error",
            json!("upstream_failed"),
            "",
        ),
        (
            ListenerReply::status(403, &*quotes),
            1,
            502,
            "upstream_error",
            json!("upstream_failed"),
            "",
        ),
        (
            ListenerReply::status(500, &*quotes),
            3,
            502,
            "upstream_error",
            json!("upstream_failed"),
            "",
        ),
        (
            ListenerReply::status(429, &*quotes).with_header("retry-after", "0"),
            3,
            429,
            "rate_limit_error",
            json!("rate_limit_exceeded"),
            "0",
        ),
        (
            ListenerReply::status(404, &*quotes),
            1,
            404,
            "t",
            json!("***"),
            "",
        ),
        (
            ListenerReply::status(307, ""),
            1,
            502,
            "upstream_error",
            json!("upstream_failed"),
            "",
        ),
    ] {
        let listener = Listener::start(move |_| reply.clone()).await.unwrap();
        let mut only = upstream("only", String::new());
        only.kind = UpstreamKind::Http {
            base_url: listener.url("/v1"),
            api_key: Some(Secret::new(KEY.to_owned())),
        };
        let app = in_front_of(vec![only]).await;
        let got = post(&app, EMBEDDINGS, BODY).await;
        assert_eq!(got.status, status, "{}", got.text());
        let error = &got.json()["error"];
        assert_eq!((&error["type"], &error["code"]), (&json!(kind), &code));
        assert_eq!(got.header("retry-after"), retry_after);
        assert!(!got.text().contains(KEY), "{}", got.text());
        assert_eq!(listener.asked().len(), asked, "{status}");
        let row = rows(&app, 1).await.pop().unwrap();
        assert_eq!((&*row.outcome, row.http_status), ("failed", Some(status)));
        assert_eq!(row.attempts as usize, asked);
    }
}

/// The head of a plain answer comes with its end, and its body may come behind the head.
#[tokio::test]
async fn a_plain_answer_may_begin_later_than_a_stream() {
    const BRIEF: Duration = Duration::from_millis(50);
    let body = ReplyPiece::Bytes("{}".into());
    for wait in [ReplyPiece::HeadWait(BRIEF * 2), ReplyPiece::Wait(BRIEF * 2)] {
        let reply = ListenerReply::pieces("application/json", vec![wait, body.clone()]);
        let listener = Listener::in_turn(vec![reply]).await.unwrap();
        let mut only = upstream("only", listener.url("/v1"));
        only.timeouts.first_byte = BRIEF;
        only.timeouts.idle = BRIEF;
        let app = in_front_of(vec![only]).await;
        let got = post(&app, EMBEDDINGS, BODY).await;
        assert_eq!((got.status, &*got.text()), (200, "{}"));
        assert_eq!(listener.asked().len(), 1);
    }
}
