//! What one person's tools said reaches no other person's model.

use serde_json::json;
use tw_core::tenant::ToolGrant;
use tw_testkit::listener::Listener;
use tw_wire::format::WireFormat;

use super::{Chatter, holds, model, own_key, service, start};
use crate::app::App;
use crate::surfaces::{self, Wish, on_each_surface};

on_each_surface!(
    two_people_with_the_same_history_have_each_their_own,
    a_history_that_another_replays_brings_nothing_back,
    names_of_different_kinds_are_different_people,
);

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

/// The ways that a surface has words for.
fn named_on(surface: WireFormat) -> impl Iterator<Item = Named> {
    let is_said = move |named: &Named| {
        *named != Named::SafetyField || Wish::SafetyField.refusal(surface).is_none()
    };
    NAMED.into_iter().filter(is_said)
}

async fn chatter(app: &App, surface: WireFormat, named: Named, name: &str) -> Chatter {
    match named {
        Named::Header => Chatter::new(&app.client, surface, &[("turnwright-user", name)]),
        Named::Field => Chatter::new(&app.client, surface, &[]).with(json!({ "user": name })),
        Named::SafetyField => {
            let fields = json!({ "safety_identifier": name, "user": "everybody" });
            Chatter::new(&app.client, surface, &[]).with(fields)
        }
        Named::Conversation => {
            Chatter::new(&app.client, surface, &[("turnwright-conversation", name)])
        }
        Named::OwnKey => Chatter::new(&own_key(app, ToolGrant::All).await, surface, &[]),
    }
}

/// The newest request to the model.
fn newest_holds(model: &Listener, text: &str) -> bool {
    holds(model.asked().last().unwrap(), text)
}

/// Both say the same and are answered the same; the tools said different things.
async fn two_people_with_the_same_history_have_each_their_own(surface: WireFormat) {
    for named in named_on(surface) {
        // Who looks first, and who goes on first.
        for (first, then) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let model = model().await;
            let canaries = [OF_ANN, OF_BOB];
            let service = service(&[canaries[first], canaries[1 - first]]).await;
            let app = start(&model, &service).await;
            let mut people = [
                chatter(&app, surface, named, "ann").await,
                chatter(&app, surface, named, "bob").await,
            ];
            for at in [first, 1 - first] {
                people[at].say("look").await;
            }
            let seen = people
                .each_ref()
                .map(|chat| surfaces::plain(&chat.messages));
            assert_eq!(seen[0], seen[1]);
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
async fn a_history_that_another_replays_brings_nothing_back(surface: WireFormat) {
    for named in named_on(surface) {
        let (model, service) = (model().await, service(&[OF_ANN]).await);
        let app = start(&model, &service).await;
        let mut ann = chatter(&app, surface, named, "ann").await;
        ann.say("look").await;
        ann.say("so?").await;
        assert!(newest_holds(&model, OF_ANN));
        let mut bob = chatter(&app, surface, named, "bob").await;
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
async fn names_of_different_kinds_are_different_people(surface: WireFormat) {
    let (model, service) = (model().await, service(&[OF_ANN]).await);
    let app = start(&model, &service).await;
    let own = own_key(&app, ToolGrant::All).await;
    let of_user: &[(&str, &str)] = &[("turnwright-user", "x")];
    let of_conversation: &[(&str, &str)] = &[("turnwright-conversation", "x")];
    let of_both: &[(&str, &str)] = &[of_user[0], ("turnwright-conversation", "y")];
    let of_nobody: &[(&str, &str)] = &[];
    let scopes = [of_nobody, of_user, of_conversation];
    for (of, headers) in scopes.into_iter().enumerate() {
        let mut chat = Chatter::new(&own, surface, headers);
        // Whoever said the same before has a turn of their own with this history.
        chat.say(&format!("look {of}")).await;
        for (to, headers) in scopes.into_iter().enumerate() {
            let mut other = Chatter::new(&own, surface, headers);
            other.messages.clone_from(&chat.messages);
            let memory = other.say(&format!("from {of} to {to}")).await.memory;
            assert_eq!(newest_holds(&model, OF_ANN), of == to, "{of} {to}");
            assert_eq!(memory == "attached", of == to, "{of} {to}");
        }
    }
    // In a conversation of several, each has what is theirs.
    let mut chat = Chatter::new(&own, surface, of_both);
    chat.say("look around").await;
    let mut other = Chatter::new(&own, surface, &[("turnwright-user", "z"), of_both[1]]);
    other.messages.clone_from(&chat.messages);
    assert_eq!(other.say("so?").await.memory, "mismatch");
    assert!(!newest_holds(&model, OF_ANN));
    let mut nobody = Chatter::new(&own, surface, &of_both[1..]);
    nobody.messages.clone_from(&chat.messages);
    assert_eq!(nobody.say("so?").await.memory, "mismatch");
    assert!(!newest_holds(&model, OF_ANN));
}
