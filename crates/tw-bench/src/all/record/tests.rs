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

    let unfinished = "INSERT INTO turn
        (organization, id, api_key, conversation, conversation_named, surface, streamed, on_leave, record, model,
         request_id, body_hash, projector_version, owner, fence, status, deadline_us, created_us, updated_us)
        SELECT organization, 'another', api_key, conversation, conversation_named, surface, streamed, on_leave, record,
               model, request_id, body_hash, projector_version, owner, fence, 'running', deadline_us, created_us,
               updated_us
        FROM turn LIMIT 1";
    conn.execute(unfinished, []).unwrap();
    let error = check(&file, Acknowledged { turns: 6, ..right }).unwrap_err();
    assert!(error.to_string().contains("5 completed turns"), "{error}");
}
