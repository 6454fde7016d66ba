//! Jobs that tools have started: when they are asked about, and what came of it.

use std::time::Duration;

use crate::call::CallEnd;
use crate::call_file::CallFile;
use crate::change::Change;
use crate::id::{CallId, JobKey, OrgId};
use crate::time::Timestamp;

/// Wait after a poll that did not confirm what a callback had said, and before one that has nothing to ask by yet.
pub const CONFIRM_AGAIN: Duration = Duration::from_secs(5);
/// Polls at that pace after a callback, until the tool's own waits count again.
pub const CONFIRMS_MAX: u32 = 12;
/// Tries of copying the files of a job, before its call ends with links to where they are.
pub const FILE_TRIES_MAX: u32 = 5;
/// Time after its deadline for which a polled call may still be asked about, before it fails all the same.
pub const LAST_POLL_MAX: Duration = Duration::from_secs(120);

/// A change of jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum JobChange {
    /// Jobs of an organization that are due are taken to be asked about, as `Jobs`: at most `jobs_max`. If they are not
    /// settled by `until`, they are due again.
    Claim {
        organization: OrgId,
        owner: String,
        jobs_max: u32,
        at: Timestamp,
        until: Timestamp,
    },
    Settle(SettleJob),
    /// What other processes than `owner` had claimed is due at once: they are gone.
    FreeClaims {
        owner: String,
        at: Timestamp,
    },
    /// A job is due at once, whoever has claimed it; `Already` for a call that has ended or was never polled.
    AskNow {
        organization: OrgId,
        call: CallId,
        at: Timestamp,
    },
}

impl From<JobChange> for Change {
    fn from(change: JobChange) -> Self {
        Self::OfJob(Box::new(change))
    }
}

/// A claim of a job; it holds while nobody else has claimed it, and no callback has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobClaim {
    pub job: JobKey,
    pub owner: String,
    pub until: Timestamp,
}

/// What came of asking about a job.
#[derive(Clone, Debug, PartialEq)]
pub struct SettleJob {
    pub claim: JobClaim,
    pub end: JobEnding,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum JobEnding {
    /// Its call ends; `Already` if it had ended before.
    Ended {
        organization: OrgId,
        call: CallId,
        end: CallEnd,
        files: Vec<CallFile>,
        /// Bytes that all files of the organization may have: nothing is written, and it is `TooMany`, if they would
        /// have more.
        files_bytes_max: u64,
    },
    /// It is asked about again; `Already` if the claim does not hold any more.
    Again { due: Timestamp, poll: PolledJob },
    /// Its call has ended; there is nothing more to ask.
    Over,
}

/// A poll that did not bring the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolledJob {
    pub http_status: Option<u16>,
    /// `None` for an answer that says that the job goes on.
    pub fault: Option<PollFault>,
}

/// Why a poll said nothing of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollFault {
    /// The id of the job is not known yet.
    NoId,
    /// No request can be made of the definition, or its secrets are not granted any more.
    Unsendable,
    /// The address may not be reached from here.
    NotAllowed,
    /// No whole answer came.
    Unanswered,
    /// The answer has a status that the definition does not accept.
    Status,
    /// The answer does not say what it must.
    Malformed,
    /// The job has ended, and its files were not to be had.
    Files,
}

impl PollFault {
    pub const ALL: [Self; 7] = [
        Self::NoId,
        Self::Unsendable,
        Self::NotAllowed,
        Self::Unanswered,
        Self::Status,
        Self::Malformed,
        Self::Files,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoId => "no_id",
            Self::Unsendable => "unsendable",
            Self::NotAllowed => "not_allowed",
            Self::Unanswered => "unanswered",
            Self::Status => "status",
            Self::Malformed => "malformed",
            Self::Files => "files",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == text)
    }
}

/// How it stands with a job that is about to be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Polls so far, since a callback came if one has.
    pub polls: u32,
    pub called_back: bool,
    pub deadline: Option<Timestamp>,
}

impl JobProgress {
    /// When the next poll is due, at the deadline at the latest; `None` when this was the last.
    pub fn next(
        self,
        every: &[Duration],
        retry_after: Option<Duration>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return None;
        }
        let at = usize::try_from(self.polls).unwrap_or(usize::MAX);
        let usual = match (every.get(at), every.last()) {
            (Some(wait), _) | (None, Some(wait)) => *wait,
            (None, None) => CONFIRM_AGAIN,
        };
        let wait = if self.called_back && self.polls < CONFIRMS_MAX {
            usual.min(CONFIRM_AGAIN)
        } else {
            usual
        };
        let due = now.after(wait.max(retry_after.unwrap_or_default()));
        Some(self.deadline.map_or(due, |deadline| deadline.min(due)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_go_on_with_the_last_and_end_at_the_deadline() {
        let s = Duration::from_secs;
        let at = |seconds: u64| Timestamp(0).after(s(seconds));
        let every = [s(30), s(60)];
        for (polls, called_back, retry_after, now, expected) in [
            (0, false, None, 0, Some(30)),
            (1, false, None, 0, Some(60)),
            (9, false, None, 0, Some(60)),
            (0, false, Some(45), 0, Some(45)),
            (0, true, None, 0, Some(5)),
            (CONFIRMS_MAX, true, None, 0, Some(60)),
            (1, false, None, 880, Some(900)),
            (1, false, Some(3600), 0, Some(900)),
            (1, false, None, 900, None),
        ] {
            let progress = JobProgress {
                polls,
                called_back,
                deadline: Some(at(900)),
            };
            let next = progress.next(&every, retry_after.map(s), at(now));
            assert_eq!(next, expected.map(at), "{polls} {called_back} {now}");
        }
    }
}
