//! `POST /v1/responses/compact`
//!
//! Follows the Open Responses document (92c12d9), `CompactResponseMethodPublicBody` and `CompactResource`. Known
//! difference: the window that is given back is one item, which holds what the user said, too.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use http::HeaderMap;
use tw_core::json::shared::SharedText;
use tw_core::tenant::ToolGrant;
use tw_runtime::accept::TurnTaken;
use tw_runtime::auth::Principal;
use tw_wire::compaction::{self, CompactionPlan, MadeCompaction, NO_USAGE};

use crate::answer_body::json;
use crate::error::ApiError;
use crate::error::no_room::put_standing;
use crate::gateway::{self, RequestGoal, RequestOrigin};
use crate::responses::SURFACE;
use crate::server::{AppState, RequestId};

pub(crate) async fn create(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    request: Request,
) -> Response {
    let of = RequestOrigin {
        surface: &SURFACE,
        surfaces: &surfaces,
        id: &id,
    };
    match compact(&of, request).await {
        Ok(response) => response,
        Err(error) => error.render_in(SURFACE.format, Some(&id)),
    }
}

async fn compact(of: &RequestOrigin<'_>, request: Request) -> Result<Response, ApiError> {
    let (format, runtime) = (of.surface.format, of.surfaces.runtime());
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let (caller, body) = gateway::admitted(of, headers, body, false).await?;
    let read = gateway::read_request(of, headers, &caller, body, RequestGoal::Answer, None).await?;
    if read.added_to.is_some() {
        return Err(ApiError::not_compacted());
    }
    if !runtime.serves(&read.input.model) {
        return Err(ApiError::no_model());
    }
    let body = read.body;
    let sealer = runtime.sealer().await;
    let sealer = sealer.map_err(|error| ApiError::of_read(&error, of.id))?;
    let (content, usage, turn) = match compaction::plan(&body, read.previous.is_some()) {
        CompactionPlan::Kept(content) => (content, NO_USAGE.to_owned(), None),
        CompactionPlan::Ask(asked) => {
            let asking = SharedText::new(asked);
            let summary = summarize(of, headers, caller.clone(), asking).await?;
            let content = compaction::summarized(&body, &summary.said);
            (content, summary.usage, Some(summary.taken))
        }
    };
    let sealed = sealer.seal(caller.organization, &content);
    let plain_id = match &turn {
        Some(taken) => taken.turn.plain(),
        None => runtime.env().ordered_id().simple().to_string(),
    };
    let mut response = json(compaction::render(&MadeCompaction {
        plain_id: &plain_id,
        created_s: runtime.env().now().seconds(),
        sealed: &sealed,
        usage: &usage,
    }));
    if let Some(taken) = &turn {
        response.headers_mut().extend(gateway::headers_of(taken));
        runtime.mark_answered(&caller, taken.turn);
    }
    if let Some(standing) = runtime.requests_left(&caller) {
        put_standing(response.headers_mut(), format, &standing);
    }
    Ok(response)
}

/// What the model says of a conversation.
struct ModelSummary {
    said: String,
    /// JSON of the usage.
    usage: String,
    taken: TurnTaken,
}

/// Asks the model for a summary, by a turn without tools of this server.
async fn summarize(
    of: &RequestOrigin<'_>,
    headers: &HeaderMap,
    caller: Principal,
    asking: SharedText,
) -> Result<ModelSummary, ApiError> {
    let runtime = of.surfaces.runtime();
    let without_tools = Principal {
        tools: ToolGrant::None,
        ..caller
    };
    let goal = RequestGoal::Answer;
    let wanted = gateway::read_request(of, headers, &without_tools, asking, goal, None);
    let mut wanted = wanted.await?;
    // Whoever compacts a conversation answers nothing in it.
    wanted.projection.drop_approvals();
    let projection = wanted.projection.clone();
    let taken = runtime.take(wanted).await;
    let mut taken = taken.map_err(|refused| ApiError::of_refusal(&refused, of.id))?;
    let answer = gateway::whole_answer(&mut taken, projection, of.id).await?;
    let (said, usage) = compaction::summary_of(&answer).ok_or_else(ApiError::no_summary)?;
    Ok(ModelSummary { said, usage, taken })
}
