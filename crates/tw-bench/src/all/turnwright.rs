//! The server under measurement, set up with its own commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::json;
use tw_testkit::postgres::PostgresSchema;

use super::process::{self, BenchProcess};
use super::record::BenchRecord;
use super::scenarios::{MeasuredPeer, ScenarioTools};
use super::servers::{ApiKeySpread, BenchServer};
use crate::machine::cpus::Cpus;
use crate::spoken::SpokenFormat;

pub const TOOL: &str = "bench_weather";
/// Name of the tool that breaks off after its request was read.
pub const BROKEN_TOOL: &str = "bench_broken";
/// Limit of calls at once, which are more than are ever in flight.
const TOOL_CONCURRENCY: usize = 256;
const DATA: &str = "data";
const CONFIG: &str = "config.toml";
const DATABASE: &str = "turnwright.db";
const LISTENING: &str = "listening on http://";

/// Starts `turnwright serve` with a record of its own in `folder`.
///
/// # Errors
/// It does not start.
pub fn start(
    program: &Path,
    folder: &Path,
    upstream: SocketAddr,
    tools: ScenarioTools,
    cpus: Cpus,
) -> anyhow::Result<BenchServer> {
    let keys = prepare(program, folder, upstream, tools, None)?;
    start_again(program, folder, keys, cpus)
}

/// Starts the same on a PostgreSQL server; `None` where there is none.
///
/// # Errors
/// It does not start.
pub fn start_on_postgres(
    program: &Path,
    folder: &Path,
    upstream: SocketAddr,
    cpus: Cpus,
) -> anyhow::Result<Option<BenchServer>> {
    let waiting = tokio::runtime::Runtime::new()?;
    let Some(schema) = waiting.block_on(PostgresSchema::create()) else {
        return Ok(None);
    };
    let keys = prepare(program, folder, upstream, ScenarioTools::One, Some(&schema))?;
    let mut command = Command::new(program);
    command
        .arg("serve")
        .arg("--config")
        .arg(folder.join(CONFIG))
        .args(["--store", &schema.url]);
    let record = Some(BenchRecord::Postgres(schema));
    serve(MeasuredPeer::Postgres, command, folder, record, keys, cpus).map(Some)
}

/// Makes what a server needs in `folder`.
///
/// # Errors
/// One of its commands fails.
pub fn prepare(
    program: &Path,
    folder: &Path,
    upstream: SocketAddr,
    tools: ScenarioTools,
    schema: Option<&PostgresSchema>,
) -> anyhow::Result<ApiKeySpread> {
    let data = folder.join(DATA);
    std::fs::create_dir_all(&data)?;
    let config = folder.join(CONFIG);
    process::write(&config, &settings(&data, upstream, tools))?;
    set_up(program, &data, &config, upstream, tools, schema)
}

/// Where the record of a server in `folder` is that has none elsewhere.
pub fn database(folder: &Path) -> PathBuf {
    folder.join(DATA).join(DATABASE)
}

/// Starts a server on what an earlier one left in `folder`.
///
/// # Errors
/// It does not start.
pub fn start_again(
    program: &Path,
    folder: &Path,
    keys: ApiKeySpread,
    cpus: Cpus,
) -> anyhow::Result<BenchServer> {
    let mut command = Command::new(program);
    command
        .arg("serve")
        .arg("--config")
        .arg(folder.join(CONFIG));
    let record = Some(BenchRecord::File(database(folder)));
    serve(
        MeasuredPeer::Turnwright,
        command,
        folder,
        record,
        keys,
        cpus,
    )
}

/// Starts the same server inside this program, whose writer writes nothing.
///
/// # Errors
/// It does not start.
pub fn start_unrecorded(
    program: &Path,
    folder: &Path,
    upstream: SocketAddr,
    cpus: Cpus,
) -> anyhow::Result<BenchServer> {
    let data = folder.join(DATA);
    let keys = prepare(program, folder, upstream, ScenarioTools::One, None)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["server", "--writer", "null", "--data"])
        .arg(&data)
        .arg("--upstream")
        .arg(upstream.to_string());
    // What it acknowledges is nowhere.
    serve(MeasuredPeer::Unrecorded, command, folder, None, keys, cpus)
}

fn serve(
    peer: MeasuredPeer,
    mut command: Command,
    folder: &Path,
    record: Option<BenchRecord>,
    keys: ApiKeySpread,
    cpus: Cpus,
) -> anyhow::Result<BenchServer> {
    let log = folder.join("server.log");
    for name in [
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ENABLE_TOOLS",
        "TURNWRIGHT_DATA",
        "DATABASE_URL",
    ] {
        command.env_remove(name);
    }
    command.env("RUST_LOG", "warn");
    let mut process =
        BenchProcess::start(peer.name(), cpus.server, &command, Stdio::piped(), &log)?;
    let line = process.first_line(&log)?;
    let address = line.strip_prefix(LISTENING);
    let address = address.with_context(|| format!("{} says {line:?}", peer.name()))?;
    Ok(BenchServer {
        peer,
        address: address.parse().context("where the server listens")?,
        keys,
        process: Some(process),
        record,
    })
}

/// Makes the tool and the keys, with the server's own commands.
fn set_up(
    program: &Path,
    data: &Path,
    config: &Path,
    upstream: SocketAddr,
    tools: ScenarioTools,
    schema: Option<&PostgresSchema>,
) -> anyhow::Result<ApiKeySpread> {
    let on_record = |words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).env_remove("DATABASE_URL");
        command.arg("--data").arg(data);
        if let Some(schema) = schema {
            command.args(["--store", &schema.url]);
        }
        command
    };
    let key = |granted: &[&str]| process::output(on_record(&["keys", "create"]).args(granted));
    let plain = key(&[])?;
    let (tool, any_tool) = match tools {
        ScenarioTools::None => (None, None),
        ScenarioTools::One | ScenarioTools::Mixed => {
            let file = config.with_file_name("tools.json");
            process::write(&file, &tool_file(upstream))?;
            let mut command = on_record(&["tools", "apply"]);
            // The configuration says what tools may reach.
            command.arg(&file).arg("--config").arg(config);
            process::output(&mut command)?;
            (
                Some(key(&["--tools", TOOL])?),
                Some(key(&["--tools", "all"])?),
            )
        }
    };
    Ok(ApiKeySpread {
        plain,
        tool,
        any_tool,
    })
}

fn tool_file(upstream: SocketAddr) -> String {
    let tool = |name: &str, path: &str| {
        json!({
            "name": name,
            "description": "The current weather in a city.",
            "type": "api_request",
            "method": "POST",
            "url": format!("http://{upstream}{path}"),
            "parameters": {
                "city": {"mode": "ai", "schema": {"type": "string"}, "prompt": "The city and its country"},
            },
            "policy": {"effect": "once", "concurrency_max": TOOL_CONCURRENCY},
        })
    };
    json!([tool(TOOL, "/tool"), tool(BROKEN_TOOL, "/tool/broken")]).to_string()
}

fn settings(data: &Path, upstream: SocketAddr, tools: ScenarioTools) -> String {
    // A path in TOML's literal quotes stands for itself.
    let mut settings = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\ndata = '{}'\n",
        data.display()
    );
    for spoken in SpokenFormat::ALL {
        settings.push_str(&format!(
            "\n[[upstream]]\nname = \"{}\"\nkind = \"{}\"\nbase_url = \"http://{upstream}/v1\"\nmodels = [\"{}*\"]\n",
            spoken.format.reader_word(),
            spoken.upstream_kind,
            spoken.model_prefix,
        ));
    }
    match tools {
        ScenarioTools::None => {}
        ScenarioTools::One | ScenarioTools::Mixed => settings.push_str(&format!(
            "\n[[egress.allow]]\nplace = \"{upstream}\"\norganizations = [\"default\"]\n"
        )),
    }
    settings
}
