use super::{ExpectedOutcome, JOBS, SoakJob, check};
use crate::http::{Afterwards, Framing, ResponseHead};
use crate::upstream::profile::Profile;

fn says(must: ExpectedOutcome, status: u16, body: &str) -> Result<(), String> {
    let head = ResponseHead {
        bytes: 0,
        status,
        framing: Framing::Close,
        afterwards: Afterwards::Close,
        turn: None,
    };
    check(must, "w00000 w00001 ", &head, body.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn answers() {
    let text = r#"{"content":"w00000 w00001 "}"#;
    let stream = "data: {\"content\":\"w00001 \"}\n\ndata: [DONE]\n\n";
    let cut = "data: {\"content\":\"w00000 \"}\n\n";
    let failed = "data: {\"content\":\"w00000 \"}\n\ndata: {\"error\":{}}\n\n";
    let both = "data: {\"content\":\"w00001 \"}\n\ndata: {\"error\":{}}\n\ndata: [DONE]\n\n";
    for (must, status, body, is_right) in [
        (ExpectedOutcome::BeText, 200, text, true),
        (ExpectedOutcome::BeText, 200, stream, true),
        (ExpectedOutcome::BeText, 200, cut, false),
        (ExpectedOutcome::BeText, 200, failed, false),
        (ExpectedOutcome::BeText, 200, "{}", false),
        (ExpectedOutcome::BeText, 502, text, false),
        (ExpectedOutcome::BeError, 502, "{}", true),
        (ExpectedOutcome::BeError, 200, text, false),
        (ExpectedOutcome::BeError, 400, text, false),
        (ExpectedOutcome::EndWithError, 200, failed, true),
        (ExpectedOutcome::EndWithError, 502, "{}", true),
        (ExpectedOutcome::EndWithError, 200, cut, false),
        (ExpectedOutcome::EndWithError, 200, stream, false),
        (ExpectedOutcome::EndWithError, 200, both, false),
    ] {
        let said = says(must, status, body);
        assert_eq!(said.is_ok(), is_right, "{must:?} {status} {body}: {said:?}");
    }
}

#[test]
fn each_job_asks_for_a_model_that_is_there() {
    for job in JOBS {
        let profile = Profile::parse(job.model()).unwrap();
        let fails = matches!(
            job.must(),
            ExpectedOutcome::BeError | ExpectedOutcome::EndWithError
        );
        assert_eq!(profile.fault.is_some(), fails, "{job:?}");
        assert_eq!(job.body()["model"], job.model());
    }
    assert_eq!(SoakJob::number(JOBS.len() + 1), JOBS[1]);
}
