//! `holdfast chaos`: clients that do everything that clients may do, and write down what they were told.

mod answer;
mod client;
mod connection;
mod holding;
mod marks;
mod recorder;

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use holdfast_client::fresh_token;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::client::Client;
use self::connection::Endpoint;
use self::recorder::{Recorder, clock_name};
use crate::args::ChaosArgs;
use crate::exit::Failure;
use crate::stop::StopSignals;
use crate::{output, runtime};

/// A call that is still open at the end is given up after this, and its outcome is unknown.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// Runs the clients to the end of their time.
pub(crate) fn run(args: &ChaosArgs) -> Result<(), Failure> {
    let endpoints = args.endpoints.iter().map(|text| Endpoint::parse(text)).collect::<Result<Vec<_>, _>>();
    let endpoints = endpoints.map_err(Failure::usage)?;
    let path = args.history.display();
    let cannot = |error: std::io::Error| Failure::other(format!("cannot write {path}: {error}"));
    let file = File::create(&args.history).map_err(cannot)?;
    let about =
        format!("holdfast chaos --seed {} --clients {} --locks {}", args.seed, args.clients, args.locks);
    let recorder = Recorder::begin(file, clock_name(), about).map_err(cannot)?;
    let recorder = Arc::new(recorder);
    let runtime = runtime::single_threaded()?;
    let signals = runtime.block_on(run_clients(args, endpoints.into(), &recorder));
    // A reader of standard input may be stuck in it.
    runtime.shutdown_background();
    signals?;
    let counts = recorder.finish().map_err(cannot)?;
    output::line(&format!("{counts}, in {path}"))
}

async fn run_clients(
    args: &ChaosArgs,
    endpoints: Arc<[Endpoint]>,
    recorder: &Arc<Recorder>,
) -> Result<(), Failure> {
    let signals = StopSignals::new()?;
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let run = &fresh_token().expose()[..8].to_owned();
    let mut clients = JoinSet::new();
    for number in 1..=args.clients {
        let client = Client::new(number, run, args, endpoints.clone(), recorder.clone());
        clients.spawn(client.run(end));
    }
    let mut marking = JoinSet::new();
    if args.marks {
        let recorder = recorder.clone();
        marking.spawn_blocking(move || marks::read(std::io::stdin().lock(), &recorder));
    }
    tokio::select! {
        () = signals.first() => {}
        () = tokio::time::sleep_until(end) => {}
    }
    let ended = async { while clients.join_next().await.is_some() {} };
    // Whoever is not done by then is cut off, like its call.
    let _ = tokio::time::timeout(LAST_CALLS, ended).await;
    Ok(())
}
