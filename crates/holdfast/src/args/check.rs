//! Arguments of `holdfast check`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

const AFTER_HELP: &str = "\
A history tells what clients did and were told (docs/history-format.md); holdfast chaos writes one. Several files of one
run are checked as one history.

Exit status:
  0   nothing is wrong
  1   something is; the operations that contradict each other are shown
  64  a history cannot be read; the line and the field are named";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CheckArgs {
    /// Files; `-` is standard input
    #[arg(required = true, value_name = "HISTORY")]
    pub(crate) histories: Vec<PathBuf>,
    /// Print the verdict as one JSON object
    #[arg(long, env = "HOLDFAST_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
    /// If something is wrong, draw it into this file too
    #[arg(long, env = "HOLDFAST_HTML", value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
