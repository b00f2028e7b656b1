//! The one binary: every subcommand.

mod api;
mod args;
mod bench;
mod chaos;
mod check;
mod cluster;
mod dev;
mod duration;
mod election;
mod exit;
mod healthcheck;
mod join;
mod lock;
mod logging;
mod many;
mod output;
mod print;
mod runtime;
mod serve;
mod session;
mod steering;
mod stop;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::args::{Cli, Command};
use crate::exit::{Failure, USAGE};

fn main() -> ExitCode {
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    let result = match parsed {
        Ok((cli, matches)) => run(cli, &matches),
        Err(error) => return explain(&error),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            // If not even stderr takes it, the status must do.
            let _ = writeln!(std::io::stderr(), "holdfast: {}", failure.message);
            failure.code()
        }
    }
}

fn run(cli: Cli, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let Cli { log, command } = cli;
    if !matches!(command, Command::Serve(_) | Command::Dev(_)) {
        logging::start(&log, "warn")?;
    }
    match command {
        Command::Serve(args) => serve::run(args, log).map(done),
        Command::Dev(args) => dev::run(args, &log).map(done),
        Command::Lock(args) => lock::run(&args, matches.subcommand_matches("lock")),
        Command::Elect(args) => lock::elect(&args, matches.subcommand_matches("elect")),
        Command::Election(command) => election::run(command).map(done),
        Command::Acquire(args) => api::acquire(args, matches.subcommand_matches("acquire")).map(done),
        Command::Renew(args) => api::renew(args).map(done),
        Command::Release(args) => api::release(args).map(done),
        Command::AcquireMany(args) => {
            many::acquire(args, matches.subcommand_matches("acquire-many")).map(done)
        }
        Command::RenewMany(args) => many::renew(args).map(done),
        Command::ReleaseMany(args) => many::release(args).map(done),
        Command::Watch(args) => steering::watch(args).map(done),
        Command::Attempt(args) => steering::attempt(args).map(done),
        Command::CheckFence(args) => steering::check_fence(args).map(done),
        Command::ForceRelease(args) => steering::force_release(args).map(done),
        Command::ForceLeave(args) => steering::force_leave(args).map(done),
        Command::History(args) => steering::history(args).map(done),
        Command::Why(args) => steering::why(args).map(done),
        Command::Get(args) => api::get(args).map(done),
        Command::Limit(args) => api::limit(args).map(done),
        Command::List(args) => api::list(args).map(done),
        Command::Session(command) => session::run(command).map(done),
        Command::Cluster(command) => cluster::run(command).map(done),
        Command::Bench(args) => bench::run(&args).map(done),
        Command::Chaos(args) => chaos::run(&args).map(done),
        Command::Check(args) => check::run(&args),
        Command::Healthcheck(args) => healthcheck::run(&args).map(done),
        Command::Version => output::line(concat!("holdfast ", env!("CARGO_PKG_VERSION"))).map(done),
    }
}

/// Help and version are answers; everything else that clap stops at is a usage error.
fn explain(error: &clap::Error) -> ExitCode {
    let _ = error.print(); // If nobody listens, the status must do.
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(USAGE),
    }
}
