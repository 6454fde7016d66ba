//! Large contents: each is stored once for an organization, read as it came, and gone with what held it.

use rusqlite::Connection;
use sha2::{Digest, Sha256};
use tw_core::call::CallEnd;
use tw_core::change::{
    BodyCuts, BodyPrefix, Change, CompleteCall, DeleteConversation, EndTurn, EventFlush,
    NewMessage, NewTurn, Outcome, TurnChange,
};
use tw_core::event::LogEvent;
use tw_core::id::{ApiKeyId, OrgId, TurnId};
use tw_core::json::{Json, Literal};
use tw_core::request::Block;
use tw_core::tenant::TurnOwner;
use tw_core::turn_policy::RecordPolicy;
use tw_core::turn_status::TurnStatus;
use tw_store::store::{CONTENT_BYTES_MIN_DEFAULT, Store, StoreOptions};

use crate::world::{
    StoreWorld, api_key, at, call_ref, completed, end_turn, message, on_each_database,
    on_each_store, pending_call, turn_id,
};

/// A content that is stored by itself, told apart by a letter.
fn image(letter: char) -> String {
    letter.to_string().repeat(CONTENT_BYTES_MIN_DEFAULT)
}

fn body(images: &[char]) -> String {
    let part = |letter: &char| {
        let url = format!("data:image/png;base64,{}", image(*letter));
        format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#)
    };
    let parts: Vec<String> = images.iter().map(part).collect();
    format!(
        r#"{{"messages":[{{"role":"user","content":[{}]}}],"model":"m"}}"#,
        parts.join(",")
    )
}

/// A turn with a content in its body, in its message, in a result, and in its log.
pub fn new_turn(world: &StoreWorld, n: u32, images: &[char]) -> (NewTurn, Vec<TurnChange>) {
    let new = NewTurn {
        body: body(images).as_str().into(),
        messages: vec![NewMessage {
            blocks: images
                .iter()
                .map(|letter| Block::Text(Literal::from_text(&image(*letter))))
                .collect(),
            ..message(0, 0)
        }],
        record: RecordPolicy::Minimal,
        ..world.new_turn(u128::from(n))
    };
    let call = call_ref(1, 0);
    let first = vec![
        TurnChange::AddCall(Box::new(pending_call(new.id, call))),
        TurnChange::EndCall {
            call,
            end: with_result(images),
            at: at(7),
        },
        TurnChange::AppendEvents(log(images)),
        TurnChange::EndTurn(EndTurn {
            erase_after: Some(at(100 + i64::from(n))),
            ..end_turn(TurnStatus::Completed)
        }),
    ];
    (new, first)
}

fn with_result(images: &[char]) -> CallEnd {
    CallEnd {
        result: Some(body(images)),
        ..completed()
    }
}

fn log(images: &[char]) -> EventFlush {
    let event = |letter: &char| LogEvent::Extra {
        key: "image".into(),
        value: Json::parse(&format!("\"{}\"", image(*letter))).unwrap(),
    };
    EventFlush {
        first: 1,
        events: images.iter().map(event).collect(),
        at: at(6),
    }
}

pub fn turn_of(n: u32) -> TurnId {
    turn_id(u128::from(n))
}

/// Panics unless all of the turn is as it was written.
pub async fn assert_whole(world: &StoreWorld, n: u32, images: &[char]) {
    let (new, _) = new_turn(world, n, images);
    let read = world.recovered(turn_of(n)).await;
    assert!(read.body == body(images).into_bytes(), "body of {n}");
    assert!(read.messages == new.messages, "messages of {n}");
    let end = read.calls[0].call.end.clone();
    assert!(end == Some(with_result(images)), "result of {n}");
    let events: Vec<LogEvent> = read.events.into_iter().map(|event| event.event).collect();
    assert!(events == log(images).events, "log of {n}");
    let page = world
        .store
        .events_after(world.organization, turn_of(n), 0, 9);
    let page = page.await.unwrap().unwrap();
    assert_eq!(page.events.len(), images.len(), "events of {n}");
}

/// Rows of the organizations' contents, and of what refers to them.
pub async fn counts(world: &StoreWorld) -> (Vec<(i64, String)>, i64) {
    const USES: &str = "SELECT count(*) FROM blob_use";
    if let Some(schema) = &world.schema {
        let client = schema.client().await;
        let sql = "SELECT organization, encode(substr(content, 1, 1), 'escape') FROM blob ORDER BY organization, 2";
        let blobs = client.query(sql, &[]).await.unwrap();
        let blobs = blobs.iter().map(|row| (row.get(0), row.get(1))).collect();
        return (blobs, client.query_one(USES, &[]).await.unwrap().get(0));
    }
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    let sql = "SELECT organization, substr(CAST(content AS TEXT), 1, 1) FROM blob ORDER BY organization, 2";
    let mut statement = conn.prepare(sql).unwrap();
    let blobs = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let blobs = blobs.unwrap().map(Result::unwrap).collect();
    (blobs, conn.query_row(USES, [], |row| row.get(0)).unwrap())
}

async fn letters(world: &StoreWorld) -> String {
    let (blobs, _) = counts(world).await;
    blobs.into_iter().map(|(_, letter)| letter).collect()
}

/// Panics unless nothing of the database accepts the statement.
async fn refused(world: &StoreWorld, sql: &str) {
    if let Some(schema) = &world.schema {
        let client = schema.client().await;
        client.batch_execute(sql).await.unwrap_err();
        return;
    }
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    conn.pragma_update(None, "foreign_keys", true).unwrap();
    conn.execute_batch(sql).unwrap_err();
}

pub async fn erase(world: &StoreWorld, now: u32) -> Outcome {
    let now = at(100 + i64::from(now));
    let change = Change::EraseDue { now, turns_max: 9 };
    world.write(change).await.unwrap()
}

#[tokio::test]
async fn a_content_is_stored_once_and_read_wherever_it_stood() {
    on_each_store(async |world| {
        for (n, images) in [(1, "a"), (2, "ab"), (3, "aba"), (4, "")] {
            let images: Vec<char> = images.chars().collect();
            let (new, first) = new_turn(&world, n, &images);
            world.accept_with(new, first).await.unwrap();
            assert_whole(&world, n, &images).await;
        }
        if world.path.is_some() || world.schema.is_some() {
            let (blobs, uses) = counts(&world).await;
            assert_eq!(blobs.len(), 2, "{blobs:?}");
            // Four texts of each turn.
            assert_eq!(uses, 4 * (1 + 2 + 3));
        }
        assert!(world.store.integrity_check().await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_content_goes_with_the_last_text_that_held_it() {
    on_each_database(async |world| {
        for (n, images) in [(1, vec!['a', 'b']), (2, vec!['b']), (3, vec!['b', 'c'])] {
            let (new, first) = new_turn(&world, n, &images);
            world.accept_with(new, first).await.unwrap();
        }
        let steps = [(1, "bc"), (3, ""), (3, "")];
        assert_eq!(letters(&world).await, "abc");
        for (n, left) in steps {
            erase(&world, n).await;
            assert_eq!(letters(&world).await, left, "after {n}");
        }
        assert_eq!(counts(&world).await.1, 0);
        for n in 1..4 {
            let read = world.recovered(turn_of(n)).await;
            assert!(read.body.is_empty() && read.events.is_empty());
        }
        assert!(world.store.integrity_check().await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_log_that_expires_lets_go_of_its_contents_alone() {
    on_each_database(async |world| {
        let (new, mut first) = new_turn(&world, 1, &['a']);
        first[2] = TurnChange::AppendEvents(log(&['z']));
        world.accept_with(new, first).await.unwrap();
        assert_eq!(letters(&world).await, "az");
        let expire = Change::ExpireEvents {
            before: at(1_000),
            turns_max: 9,
        };
        assert_eq!(world.write(expire).await.unwrap(), Outcome::Count(1));
        assert_eq!(letters(&world).await, "a");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_conversation_leaves_no_content_behind() {
    on_each_database(async |world| {
        for n in [1, 2] {
            let (new, first) = new_turn(&world, n, &['a']);
            let new = NewTurn {
                conversation: "one".to_owned(),
                record: RecordPolicy::Full,
                ..new
            };
            world.accept_with(new, first).await.unwrap();
        }
        let delete = DeleteConversation {
            organization: world.organization,
            conversation: "one".to_owned(),
            whose: TurnOwner {
                api_key: None,
                end_user: None,
            },
            at: at(100),
        };
        world
            .write(Change::DeleteConversation(delete))
            .await
            .unwrap();
        assert_eq!(erase(&world, 0).await, Outcome::Count(2));
        assert_eq!(counts(&world).await, (Vec::new(), 0));
    })
    .await;
}

/// A key of the other organization.
pub async fn key_of_stranger(world: &StoreWorld) -> ApiKeyId {
    let new = Change::CreateApiKey(api_key(world.stranger, 2));
    let created = world.write(new).await.unwrap();
    let Outcome::ApiKey(key) = created else {
        panic!("{created:?}")
    };
    key
}

#[tokio::test]
async fn another_organizations_content_is_another_row() {
    on_each_database(async |world| {
        let (new, first) = new_turn(&world, 1, &['a']);
        world.accept_with(new, first).await.unwrap();
        let api_key = key_of_stranger(&world).await;
        let (new, first) = new_turn(&world, 2, &['a']);
        let new = NewTurn {
            organization: world.stranger,
            api_key,
            ..new
        };
        world.accept_with(new, first).await.unwrap();
        let own = |organization: OrgId| (organization.0, "a".to_owned());
        let both = vec![own(world.organization), own(world.stranger)];
        assert_eq!(counts(&world).await.0, both);
        // Neither sees the other's, nor a difference in what there is.
        let foreign = world.store.turn_body(world.organization, turn_of(2)).await;
        assert_eq!(foreign.unwrap(), None);
        erase(&world, 1).await;
        assert_eq!(counts(&world).await.0, vec![own(world.stranger)]);
        let kept = world.store.turn_body(world.stranger, turn_of(2)).await;
        assert!(kept.unwrap() == Some(body(&['a']).into_bytes()));
        // A reference across organizations is no state of the database.
        let own = world.organization.0;
        refused(
            &world,
            &format!("UPDATE blob_use SET organization = {own} WHERE turn = 2"),
        )
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_group_that_fails_leaves_contents_as_they_were() {
    on_each_database(async |world| {
        // Stored, and undone by what follows it.
        let (new, mut first) = new_turn(&world, 1, &['a']);
        first.push(TurnChange::AppendEvents(EventFlush {
            first: 99,
            ..log(&['b'])
        }));
        world.accept_with(new, first).await.unwrap_err();
        assert_eq!(counts(&world).await, (Vec::new(), 0));
        // Erased, and undone by what follows it.
        let (new, first) = new_turn(&world, 1, &['a']);
        world.accept_with(new, first).await.unwrap();
        let taken = tw_core::change::NewOrganization {
            slug: "default".to_owned(),
            name: String::new(),
            at: at(1),
        };
        let group = vec![
            Change::EraseDue {
                now: at(500),
                turns_max: 9,
            },
            Change::CreateOrganization(taken),
        ];
        world.store.apply(group).await.unwrap_err();
        assert_eq!(letters(&world).await, "a");
        assert_whole(&world, 1, &['a']).await;
    })
    .await;
}

#[tokio::test]
async fn whoever_comes_late_to_a_call_gets_the_whole_result() {
    on_each_store(async |world| {
        let turn = world.accept(1).await;
        let call = call_ref(1, 0);
        let pending = pending_call(turn, call);
        let id = pending.id;
        let add = vec![TurnChange::AddCall(Box::new(pending))];
        world.write_turn(turn, add).await.unwrap();
        let complete = |letter, organization| {
            Change::CompleteCall(Box::new(CompleteCall {
                organization,
                call: id,
                end: with_result(&[letter]),
                at: at(9),
            }))
        };
        let rows = [
            ('x', world.stranger, Outcome::Already),
            ('a', world.organization, Outcome::Done),
            ('b', world.organization, Outcome::Already),
        ];
        for (letter, organization, outcome) in rows {
            let written = world.write(complete(letter, organization)).await;
            assert_eq!(written.unwrap(), outcome, "{letter}");
        }
        let end = TurnChange::EndCall {
            call,
            end: with_result(&['c']),
            at: at(10),
        };
        let late = world.write_turn(turn, vec![end]).await.unwrap();
        let end = with_result(&['a']);
        assert!(late == vec![Outcome::CallEnded { call, end }]);
        if world.path.is_some() || world.schema.is_some() {
            assert_eq!(letters(&world).await, "a");
        }
    })
    .await;
}

/// A body that begins as another one does is stored without that, contents included, and keeps them when that one goes.
#[tokio::test]
async fn a_body_that_is_made_whole_keeps_its_contents() {
    on_each_database(async |world| {
        let part = |letter| format!(r#"{{"image":"{}"}}"#, image(letter));
        let end = format!(r#"],"end":{}}}"#, part('e'));
        let first = format!(r#"{{"messages":[{}"#, part('a'));
        let second = format!("{first},{}", part('b'));
        let third = format!("{second},{}", part('c'));
        let prefix = |text: &str| BodyPrefix {
            bytes: text.len(),
            hash: Sha256::digest(text).into(),
        };
        let starts = [
            (1, None, &first),
            (2, Some(&first), &second),
            (3, Some(&second), &third),
        ];
        for (n, before, start) in starts {
            let new = NewTurn {
                body: format!("{start}{end}").as_str().into(),
                parent: before.map(|_| turn_of(n - 1)),
                cuts: Some(BodyCuts {
                    before_answer: before.map(|before| prefix(before)),
                    start: prefix(start),
                    end_hash: Sha256::digest(&end).into(),
                }),
                record: RecordPolicy::Minimal,
                ..world.new_turn(u128::from(n))
            };
            let ended = EndTurn {
                erase_after: Some(at(100 + i64::from(n))),
                ..end_turn(TurnStatus::Completed)
            };
            world
                .accept_with(new, vec![TurnChange::EndTurn(ended)])
                .await
                .unwrap();
        }
        // Each body refers to what is its own, of which the end is the first one's.
        assert_eq!(
            (letters(&world).await.as_str(), counts(&world).await.1),
            ("abce", 4)
        );
        let left = [(1, "abce", 4), (2, "abce", 4), (3, "", 0)];
        for (n, letters_left, uses) in left {
            erase(&world, n).await;
            assert_eq!(
                (letters(&world).await.as_str(), counts(&world).await.1),
                (letters_left, uses),
                "after {n}"
            );
            for (n, start) in [(2, &second), (3, &third)].iter().filter(|one| one.0 > n) {
                let read = world.store.turn_body(world.organization, turn_of(*n)).await;
                assert!(
                    read.unwrap() == Some(format!("{start}{end}").into_bytes()),
                    "{n}"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn contents_are_stored_by_themselves_from_the_configured_length_on() {
    let rows = [
        (0, ""),
        (CONTENT_BYTES_MIN_DEFAULT + 1, ""),
        (CONTENT_BYTES_MIN_DEFAULT, "a"),
        (1000, "a"),
    ];
    for (content_bytes_min, stored) in rows {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let options = StoreOptions {
            content_bytes_min,
            ..StoreOptions::defaults(at(0))
        };
        let store = Store::open(&path, options).unwrap();
        let world = StoreWorld::fill(store, Some(path), Some(folder)).await;
        let (new, first) = new_turn(&world, 1, &['a']);
        world.accept_with(new, first).await.unwrap();
        assert_whole(&world, 1, &['a']).await;
        assert_eq!(letters(&world).await, stored, "{content_bytes_min}");
    }
}

#[tokio::test]
async fn a_content_that_is_lost_is_an_error_and_no_other_text() {
    let world = StoreWorld::on_disk().await;
    let (new, first) = new_turn(&world, 1, &['a']);
    world.accept_with(new, first).await.unwrap();
    let conn = Connection::open(world.path.as_ref().unwrap()).unwrap();
    conn.execute("UPDATE blob SET content = x'61'", []).unwrap();
    let read = world.store.turn_body(world.organization, turn_of(1)).await;
    read.unwrap_err();
    let read = world
        .store
        .turn_for_recovery(world.organization, turn_of(1));
    read.await.unwrap_err();
    erase(&world, 1).await;
    assert_eq!(counts(&world).await, (Vec::new(), 0));
}
