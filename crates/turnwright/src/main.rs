//! The `turnwright` command: reads the configuration, wires the parts, serves.

// They panic when nobody reads any more: `printed` has others.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod backup;
mod cli;
mod config;
mod copy;
mod data_folder;
mod database;
mod demo;
mod doctor;
mod export;
mod handover;
mod import;
mod keys;
mod listen;
mod log_queue;
mod model_server;
mod new_file;
mod organization;
mod printed;
mod progress;
mod registry;
mod serve;
mod sql;
mod stuck;
mod tools;
mod users;
mod webhooks;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

/// A turn is many small pieces of text, made on one thread and freed on another: with this allocator a relayed request
/// takes a tenth less CPU than with that of glibc.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let command = cli::Cli::parse().command;
    let done = match command {
        cli::Command::Serve(args) => serve::run(args).await,
        cli::Command::Demo(args) => demo::run(args).await,
        cli::Command::Keys { command } => match command {
            cli::KeysCommand::Create(args) => keys::create(args).await,
            cli::KeysCommand::List(args) => keys::list(args).await,
            cli::KeysCommand::Revoke(args) => keys::revoke(args).await,
        },
        cli::Command::Tools {
            command: cli::ToolsCommand::Apply(args),
        } => tools::apply(args).await,
        cli::Command::Tools {
            command: cli::ToolsCommand::List(args),
        } => tools::list(args).await,
        cli::Command::Webhooks { command } => webhooks::run(command).await,
        cli::Command::Stuck(args) => stuck::run(args).await,
        cli::Command::Users {
            command: cli::UsersCommand::Erase(args),
        } => users::erase(args).await,
        cli::Command::Model(args) => model_server::run(args).await,
        cli::Command::Backup(args) => backup::run(&args),
        cli::Command::Copy(args) => copy::run(args).await,
        cli::Command::Export { command } => export::run(command).await,
        cli::Command::Import { command } => import::run(command).await,
        cli::Command::Sql(args) => sql::run(args).await,
        cli::Command::Doctor(args) => doctor::run(args).await,
        cli::Command::Config => config::print(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printed::complain(&format!("turnwright: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}
