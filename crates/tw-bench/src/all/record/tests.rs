use super::{Acknowledged, check_file as check};
use crate::floor::schema::create;
use crate::floor::turns::{TurnFactory, TurnShape};

#[test]
fn every_turn_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record.db");
    let conn = create(&file).unwrap();
    let mut turns = TurnFactory::new(TurnShape::Relay);
    turns.run_batch(&conn, 3).unwrap();
    turns.shape = TurnShape::OneTool;
    turns.run_batch(&conn, 2).unwrap();

    let right = Acknowledged {
        turns: 5,
        calls: 2,
        left: 0,
    };
    check(&file, right).unwrap();
    for wrong in [
        Acknowledged { turns: 6, ..right },
        Acknowledged { turns: 4, ..right },
        Acknowledged { calls: 1, ..right },
        Acknowledged { left: 1, ..right },
        Acknowledged {
            turns: 4,
            left: 1,
            ..right
        },
    ] {
        assert!(check(&file, wrong).is_err(), "{wrong:?}");
    }

    let unfinished = "INSERT INTO turn_start
        (key, organization, id, api_key, conversation, conversation_named, surface, streamed, on_leave, record, model,
         request_id, projector_version, deadline_us, created_us, updated_us)
        SELECT 1000, organization, 'another', api_key, conversation, conversation_named, surface, streamed, on_leave,
               record, model, request_id, projector_version, deadline_us, created_us, updated_us
        FROM turn_start LIMIT 1;
        INSERT INTO turn_state
        (turn, organization, api_key, names_somebody, body_hash, owner, fence, status, created_us, updated_us)
        SELECT 1000, organization, api_key, names_somebody, body_hash, owner, fence, 'running', created_us, updated_us
        FROM turn_state LIMIT 1";
    conn.execute_batch(unfinished).unwrap();
    let error = check(&file, Acknowledged { turns: 6, ..right }).unwrap_err();
    assert!(error.to_string().contains("5 completed turns"), "{error}");
}
