//! Upstreams that send and send, and say nothing.

use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};

use crate::app::{App, AppOptions, ask_streamed, upstream_stream};

#[tokio::test]
async fn endless_nothing_fails_as_nonsense_and_keep_alives_do_not() {
    let empty = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n";
    let answer = upstream_stream("Hello", &[]);
    // Events of this kind, how often before the answer, and the status that comes of it.
    for (event, times, status) in [
        (": OPENROUTER PROCESSING\n\n", 1_800, 200),
        (": OPENROUTER PROCESSING\n\n", 300_000, 502),
        ("\n", 600_000, 502),
        (empty, 10_000, 200),
    ] {
        let pieces = vec![
            ReplyPiece::Bytes(event.repeat(times).into()),
            ReplyPiece::Bytes(answer.clone().into()),
        ];
        let reply = ListenerReply::pieces("text/event-stream", pieces);
        let upstream = Listener::in_turn(vec![reply]).await.unwrap();
        let app = App::start(&upstream, AppOptions::plain()).await;
        let got = app.client.chat(&ask_streamed("Hi")).await.unwrap();
        assert_eq!(got.status, status, "{times} of {event:?}: {}", got.text());
        if status == 502 {
            assert!(
                got.text().contains("events that say nothing"),
                "{}",
                got.text()
            );
            let record = app.turn_of(&got).await;
            let attempts = record["rounds"][0]["attempts"].as_array().unwrap();
            assert_eq!(attempts.len(), 1);
            assert_eq!(attempts[0]["outcome"], "nonsense");
        } else {
            assert_eq!(got.streamed_text(), "Hello");
        }
    }
}
