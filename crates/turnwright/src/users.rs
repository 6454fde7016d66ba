//! `turnwright users`

use anyhow::{Context, bail};
use tw_egress::env::Env;
use tw_runtime::forgetting::{self, Forgotten};
use tw_store::system;

use crate::cli::EraseUserArgs;
use crate::keys::store_of;
use crate::organization::slug;
use crate::printed::print;

/// Prints the name under which counts and costs stay.
pub async fn erase(args: EraseUserArgs) -> anyhow::Result<()> {
    let slug = slug(&args.organization)
        .with_context(|| format!("--organization {:?}", args.organization))?;
    let (store, env) = (store_of(&args.of).await?, Env::system());
    let Some(organization) = system::organization_by_slug(&store, &slug).await? else {
        bail!("there is no organization {slug:?}");
    };
    let begun = forgetting::begin(&store, &env, organization, &args.name).await;
    let Forgotten::As(kept_as) = begun.context("erasing the end user")? else {
        bail!("{slug:?} has no end user of this name");
    };
    // A turn that a server runs ends by itself, and is erased then.
    let done = forgetting::go_on(&store, &env, |_| {}).await;
    done.context("deleting the turns: a server that starts on this database goes on with it")?;
    print(&format!("erased; counts and costs stay as {kept_as}\n"))
}
