//! The models of all upstreams, as one list.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tw_core::time::Timestamp;
use tw_egress::upstream::{Upstream, check, listing};
use tw_wire::model_list::ListedModel;

use crate::error_chain::ErrorChain;
use crate::runtime::{Runtime, RuntimeInner};

/// Time for which an upstream that did not give its list is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// The models that the upstreams listed last.
#[derive(Debug)]
pub(crate) struct KnownModels {
    /// Lists in the order of the upstreams.
    lists: Mutex<Vec<Known>>,
    /// Permit to ask: its holder asks the upstreams, and the others wait for the answers.
    asks: Semaphore,
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// Models that it listed last, however long ago; `None` if it never did, or has no list.
    models: Option<Arc<Vec<ListedModel>>>,
    /// Time from which it should be asked again; `None` for at once.
    ask_from: Option<Timestamp>,
    /// Reason for which the last try gave no list, for clients.
    failed: Option<String>,
    /// Whether the operator was told what to change since it last answered.
    explained: bool,
}

/// The models of all upstreams, as far as they could be listed.
#[derive(Debug)]
pub struct ListedModels {
    pub models: Vec<ListedModel>,
    /// Upstreams whose models are not among them, with the reason: the first ones.
    pub missing: Vec<UnlistedUpstream>,
}

/// An upstream that never gave its list.
#[derive(Clone, Debug)]
pub struct UnlistedUpstream {
    pub name: String,
    /// Reason for clients, which names no address.
    pub reason: String,
}

/// Most upstreams of which an answer says that they are missing.
const MISSING_SHOWN_MAX: usize = 16;

impl KnownModels {
    pub(crate) fn new(upstreams: usize) -> Self {
        Self {
            lists: Mutex::new(vec![Known::default(); upstreams]),
            asks: Semaphore::new(1),
        }
    }

    fn lists(&self) -> Vec<Known> {
        self.lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn note(&self, place: usize, heard: Heard, ask_from: Timestamp) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.get_mut(place) {
            known.ask_from = Some(ask_from);
            match heard {
                Heard::List(models) => {
                    // `None` is of an upstream that has no list.
                    known.models = models.or(known.models.take());
                    known.failed = None;
                    known.explained = false;
                }
                Heard::Nothing { reason } => {
                    known.failed = Some(reason);
                    known.explained = true;
                }
            }
        }
    }
}

impl Runtime {
    /// The models that clients may name, each once.
    ///
    /// An upstream that does not answer now is represented by what it said last.
    pub async fn models(&self) -> ListedModels {
        let inner = &self.0;
        let mut lists = inner.models.lists();
        if !due(inner, &lists).is_empty() {
            // It is never closed.
            let _one_at_a_time = inner.models.asks.acquire().await;
            lists = inner.models.lists();
            let asked = due(inner, &lists);
            if !asked.is_empty() {
                join_all(asked.into_iter().map(|place| ask(inner, place))).await;
                lists = inner.models.lists();
            }
        }
        let upstreams = &inner.config.upstreams;
        ListedModels {
            models: merged(upstreams, &lists),
            missing: missing(upstreams, &lists),
        }
    }

    /// Asks all upstreams for their models beside everything else, so that the log says at the
    /// start which of them cannot be used.
    pub fn look_at_upstreams(&self) {
        let runtime = self.clone();
        let stopping = self.0.refusing.clone();
        self.0.tasks.spawn(async move {
            tokio::select! {
                listed = runtime.models() => {
                    tracing::debug!(models = listed.models.len(), "the upstreams were asked");
                }
                () = stopping.cancelled() => {}
            }
        });
    }
}

/// The positions of the upstreams that are to be asked now.
fn due(inner: &RuntimeInner, lists: &[Known]) -> Vec<usize> {
    let now = inner.env.now();
    let is_due = |known: &Known| known.ask_from.is_none_or(|from| from <= now);
    let places = lists.iter().enumerate();
    places
        .filter(|(_, known)| is_due(known))
        .map(|(place, _)| place)
        .collect()
}

/// Result of asking an upstream for its list.
enum Heard {
    List(Option<Arc<Vec<ListedModel>>>),
    Nothing { reason: String },
}

async fn ask(inner: &RuntimeInner, place: usize) {
    let Some(upstream) = inner.config.upstreams.get(place) else {
        return;
    };
    let was_explained = inner
        .models
        .lists()
        .get(place)
        .is_some_and(|known| known.explained);
    let heard = listing::list(&inner.connections, upstream).await;
    let (heard, wait) = match heard {
        Ok(models) => (Heard::List(models.map(Arc::new)), inner.config.models_kept),
        Err(error) => {
            let reason = error.told();
            if was_explained {
                tracing::warn!(upstream = upstream.name, error = %ErrorChain(&error), "no list of models");
            } else {
                explain(inner, upstream, error).await;
            }
            (
                Heard::Nothing { reason },
                AFTER_FAILURE.min(inner.config.models_kept),
            )
        }
    };
    inner.models.note(place, heard, inner.env.now().after(wait));
}

/// Tells the operator what to change; once, since finding out asks several times.
async fn explain(inner: &RuntimeInner, upstream: &Upstream, error: listing::ListError) {
    let trouble = check::UpstreamTrouble::of_list(&inner.connections, upstream, error).await;
    tracing::warn!(upstream = upstream.name, trouble = %trouble, "no list of models");
}

fn missing(upstreams: &[Arc<Upstream>], lists: &[Known]) -> Vec<UnlistedUpstream> {
    let both = upstreams.iter().zip(lists);
    let unlisted = both.filter(|(_, known)| known.models.is_none());
    unlisted
        .filter_map(|(upstream, known)| {
            Some(UnlistedUpstream {
                name: upstream.name.clone(),
                reason: known.failed.clone()?,
            })
        })
        .take(MISSING_SHOWN_MAX)
        .collect()
}

/// Merges the lists into one, of what a request for a model would reach: a model counts as the
/// first upstream that serves it lists it. An upstream whose list is not known leaves the word to
/// the next.
fn merged(upstreams: &[Arc<Upstream>], lists: &[Known]) -> Vec<ListedModel> {
    let mut merged = Vec::new();
    let mut names = HashSet::new();
    let mut add = |model: ListedModel| {
        if names.insert(model.id.clone()) {
            merged.push(model);
        }
    };
    for (place, (upstream, known)) in upstreams.iter().zip(lists).enumerate() {
        let served_before = |name: &str| {
            let before = upstreams.iter().zip(lists).take(place);
            let mut listing = before.filter(|(_, known)| known.models.is_some());
            listing.any(|(upstream, _)| upstream.models.serves(name))
        };
        let listed: &[ListedModel] = known.models.as_ref().map_or(&[], |models| models);
        for name in upstream.models.written() {
            if served_before(name) {
                continue;
            }
            let sent = upstream.models.sent(name);
            let found = listed.iter().find(|model| model.id == sent);
            add(found.map_or_else(
                || ListedModel::new(name, &upstream.name),
                |model| {
                    if sent == name {
                        model.clone()
                    } else {
                        model.named(name)
                    }
                },
            ));
        }
        for model in listed {
            // An alias that hides the name leads elsewhere.
            let is_itself = upstream.models.sent(&model.id) == model.id;
            if upstream.models.serves(&model.id) && is_itself && !served_before(&model.id) {
                add(model.clone());
            }
        }
    }
    merged
}
