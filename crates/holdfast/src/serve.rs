//! `holdfast serve`: one node.

use holdfast_server::{Listeners, LogFormat, ServeConfig, ServeOptions};

use crate::args::{LogArgs, ServeArgs};
use crate::exit::Failure;
use crate::stop::StopSignals;
use crate::{join, logging, runtime};

/// Runs a node until it is told to stop.
pub(crate) fn run(args: ServeArgs, log: LogArgs) -> Result<(), Failure> {
    let config = resolve(args, log)?;
    logging::start_with(&config.log_level, config.log_format == LogFormat::Json)?;
    runtime::multi_threaded()?.block_on(async {
        let stop = StopSignals::new()?;
        let listeners = Listeners::bind(&config).map_err(|error| Failure::other(error.to_string()))?;
        holdfast_server::serve(config, listeners, stop.first(), join::join)
            .await
            .map_err(|error| Failure::other(error.to_string()))
    })
}

/// Flags and environment first, then the file, then the defaults.
fn resolve(args: ServeArgs, log: LogArgs) -> Result<ServeConfig, Failure> {
    let file = match &args.config {
        Some(path) if !path.as_os_str().is_empty() => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
            ServeOptions::from_toml(&text)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?
        }
        _ => ServeOptions::default(),
    };
    let given = ServeOptions {
        node_id: args.node_id,
        listen: args.listen,
        peer_listen: args.peer_listen,
        advertise: args.advertise,
        peer_advertise: args.peer_advertise,
        data_dir: args.data_dir,
        initial_cluster: args.initial_cluster,
        join: args.join,
        learner: args.learner.then_some(true),
        heartbeat_interval: args.heartbeat_interval,
        election_timeout: args.election_timeout,
        election_timeout_max: args.election_timeout_max,
        log_format: log.log_format,
        log_level: log.log_level,
        metrics_prefixes: args.metrics_prefixes,
    };
    given.merge(file).resolve().map_err(|error| Failure::usage(error.to_string()))
}
