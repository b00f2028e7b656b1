//! `holdfast dev`: a whole cluster in this process.

use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use holdfast_server::{DevCluster, DevOptions, ServeError, dev_cluster};

use crate::args::{DevArgs, LogArgs};
use crate::exit::Failure;
use crate::stop::StopSignals;
use crate::{logging, output, runtime};

/// Elections are no news where every start has one.
const LOG_LEVEL: &str = "warn,openraft=error";
/// After so long somebody who waits for `ready` wants to know why it does not come.
const READY_SOON: Duration = Duration::from_secs(10);

/// Runs a development cluster until it is told to stop.
pub(crate) fn run(args: DevArgs, log: &LogArgs) -> Result<(), Failure> {
    logging::start(log, LOG_LEVEL)?;
    runtime::multi_threaded()?.block_on(async {
        let stop = StopSignals::new()?;
        let options = DevOptions {
            nodes: args.nodes,
            base_port: args.base_port,
            data_dir: args.data_dir.filter(|path| !path.as_os_str().is_empty()),
            metrics_prefixes: args.metrics_prefixes,
            ..DevOptions::default()
        };
        let mut cluster = dev_cluster(options).await.map_err(explain)?;
        output::line(&cluster.urls().join("\n"))?;
        let mut stop = std::pin::pin!(stop.first());
        tokio::select! {
            ready = ready(&cluster) => ready.map_err(explain)?,
            () = &mut stop => return cluster.shutdown().await.map_err(explain),
        }
        output::line("ready")?;
        if std::io::stderr().is_terminal() {
            say(&what_next(&cluster.urls()[0]));
        }
        tokio::select! {
            error = cluster.failed() => Err(explain(error)),
            () = &mut stop => cluster.shutdown().await.map_err(explain),
        }
    })
}

/// Waits until the cluster serves, and says so if that takes long.
async fn ready(cluster: &DevCluster) -> Result<(), ServeError> {
    let mut ready = std::pin::pin!(cluster.ready());
    tokio::select! {
        ready = &mut ready => return ready,
        () = tokio::time::sleep(READY_SOON) => {}
    }
    let why = cluster.obstacle().unwrap_or_else(|| "not every node serves".into());
    say(&format!("holdfast: still not ready after {} s: {why}", READY_SOON.as_secs()));
    ready.await
}

/// What a person may do with the cluster.
fn what_next(url: &str) -> String {
    match url {
        "http://127.0.0.1:7101" => "Ctrl-C ends it; try: holdfast acquire db".into(),
        _ => format!("Ctrl-C ends it; try: holdfast acquire db --endpoints {url}"),
    }
}

/// Messages go to stderr. That nobody reads them is no reason to stop.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn explain(error: ServeError) -> Failure {
    match error {
        ServeError::Refused(what) => Failure::usage(what),
        ServeError::Listen { ref source, .. } if source.kind() == ErrorKind::AddrInUse => {
            Failure::other(format!("{error} (another holdfast dev? --base-port 0 takes free ports)"))
        }
        other => Failure::other(other.to_string()),
    }
}
