//! `turnwright tools`

mod diff;
mod file;

use anyhow::{Context, bail};
use tw_core::tool::Tool;
use tw_egress::client::host_port::ORGANIZATION_DEFAULT;
use tw_egress::env::Env;
use tw_runtime::tools::{self, ApplyFileError, PruneTools};
use tw_store::store::Store;
use tw_store::system;
use tw_wire::stored::tool;

use crate::cli::{ApplyToolsArgs, ToolsOf};
use crate::config::Settings;
use crate::database::DatabasePlace;
use crate::organization::slug;
use crate::printed::{print, table};
use crate::serve::log_to_stderr;
use tw_runtime::metrics::DroppedLogLines;

/// The tools of an organization: where they are, and the rules that they are judged by.
struct Place {
    organization: String,
    database: DatabasePlace,
    settings: Settings,
}

/// Prints one line for each tool, and what differs in those that change.
pub async fn apply(args: ApplyToolsArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let place = Place::of(&args.of)?;
    let source = file::ToolFileSource::of(&args.file)?;
    let wanted = source.read()?;
    let vetting = place.settings.vetting()?;
    let env = Env::system();
    let prune = if args.prune {
        PruneTools::Remove
    } else {
        PruneTools::Keep
    };
    // A file that is refused, and a look at what would change, leave no new folder behind.
    let scratch = tempfile::tempdir().context("making a folder to plan in")?;
    let existing = place.database.open_existing(&env).await?;
    let planned = match &existing {
        Some(store) => tools::plan(store, &vetting, &place.organization, &wanted, prune).await,
        None => {
            let empty = DatabasePlace::Folder(scratch.path().to_owned());
            let empty = empty.open(&env).await?;
            tools::plan(&empty, &vetting, &place.organization, &wanted, prune).await
        }
    };
    let planned = match planned {
        Err(ApplyFileError::Invalid { place, name, error }) => {
            bail!("{source}: [{place}] {name}: {error}")
        }
        planned => planned?,
    };
    if !args.dry_run {
        let store = match existing {
            Some(store) => store,
            None => place.database.open(&env).await?,
        };
        tools::apply(&store, &env, &planned).await?;
    }
    print(&diff::text(&planned.changes)?)
}

/// Prints one line for each tool, the built-in ones first.
pub async fn list(args: ToolsOf) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    let place = Place::of(&args)?;
    let env = Env::system();
    let rows = match place.database.open_existing(&env).await? {
        Some(store) => place.rows(&store).await?,
        None => bail!("there is no database in {}", place.database),
    };
    print(&table(HEAD, &rows))
}

type Row = [String; 5];

impl Place {
    fn of(args: &ToolsOf) -> anyhow::Result<Self> {
        let settings = Settings::of_file(args.config.as_deref())?;
        let data = args.data.as_ref().unwrap_or(&settings.server.data);
        Ok(Self {
            organization: slug(&args.organization)
                .with_context(|| format!("--organization {:?}", args.organization))?,
            database: DatabasePlace::of(&args.store, &settings, data)?,
            settings,
        })
    }

    async fn rows(&self, store: &Store) -> anyhow::Result<Vec<Row>> {
        let built_in: Vec<Row> = self
            .settings
            .built_in_tools()?
            .iter()
            .map(|tool| row_of_built_in(tool))
            .collect();
        let slug = &self.organization;
        let Some(organization) = system::organization_by_slug(store, slug).await? else {
            // Nobody needs to make this one.
            if slug == ORGANIZATION_DEFAULT {
                return Ok(built_in);
            }
            bail!("there is no organization {slug:?}");
        };
        let tools = store.tools(organization).await?;
        let row = |row: tw_store::read::tools::ToolRow| {
            let definition = tool::decode(&row.definition)
                .with_context(|| format!("reading the stored tool {:?}", row.name))?;
            Ok([
                row.name,
                TYPE.to_owned(),
                row.version.number.to_string(),
                definition.policy.effect.as_str().to_owned(),
                definition.label,
            ])
        };
        built_in
            .into_iter()
            .map(Ok)
            .chain(tools.into_iter().map(row))
            .collect()
    }
}

/// The row of a built-in tool. Its version is the program's, and it has no label.
fn row_of_built_in(tool: &Tool) -> Row {
    let effect = tool.policy.effect.as_str();
    [&tool.name, BUILT_IN, "-", effect, "-"].map(str::to_owned)
}

/// Type of the tools that have no definition.
const BUILT_IN: &str = "built_in";
/// Type of the definitions, the only one that there is.
const TYPE: &str = "api_request";
const HEAD: [&str; 5] = ["NAME", "TYPE", "VERSION", "EFFECT", "LABEL"];
