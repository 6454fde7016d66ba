use std::sync::Arc;
use std::time::Duration;

use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_wire::format::WireFormat;

use super::{DownloadLimits, DownloadedParts, PartDownloader, TurnDownloads, place_of};
use crate::client::host_port::AllowedDestination;
use crate::client::resolve::{FixedAnswers, Resolver};
use crate::client::{ClientOptions, EgressClient, PoolOptions, READ_BYTES_MAX_DEFAULT, web_roots};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
const PNG_BASE64: &str = "iVBORw0KGgouLi4u";

fn limits() -> DownloadLimits {
    DownloadLimits {
        bytes_max: 100,
        turn_bytes_max: 150,
        addresses_max: 3,
        timeout: Duration::from_secs(20),
    }
}

/// Downloads that reach this listener and nothing else, for the organization `acme`.
fn reaching(listener: Option<&Listener>, limits: DownloadLimits) -> TurnDownloads {
    let allowed = listener.map(|listener| {
        let place = listener.url("").replace("http://", "");
        AllowedDestination::parse(&place, Some(vec!["acme".to_owned()])).unwrap()
    });
    let client = EgressClient::new(ClientOptions {
        resolver: Resolver::Fixed(FixedAnswers::default()),
        allowed: allowed.into_iter().collect(),
        denied: Vec::new(),
        trusted_roots: web_roots(),
        certificates: Vec::new(),
        proxy: None,
        pool: PoolOptions::defaults(),
        read_bytes_max: READ_BYTES_MAX_DEFAULT,
    });
    TurnDownloads {
        downloader: PartDownloader::new(client, limits),
        organization: Arc::from("acme"),
        parts: DownloadedParts::default(),
    }
}

fn request(parts: &[(&str, String)]) -> Vec<u8> {
    let part = |(kind, url): &(&str, String)| match *kind {
        "image" => format!(r#"{{"type":"input_image","image_url":"{url}"}}"#),
        _ => format!(r#"{{"type":"input_file","file_url":"{url}"}}"#),
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!(r#"{{"input":[{{"content":[{}]}}]}}"#, parts.join(",")).into_bytes()
}

fn answer(content_type: &str, body: &[u8]) -> ListenerReply {
    let body = vec![ReplyPiece::Bytes(body.to_vec().into())];
    ListenerReply::pieces(content_type, body)
}

async fn put(downloads: &TurnDownloads, parts: &[(&str, String)]) -> Result<String, String> {
    let put = downloads.put_into(request(parts), WireFormat::OpenAiResponses);
    match put.await {
        Ok(body) => Ok(String::from_utf8(body).unwrap()),
        Err(error) => Err(format!("{}: {error}", error.code())),
    }
}

/// The kind of a part, the type that its answer names, its bytes, and the address or the error that becomes of it.
type DownloadedCase<'a> = (&'a str, &'a str, &'a [u8], Result<&'a str, &'a str>);

#[tokio::test]
async fn a_content_is_what_its_first_bytes_say() {
    let rows: &[DownloadedCase] = &[
        (
            "image",
            "image/png",
            PNG,
            Ok("data:image/png;base64,iVBORw0KGgouLi4u"),
        ),
        (
            "image",
            "text/html",
            PNG,
            Ok("data:image/png;base64,iVBORw0KGgouLi4u"),
        ),
        (
            "image",
            "image/png",
            b"\xff\xd8\xff\xe0",
            Ok("data:image/jpeg;base64,/9j/4A=="),
        ),
        (
            "image",
            "image/png",
            b"<html>",
            Err("no PNG, JPEG, GIF or WebP"),
        ),
        (
            "image",
            "image/svg+xml",
            b"<svg/>",
            Err("no PNG, JPEG, GIF or WebP"),
        ),
        (
            "image",
            "application/pdf",
            b"%PDF-1.7",
            Err("no PNG, JPEG, GIF or WebP"),
        ),
        (
            "file",
            "application/pdf",
            b"%PDF-1.7",
            Ok("data:application/pdf;base64,JVBERi0xLjc="),
        ),
        (
            "file",
            "text/csv; charset=utf-8",
            b"a,b",
            Ok("data:text/csv;base64,YSxi"),
        ),
        (
            "file",
            "text/csv",
            b"\xff\xfe",
            Err("neither a PDF nor text"),
        ),
        (
            "file",
            "application/octet-stream",
            b"a,b",
            Err("neither a PDF nor text"),
        ),
        ("file", "image/png", PNG, Err("neither a PDF nor text")),
    ];
    for (kind, content_type, body, expected) in rows {
        let replies = vec![answer(content_type, body)];
        let listener = Listener::in_turn(replies).await.unwrap();
        let downloads = reaching(Some(&listener), limits());
        let got = put(&downloads, &[(*kind, listener.url("/x?token=secret"))]).await;
        match (got, expected) {
            (Ok(body), Ok(url)) => assert!(body.contains(url), "{content_type}: {body}"),
            (Err(error), Err(why)) => {
                assert!(error.contains(why), "{content_type}: {error}");
                assert!(!error.contains("secret"), "{error}");
            }
            (got, _) => panic!("{content_type}: {got:?}"),
        }
    }
}

#[tokio::test]
async fn what_cannot_be_had_is_an_error_that_says_why() {
    let long = vec![b'.'; 101];
    let listener = Listener::in_turn(vec![
        ListenerReply::status(404, "not there"),
        ListenerReply::status(302, "").with_header("location", "http://127.0.0.1:1/"),
        answer("image/png", &[PNG, &long].concat()),
        ListenerReply::hang_up(),
    ])
    .await
    .unwrap();
    let downloads = reaching(Some(&listener), limits());
    let whys = [
        "status 404",
        "status 302",
        "more than 100 bytes",
        "its server did not answer",
    ];
    for why in whys {
        let got = put(&downloads, &[("image", listener.url("/x"))]).await;
        let error = got.unwrap_err();
        let place = listener.url("").replace("http://", "");
        assert!(
            error.starts_with(&format!("download_failed: image {place}: ")),
            "{error}"
        );
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[tokio::test]
async fn private_places_are_reached_by_nobody_who_is_not_allowed_to() {
    let listener = Listener::start(|_| answer("image/png", PNG)).await.unwrap();
    let of_nobody = reaching(None, limits());
    let of_another = TurnDownloads {
        organization: Arc::from("other"),
        ..reaching(Some(&listener), limits())
    };
    for downloads in [of_nobody, of_another] {
        for url in [
            listener.url("/x"),
            listener.url("/x").replace("http:", "https:"),
            "https://169.254.169.254/latest".to_owned(),
            "https://[::1]/".to_owned(),
            "https://nowhere.invalid/".to_owned(),
        ] {
            let got = put(&downloads, &[("image", url.clone())]).await;
            let error = got.unwrap_err();
            let is_told = error.contains("may not be reached from here")
                || error.contains("no usable https URL");
            assert!(is_told, "{url}: {error}");
        }
    }
    assert!(listener.asked().is_empty());
}

#[tokio::test]
async fn the_rounds_of_a_turn_send_one_content() {
    let listener = Listener::in_turn(vec![answer("image/png", PNG)])
        .await
        .unwrap();
    let downloads = reaching(Some(&listener), limits());
    let parts = [("image", listener.url("/x")), ("image", listener.url("/x"))];
    let first = put(&downloads, &parts).await.unwrap();
    assert_eq!(first.matches(PNG_BASE64).count(), 2);
    assert_eq!(put(&downloads, &parts).await.unwrap(), first);
    assert_eq!(listener.asked().len(), 1);
}

#[tokio::test]
async fn a_turn_has_limits_over_all_contents() {
    let listener = Listener::start(|_| {
        let body = [PNG, &[b'.'; 68]].concat();
        answer("image/png", &body)
    })
    .await
    .unwrap();
    let urls = |n: usize| -> Vec<(&str, String)> {
        let url = |n| ("image", listener.url(&format!("/{n}")));
        (0..n).map(url).collect()
    };
    let rows = [
        (1, None),
        (2, Some("download_too_large")),
        (4, Some("too_many_addresses")),
    ];
    for (n, code) in rows {
        let downloads = reaching(Some(&listener), limits());
        let got = put(&downloads, &urls(n)).await;
        match code {
            None => drop(got.unwrap()),
            Some(code) => {
                let error = got.unwrap_err();
                assert!(error.starts_with(code), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_silent_server_is_waited_for_no_longer_than_configured() {
    let listener =
        Listener::start(|_| ListenerReply::pieces("image/png", vec![ReplyPiece::Gate("never")]))
            .await
            .unwrap();
    let limits = DownloadLimits {
        timeout: Duration::from_millis(50),
        ..limits()
    };
    let downloads = reaching(Some(&listener), limits);
    let got = put(&downloads, &[("image", listener.url("/x"))]).await;
    let error = got.unwrap_err();
    assert!(error.contains("took too long"), "{error}");
}

#[test]
fn an_error_names_the_host_alone() {
    let rows = [
        ("https://a.example/x?token=1", "a.example"),
        ("https://user:word@a.example:8443", "a.example:8443"),
        ("https://a.example#x", "a.example"),
        ("https://[::1]:1/x", "[::1]:1"),
    ];
    for (url, place) in rows {
        assert_eq!(place_of(url), place);
    }
}
