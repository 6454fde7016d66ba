use tw_core::call::{CallReason, CallStatus};
use tw_core::id::{CallId, TurnId};
use tw_core::time::Timestamp;
use tw_core::turn_status::TurnStatus;
use tw_core::webhook::WebhookEvent;
use tw_core::webhook::told::{ToldCall, ToldEvent, ToldTurn};

use super::body;

fn turn() -> ToldTurn {
    ToldTurn {
        id: TurnId::parse("0194f2a0000070008000000000000001").unwrap(),
        conversation: "c1".to_owned(),
        end_user: None,
        model: "m".to_owned(),
        status: TurnStatus::Completed,
        reason: None,
        tool_count: 1,
        created: Timestamp(1),
        ended: Some(Timestamp(2)),
        answer: None,
    }
}

fn call() -> ToldCall {
    ToldCall {
        id: CallId::parse("0194f2a0000070008000000000000002").unwrap(),
        tool_name: "mail".to_owned(),
        tool_version: None,
        status: CallStatus::Failed,
        reason: Some(CallReason::Timeout),
        is_error: true,
        created: Timestamp(3),
        started: Some(Timestamp(4)),
        ended: Some(Timestamp(5)),
        contents: None,
    }
}

#[test]
fn bodies_are_as_documented() {
    const AT: &str = r#""timestamp":"2023-11-14T22:13:20Z","data":{"organization":"default""#;
    let plain =
        r#""turn":{"id":"0194f2a0-0000-7000-8000-000000000001","conversation":"c1","user":null"#;
    let ended = format!(
        r#"{plain},"status":"completed","reason":null,"model":"m","tool_count":1,"created_us":1,"ended_us":2"#
    );
    let failed = r#""call":{"id":"0194f2a0-0000-7000-8000-000000000002","name":"mail","status":"failed","reason":"timeout","is_error":true,"created_us":3,"started_us":4,"ended_us":5"#;
    let answered = ToldTurn {
        answer: Some("Hi \"you\"".to_owned()),
        ..turn()
    };
    let shown = ToldCall {
        contents: Some(("{\"to\":1}".to_owned(), "late".to_owned())),
        ..call()
    };
    let rows = [
        (
            WebhookEvent::Test,
            None,
            None,
            format!(r#"{{"type":"webhook.test",{AT}}}}}"#),
        ),
        (
            WebhookEvent::TurnCompleted,
            Some(turn()),
            None,
            format!(r#"{{"type":"turn.completed",{AT},{ended}}}}}}}"#),
        ),
        (
            WebhookEvent::TurnCompleted,
            Some(answered),
            None,
            format!(r#"{{"type":"turn.completed",{AT},{ended},"answer":"Hi \"you\""}}}}}}"#),
        ),
        (
            WebhookEvent::CallFailed,
            Some(turn()),
            Some(call()),
            format!(r#"{{"type":"call.failed",{AT},{failed}}},{plain}}}}}}}"#),
        ),
        (
            WebhookEvent::CallFailed,
            Some(turn()),
            Some(shown),
            format!(
                r#"{{"type":"call.failed",{AT},{failed},"arguments":"{{\"to\":1}}","shown":"late"}},{plain}}}}}}}"#
            ),
        ),
    ];
    for (event, turn, call, expected) in rows {
        let told = ToldEvent {
            event,
            at: Timestamp(1_700_000_000_000_000),
            turn,
            call,
        };
        assert_eq!(body("default", &told), expected);
    }
}
