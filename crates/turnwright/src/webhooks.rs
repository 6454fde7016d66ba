//! `turnwright webhooks`

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tw_core::id::{OrgId, WebhookId};
use tw_core::time::Timestamp;
use tw_core::webhook::{
    DeliveryFault, DeliveryState, WebhookContents, WebhookEvent, WebhookEvents, WebhookSwitch,
};
use tw_egress::client::EgressClient;
use tw_egress::env::Env;
use tw_runtime::metrics::DroppedLogLines;
use tw_runtime::webhooks::{ContentsRight, WebhookAdmin, WebhookPatch, WebhookWanted};
use tw_store::read::webhooks::{DeliveryRow, WebhookRow};
use tw_store::store::Store;
use tw_store::system;

use crate::cli::{
    CreateWebhookArgs, DeliveriesArgs, ReplayArgs, RotateWebhookArgs, ToolsOf, WebhookArgs,
    WebhooksCommand,
};
use crate::config::Settings;
use crate::database::DatabasePlace;
use crate::organization::slug;
use crate::printed::{print, table};
use crate::serve::log_to_stderr;

pub async fn run(command: WebhooksCommand) -> anyhow::Result<()> {
    let _log = log_to_stderr("warn", DroppedLogLines::default())?;
    match command {
        WebhooksCommand::Create(args) => create(args).await,
        WebhooksCommand::List(args) => list(&args).await,
        WebhooksCommand::Enable(args) => switch(&args, WebhookSwitch::Enable).await,
        WebhooksCommand::Disable(args) => switch(&args, WebhookSwitch::Disable).await,
        WebhooksCommand::Delete(args) => delete(&args).await,
        WebhooksCommand::Rotate(args) => rotate(&args).await,
        WebhooksCommand::Test(args) => test(&args).await,
        WebhooksCommand::Deliveries(args) => deliveries(&args).await,
        WebhooksCommand::Replay(args) => replay(&args).await,
    }
}

/// The webhooks of an organization: where they are, and what they may reach.
struct Place {
    store: Store,
    env: Env,
    client: EgressClient,
    organization: OrgId,
    slug: String,
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
        let vetting = settings.vetting()?;
        Ok(Self {
            store,
            env,
            client: vetting.client,
            organization,
            slug,
        })
    }

    fn admin(&self) -> WebhookAdmin<'_> {
        WebhookAdmin {
            store: &self.store,
            env: &self.env,
            client: &self.client,
            organization: self.organization,
            slug: &self.slug,
            // Whoever may open the database may read all of it.
            contents: ContentsRight::Granted,
        }
    }
}

/// Prints the id and the secret.
async fn create(args: CreateWebhookArgs) -> anyhow::Result<()> {
    let events = args.events.iter().map(|word| event(word));
    let events = events.collect::<anyhow::Result<Vec<_>>>()?;
    let wanted = WebhookWanted {
        url: args.url,
        description: args.description,
        events: (!events.is_empty()).then_some(events),
        contents: if args.contents {
            WebhookContents::Full
        } else {
            WebhookContents::None
        },
        secret: None,
    };
    let place = Place::of(&args.of).await?;
    let (row, secret) = place.admin().create(wanted).await?;
    print(&format!("{} {secret}\n", row.id))
}

async fn list(args: &ToolsOf) -> anyhow::Result<()> {
    let rows = Place::of(args).await?.admin().list().await?;
    let rows: Vec<_> = rows.iter().map(webhook_row).collect();
    print(&table(
        ["ID", "STATE", "EVENTS", "CONTENTS", "URL", "DESCRIPTION"],
        &rows,
    ))
}

async fn switch(args: &WebhookArgs, enabled: WebhookSwitch) -> anyhow::Result<()> {
    let place = Place::of(&args.of).await?;
    let patch = WebhookPatch {
        enabled: Some(enabled),
        ..WebhookPatch::default()
    };
    let row = place.admin().change(id(args)?, patch).await?;
    print(&format!("{} {}\n", state(&row), row.id))
}

async fn delete(args: &WebhookArgs) -> anyhow::Result<()> {
    let place = Place::of(&args.of).await?;
    let id = id(args)?;
    place.admin().delete(id).await?;
    print(&format!("deleted {id}\n"))
}

/// Prints the new secret.
async fn rotate(args: &RotateWebhookArgs) -> anyhow::Result<()> {
    let place = Place::of(&args.webhook.of).await?;
    let overlap = Duration::from_secs(args.overlap_s);
    let webhook = id(&args.webhook)?;
    let (_, secret) = place.admin().rotate(webhook, None, overlap).await?;
    print(&format!("{secret}\n"))
}

async fn test(args: &WebhookArgs) -> anyhow::Result<()> {
    let place = Place::of(&args.of).await?;
    let event = place.admin().test(id(args)?).await?;
    print(&format!("{event}\n"))
}

async fn deliveries(args: &DeliveriesArgs) -> anyhow::Result<()> {
    let state = match &args.state {
        None => None,
        Some(word) => Some(DeliveryState::parse(word).ok_or_else(|| {
            let known = DeliveryState::ALL.map(DeliveryState::as_str).join(", ");
            anyhow!("--state {word:?} is none of {known}")
        })?),
    };
    let place = Place::of(&args.webhook.of).await?;
    let webhook = id(&args.webhook)?;
    let admin = place.admin();
    let listed = admin.deliveries(webhook, (state, None), None, args.limit);
    let (rows, _) = listed.await?;
    let rows: Vec<_> = rows.iter().map(delivery_row).collect();
    print(&table(
        ["ID", "EVENT", "STATE", "ATTEMPTS", "LAST", "MADE"],
        &rows,
    ))
}

/// Prints how many are sent again.
async fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    let place = Place::of(&args.of).await?;
    let admin = place.admin();
    let webhook = parse_id(&args.id)?;
    let replayed = match &args.delivery {
        Some(delivery) => {
            admin.replay(webhook, delivery.clone()).await?;
            1
        }
        None => admin.replay_dead(webhook).await?,
    };
    print(&format!("{replayed} sent again\n"))
}

fn id(args: &WebhookArgs) -> anyhow::Result<WebhookId> {
    parse_id(&args.id)
}

fn parse_id(text: &str) -> anyhow::Result<WebhookId> {
    WebhookId::parse(text).with_context(|| {
        format!("{text:?} is no id of a webhook; 'turnwright webhooks list' prints them")
    })
}

fn event(word: &str) -> anyhow::Result<WebhookEvent> {
    let known = WebhookEvent::ALL.into_iter();
    let mut named = known.filter(|event| event.as_str() == word);
    named.next().ok_or_else(|| {
        let known = WebhookEvent::ALL.map(WebhookEvent::as_str).join(", ");
        anyhow!("--events: {word:?} is none of {known}")
    })
}

fn state(row: &WebhookRow) -> String {
    match (row.disabled, row.failing) {
        (Some((why, _)), _) => format!("disabled ({})", why.as_str()),
        (None, Some(_)) => format!("failing ({})", row.failures),
        (None, None) => "enabled".to_owned(),
    }
}

fn webhook_row(row: &WebhookRow) -> [String; 6] {
    let settings = &row.settings;
    let events = if settings.events == WebhookEvents::of(&WebhookEvent::ALL) {
        "all".to_owned()
    } else {
        let words: Vec<_> = settings.events.iter().map(WebhookEvent::as_str).collect();
        words.join(",")
    };
    [
        row.id.to_string(),
        state(row),
        events,
        settings.contents.as_str().to_owned(),
        settings.url.clone(),
        settings.description.clone(),
    ]
}

fn delivery_row(row: &DeliveryRow) -> [String; 6] {
    let last = match (row.fault, row.http_status) {
        (Some(DeliveryFault::Status), Some(status)) | (None, Some(status)) => status.to_string(),
        (Some(fault), _) => fault.as_str().to_owned(),
        (None, None) => "-".to_owned(),
    };
    [
        row.event_id.clone(),
        row.event.as_str().to_owned(),
        row.state.as_str().to_owned(),
        row.attempts.to_string(),
        last,
        Timestamp::rfc3339(row.created),
    ]
}
