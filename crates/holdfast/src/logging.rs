//! Logs go to stderr, as text or as JSON lines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::LogArgs;
use crate::exit::Failure;

/// Starts logging as the arguments say.
pub(crate) fn start(log: &LogArgs, default_level: &str) -> Result<(), Failure> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let level = given(&log.log_level).unwrap_or_else(|| default_level.into());
    let is_json = match given(&log.log_format).as_deref() {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            let message = format!("--log-format (HOLDFAST_LOG_FORMAT) must be text or json, got `{other}`");
            return Err(Failure::usage(message));
        }
    };
    start_with(&level, is_json)
}

/// Starts logging at a level, or with a filter as `tracing` has it.
pub(crate) fn start_with(level: &str, is_json: bool) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(level)
        .map_err(|error| Failure::usage(format!("--log-level (HOLDFAST_LOG_LEVEL) `{level}`: {error}")))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if is_json {
        lines.json().flatten_event(true).init();
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).init();
    }
    Ok(())
}
