//! What no tool reaches, whatever its definition says.

use tw_core::limits::RequestLimits;
use tw_core::tool::{EffectClass, Tool, ToolOutcome};
use tw_core::variables::Variables;
use tw_egress::client::ClientOptions;
use tw_egress::client::resolve::FixedAnswers;
use tw_wire::stored::tool::decode;

use super::{Lab, allowed, bare, told};
use crate::client::guarded::{INSIDE, REFUSED};
use crate::client::{Trap, ips, options, resolving};

const NOT_ALLOWED: &str =
    "not_allowed: the tool's address does not exist or may not be reached from here";
const NOT_HTTPS: &str = "not_allowed: the tool's address must begin with https";

/// `None` for a URL that no definition may have.
fn getting(url: &str) -> Option<Tool> {
    let definition = decode(&format!(
        r#"{{"name":"t","description":"d","type":"api_request","method":"GET","url":"{url}"}}"#
    ))
    .ok()?;
    definition.check(&RequestLimits::defaults()).ok()?;
    let definition = std::sync::Arc::new(definition);
    Some(definition.tool(None, &Variables::default()).unwrap())
}

#[tokio::test]
async fn every_notation_of_a_place_inside() {
    let trap = Trap::new();
    let port = trap.port();
    let lab = Lab::new(options(), Vec::new());
    let mut run = 0;
    for host in INSIDE {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/");
            let Some(tool) = getting(&url) else {
                continue;
            };
            assert_eq!(told(&lab.run(&tool).await), NOT_ALLOWED, "{url}");
            run += 1;
        }
    }
    assert!(run > 40, "{run} urls only were tried");
    trap.assert_untouched();
}

#[tokio::test]
async fn every_refused_range() {
    for address in REFUSED {
        let host = if address.contains(':') {
            format!("[{address}]")
        } else {
            address.to_owned()
        };
        let answers = FixedAnswers::default()
            .then("one.example", &ips(&[address]))
            .then("two.example", &ips(&["64:ff9b::808:808", address]));
        let lab = Lab::new(resolving(answers), Vec::new());
        for host in [host.as_str(), "one.example", "two.example"] {
            let tool = bare("GET", &format!("https://{host}/"), EffectClass::Read, "");
            assert_eq!(told(&lab.run(&tool).await), NOT_ALLOWED, "{host} {address}");
        }
    }
}

#[tokio::test]
async fn a_name_that_is_bound_to_another_address_later() {
    let trap = Trap::new();
    // Public by our rules, and leads nowhere.
    let answers = FixedAnswers::default()
        .then("rebind.example", &ips(&["64:ff9b::808:808"]))
        .then("rebind.example", &ips(&["127.0.0.1"]));
    let lab = Lab::new(resolving(answers), Vec::new());
    let url = format!("https://rebind.example:{}/", trap.port());
    let mut tool = bare("POST", &url, EffectClass::Once, "");
    super::shorten(&mut tool);
    let first = lab.run(&tool).await;
    // Also when the time was up: nothing was sent.
    assert!(matches!(first, ToolOutcome::NotSent { .. }), "{first:?}");
    assert_eq!(told(&lab.run(&tool).await), NOT_ALLOWED);
    trap.assert_untouched();
}

#[tokio::test]
async fn http_is_for_listed_places() {
    let trap = Trap::new();
    let port = trap.port();
    let answers = FixedAnswers::default().then("plain.example", &ips(&["127.0.0.1"]));
    let lab = Lab::new(
        ClientOptions {
            allowed: vec![allowed(&format!("127.0.0.1:{port}"))],
            ..resolving(answers)
        },
        Vec::new(),
    );
    for url in [
        "http://example.com/".to_owned(),
        format!("http://plain.example:{port}/"),
    ] {
        let tool = bare("GET", &url, EffectClass::Read, "");
        assert_eq!(told(&lab.run(&tool).await), NOT_HTTPS, "{url}");
    }
    trap.assert_untouched();
}

#[tokio::test]
async fn no_argument_and_no_variable_leads_elsewhere() {
    let trap = Trap::new();
    let evil = trap.address().to_string();
    let player = super::played::Player::start([super::played::Act::answer("200 OK", "", "")]).await;
    let tool = super::tool(&format!(
        r#"{{"name":"t","description":"d","type":"api_request","method":"GET",
            "url":"http://{}/{{p}}/{{{{organization}}}}?q={{q}}",
            "parameters":{{"p":{{"mode":"ai","schema":{{"type":"string"}}}},
                "q":{{"mode":"ai","schema":{{"type":"string"}}}}}}}}"#,
        player.address
    ));
    let mut sent = 0;
    for way in [
        format!("@{evil}/"),
        format!("//{evil}/"),
        format!("\\\\{evil}\\"),
        format!("http://{evil}/"),
        format!("x#@{evil}/"),
        format!("x?@{evil}/"),
        format!("x\r\nHost: {evil}\r\n"),
        format!("x HTTP/1.1\r\nHost: {evil}\r\n\r\nGET /"),
        "..".to_owned(),
        "%2e%2e/%2f".to_owned(),
    ] {
        let args = serde_json::json!({"p": way, "q": way}).to_string();
        let options = ClientOptions {
            allowed: vec![allowed(&player.address.to_string()), allowed(&evil)],
            ..options()
        };
        let lab = Lab::new(options, Vec::new())
            .with_args(&args)
            .with_variable("organization", &way);
        match lab.run(&tool).await {
            ToolOutcome::Answered(_) => sent += 1,
            // The dots.
            ToolOutcome::Unsendable { .. } => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    let heard = player.heard();
    assert_eq!(heard.len(), sent);
    assert!(sent >= 7, "{sent} only were sent");
    for request in heard {
        let lines: Vec<_> = request.lines().collect();
        assert_eq!(lines.len(), 5, "{request}");
        assert_eq!(lines[1], format!("host: {}", player.address));
        let [method, target, version] = lines[0].split(' ').collect::<Vec<_>>()[..] else {
            panic!("{request}");
        };
        assert_eq!((method, version), ("GET", "HTTP/1.1"));
        assert_eq!(target.matches('/').count(), 2, "{target}");
        assert_eq!(target.matches('?').count(), 1, "{target}");
    }
    trap.assert_untouched();
}
