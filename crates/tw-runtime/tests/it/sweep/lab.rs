//! What all runs share: the store, one organization, ids, the request and the scripted model.

use std::sync::Arc;
use std::time::Duration;

use tw_core::arguments::ArgumentsSchema;
use tw_core::call::CallEnd;
use tw_core::change::{
    Change, ChangeGroup, CompleteCall, DeleteConversation, NewApiKey, NewMessage, NewOrganization,
    NewTurn, Outcome,
};
use tw_core::id::{ApiKeyId, CallId, OrgId, TurnId};
use tw_core::json::{Json, Literal};
use tw_core::limits::{RequestLimits, TurnLimits};
use tw_core::memory::MemoryVerdict;
use tw_core::model::{AnswerDelta, CallDelta, CallForm, Finish, ModelEvent, TokenUsage};
use tw_core::native::{AnswerOrigin, NativePart};
use tw_core::request::ModelInput;
use tw_core::request_changes::RequestChanges;
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode, TurnOwner};
use tw_core::time::Timestamp;
use tw_core::tool::{CallPolicy, EffectClass, StatusProbe, Tool, ToolKind};
use tw_core::turn::{MixedListEntry, ToolOffer, TurnSetup};
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_store::faults::{self, Weakness};
use tw_store::store::{Store, StoreOptions};
use tw_testkit::postgres::PostgresSchema;
use tw_wire::format::{Projection, WireFormat};
use tw_wire::passed_headers::PassedHeaders;
use tw_wire::stored::context::{self, ListedTool, OfferedTool, TurnContext};
use uuid::Uuid;

use super::approvals;
use super::config::{Mishap, PlantedFault, SweepConfig};

pub const TOOL: &str = "act";
/// A tool of the client's.
const OWN_TOOL: &str = "pick";
/// A tool of ours whose calls have to be approved.
const GUARDED: &str = "pay";
/// What it is called with, as the model wrote it.
pub const OWN_ARGUMENTS: &str = "[ broken";
pub const UPSTREAM: &str = "scripted";
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"go"}],"stream":true}"#;
/// Turns that one store takes before it is replaced, so that it stays small.
const TURNS_PER_STORE_MAX: u32 = 2_000;

/// Where the store is.
pub enum SweepPlace {
    /// In memory, with its planted fault.
    Memory(Option<PlantedFault>),
    /// On a PostgreSQL server, in one schema for all turns.
    Postgres(PostgresSchema),
}

pub struct SweepLab {
    pub store: Store,
    place: SweepPlace,
    pub organization: OrgId,
    pub api_key: ApiKeyId,
    pub input: ModelInput,
    /// The last tool made, since compiling a schema takes longer than a run.
    pub tool: Arc<Tool>,
    guarded: Arc<Tool>,
    turns: u32,
    next_id: u128,
    now_us: i64,
}

impl SweepLab {
    pub fn new(place: SweepPlace) -> Self {
        let (store, organization, api_key) = store(&place);
        Self {
            store,
            place,
            organization,
            api_key,
            input: WireFormat::OpenAiChat
                .decode_request(&BODY.into(), &RequestLimits::defaults())
                .unwrap()
                .input,
            tool: tool(TOOL, CallPolicy::new(EffectClass::Read)),
            guarded: tool(
                GUARDED,
                CallPolicy {
                    requires_approval: true,
                    ..CallPolicy::new(EffectClass::Once)
                },
            ),
            turns: 0,
            next_id: 1,
            now_us: 1_700_000_000_000_000,
        }
    }

    pub fn fault(&self) -> Option<PlantedFault> {
        match &self.place {
            SweepPlace::Memory(fault) => *fault,
            SweepPlace::Postgres(_) => None,
        }
    }

    pub fn now(&mut self) -> Timestamp {
        self.now_us += 1_000;
        Timestamp(self.now_us)
    }

    pub fn id(&mut self) -> Uuid {
        self.next_id += 1;
        Uuid::from_u128(self.next_id)
    }

    /// A turn that is not in the store yet.
    pub fn setup(&mut self, config: &SweepConfig) -> TurnSetup {
        self.turns += 1;
        if self.turns > TURNS_PER_STORE_MAX && matches!(self.place, SweepPlace::Memory(_)) {
            self.turns = 0;
            (self.store, self.organization, self.api_key) = store(&self.place);
        }
        let (class, attempts_max) = (config.class, config.attempts_max());
        let policy = &self.tool.policy;
        if policy.effect != class || policy.attempts_max != attempts_max {
            let policy = CallPolicy {
                attempts_max,
                ..CallPolicy::new(class)
            };
            self.tool = tool(TOOL, policy);
        }
        let answered = if config.mishap == Mishap::Answered {
            self.asked(config)
        } else {
            Vec::new()
        };
        let created = self.now();
        TurnSetup {
            id: TurnId(self.id()),
            created,
            deadline: created.after(Duration::from_secs(1800)),
            streamed: config.streamed,
            on_leave: OnLeave::Stop,
            record: RecordPolicy::Full,
            model: "m".to_owned(),
            choices: 1,
            is_structured: false,
            choice_is_forced: false,
            completion_tokens_max: None,
            offer: offer(config.mishap, &self.tool, &self.guarded),
            answered,
            withheld: Vec::new(),
            limits: TurnLimits {
                model_attempts_max: attempts_max,
                ..TurnLimits::defaults()
            },
            upstreams: vec![Arc::new(AnswerOrigin {
                format: WireFormat::OpenAiChat.format_name(),
                upstream: UPSTREAM.into(),
                model: "m".into(),
            })],
            prices: Arc::default(),
            counts_tokens: false,
            memory: None,
        }
    }

    pub fn new_turn(&mut self, setup: &TurnSetup, owner: &str) -> NewTurn {
        NewTurn {
            id: setup.id,
            organization: self.organization,
            api_key: self.api_key,
            end_user: None,
            conversation: conversation(setup),
            conversation_named: false,
            adds_items: None,
            parent: None,
            memory: MemoryVerdict::Off,
            memory_turn: None,
            surface: Surface::ChatCompletions,
            streamed: setup.streamed,
            on_leave: setup.on_leave,
            record: setup.record,
            model: setup.model.clone(),
            request_id: "r".to_owned(),
            deadline: setup.deadline,
            owner: owner.to_owned(),
            body: BODY.into(),
            body_hash: [7; 32],
            cuts: None,
            context: context::encode(&TurnContext {
                tools: Some(listed(&setup.offer)),
                withheld: Vec::new(),
                upstreams: vec![UPSTREAM.to_owned()],
                projection: Projection::defaults(WireFormat::OpenAiChat),
                passed: PassedHeaders::default(),
                changes: RequestChanges::default(),
                trace: None,
            }),
            idempotency_key: None,
            answers: approvals::answers(setup),
            messages: self.user_message(setup.created),
            keys_since: Timestamp(0),
            at: setup.created,
        }
    }

    /// Deletes what [`SweepLab::new_turn`] makes.
    pub fn delete(&mut self, setup: &TurnSetup) -> Change {
        Change::DeleteConversation(DeleteConversation {
            organization: self.organization,
            conversation: conversation(setup),
            whose: TurnOwner {
                api_key: Some(self.api_key),
                end_user: None,
            },
            at: self.now(),
        })
    }

    /// The end of a call, from somebody who is not its driver.
    pub fn complete(&mut self, call: CallId, shown: &str) -> Change {
        Change::CompleteCall(Box::new(CompleteCall {
            organization: self.organization,
            call,
            end: CallEnd {
                reason: None,
                result: None,
                shown: shown.to_owned(),
                is_error: false,
                cached: false,
            },
            at: self.now(),
        }))
    }

    fn user_message(&self, at: Timestamp) -> Vec<NewMessage> {
        let message = &self.input.messages[0];
        vec![NewMessage {
            round: 0,
            seq: 0,
            role: message.role,
            blocks: message.blocks.clone(),
            origin: None,
            at,
        }]
    }
}

fn conversation(setup: &TurnSetup) -> String {
    format!("of {}", setup.id)
}

fn offer(mishap: Mishap, tool: &Arc<Tool>, guarded: &Arc<Tool>) -> ToolOffer {
    let mut list = vec![MixedListEntry::Ours(Arc::clone(tool))];
    if mishap == Mishap::Mixed {
        list.insert(0, MixedListEntry::Client(OWN_TOOL.to_owned()));
    }
    if mishap == Mishap::Asked {
        list.push(MixedListEntry::Ours(Arc::clone(guarded)));
    }
    ToolOffer::of_list(list)
}

fn listed(offer: &ToolOffer) -> Vec<ListedTool> {
    let ours = offer.ours().map(|tool| {
        ListedTool::Ours(OfferedTool {
            name: tool.name.clone(),
            version: None,
        })
    });
    let own = offer
        .is_clients(OWN_TOOL)
        .then(|| ListedTool::Client(OWN_TOOL.to_owned()));
    own.into_iter().chain(ours).collect()
}

fn tool(name: &str, policy: CallPolicy) -> Arc<Tool> {
    let parameters =
        Json::parse(r#"{"type":"object","properties":{"i":{"type":"integer"}}}"#).unwrap();
    Arc::new(Tool {
        name: name.to_owned(),
        description: "Acts.".to_owned(),
        schema: ArgumentsSchema::compile(&parameters).unwrap(),
        parameters,
        policy,
        kind: ToolKind::Probe(StatusProbe {
            url: "http://127.0.0.1:1/".to_owned(),
            panics: false,
        }),
        version: None,
    })
}

fn store(place: &SweepPlace) -> (Store, OrgId, ApiKeyId) {
    let store = match place {
        SweepPlace::Memory(Some(PlantedFault::NoStatusGuard)) => {
            faults::in_memory_inline(Weakness::NoStatusGuard)
        }
        SweepPlace::Memory(Some(PlantedFault::NoFence)) => {
            faults::in_memory_inline(Weakness::NoFence)
        }
        SweepPlace::Memory(
            Some(
                PlantedFault::DispatchBeforeWrite
                | PlantedFault::ResultLater
                | PlantedFault::OnceAgain
                | PlantedFault::OpenUncounted,
            )
            | None,
        ) => Store::in_memory_inline(),
        // What the server keeps after a fall of its own is not asked here.
        SweepPlace::Postgres(schema) => Store::connect_inline(
            &format!("{}%20-c%20synchronous_commit%3Doff", schema.url),
            &StoreOptions::defaults(Timestamp(0)),
        ),
    }
    .unwrap();
    let at = Timestamp(1);
    let create = Change::CreateOrganization(NewOrganization {
        slug: "default".to_owned(),
        name: "default".to_owned(),
        at,
    });
    let made = store
        .apply_inline(&ChangeGroup::Free(vec![create]))
        .unwrap();
    let [Outcome::Organization(organization)] = made[..] else {
        panic!("{made:?}")
    };
    let create = Change::CreateApiKey(NewApiKey {
        uuid: tw_core::id::ApiKeyUuid(Uuid::from_u128(1)),
        created_by: None,
        organization,
        name: "key".to_owned(),
        hash: [1; 32],
        shown: "tw".to_owned(),
        scopes: vec![KeyScope::Chat],
        tools: ToolGrant::All,
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: tw_core::rate::RateLimits::default(),
        expires: None,
        at,
    });
    let made = store
        .apply_inline(&ChangeGroup::Free(vec![create]))
        .unwrap();
    let [Outcome::ApiKey(api_key)] = made[..] else {
        panic!("{made:?}")
    };
    (store, organization, api_key)
}

/// What the model answers in a round, the end mark included.
pub fn answer(round: u32, config: &SweepConfig) -> Vec<ModelEvent> {
    let makes_calls = round == 1 && config.mishap != Mishap::Answered;
    let (first, second) = if makes_calls {
        ("Let me ", "see.")
    } else {
        ("All ", "done.")
    };
    let mut events = vec![
        ModelEvent::Start {
            model: Some("m-1".to_owned()),
            created_s: Some(1_700_000_000),
        },
        text(first),
        text(second),
    ];
    if makes_calls {
        events.extend((0..config.calls()).map(|position| call(position, config.mishap)));
        let asked = format!(r#"{{"i":{}}}"#, config.calls());
        let further = match config.mishap {
            Mishap::Mixed => Some((OWN_TOOL, OWN_ARGUMENTS)),
            Mishap::Asked => Some((GUARDED, asked.as_str())),
            Mishap::Nothing
            | Mishap::Reset
            | Mishap::TimedOut
            | Mishap::NotSent
            | Mishap::Invalid
            | Mishap::Answered
            | Mishap::ModelFails
            | Mishap::Stopped
            | Mishap::Deleted
            | Mishap::Late
            | Mishap::Drained
            | Mishap::Completed => None,
        };
        if let Some((name, arguments)) = further {
            events.push(ModelEvent::Call(CallDelta {
                choice: 0,
                call: config.calls(),
                id: Some("up_0".into()),
                name: Some(name.into()),
                form: CallForm::Function,
                arguments: Some(Literal::from_text(arguments)),
                native: None,
            }));
        }
    }
    events.push(ModelEvent::Finish {
        choice: 0,
        reason: if makes_calls {
            Finish::ToolCalls
        } else {
            Finish::Stop
        },
    });
    events.push(ModelEvent::Usage(Box::new(TokenUsage {
        prompt_tokens: 5,
        completion_tokens: 7,
        total_tokens: 12,
        native: Some(NativePart {
            format: WireFormat::OpenAiChat.format_name(),
            json: Json::parse(r#"{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}"#)
                .unwrap(),
        }),
        ..TokenUsage::default()
    })));
    events.push(ModelEvent::Done);
    events
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Delta(AnswerDelta {
        text: Some(Literal::from_text(text)),
        ..AnswerDelta::default()
    })
}

/// The first two calls of a round have the same id, as some upstreams send them.
fn call(position: u32, mishap: Mishap) -> ModelEvent {
    let arguments = if mishap == Mishap::Invalid {
        r#"{"i":"no number"}"#.to_owned()
    } else {
        format!(r#"{{"i":{position}}}"#)
    };
    ModelEvent::Call(CallDelta {
        choice: 0,
        call: position,
        id: Some(format!("up_{}", position / 2).into()),
        name: Some(TOOL.into()),
        form: CallForm::Function,
        arguments: Some(Literal::from_text(&arguments)),
        native: None,
    })
}

/// What the tool answers to the call with this argument.
pub fn tool_answer(argument: i64) -> String {
    format!("did {argument}")
}
