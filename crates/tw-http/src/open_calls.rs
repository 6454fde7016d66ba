//! `/api/{slug}/open-calls…`: calls that wait for somebody outside, and what an operator may do with them.

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tw_core::id::CallId;
use tw_core::job::PollFault;
use tw_core::tenant::KeyScope;
use tw_core::time::Timestamp;
use tw_runtime::open_calls::{OpenCallDeed, OpenCallsListed};
use tw_store::read::open_calls::{OpenCallRow, OpenJobRow};

use crate::conversations::page::{PageRequest, listed, no_cursor};
use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::tools::{Slug, member, parameter, respond, slug_in, text_of};

type SlugAndCall = Result<Path<(String, String)>, PathRejection>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailBody {
    error: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteBody {
    result: String,
}

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    slug: Slug,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let listing = async {
        let caller = member(&surfaces, &headers, slug_in(slug)?, KeyScope::Admin, &id).await?;
        let page = PageRequest::of_open_calls(query.as_deref())?;
        let wanted = match parameter(query.as_deref(), "which").as_deref() {
            None | Some("stuck") => OpenCallsListed::Stuck,
            Some("all") => OpenCallsListed::All,
            Some(_) => {
                let message = "which is 'stuck' or 'all'.";
                return Err(ApiError::invalid(Some("which"), None, message));
            }
        };
        let after = match page.after.as_deref() {
            None => None,
            Some(after) => Some(CallId::parse(after).ok_or_else(no_cursor)?),
        };
        let calls = surfaces.runtime().open_calls(&caller);
        let found = calls.list(wanted, after, page.limit).await;
        let found = found.map_err(|error| ApiError::of_open_call(&error, &id))?;
        let now = surfaces.runtime().env().now();
        let data = found.items.iter().map(|call| render(call, now));
        Ok(listed(data.collect(), found.has_more).to_string())
    };
    respond(listing.await, StatusCode::OK, &id)
}

pub(crate) async fn poll(
    state: State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndCall,
    request: Request<Body>,
) -> Response {
    act(state, id, place, request, |_| Ok(OpenCallDeed::Poll)).await
}

pub(crate) async fn fail(
    state: State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndCall,
    request: Request<Body>,
) -> Response {
    act(state, id, place, request, |text| {
        let body: FailBody = read(text)?;
        Ok(OpenCallDeed::Fail { why: body.error })
    })
    .await
}

pub(crate) async fn complete(
    state: State<AppState>,
    Extension(id): Extension<RequestId>,
    place: SlugAndCall,
    request: Request<Body>,
) -> Response {
    act(state, id, place, request, |text| {
        let body: CompleteBody = read(text)?;
        let result = body.result;
        Ok(OpenCallDeed::Complete { result })
    })
    .await
}

async fn act(
    State(surfaces): State<AppState>,
    id: RequestId,
    place: SlugAndCall,
    request: Request<Body>,
    deed: fn(&str) -> Result<OpenCallDeed, ApiError>,
) -> Response {
    let done = async {
        let (parts, body) = request.into_parts();
        let Path((slug, call)) = place.map_err(|_| ApiError::no_organization())?;
        let caller = member(&surfaces, &parts.headers, slug, KeyScope::Admin, &id).await?;
        let text = text_of(&surfaces, &parts.headers, body).await?;
        let deed = deed(&text)?;
        let call = CallId::parse(&call).ok_or_else(ApiError::no_open_call)?;
        let acted = surfaces.runtime().open_calls(&caller).act(call, deed).await;
        let row = acted.map_err(|error| ApiError::of_open_call(&error, &id))?;
        Ok(json!({ "id": row.id.to_string(), "object": "open_call", "turn": row.turn.to_string() }).to_string())
    };
    respond(done.await, StatusCode::OK, &id)
}

fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, ApiError> {
    serde_json::from_str(text)
        .map_err(|error| ApiError::invalid(None, None, format!("The body: {error}.")))
}

fn render(call: &OpenCallRow, now: Timestamp) -> Value {
    json!({
        "id": call.id.to_string(),
        "object": "open_call",
        "turn": call.turn.to_string(),
        "tool": call.tool_name,
        "runs": call.runs.as_str(),
        "status": call.status.as_str(),
        "external_id": call.external_id,
        "created_us": call.created.0,
        "deadline_us": call.deadline.map(|deadline| deadline.0),
        "overdue": call.deadline.is_some_and(|deadline| deadline < now),
        "job": call.job.as_ref().map(job),
    })
}

fn job(job: &OpenJobRow) -> Value {
    json!({
        "due_us": job.due.0,
        "polls": job.polls,
        "faults": job.faults,
        "fault": job.fault.map(PollFault::as_str),
        "http_status": job.http_status,
        "polled_us": job.polled.map(|at| at.0),
        "called_back_us": job.called_back.map(|at| at.0),
    })
}
