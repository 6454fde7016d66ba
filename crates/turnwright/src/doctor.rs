//! `turnwright doctor`: checks of a configuration and a data folder, one line each.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use tw_egress::env::Env;
use tw_egress::secrets::Tenancy;
use tw_egress::upstream::UpstreamConnections;
use tw_egress::upstream::check::{Severity, UpstreamFound, check};
use tw_runtime::metrics::DroppedLogLines;
use tw_store::inspection::DatabaseInspection;
use tw_store::store::log_path;
use tw_wire::stored::tool;

use crate::cli::{DoctorArgs, ServeArgs};
use crate::config::Settings;
use crate::data_folder::{FREE_BYTES_MIN, free_bytes};
use crate::database::{DATABASE, DatabasePlace};
use crate::printed;
use crate::serve::{LOCK, log_to_stderr};

/// Free space, in bytes, below which there is a warning.
const FREE_BYTES_LOW: u64 = 1024 * 1024 * 1024;
/// Length of the write-ahead log, in bytes, below which checkpoints keep it unless a reader holds them up.
const LOG_BYTES_HIGH: u64 = 64 * 1024 * 1024;
/// Time that a driver gets after the deadline to write the end.
const OVERDUE: Duration = Duration::from_secs(60);
/// Time that the proxy of tools has to take a connection: as long as a tool waits for one.
const PROXY_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest difference of the clocks of one machine over a restart.
const AHEAD_MAX: Duration = Duration::from_secs(60);

/// Results of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Ok,
    Warn,
    Fail,
}

/// Prints a line for each check as it is made.
struct Report {
    failed: u32,
}

impl Report {
    fn say(&mut self, mark: Mark, what: &str, found: &str) {
        let word = match mark {
            Mark::Ok => "ok  ",
            Mark::Warn => "warn",
            Mark::Fail => {
                self.failed += 1;
                "fail"
            }
        };
        // A line each: what others wrote may have several.
        printed::say(format_args!(
            "{word} {what}: {}\n",
            found.replace(['\n', '\r'], " ")
        ));
    }

    fn fail(&mut self, what: &str, error: impl Into<anyhow::Error>) {
        self.say(Mark::Fail, what, &format!("{:#}", error.into()));
    }
}

/// Makes the checks; changes nothing, and fails when a check does.
pub async fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let _log = log_to_stderr("off", DroppedLogLines::default())?;
    let mut report = Report { failed: 0 };
    let settings = check_config(&mut report, &args);
    let data = args.data.clone().or_else(|| {
        let settings = settings.as_ref()?;
        Some(settings.server.data.clone())
    });
    if let Some(data) = data {
        check_record(&mut report, &args, &data, settings.as_ref());
    }
    if let (Some(settings), true) = (&settings, args.ask) {
        check_network(&mut report, settings).await;
    }
    match report.failed {
        0 => Ok(()),
        1 => bail!("1 check failed"),
        failed => bail!("{failed} checks failed"),
    }
}

fn check_config(report: &mut Report, args: &DoctorArgs) -> Option<Settings> {
    let settings = Settings::load(&ServeArgs {
        listen: None,
        metrics_listen: None,
        take_over: false,
        data: args.data.clone(),
        store: args.store.clone(),
        config: args.config.clone(),
    });
    let settings = match settings {
        Ok(settings) => settings,
        Err(error) => {
            report.fail("configuration", error);
            return None;
        }
    };
    match settings.surfaces().and_then(|_| settings.runtime()) {
        Ok(config) => {
            let count = config.upstreams.len();
            report.say(Mark::Ok, "configuration", &format!("upstreams: {count}"));
        }
        Err(error) => report.fail("configuration", error),
    }
    Some(settings)
}

/// Checks the database on a server, or the file in the data folder.
fn check_record(report: &mut Report, args: &DoctorArgs, data: &Path, settings: Option<&Settings>) {
    let Some(settings) = settings else {
        return check_data(report, data, None);
    };
    let place = DatabasePlace::of(&args.store, settings, data);
    if let Ok(place) = &place
        && let Err(error) = settings.nats(place)
    {
        report.fail("NATS", error);
    }
    match place {
        Ok(DatabasePlace::Folder(folder)) => check_data(report, &folder, Some(settings)),
        Ok(DatabasePlace::Server(server)) => {
            let runs = check_folder(report, data) && check_lock(report, data);
            // A connection blocks whoever uses it.
            tokio::task::block_in_place(|| match server.inspect() {
                Ok(look) => {
                    report.say(Mark::Ok, "database", &server.to_string());
                    check_contents(report, &look, runs, Some(settings));
                }
                Err(error) => report.fail("database", error),
            });
        }
        Err(error) => report.fail("store", error),
    }
}

fn check_data(report: &mut Report, data: &Path, settings: Option<&Settings>) {
    if !check_folder(report, data) {
        return;
    }
    let database = data.join(DATABASE);
    check_free_space(report, data);
    let runs = check_lock(report, data);
    if !database.exists() {
        report.say(Mark::Warn, "database", "none yet; the first start makes it");
        return;
    }
    check_mode(report, &database);
    let look = match DatabaseInspection::open(&database) {
        Ok(look) => look,
        Err(error) => {
            report.fail("database", error);
            return;
        }
    };
    let log = std::fs::metadata(log_path(&database)).map_or(0, |found| found.len());
    let mark = if log > LOG_BYTES_HIGH {
        Mark::Warn
    } else {
        Mark::Ok
    };
    report.say(mark, "write-ahead log", &format!("{log} bytes"));
    check_contents(report, &look, runs, settings);
}

fn check_contents(
    report: &mut Report,
    look: &DatabaseInspection,
    runs: bool,
    settings: Option<&Settings>,
) {
    let is_current = check_schema(report, look);
    match look.faults() {
        Ok(faults) => match faults.first() {
            None => report.say(Mark::Ok, "integrity", "quick check passed"),
            Some(first) => report.say(Mark::Fail, "integrity", first),
        },
        Err(error) => report.fail("integrity", error),
    }
    if !is_current {
        return;
    }
    check_turns(report, look, runs);
    check_clock(report, look);
    if let Some(settings) = settings
        && let Err(error) = check_tools(report, look, settings)
    {
        report.fail("tools", error);
    }
}

fn check_folder(report: &mut Report, data: &Path) -> bool {
    match std::fs::metadata(data) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            report.say(
                Mark::Fail,
                "data folder",
                &format!("{} is no folder", data.display()),
            );
            return false;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let none = format!("{} is not there yet", data.display());
            report.say(Mark::Warn, "data folder", &none);
            return false;
        }
        Err(error) => {
            report.fail("data folder", error);
            return false;
        }
    }
    // The file is gone again at once.
    match tempfile::tempfile_in(data) {
        Ok(_) => report.say(Mark::Ok, "data folder", &data.display().to_string()),
        Err(error) => report.fail("data folder", error),
    }
    true
}

fn check_free_space(report: &mut Report, data: &Path) {
    match free_bytes(data) {
        Ok(free) => {
            let mark = match free {
                free if free < FREE_BYTES_MIN => Mark::Fail,
                free if free < FREE_BYTES_LOW => Mark::Warn,
                _ => Mark::Ok,
            };
            report.say(mark, "free space", &format!("{} MiB", free / 1024 / 1024));
        }
        Err(error) => report.fail("free space", error),
    }
}

/// Tells whether a server runs on the folder, as it reports.
fn check_lock(report: &mut Report, data: &Path) -> bool {
    // A lock that was never made is held by nobody; none is made here.
    let runs = File::open(data.join(LOCK)).is_ok_and(|lock| {
        matches!(
            lock.try_lock_shared(),
            Err(std::fs::TryLockError::WouldBlock)
        )
    });
    let said = if runs {
        "runs on the folder"
    } else {
        "does not run"
    };
    report.say(Mark::Ok, "server", said);
    runs
}

fn check_mode(report: &mut Report, database: &Path) {
    let open_to_others = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    };
    let files = [database.to_owned(), log_path(database)];
    match files.iter().find(|path| open_to_others(path)) {
        Some(path) => {
            let said = format!("others than the owner may open {}", path.display());
            report.say(Mark::Fail, "permissions", &said);
        }
        None => report.say(
            Mark::Ok,
            "permissions",
            "only the owner may open the database",
        ),
    }
}

/// Checks whether the database has the schema of this program.
fn check_schema(report: &mut Report, look: &DatabaseInspection) -> bool {
    match look.schema() {
        Ok((found, known)) if found == known => {
            report.say(Mark::Ok, "schema", &found.to_string());
            true
        }
        Ok((found, known)) => {
            let said = format!("{found}; the next start brings it to {known}: make a backup first");
            report.say(Mark::Warn, "schema", &said);
            false
        }
        Err(error) => {
            report.fail("schema", error);
            false
        }
    }
}

fn check_turns(report: &mut Report, look: &DatabaseInspection, server_runs: bool) {
    let stuck = match look.stuck(Env::system().now().before(OVERDUE)) {
        Ok(stuck) => stuck,
        Err(error) => return report.fail("turns", error),
    };
    let running = stuck.turns_running;
    if stuck.calls_left > 0 {
        let said = format!(
            "{} calls are open although their turn has ended",
            stuck.calls_left
        );
        report.say(Mark::Fail, "turns", &said);
    } else if !server_runs && running > 0 {
        let said = format!("{running} are unfinished; the next start goes on with them");
        report.say(Mark::Warn, "turns", &said);
    } else if stuck.turns_overdue > 0 {
        let said = format!("{} run beyond their deadline", stuck.turns_overdue);
        report.say(Mark::Fail, "turns", &said);
    } else {
        report.say(Mark::Ok, "turns", &format!("{running} running"));
    }
}

fn check_clock(report: &mut Report, look: &DatabaseInspection) {
    let now = Env::system().now();
    match look.newest() {
        Ok(Some(newest)) if newest > now.after(AHEAD_MAX) => {
            let ahead = newest.since(now).as_secs();
            let said = format!("the newest turn is {ahead} s ahead of this machine's clock");
            report.say(Mark::Fail, "clock", &said);
        }
        Ok(_) => report.say(Mark::Ok, "clock", "behind no turn"),
        Err(error) => report.fail("clock", error),
    }
}

/// Checks whether each tool could be made today as it is.
fn check_tools(
    report: &mut Report,
    look: &DatabaseInspection,
    settings: &Settings,
) -> anyhow::Result<()> {
    let vetting = settings.vetting()?;
    let tenancy = if look.organizations()? > 1 {
        Tenancy::Several
    } else {
        Tenancy::Single
    };
    let tools = look.tools()?;
    let mut refused = 0;
    for row in &tools {
        let slug = &row.organization_slug;
        let vetted = tool::decode(&row.definition)
            .and_then(|definition| vetting.vet(&definition, slug, tenancy));
        if let Err(error) = vetted {
            refused += 1;
            let said = format!("{slug}, tool {}: {error}", row.name);
            report.say(Mark::Fail, "tools", &said);
        }
    }
    if refused == 0 {
        report.say(Mark::Ok, "tools", &tools.len().to_string());
    }
    Ok(())
}

/// Checks whether the proxy of tools takes connections, and whether each upstream answers, with its
/// key; no model is asked.
async fn check_network(report: &mut Report, settings: &Settings) {
    // One that cannot be read was told of before.
    let Ok(config) = settings.runtime() else {
        return;
    };
    match config.tool_client.try_proxy(PROXY_TIMEOUT).await {
        None => {}
        Some(Ok(place)) => report.say(
            Mark::Ok,
            "proxy of tools",
            &format!("{place} takes connections"),
        ),
        Some(Err(error)) => report.fail("proxy of tools", error),
    }
    let connections = UpstreamConnections::default();
    for upstream in &config.upstreams {
        let what = format!("upstream {}", upstream.name);
        match check(&connections, upstream).await {
            Ok(UpstreamFound::Inside) => report.say(Mark::Ok, &what, "scripted"),
            Ok(UpstreamFound::Answers) => report.say(Mark::Ok, &what, "answers"),
            Ok(UpstreamFound::Models(models)) => {
                let url = upstream.shown_url().unwrap_or_default();
                let said = format!("lists {} models; chats at {url}", models.len());
                report.say(Mark::Ok, &what, &said);
            }
            Err(trouble) => {
                // Some servers have no list, and their models are written out.
                let has_names = upstream.models.written().next().is_some();
                let mark = match trouble.severity {
                    Severity::Perhaps if has_names => Mark::Warn,
                    Severity::Perhaps | Severity::Certain => Mark::Fail,
                };
                report.say(mark, &what, &trouble.to_string());
            }
        }
    }
}
