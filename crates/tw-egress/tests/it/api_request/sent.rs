//! What the listener receives, byte for byte.

use tw_egress::client::ClientOptions;

use super::played::{Act, Player};
use super::{ACME, Lab, allowed, grant, told, tool};
use crate::client::options;

/// A definition with `{HERE}` for the listener, arguments, and the request with `{HERE}`,
/// `{VERSION}`, and `{LENGTH}` for that of the body; its lines end with `\r\n`.
struct Row {
    name: &'static str,
    definition: &'static str,
    args: &'static str,
    request: &'static str,
    body: &'static str,
}

/// What a model may write to get out of its place.
const NASTY: &str = r#"{"id":"a\"b\n{c}/..{{organization}}?x=1&y#z%41 é","note":"line\r\nX-Evil: {{secret}} {\"secret\":\"KEY\"} \"quoted\" \\ {id} é\u0000"}"#;

const ROWS: [Row; 8] = [
    Row {
        name: "a get without anything",
        definition: r#""method":"GET","url":"http://{HERE}/a/b?c=d""#,
        args: "{}",
        request: "GET /a/b?c=d HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            user-agent: turnwright/{VERSION}\n\n",
        body: "",
    },
    Row {
        name: "json with everything",
        definition: r#""method":"POST","url":"http://{HERE}/v1/{id}/notes?from={{organization}}",
            "headers":{"authorization":{"secret":"KEY","prefix":"Bearer "},"x-org":"{{organization}}/{{who}}"},
            "query":{"source":"agent & co","n":1.50,"tag":["a","b"]},
            "body":{"origin":{"channel":"{{who}}"},"token":{"secret":"KEY"}},
            "variables":{"who":{"default":"unknown"}},
            "parameters":{"id":{"mode":"ai","schema":{"type":"string"}},
                "note":{"mode":"ai","schema":{"type":"string"}},
                "origin":{"mode":"object","properties":{
                    "channel":{"mode":"fixed","value":"overridden"},
                    "by":{"mode":"fixed","value":"{{organization}}"}}}}"#,
        args: NASTY,
        request: "POST /v1/a%22b%0A%7Bc%7D%2F..%7B%7Borganization%7D%7D%3Fx%3D1%26y%23z%2541%20%C3%A9/notes\
            ?from=acme&source=agent%20%26%20co&n=1.50&tag=a&tag=b HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            authorization: Bearer canary \"value\"\n\
            x-org: acme/O'Neil \"é\" {{KEY}}\n\
            content-type: application/json\n\
            idempotency-key: key-1\n\
            user-agent: turnwright/{VERSION}\n\
            content-length: {LENGTH}\n\n",
        body: r#"{"note":"line\r\nX-Evil: {{secret}} {\"secret\":\"KEY\"} \"quoted\" \\ {id} é\u0000","origin":{"channel":"O'Neil \"é\" {{KEY}}","by":"acme"},"token":"canary \"value\""}"#,
    },
    Row {
        name: "a form",
        definition: r#""method":"PUT","url":"http://{HERE}/form","body_format":"form",
            "body":{"org":"{{organization}}","key":{"secret":"KEY"}},
            "parameters":{"note":{"mode":"ai","schema":{"type":"string"}},
                "deep":{"mode":"object","properties":{"a":{"mode":"fixed","value":[1,"x&y"]}}}}"#,
        args: r#"{"note":"a=b&c\n{{organization}}+é"}"#,
        request: "PUT /form HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            content-type: application/x-www-form-urlencoded\n\
            idempotency-key: key-1\n\
            user-agent: turnwright/{VERSION}\n\
            content-length: {LENGTH}\n\n",
        body: "note=a%3Db%26c%0A%7B%7Borganization%7D%7D%2B%C3%A9&deep%5Ba%5D=1&deep%5Ba%5D=x%26y&org=acme&key=canary%20%22value%22",
    },
    Row {
        name: "a post without a body",
        definition: r#""method":"POST","url":"http://{HERE}/now""#,
        args: "{}",
        request: "POST /now HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            idempotency-key: key-1\n\
            user-agent: turnwright/{VERSION}\n\
            content-length: 0\n\n",
        body: "",
    },
    Row {
        name: "a patch with its own key and agent",
        definition: r#""method":"PATCH","url":"http://{HERE}/x","body":{"a":null},
            "headers":{"Idempotency-Key":"mine-{{organization}}","User-Agent":"ours"}"#,
        args: "{}",
        request: "PATCH /x HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            idempotency-key: mine-acme\n\
            user-agent: ours\n\
            content-type: application/json\n\
            content-length: {LENGTH}\n\n",
        body: r#"{"a":null}"#,
    },
    Row {
        name: "a header from the model",
        definition: r#""method":"GET","url":"http://{HERE}/x",
            "parameters":{"x-lang":{"mode":"ai","in":"header","schema":{"type":"string"}},
                "q":{"mode":"ai","schema":{"type":"array","items":{"type":"number"}}}}"#,
        args: r#"{"x-lang":"de {{organization}} é","q":[1.0,2e3]}"#,
        request: "GET /x?q=1.0&q=2e3 HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            x-lang: de {{organization}} é\n\
            user-agent: turnwright/{VERSION}\n\n",
        body: "",
    },
    Row {
        name: "a delete",
        definition: r#""method":"DELETE","url":"http://{HERE}/x/{id}",
            "parameters":{"id":{"mode":"ai","schema":{"type":"integer"}}}"#,
        args: r#"{"id":12345678901234567890}"#,
        request: "DELETE /x/12345678901234567890 HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            idempotency-key: key-1\n\
            user-agent: turnwright/{VERSION}\n\n",
        body: "",
    },
    Row {
        name: "a head",
        definition: r#""method":"HEAD","url":"http://{HERE}/x","query":{"k":{"secret":"KEY"}}"#,
        args: "{}",
        request: "HEAD /x?k=canary%20%22value%22 HTTP/1.1\n\
            host: {HERE}\n\
            accept-encoding: identity\n\
            user-agent: turnwright/{VERSION}\n\n",
        body: "",
    },
];

fn lab(player: &Player) -> Lab {
    let place = player.address.to_string();
    let options = ClientOptions {
        allowed: vec![allowed(&place)],
        ..options()
    };
    // With characters that every notation writes in its own way.
    let secret = grant("KEY", "canary \"value\"", &[&place]);
    Lab::new(options, vec![secret]).with_variable("who", r#"O'Neil "é" {{KEY}}"#)
}

fn at(player: &Player, definition: &str) -> tw_core::tool::Tool {
    let definition = definition.replace("{HERE}", &player.address.to_string());
    tool(&format!(
        r#"{{"name":"t","description":"d","type":"api_request",{definition}}}"#
    ))
}

#[tokio::test]
async fn requests_byte_for_byte() {
    for row in ROWS {
        let player = Player::start([Act::answer("200 OK", "", "")]).await;
        let tool = at(&player, row.definition);
        let outcome = lab(&player).with_args(row.args).run(&tool).await;
        assert_eq!(told(&outcome), r#"answered """#, "{}", row.name);
        let head = row.request.replace('\n', "\r\n");
        let head = head.replace("{HERE}", &player.address.to_string());
        let head = head.replace("{LENGTH}", &row.body.len().to_string());
        let head = head.replace("{VERSION}", env!("CARGO_PKG_VERSION"));
        assert_eq!(player.heard(), [head + row.body], "{}", row.name);
    }
}

#[tokio::test]
async fn what_cannot_be_written_is_not_sent() {
    let long = "x".repeat(3000);
    for (definition, args, expected) in [
        (
            r#""method":"GET","url":"http://{HERE}/","parameters":{"x-a":{"mode":"ai","in":"header","schema":{"type":"string"}}}"#,
            r#"{"x-a":"b\r\nX-Evil: 1"}"#.to_owned(),
            "unsendable: the header \"x-a\" ",
        ),
        (
            r#""method":"GET","url":"http://{HERE}/{p}","parameters":{"p":{"mode":"ai","schema":{"type":"string"}}}"#,
            r#"{"p":".."}"#.to_owned(),
            "unsendable: ",
        ),
        (
            r#""method":"POST","url":"http://{HERE}/","body":{"a":"{{gone}}"},"variables":{"gone":{}}"#,
            "{}".to_owned(),
            "unsendable: the variable \"gone\" has no value",
        ),
        (
            r#""method":"GET","url":"http://{HERE}/","parameters":{"q":{"mode":"ai","schema":{"type":"string"}}}"#,
            format!(r#"{{"q":"{long}"}}"#),
            "unsendable: the URL has more than 2048 bytes with these arguments",
        ),
    ] {
        let player = Player::start([Act::answer("200 OK", "", "")]).await;
        let tool = at(&player, definition);
        let outcome = lab(&player).with_args(&args).run(&tool).await;
        let told = told(&outcome);
        assert!(told.starts_with(expected), "{told}");
        assert_eq!(player.connections(), 0, "{told}");
    }
}

#[tokio::test]
async fn what_one_organization_may_reach_another_may_not() {
    let player = Player::start([Act::answer("200 OK", "", "")]).await;
    let tool = at(&player, r#""method":"GET","url":"http://{HERE}/""#);
    let mut lab = lab(&player);
    for (organization, expected) in [
        (ACME, r#"answered """#),
        (
            "other",
            "not_allowed: the tool's address does not exist or may not be reached from here",
        ),
        (ACME, r#"answered """#),
    ] {
        lab.attempt.organization = organization.into();
        assert_eq!(told(&lab.run(&tool).await), expected);
    }
    assert_eq!(player.heard().len(), 2);
}
