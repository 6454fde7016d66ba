//! Images that are sent again and again: stored once, and everywhere else as they came.

use serde_json::Value;
use tw_core::change::{Change, Outcome};
use tw_core::time::Timestamp;
use tw_core::turn_policy::Surface;
use tw_testkit::listener::{Listener, ListenerReply};

use crate::app::{App, AppOptions, upstream_body};

/// A picture of `bytes` bytes in base64, which no compression would make small.
fn image(bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state: u64 = 7;
    let letters = (0..bytes).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 58) as usize])
    });
    letters.collect()
}

/// A request as its client writes it, with the picture in the first message of `turns`.
type Ask = fn(&str, usize) -> String;

const SURFACES: [(Surface, &str, Ask); 3] = [
    (
        Surface::ChatCompletions,
        "/v1/chat/completions",
        |image, turns| {
            let first = format!(
                r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}"#
            );
            let more = r#",{"role":"assistant","content":"yes"},{"role":"user","content":"and?"}"#;
            let more = more.repeat(turns);
            format!(r#"{{"model":"m", "messages":[{first}{more}]}}"#)
        },
    ),
    (Surface::Messages, "/v1/messages", |image, turns| {
        let first = format!(
            r#"{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{image}"}}}}]}}"#
        );
        let more = r#",{"role":"assistant","content":"yes"},{"role":"user","content":"and?"}"#;
        let more = more.repeat(turns);
        format!(r#"{{"model":"m","max_tokens":9, "messages":[{first}{more}]}}"#)
    }),
    (Surface::Responses, "/v1/responses", |image, turns| {
        let first = format!(
            r#"{{"role":"user","content":[{{"type":"input_image","image_url":"data:image/png;base64,{image}"}}]}}"#
        );
        let more = r#",{"role":"assistant","content":"yes"},{"role":"user","content":"and?"}"#;
        let more = more.repeat(turns);
        format!(r#"{{"model":"m", "input":[{first}{more}]}}"#)
    }),
];

async fn answering() -> Listener {
    let answer = |_: &_| ListenerReply::json(upstream_body("yes", &[]));
    Listener::start(move |asked| answer(asked)).await.unwrap()
}

async fn rows(app: &App) -> (u64, u64) {
    app.settled().await;
    let conn = rusqlite::Connection::open(app.database()).unwrap();
    let sql = "SELECT (SELECT count(*) FROM blob), (SELECT count(*) FROM blob_use)";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (blobs, uses) = conn.query_row(sql, [], read).unwrap();
    (blobs.unsigned_abs(), uses.unsigned_abs())
}

#[tokio::test]
async fn a_picture_is_stored_once_and_passed_on_as_it_came() {
    let image = image(300_000);
    for (surface, path, ask) in SURFACES {
        let upstream = answering().await;
        let app = App::start(&upstream, AppOptions::plain()).await;
        for turns in 0..3 {
            let body = ask(&image, turns);
            let got = app.client.send("POST", path, &[], body.clone()).await;
            let got = got.unwrap();
            assert_eq!(got.status, 200, "{surface:?}: {}", got.text());
            let sent = upstream.asked().pop().unwrap();
            let sent = String::from_utf8(sent.body.to_vec()).unwrap();
            let url = format!(r#""data:image/png;base64,{image}""#);
            assert!(sent.contains(&url), "{surface:?} sends the picture");
            let id = got.header("turnwright-turn").to_owned();
            let key = app.client.key.as_deref().unwrap();
            let caller = app.runtime.authenticate(key).await.unwrap();
            let turn = tw_core::id::TurnId::parse(&id).unwrap();
            let stored = app.store.turn_body(caller.organization, turn).await;
            assert!(
                stored.unwrap() == Some(body.into_bytes()),
                "{surface:?} {turns}"
            );
        }
        // Of each turn its body holds the picture, of the first one its message, too.
        assert_eq!(rows(&app).await, (1, 4), "{surface:?}");
    }
}

#[tokio::test]
async fn whoever_reads_a_turn_or_a_response_gets_the_picture() {
    let image = image(20_000);
    let upstream = answering().await;
    let app = App::start(&upstream, AppOptions::plain()).await;
    let (_, path, ask) = SURFACES[2];
    let got = app.client.send("POST", path, &[], ask(&image, 0)).await;
    let got = got.unwrap();
    let url = format!("data:image/png;base64,{image}");
    let turn = format!("/v1/turns/{}", got.header("turnwright-turn"));
    let read = app.client.send("GET", &turn, &[], String::new()).await;
    assert!(read.unwrap().text().contains(&image), "the record");
    let response = got.json()["id"].as_str().unwrap().to_owned();
    let items = format!("/v1/responses/{response}/input_items");
    let read = app.client.send("GET", &items, &[], String::new()).await;
    let items: Value = read.unwrap().json();
    assert!(
        items["data"][0]["content"][0]["image_url"] == url,
        "the input items"
    );
    // What continues the response by its id sends the picture again.
    let next = format!(r#"{{"model":"m","input":"and?","previous_response_id":"{response}"}}"#);
    let got = app.client.send("POST", path, &[], next).await.unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
    let sent = upstream.asked().pop().unwrap().json();
    assert!(
        sent["messages"][0]["content"][0]["image_url"]["url"] == url,
        "the continued request"
    );
    // A response that is deleted takes it along, once the last turn that holds it has gone.
    let deleted = format!("/v1/responses/{response}");
    let gone = app
        .client
        .send("DELETE", &deleted, &[], String::new())
        .await;
    assert_eq!(gone.unwrap().status, 200);
    let erase = Change::EraseDue {
        now: Timestamp(i64::MAX),
        turns_max: 9,
    };
    let erased = app.store.apply(vec![erase]).await.unwrap();
    assert!(matches!(erased[..], [Outcome::Count(_)]), "{erased:?}");
    assert_eq!(rows(&app).await, (0, 0));
}

#[tokio::test]
async fn many_turns_with_one_picture_take_little_more_than_one() {
    const TURNS: usize = 6;
    let image = image(400_000);
    for (surface, path, ask) in SURFACES {
        let upstream = answering().await;
        let app = App::start(&upstream, AppOptions::plain()).await;
        let conn = rusqlite::Connection::open(app.database()).unwrap();
        let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let size = || conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let empty = size();
        for turns in 0..TURNS {
            let got = app.client.send("POST", path, &[], ask(&image, turns)).await;
            assert_eq!(got.unwrap().status, 200);
        }
        app.settled().await;
        let bytes = size() - empty;
        assert!(
            bytes.unsigned_abs() < 2 * image.len() as u64,
            "{surface:?}: {bytes}"
        );
    }
}
