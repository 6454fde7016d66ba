//! The part of a list of models that is wanted, where lists come in pages.
//!
//! Follows "List Models" of Anthropic's API reference. Known difference: a request that names no limit gets all of
//! them, since a client that does not turn pages would miss a model.

use tw_wire::model_list::ListedModel;
use url::form_urlencoded;

use crate::error::ApiError;

/// Most models of a page, as in Anthropic's API.
const LIMIT_MAX: usize = 1000;

/// A page of a list of models.
#[derive(Debug)]
pub struct ModelPage {
    /// `None` for all that there are.
    limit: Option<usize>,
    place: Option<ModelPlaceInList>,
}

#[derive(Debug)]
enum ModelPlaceInList {
    /// Behind the model of this id.
    After(String),
    /// Before it.
    Before(String),
}

impl ModelPage {
    /// Reads the query of the list; what it knows nothing of is left to others, as the API does.
    pub fn read(query: Option<&str>) -> Result<Self, ApiError> {
        let mut page = Self {
            limit: None,
            place: None,
        };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let place = match &*name {
                "limit" => {
                    page.limit = Some(limit(&value)?);
                    continue;
                }
                "after_id" => ModelPlaceInList::After(value.into_owned()),
                "before_id" => ModelPlaceInList::Before(value.into_owned()),
                _ => continue,
            };
            if page.place.replace(place).is_some() {
                let message = "after_id and before_id do not go together.";
                return Err(ApiError::invalid(Some(&name), None, message));
            }
        }
        Ok(page)
    }

    /// The models of the page, and whether there are more in its direction.
    pub fn of<'a>(&self, all: &'a [ListedModel]) -> Result<(&'a [ListedModel], bool), ApiError> {
        let most = self.limit.unwrap_or(all.len());
        let place_of = |param: &str, id: &str| {
            let found = all.iter().position(|model| model.id == id);
            found.ok_or_else(|| {
                let message = format!("{param} is the id of a model of this list.");
                ApiError::invalid(Some(param), None, message)
            })
        };
        match &self.place {
            Some(ModelPlaceInList::Before(id)) => {
                let end = place_of("before_id", id)?;
                let start = end.saturating_sub(most);
                Ok((&all[start..end], start > 0))
            }
            Some(ModelPlaceInList::After(id)) => {
                let start = place_of("after_id", id)? + 1;
                Ok(first(&all[start..], most))
            }
            None => Ok(first(all, most)),
        }
    }
}

fn first(models: &[ListedModel], most: usize) -> (&[ListedModel], bool) {
    let shown = &models[..most.min(models.len())];
    (shown, shown.len() < models.len())
}

fn limit(value: &str) -> Result<usize, ApiError> {
    let limit = value.parse().ok();
    let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| {
        let message = format!("limit is a number from 1 to {LIMIT_MAX}.");
        ApiError::invalid(Some("limit"), None, message)
    })
}
