//! Images and files that a client names by their addresses, before upstreams that get the contents.

use std::sync::Arc;

use serde_json::{Value, json};
use tw_core::accepts::{Accepts, AddressRule};
use tw_egress::client::EgressClient;
use tw_egress::client::host_port::AllowedDestination;
use tw_egress::part_downloads::{DownloadLimits, PartDownloader};
use tw_egress::upstream::Upstream;
use tw_testkit::listener::{Listener, ListenerReply, ReplyPiece};
use tw_wire::format::WireFormat::{self, AnthropicMessages, OpenAiChat, OpenAiResponses};

use crate::app::{App, AppOptions};
use crate::nine_pairs::{Spoken, answer, request};
use crate::tools::lab::options;
use crate::upstreams::upstream;

const FORMATS: [WireFormat; 3] = [OpenAiChat, AnthropicMessages, OpenAiResponses];
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
const PNG_BASE64: &str = "iVBORw0KGgouLi4u";
const PDF: &[u8] = b"%PDF-1.7";
const PDF_BASE64: &str = "JVBERi0xLjc=";

/// A server of a picture and a file.
async fn files() -> Listener {
    Listener::start(|asked| {
        let body = match asked.target.as_str() {
            "/a.png" => PNG,
            "/a.pdf" => PDF,
            _ => return ListenerReply::status(404, ""),
        };
        let body = vec![ReplyPiece::Bytes(bytes::Bytes::from_static(body))];
        ListenerReply::pieces("application/octet-stream", body)
    })
    .await
    .unwrap()
}

/// A server whose upstream speaks a format and gets the contents that `files` serves, or addresses.
async fn app(format: WireFormat, rule: AddressRule, files: &Listener) -> (App, Listener) {
    let listener = Listener::start(move |asked| {
        let streamed = asked.json()["stream"] == json!(true);
        answer(format, Spoken::Text("yes"), streamed)
    });
    let listener = listener.await.unwrap();
    let one = Upstream {
        format,
        accepts: Accepts {
            addresses: rule,
            ..Accepts::everything()
        },
        ..upstream("one", listener.url("/v1"))
    };
    let place = files.url("").replace("http://", "");
    let mut client = options();
    client.allowed = vec![AllowedDestination::parse(&place, None).unwrap()];
    let wanted = AppOptions {
        config: Box::new(move |config| {
            config.upstreams = vec![Arc::new(one)];
            let client = EgressClient::new(client);
            config.downloader = PartDownloader::new(client, DownloadLimits::defaults());
        }),
        ..AppOptions::plain()
    };
    let app = App::start_at("http://127.0.0.1:1/v1".to_owned(), wanted).await;
    (app, listener)
}

/// A message's part in a format that names an address; `None` where the format has none for a file.
fn part(format: WireFormat, url: &str) -> Option<Value> {
    let is_image = !url.ends_with(".pdf");
    Some(match (format, is_image) {
        (OpenAiChat, true) => json!({ "type": "image_url", "image_url": { "url": url } }),
        (OpenAiChat, false) => return None,
        (OpenAiResponses, true) => json!({ "type": "input_image", "image_url": url }),
        (OpenAiResponses, false) => json!({ "type": "input_file", "file_url": url }),
        (AnthropicMessages, true) => {
            json!({ "type": "image", "source": { "type": "url", "url": url } })
        }
        (AnthropicMessages, false) => {
            json!({ "type": "document", "source": { "type": "url", "url": url } })
        }
    })
}

fn asking(format: WireFormat, part: Value) -> (&'static str, Value) {
    let (path, mut body) = request(format, false, None);
    let messages = if format == OpenAiResponses {
        "input"
    } else {
        "messages"
    };
    body[messages][0]["content"] = json!([part]);
    (path, body)
}

#[tokio::test]
async fn each_pair_sends_the_content_in_the_upstreams_place_for_it() {
    let files = files().await;
    for up in FORMATS {
        let (app, upstream) = app(up, AddressRule::Downloaded, &files).await;
        for from in FORMATS {
            for (name, base64) in [("/a.png", PNG_BASE64), ("/a.pdf", PDF_BASE64)] {
                let pair = format!("{from:?} {up:?} {name}");
                let url = files.url(name);
                let Some(part) = part(from, &url) else {
                    continue;
                };
                let (path, body) = asking(from, part);
                let got = app.client.send("POST", path, &[], body.to_string()).await;
                let got = got.unwrap();
                assert_eq!(got.status, 200, "{pair}: {}", got.text());
                let sent = upstream.asked().pop().unwrap().body;
                let sent = String::from_utf8(sent.to_vec()).unwrap();
                assert!(sent.contains(base64), "{pair}: {sent}");
                assert!(!sent.contains(&url), "{pair}: {sent}");
                assert_eq!(got.header("turnwright-changed"), "", "{pair}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_downloaded_unless_the_upstream_is_said_to_want_it() {
    let files = files().await;
    for up in FORMATS {
        let (app, upstream) = app(up, AddressRule::AsSent, &files).await;
        for from in FORMATS {
            let url = files.url("/a.png");
            let (path, body) = asking(from, part(from, &url).unwrap());
            let got = app.client.send("POST", path, &[], body.to_string()).await;
            assert_eq!(got.unwrap().status, 200);
            let sent = upstream.asked().pop().unwrap().json().to_string();
            assert!(sent.contains(&url), "{from:?} {up:?}: {sent}");
        }
    }
    assert!(files.asked().is_empty());
}

#[tokio::test]
async fn a_content_that_is_not_to_be_had_is_the_clients_error_in_its_own_shape() {
    let files = files().await;
    let (app, upstream) = app(OpenAiChat, AddressRule::Downloaded, &files).await;
    for (from, at) in [
        (OpenAiChat, "/error/message"),
        (AnthropicMessages, "/error/message"),
        (OpenAiResponses, "/error/message"),
    ] {
        for (name, why) in [
            (files.url("/none.png"), "status 404"),
            ("https://127.0.0.1:1/a.png".to_owned(), "may not be reached"),
        ] {
            let (path, body) = asking(from, part(from, &name).unwrap());
            let got = app.client.send("POST", path, &[], body.to_string()).await;
            let got = got.unwrap();
            let told = got.json();
            let message = told.pointer(at).and_then(Value::as_str).unwrap_or_default();
            assert_eq!(got.status, 400, "{from:?}: {told}");
            assert!(message.contains(why), "{from:?}: {told}");
        }
    }
    assert!(upstream.asked().is_empty());
}
