//! The tools of each organization, ready to be offered.
//!
//! They are read again when the organization's tools have changed, which another process may do;
//! it is noticed within [`CHECKED_EVERY`].

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tw_core::id::{OrgId, ToolVersionKey};
use tw_core::time::Timestamp;
use tw_core::tool::Tool;
use tw_core::variables::Variables;
use tw_egress::secrets::Tenancy;
use tw_store::read::ReadError;
use tw_store::read::tools::ToolRow;
use tw_store::store::Store;
use tw_store::system;
use tw_wire::stored::tool;

/// Tools that may be offered, by organization.
#[derive(Debug)]
pub(crate) struct ToolBook {
    built_in: Vec<Arc<Tool>>,
    of_organizations: Mutex<BTreeMap<OrgId, Arc<ToolBookPage>>>,
    /// Locks by organization: one caller reads its tools, the others wait.
    reading: Mutex<BTreeMap<OrgId, Arc<tokio::sync::Mutex<()>>>>,
    /// Rises with each change by this process.
    changes: AtomicU64,
}

/// The tools of an organization.
#[derive(Clone, Debug)]
pub(crate) struct ToolBookPage {
    pub(crate) slug: Arc<str>,
    pub(crate) tenancy: Tenancy,
    /// Tools that are built in and the organization's own.
    pub(crate) tools: Arc<Vec<Arc<Tool>>>,
    revision: i64,
    checked: Timestamp,
}

/// Time before any at which a page is asked for.
const NEVER: Timestamp = Timestamp(i64::MIN);
/// Time for which a change by another process may go unnoticed.
const CHECKED_EVERY: Duration = Duration::from_secs(1);
/// Number of organizations beyond which the book is begun anew.
const PAGES_MAX: usize = 10_000;

impl ToolBook {
    pub(crate) fn new(built_in: Vec<Arc<Tool>>) -> Self {
        Self {
            built_in,
            of_organizations: Mutex::default(),
            reading: Mutex::default(),
            changes: AtomicU64::new(0),
        }
    }

    pub(crate) fn built_in(&self) -> &[Arc<Tool>] {
        &self.built_in
    }

    /// The organization's page; `None` for an organization that is not there.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn page(
        &self,
        store: &Store,
        organization: OrgId,
        now: Timestamp,
    ) -> Result<Option<Arc<ToolBookPage>>, ReadError> {
        if let Some(fresh) = self.fresh(organization, now) {
            return Ok(Some(fresh));
        }
        let reading = self.reading(organization);
        let _one_at_a_time = reading.lock().await;
        if let Some(fresh) = self.fresh(organization, now) {
            return Ok(Some(fresh));
        }
        let known = self.lock().get(&organization).cloned();
        let changes = self.changes.load(Ordering::Acquire);
        let Some(seen) = system::organization_tools(store, organization).await? else {
            return Ok(None);
        };
        let tenancy = if seen.organizations > 1 {
            Tenancy::Several
        } else {
            Tenancy::Single
        };
        let tools = match known {
            Some(page) if page.revision == seen.revision => Arc::clone(&page.tools),
            earlier => {
                let rows = store.tools(organization).await?;
                let earlier = earlier.map(|page| Arc::clone(&page.tools));
                Arc::new(self.compile(&rows, earlier.as_deref()).await)
            }
        };
        let page = Arc::new(ToolBookPage {
            slug: seen.slug.into(),
            tenancy,
            tools,
            revision: seen.revision,
            checked: now,
        });
        let mut pages = self.lock();
        if changes != self.changes.load(Ordering::Acquire) {
            // What was read may be older than the change: good enough for this request, which
            // began before it, and for no other.
            return Ok(Some(page));
        }
        if pages.len() >= PAGES_MAX {
            pages.clear();
        }
        pages.insert(organization, Arc::clone(&page));
        Ok(Some(page))
    }

    /// The tools of a page; what an earlier one held in the same version is taken from there.
    async fn compile(&self, rows: &[ToolRow], earlier: Option<&Vec<Arc<Tool>>>) -> Vec<Arc<Tool>> {
        let known: HashMap<ToolVersionKey, &Arc<Tool>> = earlier
            .into_iter()
            .flatten()
            .filter_map(|tool| tool.version.map(|version| (version.key, tool)))
            .collect();
        let mut tools = self.built_in.clone();
        for row in rows {
            if let Some(tool) = known.get(&row.version.key) {
                tools.push(Arc::clone(tool));
                continue;
            }
            tools.extend(compiled(row));
            // Schemas take a while; others get their turn between them.
            tokio::task::yield_now().await;
        }
        tools
    }

    /// Forgets the organization's page, since its tools have changed.
    pub(crate) fn forget(&self, organization: OrgId) {
        let mut pages = self.lock();
        self.changes.fetch_add(1, Ordering::AcqRel);
        if let Some(page) = pages.get_mut(&organization) {
            *page = Arc::new(ToolBookPage {
                checked: NEVER,
                ..(**page).clone()
            });
        }
    }

    fn fresh(&self, organization: OrgId, now: Timestamp) -> Option<Arc<ToolBookPage>> {
        let page = self.lock().get(&organization).cloned()?;
        let is_fresh = now >= page.checked && now.since(page.checked) < CHECKED_EVERY;
        is_fresh.then_some(page)
    }

    fn reading(&self, organization: OrgId) -> Arc<tokio::sync::Mutex<()>> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.len() >= PAGES_MAX {
            reading.clear();
        }
        Arc::clone(reading.entry(organization).or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<OrgId, Arc<ToolBookPage>>> {
        self.of_organizations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tool of a row; one that cannot be understood is not offered.
pub(crate) fn compiled(row: &ToolRow) -> Option<Arc<Tool>> {
    let definition = tool::decode(&row.definition).map(Arc::new);
    let tool =
        definition.and_then(|definition| definition.tool(Some(row.version), &Variables::default()));
    match tool {
        Ok(tool) => Some(Arc::new(tool)),
        Err(error) => {
            tracing::error!(
                tool.id = %row.id,
                version = row.version.number,
                field = error.field,
                "a stored tool cannot be read and is not offered"
            );
            None
        }
    }
}
