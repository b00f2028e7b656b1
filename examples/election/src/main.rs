//! `leader work` is one worker that leads whenever it can, `leader demo` shows three of them.

#![expect(clippy::print_stderr, reason = "a program tells why it fails")]

mod args;
mod belief;
mod decisions;
mod demo;
mod report;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use holdfast_client::Client;
use stage::asked_to_stop;

use crate::args::{Cli, Command, WorkArgs};

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Work(args) => work(args).await,
        Command::Demo(args) => {
            stage::perform(&args.cluster, async |stage, endpoints| {
                demo::play(stage, endpoints, args.ttl).await
            })
            .await
        }
    }
}

async fn work(args: WorkArgs) -> ExitCode {
    let client = match Client::builder().endpoints(&args.endpoints).build() {
        Ok(client) => client,
        Err(error) => {
            eprintln!("leader: --endpoints: {error}");
            return ExitCode::from(worker::EXIT_USAGE);
        }
    };
    let stop = async {
        if let Err(error) = asked_to_stop().await {
            eprintln!("leader: it cannot be asked to stop, only be killed: {error}");
            std::future::pending::<()>().await;
        }
    };
    match worker::work(&client, &args.into_post(), stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
