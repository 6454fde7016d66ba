//! `tw-bench soak`: half of the load that the server can take, for long, with faults.
//!
//! In the first half of the time the server is killed and restarted now and then, by turns; in the second it runs
//! undisturbed, so that its memory and its open files can be held against each other. Upstreams and tools fail all
//! the time, and clients leave. At the end nothing may be left running, and every answered turn must be recorded.

mod client;
mod job;
mod left_over;
mod watch;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::all::scenarios::ScenarioTools;
use crate::all::servers::{ApiKeySpread, BenchServer};
use crate::all::{self, turnwright};
use crate::load::pace::Pace;
use crate::machine::cpus::{self, Cpus};
use crate::upstream::FakeUpstream;
use client::SoakClient;
use watch::{ProcessSample, ProcessWatch};

#[derive(clap::Args)]
pub struct SoakArgs {
    /// The server's program; by default `turnwright` beside this one.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Length of the load, beside finding the rate and the checks at the end.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Requests a second; by default half of what the server can take.
    #[arg(long)]
    rate: Option<f64>,
}

/// Connections at once: more than a server at half load needs.
const CLIENTS: usize = 256;
/// Time for which the rate is looked for.
const TRIAL: Duration = Duration::from_secs(10);
/// Number of ends of the server in the first half.
const RESTARTS: u32 = 6;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Time for the end of what still runs when the load ends.
const LAST_ANSWERS: Duration = Duration::from_secs(60);

/// Runs the soak; succeeds if nothing leaks, is left over or is lost.
///
/// # Errors
/// It could not be run at all.
pub fn run(args: &SoakArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.minutes > 0, "--minutes must be at least 1");
    let (program, folder) = all::program(args.server.as_deref())?;
    let cpus = Cpus::choose()?;
    cpus::raise_open_files(all::OPEN_FILES)?;
    cpus::pin_this_thread(cpus.rig)?;
    let upstream = FakeUpstream::start()?;
    let folder = tempfile::Builder::new()
        .prefix("tw-soak-")
        .tempdir_in(&folder)
        .with_context(|| format!("making a folder in {}", folder.display()))?;
    let keys = turnwright::prepare(
        &program,
        folder.path(),
        upstream.address,
        ScenarioTools::One,
        None,
    )?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("a runtime")?;
    let place = Place {
        program,
        folder: folder.path().to_owned(),
        keys,
        cpus,
    };
    let findings = LocalSet::new().block_on(&runtime, soak(args, place))?;
    Ok(findings.conclude())
}

/// The folder, program and CPUs with which the server is started.
struct Place {
    program: PathBuf,
    folder: PathBuf,
    keys: ApiKeySpread,
    cpus: Cpus,
}

impl Place {
    fn start(&self) -> anyhow::Result<BenchServer> {
        turnwright::start_again(&self.program, &self.folder, self.keys.clone(), self.cpus)
    }
}

/// State that the clients share.
pub struct SoakState {
    pub keys: ApiKeySpread,
    pub address: Cell<SocketAddr>,
    /// Number that rises when a server ends and when the next one listens; odd in between.
    pub epoch: Cell<u64>,
    pub tally: RefCell<SoakTally>,
}

/// Counts of the answers that the clients got.
#[derive(Debug, Default)]
pub struct SoakTally {
    /// Requests that were answered as they had to be.
    pub answered: u64,
    /// Turns among them that were answered by a text, by id.
    pub completed: Vec<String>,
    /// Requests that were broken by a restart.
    pub interrupted: u64,
    pub left: u64,
    pub wrong_count: u64,
    /// The first few.
    pub wrong: Vec<String>,
}

const WRONG_SHOWN: usize = 20;

impl SoakTally {
    pub fn note_wrong(&mut self, what: String) {
        self.wrong_count += 1;
        if self.wrong.len() < WRONG_SHOWN {
            self.wrong.push(what);
        }
    }
}

async fn soak(args: &SoakArgs, place: Place) -> anyhow::Result<Findings> {
    let mut server = place.start()?;
    let shared = Rc::new(SoakState {
        keys: place.keys.clone(),
        address: Cell::new(server.address),
        epoch: Cell::new(0),
        tally: RefCell::default(),
    });
    let rate = match args.rate {
        Some(rate) => rate,
        None => {
            let answered = load(&shared, TRIAL, None).await?;
            answered as f64 / TRIAL.as_secs_f64() / 2.0
        }
    };
    println!("{rate:.0} requests a second for {} minutes", args.minutes);
    let lasts = Duration::from_secs(args.minutes * 60);
    let began = Instant::now();
    let loaded = tokio::task::spawn_local({
        let shared = Rc::clone(&shared);
        async move { load(&shared, lasts, Some(rate)).await }
    });
    let mut watch = ProcessWatch::new(&place.folder);
    for restart in 1..=RESTARTS {
        let due = began + lasts.mul_f64(f64::from(restart) / f64::from(RESTARTS) / 2.0);
        watch_until(due, &server, &mut watch).await;
        server = end_and_start(restart, server, &place, &shared).await?;
    }
    watch.begin_steady();
    watch_until(began + lasts, &server, &mut watch).await;
    loaded.await.context("the load")??;
    let database = turnwright::database(&place.folder);
    let running = left_over::wait_until_none_runs(&database, LAST_ANSWERS).await?;
    server.stop()?;
    let tally = shared.tally.take();
    let wrong = left_over::check(&database, &tally.completed)?;
    Ok(Findings {
        tally,
        running,
        wrong,
        watch,
    })
}

async fn watch_until(due: Instant, server: &BenchServer, watch: &mut ProcessWatch) {
    let pid = server.process.as_ref().map(|process| process.pid());
    while Instant::now() < due {
        sleep_until(due.min(Instant::now() + SAMPLE_INTERVAL)).await;
        if let Some(pid) = pid {
            watch.note(ProcessSample::of(pid));
        }
    }
}

/// Ends the server and starts it again: every other time it is killed, else asked to end.
async fn end_and_start(
    number: u32,
    mut server: BenchServer,
    place: &Place,
    shared: &SoakState,
) -> anyhow::Result<BenchServer> {
    shared.epoch.set(shared.epoch.get() + 1);
    let process = server.process.take().context("a server that runs")?;
    let kills = number % 2 == 1;
    // Clients go on asking meanwhile.
    let ended = tokio::task::spawn_blocking(move || {
        if kills {
            process.kill()
        } else {
            process.stop()
        }
    });
    ended.await.context("ending the server")??;
    let server = place.start()?;
    shared.address.set(server.address);
    shared.epoch.set(shared.epoch.get() + 1);
    println!(
        "{} and started again",
        if kills { "killed" } else { "stopped" }
    );
    Ok(server)
}

/// Asks for so long, at a rate or as fast as answers come; returns how many were answered.
async fn load(shared: &Rc<SoakState>, lasts: Duration, rate: Option<f64>) -> anyhow::Result<u64> {
    let before = shared.tally.borrow().answered;
    let starts = Instant::now();
    let ends = starts + lasts;
    let pace = match rate {
        Some(rate) => Some(Pace::start(rate, starts, ends)?),
        None => None,
    };
    let pace = Rc::new(pace);
    let mut clients = Vec::with_capacity(CLIENTS);
    for index in 0..CLIENTS {
        let (shared, pace) = (Rc::clone(shared), Rc::clone(&pace));
        clients.push(tokio::task::spawn_local(async move {
            let mut client = SoakClient::new(index, shared);
            loop {
                let goes_on = match pace.as_ref() {
                    Some(pace) => pace.next().await.is_some(),
                    None => Instant::now() < ends,
                };
                if !goes_on {
                    return;
                }
                if !client.ask().await {
                    // A server that is away is not asked again at once.
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }));
    }
    for client in clients {
        client.await.context("a client")?;
    }
    Ok(shared.tally.borrow().answered - before)
}

struct Findings {
    tally: SoakTally,
    /// Turns or calls that were still running at the end.
    running: u64,
    wrong: Vec<String>,
    watch: ProcessWatch,
}

impl Findings {
    fn conclude(mut self) -> ExitCode {
        let tally = &self.tally;
        println!(
            "{} answers, of which {} turns were completed; {} clients left; {} answers were broken by a restart",
            tally.answered,
            tally.completed.len(),
            tally.left,
            tally.interrupted
        );
        self.wrong.extend(self.watch.judge());
        if self.running > 0 {
            self.wrong
                .push(format!("{} turns or calls still run", self.running));
        }
        if tally.wrong_count > 0 {
            self.wrong.push(format!(
                "{} wrong answers: {}",
                tally.wrong_count,
                tally.wrong.join("; ")
            ));
        }
        for wrong in &self.wrong {
            println!("FAIL  {wrong}");
        }
        if self.wrong.is_empty() {
            println!("nothing was lost, left over or leaked");
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// The write-ahead log of the database in a server's folder.
fn wal_of(folder: &Path) -> PathBuf {
    folder.join("data").join("turnwright.db-wal")
}
