//! Holdfast and etcd under the same load, in turns. `scripts/bench-peers` starts both and runs this.

mod args;
mod contest;
mod etcd;
mod goals;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use holdfast_bench::table;
use serde_json::{Value, json};

use crate::args::Args;
use crate::contest::Contest;

fn main() -> ExitCode {
    let args = Args::parse();
    // One thread, for every contestant: the members on the same machine need the rest.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime needs a few file descriptors only");
    match runtime.block_on(run(&args)) {
        Ok(text) => {
            // Whoever closed the pipe has read enough.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<String, Box<dyn std::error::Error>> {
    let contest = Contest::open(args).await?;
    let reports = contest.run(args).await?;
    let goals = goals::of(&reports);
    if args.json {
        let reports: Vec<Value> = reports.iter().map(|(_, report)| report.to_json()).collect();
        return Ok(json!({ "reports": reports, "goals": goals }).to_string());
    }
    let shown: Vec<String> = goals.iter().map(ToString::to_string).collect();
    Ok([table(reports.iter().map(|(_, report)| report)), shown.join("\n")].join("\n\n"))
}
