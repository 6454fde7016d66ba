//! Places where a debug build can be made to die, to prove that nothing is lost there.
//!
//! `TURNWRIGHT_FAIL_POINT=NAME` kills the process with SIGKILL when it first reaches the place.
//! Release builds have none of this.

use std::sync::atomic::{AtomicBool, Ordering};

/// A place in the life of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailPoint {
    BeforeAccept,
    /// The acceptance and the turn's next write are on their way to the store, one behind the other.
    BesideAccept,
    /// Both are durable, and nobody was told of either.
    AcceptedBeside,
    AfterAccept,
    Asked,
    AnswerBegan,
    ShownFirst,
    BeforeFlush,
    AfterFlush,
    BeforeCalls,
    AfterCalls,
    BeforeCallStart,
    AfterCallStart,
    Dispatched,
    ToolAnswered,
    BeforeCallEnd,
    AfterCallEnd,
    NextRoundAsked,
    BeforeTurnEnd,
    AfterTurnEnd,
    FinishShown,
    /// The turn is taken over, and nothing of it is loaded yet.
    Claimed,
}

impl FailPoint {
    pub const ALL: [Self; 22] = [
        Self::BeforeAccept,
        Self::BesideAccept,
        Self::AcceptedBeside,
        Self::AfterAccept,
        Self::Asked,
        Self::AnswerBegan,
        Self::ShownFirst,
        Self::BeforeFlush,
        Self::AfterFlush,
        Self::BeforeCalls,
        Self::AfterCalls,
        Self::BeforeCallStart,
        Self::AfterCallStart,
        Self::Dispatched,
        Self::ToolAnswered,
        Self::BeforeCallEnd,
        Self::AfterCallEnd,
        Self::NextRoundAsked,
        Self::BeforeTurnEnd,
        Self::AfterTurnEnd,
        Self::FinishShown,
        Self::Claimed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeAccept => "before_accept",
            Self::BesideAccept => "beside_accept",
            Self::AcceptedBeside => "accepted_beside",
            Self::AfterAccept => "after_accept",
            Self::Asked => "asked",
            Self::AnswerBegan => "answer_began",
            Self::ShownFirst => "shown_first",
            Self::BeforeFlush => "before_flush",
            Self::AfterFlush => "after_flush",
            Self::BeforeCalls => "before_calls",
            Self::AfterCalls => "after_calls",
            Self::BeforeCallStart => "before_call_start",
            Self::AfterCallStart => "after_call_start",
            Self::Dispatched => "dispatched",
            Self::ToolAnswered => "tool_answered",
            Self::BeforeCallEnd => "before_call_end",
            Self::AfterCallEnd => "after_call_end",
            Self::NextRoundAsked => "next_round_asked",
            Self::BeforeTurnEnd => "before_turn_end",
            Self::AfterTurnEnd => "after_turn_end",
            Self::FinishShown => "finish_shown",
            Self::Claimed => "claimed",
        }
    }

    /// Whether the place is beside the acceptance, so that the turn's next write does not wait for it.
    fn is_beside_accept(self) -> bool {
        matches!(self, Self::BesideAccept | Self::AcceptedBeside)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }

    /// Whether a turn's acceptance waits for its next write, so that a place beside it is reached: which of the two
    /// comes first is else a matter of chance.
    pub(crate) fn holds_acceptance(armed: Option<Self>, panics: Option<&PanicPoint>) -> bool {
        let mut points = armed.into_iter().chain(panics.map(|planted| planted.at));
        cfg!(debug_assertions) && points.any(Self::is_beside_accept)
    }

    /// Dies here if this is the place that was asked for.
    pub(crate) fn reach(self, armed: Option<Self>) {
        if cfg!(debug_assertions) && armed == Some(self) {
            // The process is gone before this returns; an error would only mean that it is not.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }
}

/// A place where a turn's driver panics in a debug build, to prove that another one goes on.
#[derive(Debug)]
pub struct PanicPoint {
    at: FailPoint,
    /// Whether every driver that reaches the place panics, not only the first.
    repeats: bool,
    reached: AtomicBool,
}

impl PanicPoint {
    pub fn once(at: FailPoint) -> Self {
        Self {
            at,
            repeats: false,
            reached: AtomicBool::new(false),
        }
    }

    pub fn always(at: FailPoint) -> Self {
        Self {
            repeats: true,
            ..Self::once(at)
        }
    }

    /// `NAME`, or `NAME*` for every driver.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('*') {
            Some(name) => FailPoint::parse(name).map(Self::always),
            None => FailPoint::parse(text).map(Self::once),
        }
    }

    pub(crate) fn reach(&self, point: FailPoint) {
        if cfg!(debug_assertions) && self.at == point {
            let again = self.reached.swap(true, Ordering::Relaxed);
            assert!(again && !self.repeats, "a planted panic");
        }
    }
}
