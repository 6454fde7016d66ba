//! The floor of durable recording: what SQLite alone takes for a turn that calls one tool.
//!
//! A turn is five steps, each of which must be on disk before the next: accepted and the first model request opened;
//! its answer and the pending call; the call started; the call completed and the second request opened; the answer
//! and the end. With a batch of `n`, the same step of `n` turns is one transaction, as group commit makes it.
//! One thread does all, so its CPU time is the whole price but for the disk.

mod cpu;
pub mod schema;
pub mod turns;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use turns::{TurnFactory, TurnShape};

use crate::percentile::percentile;

#[derive(clap::Args)]
pub struct FloorArgs {
    /// Seconds for which each batch size runs.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Turns that share each transaction.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    batch: Vec<usize>,
}

/// Work at one batch size.
#[derive(Default)]
struct Tally {
    turns: u64,
    elapsed: Duration,
    /// CPU time; `None` where the system does not tell it.
    cpu: Option<Duration>,
    bytes: u64,
    /// Times of the batches, each of which is also the time of each of its turns.
    batches: Vec<Duration>,
}

/// The floor: CPU time and latency of bare statements, measured on the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// CPU time; `None` where the system does not tell it.
    pub cpu_per_turn_us: Option<f64>,
    /// Percentile of a turn's whole time.
    pub p99: Option<Duration>,
}

/// The floor of turns of one shape, `batch` to a transaction, in a database in `folder`.
///
/// # Errors
/// The database failed.
pub fn measure_one(
    folder: &Path,
    shape: TurnShape,
    batch: usize,
    time: Duration,
) -> anyhow::Result<Floor> {
    let tally = measure(folder, shape, batch, time)?;
    Ok(Floor {
        cpu_per_turn_us: tally.cpu_per_turn_us(),
        p99: percentile(&tally.batches, 99),
    })
}

/// # Errors
/// The temporary folder or the database failed.
pub fn run(args: &FloorArgs) -> anyhow::Result<()> {
    ensure!(args.seconds > 0, "--seconds must be at least 1");
    ensure!(
        args.batch.iter().all(|batch| *batch > 0),
        "--batch must be at least 1"
    );
    println!(
        "one-tool turns, 5 durable steps each, synchronous=FULL, WAL, one thread, {} s each",
        args.seconds
    );
    println!(
        "{:>5} {:>9} {:>13} {:>11} {:>8} {:>8}",
        "batch", "turns/s", "CPU µs/turn", "bytes/turn", "p50 µs", "p99 µs"
    );
    let folder = std::env::temp_dir();
    let time = Duration::from_secs(u64::from(args.seconds));
    for &batch in &args.batch {
        print_row(batch, &measure(&folder, TurnShape::OneTool, batch, time)?);
    }
    Ok(())
}

fn print_row(batch: usize, tally: &Tally) {
    let cpu = tally
        .cpu_per_turn_us()
        .map_or("-".to_owned(), |us| format!("{us:.1}"));
    let time = |percent| {
        let time = percentile(&tally.batches, percent).unwrap_or_default();
        time.as_micros()
    };
    println!(
        "{batch:>5} {:>9.0} {cpu:>13} {:>11.0} {:>8} {:>8}",
        tally.turns as f64 / tally.elapsed.as_secs_f64(),
        tally.bytes as f64 / tally.turns as f64,
        time(50),
        time(99)
    );
}

impl Tally {
    fn cpu_per_turn_us(&self) -> Option<f64> {
        self.cpu
            .map(|cpu| cpu.as_secs_f64() * 1e6 / self.turns as f64)
    }
}

/// Takes turns for so long, in a database of its own in `folder`.
fn measure(folder: &Path, shape: TurnShape, batch: usize, time: Duration) -> anyhow::Result<Tally> {
    let folder = tempfile::tempdir_in(folder).context("making a temporary folder")?;
    let conn = schema::create(&folder.path().join("floor.db"))?;
    let mut turns = TurnFactory::new(shape);
    let mut tally = Tally::default();
    let cpu_before = cpu::of_this_thread();
    let began = Instant::now();
    while tally.elapsed < time {
        turns.run_batch(&conn, batch)?;
        tally.turns += u64::try_from(batch)?;
        let now = began.elapsed();
        tally.batches.push(now - tally.elapsed);
        tally.elapsed = now;
    }
    if let (Some(before), Some(after)) = (cpu_before, cpu::of_this_thread()) {
        tally.cpu = Some(after.saturating_sub(before));
    }
    tally.bytes = schema::bytes(&conn)?;
    tally.batches.sort_unstable();
    Ok(tally)
}

#[cfg(test)]
mod tests;
