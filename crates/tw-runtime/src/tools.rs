//! Tools as data: making, changing, looking at and trying them.

mod apply_file;
mod definition_vetting;
mod sample;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tw_core::api_request::{BuildError, BuiltRequest, RequestInputs};
use tw_core::arguments::{self, ArgumentsEnd, InvalidArguments, ValidArgs};
use tw_core::change::{Change, Outcome, SaveTool, ToolRoom};
use tw_core::definition::{DefinitionError, ToolDefinition};
use tw_core::id::{CallId, OrgId, ToolId};
use tw_core::json::{Json, Literal};
use tw_core::limits::DEFINITIONS_BYTES_MAX;
use tw_core::parameters::SecretRef;
use tw_core::tool::{Tool, ToolOutcome};
use tw_core::variables::{CALLBACK_URL, Variables};
use tw_egress::off_thread::aside;
use tw_egress::tools::{self, AttemptContext, AttemptReport};
use tw_store::apply::StoreApplyError;
use tw_store::read::ReadError;
use tw_store::read::tools::ToolRow;
use tw_wire::stored::tool;

use crate::auth::Principal;
use crate::callbacks;
use crate::runtime::Runtime;
use crate::tool_book::ToolBookPage;
use crate::tool_time;
use crate::variables;

pub use apply_file::{ApplyFileError, PlannedChanges, PruneTools, ToolChange, apply, plan};
pub use definition_vetting::DefinitionVetting;

/// A tool of an organization, and what its definition says.
#[derive(Clone, Debug)]
pub struct StoredTool {
    pub row: ToolRow,
    pub definition: Arc<ToolDefinition>,
}

/// Reasons for which a tool could not be made, changed or tried.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("{0}")]
    Invalid(DefinitionError),
    #[error("{0}")]
    Arguments(String),
    #[error("no such tool")]
    NotFound,
    #[error("another tool has this name")]
    NameTaken,
    #[error("the tool was changed by somebody else at the same time; read it and try again")]
    Conflict,
    #[error("an organization may keep {0} tools")]
    TooMany(usize),
    #[error("the tools of an organization may have {0} bytes together")]
    TooLarge(usize),
    #[error("a stored tool cannot be read")]
    Damaged,
    #[error("reading tools")]
    Read(#[from] ReadError),
    #[error("writing a tool")]
    Write(#[from] StoreApplyError),
}

impl From<DefinitionError> for ToolError {
    fn from(error: DefinitionError) -> Self {
        Self::Invalid(error)
    }
}

/// Bytes of definitions after which a page of tools ends.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Most tries of a change while others change the same tool.
const CHANGE_TRIES_MAX: u32 = 3;
/// Text in place of a secret.
const MASK: &str = "***";

/// Inputs for the trial of a tool.
#[derive(Debug, Default)]
pub struct ToolTrial {
    /// The model's part; `None` makes some up from the function schema.
    pub arguments: Option<Json>,
    /// The values of declared variables.
    pub metadata: Variables,
}

/// The tool as the model would see it, and the request that it would send.
#[derive(Debug)]
pub struct ToolPreview {
    pub tool: Tool,
    pub arguments: Json,
    /// Request with `***` for every secret; or the reason for which there would be none.
    pub request: Result<BuiltRequest, BuildError>,
}

/// Outcome of a real test of a tool.
#[derive(Debug)]
pub struct ToolTestOutcome {
    pub outcome: ToolOutcome,
    pub duration: Duration,
}

impl Runtime {
    /// Lists at most `limit` of the caller's organization's tools behind the one with the id
    /// `after`, by name, and says whether there are more.
    ///
    /// A page ends early when it grows large.
    ///
    /// # Errors
    /// [`ToolError::NotFound`] when no tool has the id.
    pub async fn tools(
        &self,
        caller: &Principal,
        after: Option<ToolId>,
        limit: usize,
    ) -> Result<(Vec<StoredTool>, bool), ToolError> {
        let rows = self.store().tools(caller.organization).await?;
        let from = match after {
            None => 0,
            Some(after) => {
                let place = rows.iter().position(|row| row.id == after);
                place.ok_or(ToolError::NotFound)? + 1
            }
        };
        let mut rows = rows.into_iter().skip(from).peekable();
        let (mut page, mut bytes) = (Vec::new(), 0);
        while page.len() < limit
            && bytes < PAGE_BYTES
            && let Some(row) = rows.next()
        {
            bytes += row.definition.len();
            page.push(stored(row)?);
        }
        Ok((page, rows.peek().is_some()))
    }

    /// Reads a tool, in its newest version or an earlier one.
    ///
    /// # Errors
    /// [`ToolError::NotFound`] also for another organization's.
    pub async fn tool(
        &self,
        caller: &Principal,
        id: ToolId,
        version: Option<u32>,
    ) -> Result<StoredTool, ToolError> {
        let row = self.store().tool(caller.organization, id, version).await?;
        stored(row.ok_or(ToolError::NotFound)?)
    }

    /// Makes a tool from the body of a request.
    ///
    /// # Errors
    /// [`ToolError::Invalid`] names the field.
    pub async fn create_tool(
        &self,
        caller: &Principal,
        body: &str,
    ) -> Result<StoredTool, ToolError> {
        let definition = tool::decode(body)?;
        self.vet(caller, &definition).await?;
        let id = ToolId(self.env().ordered_id());
        let saved = self
            .save(caller.organization, id, &definition.name, body, 0)
            .await?;
        saved.ok_or(ToolError::Conflict)
    }

    /// Changes a tool by a merge patch (RFC 7396). Calls that run keep the version they have.
    ///
    /// # Errors
    /// [`ToolError::Invalid`] names the field.
    pub async fn change_tool(
        &self,
        caller: &Principal,
        id: ToolId,
        patch: &str,
    ) -> Result<StoredTool, ToolError> {
        for _ in 0..CHANGE_TRIES_MAX {
            let known = self.tool(caller, id, None).await?;
            let text = tool::merge_patch(&known.row.definition, patch)?;
            let definition = tool::decode(&text)?;
            self.vet(caller, &definition).await?;
            if text == known.row.definition {
                return Ok(known);
            }
            let follows = known.row.version.number;
            let saved = self
                .save(caller.organization, id, &definition.name, &text, follows)
                .await?;
            if let Some(saved) = saved {
                return Ok(saved);
            }
        }
        Err(ToolError::Conflict)
    }

    /// Takes a tool away. Calls that run go on.
    ///
    /// # Errors
    /// [`ToolError::NotFound`].
    pub async fn delete_tool(&self, caller: &Principal, id: ToolId) -> Result<(), ToolError> {
        let delete = Change::DeleteTool {
            organization: caller.organization,
            tool: id,
            at: self.env().now(),
        };
        let outcomes = self.store().apply(vec![delete]).await?;
        self.0.book.forget(caller.organization);
        if outcomes.first() == Some(&Outcome::Done) {
            Ok(())
        } else {
            Err(ToolError::NotFound)
        }
    }

    /// Previews a definition: the tool as the model would see it and the request that it would send; nothing is sent.
    ///
    /// # Errors
    /// [`ToolError::Invalid`] names the field, [`ToolError::Arguments`] says what does not fit.
    pub async fn preview_tool(
        &self,
        caller: &Principal,
        body: &str,
        trial: &ToolTrial,
    ) -> Result<ToolPreview, ToolError> {
        let definition = tool::decode(body)?;
        let page = self.vet(caller, &definition).await?;
        let definition = Arc::new(definition);
        self.preview(&page, &definition, trial)
            .map(|(preview, _)| preview)
    }

    /// Previews the request of a stored tool; nothing is sent.
    ///
    /// # Errors
    /// As [`Runtime::preview_tool`].
    pub async fn test_tool_dry(
        &self,
        caller: &Principal,
        id: ToolId,
        trial: &ToolTrial,
    ) -> Result<ToolPreview, ToolError> {
        let known = self.tool(caller, id, None).await?;
        let page = self.page(caller).await?;
        self.preview_stored(&page, &known, trial)
            .map(|(preview, _)| preview)
    }

    /// Sends the tool's request, once, outside any turn.
    ///
    /// # Errors
    /// As [`Runtime::preview_tool`]; how the sending ended is in the answer.
    pub async fn test_tool(
        &self,
        caller: &Principal,
        id: ToolId,
        trial: &ToolTrial,
    ) -> Result<(ToolPreview, ToolTestOutcome), ToolError> {
        let known = self.tool(caller, id, None).await?;
        let page = self.page(caller).await?;
        let (preview, args) = self.preview_stored(&page, &known, trial)?;
        let definition = &known.definition;
        let variables = self.trial_variables(&page, definition, trial);
        let tool = definition.tool(Some(known.row.version), &variables)?;
        let call = CallId(self.env().ordered_id());
        let attempt = AttemptContext {
            call,
            args,
            idempotency_key: format!("tw_{}", call.plain()),
            now: self.env().now(),
            organization: Arc::clone(&page.slug),
            variables: Arc::new(variables),
            trace: None,
            tenancy: page.tenancy,
        };
        let began = Instant::now();
        let timeout = tool_time::longest(&tool);
        let (slots, executors) = (self.0.slots.wait(Some(&tool)), self.0.executors.clone());
        // A test takes its place among the calls of turns, and goes on when its client leaves.
        let running = self.0.tasks.spawn(async move {
            let Ok(_slot) = tokio::time::timeout(timeout, slots).await else {
                let message = "as many calls of this tool run as may run at once".to_owned();
                return ToolOutcome::NotSent { message }.into();
            };
            let run = tools::run(&executors, &tool, &attempt);
            let ran = tokio::time::timeout(timeout, run).await;
            ran.unwrap_or_else(|_| ToolOutcome::TimedOut.into())
        });
        let report: AttemptReport = running
            .await
            .unwrap_or_else(|_| ToolOutcome::Panicked.into());
        let outcome = report.outcome;
        let duration = began.elapsed();
        tracing::info!(
            organization = &*caller.organization_slug,
            tool = preview.tool.name,
            outcome = outcome.as_str(),
            cause = report.cause,
            duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            "tool tested"
        );
        Ok((preview, ToolTestOutcome { outcome, duration }))
    }

    /// Previews a stored tool, with `***` for what the definition marks as sensitive.
    fn preview_stored(
        &self,
        page: &ToolBookPage,
        known: &StoredTool,
        trial: &ToolTrial,
    ) -> Result<(ToolPreview, ValidArgs), ToolError> {
        let masked = tool::masked(&known.row.definition).map_err(|_| ToolError::Damaged)?;
        let masked = tool::decode(masked.as_str()).map_err(|_| ToolError::Damaged)?;
        self.preview(page, &Arc::new(masked), trial)
    }

    fn preview(
        &self,
        page: &ToolBookPage,
        definition: &Arc<ToolDefinition>,
        trial: &ToolTrial,
    ) -> Result<(ToolPreview, ValidArgs), ToolError> {
        let variables = self.trial_variables(page, definition, trial);
        let tool = definition.tool(None, &variables)?;
        let arguments = match &trial.arguments {
            Some(arguments) => arguments.clone(),
            None => sample::arguments(&tool.parameters),
        };
        let written = Json::from_value(&serde_json::Value::String(arguments.as_str().to_owned()));
        let literal = written.as_literal().unwrap_or_default();
        let bytes_max = self.0.config.turn.argument_bytes_max;
        if arguments.as_str().len() > bytes_max {
            let problem = format!("The arguments are longer than {bytes_max} bytes.");
            return Err(ToolError::Arguments(problem));
        }
        let args = aside(true, || read_arguments(&literal, &tool))?;
        let masked = |_: &SecretRef| Some(MASK.to_owned());
        let given = RequestInputs {
            variables: &variables,
            secret: &masked,
            reference: MASK,
        };
        let preview = ToolPreview {
            request: definition.request(&args, &given),
            tool,
            arguments,
        };
        Ok((preview, args))
    }

    fn trial_variables(
        &self,
        page: &ToolBookPage,
        definition: &ToolDefinition,
        trial: &ToolTrial,
    ) -> Variables {
        let mut always = variables::always(&page.slug, self.env().now());
        for name in ["end_user", "conversation", "turn", "tool_call"] {
            always.set(name, format!("test-{name}"));
        }
        if let Some(base) = &self.0.config.callback_base {
            always.set(CALLBACK_URL, callbacks::url(base, &definition.name, "test"));
        }
        definition.variables(&always, &trial.metadata)
    }

    async fn page(&self, caller: &Principal) -> Result<Arc<ToolBookPage>, ToolError> {
        let inner = &self.0;
        let now = inner.env.now();
        let page = inner
            .book
            .page(&inner.store, caller.organization, now)
            .await?;
        page.ok_or(ToolError::NotFound)
    }

    async fn vet(
        &self,
        caller: &Principal,
        definition: &ToolDefinition,
    ) -> Result<Arc<ToolBookPage>, ToolError> {
        let page = self.page(caller).await?;
        self.vetting().vet(definition, &page.slug, page.tenancy)?;
        Ok(page)
    }

    fn vetting(&self) -> DefinitionVetting {
        let config = &self.0.config;
        DefinitionVetting {
            secrets: Arc::clone(&config.secrets),
            takes_callbacks: config.callback_base.is_some(),
            client: config.tool_client.clone(),
            limits: config.request.clone(),
            taken: self
                .0
                .book
                .built_in()
                .iter()
                .map(|tool| tool.name.clone())
                .collect(),
            room: self.tool_room(),
        }
    }

    fn tool_room(&self) -> ToolRoom {
        ToolRoom {
            tools_max: self.0.config.tools_stored_max,
            bytes_max: DEFINITIONS_BYTES_MAX,
        }
    }

    /// Saves a version of the tool; `None` when somebody else changed it meanwhile.
    async fn save(
        &self,
        organization: OrgId,
        id: ToolId,
        name: &str,
        text: &str,
        follows: u32,
    ) -> Result<Option<StoredTool>, ToolError> {
        let room = self.tool_room();
        let save = SaveTool {
            organization,
            tool: id,
            name: name.to_owned(),
            definition: text.to_owned(),
            follows,
            room,
            at: self.env().now(),
        };
        let outcomes = self
            .store()
            .apply(vec![Change::SaveTool(Box::new(save))])
            .await?;
        self.0.book.forget(organization);
        match outcomes.first() {
            Some(Outcome::ToolSaved(version)) => {
                let row = self
                    .store()
                    .tool(organization, id, Some(version.number))
                    .await?;
                row.map(stored).transpose()
            }
            Some(Outcome::NameTaken) => Err(ToolError::NameTaken),
            Some(Outcome::TooManyTools) => Err(ToolError::TooMany(room.tools_max)),
            Some(Outcome::ToolsTooLarge) => Err(ToolError::TooLarge(room.bytes_max)),
            Some(
                Outcome::Already
                | Outcome::Done
                | Outcome::Organization(_)
                | Outcome::ApiKey(_)
                | Outcome::Claimed { .. }
                | Outcome::KeyTaken { .. }
                | Outcome::CallEnded { .. }
                | Outcome::ParentDeleted
                | Outcome::ApprovalClosed { .. }
                | Outcome::ConversationBusy
                | Outcome::Deleted { .. }
                | Outcome::TooMany
                | Outcome::QuotaReached { .. }
                | Outcome::CallbackTaken(_)
                | Outcome::Deliveries(_)
                | Outcome::Jobs(_)
                | Outcome::Imported { .. }
                | Outcome::Count(_)
                | Outcome::Partly(_),
            )
            | None => Ok(None),
        }
    }
}

fn stored(row: ToolRow) -> Result<StoredTool, ToolError> {
    let definition = tool::decode(&row.definition).map_err(|error| {
        tracing::error!(tool.id = %row.id, field = error.field, "a stored tool cannot be read");
        ToolError::Damaged
    })?;
    Ok(StoredTool {
        row,
        definition: Arc::new(definition),
    })
}

fn read_arguments(written: &Literal, tool: &Tool) -> Result<ValidArgs, ToolError> {
    arguments::read(
        written,
        ArgumentsEnd::InFull,
        &tool.schema,
        &tool.parameters,
    )
    .map_err(|InvalidArguments(problem)| ToolError::Arguments(problem))
}
