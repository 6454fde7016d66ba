//! Turns that another system has recorded, and the rows that are kept beside them.

use tw_core::change::{Change, EraseEndUser, Outcome};
use tw_core::id::TurnId;
use tw_core::imported::{
    ForeignConversation, ForeignMessage, ForeignPart, ForeignRole, ForeignRow, ImportOutcome,
    ImportTurns, ImportedTurn, KeptRow, TurnAssembler,
};
use tw_core::json::{Json, Literal};
use tw_store::read::conversations::ListOrder;
use tw_store::read::head_path::{PathPage, PathPageWanted};
use tw_store::read::view::ResultDetail;
use tw_wire::stored::imported::decode_rows;
use uuid::Uuid;

use crate::conversations::ALL;
use crate::items::make;
use crate::world::{StoreWorld, at, on_each_store, turn_id};

/// The turns of a conversation in which so many questions were asked, and each was answered.
pub fn turns(conversation: &str, first: u128, questions: u128) -> Vec<ImportedTurn> {
    let mut assembler = TurnAssembler::of(ForeignConversation {
        id: conversation.to_owned(),
        end_user: Some("ann".to_owned()),
        row: Some(ForeignRow {
            table: "conversations",
            name: Some(conversation.to_owned()),
            json: Json::parse("{\"c\":1}").unwrap(),
        }),
    });
    let mut new_id = || Uuid::from_u128(0);
    let unused = |_: &str| TurnId(Uuid::from_u128(0));
    let mut turns = Vec::new();
    for n in first..first + questions {
        for role in [ForeignRole::User, ForeignRole::Assistant] {
            let message = ForeignMessage {
                id: turn_id(n).to_string(),
                role,
                parts: vec![ForeignPart::Text(Literal::from_text("x\u{0}y"))],
                at: at(i64::try_from(n).unwrap()),
                rows: vec![ForeignRow {
                    table: "messages",
                    name: None,
                    json: Json::parse(&format!("{{\"n\":{n}}}")).unwrap(),
                }],
            };
            turns.extend(assembler.push(message, &unused, &mut new_id));
        }
    }
    turns.extend(assembler.end());
    turns
}

fn kept(table: &str, id: &str, end_user: Option<&str>) -> KeptRow {
    KeptRow {
        table: table.to_owned(),
        id: id.to_owned(),
        conversation: None,
        end_user: end_user.map(ToOwned::to_owned),
        json: format!("{{\"id\":\"{id}\"}}"),
    }
}

pub async fn import(
    world: &StoreWorld,
    turns: Vec<ImportedTurn>,
    kept: Vec<KeptRow>,
) -> Vec<ImportOutcome> {
    import_and_tell(world, turns, kept).await.0
}

/// The same, with the rows of which is told: those that are there with other values, and those that were.
async fn import_and_tell(
    world: &StoreWorld,
    turns: Vec<ImportedTurn>,
    kept: Vec<KeptRow>,
) -> (Vec<ImportOutcome>, Vec<KeptRow>) {
    let import = ImportTurns {
        organization: world.organization,
        api_key: world.key,
        shape: "openai",
        turns,
        kept,
        at: at(1),
    };
    match world
        .write(Change::ImportTurns(Box::new(import)))
        .await
        .unwrap()
    {
        Outcome::Imported {
            turns,
            changed,
            replaced,
        } => (turns, [changed, replaced].concat()),
        other => panic!("{other:?}"),
    }
}

/// The tables and rows of all turns, and of what is beside them.
async fn all(world: &StoreWorld) -> (Vec<String>, Vec<String>) {
    let store = &world.store;
    let (mut of_turns, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after {
        let page = store
            .imported_turns(world.organization, from)
            .await
            .unwrap();
        for turn in page.items {
            let rows = turn
                .body
                .map(|body| decode_rows(std::str::from_utf8(&body).unwrap()));
            of_turns.push(rows.map_or("ran here".to_owned(), |rows| {
                let rows = rows.unwrap();
                let of = rows
                    .conversation
                    .map_or(String::new(), |of| of.as_str().to_owned());
                let rows = rows.rows.iter().map(|(table, rows)| {
                    let rows: Vec<&str> = rows.iter().map(Json::as_str).collect();
                    format!("{table} {}", rows.join(" "))
                });
                format!("{of} {}", rows.collect::<Vec<_>>().join(" "))
            }));
        }
        after = page.next;
    }
    let (mut beside, mut after) = (Vec::new(), Some(0));
    while let Some(from) = after {
        let page = store.imported_rows(world.organization, "openai", from);
        let page = page.await.unwrap();
        let rows = page.items.into_iter();
        beside.extend(rows.map(|row| format!("{} {}", row.table, row.json)));
        after = page.next;
    }
    (of_turns, beside)
}

#[tokio::test]
async fn turns_are_imported_once_and_all_rows_are_read_back() {
    on_each_store(async |world| {
        use ImportOutcome::{Differs, There, Written};
        world.accept(1).await;
        let both = [turns("a\u{0}", 10, 2), turns("b", 20, 1)].concat();
        let rows = vec![
            kept("users", "ann", Some("ann")),
            kept("users", "bob", Some("bob")),
            kept("$layout", "0", None),
        ];
        let done = import(&world, both.clone(), rows.clone()).await;
        assert_eq!(done, [Written, Written, Written]);
        let done = import(&world, both, rows).await;
        assert_eq!(done, [There, There, There]);
        // More was said in the second turn, and then a third was begun.
        let mut more = turns("a\u{0}", 10, 3);
        more[1].rows.pop();
        let done = import(&world, more, Vec::new()).await;
        assert_eq!(done, [There, Differs, Written]);
        let (of_turns, beside) = all(&world).await;
        assert_eq!(
            of_turns,
            [
                "ran here",
                "{\"c\":1} messages {\"n\":10} {\"n\":10}",
                " messages {\"n\":11} {\"n\":11}",
                "{\"c\":1} messages {\"n\":20} {\"n\":20}",
                " messages {\"n\":12} {\"n\":12}",
            ]
        );
        assert_eq!(beside, ["users {\"id\":\"ann\"}", "users {\"id\":\"bob\"}"]);
        let layout = world.store.imported_layout(world.organization, "openai");
        assert_eq!(layout.await.unwrap(), ["{\"id\":\"0\"}"]);
        let others = world.store.imported_layout(world.stranger, "openai");
        assert_eq!(others.await.unwrap(), Vec::<String>::new());
        // Each continues the one before it.
        let page = world.store.imported_turns(world.stranger, 0).await.unwrap();
        assert_eq!(page.items, []);
    })
    .await;
}

#[tokio::test]
async fn rows_of_an_end_user_are_erased_with_them() {
    on_each_store(async |world| {
        let rows = vec![
            kept("users", "ann", Some("ann")),
            kept("users", "bob", Some("bob")),
        ];
        import(&world, turns("a", 10, 1), rows).await;
        let erase = EraseEndUser {
            organization: world.organization,
            name: "ann".to_owned(),
            pseudonym: "erased 1".to_owned(),
            at: at(5),
        };
        world.write(Change::EraseEndUser(erase)).await.unwrap();
        let delete = Change::DeleteErased {
            at: at(6),
            turns_max: 10,
        };
        world.write(delete).await.unwrap();
        let (of_turns, beside) = all(&world).await;
        assert_eq!(of_turns, Vec::<String>::new());
        assert_eq!(beside, ["users {\"id\":\"bob\"}"]);
    })
    .await;
}

/// Rows of six megabytes: a page ends with the row that fills it.
#[tokio::test]
async fn a_page_of_rows_ends_by_their_bytes() {
    on_each_store(async |world| {
        let row = |n: usize| KeptRow {
            json: format!("\"{}\"", "x".repeat(6_000_000)),
            ..kept("files", &n.to_string(), None)
        };
        for n in 0..5 {
            import(
                &world,
                Vec::new(),
                vec![row(n), kept("$layout", &n.to_string(), None)],
            )
            .await;
        }
        let (mut pages, mut after) = (Vec::new(), Some(0));
        while let Some(from) = after {
            let page = world
                .store
                .imported_rows(world.organization, "openai", from);
            let page = page.await.unwrap();
            pages.push(page.items.len());
            after = page.next;
        }
        assert_eq!(pages, [3, 2, 0]);
    })
    .await;
}

/// Both make the conversation and the end user, and one of them finds the other's.
#[tokio::test]
async fn two_imports_at_once_share_what_they_both_make() {
    on_each_store(async |world| {
        let imported = |n: u128| {
            let mut both = turns(&format!("both {}", n / 2), 2 * n, 2);
            both.extend(turns(&format!("alone {n}"), 1000 + n, 1));
            for turn in &mut both {
                turn.end_user = Some(format!("user {}", n / 2));
            }
            let row = kept("users", &n.to_string(), None);
            import(&world, both, vec![row, kept("users", "all", None)])
        };
        for n in (0..20).step_by(2) {
            let (one, other) = tokio::join!(imported(n), imported(n + 1));
            assert_eq!([one, other].concat(), [ImportOutcome::Written; 6]);
        }
        let (of_turns, beside) = all(&world).await;
        assert_eq!((of_turns.len(), beside.len()), (60, 21));
    })
    .await;
}

fn kept_conversation(id: &str, name: &str) -> KeptRow {
    KeptRow {
        conversation: Some(name.to_owned()),
        ..kept("conversations", id, None)
    }
}

#[tokio::test]
async fn the_row_of_a_conversation_is_kept_while_it_has_no_turn() {
    on_each_store(async |world| {
        import(&world, turns("a\u{0}", 10, 1), Vec::new()).await;
        let rows = || {
            ["a\u{0}", "b\u{0}", "c"]
                .map(|name| kept_conversation(name, name))
                .to_vec()
        };
        for _ in 0..2 {
            let (_, changed) = import_and_tell(&world, Vec::new(), rows()).await;
            assert_eq!(changed, []);
            let (_, beside) = all(&world).await;
            assert_eq!(beside.len(), 2, "{beside:?}");
        }
        // With its first turn it is with that, also with other values.
        let (done, changed) = import_and_tell(&world, turns("b\u{0}", 20, 1), rows()).await;
        assert_eq!((done, changed), (vec![ImportOutcome::Written], vec![]));
        let (_, beside) = all(&world).await;
        assert_eq!(beside, ["conversations {\"id\":\"c\"}"]);
    })
    .await;
}

/// Two sources may have rows of one name: what is lost is told.
#[tokio::test]
async fn a_kept_row_is_forgotten_once_it_is_of_a_turn() {
    on_each_store(async |world| {
        let row = |id: &str, json: &str| KeptRow {
            json: json.to_owned(),
            ..kept("messages", id, None)
        };
        let rows = vec![row("m\u{0}", "{\"n\":10}"), row("m2", "{\"other\":1}")];
        import(&world, Vec::new(), rows).await;
        let mut both = turns("a", 10, 2);
        for (turn, name) in both.iter_mut().zip(["m\u{0}", "m2"]) {
            turn.rows.truncate(1);
            turn.rows[0].name = Some(name.to_owned());
        }
        let (_, changed) = import_and_tell(&world, both, Vec::new()).await;
        assert_eq!(changed, [row("m2", "{\"other\":1}")]);
        let (of_turns, beside) = all(&world).await;
        assert_eq!((of_turns.len(), beside), (2, Vec::new()));
    })
    .await;
}

/// The turns on the path to a conversation's head.
async fn path(world: &StoreWorld, conversation: &str) -> Vec<TurnId> {
    let wanted = PathPageWanted {
        order: ListOrder::OldestFirst,
        from: None,
        messages_max: 1000,
        detail: ResultDetail::Shown,
    };
    let page = world
        .store
        .head_path(world.organization, conversation.to_owned(), ALL, wanted);
    let PathPage::Page(page) = page.await.unwrap() else {
        panic!("there is no path in {conversation}");
    };
    page.items.iter().map(|turn| turn.view.turn.id).collect()
}

fn ids(turns: &[u128]) -> Vec<TurnId> {
    turns.iter().map(|n| turn_id(*n)).collect()
}

#[tokio::test]
async fn the_last_of_two_branches_is_the_head() {
    on_each_store(async |world| {
        let branch = |turn: &ImportedTurn, n: u128| ImportedTurn {
            id: turn_id(n),
            ..turn.clone()
        };
        // In a conversation that is there.
        let mut more = turns("there", 20, 3);
        let last = more.pop().unwrap();
        import(&world, more, Vec::new()).await;
        assert_eq!(path(&world, "there").await, ids(&[20, 21]));
        let branches = vec![branch(&last, 23), last];
        import(&world, branches, Vec::new()).await;
        assert_eq!(path(&world, "there").await, ids(&[20, 21, 22]));
        // And in one that is made with them.
        let mut new = turns("new", 30, 2);
        new.push(branch(&new[1], 32));
        import(&world, new, Vec::new()).await;
        assert_eq!(path(&world, "new").await, ids(&[30, 32]));
    })
    .await;
}

#[tokio::test]
async fn turns_are_not_on_the_path_of_what_a_client_made() {
    on_each_store(async |world| {
        make(&world, "c", None).await;
        let done = import(&world, turns("c", 40, 2), Vec::new()).await;
        assert_eq!(done, [ImportOutcome::Written; 2]);
        assert_eq!(path(&world, "c").await, []);
        let (of_turns, _) = all(&world).await;
        assert_eq!(of_turns.len(), 2);
    })
    .await;
}
