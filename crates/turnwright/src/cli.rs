//! Commands and their flags.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs the tools of language models on the server, and keeps the record.
#[derive(Parser, Debug)]
#[command(version, about)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Serve the API.
    Serve(ServeArgs),
    /// Show a whole tool loop with a scripted model: no key, no network, nothing is kept.
    Demo(DemoArgs),
    /// Make keys.
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Change and list the tools of an organization. Works while the server runs.
    Tools {
        #[command(subcommand)]
        command: ToolsCommand,
    },
    /// Tell other programs what happened: make webhooks, try them, and look at their deliveries. Works while the server
    /// runs.
    Webhooks {
        #[command(subcommand)]
        command: WebhooksCommand,
    },
    /// Print the calls that wait for somebody outside and are stuck, ask about their jobs, and end them by hand.
    /// Works while the server runs.
    Stuck(StuckArgs),
    /// Forget people. Works while the server runs.
    Users {
        #[command(subcommand)]
        command: UsersCommand,
    },
    /// Serve a scripted model, for tests of your own.
    Model(ModelArgs),
    /// Copy the database into a new file and check the copy. Works while the server runs.
    Backup(BackupArgs),
    /// Move a database to another place, between a folder and a PostgreSQL server either way, and check what is there
    /// then. No server may run on either.
    Copy(CopyArgs),
    /// Bring in what another application has recorded, and print a line of JSON for each row that had to be repaired.
    /// Works while the server runs; what is there already stays as it is.
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },
    /// Show the record to SQL as the tables of an application. For SQLite, print the statements that make the views for
    /// a connection; in PostgreSQL, make a schema of them. Works while the server runs.
    Sql(SqlArgs),
    /// Give back what was imported of another application: its tables with the rows as they came. Works while the
    /// server runs.
    Export {
        #[command(subcommand)]
        command: ExportCommand,
    },
    /// Say what is wrong with a configuration and a data folder; changes nothing.
    Doctor(DoctorArgs),
    /// Print every setting with its default and what it means, as a config file.
    Config,
}

#[derive(Subcommand, Debug)]
pub enum KeysCommand {
    /// Make a key and print it; it is shown only now. Works while the server runs.
    Create(CreateKeyArgs),
    /// Print all keys: how they begin, organization, name, scopes, tools, limits, and when they were made, used
    /// last, and end.
    List(KeysOf),
    /// End a key. A server that runs refuses it within two seconds.
    Revoke(RevokeKeyArgs),
}

#[derive(Subcommand, Debug)]
pub enum ToolsCommand {
    /// Make and change tools by name, and print what changed.
    Apply(ApplyToolsArgs),
    /// Print the tools, those that are built in first: name, type, version, effect, label.
    List(ToolsOf),
}

#[derive(Subcommand, Debug)]
pub enum WebhooksCommand {
    /// Make a webhook and print its secret; it is shown only now.
    Create(CreateWebhookArgs),
    /// Print the webhooks: id, state, events, contents, URL.
    List(ToolsOf),
    /// Tell a webhook again that was disabled.
    Enable(WebhookArgs),
    /// Tell a webhook nothing for a while.
    Disable(WebhookArgs),
    /// Take a webhook away.
    Delete(WebhookArgs),
    /// Give a webhook a new secret and print it; messages are signed with the old one, too, for a day.
    Rotate(RotateWebhookArgs),
    /// Send a test event and print its id.
    Test(WebhookArgs),
    /// Print deliveries, newest first: id, event, state, attempts, the last status or fault, when they were made.
    Deliveries(DeliveriesArgs),
    /// Send a delivery again, or all that were given up.
    Replay(ReplayArgs),
}

#[derive(Subcommand, Debug)]
pub enum UsersCommand {
    /// Delete and erase all that an end user's turns hold, and print the name under which counts and costs stay.
    Erase(EraseUserArgs),
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct StuckArgs {
    #[command(subcommand)]
    pub command: Option<StuckCommand>,
    #[command(flatten)]
    pub list: ListStuckArgs,
}

#[derive(Args, Debug)]
pub struct ListStuckArgs {
    /// Print all open calls, stuck or not.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub of: ToolsOf,
}

#[derive(Subcommand, Debug)]
pub enum StuckCommand {
    /// Have the server ask about a call's job at once.
    Poll(OpenCallArgs),
    /// End a call as failed; the model is told why.
    Fail(EndCallArgs),
    /// End a call with a result.
    Complete(EndCallArgs),
}

#[derive(Args, Debug)]
pub struct OpenCallArgs {
    /// The call's id, as `stuck` prints it.
    pub call: String,
    #[command(flatten)]
    pub of: ToolsOf,
}

#[derive(Args, Debug)]
pub struct EndCallArgs {
    /// The call's id, as `stuck` prints it.
    pub call: String,
    /// Why it failed, or its result.
    pub text: String,
    #[command(flatten)]
    pub of: ToolsOf,
}

#[derive(Args, Debug)]
pub struct EraseUserArgs {
    /// The end user's name, as requests have it.
    pub name: String,
    /// The organization's slug.
    #[arg(long, default_value = "default")]
    pub organization: String,
    #[command(flatten)]
    pub of: KeysOf,
}

#[derive(Args, Debug)]
pub struct CreateWebhookArgs {
    /// Where to send to: https, or what [[egress.allow]] of the config names.
    pub url: String,
    /// Kinds of events, with commas between: turn.completed, turn.incomplete, turn.failed,
    /// turn.cancelled, call.completed, call.failed. [default: all]
    #[arg(long, value_delimiter = ',')]
    pub events: Vec<String>,
    /// Send contents, too: answers of turns, arguments and results of calls.
    #[arg(long)]
    pub contents: bool,
    /// For people.
    #[arg(long, default_value = "")]
    pub description: String,
    #[command(flatten)]
    pub of: ToolsOf,
}

#[derive(Args, Debug)]
pub struct WebhookArgs {
    /// The webhook's id, as `webhooks list` prints it.
    pub id: String,
    #[command(flatten)]
    pub of: ToolsOf,
}

#[derive(Args, Debug)]
pub struct RotateWebhookArgs {
    /// Seconds for which messages are signed with the old secret, too.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub overlap_s: u64,
    #[command(flatten)]
    pub webhook: WebhookArgs,
}

#[derive(Args, Debug)]
pub struct DeliveriesArgs {
    /// Only those in this state: pending, delivered or dead. [default: all]
    #[arg(long)]
    pub state: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    #[command(flatten)]
    pub webhook: WebhookArgs,
}

#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// The webhook's id, as `webhooks list` prints it.
    pub id: String,
    /// The delivery's id, as `webhooks deliveries` prints it.
    #[arg(required_unless_present = "dead", conflicts_with = "dead")]
    pub delivery: Option<String>,
    /// All that were given up.
    #[arg(long)]
    pub dead: bool,
    #[command(flatten)]
    pub of: ToolsOf,
}

/// A database on a server, which takes the place of the file in the data folder.
#[derive(Args, Clone, Debug, Default)]
pub struct StoreArgs {
    /// A PostgreSQL database, postgres://USER:PASSWORD@HOST:PORT/DATABASE, which takes the place of the file in the
    /// data folder. [default: DATABASE_URL, if it names one, or server.store of the config]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
}

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Where to listen; port 0 takes a free one. [default: server.listen of the config, or 127.0.0.1:8787]
    #[arg(long)]
    pub listen: Option<SocketAddr>,
    /// Where to serve /metrics without a key; only operators should reach it. [default: server.metrics_listen of
    /// the config, or nowhere]
    #[arg(long)]
    pub metrics_listen: Option<SocketAddr>,
    /// Take the listening socket over from the server that runs on the folder, wait until it has
    /// drained, and go on in its place; start as usual if none runs.
    #[arg(long)]
    pub take_over: bool,
    /// The folder of the database. [default: server.data of the config, or turnwright-data]
    #[arg(long, env = "TURNWRIGHT_DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// A TOML file; `turnwright config` prints every key and its default. [default: no file]
    #[arg(long)]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct ApplyToolsArgs {
    /// A list of tools as the tools API takes them: FILE.json or FILE.toml (each one [[tool]]), or
    /// `-` for JSON from standard input.
    pub file: PathBuf,
    /// Remove the tools that are not in the file.
    #[arg(long)]
    pub prune: bool,
    /// Only print what would change.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub of: ToolsOf,
}

/// Whose tools, and where they are.
#[derive(Args, Debug)]
pub struct ToolsOf {
    /// The organization's slug.
    #[arg(long, default_value = "default")]
    pub organization: String,
    /// The folder of the database. [default: server.data of the config, or turnwright-data]
    #[arg(long, env = "TURNWRIGHT_DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The server's TOML file, which says what tools may reach and which secrets they may name. [default: no file]
    #[arg(long)]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct KeysOf {
    /// The folder of the database.
    #[arg(long, env = "TURNWRIGHT_DATA", default_value = "turnwright-data")]
    pub data: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Args, Debug)]
pub struct RevokeKeyArgs {
    /// The key, or how it begins as `keys list` prints it.
    pub key: String,
    #[command(flatten)]
    pub of: KeysOf,
}

#[derive(Args, Debug)]
pub struct BackupArgs {
    /// Where the copy is to be; nothing is overwritten.
    pub file: PathBuf,
    /// The folder of the database.
    #[arg(long, env = "TURNWRIGHT_DATA", default_value = "turnwright-data")]
    pub data: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Subcommand, Debug)]
pub enum ImportCommand {
    /// Tables `conversations` and `messages` of an application that uses LangChain.
    Langchain(ImportArgs),
    /// Tables `conversations` and `messages` with `tool_calls`, `function_call` and `content_json`, as messages of
    /// chat completions are.
    Openai(ImportArgs),
    /// Tables `conversations` and `messages` whose `content` is a list of blocks, tool_use and tool_result among them.
    Blocks(ImportArgs),
    /// The file of PocketBase (pb_data/data.db) with collections `conversations`, `turns` and `tool_calls`.
    Pocketbase(ImportArgs),
    /// Tables `tools`, `agents` and `agent_tools` of an application whose calls VAPI makes. Tools are made of what says
    /// where its requests go.
    Vapi(ImportToolsArgs),
}

#[derive(Args, Debug)]
pub struct ImportToolsArgs {
    #[command(flatten)]
    pub import: ImportArgs,
    /// The id of the application's organization whose tools are made; the rows of others are only kept.
    /// [default: those of all]
    #[arg(long)]
    pub only: Option<String>,
}

#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The application's database: a SQLite file, or postgres://USER:PASSWORD@HOST:PORT/DATABASE. It is only read.
    pub source: String,
    /// The key whose turns they become, or whose organization's tools: the key, or how it begins as `keys list` prints it.
    #[arg(long)]
    pub key: String,
    /// The folder of the database. [default: server.data of the config, or turnwright-data]
    #[arg(long, env = "TURNWRIGHT_DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The server's TOML file. [default: no file]
    #[arg(long)]
    pub config: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub enum ExportCommand {
    /// Tables `conversations` and `messages` of an application that uses LangChain.
    Langchain(ExportArgs),
    /// Tables `conversations` and `messages` as messages of chat completions are.
    Openai(ExportArgs),
    /// Tables `conversations` and `messages` whose `content` is a list of blocks.
    Blocks(ExportArgs),
    /// A file of PocketBase.
    Pocketbase(ExportArgs),
    /// Tables of an application whose calls VAPI makes.
    Vapi(ExportArgs),
}

#[derive(Args, Debug)]
pub struct ExportArgs {
    /// A SQLite file, which is made if it is not there, or postgres://USER:PASSWORD@HOST:PORT/DATABASE. Its tables are
    /// made, or empty.
    pub target: String,
    /// The organization's slug.
    #[arg(long, default_value = "default")]
    pub organization: String,
    /// The folder of the database. [default: server.data of the config, or turnwright-data]
    #[arg(long, env = "TURNWRIGHT_DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The server's TOML file. [default: no file]
    #[arg(long)]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct SqlArgs {
    /// The tables that the views are named and made like: openai, langchain, blocks, pocketbase or vapi.
    pub shape: String,
    /// The slug of the organization whose rows they show.
    #[arg(long, default_value = "default")]
    pub organization: String,
    /// The key as which rows are inserted, whose organization's rows are shown: the key, or how it begins as `keys list`
    /// prints it. [default: none, and nothing is inserted]
    #[arg(long, conflicts_with = "organization")]
    pub key: Option<String>,
    /// The role of PostgreSQL that sees these rows; each role sees those of one organization. [default: the role that
    /// this command connects as]
    #[arg(long)]
    pub role: Option<String>,
    /// The name of the schema. [default: the shape's]
    #[arg(long)]
    pub schema: Option<String>,
    /// Only print the statements that make the schema.
    #[arg(long)]
    pub print: bool,
    /// The folder of the database. [default: server.data of the config, or turnwright-data]
    #[arg(long, env = "TURNWRIGHT_DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The server's TOML file. [default: no file]
    #[arg(long)]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct CopyArgs {
    /// The data folder, the file or the URL (postgres://USER:PASSWORD@HOST:PORT/DATABASE) of the database. It stays as
    /// it is.
    #[arg(long, value_name = "PATH|URL")]
    pub from: String,
    /// The data folder or the URL of an empty database that it goes to.
    #[arg(long, value_name = "PATH|URL")]
    pub to: String,
    /// The server's TOML file, which says what certificates are trusted. [default: no file]
    #[arg(long)]
    pub config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// The folder of the database. [default: server.data of the config, or turnwright-data]
    #[arg(long, env = "TURNWRIGHT_DATA")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The server's TOML file. [default: no file]
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Connect to each upstream, too; no model is asked.
    #[arg(long)]
    pub ask: bool,
}

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
}

#[derive(Args, Debug)]
pub struct ModelArgs {
    /// The script, a TOML file.
    pub file: PathBuf,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8099")]
    pub listen: SocketAddr,
}

#[derive(Args, Debug)]
pub struct CreateKeyArgs {
    /// The folder of the database.
    #[arg(long, env = "TURNWRIGHT_DATA", default_value = "turnwright-data")]
    pub data: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The organization's slug; it is made if it does not exist.
    #[arg(long, default_value = "default")]
    pub organization: String,
    /// For people to tell keys apart.
    #[arg(long, default_value = "")]
    pub name: String,
    /// Tools that requests with this key are offered: names separated by commas, or `all`.
    /// [default: none]
    #[arg(long, value_delimiter = ',')]
    pub tools: Vec<String>,
    /// What becomes of these tools where a request brings a list of its own: it takes their place, or they are added.
    #[arg(long, value_enum, default_value = "replace")]
    pub tools_mode: ToolsModeArg,
    /// Take names of tools that there are not yet.
    #[arg(long)]
    pub allow_unknown_tools: bool,
    /// What the key may do, with commas between: chat, turns:read, turns:read_all, tools:read,
    /// tools:write, webhooks:read, webhooks:write, admin.
    /// [default: chat,turns:read,tools:read]
    #[arg(long = "scope", value_delimiter = ',')]
    pub scopes: Vec<String>,
    /// How long contents of turns are kept when a request does not say.
    #[arg(long, value_enum, default_value = "full")]
    pub record: RecordArg,
    /// `key`: all requests with this key are of one person. [default: whom each request names]
    #[arg(long, value_enum)]
    pub memory: Option<MemoryArg>,
    /// Requests per minute that begin a turn; 0 is no limit. [default: rate.key of the server's config]
    #[arg(long, value_name = "N")]
    pub requests_per_minute: Option<u32>,
    /// Turns that run at once; 0 is no limit. [default: rate.key of the server's config]
    #[arg(long, value_name = "N")]
    pub concurrency: Option<u32>,
    /// Streams that are open at once; 0 is no limit. [default: rate.key of the server's config]
    #[arg(long, value_name = "N")]
    pub streams: Option<u32>,
    /// Days until the key expires. [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expires_days: Option<u32>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum ToolsModeArg {
    Replace,
    Add,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum RecordArg {
    Full,
    Minimal,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum MemoryArg {
    Key,
}

#[cfg(test)]
mod tests;
