use tw_core::change::{Change, NewApiKey, Outcome};
use tw_core::id::{ApiKeyId, OrgId};
use tw_core::rate::RateLimits;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::turn_policy::RecordPolicy;
use tw_store::apply::StoreApplyError;
use tw_store::system;

use crate::world::{api_key, at, create_organization, hour, on_each_store};

#[tokio::test]
async fn an_organization_is_found_by_its_slug_and_made_once() {
    on_each_store(async |world| {
        let found = system::organization_by_slug(&world.store, "default")
            .await
            .unwrap();
        assert_eq!(found, Some(world.organization));
        assert_eq!(
            system::organization_by_slug(&world.store, "nobody")
                .await
                .unwrap(),
            None
        );
        let new = tw_core::change::NewOrganization {
            slug: "default".into(),
            name: String::new(),
            at: at(1),
        };
        let again = world.write(Change::CreateOrganization(new)).await;
        assert!(
            matches!(again, Err(StoreApplyError::Conflict { .. })),
            "{again:?}"
        );
        assert_ne!(
            create_organization(&world.store, "third").await,
            world.organization
        );
    })
    .await;
}

#[tokio::test]
async fn a_key_comes_back_as_it_was_made() {
    on_each_store(async |world| {
        let row = system::api_key_by_hash(&world.store, [1; 32])
            .await
            .unwrap()
            .unwrap();
        assert_eq!((row.id, row.organization), (world.key, world.organization));
        assert_eq!(row.organization_slug, "default");
        assert_eq!(row.scopes, [KeyScope::Chat, KeyScope::TurnsRead]);
        assert_eq!(
            row.tools,
            ToolGrant::Named(vec!["zeta tool".to_owned(), "alpha".to_owned()])
        );
        assert_eq!(
            (row.record, row.memory),
            (RecordPolicy::Full, KeyMemory::Off)
        );
        assert_eq!((row.expires, row.last_used), (None, None));
        assert_eq!(
            system::api_key_by_hash(&world.store, [2; 32])
                .await
                .unwrap(),
            None
        );
    })
    .await;
}

#[tokio::test]
async fn a_key_may_have_no_scopes_no_tools_or_all() {
    on_each_store(async |world| {
        for (hash, tools) in [
            (2, ToolGrant::None),
            (3, ToolGrant::All),
            (4, ToolGrant::Named(Vec::new())),
        ] {
            let limits = RateLimits {
                requests_per_minute: Some(u32::MAX),
                concurrency_max: Some(0),
                streams_max: None,
            };
            let new = NewApiKey {
                limits,
                scopes: Vec::new(),
                tools: tools.clone(),
                tools_mode: ToolsMode::Add,
                record: RecordPolicy::Minimal,
                memory: KeyMemory::Key,
                expires: Some(at(9)),
                ..api_key(world.organization, hash)
            };
            world.write(Change::CreateApiKey(new)).await.unwrap();
            let row = system::api_key_by_hash(&world.store, [hash; 32])
                .await
                .unwrap()
                .unwrap();
            assert_eq!((row.scopes, row.tools), (Vec::new(), tools));
            assert_eq!(row.tools_mode, ToolsMode::Add);
            assert_eq!(row.limits, limits);
            assert_eq!(
                (row.record, row.memory, row.expires),
                (RecordPolicy::Minimal, KeyMemory::Key, Some(at(9)))
            );
        }
    })
    .await;
}

#[tokio::test]
async fn the_same_key_twice_and_a_key_of_nobody_are_refused() {
    on_each_store(async |world| {
        for new in [api_key(world.organization, 1), api_key(OrgId(99), 2)] {
            let refused = world.write(Change::CreateApiKey(new)).await;
            assert!(
                matches!(refused, Err(StoreApplyError::Conflict { .. })),
                "{refused:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn use_is_noted_at_most_once_a_minute() {
    on_each_store(async |world| {
        let touch = async |at| {
            world
                .write(Change::TouchApiKey { key: world.key, at })
                .await
                .unwrap()
        };
        assert_eq!(touch(at(0)).await, Outcome::Done);
        assert_eq!(touch(at(59_999_999)).await, Outcome::Already);
        let row = system::api_key_by_hash(&world.store, [1; 32])
            .await
            .unwrap()
            .unwrap();
        assert_eq!(row.last_used, Some(at(0)));
        assert_eq!(touch(at(0).after(hour())).await, Outcome::Done);
        let unknown = world
            .write(Change::TouchApiKey {
                key: ApiKeyId(99),
                at: at(0),
            })
            .await
            .unwrap();
        assert_eq!(unknown, Outcome::Already);
    })
    .await;
}
