//! The demo's picture: a job of a local image service, which calls back when it is done.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tw_egress::client::host_port::AllowedDestination;
use tw_egress::client::resolve::{FixedAnswers, Resolver};
use tw_egress::client::{
    ClientOptions, EgressClient, PoolOptions, READ_BYTES_MAX_DEFAULT, web_roots,
};
use tw_egress::secret::Secret;
use tw_egress::secrets::{SecretGrant, Secrets};
use tw_runtime::runtime::RuntimeConfig;
use tw_testkit::job_api::{JobApi, JobApiOptions};

use super::client::DemoClient;
use super::{MODEL, report};
use crate::printed;

const QUESTION: &str = "Draw a sunset over the sea.";
const ORGANIZATION: &str = "default";
const KEY: &str = "demo-image-key";
const HMAC_KEY: &str = "demo-callback-key";
/// Long enough to be seen.
const TAKES: Duration = Duration::from_secs(2);

/// A stand-in of an API for image jobs, on loopback.
pub struct ImageService {
    api: JobApi,
}

impl ImageService {
    pub async fn start() -> anyhow::Result<Self> {
        let options = JobApiOptions {
            key: KEY.to_owned(),
            hmac_key: Some(HMAC_KEY.to_owned()),
            takes: Some(TAKES),
            images: 1,
        };
        let api = JobApi::start(options).await;
        Ok(Self {
            api: api.context("starting the demo's image service")?,
        })
    }

    fn place(&self) -> String {
        self.api.listener.url("").replace("http://", "")
    }

    /// The configuration with leave for tools to reach the service, and nothing else that is private.
    pub fn reached_by(&self, config: RuntimeConfig) -> anyhow::Result<RuntimeConfig> {
        let place = self.place();
        let allowed = AllowedDestination::parse(&place, Some(vec![ORGANIZATION.to_owned()]));
        let grant = |name: &str, value: &str| SecretGrant {
            name: name.to_owned(),
            value: Secret::new(value.to_owned()),
            organizations: vec![ORGANIZATION.to_owned()],
            hosts: vec![place.clone()],
        };
        let secrets = Secrets::new(vec![
            grant("IMAGE_KEY", KEY),
            grant("IMAGE_CALLBACK_KEY", HMAC_KEY),
        ]);
        Ok(RuntimeConfig {
            tool_client: EgressClient::new(ClientOptions {
                resolver: Resolver::Fixed(FixedAnswers::default()),
                allowed: vec![allowed.context("the image service's address")?],
                denied: Vec::new(),
                trusted_roots: web_roots(),
                certificates: Vec::new(),
                proxy: None,
                pool: PoolOptions::defaults(),
                read_bytes_max: READ_BYTES_MAX_DEFAULT,
            }),
            secrets: Arc::new(secrets.context("the demo's secrets")?),
            ..config
        })
    }

    /// The tool, as anybody would define it for the real API.
    fn tool(&self) -> Value {
        json!({
            "name": "generate_image",
            "type": "image",
            "api_url": self.api.listener.url(""),
            "key": { "secret": "IMAGE_KEY" },
            "callback_secrets": ["IMAGE_CALLBACK_KEY"],
            "every_s": [10],
        })
    }
}

/// Defines the tool, asks for a picture, and looks at it as any client could.
pub async fn show(client: &DemoClient, service: &ImageService) -> anyhow::Result<()> {
    client.post("/api/default/tools", &service.tool()).await?;
    printed::say(format_args!(
        "\nA tool whose results come later: {QUESTION}\n\n"
    ));
    let request = json!({
        "model": MODEL,
        "stream": true,
        "messages": [{ "role": "user", "content": QUESTION }],
    });
    let answered = client
        .stream("/v1/chat/completions", &request, report::print_delta)
        .await?;
    let Some(turn) = answered.turn else {
        bail!("the answer named no turn");
    };
    let record = client.get(&format!("/v1/turns/{turn}?full=1")).await?;
    printed::say(format_args!("\n\n{}", report::rounds(&record)?));
    let call = &record["rounds"][0]["calls"][0];
    let file = &call["files"][0];
    let Some(url) = file["url"].as_str() else {
        bail!("the picture is not there: {call}");
    };
    let path = url.find("/files/").map_or(url, |at| &url[at..]);
    let picture = client.bytes(path).await?;
    printed::say(format_args!(
        "  The image service took the job {}, called back when it was done, and was asked whether that is true.\n  \
         The picture is in the database now: {} bytes of {}, under a link that holds for an hour:\n  {url}\n\n",
        report::text(&call["external_id"]),
        picture.len(),
        report::text(&file["content_type"]),
    ));
    Ok(())
}
