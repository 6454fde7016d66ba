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
use rusqlite::Connection;

use schema::{BLOB_KEYS, INTEGER_KEYS, Variant};
use turns::{TurnFactory, TurnShape};

use crate::percentile::percentile;

/// Slices in which each variant runs, by turns with the other, since a disk's speed drifts.
const SLICES: u32 = 4;

#[derive(clap::Args)]
pub struct FloorArgs {
    /// Seconds for which each variant runs at each batch size.
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Turns that share each transaction.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    batch: Vec<usize>,
}

/// Work of one variant at one batch size.
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

/// Takes turns of one shape with the store's own keys, `batch` to a transaction, in a database in `folder`.
///
/// # Errors
/// The database failed.
pub fn measure_one(
    folder: &Path,
    shape: TurnShape,
    batch: usize,
    time: Duration,
) -> anyhow::Result<Floor> {
    let folder = tempfile::tempdir_in(folder).context("making a temporary folder")?;
    let conn = schema::create(&folder.path().join("floor.db"), &INTEGER_KEYS)?;
    let mut turns = TurnFactory::new(&INTEGER_KEYS, shape);
    let mut tally = Tally::default();
    run_slice(&conn, &mut turns, batch, time, &mut tally)?;
    tally.batches.sort_unstable();
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
        "one-tool turns, 5 durable steps each, synchronous=FULL, WAL, one thread, {} s each; ratio: blob over integer",
        args.seconds
    );
    println!(
        "{:>5}  {:<8} {:>9} {:>13} {:>11} {:>8} {:>8}",
        "batch", "keys", "turns/s", "CPU µs/turn", "bytes/turn", "p50 µs", "p99 µs"
    );
    for &batch in &args.batch {
        let [integer, blob] = measure(batch, Duration::from_secs(u64::from(args.seconds)))?;
        print_row(batch, "integer", &integer);
        print_row(batch, "blob", &blob);
        let cpu = match (integer.cpu_per_turn_us(), blob.cpu_per_turn_us()) {
            (Some(integer), Some(blob)) => format!("{:.2}", blob / integer),
            _ => "-".to_owned(),
        };
        println!(
            "{batch:>5}  {:<8} {:>9.2} {cpu:>13} {:>11.2}",
            "ratio",
            blob.turns_per_s() / integer.turns_per_s(),
            blob.bytes_per_turn() / integer.bytes_per_turn(),
        );
    }
    Ok(())
}

fn print_row(batch: usize, keys: &str, tally: &Tally) {
    let cpu = tally
        .cpu_per_turn_us()
        .map_or("-".to_owned(), |us| format!("{us:.1}"));
    let time = |percent| {
        let time = percentile(&tally.batches, percent).unwrap_or_default();
        time.as_micros()
    };
    println!(
        "{batch:>5}  {keys:<8} {:>9.0} {cpu:>13} {:>11.0} {:>8} {:>8}",
        tally.turns_per_s(),
        tally.bytes_per_turn(),
        time(50),
        time(99)
    );
}

impl Tally {
    fn turns_per_s(&self) -> f64 {
        self.turns as f64 / self.elapsed.as_secs_f64()
    }

    fn cpu_per_turn_us(&self) -> Option<f64> {
        self.cpu
            .map(|cpu| cpu.as_secs_f64() * 1e6 / self.turns as f64)
    }

    fn bytes_per_turn(&self) -> f64 {
        self.bytes as f64 / self.turns as f64
    }
}

fn measure(batch: usize, time: Duration) -> anyhow::Result<[Tally; 2]> {
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let open = |name, variant: &Variant| -> anyhow::Result<(Connection, TurnFactory)> {
        let conn = schema::create(&folder.path().join(name), variant)?;
        Ok((conn, TurnFactory::new(variant, TurnShape::OneTool)))
    };
    let mut sides = [
        open("integer.db", &INTEGER_KEYS)?,
        open("blob.db", &BLOB_KEYS)?,
    ];
    let mut tallies = [Tally::default(), Tally::default()];
    for slice in 0..SLICES {
        // In the order a b, b a, a b, b a.
        let order = if slice % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let (conn, turns) = &mut sides[side];
            run_slice(conn, turns, batch, time / SLICES, &mut tallies[side])?;
        }
    }
    for ((conn, _), tally) in sides.iter().zip(&mut tallies) {
        tally.bytes = schema::bytes(conn)?;
        tally.batches.sort_unstable();
    }
    Ok(tallies)
}

fn run_slice(
    conn: &Connection,
    turns: &mut TurnFactory,
    batch: usize,
    time: Duration,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let cpu_before = cpu::of_this_thread();
    let began = Instant::now();
    let mut last = Duration::ZERO;
    while last < time {
        turns.run_batch(conn, batch)?;
        tally.turns += u64::try_from(batch)?;
        let now = began.elapsed();
        tally.batches.push(now - last);
        last = now;
    }
    tally.elapsed += began.elapsed();
    if let (Some(before), Some(after)) = (cpu_before, cpu::of_this_thread()) {
        tally.cpu = Some(tally.cpu.unwrap_or_default() + after.saturating_sub(before));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
