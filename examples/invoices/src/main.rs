//! `invoices run-once` is one instance of the job, `invoices demo` shows what happens when there are two.

#![expect(clippy::print_stderr, reason = "a program tells why it fails")]

use std::process::ExitCode;

use clap::Parser;
use holdfast_client::Client;
use invoices::args::{Cli, Command, RunArgs};
use invoices::{demo, job};

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::RunOnce(args) => run_once(args).await,
        Command::Demo(args) => {
            stage::perform(&args.cluster, async |stage, endpoints| {
                demo::play(stage, endpoints, args.db.as_deref()).await
            })
            .await
        }
    }
}

async fn run_once(args: RunArgs) -> ExitCode {
    let client = match Client::builder().endpoints(&args.endpoints).build() {
        Ok(client) => client,
        Err(error) => {
            eprintln!("invoices: --endpoints: {error}");
            return ExitCode::from(job::EXIT_USAGE);
        }
    };
    match job::run_once(&client, &args.into_job()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("invoices: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
