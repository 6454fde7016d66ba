//! The command as people run it: a process of its own, with its streams, signals and exit codes.

mod foreign_databases;
mod network;
mod process;

mod backup;
mod doctor;
mod export;
mod import;
mod import_again;
mod import_files;
mod import_tools;
mod jobs;
mod keys;
mod leave;
mod log;
mod postgres;
mod recover;
mod replicas;
mod restart;
mod serve;
mod socket;
mod sql;
mod stall;
mod tool_network;
mod tools;
mod webhooks;
mod wrong_upstream;
