//! `turnwright sql`

use anyhow::{Context, anyhow, bail};
use tw_core::shape::TableLayout;
use tw_egress::env::Env;
use tw_runtime::admin::key_given;
use tw_store::shape_views::{ViewSchema, ViewsOf, sqlite_script};
use tw_store::store::Store;
use tw_store::system;

use crate::cli::SqlArgs;
use crate::config::Settings;
use crate::database::DatabasePlace;
use crate::organization::slug;
use crate::printed;

/// Longest name of a schema or a role: PostgreSQL cuts longer ones.
const NAME_BYTES_MAX: usize = 63;

/// Prints the statements, or makes the schema that they make.
pub async fn run(args: SqlArgs) -> anyhow::Result<()> {
    let layout = TableLayout::parse(&args.shape).ok_or_else(|| {
        let words: Vec<&str> = TableLayout::ALL
            .into_iter()
            .map(TableLayout::as_str)
            .collect();
        anyhow!(
            "{:?} is no shape; there are: {}",
            args.shape,
            words.join(", ")
        )
    })?;
    let env = Env::system();
    let settings = Settings::of_file(args.config.as_deref())?;
    let data = args.data.clone().unwrap_or(settings.server.data.clone());
    let place = DatabasePlace::of(&args.store, &settings, &data)?;
    let found = place.open_existing(&env).await?;
    let store = found.with_context(|| format!("there is no database in {place}"))?;
    let of = views_of(&store, &env, &args).await?;
    match place {
        DatabasePlace::Folder(_) => {
            if args.role.is_some() || args.schema.is_some() {
                bail!("--role and --schema are for PostgreSQL: a SQLite file has neither");
            }
            printed::print(&sqlite_script(layout, &of))
        }
        DatabasePlace::Server(server) => {
            let name = args.schema.as_deref().unwrap_or(layout.as_str()).to_owned();
            check_name("--schema", &name)?;
            if let Some(role) = &args.role {
                check_name("--role", role)?;
            }
            let schema = ViewSchema {
                layout,
                name: &name,
                role: args.role.as_deref(),
                of,
            };
            if args.print {
                return printed::print(&schema.script());
            }
            let made = tokio::task::block_in_place(|| server.make_views(&schema));
            made.with_context(|| {
                format!("making the schema {name:?}: it is for whoever owns the record's tables")
            })?;
            printed::print(&format!("the schema {name} shows the rows\n"))
        }
    }
}

async fn views_of(store: &Store, env: &Env, args: &SqlArgs) -> anyhow::Result<ViewsOf> {
    let Some(key) = &args.key else {
        let slug = slug(&args.organization)
            .with_context(|| format!("--organization {:?}", args.organization))?;
        let organization = system::organization_by_slug(store, &slug).await?;
        return Ok(ViewsOf {
            organization: organization
                .with_context(|| format!("there is no organization {slug:?}"))?,
            api_key: None,
        });
    };
    let key = key_given(store, env, key).await.context("--key")?;
    let found = system::organization_by_slug(store, &key.organization_slug).await?;
    Ok(ViewsOf {
        organization: found.context("the key's organization is gone")?,
        api_key: Some(key.id),
    })
}

fn check_name(flag: &str, name: &str) -> anyhow::Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        bail!("{flag}: a name has 1 to {NAME_BYTES_MAX} bytes");
    }
    Ok(())
}
