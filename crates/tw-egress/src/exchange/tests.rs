use super::failed;
use crate::client::failure::{FailureKind, SendFailure, WaitPhase};
use crate::client::tls_fault::TlsFault;

#[test]
fn what_was_sent_decides_what_a_failure_means() {
    for (kind, unsent, sent) in [
        (FailureKind::BadUrl, "unsendable", "reset"),
        (FailureKind::BadRequest, "unsendable", "reset"),
        (FailureKind::NotHttps, "not_allowed", "not_allowed"),
        (FailureKind::TargetNotAllowed, "not_allowed", "not_allowed"),
        (FailureKind::Unresolved, "not_allowed", "not_allowed"),
        (FailureKind::LookUpFailed, "not_sent", "reset"),
        (FailureKind::Connect, "not_sent", "reset"),
        (FailureKind::Proxy, "not_sent", "reset"),
        (FailureKind::Tls(TlsFault::Refused), "not_sent", "reset"),
        (FailureKind::Reset, "not_sent", "reset"),
        (FailureKind::NotHttp, "not_sent", "reset"),
        (FailureKind::HeadersTooLarge, "not_sent", "reset"),
        (
            FailureKind::TimedOut(WaitPhase::Connect),
            "not_sent",
            "timeout",
        ),
        (
            FailureKind::TimedOut(WaitPhase::FirstByte),
            "not_sent",
            "timeout",
        ),
        (
            FailureKind::TimedOut(WaitPhase::Idle),
            "not_sent",
            "timeout",
        ),
        // Also the tool's own timeout, when it was up before anything was sent.
        (
            FailureKind::TimedOut(WaitPhase::Total),
            "not_sent",
            "timeout",
        ),
    ] {
        let word = |sent| {
            let failure = SendFailure {
                kind,
                sent,
                cause: String::new(),
            };
            failed(&failure).as_str()
        };
        assert_eq!((word(false), word(true)), (unsent, sent), "{kind:?}");
    }
}
