//! The marks of turns that lead to a conversation's head, against a walk from the head.

use tw_core::change::{Change, NewTurn, Outcome, TurnChange};
use tw_core::imported::ImportedTurn;
use tw_core::tenant::TurnOwner;
use tw_core::turn_status::TurnStatus;
use tw_store::read::conversations::ListOrder;
use tw_store::read::head_path::{PathPage, PathPageWanted};
use tw_store::read::view::ResultDetail;

use crate::conversations::{ALL, another_key};
use crate::imported;
use crate::world::{StoreWorld, at, end_turn, on_each_store, turn_id};

/// What is done to a conversation that is only a name.
enum Op {
    /// A turn behind another one, which ends so.
    Add(u128, Option<u128>, TurnStatus),
    Delete(u128),
}
use Op::{Add, Delete};

async fn run(world: &StoreWorld, op: &Op) {
    match op {
        Add(n, parent, status) => {
            let new = NewTurn {
                conversation: "c".to_owned(),
                conversation_named: true,
                parent: parent.map(turn_id),
                ..world.new_turn(*n)
            };
            let end = vec![TurnChange::EndTurn(end_turn(*status))];
            let outcome = world.accept_with(new, end).await.unwrap().remove(0);
            assert_eq!(outcome, Outcome::Done);
        }
        Delete(n) => {
            let delete = Change::DeleteTurn {
                organization: world.organization,
                turn: turn_id(*n),
                at: at(200),
            };
            world.write(delete).await.unwrap();
        }
    }
}

async fn page(world: &StoreWorld, whose: TurnOwner, wanted: PathPageWanted) -> PathPage {
    let page = world
        .store
        .head_path(world.organization, "c".to_owned(), whose, wanted);
    page.await.unwrap()
}

fn wanted(order: ListOrder, from: Option<u128>, messages_max: usize) -> PathPageWanted {
    PathPageWanted {
        order,
        from: from.map(turn_id),
        messages_max,
        detail: ResultDetail::Shown,
    }
}

/// The numbers of a page's turns, and whether others follow; `None` for a cursor that is not there.
fn numbers(page: &PathPage) -> Option<(Vec<u128>, bool)> {
    match page {
        PathPage::NoConversation => panic!("no conversation"),
        PathPage::NoCursor => None,
        PathPage::Page(page) => {
            let known = |id| (1..100).find(|n| turn_id(*n) == id).unwrap();
            let turns = page.items.iter().map(|turn| known(turn.view.turn.id));
            Some((turns.collect(), page.has_more))
        }
    }
}

#[tokio::test]
async fn the_marked_turns_are_those_that_lead_to_the_head() {
    const DONE: TurnStatus = TurnStatus::Completed;
    const LENGTH: TurnStatus = TurnStatus::Incomplete;
    const FAILED: TurnStatus = TurnStatus::Failed;
    let cases: &[(&str, &[Op], &[u128])] = &[
        ("one", &[Add(1, None, DONE)], &[1]),
        (
            "appended",
            &[
                Add(1, None, DONE),
                Add(2, Some(1), DONE),
                Add(3, Some(2), LENGTH),
            ],
            &[1, 2, 3],
        ),
        (
            "a failed turn moves no head",
            &[Add(1, None, DONE), Add(2, Some(1), FAILED)],
            &[1],
        ),
        (
            "an answer made again",
            &[
                Add(1, None, DONE),
                Add(2, Some(1), DONE),
                Add(3, Some(1), DONE),
            ],
            &[1, 3],
        ),
        (
            "a branch of several turns, and back to the first one",
            &[
                Add(1, None, DONE),
                Add(2, Some(1), DONE),
                Add(3, Some(2), DONE),
                Add(4, Some(1), DONE),
                Add(5, Some(4), DONE),
                Add(6, Some(3), DONE),
            ],
            &[1, 2, 3, 6],
        ),
        (
            "behind a turn that failed",
            &[
                Add(1, None, DONE),
                Add(2, Some(1), FAILED),
                Add(3, Some(2), DONE),
            ],
            &[1, 3],
        ),
        (
            "histories that have nothing in common",
            &[
                Add(1, None, DONE),
                Add(2, Some(1), DONE),
                Add(3, None, DONE),
            ],
            &[3],
        ),
        (
            "the newest is deleted",
            &[Add(1, None, DONE), Add(2, Some(1), DONE), Delete(2)],
            &[1],
        ),
        (
            "the newest is deleted, and the one before is of another branch",
            &[
                Add(1, None, DONE),
                Add(2, Some(1), DONE),
                Add(3, Some(1), DONE),
                Delete(3),
            ],
            &[1, 2],
        ),
        (
            "one in between is deleted",
            &[
                Add(1, None, DONE),
                Add(2, Some(1), DONE),
                Add(3, Some(2), DONE),
                Delete(2),
                Add(4, Some(3), DONE),
            ],
            &[1, 3, 4],
        ),
    ];
    on_each_store(async |world| {
        let mut n = 0;
        for (what, ops, expected) in cases {
            // Turns have names of their own in each case.
            let renamed = |turn: u128| turn + n;
            for op in *ops {
                let op = match op {
                    Add(turn, parent, status) => Add(renamed(*turn), parent.map(renamed), *status),
                    Delete(turn) => Delete(renamed(*turn)),
                };
                run(&world, &op).await;
            }
            let expected: Vec<u128> = expected.iter().map(|turn| turn + n).collect();
            let got = page(&world, ALL, wanted(ListOrder::OldestFirst, None, 100)).await;
            assert_eq!(numbers(&got), Some((expected, false)), "{what}");
            // The next case begins anew.
            for turn in 1..=6 {
                run(&world, &Delete(turn + n)).await;
            }
            n += 6;
        }
    })
    .await;
}

/// Turns, each with the one that it continues.
type Chain = &'static [(u128, Option<u128>)];

#[tokio::test]
async fn imported_turns_are_marked_by_the_same_rule() {
    // What was said here, what each import brings, and the path.
    let cases: &[(&str, Chain, &[Chain], &[u128])] = &[
        (
            "all at once",
            &[],
            &[&[(1, None), (2, Some(1)), (3, Some(2))]],
            &[1, 2, 3],
        ),
        (
            "and more of them",
            &[],
            &[&[(1, None), (2, Some(1))], &[(3, Some(2)), (4, Some(3))]],
            &[1, 2, 3, 4],
        ),
        (
            "behind what was said here",
            &[(1, None)],
            &[&[(2, Some(1)), (3, Some(2))]],
            &[1, 2, 3],
        ),
        (
            "beside what was said here",
            &[(1, None), (2, Some(1))],
            &[&[(3, Some(1)), (4, Some(3))]],
            &[1, 3, 4],
        ),
        (
            "histories that have nothing in common",
            &[],
            &[&[(1, None), (2, None), (3, Some(2))]],
            &[2, 3],
        ),
        (
            "an answer made again",
            &[],
            &[&[(1, None), (2, Some(1)), (3, Some(1))]],
            &[1, 3],
        ),
        (
            "the same, later",
            &[],
            &[&[(1, None), (2, Some(1))], &[(3, Some(1))]],
            &[1, 3],
        ),
    ];
    on_each_store(async |world| {
        for (place, (what, said, imports, expected)) in cases.iter().enumerate() {
            let conversation = format!("c {place}");
            let renamed = |turn: u128| turn + 10 * place as u128;
            for (turn, parent) in *said {
                let new = NewTurn {
                    conversation: conversation.clone(),
                    conversation_named: true,
                    parent: parent.map(|parent| turn_id(renamed(parent))),
                    ..world.new_turn(renamed(*turn))
                };
                let end = vec![TurnChange::EndTurn(end_turn(TurnStatus::Completed))];
                world.accept_with(new, end).await.unwrap();
            }
            for turns in *imports {
                let turns = turns.iter().map(|(turn, parent)| ImportedTurn {
                    parent: parent.map(|parent| turn_id(renamed(parent))),
                    ..imported::turns(&conversation, renamed(*turn), 1).remove(0)
                });
                imported::import(&world, turns.collect(), Vec::new()).await;
            }
            let wanted = wanted(ListOrder::OldestFirst, None, 100);
            let path = world
                .store
                .head_path(world.organization, conversation, ALL, wanted);
            let expected: Vec<u128> = expected.iter().copied().map(renamed).collect();
            assert_eq!(
                numbers(&path.await.unwrap()),
                Some((expected, false)),
                "{what}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_begins_with_a_turn_of_the_path_in_either_order() {
    use ListOrder::{NewestFirst, OldestFirst};
    on_each_store(async |world| {
        for (n, parent) in [
            (1, None),
            (2, Some(1)),
            (3, Some(2)),
            (4, Some(3)),
            (5, Some(3)),
        ] {
            run(&world, &Add(n, parent, TurnStatus::Completed)).await;
        }
        // Each turn brings one message.
        for (order, from, max, expected) in [
            (OldestFirst, None, 2, Some((vec![1, 2], true))),
            (OldestFirst, Some(2), 2, Some((vec![2, 3], true))),
            (OldestFirst, Some(3), 2, Some((vec![3, 5], false))),
            (OldestFirst, Some(5), 2, Some((vec![5], false))),
            (OldestFirst, Some(4), 2, None),
            (OldestFirst, Some(9), 2, None),
            (NewestFirst, None, 2, Some((vec![5, 3], true))),
            (NewestFirst, Some(3), 2, Some((vec![3, 2], true))),
            (NewestFirst, Some(2), 2, Some((vec![2, 1], false))),
            (NewestFirst, Some(4), 2, None),
        ] {
            let got = page(&world, ALL, wanted(order, from, max)).await;
            assert_eq!(numbers(&got), expected, "{order:?} {from:?}");
        }
        let stranger = TurnOwner {
            api_key: Some(another_key(&world).await),
            end_user: None,
        };
        let got = page(&world, stranger, wanted(OldestFirst, None, 2)).await;
        assert_eq!(got, PathPage::NoConversation);
    })
    .await;
}

#[tokio::test]
async fn whoever_does_not_see_the_head_sees_the_path_of_their_own_newest_turn() {
    on_each_store(async |world| {
        let other = another_key(&world).await;
        run(&world, &Add(1, None, TurnStatus::Completed)).await;
        run(&world, &Add(2, Some(1), TurnStatus::Completed)).await;
        let new = NewTurn {
            conversation: "c".to_owned(),
            conversation_named: true,
            api_key: other,
            ..world.new_turn(3)
        };
        let end = vec![TurnChange::EndTurn(end_turn(TurnStatus::Completed))];
        world.accept_with(new, end).await.unwrap();
        for (whose, from, expected) in [
            (ALL, None, Some((vec![3], false))),
            (own(world.key), None, Some((vec![1, 2], false))),
            (own(world.key), Some(2), Some((vec![2], false))),
            (own(world.key), Some(3), None),
            (own(other), None, Some((vec![3], false))),
        ] {
            let wanted = wanted(ListOrder::OldestFirst, from, 100);
            let got = page(&world, whose.clone(), wanted).await;
            assert_eq!(numbers(&got), expected, "{whose:?}");
        }
    })
    .await;
}

fn own(key: tw_core::id::ApiKeyId) -> TurnOwner {
    TurnOwner {
        api_key: Some(key),
        end_user: None,
    }
}
