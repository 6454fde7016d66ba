//! The table: what a tool does, of which class it is, and how its call must end.

use bytes::Bytes;
use tw_core::tool::EffectClass;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub behaviour: Behaviour,
    pub class: Class,
}

/// What a tool does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Hangs,
    HangsInMidAnswer,
    Drips,
    AnswersFiftyMegabytes,
    AnswersInvalidUtf8,
    AnswersNul,
    AnswersAnImage,
    AnswersCompressed,
    AnswersDeepJson,
    AnswersNothing,
    Fails,
    Redirects,
    IsBusyOnce,
    IsBehindABadGateway,
    RefusesConnections,
    HangsUpBeforeReading,
    HangsUpAfterReading,
    BreaksOffItsAnswer,
    Panics,
}

/// The effect class, and for `queryable` what its look-up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Read,
    Idempotent,
    QueryableDone,
    QueryableAbsent,
    QueryableUnknown,
    Once,
}

/// How a call must end.
#[derive(Debug)]
pub struct ExpectedEnd {
    pub status: &'static str,
    pub reason: Option<&'static str>,
    pub told: Told,
    pub attempts: usize,
}

/// What the model must be told.
#[derive(Debug)]
pub enum Told {
    Exactly(String),
    /// Words that must be part of it.
    Words(&'static str),
    /// The beginning of this, and that it was cut.
    CutOf(Bytes),
    /// The note on an answer that is no text.
    NoteOn {
        content_type: &'static str,
        body: Bytes,
    },
}

/// Attempts of a tool that may be tried again.
const ATTEMPTS_MAX: usize = 3;
/// What a look-up finds that the call had done.
pub const FOUND: &str = "done at 12:04";
/// What a tool says that fails.
pub const FAILURE: &str = "no seat is left";
/// What a tool says that was busy before.
pub const SERVED: &str = "served";
/// Half of the answer of a tool that breaks off.
pub const HALF: &str = r#"{"seat":"#;
/// What a tool answers that writes NUL.
pub const WITH_NUL: &str = "seat\u{0}12";
pub const NOT_UTF8: &[u8] = b"caf\xe9 \xff\xfe";
pub const IMAGE: &[u8] = b"\x89PNG\r\n\x1a\n and the rest";
/// An empty gzip member.
pub const GZIP: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00";
/// Piece of a long answer, and how many of it make 50 MB.
pub const MEGABYTE: Bytes = Bytes::from_static(&[b'z'; 1 << 20]);
pub const MEGABYTES: usize = 50;
const DEEP_LEVELS: usize = 5000;

pub fn deep_json() -> String {
    format!("{}{}", "[".repeat(DEEP_LEVELS), "]".repeat(DEEP_LEVELS))
}

/// What kind of tool it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseToolKind {
    /// One that comes with the program.
    Probe,
    /// An `api_request` that was made through the API.
    Stored,
}

/// Those of one kind.
pub fn of(kind: CaseToolKind) -> Vec<Case> {
    let can = |case: &Case| match kind {
        CaseToolKind::Probe => true,
        // No definition makes our own code panic.
        CaseToolKind::Stored => case.behaviour != Behaviour::Panics,
    };
    all().into_iter().filter(can).collect()
}

fn all() -> Vec<Case> {
    Behaviour::ALL
        .into_iter()
        .flat_map(|behaviour| Class::ALL.map(|class| Case { behaviour, class }))
        .collect()
}

impl Behaviour {
    const ALL: [Self; 19] = [
        Self::Hangs,
        Self::HangsInMidAnswer,
        Self::Drips,
        Self::AnswersFiftyMegabytes,
        Self::AnswersInvalidUtf8,
        Self::AnswersNul,
        Self::AnswersAnImage,
        Self::AnswersCompressed,
        Self::AnswersDeepJson,
        Self::AnswersNothing,
        Self::Fails,
        Self::Redirects,
        Self::IsBusyOnce,
        Self::IsBehindABadGateway,
        Self::RefusesConnections,
        Self::HangsUpBeforeReading,
        Self::HangsUpAfterReading,
        Self::BreaksOffItsAnswer,
        Self::Panics,
    ];
}

impl Behaviour {
    /// The status of its whole answer to an attempt behind so many others; `None` where it gives none.
    pub fn status(self, before: usize) -> Option<u16> {
        match self {
            Self::AnswersFiftyMegabytes
            | Self::AnswersInvalidUtf8
            | Self::AnswersNul
            | Self::AnswersAnImage
            | Self::AnswersCompressed
            | Self::AnswersDeepJson
            | Self::AnswersNothing => Some(200),
            Self::Fails => Some(500),
            Self::Redirects => Some(302),
            Self::IsBusyOnce if before == 0 => Some(429),
            Self::IsBusyOnce => Some(200),
            Self::IsBehindABadGateway => Some(502),
            Self::Hangs
            | Self::HangsInMidAnswer
            | Self::Drips
            | Self::RefusesConnections
            | Self::HangsUpBeforeReading
            | Self::HangsUpAfterReading
            | Self::BreaksOffItsAnswer
            | Self::Panics => None,
        }
    }
}

impl Class {
    const ALL: [Self; 6] = [
        Self::Read,
        Self::Idempotent,
        Self::QueryableDone,
        Self::QueryableAbsent,
        Self::QueryableUnknown,
        Self::Once,
    ];

    pub fn effect(self) -> EffectClass {
        match self {
            Self::Read => EffectClass::Read,
            Self::Idempotent => EffectClass::Idempotent,
            Self::QueryableDone | Self::QueryableAbsent | Self::QueryableUnknown => {
                EffectClass::Queryable
            }
            Self::Once => EffectClass::Once,
        }
    }
}

impl Case {
    /// The name of its tool.
    pub fn name(self) -> String {
        format!("{:?}_{:?}", self.behaviour, self.class)
    }

    pub fn of_name(name: &str) -> Self {
        all().into_iter().find(|case| case.name() == name).unwrap()
    }

    /// Section 7 of the design.
    pub fn expected(self) -> ExpectedEnd {
        match self.behaviour {
            Behaviour::AnswersFiftyMegabytes => completed(Told::CutOf(MEGABYTE)),
            Behaviour::AnswersInvalidUtf8 => note("text/plain", NOT_UTF8),
            Behaviour::AnswersNul => completed(Told::Exactly(WITH_NUL.replace('\0', "\u{fffd}"))),
            Behaviour::AnswersAnImage => note("image/png", IMAGE),
            Behaviour::AnswersCompressed => note("application/json", GZIP),
            Behaviour::AnswersDeepJson => completed(Told::Exactly(deep_json())),
            Behaviour::AnswersNothing => completed(Told::Exactly(String::new())),
            Behaviour::Fails => failed("tool_error", FAILURE, 1),
            Behaviour::Redirects => failed("tool_error", "redirect_not_followed", 1),
            Behaviour::IsBusyOnce => match self.class.effect() {
                EffectClass::Read | EffectClass::Idempotent => ExpectedEnd {
                    attempts: 2,
                    ..completed(Told::Exactly(SERVED.to_owned()))
                },
                EffectClass::Queryable | EffectClass::Once => {
                    failed("tool_error", "429 Too Many Requests", 1)
                }
            },
            Behaviour::IsBehindABadGateway => {
                self.ambiguous("tool_error", "502 Bad Gateway", ATTEMPTS_MAX)
            }
            // Nothing was sent, so every class is tried again.
            Behaviour::RefusesConnections => failed("not_sent", "cannot be reached", ATTEMPTS_MAX),
            Behaviour::Hangs | Behaviour::HangsInMidAnswer | Behaviour::Drips => {
                self.ambiguous("timeout", "within its time", ATTEMPTS_MAX)
            }
            Behaviour::HangsUpBeforeReading | Behaviour::HangsUpAfterReading => {
                self.ambiguous("reset", "before its answer was complete", ATTEMPTS_MAX)
            }
            Behaviour::BreaksOffItsAnswer => {
                self.ambiguous("reset", "before its answer was complete", ATTEMPTS_MAX)
            }
            Behaviour::Panics => self.ambiguous("panicked", "failed internally", 1),
        }
    }

    /// It may have happened or not.
    fn ambiguous(self, reason: &'static str, words: &'static str, attempts: usize) -> ExpectedEnd {
        match self.class {
            Class::Read | Class::Idempotent => failed(reason, words, attempts),
            Class::QueryableDone => completed(Told::Exactly(FOUND.to_owned())),
            Class::QueryableAbsent => failed("not_sent", "nothing was done", ATTEMPTS_MAX),
            Class::QueryableUnknown | Class::Once => {
                failed("outcome_unknown", "must not simply be repeated", 1)
            }
        }
    }
}

fn completed(told: Told) -> ExpectedEnd {
    ExpectedEnd {
        status: "completed",
        reason: None,
        told,
        attempts: 1,
    }
}

fn note(content_type: &'static str, body: &'static [u8]) -> ExpectedEnd {
    completed(Told::NoteOn {
        content_type,
        body: Bytes::from_static(body),
    })
}

fn failed(reason: &'static str, words: &'static str, attempts: usize) -> ExpectedEnd {
    ExpectedEnd {
        status: "failed",
        reason: Some(reason),
        told: Told::Words(words),
        attempts,
    }
}
