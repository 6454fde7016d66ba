//! `GET /v1/models` and `GET /v1/models/{id}`, in the format of the client that asks.

mod page;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use tw_core::tenant::KeyScope;
use tw_runtime::models::UnlistedUpstream;
use tw_wire::format::WireFormat;

use crate::access;
use crate::answer_body::json;
use crate::error::ApiError;
use crate::server::{AppState, RequestId};
use crate::surface_format;
use page::ModelPage;

pub(crate) async fn list(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let format = surface_format::of_client(&headers);
    let listed = async {
        may_ask(&surfaces, &headers, &id).await?;
        let page = match format.lists_in_pages() {
            true => Some(ModelPage::read(query.as_deref())?),
            false => None,
        };
        let listed = surfaces.runtime().models().await;
        if listed.models.is_empty() && !listed.missing.is_empty() {
            return Err(ApiError::no_list(&listed.missing));
        }
        let (models, has_more) = match page {
            None => (listed.models.as_slice(), false),
            Some(page) => page.of(&listed.models)?,
        };
        let mut response = json(format.list_models(models, has_more));
        if let Some(names) = names(&listed.missing) {
            response.headers_mut().insert(UNLISTED, names);
        }
        Ok(response)
    };
    let listed = listed.await;
    listed.unwrap_or_else(|error| error.render_in(format, Some(&id)))
}

/// Resolves the key, in whichever header clients of models send theirs.
async fn may_ask(surfaces: &AppState, headers: &HeaderMap, id: &RequestId) -> Result<(), ApiError> {
    let own_header = WireFormat::ALL.into_iter().find_map(WireFormat::key_header);
    let key = access::given_key(headers, own_header)?;
    access::authenticated(surfaces, key, Some(KeyScope::Chat), id).await?;
    Ok(())
}

/// Names the upstreams whose models are not in the list, since they did not give theirs.
const UNLISTED: HeaderName = HeaderName::from_static("turnwright-unlisted-upstreams");

fn names(missing: &[UnlistedUpstream]) -> Option<HeaderValue> {
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = missing.iter().map(|one| one.name.as_str()).collect();
    // A name may have characters that no header takes.
    HeaderValue::from_str(&names.join(", ")).ok()
}

pub(crate) async fn show(
    State(surfaces): State<AppState>,
    Extension(id): Extension<RequestId>,
    model: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Response {
    let format = surface_format::of_client(&headers);
    let shown = async {
        may_ask(&surfaces, &headers, &id).await?;
        let Ok(Path(model)) = model else {
            return Err(ApiError::no_model());
        };
        let listed = surfaces.runtime().models().await;
        let none_is_known = listed.models.is_empty() && !listed.missing.is_empty();
        let mut models = listed.models.into_iter();
        let found = models.find(|listed| listed.id == model);
        let found = found.ok_or_else(|| {
            if none_is_known {
                ApiError::no_list(&listed.missing)
            } else {
                ApiError::no_model()
            }
        })?;
        Ok(json(format.list_model(&found)))
    };
    let shown = shown.await;
    shown.unwrap_or_else(|error| error.render_in(format, Some(&id)))
}
