//! What no tool reaches, over whole turns: refused when it is saved, and again when it is called.

use std::net::{IpAddr, TcpListener};

use serde_json::{Value, json};
use tw_core::change::{Change, Outcome, SaveTool, ToolRoom};
use tw_core::id::ToolId;
use tw_egress::client::ClientOptions;
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_testkit::listener::{Listener, ListenerReply};

use super::lab::{Ran, ToolLab, allowed, create, definition, leaving_by, options, place};

/// What the model is told of every refused address alike.
const NOT_ALLOWED: &str = "the tool's address does not exist or may not be reached from here";

/// Loopback in the notations that a URL may have, and names that mean it.
const INSIDE: [&str; 25] = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "0x7f.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "0",
    "0.0.0.0",
    "[::1]",
    "[::]",
    "[::ffff:7f00:1]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::7f00:1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
];

/// A port that must not be reached.
struct Trap(TcpListener);

impl Trap {
    fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let accepted = self.0.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(
            accepted,
            Err(std::io::ErrorKind::WouldBlock),
            "it was reached"
        );
    }
}

/// A server whose tools leave by a client of these options.
async fn lab(options: ClientOptions) -> ToolLab {
    let nobody = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    ToolLab::start(nobody, leaving_by(options, Vec::new())).await
}

/// Stores a definition without asking whether it may be, as an earlier server may have done, whose
/// operator allowed more. The server looks at most once a second, so it must not have looked yet.
async fn store(lab: &ToolLab, definition: &Value) {
    let key = lab.app.client.key.clone().unwrap();
    let caller = lab.app.runtime.authenticate(&key).await.unwrap();
    let env = lab.app.runtime.env();
    let save = SaveTool {
        organization: caller.organization,
        tool: ToolId(env.ordered_id()),
        name: definition["name"].as_str().unwrap().to_owned(),
        definition: definition.to_string(),
        follows: 0,
        room: ToolRoom {
            tools_max: 100,
            bytes_max: 1 << 20,
        },
        at: env.now(),
    };
    let save = vec![Change::SaveTool(Box::new(save))];
    let outcomes = lab.app.store.apply(save).await.unwrap();
    assert!(
        matches!(outcomes[..], [Outcome::ToolSaved(_)]),
        "{outcomes:?}"
    );
}

/// That the only call of a turn came to nothing, in one attempt, and told nothing.
#[track_caller]
fn assert_refused(ran: &Ran, message: &str, label: &str) {
    assert_eq!(ran.ended(), "failed target_not_allowed", "{label}");
    let call = ran.call();
    let attempts = call["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{label}: {call}");
    let shown = call["shown"].as_str().unwrap();
    assert!(shown.to_lowercase().contains(message), "{label}: {shown}");
    for place in ["127", "localhost", "::", "http://"] {
        assert!(!shown.contains(place), "{label}: {shown}");
    }
}

#[tokio::test]
async fn every_notation_of_a_place_inside_is_refused_twice() {
    let trap = Trap::set();
    let lab = lab(options()).await;
    let all: Vec<(String, String)> = INSIDE
        .into_iter()
        .enumerate()
        .flat_map(|(at, host)| {
            let port = trap.port();
            ["https", "http"].map(|scheme| {
                (
                    format!("{scheme}_{at}"),
                    format!("{scheme}://{host}:{port}/"),
                )
            })
        })
        .collect();
    let mut stored = Vec::new();
    for (name, url) in &all {
        let definition = definition(name, url, json!({}));
        // One that no definition can be read with is not there to be called.
        if tw_wire::stored::tool::decode(&definition.to_string()).is_ok() {
            store(&lab, &definition).await;
            stored.push((name, url));
        }
    }
    for (name, url) in &all {
        assert_not_saved(&lab, name, url).await;
    }
    assert!(stored.len() >= 40, "{} only can be stored", stored.len());
    for (name, url) in stored {
        let ran = lab.run(name).await;
        assert_refused(&ran, NOT_ALLOWED, url);
    }
    trap.assert_untouched();
}

/// Neither as the tool's own address nor as that of its look-up.
async fn assert_not_saved(lab: &ToolLab, name: &str, url: &str) {
    let look_up = json!({ "url": format!("{url}{{{{reference}}}}"), "absent": [404] });
    let queryable = json!({
        "method": "POST", "policy": { "effect": "queryable" }, "look_up": look_up,
    });
    for (definition, field) in [
        (definition(name, url, json!({})), "url"),
        (
            definition(name, "https://example.com/", queryable),
            "look_up.url",
        ),
    ] {
        let preview = json!({ "tool": definition }).to_string();
        let path = "/api/default/tools/preview";
        let previewed = lab.editor.send("POST", path, &[], preview).await.unwrap();
        let saved = create(&lab.editor, "default", definition.to_string()).await;
        for got in [previewed, saved] {
            assert_eq!(got.status, 400, "{url}: {}", got.text());
            assert_eq!(got.json()["error"]["param"], field, "{url}");
        }
    }
}

#[tokio::test]
async fn a_name_that_is_bound_to_another_address_later_leads_nowhere() {
    let trap = Trap::set();
    // Public by our rules, and leads nowhere.
    let public: IpAddr = "64:ff9b::808:808".parse().unwrap();
    let inside: IpAddr = "127.0.0.1".parse().unwrap();
    let answers = FixedAnswers::default()
        .then("one.example", &[inside])
        .then("two.example", &[public, inside])
        .then("later.example", &[public])
        .then("later.example", &[inside]);
    let resolver = Resolver::Fixed(answers);
    let lab = lab(ClientOptions {
        resolver,
        ..options()
    })
    .await;
    for (name, host) in [
        ("one", "one.example"),
        ("two", "two.example"),
        ("later", "later.example"),
    ] {
        let url = format!("https://{host}:{}/", trap.port());
        let members =
            json!({ "policy": { "attempts_max": 2, "backoff_ms": 0, "timeout_ms": 500 } });
        super::lab::made(&lab.editor, "default", &definition(name, &url, members)).await;
    }
    for name in ["one", "two"] {
        assert_refused(&lab.run(name).await, NOT_ALLOWED, name);
    }
    // The second attempt of the same call looks the name up again.
    let ran = lab.run("later").await;
    assert_eq!(ran.ended(), "failed target_not_allowed");
    let attempts = ran.call()["attempts"].as_array().unwrap();
    let outcomes: Vec<&str> = attempts
        .iter()
        .map(|a| a["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["not_sent", "not_allowed"]);
    trap.assert_untouched();
}

#[tokio::test]
async fn http_is_for_allowed_places() {
    let trap = Trap::set();
    let answers = FixedAnswers::default().then("plain.example", &["8.8.8.8".parse().unwrap()]);
    let resolver = Resolver::Fixed(answers);
    let lab = lab(ClientOptions {
        resolver,
        ..options()
    })
    .await;
    let both = [
        ("named", "http://plain.example/"),
        ("numbered", "http://8.8.8.8/"),
    ];
    for (name, url) in both {
        store(&lab, &definition(name, url, json!({}))).await;
    }
    for (name, url) in both {
        let text = definition(name, url, json!({})).to_string();
        let got = create(&lab.editor, "default", text).await;
        let param = got.json()["error"]["param"].clone();
        assert_eq!((got.status, param), (400, json!("url")));
    }
    for (name, _) in both {
        assert_refused(&lab.run(name).await, "must begin with https", name);
    }
    trap.assert_untouched();
}

#[tokio::test]
async fn an_allowed_place_is_reached_by_those_it_is_allowed_for() {
    let service = Listener::in_turn(vec![ListenerReply::json("{}")])
        .await
        .unwrap();
    let (place, port) = (
        place(&service),
        place(&service).rsplit_once(':').unwrap().1.to_owned(),
    );
    let by_name = format!("svc.example:{port}");
    let answers = FixedAnswers::default().then("svc.example", &["127.0.0.1".parse().unwrap()]);
    let mut for_other = allowed(&place);
    for_other.organizations = vec!["other".to_owned()];
    let options = ClientOptions {
        resolver: Resolver::Fixed(answers),
        allowed: vec![for_other, allowed(&by_name)],
        ..options()
    };
    let lab = ToolLab::start(service, leaving_by(options, Vec::new())).await;
    let named = definition("named", &format!("http://{by_name}/"), json!({}));
    let numbered = definition("numbered", &format!("http://{place}/"), json!({}));
    store(&lab, &numbered).await;
    let got = create(&lab.editor, "default", numbered.to_string()).await;
    assert_eq!(got.status, 400, "{}", got.text());
    super::lab::made(&lab.editor, "default", &named).await;
    assert_refused(&lab.run("numbered").await, NOT_ALLOWED, "numbered");
    assert_eq!(lab.run("named").await.ended(), "completed");
    let asked = lab.service.asked();
    assert_eq!(
        (asked.len(), asked[0].header("host")),
        (1, by_name.as_str())
    );
    let other = super::lab::editor(&lab.app, "other").await;
    super::lab::made(&other, "other", &numbered).await;
    let ran = lab
        .run_with(&other, &[], &crate::app::ask("numbered"))
        .await;
    assert_eq!(ran.ended(), "completed");
    assert_eq!(lab.service.asked().len(), 2);
}

#[tokio::test]
async fn what_a_place_was_allowed_for_ends_with_the_entry() {
    let lab = ToolLab::answering(ListenerReply::json("{}")).await;
    lab.make("act", "/", json!({})).await;
    assert_eq!(lab.run("act").await.ended(), "completed");
    let app = lab
        .app
        .again(&lab.model, leaving_by(options(), Vec::new()))
        .await;
    let lab = ToolLab { app, ..lab };
    assert_refused(&lab.run("act").await, NOT_ALLOWED, "act");
    assert_eq!(lab.service.asked().len(), 1);
}
