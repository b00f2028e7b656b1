//! `holdfast check`: the verdict on a history.

use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use holdfast_history::{Check, Counts, History, Timeline, Verdict, check, picture, read};
use serde_json::json;

use crate::args::CheckArgs;
use crate::exit::{Failure, OTHER};
use crate::output;

/// Of each check so many violations are shown as text; the others mostly follow from the first.
const SHOWN_MAX: usize = 3;

/// Reads, checks, tells.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let histories = args.histories.iter().map(|path| read_file(path)).collect::<Result<Vec<_>, _>>()?;
    let history = History::merge(histories).expect("clap asks for one at least");
    let verdict = check(&history);
    if let Some(path) = args.html.as_ref().filter(|_| !verdict.is_clean()) {
        let written = std::fs::write(path, picture(&history, &verdict));
        written.map_err(|error| Failure::other(format!("cannot write {}: {error}", path.display())))?;
    }
    if args.json {
        output::line(&as_json(&verdict))?;
    } else {
        output::line(&as_text(&verdict))?;
    }
    Ok(if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(OTHER) })
}

fn read_file(path: &Path) -> Result<History, Failure> {
    let input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(path);
        let file =
            file.map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
        Box::new(BufReader::new(file))
    };
    read(input).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

fn as_json(verdict: &Verdict) -> String {
    let said = if verdict.is_clean() { "clean" } else { "violated" };
    let Verdict { counts, violations, not_made } = verdict;
    json!({ "verdict": said, "counts": counts, "violations": violations, "not_made": not_made }).to_string()
}

fn as_text(verdict: &Verdict) -> String {
    let mut text = match verdict.violations.len() {
        0 => format!("clean: {}", counted(&verdict.counts)),
        1 => format!("VIOLATED, once: {}", counted(&verdict.counts)),
        times => format!("VIOLATED, {times} times: {}", counted(&verdict.counts)),
    };
    for check in Check::ALL {
        for violation in verdict.of(check).take(SHOWN_MAX) {
            push(&mut text, format_args!("\n\n{}", Timeline(violation).to_string().trim_end()));
        }
        let hidden = verdict.of(check).count().saturating_sub(SHOWN_MAX);
        if hidden > 0 {
            push(&mut text, format_args!("\n  … and {hidden} more of {}", check.name()));
        }
    }
    for not_made in &verdict.not_made {
        push(&mut text, format_args!("\nnot checked: {}: {}", not_made.check.name(), not_made.why));
    }
    text
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.write_fmt(more).expect("a string takes everything");
}

fn counted(counts: &Counts) -> String {
    let Counts { operations, unknown, refused, grants, reads, locks, processes } = counts;
    format!(
        "{operations} operations ({unknown} unknown, {refused} refused), {grants} grants, {reads} reads, {locks} locks, \
         {processes} clients"
    )
}
