use rusqlite::Connection;
use tw_core::call::{CallEnd, CallReason, CallRunner, CallStatus};
use tw_core::change::{Change, NewCall, Outcome, SaveTool, ToolRoom, TurnChange};
use tw_core::id::{ApiKeyId, OrgId};
use tw_core::tenant::{KeyScope, ToolsMode};
use tw_core::tool::EffectClass;
use tw_core::turn_status::TurnStatus;
use tw_store::migrate::{self, MIGRATIONS};
use tw_store::read::view::ResultDetail;
use tw_store::store::{Store, StoreOptions};
use tw_store::system;

use crate::world::{StoreWorld, at, call_ref, pending_call, revision, tool_id, turn_id};

/// Two organizations and a running turn with a call in each state, as the first schema held them.
const WITH_TURNS: &str = r#"
    INSERT INTO organization VALUES (1, 'default', 'Default', 1, 1), (2, 'stranger', 'Stranger', 1, 1);
    INSERT INTO api_key VALUES
        (1, 1, 'key', zeroblob(32), 'tw-', 'chat', 'all', 'full', 'off', NULL, NULL, 1, 1);
    INSERT INTO conversation VALUES (1, 1, 'conversation', NULL, NULL, 1, 1);
    INSERT INTO turn
        (key, organization, id, api_key, conversation, conversation_named, surface, streamed, on_leave, record,
         model, request_id, body_hash, projector_version, owner, fence, status, deadline_us, created_us, updated_us)
        VALUES (1, 1, '0194f2a0-0000-7000-8000-000000000001', 1, 1, 0, 'chat_completions', 1, 'stop', 'full',
                'm', 'request', zeroblob(32), 1, 'boot 1', 1, 'running', 9, 1, 1);
    INSERT INTO turn_input VALUES (1, x'7b7d', '{}', NULL, 1, 1);
    INSERT INTO tool_call
        (turn, round, position, organization, id, runs, effect, tool_name, tool_call_id, callback_token,
         idempotency_key, arguments, status, reason, result, shown, is_error, started_us, ended_us,
         created_us, updated_us)
        VALUES
        (1, 1, 0, 1, '00000000-0000-4000-8000-000000000000', 'server', 'read', 'time_now', 'a', 't0', 'k0', '{}',
         'completed', NULL, 'long', 'lo', 0, 2, 3, 1, 3),
        (1, 1, 1, 1, '00000000-0000-4000-8000-000000000001', 'server', 'once', 'mail', 'b', 't1', 'k1', '{}',
         'failed', 'timeout', NULL, 'late', 1, 2, 3, 1, 3),
        (1, 1, 2, 1, '00000000-0000-4000-8000-000000000002', 'server', 'once', 'mail', 'c', 't2', 'k2', '{}',
         'processing', NULL, NULL, NULL, NULL, 2, NULL, 1, 2);
"#;

/// The world of a database that the program of the first schema has left.
fn after_the_first_schema() -> StoreWorld {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut conn = Connection::open(&path).unwrap();
    conn.pragma_update(None, "foreign_keys", true).unwrap();
    migrate::run(&mut conn, &MIGRATIONS[..1], at(0)).unwrap();
    conn.execute_batch(WITH_TURNS).unwrap();
    drop(conn);
    StoreWorld {
        store: Store::open(&path, StoreOptions::defaults(at(1))).unwrap(),
        organization: OrgId(1),
        key: ApiKeyId(1),
        stranger: OrgId(2),
        path: Some(path),
        folder: Some(folder),
        schema: None,
    }
}

#[tokio::test]
async fn the_first_schemas_turns_are_there_under_the_newest() {
    let world = after_the_first_schema();
    let view = world
        .store
        .turn_view(world.organization, turn_id(1), ResultDetail::Full)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(view.turn.status, TurnStatus::Running);
    let calls = &view.rounds[0].calls;
    let read: Vec<_> = calls.iter().map(|call| (call.status, &call.end)).collect();
    let completed = CallEnd {
        reason: None,
        result: Some("long".to_owned()),
        shown: "lo".to_owned(),
        is_error: false,
        cached: false,
    };
    let failed = CallEnd {
        reason: Some(CallReason::Timeout),
        result: None,
        shown: "late".to_owned(),
        is_error: true,
        cached: false,
    };
    assert_eq!(
        read,
        [
            (CallStatus::Completed, &Some(completed)),
            (CallStatus::Failed, &Some(failed)),
            (CallStatus::Processing, &None),
        ]
    );
    assert!(calls.iter().all(|call| call.tool_version.is_none()));
    assert_eq!(
        (calls[0].runs, calls[0].effect),
        (CallRunner::Server, Some(EffectClass::Read))
    );
    for organization in [world.organization, world.stranger] {
        assert_eq!(world.store.tools(organization).await.unwrap(), []);
        assert_eq!(revision(&world.store, organization).await, 0);
    }
    let key = system::api_key_by_hash(&world.store, [0; 32])
        .await
        .unwrap();
    assert_eq!(key.map(|key| key.id), Some(world.key));
    assert_eq!(
        world.store.integrity_check().await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn a_turn_of_the_first_schema_goes_on_with_the_newest() {
    let world = after_the_first_schema();
    let save = SaveTool {
        organization: world.organization,
        tool: tool_id(1),
        name: "mail".to_owned(),
        definition: "{}".to_owned(),
        follows: 0,
        room: ToolRoom {
            tools_max: 1,
            bytes_max: 1 << 20,
        },
        at: at(2),
    };
    let saved = world.write(Change::SaveTool(Box::new(save))).await.unwrap();
    let Outcome::ToolSaved(version) = saved else {
        panic!("{saved:?}")
    };
    let turn = turn_id(1);
    let call = NewCall {
        tool_version: Some(version.key),
        ..pending_call(turn, call_ref(2, 0))
    };
    let answered = CallEnd {
        reason: None,
        result: Some("{}".to_owned()),
        shown: "{}".to_owned(),
        is_error: false,
        cached: true,
    };
    let end = |call, end: &CallEnd| TurnChange::EndCall {
        call,
        end: end.clone(),
        at: at(3),
    };
    let changes = vec![
        end(call_ref(1, 2), &answered),
        TurnChange::AddCall(Box::new(call.clone())),
        end(call.call, &answered),
    ];
    world.write_turn(turn, changes).await.unwrap();
    let found = world.recovered(turn).await;
    let ends: Vec<_> = found.calls[2..]
        .iter()
        .map(|row| (row.call.end.as_ref(), row.tool_version))
        .collect();
    assert_eq!(
        ends,
        [(Some(&answered), None), (Some(&answered), Some(version))]
    );
    world.accept(2).await;
    assert_eq!(
        world.store.integrity_check().await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn what_was_final_under_the_first_schema_stays_so_under_the_newest() {
    let world = after_the_first_schema();
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    for sql in [
        "UPDATE tool_call SET status = 'failed', reason = 'reset' WHERE position = 0",
        "UPDATE tool_call SET status = 'processing', reason = NULL, shown = NULL, is_error = NULL, ended_us = NULL
         WHERE position = 1",
        "UPDATE tool_call SET status = 'failed', reason = 'reset', shown = '', is_error = 0, ended_us = 9",
    ] {
        let error = conn.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("final"), "{sql}: {error}");
    }
    let states = "SELECT group_concat(status || coalesce(reason, '')) FROM tool_call";
    let states: String = conn.query_row(states, [], |row| row.get(0)).unwrap();
    assert_eq!(states, "completed,failedtimeout,processing");
}

/// Who could read the turns of an organization still can, and each key has an id of its own.
#[tokio::test]
async fn keys_of_the_first_schema_keep_what_they_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut conn = Connection::open(&path).unwrap();
    migrate::run(&mut conn, &MIGRATIONS[..1], at(0)).unwrap();
    let cases: [(&str, &[KeyScope]); 5] = [
        (
            "chat turns:read tools:read",
            &[
                KeyScope::Chat,
                KeyScope::TurnsRead,
                KeyScope::TurnsReadAll,
                KeyScope::ToolsRead,
            ],
        ),
        ("turns:read", &[KeyScope::TurnsRead, KeyScope::TurnsReadAll]),
        ("chat", &[KeyScope::Chat]),
        ("tools:read admin", &[KeyScope::ToolsRead, KeyScope::Admin]),
        ("", &[]),
    ];
    conn.execute_batch("INSERT INTO organization VALUES (1, 'default', 'Default', 1, 1)")
        .unwrap();
    for ((scopes, _), key) in cases.iter().zip(1_i64..) {
        let sql = "INSERT INTO api_key VALUES
            (?1, 1, 'key', randomblob(32), 'tw-', ?2, 'none', 'full', 'off', NULL, NULL, 1, 1)";
        conn.execute(sql, rusqlite::params![key, scopes]).unwrap();
    }
    drop(conn);
    let store = Store::open(&path, StoreOptions::defaults(at(1))).unwrap();
    let keys = store.api_keys(OrgId(1), None, 9).await.unwrap();
    let scopes: Vec<&[KeyScope]> = keys.iter().map(|key| key.scopes.as_slice()).collect();
    assert_eq!(scopes, cases.map(|(_, scopes)| scopes));
    let ids: std::collections::BTreeSet<_> = keys.iter().map(|key| key.uuid).collect();
    assert_eq!(ids.len(), cases.len());
    for key in &keys {
        let found = store.api_key(OrgId(1), key.uuid).await.unwrap();
        assert_eq!(found.as_ref(), Some(key));
        assert_eq!((key.tools_mode, key.created_by), (ToolsMode::Replace, None));
    }
}

/// A turn that brought two results, as the schema before had them: one is named by the upstream's id, one by ours.
const WITH_RESULTS: &str = r#"
    INSERT INTO message (turn, round, seq, role, blocks, created_us, updated_us) VALUES
        (1, 0, 0, 'user', '[{"text":"the \"result\""},{"result":{"id":"b","b":[{"text":"late"}],"e":true}},
            {"result":{"id":"call_00000000000040008000000000000001","b":[]}}]', 7, 7),
        (1, 1, 0, 'assistant', '[{"origin":["chat_completions","u","m"]},{"text":"result"}]', 8, 8);
"#;

#[test]
fn results_that_clients_brought_before_are_found_by_their_calls() {
    let mut conn = Connection::open_in_memory().unwrap();
    let before = MIGRATIONS
        .iter()
        .position(|migration| migration.name == "shapes")
        .unwrap();
    migrate::run(&mut conn, &MIGRATIONS[..1], at(0)).unwrap();
    conn.execute_batch(WITH_TURNS).unwrap();
    migrate::run(&mut conn, &MIGRATIONS[..before], at(0)).unwrap();
    conn.execute_batch(WITH_RESULTS).unwrap();
    migrate::run(&mut conn, MIGRATIONS, at(1)).unwrap();
    let sql = "SELECT block, tool_call_id, is_error, organization, created_us FROM brought_result
        WHERE turn = 1 AND round = 0 AND seq = 0 ORDER BY block";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, bool>(2)?,
            row.get::<_, i64>(3)?,
            row.get::<_, i64>(4)?,
        ))
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    assert_eq!(
        rows,
        [
            (1, "b".to_owned(), true, 1, 7),
            // The call that was handed over had failed.
            (2, "b".to_owned(), true, 1, 7),
        ]
    );
    let count: i64 = conn
        .query_row("SELECT count(*) FROM brought_result", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 2);
}
