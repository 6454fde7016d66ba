//! A store with one organization and one key in it, and values to write.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tw_core::call::{CallEnd, CallReason, CallRunner, CallStatus};
use tw_core::change::{
    Change, EndTurn, EventFlush, Fence, NewApiKey, NewCall, NewMessage, NewOrganization, NewTurn,
    OpenAttempt, Outcome, TurnChange,
};
use tw_core::event::LogEvent;
use tw_core::id::{ApiKeyId, ApiKeyUuid, CallId, CallRef, OrgId, ToolId, TurnId};
use tw_core::json::{Json, Literal};
use tw_core::memory::MemoryVerdict;
use tw_core::model::TokenUsage;
use tw_core::native::{AnswerOrigin, NativePart};
use tw_core::rate::RateLimits;
use tw_core::request::{Block, Role};
use tw_core::tenant::{KeyMemory, KeyScope, ToolGrant, ToolsMode};
use tw_core::time::Timestamp;
use tw_core::tool::EffectClass;
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};
use tw_core::turn_status::TurnStatus;
use tw_store::apply::StoreApplyError;
use tw_store::read::turn::RecoveredTurn;
use tw_store::store::{Store, StoreOptions};
use tw_store::system;
use tw_testkit::postgres::PostgresSchema;
use tw_wire::stored;
use uuid::Uuid;

pub struct StoreWorld {
    pub store: Store,
    pub organization: OrgId,
    pub key: ApiKeyId,
    /// Another tenant, who must find nothing.
    pub stranger: OrgId,
    /// `None` for a store in memory.
    pub path: Option<PathBuf>,
    /// Removed with the world.
    pub folder: Option<TempDir>,
    /// Where the store is on a PostgreSQL server; removed with the world.
    pub schema: Option<PostgresSchema>,
}

/// Runs a case on a store in memory that writes inline, on one on disk, and on one of a PostgreSQL server.
pub async fn on_each_store(case: impl AsyncFn(StoreWorld)) {
    case(StoreWorld::fill(Store::in_memory_inline().unwrap(), None, None).await).await;
    case(StoreWorld::on_disk().await).await;
    if let Some(world) = StoreWorld::on_postgres().await {
        case(world).await;
    }
}

/// Runs a case on a store on disk and on one of a PostgreSQL server: others can look into these databases.
pub async fn on_each_database(case: impl AsyncFn(StoreWorld)) {
    case(StoreWorld::on_disk().await).await;
    if let Some(world) = StoreWorld::on_postgres().await {
        case(world).await;
    }
}

pub fn at(n: i64) -> Timestamp {
    Timestamp(1_000_000_000 + n)
}

impl StoreWorld {
    pub async fn on_disk() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let store = Store::open(&path, StoreOptions::defaults(at(0))).unwrap();
        Self::fill(store, Some(path), Some(folder)).await
    }

    /// A world on a PostgreSQL server; `None` where there is none to test with.
    pub async fn on_postgres() -> Option<Self> {
        let schema = PostgresSchema::create().await?;
        let store = Store::connect(&schema.url, None, StoreOptions::defaults(at(0)));
        let world = Self::fill(store.await.unwrap(), None, None).await;
        Some(Self {
            schema: Some(schema),
            ..world
        })
    }

    /// The same database by another store, as another process has it.
    pub async fn beside(&self) -> Self {
        let url = &self.schema.as_ref().unwrap().url;
        let store = Store::connect(url, None, StoreOptions::defaults(at(1)));
        Self {
            store: store.await.unwrap(),
            organization: self.organization,
            key: self.key,
            stranger: self.stranger,
            path: None,
            folder: None,
            schema: None,
        }
    }

    /// [`StoreWorld::on_postgres`] with a store that writes inline.
    pub async fn on_postgres_inline() -> Option<Self> {
        let schema = PostgresSchema::create().await?;
        let options = StoreOptions::defaults(at(0));
        let store = Store::connect_inline(&schema.url, &options).unwrap();
        let world = Self::fill(store, None, None).await;
        Some(Self {
            schema: Some(schema),
            ..world
        })
    }

    pub async fn fill(store: Store, path: Option<PathBuf>, folder: Option<TempDir>) -> Self {
        let organization = create_organization(&store, "default").await;
        let stranger = create_organization(&store, "stranger").await;
        let created = store
            .apply(vec![Change::CreateApiKey(api_key(organization, 1))])
            .await
            .unwrap();
        let [Outcome::ApiKey(key)] = created[..] else {
            panic!("{created:?}")
        };
        Self {
            store,
            organization,
            key,
            stranger,
            path,
            folder,
            schema: None,
        }
    }

    /// Writes without a fence.
    pub async fn write(&self, change: Change) -> Result<Outcome, StoreApplyError> {
        self.store
            .apply(vec![change])
            .await
            .map(|outcomes| outcomes[0].clone())
    }

    /// Accepts a turn that has no first changes.
    pub async fn accept_new(&self, new: NewTurn) -> Result<Outcome, StoreApplyError> {
        self.accept_with(new, Vec::new())
            .await
            .map(|outcomes| outcomes[0].clone())
    }

    /// Accepts a turn with its first changes.
    pub async fn accept_with(
        &self,
        new: NewTurn,
        first: Vec<TurnChange>,
    ) -> Result<Vec<Outcome>, StoreApplyError> {
        self.store.accept_turn(Box::new(new), first).await
    }

    /// Writes to a turn under its first fence.
    pub async fn write_turn(
        &self,
        turn: TurnId,
        changes: Vec<TurnChange>,
    ) -> Result<Vec<Outcome>, StoreApplyError> {
        self.store.apply_to_turn(self.fence(turn, 1), changes).await
    }

    /// All of a turn that is there.
    pub async fn recovered(&self, turn: TurnId) -> RecoveredTurn {
        self.store
            .turn_for_recovery(self.organization, turn)
            .await
            .unwrap()
            .unwrap()
    }

    pub fn fence(&self, turn: TurnId, fence: i64) -> Fence {
        Fence {
            organization: self.organization,
            turn,
            fence,
        }
    }

    pub async fn accept(&self, n: u128) -> TurnId {
        let new = self.new_turn(n);
        let turn = new.id;
        assert_eq!(self.accept_new(new).await.unwrap(), Outcome::Done);
        turn
    }

    pub fn new_turn(&self, n: u128) -> NewTurn {
        NewTurn {
            id: turn_id(n),
            organization: self.organization,
            api_key: self.key,
            end_user: None,
            conversation: format!("conversation {n}"),
            conversation_named: false,
            adds_items: None,
            parent: None,
            memory: MemoryVerdict::Off,
            memory_turn: None,
            surface: Surface::ChatCompletions,
            streamed: true,
            on_leave: OnLeave::Stop,
            record: RecordPolicy::Full,
            model: "m".to_owned(),
            request_id: format!("request {n}"),
            deadline: at(60_000_000),
            owner: "boot 1".to_owned(),
            body: "{\"model\": \"m\"}\0\u{ff}".into(),
            body_hash: [7; 32],
            cuts: None,
            context: r#"{"tools":null,"upstream":"u"}"#.to_owned(),
            idempotency_key: None,
            answers: Vec::new(),
            messages: vec![message(0, 0)],
            keys_since: at(0),
            at: at(i64::try_from(n).unwrap()),
        }
    }
}

pub async fn create_organization(store: &Store, slug: &str) -> OrgId {
    let new = NewOrganization {
        slug: slug.to_owned(),
        name: slug.to_uppercase(),
        at: at(0),
    };
    let created = store
        .apply(vec![Change::CreateOrganization(new)])
        .await
        .unwrap();
    let [Outcome::Organization(organization)] = created[..] else {
        panic!("{created:?}")
    };
    organization
}

pub fn api_key(organization: OrgId, hash: u8) -> NewApiKey {
    NewApiKey {
        organization,
        uuid: ApiKeyUuid(Uuid::from_u128(u128::from(hash))),
        created_by: None,
        name: "key".to_owned(),
        hash: [hash; 32],
        shown: "tw-abc".to_owned(),
        scopes: vec![KeyScope::Chat, KeyScope::TurnsRead],
        tools: ToolGrant::Named(vec!["zeta tool".to_owned(), "alpha".to_owned()]),
        tools_mode: ToolsMode::Replace,
        record: RecordPolicy::Full,
        memory: KeyMemory::Off,
        limits: RateLimits::default(),
        expires: None,
        at: at(0),
    }
}

pub fn turn_id(n: u128) -> TurnId {
    TurnId(Uuid::from_u128(
        0x0194_f2a0_0000_7000_8000_0000_0000_0000 + n,
    ))
}

pub fn tool_id(n: u128) -> ToolId {
    ToolId(turn_id(n).0)
}

pub fn origin() -> Arc<AnswerOrigin> {
    Arc::new(AnswerOrigin {
        format: stored::format_named("chat_completions").unwrap(),
        upstream: "up".into(),
        model: "m".into(),
    })
}

pub fn message(round: u32, seq: u32) -> NewMessage {
    let text = Literal::from_text("quote \" and\nline, and \u{1f600}");
    let role = if round == 0 {
        Role::User
    } else {
        Role::Assistant
    };
    NewMessage {
        round,
        seq,
        role,
        blocks: vec![Block::Text(text)],
        origin: (round > 0).then(origin),
        at: at(3),
    }
}

pub fn model_attempt(round: u32, n: u32) -> OpenAttempt {
    OpenAttempt {
        round,
        position: None,
        n,
        upstream: Some("main".to_owned()),
        at: at(4),
    }
}

pub fn call_ref(round: u32, position: u32) -> CallRef {
    CallRef { round, position }
}

/// A pending call of ours; `turn` keeps ids apart.
pub fn pending_call(turn: TurnId, call: CallRef) -> NewCall {
    let number =
        turn.0.as_u128() ^ (u128::from(call.round) << 96) ^ (u128::from(call.position) << 80);
    NewCall {
        call,
        id: CallId(Uuid::from_u128(number)),
        runs: CallRunner::Server,
        effect: Some(EffectClass::Once),
        tool_version: None,
        tool_name: "mail".to_owned(),
        tool_call_id: "call_1".to_owned(),
        arguments: "{\"to\": \"a\"".to_owned(),
        sensitive: None,
        status: CallStatus::Pending,
        end: None,
        idempotency_key: format!("once {number}"),
        callback_token: Some(format!("token {number}")),
        approval: None,
        approves: None,
        at: at(5),
    }
}

pub fn completed() -> CallEnd {
    CallEnd {
        reason: None,
        result: Some("long".to_owned()),
        shown: "lo…".to_owned(),
        is_error: false,
        cached: false,
    }
}

pub fn failed(reason: CallReason) -> CallEnd {
    CallEnd {
        reason: Some(reason),
        result: None,
        shown: "it failed".to_owned(),
        is_error: true,
        cached: false,
    }
}

pub fn usage() -> TokenUsage {
    TokenUsage {
        prompt_tokens: 3,
        completion_tokens: 4,
        total_tokens: 7,
        native: Some(NativePart {
            format: stored::format_named("chat_completions").unwrap(),
            json: Json::parse(r#"{"total_tokens":7,"x":1.50}"#).unwrap(),
        }),
        ..TokenUsage::default()
    }
}

pub fn end_turn(status: TurnStatus) -> EndTurn {
    EndTurn {
        status,
        reason: None,
        usage: None,
        has_tool_calls: false,
        tool_count: 0,
        had_effects: false,
        remembered: None,
        erase_after: None,
        at: at(100),
    }
}

/// Events that are told apart by their number.
pub fn flush(first: u64, count: u64) -> EventFlush {
    EventFlush {
        first,
        events: (first..first + count).map(event).collect(),
        at: at(6),
    }
}

pub fn event(number: u64) -> LogEvent {
    LogEvent::Round {
        round: u32::try_from(number).unwrap(),
        format: stored::format_named("chat_completions").unwrap(),
    }
}

pub fn hour() -> Duration {
    Duration::from_secs(3600)
}

/// How often the organization's tools have changed.
pub async fn revision(store: &Store, organization: OrgId) -> i64 {
    let seen = system::organization_tools(store, organization).await;
    seen.unwrap().map_or(0, |seen| seen.revision)
}
