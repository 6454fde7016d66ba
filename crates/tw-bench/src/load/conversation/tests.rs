use std::sync::atomic::Ordering;

use super::{Conversation, hold};
use crate::upstream::FakeUpstream;
use crate::upstream::profile::Profile;

fn plan() -> Conversation {
    Conversation {
        key: "key".to_owned(),
        user: "ada".to_owned(),
        turns: 25,
        calls_every: 10,
        model: "mock-t2-c0".to_owned(),
        calling_model: "mock-t2".to_owned(),
        text: Profile::parse("mock-t2").unwrap().text(),
    }
}

#[test]
fn a_conversation_is_held_turn_by_turn() {
    let upstream = FakeUpstream::start().unwrap();
    let took = hold(upstream.address, &plan()).unwrap();
    assert_eq!(took.len(), 25);
    assert_eq!(upstream.asked.model.load(Ordering::Relaxed), 25);
}

#[test]
fn another_answer_ends_it() {
    let upstream = FakeUpstream::start().unwrap();
    let other = Conversation {
        text: "no".to_owned(),
        ..plan()
    };
    assert!(hold(upstream.address, &other).is_err());
    assert_eq!(upstream.asked.model.load(Ordering::Relaxed), 1);
}

#[test]
fn what_must_be_restored() {
    // Turns 11 to 20 have one call before them, turns 21 to 25 two.
    assert_eq!(plan().restored(), 10 + 2 * 5);
    assert_eq!(plan().calls(), 2);
}
