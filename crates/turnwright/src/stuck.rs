//! `turnwright stuck`

use anyhow::{Context, anyhow, bail};
use tw_core::id::{CallId, OrgId};
use tw_core::time::Timestamp;
use tw_egress::env::Env;
use tw_runtime::metrics::DroppedLogLines;
use tw_runtime::open_calls::{OpenCallAdmin, OpenCallDeed, OpenCallsListed};
use tw_store::read::open_calls::OpenCallRow;
use tw_store::store::Store;
use tw_store::system;

use crate::cli::{ListStuckArgs, StuckArgs, StuckCommand, ToolsOf};
use crate::config::Settings;
use crate::database::DatabasePlace;
use crate::organization::slug;
use crate::printed::{print, table};
use crate::serve::log_to_stderr;

/// Calls that are read at once.
const PAGE: usize = 500;

pub async fn run(args: StuckArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    match args.command {
        None => list(&args.list).await,
        Some(StuckCommand::Poll(call)) => act(&call.of, &call.call, OpenCallDeed::Poll).await,
        Some(StuckCommand::Fail(end)) => {
            act(&end.of, &end.call, OpenCallDeed::Fail { why: end.text }).await
        }
        Some(StuckCommand::Complete(end)) => {
            let deed = OpenCallDeed::Complete { result: end.text };
            act(&end.of, &end.call, deed).await
        }
    }
}

/// An organization's open calls.
struct Place {
    store: Store,
    env: Env,
    organization: OrgId,
}

impl Place {
    async fn of(args: &ToolsOf) -> anyhow::Result<Self> {
        let settings = Settings::of_file(args.config.as_deref())?;
        let slug = slug(&args.organization)
            .with_context(|| format!("--organization {:?}", args.organization))?;
        let data = args.data.as_ref().unwrap_or(&settings.server.data);
        let database = DatabasePlace::of(&args.store, &settings, data)?;
        let env = Env::system();
        let Some(store) = database.open_existing(&env).await? else {
            bail!("there is no database in {database}");
        };
        let Some(organization) = system::organization_by_slug(&store, &slug).await? else {
            bail!("there is no organization {slug:?}: make a key for it first");
        };
        Ok(Self {
            store,
            env,
            organization,
        })
    }

    fn admin(&self) -> OpenCallAdmin<'_> {
        OpenCallAdmin {
            store: &self.store,
            env: &self.env,
            organization: self.organization,
            runtime: None,
        }
    }
}

async fn list(args: &ListStuckArgs) -> anyhow::Result<()> {
    let place = Place::of(&args.of).await?;
    let listed = if args.all {
        OpenCallsListed::All
    } else {
        OpenCallsListed::Stuck
    };
    let now = place.env.now();
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let page = place.admin().list(listed, after, PAGE).await?;
        after = page.items.last().map(|call| call.id);
        rows.extend(page.items.iter().map(|call| row(call, now)));
        if !page.has_more {
            break;
        }
    }
    print(&table(
        ["ID", "TOOL", "JOB", "STATE", "POLLS", "CREATED", "DEADLINE"],
        &rows,
    ))
}

fn row(call: &OpenCallRow, now: Timestamp) -> [String; 7] {
    let fault = call.job.as_ref().and_then(|job| job.fault);
    let state = match (call.deadline, fault) {
        (Some(deadline), _) if deadline < now => "overdue",
        (_, Some(fault)) => fault.as_str(),
        (_, None) => call.status.as_str(),
    };
    let polls = call.job.as_ref().map_or_else(
        || "-".to_owned(),
        |job| match job.faults {
            0 => job.polls.to_string(),
            faults => format!("{} ({faults} said nothing)", job.polls),
        },
    );
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), shown);
    [
        call.id.to_string(),
        call.tool_name.clone(),
        call.external_id.clone().unwrap_or_else(|| "-".to_owned()),
        state.to_owned(),
        polls,
        time(Some(call.created)),
        time(call.deadline),
    ]
}

fn shown(at: Timestamp) -> String {
    jiff::Timestamp::from_second(at.seconds()).map_or_else(|_| "-".to_owned(), |at| at.to_string())
}

async fn act(of: &ToolsOf, call: &str, deed: OpenCallDeed) -> anyhow::Result<()> {
    let id = CallId::parse(call).ok_or_else(|| anyhow!("{call:?} is no call's id"))?;
    let done = match &deed {
        OpenCallDeed::Poll => "is asked about by the server, if one runs",
        OpenCallDeed::Fail { .. } => "has failed",
        OpenCallDeed::Complete { .. } => "has completed",
    };
    let place = Place::of(of).await?;
    place.admin().act(id, deed).await?;
    print(&format!("{id} {done}\n"))
}
