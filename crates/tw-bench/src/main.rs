//! Load and floors: how fast a part could be at best, and how fast it is.
//!
//! Figures to be compared are taken with `cargo run --profile dist -p tw-bench`, and servers built likewise.

mod all;
mod floor;
mod http;
mod load;
mod machine;
mod percentile;
mod server;
mod soak;
mod spoken;
mod upstream;

use std::process::ExitCode;

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
    /// The bare statements of one-tool turns, at several batch sizes
    Floor(floor::FloorArgs),
    /// The server beside nginx and a direct connection; exits with 1 if a target fails, with 2 if it could not measure
    All(all::AllArgs),
    /// The server under half of what it can take, for long, with faults; exits with 1 if something leaks or is left over
    Soak(soak::SoakArgs),
    /// The server inside this program, with a writer of choice
    #[command(hide = true)]
    Server(server::ServerArgs),
    /// A command on one CPU, which ends when this program's parent does
    #[command(hide = true)]
    Pinned(machine::cpus::PinnedArgs),
}

/// Exit code of a run that could not measure, which is neither good nor bad.
const NOT_MEASURED: u8 = 2;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Floor(args) => floor::run(&args).map(|()| ExitCode::SUCCESS),
        Command::All(args) => all::run(args),
        Command::Soak(args) => soak::run(&args),
        Command::Pinned(args) => machine::cpus::become_pinned(&args).map(|never| match never {}),
        Command::Server(args) => server::run(&args).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tw-bench: {error:#}");
            ExitCode::from(NOT_MEASURED)
        }
    }
}
