//! What a request says of the response's life, and what its response repeats of it.

use tw_core::approval::{ApprovalGiven, ApprovalVerdict};
use tw_core::native::NativeFields;

use super::ids;

/// What a turn of this format needs beside the request that any format can say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsesOptions {
    /// The answer is fetched later.
    pub background: bool,
    /// The response that this one follows: its input and output go before the request's own.
    pub previous_response_id: Option<String>,
    pub conversation: Option<String>,
    pub include: Vec<String>,
    /// Calls of this server's tools that may run in the whole response.
    pub max_tool_calls: Option<u64>,
    pub service_tier: Option<String>,
    /// Answers to questions of this server, whether a call may run, in the order of the input.
    pub approvals: Vec<ApprovalAnswer>,
    /// Fields of the request as the response repeats them, with what stands for those that were not given.
    pub echo: NativeFields,
}

/// A client's answer to the question whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// The question's id.
    pub request_id: String,
    pub approve: bool,
    pub reason: Option<String>,
}

/// The word of `include` by which reasoning comes in a form that can go back.
pub const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

impl ResponsesOptions {
    /// The answers, by the calls that they are about.
    pub fn approvals_given(&self) -> Vec<ApprovalGiven> {
        let answers = self.approvals.iter();
        let given = answers.filter_map(|answer| {
            Some(ApprovalGiven {
                asked: ids::parse_approval_id(&answer.request_id)?,
                verdict: if answer.approve {
                    ApprovalVerdict::Approved
                } else {
                    ApprovalVerdict::Denied {
                        reason: answer.reason.clone(),
                    }
                },
            })
        });
        given.collect()
    }

    pub fn includes(&self, what: &str) -> bool {
        self.include.iter().any(|have| have == what)
    }
}
