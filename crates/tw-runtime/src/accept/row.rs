//! The row of a turn that begins.

use std::sync::Arc;

use tw_core::approval::ApprovalGiven;
use tw_core::change::{NewMessage, NewTurn};
use tw_core::memory::MemoryVerdict;
use tw_core::request::{Message, Role};
use tw_core::request_changes::RequestChanges;
use tw_core::tool::Tool;
use tw_core::turn::{MixedListEntry, ToolOffer, TurnSetup};
use tw_wire::stored::context::{ListedTool, OfferedTool, TurnContext};

use super::TurnRequest;
use super::body_hashes::BodyHashes;
use crate::runtime::RuntimeInner;

/// The row of the turn as the request asks for it; nothing is known of the turns before.
pub(super) fn new_turn(
    inner: &RuntimeInner,
    request: &TurnRequest,
    setup: &TurnSetup,
    end_user: Option<String>,
    conversation: &str,
    hashed: &BodyHashes,
) -> NewTurn {
    NewTurn {
        id: setup.id,
        organization: request.caller.organization,
        api_key: request.caller.api_key,
        end_user,
        conversation: conversation.to_owned(),
        conversation_named: request.conversation.is_some(),
        adds_items: request.adds_items(),
        parent: None,
        memory: MemoryVerdict::Off,
        memory_turn: None,
        surface: request.surface,
        streamed: setup.streamed,
        on_leave: setup.on_leave,
        record: setup.record,
        model: setup.model.clone(),
        request_id: request.request_id.clone(),
        deadline: setup.deadline,
        owner: inner.boot.clone(),
        body: request.body.clone(),
        body_hash: hashed.whole,
        cuts: None,
        // Once it is known what the upstream gets.
        context: String::new(),
        idempotency_key: request.idempotency_key.clone(),
        answers: answers(setup),
        messages: brought(&request.input.messages, setup),
        keys_since: setup.created.before(inner.config.request_keys_kept),
        at: setup.created,
    }
}

/// The context of the turn, of which it is not known yet what its upstream gets.
pub(super) fn context(request: &TurnRequest, setup: &TurnSetup) -> TurnContext {
    let ours = |tool: &Arc<Tool>| {
        ListedTool::Ours(OfferedTool {
            name: tool.name.clone(),
            version: tool.version.map(|version| version.key.0),
        })
    };
    let listed = |listed: &MixedListEntry| match listed {
        MixedListEntry::Ours(tool) => ours(tool),
        MixedListEntry::Client(name) => ListedTool::Client(name.clone()),
    };
    let tools = match &setup.offer {
        ToolOffer::Relay => None,
        ToolOffer::Ours(tools) => Some(tools.iter().map(ours).collect()),
        ToolOffer::Mixed(list) => Some(list.iter().map(listed).collect()),
    };
    TurnContext {
        tools,
        withheld: setup.withheld.clone(),
        upstreams: setup
            .upstreams
            .iter()
            .map(|origin| origin.upstream.to_string())
            .collect(),
        projection: request.projection.clone(),
        changes: RequestChanges::default(),
        passed: request.passed.clone(),
        trace: request.trace.clone(),
    }
}

/// The role of a message in the record: a result that a client brings is a block of the turn that brings it.
pub(crate) fn stored_role(role: Role) -> Role {
    match role {
        Role::System | Role::Developer => Role::System,
        Role::User | Role::Tool => Role::User,
        Role::Assistant => Role::Assistant,
    }
}

/// The questions that the turn answers.
fn answers(setup: &TurnSetup) -> Vec<ApprovalGiven> {
    let answered = setup.answered.iter();
    let given = answered.map(|call| ApprovalGiven {
        asked: call.asked,
        verdict: call.verdict.clone(),
    });
    given.collect()
}

/// The messages that this request adds: those behind the last one of the assistant, but for what stands in the place
/// of results that are not known yet.
fn brought(messages: &[Message], setup: &TurnSetup) -> Vec<NewMessage> {
    let from = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant)
        .map_or(0, |at| at + 1);
    messages[from..]
        .iter()
        .filter(|message| message.awaits.is_none())
        .zip(0..)
        .map(|(message, seq)| NewMessage {
            round: 0,
            seq,
            role: stored_role(message.role),
            blocks: message.blocks.clone(),
            origin: message.origin.clone(),
            at: setup.created,
        })
        .collect()
}
