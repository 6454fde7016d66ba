//! Load and floors: how fast a part could be at best, and how fast it is.

mod floor;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "tw-bench",
    about = "Measures Turnwright and the floors it stands on"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The bare statements of one-tool turns, with integer keys and with 16-byte keys
    Floor(floor::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Floor(args) => floor::run(&args),
    }
}
