//! Random conversations of several keys and end users, beside a model that says who sees what.

use std::collections::BTreeMap;

use proptest::prelude::{Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use tw_core::change::{Change, DeleteConversation, NewTurn, Outcome, TurnChange};
use tw_core::id::{ApiKeyId, TurnId};
use tw_core::tenant::TurnOwner;
use tw_core::turn_status::TurnStatus;
use tw_store::read::conversations::{ConversationTurns, ListOrder, TurnsWanted};
use tw_store::store::Store;

use crate::conversations::another_key;
use crate::world::{StoreWorld, at, end_turn};

const NAMES: [&str; 3] = ["a", "b", "c d/e"];
const USERS: [Option<&str>; 3] = [None, Some("ann"), Some("bob")];

#[derive(Clone, Debug)]
enum Op {
    Accept {
        name: usize,
        key: usize,
        user: usize,
        ends: bool,
    },
    Delete {
        name: usize,
        key: Option<usize>,
        user: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let accept = (0..3usize, 0..2usize, 0..3usize, proptest::bool::ANY);
    let delete = (0..3usize, proptest::option::of(0..2usize), 0..3usize);
    prop_oneof![
        4 => accept.prop_map(|(name, key, user, ends)| Op::Accept { name, key, user, ends }),
        1 => delete.prop_map(|(name, key, user)| Op::Delete { name, key, user }),
    ]
}

struct Turn {
    id: TurnId,
    name: usize,
    key: usize,
    user: usize,
    runs: bool,
    deleted: bool,
}

#[derive(Default)]
struct Model {
    turns: Vec<Turn>,
    /// Names in the order in which they were first used.
    names: Vec<usize>,
}

impl Model {
    fn seen(&self, key: Option<usize>, user: usize) -> impl DoubleEndedIterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| {
            !turn.deleted
                && key.is_none_or(|key| key == turn.key)
                && (user == 0 || user == turn.user)
        })
    }

    /// Newest first, with the turns of each.
    fn list(&self, key: Option<usize>, user: usize) -> Vec<(String, Vec<TurnId>)> {
        let mut of_name: BTreeMap<usize, Vec<TurnId>> = BTreeMap::new();
        for turn in self.seen(key, user) {
            of_name.entry(turn.name).or_default().push(turn.id);
        }
        let names = self.names.iter().rev();
        names
            .filter_map(|name| Some((NAMES[*name].to_owned(), of_name.remove(name)?)))
            .collect()
    }
}

struct Lab {
    world: StoreWorld,
    keys: [ApiKeyId; 2],
}

impl Lab {
    fn whose(&self, key: Option<usize>, user: usize) -> TurnOwner {
        TurnOwner {
            api_key: key.map(|key| self.keys[key]),
            end_user: USERS[user].map(str::to_owned),
        }
    }

    async fn run(&self, model: &mut Model, n: u128, op: &Op) {
        match *op {
            Op::Accept {
                name,
                key,
                user,
                ends,
            } => {
                let new = NewTurn {
                    conversation: NAMES[name].to_owned(),
                    api_key: self.keys[key],
                    end_user: USERS[user].map(str::to_owned),
                    ..self.world.new_turn(n)
                };
                let id = new.id;
                let mut first = Vec::new();
                if ends {
                    first.push(TurnChange::EndTurn(end_turn(TurnStatus::Completed)));
                }
                self.world.accept_with(new, first).await.unwrap();
                if !model.names.contains(&name) {
                    model.names.push(name);
                }
                let (runs, deleted) = (!ends, false);
                model.turns.push(Turn {
                    id,
                    name,
                    key,
                    user,
                    runs,
                    deleted,
                });
            }
            Op::Delete { name, key, user } => {
                let delete = DeleteConversation {
                    organization: self.world.organization,
                    conversation: NAMES[name].to_owned(),
                    whose: self.whose(key, user),
                    at: at(1000),
                };
                let change = Change::DeleteConversation(delete);
                let outcome = self.world.write(change).await.unwrap();
                let meant = model.seen(key, user).filter(|turn| turn.name == name);
                let meant: Vec<(TurnId, bool)> = meant.map(|turn| (turn.id, turn.runs)).collect();
                let running = meant.iter().filter(|(_, runs)| *runs).map(|(id, _)| *id);
                let expected = match meant.len() {
                    0 => Outcome::Already,
                    _ => Outcome::Deleted {
                        running: running.collect(),
                    },
                };
                assert_eq!(outcome, expected, "{op:?}");
                for turn in &mut model.turns {
                    turn.deleted |= meant.iter().any(|(id, _)| *id == turn.id);
                }
            }
        }
    }

    async fn check(&self, model: &Model) {
        for key in [None, Some(0), Some(1)] {
            for user in 0..USERS.len() {
                let whose = self.whose(key, user);
                assert_eq!(self.list(&whose).await, model.list(key, user), "{whose:?}");
            }
        }
    }

    /// All pages of one conversation each, and all pages of two turns of each, in both orders.
    async fn list(&self, whose: &TurnOwner) -> Vec<(String, Vec<TurnId>)> {
        let (store, organization) = (&self.world.store, self.world.organization);
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = store.conversations(organization, whose.clone(), after, 1);
            let page = page.await.unwrap().unwrap();
            for row in page.items {
                let oldest = self.turns(&row.id, whose, ListOrder::OldestFirst).await;
                let mut newest = self.turns(&row.id, whose, ListOrder::NewestFirst).await;
                newest.reverse();
                assert_eq!(oldest, newest);
                assert_eq!(row.turns, oldest.len() as u64);
                listed.push((row.id, oldest));
            }
            if !page.has_more {
                return listed;
            }
            after = listed.last().map(|(id, _)| id.clone());
        }
    }

    async fn turns(&self, name: &str, whose: &TurnOwner, order: ListOrder) -> Vec<TurnId> {
        let (mut turns, mut after) = (Vec::new(), None);
        loop {
            let wanted = TurnsWanted {
                order,
                after,
                turns_max: 2,
            };
            let (organization, whose) = (self.world.organization, whose.clone());
            let store = &self.world.store;
            let found = store.conversation_turns(organization, name.to_owned(), whose, wanted);
            let page = match found.await.unwrap() {
                ConversationTurns::Page(page) => page,
                other => panic!("{other:?}"),
            };
            turns.extend(page.items.iter().map(|view| view.turn.id));
            if !page.has_more {
                return turns;
            }
            after = turns.last().copied();
        }
    }
}

#[test]
fn everybody_sees_what_the_model_says() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 64,
        failure_persistence: None,
        ..Config::default()
    });
    let ops = proptest::collection::vec(op(), 1..20);
    let result = runner.run(&ops, |ops| {
        runtime.block_on(async {
            let store = Store::in_memory_inline().unwrap();
            let world = StoreWorld::fill(store, None, None).await;
            let keys = [world.key, another_key(&world).await];
            let lab = Lab { world, keys };
            let mut model = Model::default();
            for (op, n) in ops.iter().zip(1..) {
                lab.run(&mut model, n, op).await;
                lab.check(&model).await;
            }
            let sound = lab.world.store.integrity_check().await.unwrap();
            assert_eq!(sound, Vec::<String>::new());
        });
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
}
