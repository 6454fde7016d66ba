//! The models of all upstreams, as one list.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tw_core::time::Timestamp;
use tw_egress::upstream::{Upstream, listing};
use tw_wire::openai_chat::models::ListedModel;

use crate::chain::Chain;
use crate::runtime::{Inner, Runtime};

/// How long an upstream that did not give its list is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// What the upstreams said last.
#[derive(Debug)]
pub(crate) struct KnownModels {
    /// In the order of the upstreams.
    lists: Mutex<Vec<Known>>,
    /// One asks, and the others wait for what it hears.
    asks: Semaphore,
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// What it said last, however long ago; `None` if it never did, or has no list.
    models: Option<Arc<Vec<ListedModel>>>,
    /// When it should be asked again; `None` for at once.
    ask_from: Option<Timestamp>,
}

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

    fn note(&self, place: usize, heard: Option<Arc<Vec<ListedModel>>>, ask_from: Timestamp) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.get_mut(place) {
            if heard.is_some() {
                known.models = heard;
            }
            known.ask_from = Some(ask_from);
        }
    }
}

impl Runtime {
    /// The models that clients may name, each once.
    ///
    /// An upstream that does not answer now is represented by what it said last.
    pub async fn models(&self) -> Vec<ListedModel> {
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
        merged(&inner.config.upstreams, &lists)
    }

    /// One of [`Runtime::models`].
    pub async fn model(&self, id: &str) -> Option<ListedModel> {
        self.models().await.into_iter().find(|model| model.id == id)
    }
}

/// The places of the upstreams that are to be asked now.
fn due(inner: &Inner, lists: &[Known]) -> Vec<usize> {
    let now = inner.env.now();
    let is_due = |known: &Known| known.ask_from.is_none_or(|from| from <= now);
    let places = lists.iter().enumerate();
    places
        .filter(|(_, known)| is_due(known))
        .map(|(place, _)| place)
        .collect()
}

async fn ask(inner: &Inner, place: usize) {
    let Some(upstream) = inner.config.upstreams.get(place) else {
        return;
    };
    let heard = listing::list(&inner.connections, upstream).await;
    let (heard, wait) = match heard {
        Ok(models) => (models.map(Arc::new), inner.config.models_kept),
        Err(error) => {
            tracing::warn!(upstream = upstream.name, error = %Chain(&error), "no list of models");
            (None, AFTER_FAILURE.min(inner.config.models_kept))
        }
    };
    inner.models.note(place, heard, inner.env.now().after(wait));
}

/// What is listed is what a request for it would reach: a model counts as the first upstream
/// that serves it lists it. One whose list is not known leaves the word to the next.
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
