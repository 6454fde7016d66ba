//! The check of an upstream: whether it is what its settings say, and what to change if not.

use std::error::Error;
use std::fmt;

use tw_wire::model_list::ListedModel;

use super::listing::{ListError, get, list_at};
use super::{Upstream, UpstreamConnections, UpstreamKind};

/// Result of a check that found no fault.
#[derive(Debug)]
pub enum UpstreamFound {
    /// The upstream lists these models.
    Models(Vec<ListedModel>),
    /// The upstream answers with our key, and has no list of what it serves.
    Answers,
    /// The upstream is inside this process.
    Inside,
}

/// A fault of an upstream, for its operator: names addresses and settings, and nothing secret.
#[derive(Debug)]
pub struct UpstreamTrouble {
    /// URL that was asked, without a query.
    pub url: String,
    pub error: ListError,
    pub advice: Option<String>,
    pub severity: Severity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Requests will fail, too.
    Certain,
    /// Requests may work all the same.
    Perhaps,
}

/// Asks an upstream for its models, with its key; where that fails for good, also what would work.
///
/// # Errors
/// [`UpstreamTrouble`].
pub async fn check(
    connections: &UpstreamConnections,
    upstream: &Upstream,
) -> Result<UpstreamFound, Box<UpstreamTrouble>> {
    let Some(url) = url_of_list(&upstream.kind) else {
        return Ok(UpstreamFound::Inside);
    };
    let found = match &upstream.kind {
        UpstreamKind::Http { .. } => {
            let listed = list_at(connections, upstream, &url).await;
            listed.map(UpstreamFound::Models)
        }
        // What could be deployed, which says only that we may ask.
        UpstreamKind::Azure { .. } | UpstreamKind::Scripted(_) => {
            let read = get(connections, upstream, &url).await;
            read.map(|_| UpstreamFound::Answers)
        }
    };
    match found {
        Ok(found) => Ok(found),
        Err(error) => Err(Box::new(
            UpstreamTrouble::of_list(connections, upstream, error).await,
        )),
    }
}

/// URL of an upstream's list of models, by OpenAI's API reference, and for Azure "Models - List" of its data plane.
fn url_of_list(kind: &UpstreamKind) -> Option<String> {
    match kind {
        UpstreamKind::Http { base_url, .. } => Some(format!("{base_url}/models")),
        UpstreamKind::Azure {
            base_url,
            api_version: Some(version),
            ..
        } => Some(format!("{base_url}/openai/models?api-version={version}")),
        UpstreamKind::Azure {
            base_url,
            api_version: None,
            ..
        } => Some(format!("{base_url}/openai/v1/models")),
        UpstreamKind::Scripted(_) => None,
    }
}

impl UpstreamTrouble {
    /// Looks into a list that failed.
    pub async fn of_list(
        connections: &UpstreamConnections,
        upstream: &Upstream,
        error: ListError,
    ) -> Self {
        let url = url_of_list(&upstream.kind).unwrap_or_default();
        let settings = &upstream.access;
        let base_url = &settings.base_url_setting;
        let key = &settings.api_key_setting;
        let has_key = upstream.kind.api_key().is_some();
        let (severity, advice) = match &error {
            ListError::NotAsked(_) => (Severity::Certain, None),
            ListError::Connect(error) => {
                let advice = match error.advice() {
                    Some(advice) => advice.to_owned(),
                    None => format!("look at {base_url}, and whether the server runs"),
                };
                (Severity::Certain, Some(advice))
            }
            ListError::Status(401 | 403) if has_key => (
                Severity::Certain,
                Some(format!(
                    "the key of {key} was refused: look whether it is whole, and for this server"
                )),
            ),
            ListError::Status(401 | 403) => (
                Severity::Certain,
                Some(format!(
                    "it wants a key, and none is set: set it with {key}"
                )),
            ),
            // It is there, and busy or ill.
            ListError::Status(429 | 500..) | ListError::Broken | ListError::Silent => {
                (Severity::Perhaps, None)
            }
            ListError::TooLong => (Severity::Perhaps, None),
            ListError::Status(_) | ListError::NoList => {
                match working(connections, upstream).await {
                    Some(works) => (
                        Severity::Certain,
                        Some(format!("{works} answers: set {base_url} to it")),
                    ),
                    None => (
                        Severity::Perhaps,
                        Some(format!(
                            "look whether {base_url} ends where /{} begins, mostly with /v1; \
                             a server that has no list needs 'models'",
                            upstream.format.path()
                        )),
                    ),
                }
            }
        };
        Self {
            url: without_query(&url).to_owned(),
            error,
            advice,
            severity,
        }
    }
}

/// Writes one line, with all causes.
impl fmt::Display for UpstreamTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {}: {}", self.url, self.error)?;
        let mut source = self.error.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// A base URL on the same server that has a list, or would for a right key.
async fn working(connections: &UpstreamConnections, upstream: &Upstream) -> Option<String> {
    let UpstreamKind::Http { base_url, .. } = &upstream.kind else {
        return None;
    };
    for candidate in candidates(base_url) {
        let url = format!("{candidate}/models");
        match list_at(connections, upstream, &url).await {
            Ok(_) | Err(ListError::Status(401 | 403)) => return Some(candidate),
            Err(_) => {}
        }
    }
    None
}

/// Base URLs that may be meant: with what people leave out, and without what they write too much, the likeliest first.
///
/// Servers have their routes at `/v1`, nearly all; `/api/v1`, OpenRouter; `/openai/v1`, Groq;
/// `/v1beta/openai`, Gemini. Ollama's own API is under `/api`.
///
/// Where servers have their routes: `/v1` nearly all; `/api/v1` OpenRouter; `/openai/v1` Groq;
/// `/v1beta/openai` Gemini. Ollama's own API is under `/api`.
fn candidates(base_url: &str) -> Vec<String> {
    const ROUTES: [&str; 4] = [
        "/chat/completions",
        "/completions",
        "/models",
        "/embeddings",
    ];
    const PATHS: [&str; 4] = ["/v1", "/api/v1", "/openai/v1", "/v1beta/openai"];
    let mut found: Vec<String> = Vec::new();
    let bare = ROUTES.iter().find_map(|route| base_url.strip_suffix(route));
    let base = bare.unwrap_or(base_url);
    let place_end = base.find("://").map_or(0, |at| at + "://".len());
    let path_at = base[place_end..].find('/').map(|at| at + place_end);
    let origin = path_at.map_or(base, |at| &base[..at]);
    found.extend(bare.map(str::to_owned));
    found.extend(
        base.strip_suffix("/v1")
            .filter(|rest| rest.ends_with("/v1"))
            .map(str::to_owned),
    );
    if !base.ends_with("/v1") {
        found.push(format!("{base}/v1"));
    }
    found.extend(PATHS.iter().map(|path| format!("{origin}{path}")));
    let mut seen = vec![base_url.to_owned()];
    found.retain(|candidate| {
        let is_new = !seen.contains(candidate);
        if is_new {
            seen.push(candidate.clone());
        }
        is_new
    });
    found
}

fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

#[cfg(test)]
mod tests;
