//! `warehouse sync` is one worker with one event, `warehouse demo` shows what two of them do with the same one.

#![expect(clippy::print_stderr, reason = "a program tells why it fails")]

mod args;
mod demo;
mod report;
mod retry;
mod stock;
mod sync;

use std::process::ExitCode;

use clap::Parser;
use holdfast_client::Client;

use crate::args::{Cli, Command, SyncArgs};

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Sync(args) => run_sync(args).await,
        Command::Demo(cluster) => stage::perform(&cluster, demo::play).await,
    }
}

async fn run_sync(args: SyncArgs) -> ExitCode {
    let client = match Client::builder().endpoints(&args.endpoints).build() {
        Ok(client) => client,
        Err(error) => {
            eprintln!("warehouse: --endpoints: {error}");
            return ExitCode::from(sync::EXIT_USAGE);
        }
    };
    match sync::sync(&client, &args.into_order()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warehouse: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
