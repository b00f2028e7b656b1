//! `holdfast dev`: a whole cluster in this process.

use holdfast_server::{DevOptions, ServeError, dev_cluster};

use crate::args::{DevArgs, LogArgs};
use crate::exit::Failure;
use crate::stop::StopSignals;
use crate::{logging, output, runtime};

/// Runs a development cluster until it is told to stop.
pub(crate) fn run(args: DevArgs, log: &LogArgs) -> Result<(), Failure> {
    logging::start(log, "warn")?;
    runtime::multi_threaded()?.block_on(async {
        let stop = StopSignals::new()?;
        let options = DevOptions {
            nodes: args.nodes,
            base_port: args.base_port,
            data_dir: args.data_dir.filter(|path| !path.as_os_str().is_empty()),
            ..DevOptions::default()
        };
        let mut cluster = dev_cluster(options).await.map_err(explain)?;
        output::line(&cluster.urls().join("\n"))?;
        let mut stop = std::pin::pin!(stop.first());
        tokio::select! {
            ready = cluster.ready() => ready.map_err(explain)?,
            () = &mut stop => return cluster.shutdown().await.map_err(explain),
        }
        output::line("ready")?;
        tokio::select! {
            error = cluster.failed() => Err(explain(error)),
            () = &mut stop => cluster.shutdown().await.map_err(explain),
        }
    })
}

fn explain(error: ServeError) -> Failure {
    match error {
        ServeError::Refused(what) => Failure::usage(what),
        other => Failure::other(other.to_string()),
    }
}
