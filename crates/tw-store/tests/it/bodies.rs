//! Bodies of turns that continue one another: each is read as it came, and stored once.

use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, TestRunner};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use tw_core::change::{BodyCuts, BodyPrefix, Change, EndTurn, NewTurn, Outcome, TurnChange};
use tw_core::id::TurnId;
use tw_core::turn_policy::RecordPolicy;
use tw_core::turn_status::TurnStatus;

use crate::world::{StoreWorld, at, end_turn, on_each_store, turn_id};

/// A body in the pieces that bodies have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Body {
    /// What is there up to and with the last message before the last answer.
    before: Option<String>,
    start: String,
    end: String,
}

impl Body {
    fn first(said: &str, end: &str) -> Self {
        Self {
            before: None,
            start: format!(r#"{{"messages":[{said}"#),
            end: end.to_owned(),
        }
    }

    fn next(&self, said: &str) -> Self {
        Self {
            before: Some(self.start.clone()),
            start: format!("{},{said}", self.start),
            end: self.end.clone(),
        }
    }

    fn written(&self) -> Vec<u8> {
        format!("{}{}", self.start, self.end).into_bytes()
    }

    fn cuts(&self) -> BodyCuts {
        let hash = |text: &str| Sha256::digest(text).into();
        let stretch = |text: &String| BodyPrefix {
            bytes: text.len(),
            hash: hash(text),
        };
        BodyCuts {
            before_answer: self.before.as_ref().map(stretch),
            start: stretch(&self.start),
            end_hash: hash(&self.end),
        }
    }
}

/// A turn that has ended and is due to be erased as the `n`th.
async fn ended(world: &StoreWorld, n: u32, body: &Body, parent: Option<u32>) {
    let new = NewTurn {
        body: std::str::from_utf8(&body.written()).unwrap().into(),
        record: RecordPolicy::Minimal,
        cuts: Some(body.cuts()),
        parent: parent.map(turn_of),
        ..world.new_turn(u128::from(n))
    };
    let end = EndTurn {
        erase_after: Some(at(100 + i64::from(n))),
        ..end_turn(TurnStatus::Completed)
    };
    let ended = vec![TurnChange::EndTurn(end)];
    world.accept_with(new, ended).await.unwrap();
}

fn turn_of(n: u32) -> TurnId {
    turn_id(u128::from(n))
}

/// `None` once it is erased.
async fn read(world: &StoreWorld, n: u32) -> Option<Vec<u8>> {
    let read = world.store.turn_body(world.organization, turn_of(n)).await;
    read.unwrap()
}

async fn erase(world: &StoreWorld, now: u32, turns_max: u32) -> Outcome {
    let now = at(100 + i64::from(now));
    let change = Change::EraseDue { now, turns_max };
    world.write(change).await.unwrap()
}

/// What the table holds of each body, oldest first: its own bytes, and how many others it is made of.
fn stored(world: &StoreWorld) -> Vec<(u64, u32)> {
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    let sql = "SELECT length(body), depth FROM turn_input ORDER BY turn";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

const TURNS: u32 = 150;
const END: &str = r#"],"model":"m","stream":true}"#;

#[tokio::test]
async fn what_a_client_sends_again_is_stored_once() {
    let world = StoreWorld::on_disk().await;
    let said = format!(r#"{{"role":"user","content":"{}"}}"#, "x".repeat(50));
    let mut bodies = vec![Body::first(&said, END)];
    for n in 0..TURNS {
        ended(&world, n, &bodies[n as usize], n.checked_sub(1)).await;
        bodies.push(bodies[n as usize].next(&said));
    }
    for n in 0..TURNS {
        assert_eq!(read(&world, n).await, Some(bodies[n as usize].written()));
        let recovered = world.recovered(turn_of(n)).await;
        assert_eq!(recovered.body, bodies[n as usize].written());
    }
    let added = said.len() + 1;
    // None is made of more than 64 others.
    for (n, stored) in (0..).zip(stored(&world)) {
        let whole = bodies[n].written().len();
        let depth = u32::try_from(n % 65).unwrap();
        let bytes = if depth == 0 { whole } else { added };
        assert_eq!(stored, (bytes as u64, depth), "turn {n}");
    }
}

#[tokio::test]
async fn a_body_that_begins_otherwise_is_stored_whole() {
    let first = Body::first("1", END);
    let next = first.next("2");
    let spaced = Body {
        before: Some(first.start.replace('[', "[ ")),
        start: next.start.replace('[', "[ "),
        ..next.clone()
    };
    let other_end = Body {
        end: r#"],"model":"m","seed":1}"#.to_owned(),
        ..next.clone()
    };
    let no_answer = Body {
        before: None,
        ..next.clone()
    };
    let cases = [
        ("the same", &next, 2),
        ("other fields behind", &other_end, 2 + other_end.end.len()),
        ("other white space", &spaced, spaced.written().len()),
        ("no answer", &no_answer, no_answer.written().len()),
    ];
    for (what, body, bytes) in cases {
        let world = StoreWorld::on_disk().await;
        ended(&world, 1, &first, None).await;
        ended(&world, 2, body, Some(1)).await;
        assert_eq!(read(&world, 2).await, Some(body.written()), "{what}");
        assert_eq!(stored(&world)[1].0, bytes as u64, "{what}");
    }
}

#[tokio::test]
async fn a_body_outlives_those_that_it_is_made_of() {
    on_each_store(async |world| {
        let first = Body::first("1", END);
        let second = first.next("2");
        let (third, branch) = (second.next("3"), second.next("other"));
        ended(&world, 1, &first, None).await;
        ended(&world, 2, &second, Some(1)).await;
        ended(&world, 3, &third, Some(2)).await;
        ended(&world, 4, &branch, Some(2)).await;
        // The second, with the first, before the two that are made of it: these are made whole.
        assert_eq!(erase(&world, 2, 9).await, Outcome::Count(2));
        assert_eq!(read(&world, 1).await, None);
        assert_eq!(read(&world, 2).await, None);
        assert_eq!(world.recovered(turn_of(2)).await.body, b"");
        assert_eq!(read(&world, 3).await, Some(third.written()));
        assert_eq!(read(&world, 4).await, Some(branch.written()));
        // What comes behind an erased body is whole.
        let late = second.next("late");
        ended(&world, 5, &late, Some(2)).await;
        assert_eq!(read(&world, 5).await, Some(late.written()));
        assert_eq!(erase(&world, 9, 9).await, Outcome::Count(3));
        assert_eq!(erase(&world, 9, 9).await, Outcome::Count(0));
    })
    .await;
}

#[tokio::test]
async fn a_damaged_body_keeps_nothing_from_being_erased() {
    let world = StoreWorld::on_disk().await;
    let first = Body::first("1", END);
    ended(&world, 1, &first, None).await;
    ended(&world, 2, &first.next("damaged"), Some(1)).await;
    ended(&world, 3, &first.next("3"), Some(1)).await;
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    let sql = "UPDATE turn_input SET kept_start_bytes = 1000 WHERE turn = 2";
    assert_eq!(conn.execute(sql, []).unwrap(), 1);
    assert_eq!(erase(&world, 1, 9).await, Outcome::Count(1));
    assert_eq!(read(&world, 1).await, None);
    let damaged = world.store.turn_body(world.organization, turn_of(2)).await;
    damaged.unwrap_err();
    assert_eq!(read(&world, 3).await, Some(first.next("3").written()));
}

#[tokio::test]
async fn many_large_bodies_are_made_whole_in_several_steps() {
    const LARGE: usize = 3 * 1024 * 1024;
    on_each_store(async |world| {
        let first = Body::first(&"x".repeat(LARGE), END);
        ended(&world, 1, &first, None).await;
        for n in 2..9 {
            ended(&world, n, &first.next(&n.to_string()), Some(1)).await;
        }
        // Each step stops behind 8 MiB, and the turn is erased once nothing is made of it.
        let steps = [Outcome::Partly(0), Outcome::Partly(0), Outcome::Count(1)];
        for step in steps {
            assert_eq!(erase(&world, 1, 9).await, step);
        }
        assert_eq!(read(&world, 1).await, None);
        for n in 2..9 {
            let body = first.next(&n.to_string()).written();
            assert!(read(&world, n).await == Some(body), "turn {n}");
        }
    })
    .await;
}

/// A turn: which one it continues, counted from the newest, and in what it differs from a plain continuation.
#[derive(Clone, Copy, Debug)]
struct Step {
    back: Option<usize>,
    other_start: bool,
    other_end: bool,
    /// Erases the oldest so many turns before.
    erase: Option<u32>,
}

fn step() -> impl Strategy<Value = Step> {
    let rarely = || (0..6u8).prop_map(|dice| dice == 0);
    let back = proptest::option::weighted(0.9, 0..3usize);
    let erase = proptest::option::weighted(0.2, 0..12u32);
    (back, rarely(), rarely(), erase).prop_map(|(back, other_start, other_end, erase)| Step {
        back,
        other_start,
        other_end,
        erase,
    })
}

#[test]
fn every_body_is_read_as_it_came_whatever_is_erased() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let steps = (proptest::collection::vec(step(), 1..40), any::<u32>());
    let mut runner = TestRunner::new(Config::with_cases(64));
    let outcome = runner.run(&steps, |(steps, by)| {
        runtime.block_on(async {
            let store = tw_store::store::Store::in_memory_inline().unwrap();
            play(
                StoreWorld::fill(store, None, None).await,
                &steps,
                by % 5 + 1,
            )
            .await;
        });
        Ok(())
    });
    outcome.unwrap();
}

async fn play(world: StoreWorld, steps: &[Step], turns_max: u32) {
    let mut bodies: Vec<Body> = Vec::new();
    let mut erased_to = 0;
    for (n, step) in (0u32..).zip(steps) {
        if let Some(to) = step.erase {
            erased_to = erased_to.max(to.min(n));
            while erase(&world, erased_to, turns_max).await != Outcome::Count(0) {}
        }
        let parent = step
            .back
            .and_then(|back| bodies.len().checked_sub(back + 1));
        let mut body = match parent {
            None => Body::first(&n.to_string(), END),
            Some(parent) => bodies[parent].next(&n.to_string()),
        };
        if step.other_start {
            let other = |text: String| text.replacen('[', "[ ", 1);
            (body.before, body.start) = (body.before.map(other), other(body.start));
        }
        if step.other_end {
            body.end = format!(r#"],"seed":{n}}}"#);
        }
        // Turns are numbered from 1, so that erasing up to 0 erases none.
        let parent = parent.map(|parent| u32::try_from(parent).unwrap() + 1);
        ended(&world, n + 1, &body, parent).await;
        bodies.push(body);
        for (n, body) in (1..).zip(&bodies) {
            let expected = (n > erased_to).then(|| body.written());
            assert_eq!(read(&world, n).await, expected, "turn {n}");
        }
    }
}
