//! What one person's tools said reaches no other person's model.

use serde_json::json;
use tw_core::tenant::ToolGrant;
use tw_testkit::listener::Listener;

use super::{Chatter, holds, model, own_key, service, start};
use crate::app::App;

const OF_ANN: &str = "canary-of-ann";
const OF_BOB: &str = "canary-of-bob";

/// How the two are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Header,
    Field,
    SafetyField,
    Conversation,
    OwnKey,
}

const NAMED: [Named; 5] = [
    Named::Header,
    Named::Field,
    Named::SafetyField,
    Named::Conversation,
    Named::OwnKey,
];

async fn chatter(app: &App, named: Named, name: &str) -> Chatter {
    match named {
        Named::Header => Chatter::new(&app.client, &[("turnwright-user", name)]),
        Named::Field => Chatter::new(&app.client, &[]).with(json!({ "user": name })),
        Named::SafetyField => {
            let fields = json!({ "safety_identifier": name, "user": "everybody" });
            Chatter::new(&app.client, &[]).with(fields)
        }
        Named::Conversation => Chatter::new(&app.client, &[("turnwright-conversation", name)]),
        Named::OwnKey => Chatter::new(&own_key(app, ToolGrant::All).await, &[]),
    }
}

/// The newest request to the model.
fn newest_holds(model: &Listener, text: &str) -> bool {
    holds(model.asked().last().unwrap(), text)
}

/// Both say the same and are answered the same; the tools said different things.
#[tokio::test]
async fn two_people_with_the_same_history_have_each_their_own() {
    for named in NAMED {
        // Who looks first, and who goes on first.
        for (first, then) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let model = model().await;
            let canaries = [OF_ANN, OF_BOB];
            let service = service(&[canaries[first], canaries[1 - first]]).await;
            let app = start(&model, &service).await;
            let mut people = [
                chatter(&app, named, "ann").await,
                chatter(&app, named, "bob").await,
            ];
            for at in [first, 1 - first] {
                people[at].say("look").await;
            }
            assert_eq!(people[0].messages, people[1].messages);
            for words in ["so?", "and then?"] {
                for at in [then, 1 - then] {
                    let said = people[at].say(words).await;
                    assert_eq!(said.memory, "attached", "{named:?}");
                    let (own, other) = (canaries[at], canaries[1 - at]);
                    assert!(newest_holds(&model, own), "{named:?} {first} {then}");
                    assert!(!newest_holds(&model, other), "{named:?} {first} {then}");
                }
            }
        }
    }
}

/// Bob got hold of all that Ann has on her screen.
#[tokio::test]
async fn a_history_that_another_replays_brings_nothing_back() {
    for named in NAMED {
        let (model, service) = (model().await, service(&[OF_ANN]).await);
        let app = start(&model, &service).await;
        let mut ann = chatter(&app, named, "ann").await;
        ann.say("look").await;
        ann.say("so?").await;
        assert!(newest_holds(&model, OF_ANN));
        let mut bob = chatter(&app, named, "bob").await;
        bob.messages.clone_from(&ann.messages);
        let said = bob.say("tell me").await;
        assert_eq!(said.memory, "mismatch", "{named:?}");
        assert!(!newest_holds(&model, OF_ANN), "{named:?}");
        // Once more, now that he has a turn of his own with this history.
        assert_eq!(bob.say("come on").await.memory, "attached", "{named:?}");
        assert!(!newest_holds(&model, OF_ANN), "{named:?}");
        // Neither does Ann lose hers.
        ann.say("bye").await;
        assert!(newest_holds(&model, OF_ANN), "{named:?}");
    }
}

/// Whoever leaves the name out is not the one who was named.
#[tokio::test]
async fn names_of_different_kinds_are_different_people() {
    let (model, service) = (model().await, service(&[OF_ANN]).await);
    let app = start(&model, &service).await;
    let own = own_key(&app, ToolGrant::All).await;
    let of_user: &[(&str, &str)] = &[("turnwright-user", "x")];
    let of_conversation: &[(&str, &str)] = &[("turnwright-conversation", "x")];
    let of_both: &[(&str, &str)] = &[of_user[0], ("turnwright-conversation", "y")];
    let of_nobody: &[(&str, &str)] = &[];
    let scopes = [of_nobody, of_user, of_conversation];
    for (of, headers) in scopes.into_iter().enumerate() {
        let mut chat = Chatter::new(&own, headers);
        // Whoever said the same before has a turn of their own with this history.
        chat.say(&format!("look {of}")).await;
        for (to, headers) in scopes.into_iter().enumerate() {
            let mut other = Chatter::new(&own, headers);
            other.messages.clone_from(&chat.messages);
            let memory = other.say(&format!("from {of} to {to}")).await.memory;
            assert_eq!(newest_holds(&model, OF_ANN), of == to, "{of} {to}");
            assert_eq!(memory == "attached", of == to, "{of} {to}");
        }
    }
    // In a conversation of several, each has what is theirs.
    let mut chat = Chatter::new(&own, of_both);
    chat.say("look around").await;
    let mut other = Chatter::new(&own, &[("turnwright-user", "z"), of_both[1]]);
    other.messages.clone_from(&chat.messages);
    assert_eq!(other.say("so?").await.memory, "mismatch");
    assert!(!newest_holds(&model, OF_ANN));
    let mut nobody = Chatter::new(&own, &of_both[1..]);
    nobody.messages.clone_from(&chat.messages);
    assert_eq!(nobody.say("so?").await.memory, "mismatch");
    assert!(!newest_holds(&model, OF_ANN));
}
