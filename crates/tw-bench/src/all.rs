//! `tw-bench all`: the server beside nginx and a direct connection, with the targets that must hold.
//!
//! The server under measurement has one CPU; load and fake upstream share another. Each round starts the servers
//! afresh and runs every scenario on each of them in turn, so that a machine's drift meets all of them. Ratios are
//! those of the medians over the rounds.

mod figures;
mod nginx;
pub mod process;
mod record;
mod report;
pub mod request;
mod round;
pub mod scenarios;
pub mod servers;
mod targets;
pub mod turnwright;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::machine::cpus::{self, Cpus};
use crate::upstream::FakeUpstream;
use figures::Figures;
use round::{Bench, RoundFindings};
use scenarios::{MeasuredPeer, Scenario};
use targets::{SpeedTarget, TARGETS};

#[derive(clap::Args)]
pub struct AllArgs {
    /// The server's program; by default `turnwright` beside this one.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Length of a measured window.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Scenarios to run; the targets of the others are not judged.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Scenario>,
}

/// Streams at both sides of the server, and what a process has open beside.
pub const OPEN_FILES: u64 = 32_768;
/// Files that a process has open beside its streams: among them the idle connections that nginx and
/// the server keep to the fake upstream, 1,024 each.
const OPEN_FILES_BESIDE: u64 = 3 * 1024;
const SERVER: &str = "turnwright";

/// Runs the rounds; succeeds if every target holds.
///
/// # Errors
/// Something could not be measured at all.
pub fn run(args: AllArgs) -> anyhow::Result<ExitCode> {
    ensure!(args.seconds > 0, "--seconds must be at least 1");
    ensure!(args.rounds > 0, "--rounds must be at least 1");
    let bench = prepare(&args)?;
    let mut figures = Figures::default();
    let mut findings = RoundFindings::default();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        bench.round(&mut figures, &mut findings)?;
    }
    println!(
        "medians of {} rounds of {} s; server on CPU {}, load and fake upstream on CPU {}, synchronous=FULL",
        args.rounds, args.seconds, bench.cpus.server, bench.cpus.rig
    );
    for scenario in &bench.scenarios {
        print!("{}", report::table(*scenario, &figures));
    }
    Ok(conclude(&bench, &figures, &findings))
}

fn prepare(args: &AllArgs) -> anyhow::Result<Bench> {
    let (server, folder) = program(args.server.as_deref())?;
    let scenarios: Vec<Scenario> = Scenario::value_variants()
        .iter()
        .copied()
        .filter(|scenario| args.only.is_empty() || args.only.contains(scenario))
        .collect();
    let needs_nginx = scenarios
        .iter()
        .any(|scenario| scenario.shape().peers.contains(&MeasuredPeer::Nginx));
    let nginx = if needs_nginx {
        let program = nginx::find();
        Some(program.context("nginx is missing: install it first, nothing is installed here")?)
    } else {
        None
    };
    let cpus = Cpus::choose()?;
    let open_files = cpus::raise_open_files(OPEN_FILES)?;
    // What this thread starts from now on stays here too; servers are moved away.
    cpus::pin_this_thread(cpus.rig)?;
    Ok(Bench {
        upstream: FakeUpstream::start()?,
        server,
        nginx,
        scenarios,
        window: Duration::from_secs(args.seconds.into()),
        cpus,
        folder,
        streams_max: usize::try_from(open_files.saturating_sub(OPEN_FILES_BESIDE) / 2)?,
    })
}

/// The server's program, and the folder of this one, which is on a disk.
///
/// # Errors
/// It is missing.
pub fn program(given: Option<&Path>) -> anyhow::Result<(PathBuf, PathBuf)> {
    let own = std::env::current_exe().context("where this program is")?;
    let folder = own.parent().context("where this program is")?.to_owned();
    let server = given.map_or_else(|| folder.join(SERVER), Path::to_owned);
    ensure!(
        server.is_file(),
        "{} is missing: cargo build --release -p turnwright -p tw-bench",
        server.display()
    );
    Ok((server, folder))
}

/// Prints what is wrong, if anything is.
fn conclude(bench: &Bench, figures: &Figures, findings: &RoundFindings) -> ExitCode {
    println!();
    for noisy in &findings.noisy {
        println!("noisy: {noisy}");
    }
    for fewer in &findings.fewer {
        println!("fewer: {fewer}");
    }
    for wrong in &findings.wrong {
        println!("FAIL  {wrong}");
    }
    println!(
        "{} answers checked, {} turns found in the record",
        findings.answers, findings.recorded
    );
    let failed: Vec<&SpeedTarget> = TARGETS
        .iter()
        .filter(|target| bench.scenarios.contains(&target.scenario))
        .filter(|target| !target.judge(figures).holds())
        .collect();
    if failed.is_empty() && findings.wrong.is_empty() {
        println!("all targets hold");
        return ExitCode::SUCCESS;
    }
    let names: Vec<String> = failed
        .iter()
        .map(|target| format!("{} ({})", target.scenario.name(), target.says()))
        .collect();
    println!(
        "failed: {} targets{}{}",
        names.len(),
        if names.is_empty() { "" } else { ": " },
        names.join("; ")
    );
    ExitCode::FAILURE
}
