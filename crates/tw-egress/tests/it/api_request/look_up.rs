//! Asking the provider whether a call happened.

use tw_core::tool::{LookUp, Tool};

use super::played::{Act, Player};
use super::{Lab, grant, told_output, tool};
use crate::client::options;

fn payment(player: &Player, more: &str) -> Tool {
    let (pay, ask) = (
        player.url("/pay"),
        player.url("/pay?by=x&ref={{reference}}"),
    );
    tool(&format!(
        r#"{{"name":"pay","description":"Pays.","type":"api_request","method":"POST",
            "url":"{pay}","policy":{{"effect":"queryable","timeout_ms":5000}},
            "look_up":{{"url":"{ask}","headers":{{"authorization":{{"secret":"KEY","prefix":"Bearer "}}}},
                "query":{{"org":"{{{{organization}}}}"}},"absent":[404,410]}}{more}}}"#
    ))
}

fn lab(player: &Player) -> Lab {
    let place = player.address.to_string();
    let options = tw_egress::client::ClientOptions {
        allowed: vec![super::allowed(&place)],
        ..options()
    };
    Lab::new(options, vec![grant("KEY", "canary-value", &[&place])])
}

fn told(found: &LookUp) -> String {
    match found {
        LookUp::Happened(output) => format!("happened {}", told_output(output)),
        LookUp::Absent => "absent".to_owned(),
        LookUp::Unknown => "unknown".to_owned(),
    }
}

#[tokio::test]
async fn the_provider_says_whether_it_happened() {
    for (act, expected) in [
        (
            Act::json(r#"{"id":7,"key":"canary-value"}"#),
            r#"happened "{\"id\":7,\"key\":\"***\"}" shown 7"#,
        ),
        (Act::answer("201 Created", "", ""), r#"happened """#),
        (Act::answer("404 Not Found", "", "none"), "absent"),
        (Act::answer("410 Gone", "", ""), "absent"),
        (
            Act::say("HTTP/1.1 204 No Content\r\n\r\n"),
            r#"happened """#,
        ),
        (Act::answer("400 Bad Request", "", ""), "unknown"),
        (Act::answer("401 Unauthorized", "", ""), "unknown"),
        (Act::answer("302 Found", "location: /\r\n", ""), "unknown"),
        (Act::answer("429 Too Many Requests", "", ""), "unknown"),
        (Act::answer("500 Internal Server Error", "", ""), "unknown"),
        (Act::ResetUnread, "unknown"),
        (Act::Reset, "unknown"),
        (Act::Close, "unknown"),
    ] {
        let player = Player::start([act]).await;
        let tool = payment(&player, r#","response":{"select":"$.id"}"#);
        let found = lab(&player).look_up(&tool).await;
        assert_eq!(told(&found), expected);
    }
}

#[tokio::test]
async fn what_the_provider_is_asked() {
    let player = Player::start([Act::json("{}")]).await;
    lab(&player).look_up(&payment(&player, "")).await;
    assert_eq!(
        player.heard(),
        [format!(
            "GET /pay?by=x&ref=key-1&org=acme HTTP/1.1\r\n\
             host: {}\r\n\
             accept-encoding: identity\r\n\
             authorization: Bearer canary-value\r\n\
             user-agent: turnwright/{}\r\n\
             \r\n",
            player.address,
            env!("CARGO_PKG_VERSION")
        )]
    );
}

#[tokio::test]
async fn without_its_secret_nothing_is_asked() {
    let player = Player::start([Act::json("{}")]).await;
    let lab = Lab::reaching(&player.address.to_string());
    let found = lab.look_up(&payment(&player, "")).await;
    assert_eq!(found, LookUp::Unknown);
    assert_eq!(player.connections(), 0);
}

#[tokio::test]
async fn a_look_up_uses_no_connection_that_was_used_before() {
    let player = Player::start([Act::json("{}")]).await;
    let lab = lab(&player);
    let tool = payment(&player, "");
    lab.run(&tool).await;
    assert_eq!(player.connections(), 1);
    lab.look_up(&tool).await;
    lab.look_up(&tool).await;
    assert_eq!(player.connections(), 3);
}
