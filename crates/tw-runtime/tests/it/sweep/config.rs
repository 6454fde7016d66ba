//! What a run is about, and where it is killed.

use std::fmt;

use tw_core::tool::EffectClass;

/// A turn of two rounds: the first makes calls, the second is the answer.
#[derive(Clone, Debug)]
pub struct SweepConfig {
    pub class: EffectClass,
    /// Positions of the calls in the order in which they end.
    pub order: Vec<u32>,
    pub streamed: bool,
    pub mishap: Mishap,
}

/// What goes wrong, or happens, beside the kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    Nothing,
    /// Each call's first attempt is reset after the effect happened.
    Reset,
    /// Each call's first attempt takes too long after the effect happened.
    TimedOut,
    /// Each call's first attempt is certainly not sent.
    NotSent,
    /// The model writes arguments that do not fit, so that the next round follows at once.
    Invalid,
    /// The model also calls a tool of the client's, so that the turn ends by handing that call
    /// over.
    Mixed,
    /// The model also calls a tool of ours that has to be approved, so that the turn ends by asking.
    Asked,
    /// The request answers for calls of a turn before, which run before the model is asked.
    Answered,
    /// Each round's first model request fails before anything is shown.
    ModelFails,
    /// While all calls run, somebody asks the turn to stop.
    Stopped,
    /// While all calls run, somebody deletes the turn's conversation, and then asks it to stop.
    Deleted,
    /// While all calls run, the turn's time is up.
    Late,
    /// While all calls run, the process is told to end.
    Drained,
    /// Somebody else ends the first call before it starts, and the second one while it runs.
    Completed,
}

impl Mishap {
    pub const ALL: [Self; 14] = [
        Self::Nothing,
        Self::Reset,
        Self::TimedOut,
        Self::NotSent,
        Self::Invalid,
        Self::Mixed,
        Self::Asked,
        Self::Answered,
        Self::ModelFails,
        Self::Stopped,
        Self::Deleted,
        Self::Late,
        Self::Drained,
        Self::Completed,
    ];
}

/// How the driver is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossForm {
    /// With all that it runs.
    Dropped,
    /// It goes on once another driver has claimed the turn.
    Zombie,
}

impl LossForm {
    pub const ALL: [Self; 2] = [Self::Dropped, Self::Zombie];
}

#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// Number of the boundary, counted from the kill before.
    pub at: usize,
    pub form: LossForm,
}

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFault {
    /// Effects start before the step's writes.
    DispatchBeforeWrite,
    /// The store minds no states.
    NoStatusGuard,
    /// The store minds no fences.
    NoFence,
    /// A call's end is written after what depends on it.
    ResultLater,
    /// Recovery treats a `once` call as one that may be repeated.
    OnceAgain,
    /// Recovery does not see attempts that are open.
    OpenUncounted,
}

impl SweepConfig {
    pub fn calls(&self) -> u32 {
        u32::try_from(self.order.len()).unwrap()
    }

    /// Tries of a call and of a model request. Two, so that two kills use them up; with a mishap
    /// that uses one itself, three.
    pub fn attempts_max(&self) -> u32 {
        match self.mishap {
            Mishap::Nothing
            | Mishap::Invalid
            | Mishap::Mixed
            | Mishap::Asked
            | Mishap::Answered
            | Mishap::Stopped
            | Mishap::Deleted
            | Mishap::Late
            | Mishap::Drained
            | Mishap::Completed => 2,
            Mishap::Reset | Mishap::TimedOut | Mishap::NotSent | Mishap::ModelFails => 3,
        }
    }
}

impl fmt::Display for SweepConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.streamed { "streamed" } else { "plain" };
        write!(
            f,
            "{}, {} calls ending {:?}, {kind}, {:?}",
            self.class.as_str(),
            self.order.len(),
            self.order,
            self.mishap
        )
    }
}

/// All orders of `0..n`.
pub fn orders(n: u32) -> Vec<Vec<u32>> {
    let Some(last) = n.checked_sub(1) else {
        return vec![Vec::new()];
    };
    let mut all = Vec::new();
    for shorter in orders(last) {
        for place in 0..=shorter.len() {
            let mut order = shorter.clone();
            order.insert(place, last);
            all.push(order);
        }
    }
    all
}
