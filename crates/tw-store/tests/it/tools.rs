use rusqlite::Connection;
use tw_core::change::{Change, NewCall, Outcome, SaveTool, ToolRoom, TurnChange};
use tw_core::id::{OrgId, ToolId, ToolVersionKey};
use tw_core::tool::ToolVersion;
use tw_store::apply::StoreApplyError;
use tw_store::read::tools::ToolRow;
use tw_store::read::view::ResultDetail;
use tw_store::system;

use crate::world::{
    StoreWorld, at, call_ref, create_organization, on_each_store, pending_call, revision, tool_id,
};

/// Spaces, escapes and digits that a reader of JSON would not give back.
const DEFINITION: &str =
    "{ \"url\":\"https://a.example/\\u00e9\" ,\n \"n\": 1.50e+1, \"x\": \"\u{1f600}\" }";

/// The first version of a tool.
pub fn new_tool(organization: OrgId, n: u128, name: &str) -> SaveTool {
    SaveTool {
        organization,
        tool: tool_id(n),
        name: name.to_owned(),
        definition: DEFINITION.to_owned(),
        follows: 0,
        room: ToolRoom {
            tools_max: 100,
            bytes_max: 1 << 20,
        },
        at: at(10),
    }
}

impl StoreWorld {
    async fn save(&self, save: SaveTool) -> Outcome {
        self.write(Change::SaveTool(Box::new(save))).await.unwrap()
    }

    /// Saves what must not be refused.
    async fn saved(&self, save: SaveTool) -> ToolVersion {
        match self.save(save.clone()).await {
            Outcome::ToolSaved(version) => {
                assert_eq!(
                    (version.tool, version.number),
                    (save.tool, save.follows + 1)
                );
                version
            }
            other => panic!("{save:?}: {other:?}"),
        }
    }

    async fn delete(&self, organization: OrgId, tool: ToolId) -> Outcome {
        let change = Change::DeleteTool {
            organization,
            tool,
            at: at(20),
        };
        self.write(change).await.unwrap()
    }

    async fn tool_names(&self, organization: OrgId) -> Vec<String> {
        let tools = self.store.tools(organization).await.unwrap();
        tools.into_iter().map(|row| row.name).collect()
    }

    async fn revisions(&self) -> [i64; 2] {
        [
            revision(&self.store, self.organization).await,
            revision(&self.store, self.stranger).await,
        ]
    }
}

#[tokio::test]
async fn a_tool_comes_back_in_each_of_its_versions() {
    on_each_store(async |world| {
        let organization = world.organization;
        let first = new_tool(organization, 1, "mail");
        let second = SaveTool {
            name: "post".to_owned(),
            definition: "{}".to_owned(),
            follows: 1,
            at: at(11),
            ..first.clone()
        };
        let versions = [
            world.saved(first.clone()).await,
            world.saved(second.clone()).await,
        ];
        let row = |save: &SaveTool, version| ToolRow {
            id: tool_id(1),
            version,
            name: save.name.clone(),
            definition: save.definition.clone(),
            created: at(10),
            updated: save.at,
            deleted: false,
        };
        let rows = [row(&first, versions[0]), row(&second, versions[1])];
        let store = &world.store;
        for (number, row) in [(Some(1), &rows[0]), (Some(2), &rows[1]), (None, &rows[1])] {
            let found = store.tool(organization, tool_id(1), number).await.unwrap();
            assert_eq!(found.as_ref(), Some(row), "{number:?}");
        }
        for row in &rows {
            let found = store
                .tool_version(organization, row.version.key)
                .await
                .unwrap();
            assert_eq!(found.as_ref(), Some(row));
        }
        assert_eq!(store.tools(organization).await.unwrap(), [rows[1].clone()]);
        for number in [0, 3, u32::MAX] {
            let found = store
                .tool(organization, tool_id(1), Some(number))
                .await
                .unwrap();
            assert_eq!(found, None, "{number}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_same_definition_again_is_a_version_of_its_own() {
    on_each_store(async |world| {
        let first = new_tool(world.organization, 1, "mail");
        let keys = [
            world.saved(first.clone()).await.key,
            world
                .saved(SaveTool {
                    follows: 1,
                    ..first
                })
                .await
                .key,
        ];
        assert_ne!(keys[0], keys[1]);
    })
    .await;
}

#[tokio::test]
async fn only_the_newest_version_is_followed() {
    on_each_store(async |world| {
        let first = new_tool(world.organization, 1, "mail");
        let following = |follows, n| SaveTool {
            follows,
            tool: tool_id(n),
            name: format!("after {follows}"),
            ..first.clone()
        };
        world.saved(first.clone()).await;
        world.saved(following(1, 1)).await;
        for late in [following(1, 1), following(3, 1), following(1, 2)] {
            assert_eq!(world.save(late.clone()).await, Outcome::Already, "{late:?}");
        }
        assert_eq!(world.tool_names(world.organization).await, ["after 1"]);
        assert_eq!(world.revisions().await, [2, 0]);
        world.saved(following(2, 1)).await;
    })
    .await;
}

#[tokio::test]
async fn two_tools_of_an_organization_never_share_a_name() {
    on_each_store(async |world| {
        let organization = world.organization;
        let named = |n, name, follows| SaveTool {
            follows,
            ..new_tool(organization, n, name)
        };
        world.saved(named(1, "mail", 0)).await;
        world.saved(named(2, "post", 0)).await;
        for taken in [named(3, "mail", 0), named(2, "mail", 1)] {
            assert_eq!(
                world.save(taken.clone()).await,
                Outcome::NameTaken,
                "{taken:?}"
            );
        }
        // What is late is late whatever it is called.
        assert_eq!(world.save(named(2, "mail", 2)).await, Outcome::Already);
        assert_eq!(world.tool_names(organization).await, ["mail", "post"]);
        assert_eq!(world.revisions().await, [2, 0]);
        // Names are told apart by case, and each organization has its own.
        world.saved(named(3, "Mail", 0)).await;
        world.saved(new_tool(world.stranger, 4, "mail")).await;
        // A name that was given up is free.
        world.saved(named(1, "letter", 1)).await;
        world.saved(named(2, "mail", 1)).await;
        assert_eq!(
            world.tool_names(organization).await,
            ["Mail", "letter", "mail"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_deleted_tool_is_found_only_by_the_calls_that_run_it() {
    on_each_store(async |world| {
        let organization = world.organization;
        let first = new_tool(organization, 1, "mail");
        let version = world.saved(first.clone()).await;
        assert_eq!(world.delete(organization, tool_id(1)).await, Outcome::Done);
        assert_eq!(
            world.delete(organization, tool_id(1)).await,
            Outcome::Already
        );
        assert_eq!(
            world.delete(organization, tool_id(9)).await,
            Outcome::Already
        );
        assert_eq!(world.revisions().await, [2, 0]);
        let late = SaveTool {
            follows: 1,
            ..first
        };
        assert_eq!(world.save(late).await, Outcome::Already);
        let store = &world.store;
        assert_eq!(store.tools(organization).await.unwrap(), []);
        for number in [None, Some(1)] {
            let found = store.tool(organization, tool_id(1), number).await.unwrap();
            assert_eq!(found, None);
        }
        let kept = store
            .tool_version(organization, version.key)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (kept.version, kept.deleted, kept.definition.as_str()),
            (version, true, DEFINITION)
        );
        // The name is free, also a second time.
        for n in [2, 3] {
            world.saved(new_tool(organization, n, "mail")).await;
            assert_eq!(world.delete(organization, tool_id(n)).await, Outcome::Done);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stranger_finds_and_changes_no_tool() {
    on_each_store(async |world| {
        let first = new_tool(world.organization, 1, "mail");
        let version = world.saved(first.clone()).await;
        let store = &world.store;
        for organization in [world.stranger, OrgId(99)] {
            let following = SaveTool {
                organization,
                follows: 1,
                ..first.clone()
            };
            assert_eq!(world.save(following).await, Outcome::Already);
            assert_eq!(
                world.delete(organization, tool_id(1)).await,
                Outcome::Already
            );
            assert_eq!(store.tools(organization).await.unwrap(), []);
            let found = store.tool(organization, tool_id(1), None).await.unwrap();
            assert_eq!(found, None);
            let found = store.tool_version(organization, version.key).await.unwrap();
            assert_eq!(found, None);
            assert_eq!(revision(store, organization).await, 0);
        }
        // The same id may be another tool there.
        world.saved(new_tool(world.stranger, 1, "theirs")).await;
        assert_eq!(
            world.delete(world.stranger, tool_id(1)).await,
            Outcome::Done
        );
        assert_eq!(world.tool_names(world.organization).await, ["mail"]);
        assert_eq!(world.revisions().await, [1, 2]);
    })
    .await;
}

#[tokio::test]
async fn an_id_is_used_once_and_nobody_has_no_tools() {
    on_each_store(async |world| {
        world.saved(new_tool(world.organization, 1, "mail")).await;
        world.saved(new_tool(world.organization, 2, "gone")).await;
        world.delete(world.organization, tool_id(2)).await;
        for clash in [
            new_tool(world.organization, 1, "post"),
            new_tool(world.organization, 1, "mail"),
            new_tool(world.organization, 2, "post"),
            new_tool(OrgId(99), 3, "post"),
        ] {
            let refused = world.write(Change::SaveTool(Box::new(clash))).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Conflict { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(world.revisions().await, [3, 0]);
    })
    .await;
}

#[tokio::test]
async fn tools_beyond_the_room_are_refused_where_they_are_written() {
    on_each_store(async |world| {
        let organization = world.organization;
        let one = DEFINITION.len();
        let room = ToolRoom {
            tools_max: 2,
            bytes_max: 2 * one,
        };
        let save = |n, name, follows, definition: &str| SaveTool {
            follows,
            definition: definition.to_owned(),
            room,
            ..new_tool(organization, n, name)
        };
        // In one transaction, as two that are saved at once.
        let both = [save(2, "b", 0, DEFINITION), save(3, "c", 0, DEFINITION)];
        world.saved(save(1, "a", 0, DEFINITION)).await;
        let both = both.map(|save| Change::SaveTool(Box::new(save)));
        let outcomes = world.store.apply(both.to_vec()).await.unwrap();
        assert!(
            matches!(outcomes[..], [Outcome::ToolSaved(_), Outcome::TooManyTools]),
            "{outcomes:?}"
        );
        let larger = format!("{DEFINITION} ");
        for (wanted, outcome) in [
            (save(2, "b", 1, &larger), Outcome::ToolsTooLarge),
            (save(3, "c", 0, "{}"), Outcome::TooManyTools),
        ] {
            assert_eq!(world.save(wanted.clone()).await, outcome, "{wanted:?}");
        }
        // Its own earlier version takes no room, nor what was deleted, nor what others have.
        world.saved(save(1, "a", 1, "{}")).await;
        world.saved(save(2, "b", 1, &larger)).await;
        world.delete(organization, tool_id(1)).await;
        world.saved(save(3, "c", 0, "{}")).await;
        world
            .saved(SaveTool {
                room,
                ..new_tool(world.stranger, 4, "d")
            })
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_group_saves_tools_whole_or_not_at_all() {
    on_each_store(async |world| {
        let organization = world.organization;
        let save = |n, name| Change::SaveTool(Box::new(new_tool(organization, n, name)));
        let broken = vec![save(1, "mail"), save(1, "post")];
        let refused = world.store.apply(broken).await;
        assert!(
            matches!(refused, Err(StoreApplyError::Conflict { .. })),
            "{refused:?}"
        );
        assert_eq!(world.store.tools(organization).await.unwrap(), []);
        assert_eq!(world.revisions().await, [0, 0]);
        let whole = vec![save(1, "mail"), save(2, "mail"), save(2, "post")];
        let outcomes = world.store.apply(whole).await.unwrap();
        let [
            Outcome::ToolSaved(mail),
            Outcome::NameTaken,
            Outcome::ToolSaved(post),
        ] = outcomes[..]
        else {
            panic!("{outcomes:?}")
        };
        assert_eq!((mail.tool, post.tool), (tool_id(1), tool_id(2)));
        assert_eq!(world.tool_names(organization).await, ["mail", "post"]);
        assert_eq!(world.revisions().await, [2, 0]);
    })
    .await;
}

#[tokio::test]
async fn a_call_names_a_version_of_its_own_organization() {
    on_each_store(async |world| {
        let own = world.saved(new_tool(world.organization, 1, "mail")).await;
        let theirs = world.saved(new_tool(world.stranger, 2, "mail")).await;
        let newer = SaveTool {
            follows: 1,
            ..new_tool(world.organization, 1, "post")
        };
        world.saved(newer).await;
        let turn = world.accept(1).await;
        let running = |position, version| NewCall {
            tool_version: version,
            ..pending_call(turn, call_ref(1, position))
        };
        let add = async |call: NewCall| {
            let change = TurnChange::AddCall(Box::new(call));
            world.write_turn(turn, vec![change]).await
        };
        for key in [theirs.key, ToolVersionKey(99)] {
            let refused = add(running(0, Some(key))).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Guard { .. })),
                "{refused:?}"
            );
        }
        let calls = [running(0, Some(own.key)), running(1, None)];
        for call in calls.clone() {
            add(call).await.unwrap();
        }
        world.delete(world.organization, tool_id(1)).await;
        let found = world.recovered(turn).await;
        let read: Vec<_> = found.calls.iter().map(|row| row.call.clone()).collect();
        assert_eq!(read, calls);
        let view = world
            .store
            .turn_view(world.organization, turn, ResultDetail::Shown)
            .await
            .unwrap()
            .unwrap();
        let shown: Vec<_> = view.rounds[0]
            .calls
            .iter()
            .map(|call| call.tool_version)
            .collect();
        assert_eq!(shown, [Some(own), None]);
    })
    .await;
}

#[tokio::test]
async fn the_last_version_there_can_be_is_not_followed() {
    let world = StoreWorld::on_disk().await;
    let first = new_tool(world.organization, 1, "mail");
    world.saved(first.clone()).await;
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    conn.execute("UPDATE tool SET version = ?1", [u32::MAX])
        .unwrap();
    let beyond = SaveTool {
        follows: u32::MAX,
        ..first
    };
    let refused = world.write(Change::SaveTool(Box::new(beyond))).await;
    assert!(
        matches!(refused, Err(StoreApplyError::Encode { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn organizations_are_counted() {
    on_each_store(async |world| {
        let count = async || system::organization_count(&world.store).await.unwrap();
        assert_eq!(count().await, 2);
        create_organization(&world.store, "third").await;
        assert_eq!(count().await, 3);
    })
    .await;
}

#[tokio::test]
async fn the_state_of_an_organizations_tools_is_told_in_one_read() {
    on_each_store(async |world| {
        let read = async |organization| {
            system::organization_tools(&world.store, organization)
                .await
                .unwrap()
        };
        world.saved(new_tool(world.organization, 1, "mail")).await;
        // A third one counts no more.
        create_organization(&world.store, "third").await;
        let own = read(world.organization).await.unwrap();
        assert_eq!(
            (own.slug.as_str(), own.revision, own.organizations),
            ("default", 1, 2)
        );
        assert_eq!(read(world.stranger).await.unwrap().revision, 0);
        assert_eq!(read(OrgId(99)).await, None);
    })
    .await;
}
